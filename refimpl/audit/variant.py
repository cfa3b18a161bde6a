"""A known variant: another definition that is in use under the same name, or a mistake of tests/mutants.py."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Variant(NamedTuple):
    """An entry of variants.VARIANTS."""

    name: str
    about: str  # its definition in a line
    used_by: str  # where that is known, else ""
    compute: Callable[..., Any]  # called as the definition is
    apart: tuple[tuple, tuple]
    """two inputs on which it differs from the definition, as plain lists; of a round, the names of two cases"""
