"""The cases of each kind, with the answers of its definition."""

import functools
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import numpy as np

from refimpl.arrays import quiet
from refimpl.audit import cases
from refimpl.audit.cases import APART, Case, Inputs
from refimpl.audit.kind import Kind
from refimpl.audit.kinds import KINDS


@functools.cache
def cases_of(name: str) -> tuple[Case, ...]:
    """All cases: the groups by turns, the ordinary ones first, so that whoever stops early has seen something
    of each. What the definition refuses comes last."""
    kind = KINDS[name]
    found = [*kind.vectors(kind.arguments), *_drawn(kind)]
    groups: dict[str, list[Case]] = {}
    for case in found:
        groups.setdefault(case.group, []).append(case)
    turns = [case for turn in zip_longest(*groups.values()) for case in turn if case]
    return tuple(sorted(turns, key=lambda case: (case.expected is None, case.apart)))


def _drawn(kind: Kind) -> Iterator[Case]:
    count: dict[str, int] = {}
    for group, inputs in kind.draw():
        if kind.selects and group not in ("ties", cases.HOSTILE) and not decided(kind, inputs):
            continue
        count[group] = count.get(group, 0) + 1
        yield Case(f"{group} {count[group]}", group, inputs, definition(kind, inputs), *cases.tolerances(group))


@quiet
def definition(kind: Kind, inputs: Inputs) -> Any:
    """The definition's answer, in double precision."""
    wide = (v.astype(float) if isinstance(v, np.ndarray) and v.dtype == np.float32 else v for v in inputs)
    return kind.read(kind.define(*wide))


def decided(kind: Kind, inputs: Inputs) -> bool:
    """Is the choice among the models clear, so that neither rounding nor their order can turn it?"""
    W, *rest = inputs
    rng, size = np.random.default_rng(0), np.ptp(W)
    row = definition(kind, inputs)
    nudged = [W + 1e-5 * size * rng.uniform(-1, 1, W.shape) for _ in range(10)]
    others = [definition(kind, (other, *rest)) for other in (W[::-1], *nudged)]
    return all((abs(row - other) <= 2e-5 * size).all() for other in others)


def ordinary(name: str) -> list[Case]:
    return [case for case in cases_of(name) if case.group not in (*APART, "refused")]
