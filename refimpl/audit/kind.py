"""What can be judged is described by a `Kind`: its definition, how it is called, and on which cases."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from refimpl.audit.calls import Answer, Inputs, on_host
from refimpl.audit.cases import Case, Drawn
from refimpl.audit.relations import Relation
from refimpl.audit.report import Difference
from refimpl.audit.small import Small


class Kind(NamedTuple):
    """An entry of kinds.KINDS."""

    arguments: tuple[str, ...]
    returns: str
    define: Callable[..., Any]
    about: str
    reference: str
    draw: Callable[[], Drawn]
    small: Callable[[Small], Inputs] | None = None  # draws small inputs, to look for the smallest
    why: Callable[..., str] | None = None
    """(*inputs) -> the line of arithmetic that leads to the definition's answer"""
    vectors: Callable[[tuple[str, ...]], Iterator[Case]] = lambda arguments: iter(())
    """(names of the arguments) -> the cases among the shipped vectors"""
    relations: tuple[Relation, ...] = ()
    selects: bool = False  # is the answer one of the models?
    optional: bool = False  # may the last argument be left out? It is 1 by default.
    read: Callable[[Any], Any] = on_host  # what was returned -> an array, or of a round its steps by name
    difference: Callable[[Case, Answer], Difference] | None = None  # of a round: how an answer differs
    leaves_at: Callable[[list[tuple[Case, Answer]]], str] | None = None  # of a round: which step differs first

    @property
    def call(self) -> str:
        return f"({', '.join(self.arguments)}) -> {self.returns}"
