"""A round of the released code for all workers at once. Plain: `released.round_`; test: test_fast_released.py.

Local steps and risks are the engine's. Attackers' messages are scored one by one: an attacker may be scored by
another model than it sends.
"""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from refimpl import released
from refimpl.aggregate import RULES
from refimpl.algorithm import Setting, State
from refimpl.arrays import Array, module_of, quiet
from refimpl.fast.engine import data_of, local_steps
from refimpl.fast.parts import keep_memory
from refimpl.fast.plan import Group, Plan, plan
from refimpl.fast.rules import all_finite, combine_into
from refimpl.fast.scores import risks
from refimpl.released import Averaging


class Result(NamedTuple):
    """What is left of a round."""

    state: Averaging
    weights: Array | None  # (N, N), as in `algorithm.Round`


def engine(s: Setting, on: Collection[str] = ()) -> Callable[..., Any]:
    """`released.engine`, for all workers at once."""
    keep_memory()
    prepared = plan(s._replace(attack="none"))  # a message each
    if prepared.twin is None:  # a user's own rule
        return released.engine(s, on)

    @quiet
    def step(state: Any, batch: Array, signals: Array | None = None) -> Result:
        return round_(s, prepared, released.averaging(s, state), batch, signals, on)

    return step


def round_(
    s: Setting, p: Plan, state: Averaging, batch: Array, signals: Array | None, on: Collection[str]
) -> Result:
    """`released.round_`, for all workers at once."""
    xp, t = module_of(state.W), state.t + 1
    X, y = data_of(p, batch)
    W_hat, W, memory = local_steps(p, State(*state[:3]), X, y, t)
    W_hat[p.attackers] = W[p.attackers]
    sent, scored = released.exchange(s, State(*state[:3]), W_hat, memory, signals, on)
    W, before = W_hat.copy(), state.averages
    L, C = xp.full_like(before, xp.nan), xp.zeros_like(before)
    for group in p.groups:
        M = sent[None] if group.heard is None else sent[group.heard]  # (u, n, d)
        if not RULES[s.rule].scores:
            W[group.receivers] = same_for_all(s, p, M, on)[:, None]
            continue
        k, l = group.receivers[:, :, None], xp.asarray(group.numbers)[:, None, :]
        r = risks_of_scored(p, group, scored, X, y)  # (u, m, n)
        if "smoothed-risk" in on:
            r = released.smooth(before[k, l], r, released.SHARE)
        L[k, l] = r
        C[k, l] = c = p.twin.weights(r, group.own)  # type: ignore[union-attr, misc]
        combine_into(c, M, all_finite(M), W, group.receivers, group.only)
    released.overwrite(s, W, sent, on)
    return Result(Averaging(W, memory, t, L), C if RULES[s.rule].weighs else None)


def risks_of_scored(p: Plan, group: Group, scored: Array, X: Array, y: Array) -> Array:
    """The risks (u, m, n) of what the senders are scored by."""
    M = scored[None] if group.heard is None else scored[group.heard]
    return risks(p, group, M, X, y, all_finite(M))


def same_for_all(s: Setting, p: Plan, M: Array, on: Collection[str]) -> Array:
    """What a rule that looks at no risks makes of each neighbourhood's models, (u, n, d) -> (u, d)."""
    compute, f = released.rule_of(s.rule, on), len(s.attackers)
    if compute is RULES[s.rule].compute:
        return p.twin.models(M, f)  # type: ignore[union-attr, misc]
    return module_of(M).stack([compute(m, None, 0, f) for m in M])
