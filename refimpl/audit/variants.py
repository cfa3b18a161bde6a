"""Known variants: other definitions that are in use under the same name, and the mistakes of tests/mutants.py.

Each of the files *_variants.py holds those of some kinds. `apart` are two inputs on which the variant and the
definition differ, as plain lists; of a round, the names of two cases.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class Variant(NamedTuple):
    name: str
    about: str  # its definition in a line
    used_by: str  # where that is known, else ""
    compute: Callable[..., Any]  # called as the definition is
    apart: tuple[tuple, ...]  # two inputs


def variants_of(kind: str) -> tuple[Variant, ...]:
    """All known variants of a kind."""
    from refimpl.audit import (
        attack_variants,
        choice_variants,
        learning_variants,
        round_variants,
        rule_variants,
        weight_variants,
    )

    files = (
        attack_variants,
        choice_variants,
        learning_variants,
        round_variants,
        rule_variants,
        weight_variants,
    )
    return next((file.VARIANTS[kind] for file in files if kind in file.VARIANTS), ())
