"""What the authors' released code does differently from the paper. The specification does not know of it.

Running averages of the risks, which the paper never mentions.
"""

from collections.abc import Callable

import numpy as np

from refimpl import algorithm
from refimpl.aggregate import RULES, combine
from refimpl.algorithm import Round, Setting, State
from refimpl.arrays import Array, module_of, quiet


def engine(s: Setting, smoothing: float) -> Callable[..., Round]:
    """An engine, as in `train`, whose rules see running averages with this share of the new risk."""
    if not 0 < smoothing <= 1:
        raise ValueError(f"smoothing must be in (0, 1], 1 for none, got {smoothing}")
    averages = None

    def step(state: State, batch: Array, signals: Array | None = None) -> Round:
        nonlocal averages
        result, averages = round_(s, state, batch, signals, smoothing, averages)
        return result

    return step


@quiet
def round_(
    s: Setting, state: State, batch: Array, signals: Array | None, smoothing: float, before: Array | None
) -> tuple[Round, Array]:
    """`algorithm.round_` with the risks averaged over the rounds; `before` (N, N) are the averages so far.

    Returns the round and the new averages.
    """
    result, rule = algorithm.round_(s, state, batch, signals), RULES[s.rule]
    L = result.risks if before is None else smooth(before, result.risks, smoothing)
    if not rule.scores:
        return result, L
    xp, W, sent = module_of(state.W), result.state.W, result.sent
    for k in s.normal:
        neighbourhood = np.flatnonzero(s.graph[k])
        own, N_k = int(np.searchsorted(neighbourhood, k)), xp.asarray(neighbourhood)
        made = rule.compute(sent[N_k], L[k, N_k], own, len(s.attackers))
        W[k] = combine(made, sent[N_k]) if rule.weighs else made
        if result.weights is not None:
            result.weights[k, N_k] = made
    return result, L


def smooth(before: Array, r: Array, share: float) -> Array:
    """(1 - share) before + share r; an average that is not finite starts again at r."""
    xp = module_of(r)
    return xp.where(xp.isfinite(before), (1 - share) * before + share * r, r)
