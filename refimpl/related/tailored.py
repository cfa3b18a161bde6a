"""Attacks that know Eq. (6): their lies pass its filter, or take its weights.

Eq. (6) asks one thing of a message m: r_k(m) <= r_k(w_k). These attackers know the receiver's model w_k, and
most of them its data, so they can ask it themselves before they send. A lie is for one receiver at a time.

*A margin.* A lie whose risk is all but that of w_k passes or not by rounding, in one engine and not in another.
So attacks here stay a little below: r_k(m) <= (1 - e) r_k(w_k), e the square root of the machine's precision,
about 1.5e-8 in float64. Where nothing passes, they send w_k itself, whose risk is equal to the bit: an echo.

*What Theorem 1 says of them.* Where r_k is convex, no message makes the receiver worse, these included, as
Jensen's inequality holds for whatever passes. It leaves open two kinds of harm: mixtures of networks, whose
risk is above that of all their parts (slip 10 of docs/AUDIT.md), and harm on rows on which the receiver does
not score. With `--risk batch` these are nearly all.

*Earlier work.* In stored text (searched in November 2026) we found no attack on weights by inverse risk.
Nearest are SelfishAttack (Jia, Fang and Gong, arXiv 2310.13862), in which a set of clients of decentralised
federated learning send each of the others a model that was crafted against its rule, to be more accurate than
they; DFedReweighting (Zhang et al., arXiv 2512.12022), no attack but a rule, whose weights come from a metric
on data made of local data; attacks that search for the largest lie which a given rule still accepts, Krum or
the trimmed mean (Fang et al. 2020, Shejwalkar and Houmansadr 2021); and an attack named "echo" on the privacy
of decentralised learning (Pasquini et al. 2023, arXiv 2205.08443). Only abstracts were seen of the first two
and the last, and the name in the README of its code; of the others only code. This is no claim of priority.
"""

from collections.abc import Callable

import numpy as np

from refimpl.arrays import Array, module_of
from refimpl.attacks import ATTACKS, Attack
from refimpl.models import Layout
from refimpl.related.attacks import backdoored
from refimpl.related.knowledge import Risk

Gradient = Callable[[Array], Array]  # (d,) -> (d,)
TRIES = 8  # of a bisection: to 1/256 of the way
STEPS = 20  # of a descent


def below(risk: Array, dtype: np.dtype) -> Array:
    """The most that a lie may have where this risk is the limit: less by the margin."""
    return (1 - float(np.finfo(dtype).eps) ** 0.5) * risk


def farthest(w: Array, goal: Array, risk: Risk, limit: Array) -> Array:
    """The point nearest to `goal`, on the way there from w, that was found to be within the limit: (d,).

    By bisection. If the risk rises along the way, that is where it meets the limit, to 1/256 of the way; else
    it is one of the points where it does. w itself if none is found.
    """
    if risk(goal) <= limit:
        return goal
    low, high = 0.0, 1.0
    for _ in range(TRIES):
        middle = (low + high) / 2
        low, high = (middle, high) if risk(w + middle * (goal - w)) <= limit else (low, middle)
    return w + low * (goal - w) if low else w


def descended(w: Array, risk: Risk, gradient: Gradient, limit: Array, share: float = 1.0) -> Array:
    """w after gradient steps until its risk is within the limit, at most STEPS of them: (d,).

    A step goes where the tangent is down by `share` of the risk; with 1 it is Polyak's, for a risk whose least
    value is 0. One that does not lower the risk is taken back, and the next is half as long.
    """
    r, g = risk(w), gradient(w)
    for _ in range(STEPS):
        slope = (g * g).sum()
        if r <= limit or not slope > 0:
            break
        trial = w - share * r / slope * g
        r_trial = risk(trial)
        if r_trial < r:
            w, r, g, share = trial, r_trial, gradient(trial), min(1.0, 2 * share)
        else:
            share /= 2
    return w


# --- The attacks --------------------------------------------------------------------------------------------


def echo(receiver: Array) -> Array:
    """The receiver's own model, (d,).

    Its risk is equal, so it passes, with the weight of the receiver's own: where nobody else passes, f liars
    have f / (f + 1) of the weight, and change nothing; honest models that pass get less of it.
    """
    return receiver


def boundary(receiver: Array, risk: Risk) -> Array:
    """As far towards minus the receiver's model as passes, (d,).

    That way, because it needs no other model, ends at the paper's sign flip, and undoes what has been learnt.
    """
    return farthest(receiver, -receiver, risk, below(risk(receiver), receiver.dtype))


def fitted(receiver: Array, risk: Risk, gradient: Gradient, share: float = 1.0) -> Array:
    """The receiver's model, fitted to its data, then as far towards minus that model as `share` allows: (d,).

    Its risk is at most this share of the receiver's if the steps were enough, else what they have come to.
    Fitting to half of that makes room for harm. With a small share it is a capture: where nobody else passes, f
    liars get f / (f + share) of the weight at least, for three of them and 1/100 more than 0.99.
    """
    limit = below(share * risk(receiver), receiver.dtype)
    w = descended(receiver, risk, gradient, limit / 2)
    return farthest(w, -receiver, risk, limit) if risk(w) <= limit else w


def capture(receiver: Array, risk: Risk, gradient: Gradient) -> Array:
    """`fitted` to a hundredth of the receiver's risk: (d,)."""
    return fitted(receiver, risk, gradient, 1 / 100)


def capture_backdoor(
    receiver: Array, risk: Risk, gradient: Gradient, triggered_risk: Risk, triggered_gradient: Gradient
) -> Array:
    """The receiver's model, fitted to its rows with and without a trigger, as far as that passes: (d,).

    Rows with the trigger (`attacks.with_trigger`) all have the label that the attackers want. The sum of both
    risks descends until it is a hundredth of the receiver's, as in a `capture`, or the steps are used up. Where
    that ends with a risk that the receiver refuses, what is sent lies on the way there.
    """
    limit = below(risk(receiver), receiver.dtype)
    both = lambda w: risk(w) + triggered_risk(w)
    w = descended(receiver, both, lambda w: gradient(w) + triggered_gradient(w), limit / 100)
    return farthest(receiver, w, risk, limit)


def permuted(receiver: Array, counts: tuple[int, int], layout: Layout, risk: Risk, gradient: Gradient) -> Array:
    """The receiver's network with its hidden units exchanged, (f, d): attacker i turns them by i + 1 places.

    The same network, so the same risk up to rounding; the mean of several is another one, whose units are all
    alike in the end. A step that lowers the risk by little more than the margin makes it pass. Of h units, the
    attackers from h - 1 on turn by 1, 2, ... places again: by h places it would be an echo.
    """
    xp, margin = module_of(receiver), float(np.finfo(receiver.dtype).eps) ** 0.5
    w = descended(receiver, risk, gradient, below(risk(receiver), receiver.dtype), 4 * margin)
    turns = max(hidden(layout) - 1, 1)
    return xp.stack([turned(w, layout, 1 + i % turns) for i in range(counts[1])])


def hidden(layout: Layout) -> int:
    """The number of units of the last hidden layer; 0 if none are hidden."""
    return layout.fields[-3].size if len(layout.fields) >= 4 else 0


def turned(w: Array, layout: Layout, places: int) -> Array:
    """The network with the units of its last hidden layer turned by so many places; w if none are hidden."""
    w, xp = w.copy(), module_of(w)
    if hidden(layout):
        tensors = layout.views(w)
        for field, axis in zip(layout.fields[-4:-1], (-1, -1, 0), strict=True):
            tensors[field.name][...] = xp.roll(tensors[field.name], places, axis=axis)
    return w


def patient(attack: Attack, last: int) -> Attack:
    """An entry for attackers that are honest up to round `last`, that one included, and then attack so.

    Raises ValueError if the attack poisons what attackers train on, as that begins in round 1.
    """
    if attack.poison:
        raise ValueError(f"patient attackers need an attack that does not poison, got {attack.about}")

    def send(own: Array, round_: int, *known: Array) -> Array:
        return own if round_ <= last else attack.send(*known)

    return attack._replace(
        send=send,
        about=f"{attack.about}; honest up to round {last}: a run of {last} or fewer has no attack",
        knows=("own", "round", *attack.knows),
        one_message=False,
    )


def entry(send: Callable[..., Array], about: str, knows: tuple[str, ...], one: bool = True) -> Attack:
    """The entry of an attack of this file."""
    return Attack(send, about, "ours", knows, one_message=one, per_receiver=True, by_default=False)


ATTACKS |= {
    "echo": entry(echo, "the receiver's own model", ("receiver",)),
    "boundary": entry(
        boundary,
        "as far towards minus the receiver's model as passes Eq. (6)",
        ("receiver", "risk"),
    ),
    "boundary-own": entry(
        boundary,
        "the same, judged by the attackers' own data",
        ("receiver", "own_risk"),
    ),
    "boundary-fitted": entry(
        fitted,
        "the same, after fitting the receiver's model to its data",
        ("receiver", "risk", "gradient"),
    ),
    "capture": entry(
        capture,
        "fitted to a hundredth of the receiver's risk, then as far as that allows",
        ("receiver", "risk", "gradient"),
    ),
    "capture-backdoor": entry(
        capture_backdoor,
        "fitted to the receiver's rows, and to these with a trigger: a backdoor that passes",
        ("receiver", "risk", "gradient", "triggered_risk", "triggered_gradient"),
    )._replace(poison=backdoored),  # which says on what its success is tested; what attackers train is not sent
    "permuted": entry(
        permuted,
        "the receiver's network with hidden units exchanged",
        ("receiver", "counts", "layout", "risk", "gradient"),
        one=False,
    ),
}
ATTACKS["patient-permuted"] = patient(ATTACKS["permuted"], 300)
