"""A round of the released code for all workers at once. Plain: `released.round_`; test: test_fast_released.py.

Local steps and risks are the engine's. Attackers' messages are scored one by one: an attacker may be scored by
another model than it sends.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

from refimpl import released
from refimpl.aggregate import RULES
from refimpl.algorithm import Setting
from refimpl.arrays import Array, module_of, quiet
from refimpl.engine import Engine
from refimpl.fast.engine import data_of, local_steps
from refimpl.fast.parallel import keep_memory
from refimpl.fast.plan import Plan, plan
from refimpl.fast.risks import risks
from refimpl.fast.rules import all_finite, combine_into
from refimpl.released import Averaging, Difference, combined


class Result(NamedTuple):
    """What is left of a round."""

    state: Averaging
    weights: Array | None  # (N, N), as in `algorithm.Round`


def engine(s: Setting, differences: Collection[str] = ()) -> Engine:
    """`released.engine`, for all workers at once."""
    keep_memory()
    p, changes = plan(s._replace(attack="none")), combined(differences)  # none: a message each
    if p.twin is None:  # a user's own rule
        return released.engine(s, differences)

    @quiet
    def step(state: Any, batch: Array, signals: Array | None = None) -> Result:
        return round_(s, p, released.averaging(s, state), batch, signals, changes)

    return Engine(step, p.network or s.model)


def round_(
    s: Setting, p: Plan, state: Averaging, batch: Array, signals: Array | None, changes: Difference
) -> Result:
    """`released.round_`, for all workers at once."""
    xp, t = module_of(state.W), state.t + 1
    X, y = data_of(p, batch)
    W_hat, W, memory = local_steps(p, state.as_state, X, y, t)
    W_hat[p.attackers] = W[p.attackers]
    sent, scored = released.exchange(s, state.as_state, W_hat, memory, signals, changes)
    W, before = W_hat.copy(), state.averages
    L, C = xp.full_like(before, xp.nan), xp.zeros_like(before)
    for group in p.groups:
        M = group.models(sent)  # (u, n, d)
        if not RULES[s.rule].scores:
            W[group.receivers] = shared_by_receivers(s, p, M, changes)[:, None]
            continue
        k, l = group.receivers[:, :, None], xp.asarray(group.numbers)[:, None, :]
        by = group.models(scored)
        r = risks(p, group, by, X, y, all_finite(by))  # (u, m, n)
        if changes.smooths:
            r = released.smooth(before[k, l], r, released.SHARE)
        L[k, l] = r
        C[k, l] = c = p.twin.weights(r, group.own)  # type: ignore[union-attr, misc]
        combine_into(c, M, all_finite(M), W, group.receivers, group.receiver_slice)
    released.overwrite(s, W, sent, changes)
    return Result(Averaging(W, memory, t, L), C if RULES[s.rule].weighs else None)


def shared_by_receivers(s: Setting, p: Plan, M: Array, changes: Difference) -> Array:
    """The result of a rule that looks at no risks, for each neighbourhood's models: (u, n, d) -> (u, d)."""
    if compute := changes.rules.get(s.rule):
        return module_of(M).stack([compute(m, None, 0, len(s.attackers)) for m in M])
    return p.twin.models(M, len(s.attackers))  # type: ignore[union-attr, misc]
