"""Rounds, epochs and evaluation of a run, with any engine; by default the specification.

A *round* is one pass of Algorithm 1's outer loop. An *epoch* is as many rounds as it takes the workers to read
together as many rows as they hold. What an engine is, see `engine`; this file imports none but the plain one.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from refimpl import algorithm, draws, graphs
from refimpl.aggregate import RULES
from refimpl.algorithm import Setting
from refimpl.arrays import Array, module_of, quiet, to_host
from refimpl.attacks import ATTACKS, KNOWLEDGE
from refimpl.engine import Build, plain
from refimpl.models import MLP, Model, Network
from refimpl.optim import OPTIMIZERS


class HeldOut(NamedTuple):
    """The data that workers are tested on."""

    X: Array  # (M, ...) the whole test set
    y: Array  # (M,)
    own: Array  # (N, M) bool: which of it is worker k's own test split
    backdoor: tuple[Array, Array] | None = None
    """samples with a trigger, (m, ...), and the labels (m,) that attackers want for them, all of them wrong"""


class Trained(NamedTuple):
    """What a run ends with."""

    W: Array  # (N, d), the final parameters
    history: dict[str, list[float]]  # a column per number of `evaluate`, an entry per evaluation
    weights_at: dict[int, np.ndarray]
    """by number, c(l, k) at [k, l], (N, N), after some epochs and the last; empty if the rule does not weigh"""
    accuracy: dict[str, list[float]]  # of every normal worker at the end, "own" and "whole" as in `evaluate`


def check(s: Setting) -> None:
    """Raises ValueError, naming the worker, if the setting cannot be trained.

    Not checked, and up to the caller: that X is finite, that a model of one's own knows the labels.
    """
    N, F, attackers = len(s.graph), len(s.attackers), s.attackers.tolist()
    for what, value, names in (
        ("rule", s.rule, ["", *RULES]),  # "": the engine goes its own way, and checks what it needs itself
        ("attack", s.attack, list(ATTACKS)),
        ("risk", s.risk, ["local", "batch"]),
        ("optimizer", s.optimizer, list(OPTIMIZERS)),
    ):
        if value not in names:
            raise ValueError(f"unknown {what} {value!r}, choose from {', '.join(filter(None, names))}")
    if strange := [name for name in ATTACKS[s.attack].knows if name not in KNOWLEDGE]:
        raise ValueError(f"attack {s.attack} knows {strange[0]!r}, choose from {', '.join(KNOWLEDGE)}")
    of_one = [name for name in ATTACKS[s.attack].knows if KNOWLEDGE[name].of_receiver]
    if of_one and not ATTACKS[s.attack].per_receiver:
        raise ValueError(f"attack {s.attack} knows {of_one[0]!r} of a receiver: needs per_receiver=True")
    if F >= N:
        raise ValueError(f"at least one worker must be normal, got {F} attackers of {N} workers")
    if len(set(attackers) & set(range(N))) < F:
        raise ValueError(f"attackers must be different workers of 0 to {N - 1}, got {attackers}")
    if not (s.graph.diagonal().all() and np.array_equal(s.graph, s.graph.T)):
        raise ValueError("the graph must be symmetric, and every worker its own neighbour")
    graphs.require_connected(s.graph)
    check_labels(s)
    if s.rule:
        check_neighbourhoods(s, RULES[s.rule].require)


def check_neighbourhoods(s: Setting, require: Callable[[int, int], None]) -> None:
    """Raises ValueError, naming the worker, where require(n, f) does so for a normal worker with n models."""
    for k in s.normal:
        n = int(s.graph[k].sum())
        try:
            require(n, len(s.attackers))
        except ValueError as error:
            raise ValueError(f"worker {k}, with {n - 1} neighbours: {error}") from None


def check_labels(s: Setting) -> None:
    """Raises ValueError unless every worker has a row, and all rows fit the network."""
    if len(s.X) != len(s.graph) or list(map(len, s.X)) != (rows := sizes(s)):
        raise ValueError(f"each of the {len(s.graph)} workers needs samples and as many labels")
    if 0 in rows:
        raise ValueError(f"every worker needs a row to train on, got none for worker {rows.index(0)}")
    _check_fit(s.model, s.X, s.y)


def check_held_out(s: Setting, test: HeldOut) -> None:
    """Raises ValueError unless every worker has a row to be tested on, and all rows fit the network."""
    if not (tested := test.own.any(axis=1)).all():
        lacks = f"got none for worker {int(tested.argmin())}"
        raise ValueError(f"every worker needs a row of its own to be tested on, {lacks}")
    _check_fit(s.model, [test.X], [test.y])


def _check_fit(model: Model, samples: Sequence[Array], labels: Sequence[Array]) -> None:
    """Raises ValueError unless the network takes samples of this shape and has a class for every label."""
    low, high = min(int(y.min()) for y in labels), max(int(y.max()) for y in labels)
    classes = high + 1
    if isinstance(model, MLP | Network):
        for X in samples:
            if X.shape[1:] != model.sample:
                raise ValueError(f"the network takes samples of shape {model.sample}, got {X.shape[1:]}")
        w = module_of(samples[0]).zeros(model.layout.size, samples[0].dtype)
        classes = model.logits(w, samples[0][:1]).shape[-1]
    if low < 0 or high >= classes:
        raise ValueError(f"labels must be 0 to {classes - 1}, got {low} to {high}")


def sizes(s: Setting) -> list[int]:
    """How many training rows each worker has."""
    return list(map(len, s.y))


def bytes_to_neighbours(s: Setting, count: float, itemsize: int | None = None) -> float:
    """Bytes of `count` numbers (by default of the data's type) to each neighbour, mean over the workers."""
    neighbours = (s.graph.sum() - len(s.graph)) / len(s.graph)
    return float(neighbours * count * (itemsize or s.X[0].dtype.itemsize))


class Draws(Iterator[tuple[Array, Array | None]]):
    """What a run draws at random, endlessly, all of it from the seed's streams.

    For each round, the row numbers (N, B) and the attack's signals, (F, d) or None, in arrays like W (..., d).
    `rows` are all workers' numbers of rows, if the setting does not hold the data of all.
    """

    def __init__(self, s: Setting, W: Array, seed: int, rows: list[int] | None = None) -> None:
        self.batch_rng, self.attack_rng = draws.stream(seed, "batches"), draws.stream(seed, "attack")
        self.sizes, self.batch_size = rows or sizes(s), s.batch_size
        self.rounds = draws.rounds_per_epoch(self.sizes, s.batch_size)
        self.draw, self.shape, self.like = ATTACKS[s.attack].draw, (len(s.attackers), W.shape[-1]), W
        self.done = self.rounds  # rounds done in this epoch: all, so that the next one starts another

    def __next__(self) -> tuple[Array, Array | None]:
        if self.done == self.rounds:
            self.new_epoch()
        batch, self.done = self.batches[self.done], self.done + 1
        if self.draw is None:
            return batch, None
        return batch, module_of(self.like).asarray(
            self.draw(*self.shape, self.attack_rng).astype(self.like.dtype)
        )

    def new_epoch(self) -> None:
        """Draws the batches of the next epoch."""
        self.before, self.done = self.batch_rng.bit_generator.state, 0
        rows = draws.batches(self.sizes, self.batch_size, self.rounds, self.batch_rng)
        self.batches = module_of(self.like).asarray(rows)

    def position(self) -> dict[str, Any]:
        """The state of the streams after a round, in a form that JSON can hold; `restore` continues from it."""
        return {"batches": self.before, "done": self.done, "attack": self.attack_rng.bit_generator.state}

    def restore(self, position: dict[str, Any]) -> None:
        """Continues from a position."""
        self.batch_rng.bit_generator.state = position["batches"]
        self.new_epoch()
        self.done = position["done"]
        self.attack_rng.bit_generator.state = position["attack"]


def rounds(s: Setting, W: Array, seed: int, engine: Build = plain) -> Iterator[Any]:
    """Endless rounds from the initial parameters W (N, d)."""
    return rounds_from(engine(s).step, algorithm.start(s, W), Draws(s, W, seed))


def rounds_from(step: Callable[..., Any], state: Any, drawn: Draws) -> Iterator[Any]:
    """Endless rounds from a state."""
    for batch, signals in drawn:
        result = step(state, batch, signals)
        state = result.state
        yield result
        del result  # frees its memory for the next round


def evaluate(s: Setting, test: HeldOut, W: Array, model: Model) -> dict[str, float]:
    """Test accuracy and training loss of the normal workers, worst and mean.

    "own" is each worker on its own test split, which has the distribution that it trains for; "whole" is
    each worker on all workers' test data, which shows whether it learned from the others. The loss is the
    mean cross-entropy over all local data, without the L2 term. `backdoor_success`, if there is one.
    """
    return summary(*scores_by_worker(s, test, W, model)) | backdoor_success(s, test, W, model)


def summary(own: Array, whole: Array, loss: Array, finite: Array) -> dict[str, float]:
    """The numbers of `evaluate`, from those of `scores_by_worker`."""
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
def scores_by_worker(s: Setting, test: HeldOut, W: Array, model: Model) -> tuple[Array, Array, Array, Array]:
    """The normal workers' accuracies "own" and "whole", training loss, and whether their models are finite."""
    xp, normal = module_of(W), module_of(W).asarray(s.normal)
    correct = xp.stack([model.predict(W[k], test.X) == test.y for k in s.normal])
    loss = xp.stack([model.risk(W[k], s.X[k], s.y[k]) for k in s.normal])
    own = test.own[normal]
    accuracy = (correct & own).sum(axis=1) / own.sum(axis=1)
    return accuracy, correct.mean(axis=1), loss, xp.isfinite(W[normal]).all(axis=1)


@quiet
def backdoor_success(s: Setting, test: HeldOut, W: Array, model: Model) -> dict[str, float]:
    """The share of samples with a trigger that get the attackers' label, in the mean over normal workers."""
    if test.backdoor is None:
        return {}
    X, wanted = test.backdoor
    shares = module_of(W).stack([(model.predict(W[k], X) == wanted).mean() for k in s.normal])
    return {"backdoor_success": float(shares.mean())}


def trust_summary(s: Setting, weights: np.ndarray) -> dict[str, float]:
    """The trust of the normal workers in others, from the weights (N, N) of a round: means over these workers.

    The weight on attackers, and the number of neighbours besides oneself that have any weight.
    """
    C = weights[s.normal]
    others = (C > 0).sum(axis=1) - (np.diagonal(weights)[s.normal] > 0)
    return {"attacker_weight": float(C[:, s.attackers].sum(axis=1).mean()), "passing": float(others.mean())}


def evaluation_epochs(epochs: int, every: int) -> list[int]:
    """The epochs after which a run is evaluated: every so many, and the last."""
    return [*range(every, epochs, every), epochs]


class Progress(NamedTuple):
    """A run between two rounds: all that it takes to go on as if it had never stopped."""

    state: Any  # of the engine: a named tuple of arrays and numbers
    position: dict[str, Any]  # of `Draws`
    history: dict[str, list[float]]
    weights_at: dict[int, np.ndarray]


def run(
    s: Setting,
    test: HeldOut,
    W: Array,
    seed: int,
    epochs: int,
    engine: Build = plain,
    every: int = 1,
    since: Progress | None = None,
    after_round: Callable[[Callable[[], Progress]], None] = lambda progress: None,
) -> Trained:
    """Trains from the initial parameters W (N, d); evaluates every `every` epochs and after the last.

    `after_round` is called after each round from which a run can continue, with a function that returns its
    `Progress`. Given that as `since`, another run of the same setting ends with the same bytes.
    """
    check(s)
    if not isinstance(epochs, int | np.integer) or epochs < 1:
        raise ValueError(f"needs a whole number of epochs, 1 or more, got {epochs!r}")
    check_held_out(s, test)
    drawn, state = Draws(s, W, seed), algorithm.start(s, W)
    history: dict[str, list[float]] = {}
    weights_at: dict[int, np.ndarray] = {}
    if since:
        state, history, weights_at = since.state, since.history, since.weights_at
        drawn.restore(since.position)
    step, model = engine(s)
    for result in rounds_from(step, state, drawn):
        t, epoch = result.state.t, result.state.t / drawn.rounds
        at_times = epoch in (1, epochs // 4, epochs // 2, epochs)
        if at_times and (weights := result.weights) is not None:
            weights_at[int(epoch)] = to_host(weights)
        if t % (every * drawn.rounds) == 0 or epoch == epochs:  # in `evaluation_epochs`
            workers = scores_by_worker(s, test, result.state.W, model)
            numbers = summary(*workers) | backdoor_success(s, test, result.state.W, model)
            if (weights := result.weights) is not None:
                numbers |= trust_summary(s, to_host(weights))
            numbers |= getattr(result, "counts", {})
            for name, value in numbers.items():
                history.setdefault(name, []).append(value)
        if epoch == epochs:
            break
        if getattr(result, "resumable", True):
            after_round(lambda: Progress(result.state, drawn.position(), history, weights_at))  # noqa: B023
    accuracy = {"own": to_host(workers[0]).tolist(), "whole": to_host(workers[1]).tolist()}
    return Trained(result.state.W, history, weights_at, accuracy)
