"""Rounds, epochs and evaluation, on either engine.

A *round* is one pass of Algorithm 1's outer loop. An *epoch* is as many rounds as it takes the workers to read,
on average, their local data once. An *engine* takes a setting and returns a function that computes rounds:
(state, batch, signals) -> a result with the next `state` and the `weights`, (N, N) or None. If it keeps more
than the state between rounds, `resumable` in its result says whether a new engine would continue from there
to the same bytes. `plain` is the specification; `fast` computes the same for all workers at once.
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
    history: dict[str, list[float]]  # a column per number of `evaluate`, an entry per evaluation
    weights: np.ndarray | None  # (N, N) c(l, k) at [k, l] in the last round; None if the rule does not weigh
    weights_at: dict[int, np.ndarray]  # the same after some epochs, by their number
    accuracy: dict[str, list[float]]  # of every normal worker at the end, "own" and "whole" as in `evaluate`


def check(s: Setting) -> None:
    """Raises ValueError, naming the worker, if the setting cannot be trained.

    Not checked, and up to the caller: that X is finite, that a model of one's own knows the labels.
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
    """Every worker has a row, padding comes last, and every label is a class of the network, or -1."""
    if 0 in (rows := sizes(s)):
        raise ValueError(f"every worker needs a row to train on, got none for worker {rows.index(0)}")
    low, high = int(s.y.min()), int(s.y.max())
    w = module_of(s.X).zeros(s.model.layout.size, s.X.dtype)
    classes = s.model.logits(w, s.X[0, :1]).shape[-1] if isinstance(s.model, Network) else high + 1
    if low < -1 or high >= classes:
        raise ValueError(f"labels must be 0 to {classes - 1}, or -1 for padding, got {low} to {high}")
    if ((s.y[:, :-1] < 0) & (s.y[:, 1:] >= 0)).any():
        raise ValueError("rows that are padding must come last, got a row behind one with label -1")


def sizes(s: Setting) -> list[int]:
    """How many training rows each worker has."""
    return to_host((s.y >= 0).sum(axis=1)).tolist()


class Draws:
    """What a run draws at random, round by round, all of it from the seed's streams."""

    def __init__(self, s: Setting, W: Array, seed: int) -> None:
        self.batch_rng, self.attack_rng = draws.stream(seed, "batches"), draws.stream(seed, "attack")
        self.sizes, self.batch_size = sizes(s), s.batch_size
        self.rounds = draws.rounds_per_epoch(self.sizes, s.batch_size)
        self.draw, self.shape, self.like = ATTACKS[s.attack].draw, (len(s.attackers), W.shape[-1]), W
        self.done = self.rounds  # rounds done in this epoch: all, so that `next` starts another

    def next(self) -> tuple[Array, Array | None]:
        """The row numbers (N, B) of a round and the attack's signals, (F, d) or None."""
        if self.done == self.rounds:
            self.new_epoch()
        batch, self.done = self.batches[self.done], self.done + 1
        if self.draw is None:
            return batch, None
        return batch, module_of(self.like).asarray(
            self.draw(*self.shape, self.attack_rng).astype(self.like.dtype)
        )

    def new_epoch(self) -> None:
        self.before, self.done = self.batch_rng.bit_generator.state, 0
        rows = draws.batches(self.sizes, self.batch_size, self.rounds, self.batch_rng)
        self.batches = module_of(self.like).asarray(rows)

    def place(self) -> dict[str, Any]:
        """The place after a round, in a form that JSON can hold; `go_to` continues from there."""
        return {"batches": self.before, "done": self.done, "attack": self.attack_rng.bit_generator.state}

    def go_to(self, place: dict[str, Any]) -> None:
        self.batch_rng.bit_generator.state = place["batches"]
        self.new_epoch()
        self.done = place["done"]
        self.attack_rng.bit_generator.state = place["attack"]


def rounds(s: Setting, W: Array, seed: int, engine: Engine = fast) -> Iterator[Any]:
    """Endless rounds from the initial parameters W (N, d)."""
    return going_on(engine(s), algorithm.start(s, W), Draws(s, W, seed))


def going_on(step: Callable[..., Any], state: Any, drawn: Draws) -> Iterator[Any]:
    """Endless rounds from a state."""
    while True:
        result = step(state, *drawn.next())
        state = result.state
        yield result
        del result  # frees its memory for the next round


@quiet
def evaluate(s: Setting, test: HeldOut, W: Array, engine: Engine = fast) -> dict[str, float]:
    """Test accuracy and training loss of the normal workers, worst and mean.

    "own" is each worker on its own test split, which has the distribution that it trains for; "whole" is
    each worker on all workers' test data, which shows whether it learned from the others. The loss is the
    mean cross-entropy over all local data, without the L2 term.
    """
    return summary(*by_worker(s, test, W, engine))


def summary(own: Array, whole: Array, loss: Array, finite: Array) -> dict[str, float]:
    """The numbers of `evaluate`, from those of `by_worker`."""
    xp = module_of(own)
    numbers = {
        "worst_own": own.min(),
        "mean_own": own.mean(),
        "worst_whole": whole.min(),
        "mean_whole": whole.mean(),
        "highest_loss": loss.max(),
        "mean_loss": loss.mean(),
        "not_finite": (~finite).sum(),
    }
    values = to_host(xp.stack([xp.asarray(v, dtype="float64") for v in numbers.values()]))
    return dict(zip(numbers, values.tolist(), strict=True))


@quiet
def by_worker(s: Setting, test: HeldOut, W: Array, engine: Engine) -> tuple[Array, Array, Array, Array]:
    """The normal workers' accuracies "own" and "whole", training loss, and whether their models are finite."""
    xp = module_of(W)
    normal = xp.asarray(s.normal)
    w, network = W[normal], batched(s.model) if engine is fast else None
    if network:
        correct = network.predict(w, test.X[None]) == test.y
    else:
        correct = xp.stack([s.model.predict(w_k, test.X) == test.y for w_k in w])
    if network and xp is not np:  # one launch for all, padding included
        loss = network.risk(w, s.X[normal], s.y[normal])
    else:
        model, n = network or s.model, sizes(s)
        loss = xp.stack([model.risk(W[k], s.X[k, : n[k]], s.y[k, : n[k]]) for k in s.normal])
    own = test.own[normal]
    accuracy = (correct & own).sum(axis=-1) / own.sum(axis=-1)
    return accuracy, correct.mean(axis=-1), loss, xp.isfinite(w).all(axis=-1)


def listening(s: Setting, weights: np.ndarray) -> dict[str, float]:
    """Whom the normal workers listen to, by the weights (N, N) of a round.

    The weight on attackers, and how many neighbours besides oneself have any weight; means over the workers.
    """
    C = weights[s.normal]
    others = (C > 0).sum(axis=1) - (np.diagonal(weights)[s.normal] > 0)
    return {"attacker_weight": float(C[:, s.attackers].sum(axis=1).mean()), "passing": float(others.mean())}


def evaluated(epochs: int, every: int) -> list[int]:
    """After which epochs a run is evaluated."""
    return sorted({*range(every, epochs, every), epochs})


class Progress(NamedTuple):
    """A run between two rounds: all that it takes to go on as if it had never stopped."""

    state: Any  # of the engine: a named tuple of arrays and numbers
    place: dict[str, Any]  # of `Draws`
    history: dict[str, list[float]]
    weights_at: dict[int, np.ndarray]


def run(
    s: Setting,
    test: HeldOut,
    W: Array,
    seed: int,
    epochs: int,
    engine: Engine = fast,
    every: int = 1,
    since: Progress | None = None,
    after_round: Callable[[Callable[[], Progress]], None] = lambda progress: None,
) -> Result:
    """Trains from the initial parameters W (N, d); evaluates every `every` epochs and after the last.

    `after_round` is called after each round from which a run can continue, with a function that returns its
    `Progress`. Given that as `since`, another run of the same setting ends with the same bytes.
    """
    check(s)
    if not isinstance(epochs, int | np.integer) or epochs < 1:
        raise ValueError(f"needs a whole number of epochs, 1 or more, got {epochs!r}")
    if not test.own.any(axis=1).all():
        raise ValueError("every worker needs a row of its own to be tested on")
    drawn, state = Draws(s, W, seed), algorithm.start(s, W)
    history: dict[str, list[float]] = {}
    weights_at: dict[int, np.ndarray] = {}
    evaluations = evaluated(epochs, every)
    if since:
        state, history, weights_at = since.state, since.history, since.weights_at
        drawn.go_to(since.place)
    for result in going_on(engine(s), state, drawn):
        t, epoch = result.state.t, result.state.t / drawn.rounds
        at_times = epoch in (1, epochs // 4, epochs // 2, epochs)
        if at_times and (weights := result.weights) is not None:
            weights_at[int(epoch)] = to_host(weights)
        if epoch in evaluations:
            workers = by_worker(s, test, result.state.W, engine)
            numbers = summary(*workers)
            if (weights := result.weights) is not None:
                numbers |= listening(s, to_host(weights))
            for name, value in numbers.items():
                history.setdefault(name, []).append(value)
        if t == epochs * drawn.rounds:
            break
        if getattr(result, "resumable", True):
            after_round(lambda: Progress(result.state, drawn.place(), history, weights_at))  # noqa: B023
    accuracy = {"own": to_host(workers[0]).tolist(), "whole": to_host(workers[1]).tolist()}
    return Result(result.state.W, history, weights_at.get(epochs), weights_at, accuracy)
