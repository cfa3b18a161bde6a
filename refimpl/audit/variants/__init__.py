"""What a function is compared with: other definitions in use under the same name, and likely mistakes.

A variant is a function that is called as the definition is, and its docstring is its definition, as `--list`
prints it: `name: what it computes [who uses it]`. Each file has a TABLE of its kinds' variants.

weights.py         of Eq. (3), (5) and (6)
rules.py           of the average, the median, the trimmed mean, the medoid and Krum
related.py         of the rules of other papers
attacks.py         of the four attacks
learning.py        of the loss, the optimisers, the mixing weights and the compressor
altered_rounds.py  of a round of Algorithm 1
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from refimpl.algorithm import Round
from refimpl.arrays import quiet
from refimpl.audit.cases import Case, Inputs, cast
from refimpl.audit.variants import altered_rounds, attacks, learning, related, rules, weights


class Variant(NamedTuple):
    """An entry of VARIANTS."""

    name: str
    about: str  # its definition in a line
    used_by: str  # where that is known, else ""
    compute: Callable[..., Any]  # called as the definition is

    def answer(self, case: Case) -> Any:
        """Its answer to a case; None if it has none."""
        return self.answer_to(case.inputs)

    @quiet
    def answer_to(self, inputs: Inputs) -> Any:
        """Its answer to these inputs; None if it has none."""
        try:
            answer = self.compute(*cast(inputs, float))
        except (ValueError, IndexError, ZeroDivisionError):
            return None
        return {"W": answer.state.W} if isinstance(answer, Round) else answer


def from_docstring(compute: Callable[..., Any]) -> Variant:
    """The variant that a function is, by its docstring."""
    found = re.fullmatch(r"(.*?): (.*?)(?: \[(.*)\])?", " ".join(str(compute.__doc__).split()))
    if not found:  # python -OO has none
        raise ImportError(f"{compute.__name__} needs a docstring: name: definition [who uses it]")
    return Variant(found[1], found[2], found[3] or "", compute)


VARIANTS: dict[str, tuple[Variant, ...]] = {
    kind: tuple(map(from_docstring, functions))
    for part in (weights, rules, related, attacks, learning, altered_rounds)
    for kind, functions in part.TABLE.items()
}
