"""The whole of Algorithm 1 on Spambase under the ALIE attack, from top to bottom.

Ten workers, each with a different share of spam; three are adversarial. All that is called here is in the
specification or in `data_loaders`, and `examples/spambase.py --plain --rules adaptive --attacks alie` ends with
the same parameters. 200 epochs take about a minute and a half.

    python examples/plain.py [epochs]

What the paper does not say, and README.md's table of choices does: how the rows are dealt, that features are
standardised, the initial values, what ALIE knows, that the test accuracy is that on a worker's own split.
"""

import sys

import numpy as np

from data_loaders import spambase
from data_loaders.partition import nonuniform, split
from refimpl import draws, models
from refimpl.algorithm import Setting, round_, start

N, F, BATCH, MU, SEED = 10, 3, 20, 0.01, 0  # supplement C; the seed is ours


def main(epochs: int = 200) -> np.ndarray:
    """Prints the worst normal worker's test accuracy; returns all parameters, (N, d)."""
    data, dealing = spambase.load(), draws.stream(SEED, "partition")
    rows = nonuniform(data.y, N, dealing)  # of each worker
    train, test = split(rows, 0.2, dealing)
    seen = data.X[np.concatenate(train)]
    X = (data.X - seen.mean(axis=0)) / seen.std(axis=0)  # over all workers' training rows

    s = Setting(
        model=models.mlp([57, 20, 2]),
        X=[X[own] for own in train],
        y=[data.y[own] for own in train],
        graph=np.ones((N, N), dtype=bool),  # everyone hears everyone
        attackers=draws.attackers(N, F, draws.stream(SEED, "attackers")),
        rule="adaptive",  # Eq. (6)
        attack="alie",
        risk="local",  # r_k over all of S_k, Sec. 2.1
        optimizer="sgd",  # Eq. (2)
        step_size=MU,
    )
    state = start(s, draws.initial(s.model.layout, N, draws.stream(SEED, "init")))
    sizes, drawing = [len(own) for own in train], draws.stream(SEED, "batches")
    for _ in range(epochs):
        for batch in draws.batches(sizes, BATCH, draws.rounds_per_epoch(sizes, BATCH), drawing):
            state = round_(s, state, batch).state  # Algorithm 1

    own = [np.mean(s.model.predict(state.W[k], X[test[k]]) == data.y[test[k]]) for k in s.normal]
    print(f"worst test accuracy of the normal workers, each on its own split: {min(own):.4f}")
    return state.W


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
