"""What is said of a function: a `Report`, as an object, as text, as JSON."""

import itertools
import textwrap
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from refimpl.audit.cases import APART, HOSTILE

RIGHT, DIFFERENT, NOT_JUDGED = 0, 1, 2
WIDTH, INDENT = 80, 12
MOST_ALIKE = 5  # equal entries of a list, one after the other, that are all written out
# Lines of text in which no name and no number is broken.
wrap = partial(textwrap.wrap, width=WIDTH, break_on_hyphens=False, break_long_words=False)


class Verdict:
    """The verdicts in a few words, as `Report.verdict` has them; `Report.headline` says more."""

    RIGHT = "right"
    ORDINARY = "right on ordinary inputs only"
    VARIANT = "a known variant"
    ALMOST = "almost certainly a known variant"
    DIFFERENT = "different, and no variant that is known"
    UNJUDGED = "could not be judged"


class Count(NamedTuple):
    """In how many of the cases two answers agree."""

    agreed: int
    of: int

    @property
    def share(self) -> float:
        """The share that agrees, 0 of nothing."""
        return self.agreed / self.of if self.of else 0.0

    def __str__(self) -> str:
        return f"{self.agreed} of {self.of}"


class Agreement(NamedTuple):
    """In how many cases a function agrees with the definition, or with a variant of it."""

    name: str
    ordinary: Count
    apart: dict[str, Count]  # hostile and the like
    about: str = ""
    used_by: str = ""
    explains: Count = Count(0, 0)  # of the ordinary cases in which the function leaves the definition

    @property
    def full(self) -> bool:
        """Whether all ordinary cases agree."""
        return self.ordinary.share == 1

    @property
    def title(self) -> str:
        """The variant with its definition and its users."""
        used = f" ({self.used_by})" if self.used_by else ""
        return f"{self.name}: {self.about}{used}"

    def __str__(self) -> str:
        apart = [f"{group} {count}" for group, count in self.apart.items()]
        return "; ".join([f"{self.ordinary}", *apart])


class Counterexample(NamedTuple):
    """One input on which the function leaves the definition."""

    case: str  # where it comes from
    inputs: dict[str, str]
    expected: str
    answer: str
    why: str = ""


class Report(NamedTuple):
    """What `judge` found. `status` is that of the command: 0 right, 1 a variant or different, 2 not judged."""

    name: str
    kind: str
    definition: str
    reference: str
    status: int
    verdict: str
    problem: str = ""
    form: str = ""
    agreement: Agreement | None = None  # with the definition
    groups: dict[str, Count] | None = None  # of the definition's agreement, by group
    fates: dict[str, int] | None = None  # under hostile inputs
    by_group: dict[str, Agreement] | None = None  # the variants that it is where cases are counted apart
    variant: Agreement | None = None  # the known variant that it is, or almost certainly is
    exception: Counterexample | None = None  # where it is not what it almost certainly is
    closest: Agreement | None = None  # the nearest known variant, if it is none
    step: str = ""  # of a round: the first step that leaves the path
    difference: Counterexample | None = None
    notes: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The verdict in a sentence."""
        what = f"{self.kind} as in {self.reference}"
        if not self.agreement or self.status == NOT_JUDGED:
            return f"{self.name} could not be judged as {self.kind}."
        agreed, of = self.agreement.ordinary
        if self.verdict == Verdict.RIGHT:
            return f"{self.name} is right: it is {what}, on all {of} ordinary inputs."
        if self.verdict == Verdict.ORDINARY:
            missed = [f"{group} {count}" for group, count in self.agreement.apart.items() if count.share < 1]
            return f"{self.name} is right on ordinary inputs, but not on others: {', '.join(missed)}."
        if self.variant:
            sure = "it is" if self.verdict == Verdict.VARIANT else "it is almost certainly"
            return f"{self.name} is not {what}; {sure} a known variant: {self.variant.name}."
        return f"{self.name} is not {what}: it differs on {of - agreed} of {of} ordinary inputs."

    def as_dict(self) -> dict[str, Any]:
        """The report in dictionaries and lists, for JSON."""
        return _plain({"headline": self.headline, **self._asdict()})

    def __str__(self) -> str:
        """The report as text for a terminal of 80 columns."""
        lines = [*wrap(self.headline, subsequent_indent="  "), ""]
        for label, text in _parts(self):
            lines += wrap(text, initial_indent=label.ljust(INDENT), subsequent_indent=" " * INDENT)
        return "\n".join(lines)


def _parts(r: Report) -> Iterator[tuple[str, str]]:
    """The report's paragraphs, each with its label."""
    yield "definition", f"{r.definition} ({r.reference})"
    yield from zip(("because", *[""] * 9), r.problem.splitlines(), strict=False)
    if r.agreement:
        yield "agreement", f"with the definition in {r.agreement.ordinary} ordinary cases"
    if r.variant:
        yield "it is", f"{r.variant.title}; agrees in {r.variant.ordinary}"
    yield from _example("but for", r.exception, "the variant:   ")
    if r.closest:
        explained = f"explains {r.closest.explains} differences"
        yield "closest", f"{r.closest.title}; {explained}, agrees in {r.closest.ordinary}"
    if r.groups and r.difference and not r.variant:
        worst_first = sorted(r.groups.items(), key=lambda item: item[1].share)
        yield "by group", ", ".join(f"{group} {count}" for group, count in worst_first)
    if r.step:
        yield "first at", f"{r.step}: the step that leaves the path first"
    yield from _example("example", r.difference, "the definition:")
    yield from _apart(r)
    yield from zip(("also", *[""] * len(r.notes)), r.notes, strict=False)


def _example(label: str, example: Counterexample | None, expected: str) -> Iterator[tuple[str, str]]:
    """An input with both answers; nothing if there is none."""
    if example:
        inputs = ", ".join(f"{name} = {value}" for name, value in example.inputs.items())
        yield label, f"{inputs} ({example.case})"
        yield "", f"{expected} {example.expected}"
        yield "", f"the function:   {example.answer}"
        yield "", example.why


def _apart(r: Report) -> Iterator[tuple[str, str]]:
    """A paragraph for each group that is counted apart."""
    for group, count in (r.agreement.apart if r.agreement else {}).items():
        text = f"{APART[group]}: agrees with refimpl in {count}"
        if group == HOSTILE and r.fates:
            text = f"{APART[group]}: " + ", ".join(f"{fate} in {n}" for fate, n in r.fates.items())
            text += f"; as refimpl does in {count}"
        like = (r.by_group or {}).get(group)
        yield group.split()[0], text + (f". It is like: {like.title}" if like else "")


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def format_value(value: Any) -> str:
    """An array as nested lists with short numbers; many equal entries are counted, and what is long is cut."""
    text = _text(np.asarray(value).tolist())
    return text if len(text) <= 300 else f"{text[:297]}..."


def _text(value: Any) -> str:
    if isinstance(value, list):
        alike = [list(texts) for _, texts in itertools.groupby(map(_text, value))]
        few = lambda texts: texts if len(texts) <= MOST_ALIKE else [f"{texts[0]} ({len(texts)} times)"]
        return f"[{', '.join(itertools.chain.from_iterable(map(few, alike)))}]"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return "0" if value == 0 else f"{value:.10g}" if abs(value) < 1e5 else repr(value)
    return str(value)
