"""Rounds, epochs and evaluation, on either engine.

A *round* is one pass of Algorithm 1's outer loop. An *epoch* is as many rounds as it takes the workers to read,
on average, their local data once. An *engine* takes a setting and returns a function that computes rounds:
(state, batch, signals) -> a result with the next `state` and the `weights`, (N, N) or None. `plain` is the
specification; `fast` computes the same for all workers at once.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from refimpl import algorithm, draws, graphs
from refimpl.aggregate import RULES
from refimpl.algorithm import Setting
from refimpl.arrays import Array, module_of, quiet, to_host
from refimpl.attacks import ATTACKS
from refimpl.fast.engine import engine as fast
from refimpl.fast.networks import batched
from refimpl.models import Network
from refimpl.optim import OPTIMIZERS

Engine = Callable[[Setting], Callable[..., Any]]


def plain(setting: Setting) -> Callable[..., algorithm.Round]:
    """The specification as an engine: `algorithm.round_`."""
    return lambda state, batch, signals=None: algorithm.round_(setting, state, batch, signals)


class HeldOut(NamedTuple):
    """The data that workers are tested on."""

    X: Array  # (M, ...) the whole test set
    y: Array  # (M,)
    own: Array  # (N, M) bool: which of it is worker k's own test split


class Result(NamedTuple):
    W: Array  # (N, d), the final parameters
    history: dict[str, list[float]]  # a column per number of `evaluate`, an entry per epoch
    weights: np.ndarray | None  # (N, N) c(l, k) at [k, l] in the last round; None if the rule does not weigh


def check(s: Setting) -> None:
    """Raises ValueError, naming the worker, if the setting cannot be trained.

    What it does not look at is the caller's duty: that X is finite, that a model of one's own knows the labels.
    """
    N, F, attackers = len(s.graph), len(s.attackers), s.attackers.tolist()
    known: tuple[tuple[str, str, Any], ...] = (
        ("rule", s.rule, RULES),
        ("attack", s.attack, ATTACKS),
        ("risk", s.risk, ("local", "batch")),
        ("optimizer", s.optimizer, OPTIMIZERS),
    )
    for what, value, names in known:
        if value not in names:
            raise ValueError(f"unknown {what} {value!r}, choose from {', '.join(names)}")
    if F >= N:
        raise ValueError(f"one worker must be normal, got {F} attackers of {N} workers")
    if len(set(attackers) & set(range(N))) < F:
        raise ValueError(f"attackers must be different workers of 0 to {N - 1}, got {attackers}")
    if not (s.graph.diagonal().all() and np.array_equal(s.graph, s.graph.T)):
        raise ValueError("the graph must be symmetric, and every worker its own neighbour")
    graphs.require_connected(s.graph)
    check_labels(s)
    for k in s.normal:
        n = int(s.graph[k].sum())
        try:
            RULES[s.rule].require(n, F)
        except ValueError as error:
            raise ValueError(f"worker {k}, with {n - 1} neighbours: {error}") from None


def check_labels(s: Setting) -> None:
    """Every worker has a row, and every label is a class of the network, or -1."""
    if 0 in (rows := sizes(s)):
        raise ValueError(f"every worker needs a row to train on, got none for worker {rows.index(0)}")
    low, high = int(s.y.min()), int(s.y.max())
    w = module_of(s.X).zeros(s.model.layout.size, s.X.dtype)
    classes = s.model.logits(w, s.X[0, :1]).shape[-1] if isinstance(s.model, Network) else high + 1
    if low < -1 or high >= classes:
        raise ValueError(f"labels must be 0 to {classes - 1}, or -1 for padding, got {low} to {high}")


def sizes(s: Setting) -> list[int]:
    """How many training rows each worker has."""
    return to_host((s.y >= 0).sum(axis=1)).tolist()


def rounds(s: Setting, W: Array, seed: int, engine: Engine = fast) -> Iterator[Any]:
    """Endless rounds from the initial parameters W (N, d); every draw comes from the seed's streams."""
    xp, step, state = module_of(W), engine(s), algorithm.start(s, W)
    counts = sizes(s)
    per_epoch = draws.rounds_per_epoch(counts, s.batch_size)
    batch_rng, attack_rng = draws.stream(seed, "batches"), draws.stream(seed, "attack")
    draw, F = ATTACKS[s.attack].draw, len(s.attackers)
    while True:
        for batch in xp.asarray(draws.batches(counts, s.batch_size, per_epoch, batch_rng)):
            signals = draw and xp.asarray(draw(F, W.shape[-1], attack_rng).astype(W.dtype))
            result = step(state, batch, signals)
            state = result.state
            yield result
            del result  # frees its memory for the next round


@quiet
def evaluate(s: Setting, test: HeldOut, W: Array, engine: Engine = fast) -> dict[str, float]:
    """Test accuracy and training loss of the normal workers, worst and mean.

    "own" is each worker on its own test split, which has the distribution that it trains for; "whole" is
    each worker on all workers' test data, which asks whether it learned from the others. The loss is the mean
    cross-entropy over all local data, without the L2 term.
    """
    xp = module_of(W)
    normal = xp.asarray(s.normal)
    w, X, y = W[normal], s.X[normal], s.y[normal]
    network = batched(s.model) if engine is fast else None
    if network:
        correct, loss = network.predict(w, test.X[None]) == test.y, network.risk(w, X, y)
    else:
        correct = xp.stack([s.model.predict(w_k, test.X) == test.y for w_k in w])
        loss = xp.stack([s.model.risk(*own) for own in zip(w, X, y, strict=True)])
    own = test.own[normal]
    accuracy_own = (correct & own).sum(axis=-1) / own.sum(axis=-1)
    accuracy_whole = correct.mean(axis=-1)
    numbers = {
        "worst_own": accuracy_own.min(),
        "mean_own": accuracy_own.mean(),
        "worst_whole": accuracy_whole.min(),
        "mean_whole": accuracy_whole.mean(),
        "highest_loss": loss.max(),
        "mean_loss": loss.mean(),
        "not_finite": (~xp.isfinite(w).all(axis=-1)).sum(),
    }
    values = to_host(xp.stack([xp.asarray(v, dtype="float64") for v in numbers.values()]))
    return dict(zip(numbers, values.tolist(), strict=True))


def run(s: Setting, test: HeldOut, W: Array, seed: int, epochs: int, engine: Engine = fast) -> Result:
    """Trains from the initial parameters W (N, d) and evaluates after every epoch."""
    check(s)
    if not isinstance(epochs, int | np.integer) or epochs < 1:
        raise ValueError(f"needs a whole number of epochs, 1 or more, got {epochs!r}")
    if not test.own.any(axis=1).all():
        raise ValueError("every worker needs a row of its own to be tested on")
    history: dict[str, list[float]] = {}
    per_epoch = draws.rounds_per_epoch(sizes(s), s.batch_size)
    for t, result in enumerate(rounds(s, W, seed, engine), start=1):
        if t % per_epoch == 0:
            for name, value in evaluate(s, test, result.state.W, engine).items():
                history.setdefault(name, []).append(value)
        if t == epochs * per_epoch:
            break
    weights = result.weights
    return Result(result.state.W, history, None if weights is None else to_host(weights))
