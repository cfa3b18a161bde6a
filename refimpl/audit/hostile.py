"""What becomes of a function under hostile inputs: it survives, propagates them, is captured, or refuses.

Where more models are hostile than a rule has to bear, it is outnumbered, and what it answers says nothing.
"""

from collections import Counter
from typing import Any

import numpy as np

from refimpl.audit.cases import HUGE, Case
from refimpl.audit.kinds import Kind

FATES = ("survives", "propagates", "is captured", "refuses", "is outnumbered")
SURVIVES, PROPAGATES, CAPTURED, REFUSES, OUTNUMBERED = FATES


def fates(kind: Kind, hostile: list[tuple[Case, Any]]) -> dict[str, int]:
    """How often the function met which fate, by the hostile cases and its answers."""
    count = Counter(fate(kind, case, value) for case, value in hostile)
    return {name: count[name] for name in FATES if count[name]}


def fate(kind: Kind, case: Case, value: Any) -> str:
    """What became of an answer: captured is one of the attackers' making, propagated one that is not finite."""
    if not bearable(kind, case):
        return OUTNUMBERED
    if value is None:
        return REFUSES
    given = dict(zip(kind.arguments, case.inputs, strict=False))
    if "setting" in given:  # of a round, the normal workers' models
        return SURVIVES if np.isfinite(value["W"][given["setting"].normal]).all() else PROPAGATES
    if "W" in given and chosen_or_outside(given["W"], value, kind.selects):
        return CAPTURED
    if "W" not in given and "risks" in given and weighs_the_lost(given, value):
        return CAPTURED
    return SURVIVES if np.isfinite(value).all() else PROPAGATES


def bearable(kind: Kind, case: Case) -> bool:
    """Whether no more than f models are hostile; without an f, fewer than half."""
    given = dict(zip(kind.arguments, case.inputs, strict=False))
    if "W" not in given:
        return True
    n = len(given["W"])
    return n - from_the_honest(given["W"]).sum() <= given.get("f", (n - 1) // 2)


def from_the_honest(W: np.ndarray) -> np.ndarray:
    """Which models are neither huge nor NaN."""
    return np.all(abs(W) < HUGE, axis=1)


def weighs_the_lost(given: dict[str, Any], c: np.ndarray) -> bool:
    """Whether another worker's model has weight though its risk is not finite, and some risk is."""
    lost = ~np.isfinite(given["risks"])
    others = np.arange(len(lost)) != given.get("own", -1)
    return not lost.all() and bool((c[lost & others] > 0).any())


def chosen_or_outside(W: np.ndarray, w: np.ndarray, selects: bool) -> bool:
    """Whether the answer is one of the attackers' models, or finite and outside of the honest ones' box."""
    honest = from_the_honest(W)
    if selects:
        return any(np.array_equal(w, row, equal_nan=True) for row in W[~honest])
    if not honest.any() or not np.isfinite(w).all():
        return False
    low, high = W[honest].min(axis=0), W[honest].max(axis=0)
    slack = 1e-6 * (1 + abs(low) + abs(high))
    return bool(((w < low - slack) | (w > high + slack)).any())
