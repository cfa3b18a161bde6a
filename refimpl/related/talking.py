"""A rule that is worth talking for: a bar by what a worker knows or chooses, checked mixtures, two tracks.

Not the paper's, and of no other paper: trials of this project. Eq. (6) isolates, as after a local step hardly
any neighbour is as good on one's own data as oneself. All four systems step, send, and score what they hear.
Other systems score on the round's batch. `held-out-bar` scores on rows held out, whatever the setting's risk;
the other three by that risk, on all local data or on the round's batch, as Eq. (6), two of them without the
rows held out. Attackers that know the receiver's data know what it scores on.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from refimpl.aggregate import inverse_risk_weights
from refimpl.algorithm import Setting, State, risk
from refimpl.arrays import Array, module_of, quiet, to_host
from refimpl.optim import OPTIMIZERS
from refimpl.related.requirements import Requirement
from refimpl.related.rounds import Heard, SystemRound, gradients, once, step_then_mix, steps, with_slots
from refimpl.related.schedules import Schedule

EVERY = 5  # the fifth part of the rows is held out where that is needed
MARGINS = (0.0, 0.1, 0.2, 0.4, 0.8)  # that a worker chooses among, the strictest first

Mixture = tuple[Array, np.ndarray]  # a model (d,) and the weights (n,) of those heard that it is made of


def best_guess(y: Array) -> float:
    """The risk of the best constant guess on these labels: their entropy, in nats."""
    counts = to_host(module_of(y).bincount(y))
    shares = counts[counts > 0] / len(y)
    return float(-(shares * np.log(shares)).sum())


def skill(own: float, guess: float, m: float) -> float:
    """The bar max(r_k, r_k + m (r_0 - r_k)): who passes explains the share 1 - m of what worker k explains.

    `own` is r_k, `guess` is r_0. Infinite if r_k is not finite: as in Eq. (6), whatever is finite passes.
    """
    return max(own, own + m * (guess - own)) if math.isfinite(own) else math.inf


def checked_mixture(h: Heard, bar: float, risks: np.ndarray) -> Mixture:
    """A mixture of one's own model and of those heard whose risk is not above the bar, and the weights (n,).

    Models are added in the order of their risk, ties to the lowest number, with weights 1 / r, Eq. (5). One is
    kept only if the risk of the mixture with it is not above the bar. A worker whose own risk is not finite
    starts with the best that it hears; if no risk is finite, it keeps its own model.

    Guarantee: if r_k is finite, the result w has r_k(w) <= bar, whatever was sent and without convexity. For
    the mixture starts as one's own model, and the bar is not below r_k; and it changes only to a mixture whose
    risk has been computed and found not above the bar. NaN is not below anything, and so is not kept.
    If all risks are convex, the check drops nothing, but for rounding, which may cost an echo of one's own
    model its weight: a mixture of models not above the bar is not above it either (Jensen). So with the bar at
    r_k this is then Eq. (6); without convexity it uses fewer models.
    """
    passing = [int(l) for l in np.argsort(risks, kind="stable") if math.isfinite(risks[l]) and risks[l] <= bar]
    kept = [h.own] if math.isfinite(risks[h.own]) else passing[:1] or [h.own]
    mixture, weights = h.models[kept[0]], np.eye(len(risks), dtype=risks.dtype)[kept[0]]
    for l in passing:
        if l in kept:
            continue
        c = inverse_risk_weights(risks[[*kept, l]])
        share = float(c[-1])  # the others keep their proportions: weights 1 / r again
        trial = (1 - share) * mixture + share * h.models[l]
        r = float(h.risk(trial))
        if math.isfinite(r) and r <= bar:
            kept, mixture = [*kept, l], trial
            weights[kept] = c
    return mixture, weights


@quiet
def skill_bar(
    s: Setting, state: State, batch: Array, signals: Array | None = None, m: float = 0.1
) -> SystemRound:
    """A round with a skill bar: a step, then the `checked_mixture` of who passes the bar of `skill`.

    r_0 is `best_guess` on the data that models are scored on. The filter is that of Eq. (6) with m = 0, and at
    the start, when nobody is better than r_0.
    """
    return listen(s, state, batch, signals, (m,), judge=s)


@quiet
def held_out_bar(
    s: Setting, state: State, batch: Array, signals: Array | None = None, m: float = 0.0
) -> SystemRound:
    """A round with a skill bar that scores on rows which the worker does not step on: see `apart`.

    On these one's own model has no advantage, so that others pass even with m = 0. Attackers that know the
    receiver's data know these rows, and no others.
    """
    rest, last = apart(s)
    return listen(rest, state, rows_of(rest, batch), signals, (m,), judge=last)


@quiet
def chosen_bar(
    s: Setting,
    state: State,
    batch: Array,
    signals: Array | None = None,
    margins: Sequence[float] = MARGINS,
) -> SystemRound:
    """A round in which each worker chooses its margin by rows that it does not step on: see `apart`.

    It makes the `checked_mixture` of each margin, scored on the rest of its rows as in `skill_bar`, and takes
    the one of the lowest risk on the rows held out: the first of equals, where its own model comes before all
    mixtures. So it listens only if that is better than not listening on rows that decided nothing else.

    Guarantee, whatever is sent and without convexity: if r_k, its own risk on what it scores on, is finite, its
    next model has a risk there of at most the bar of the widest margin; and on the rows held out one of at most
    that of its own model. For its own model is one of those that it chooses among, which is the second part; of
    that model the first is true as no bar is below r_k, and of a mixture by `checked_mixture`, as `skill` does
    not fall when m grows. Rows that choose in every round are no test: of other rows this says nothing.

    Attackers that know the receiver's data know the rest of its rows, and not those that choose.
    """
    rest, last = apart(s)
    return listen(rest, state, rows_of(rest, batch), signals, margins, judge=rest, chooser=last)


@quiet
def two_tracks(
    s: Setting, state: State, batch: Array, signals: Array | None = None, m: float = 0.2
) -> SystemRound:
    """A round of two models of each worker: one never listens, the other has a skill bar, and is sent.

    Neither steps on the rows held out by `apart`. A worker uses, and is tested with, the one of lower risk on
    these; if they are level, the one that never listens. So the tracks are `local` and `skill_bar` on the rest
    of the rows, and nothing that is sent moves the first. Weights are those of the second. The system's slots
    of the memory are the two models, then what the optimiser of the one that never listens remembers.
    Attackers that know the receiver's data know the rest of its rows, and not those held out.
    """
    (rest, last), slots = apart(s), OPTIMIZERS[s.optimizer].slots
    xp, rows = module_of(state.W), rows_of(rest, batch)
    state = with_slots(state, state.W, state.W, *state.memory)
    alone = State(state.memory[slots], state.memory[slots + 2 :], state.t)
    second = State(state.memory[slots + 1], state.memory[:slots], state.t)
    talks = listen(rest, second, rows, signals, (m,), judge=rest)
    A, remembered = steps(rest, alone.W, gradients(rest, alone.W, rows), alone)
    B = talks.state.W
    W = B.copy()
    for k in s.normal:
        tracks = A[k], B[k]
        W[k] = tracks[lowest(tracks, partial(risk, s, X=last.X[k], y=last.y[k]))]
    memory = xp.concatenate([talks.state.memory, xp.stack([A, B]), remembered])
    return talks._replace(state=State(W, memory, state.t + 1))


def listen(
    s: Setting,
    state: State,
    batch: Array,
    signals: Array | None,
    margins: Sequence[float],
    judge: Setting,
    chooser: Setting | None = None,
) -> SystemRound:
    """A round in which models are scored on what `judge` says; the weights are as in `algorithm.Round`.

    Of several margins, a worker takes the one whose mixture is best on all its data of `chooser`, if any is
    better than its own model.
    """
    if wrong := [m for m in margins if not 0 <= m <= 1]:
        raise ValueError(f"the skill bar needs 0 <= m <= 1, got {wrong[0]}")
    N = len(s.graph)
    C = np.zeros((N, N), state.W.dtype)

    def mix(h: Heard) -> Array:
        k = h.senders[h.own]
        _, y = judge.scored_on(k, batch[k])
        h = h._replace(risk=once(h.risk))
        risks = np.array([float(h.risk(w)) for w in h.models], state.W.dtype)
        bars = [skill(float(risks[h.own]), best_guess(y), m) for m in margins]
        mixtures = [checked_mixture(h, bar, risks) for bar in bars]
        if chooser:
            alone = h.models[h.own], np.eye(len(risks), dtype=risks.dtype)[h.own]
            held_out = once(lambda w: risk(s, w, chooser.X[k], chooser.y[k]))
            choices = [alone, *mixtures]
            mixtures = [choices[lowest([w for w, _ in choices], held_out)]]
        model, C[k, h.senders] = mixtures[0]
        return model

    result = step_then_mix(s, state, batch, signals, mix, judge=judge)
    return result._replace(weights=module_of(state.W).asarray(C))


def lowest(models: Sequence[Array], risk: Callable[[Array], Array]) -> int:
    """The number of the model with the lowest risk, the first of equals; NaN is above all."""
    risks = np.array([float(risk(w)) for w in models])
    return int(np.argmin(np.where(np.isnan(risks), np.inf, risks)))


def apart(s: Setting) -> tuple[Setting, Setting]:
    """The setting without every fifth row of the normal workers, and one that scores on these rows.

    They are the rows 1, 6, 11, ..., so that neither is empty, and both are alike if rows are sorted by label.
    Attackers hold nothing out.
    """
    rest, last = (_only(s, held_out) for held_out in (False, True))
    return rest, last._replace(risk="local")


def _only(s: Setting, held_out: bool) -> Setting:
    """The setting with the rows that `apart` holds out, or with the others."""
    rows = [np.arange(len(y)) for y in s.y]
    for k in s.normal:
        rows[k] = rows[k][(rows[k] % EVERY == 1) == held_out]
    there = [module_of(y).asarray(own) for y, own in zip(s.y, rows, strict=True)]
    X, y = ([own[i] for own, i in zip(data, there, strict=True)] for data in (s.X, s.y))
    return s._replace(X=X, y=y)


def rows_of(rest: Setting, batch: Array) -> Array:
    """The batch (N, B) in rows of the rest: number i becomes i modulo how many these are.

    As many numbers as rows are held out are too large, and become those of the first rows, which are so drawn
    twice as often as others. To be harmless, that needs rows in random order.
    """
    xp = module_of(batch)
    return batch % xp.asarray(np.array([[len(y)] for y in rest.y]))


def require_two_rows(s: Setting, schedule: Schedule | None, rounds: int) -> None:
    """Raises ValueError, naming the worker, if a normal one has too few rows to hold one out."""
    for k in s.normal:
        if len(s.y[k]) < 2:
            raise ValueError(f"worker {k} needs two rows, one to hold out, got {len(s.y[k])}")


TWO_ROWS = Requirement("two rows of each worker", require_two_rows)
