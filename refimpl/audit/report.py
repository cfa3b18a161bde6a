"""What a judge has to say: as an object, as text, as JSON."""

from typing import Any, NamedTuple

import numpy as np

RIGHT, DIFFERENT, NOT_JUDGED = 0, 1, 2


class Count(NamedTuple):
    """In how many of the cases two answers agree."""

    agreed: int
    of: int

    def __str__(self) -> str:
        return f"{self.agreed} of {self.of}"


class Agreement(NamedTuple):
    """With the definition, or with a variant of it."""

    name: str
    ordinary: Count
    apart: dict[str, Count]  # hostile and the like
    about: str = ""
    used_by: str = ""
    explains: Count | None = None  # of the cases in which the function leaves the definition

    @property
    def full(self) -> bool:
        return self.ordinary.agreed == self.ordinary.of > 0

    @property
    def complete(self) -> bool:
        return self.full and all(count.agreed == count.of for count in self.apart.values())

    @property
    def rank(self) -> tuple[int, int]:
        return self.ordinary.agreed, sum(count.agreed for count in self.apart.values())

    @property
    def explained(self) -> int:
        return self.explains.agreed if self.explains else 0

    def __str__(self) -> str:
        apart = [f"{group} {count}" for group, count in self.apart.items()]
        return "; ".join([f"{self.ordinary}", *apart])


class Difference(NamedTuple):
    """One input on which the function leaves the definition."""

    case: str
    inputs: dict[str, str]
    expected: str
    answer: str
    why: str = ""


class Report(NamedTuple):
    """What `judge` found. `status` is that of the command: 0 right, 1 a variant or different, 2 not judged."""

    name: str
    kind: str
    definition: str
    status: int
    verdict: str
    problem: str = ""
    form: str = ""
    agreement: Agreement | None = None  # with the definition
    groups: dict[str, Count] | None = None  # of the definition's agreement, by group
    variant: Agreement | None = None  # the known variant that it is
    closest: Agreement | None = None  # the nearest known variant, if it is none
    by_group: dict[str, Agreement] | None = None  # the variants that it is where cases are counted apart
    step: str = ""  # of a round: the first step that leaves the path
    difference: Difference | None = None
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return _plain(self._asdict())

    def __str__(self) -> str:
        lines = [f"{self.name}, judged as {self.kind}: {self.verdict}", f"  the definition: {self.definition}"]
        if self.problem:
            lines.append(f"  {self.problem}")
        if self.agreement:
            lines.append(f"  agrees with the definition in {self.agreement}")
        if self.groups and self.agreement and not self.agreement.full:
            failed = [f"{group} {count}" for group, count in self.groups.items() if count.agreed < count.of]
            lines.append(f"  where it does not: {', '.join(failed)}")
        if self.variant:
            lines.append(f"  agrees in {self.variant} with: {self.variant.name} ({self.variant.about})")
        if self.closest:
            lines.append(f"  the closest variant explains {self.closest.explains} differences:")
            lines.append(f"    {self.closest.name} ({self.closest.about}); it agrees in {self.closest}")
        for group, like in (self.by_group or {}).items():
            lines.append(f"  {group}, it is: {like.name} ({like.about})")
        found = self.variant or self.closest
        if found and found.used_by:
            lines.append(f"    used by: {found.used_by}")
        if self.step:
            lines.append(f"  leaves the path first at: {self.step}")
        if self.difference:
            lines += _shown(self.difference)
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


def _shown(difference: Difference) -> list[str]:
    inputs = ", ".join(f"{name} = {value}" for name, value in difference.inputs.items())
    lines = [
        f"  {difference.case}: {inputs}",
        f"    the definition gives {difference.expected}",
        f"    the function   gives {difference.answer}",
    ]
    return lines + ([f"    {difference.why}"] if difference.why else [])


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def shown(value: Any) -> str:
    """An array as nested lists with short numbers, cut if it is long."""
    text = _text(np.asarray(value).tolist())
    return text if len(text) <= 300 else f"{text[:297]}..."


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_text(entry) for entry in value)}]"
    if isinstance(value, float):
        return "0" if value == 0 else f"{value:.10g}"
    return str(value)
