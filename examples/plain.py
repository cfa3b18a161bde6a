"""The whole of Algorithm 1 on Spambase under the ALIE attack, from top to bottom.

Ten workers, each with a different share of spam; three are adversarial. All that is called here is in the
specification or in `data_loaders`, and `examples/spambase.py --plain --rules adaptive --attacks alie` ends with
the same parameters. 200 epochs take about a minute and a half.

    python examples/plain.py [epochs]

The paper's epoch t, one local step and one aggregation of each worker, is a round here; an epoch is 19 rounds.
"Ours" marks what the paper does not say; docs/CHOICES.md has more.
"""

import sys

import numpy as np

from data_loaders import spambase
from data_loaders.partition import nonuniform, split
from refimpl import draws, models
from refimpl.algorithm import Setting, round_, start

N, F, BATCH, MU = 10, 3, 20, 0.01  # N and F: Sec. 5; the batch size and the step size: supplement C
SEED, TEST_SHARE = 0, 0.2  # ours


def main(epochs: int = 200) -> np.ndarray:  # 200: the x axis of Fig. 3
    """Prints the worst normal worker's test accuracy; returns all parameters, (N, d)."""
    data, rng = spambase.load(), draws.stream(SEED, "partition")
    train, test = split(nonuniform(data.y, N, rng), TEST_SHARE, rng)  # row numbers of each worker
    seen = data.X[np.concatenate(train)]
    X = (data.X - seen.mean(axis=0)) / seen.std(axis=0)  # ours: standardised by all workers' training rows

    s = Setting(
        model=models.mlp([57, 20, 2]),  # supplement C
        X=[X[rows] for rows in train],
        y=[data.y[rows] for rows in train],
        graph=np.ones((N, N), dtype=bool),  # ours: everyone hears everyone
        attackers=draws.attackers(N, F, draws.stream(SEED, "attackers")),
        rule="adaptive",  # Eq. (6)
        attack="alie",  # ours: from all honest models
        risk="local",  # r_k over all of S_k, Sec. 2.1
        optimizer="sgd",  # Eq. (2)
        step_size=MU,
    )
    state = start(s, draws.initial(s.model.layout, N, draws.stream(SEED, "init")))
    sizes, rng = [len(rows) for rows in train], draws.stream(SEED, "batches")
    for _ in range(epochs):
        for batch in draws.batches(sizes, BATCH, draws.rounds_per_epoch(sizes, BATCH), rng):
            state = round_(s, state, batch).state  # the body of Algorithm 1's outer loop

    accuracy = [np.mean(s.model.predict(state.W[k], X[test[k]]) == data.y[test[k]]) for k in s.normal]
    print(f"worst test accuracy of the normal workers, each on its own split: {min(accuracy):.4f}")
    return state.W


if __name__ == "__main__":
    if len(sys.argv) > 2 or not all(map(str.isdecimal, sys.argv[1:])):
        sys.exit(__doc__)
    main(*map(int, sys.argv[1:]))
