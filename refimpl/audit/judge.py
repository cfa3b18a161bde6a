"""Judges a function: runs it on the cases of a kind and says which definition its answers are."""

import inspect
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from refimpl.audit import rounds, shrink
from refimpl.audit.agreement import agree, agreement, answer_of, groups
from refimpl.audit.calls import Answer, Caller, available
from refimpl.audit.cases import FAR, Case, Inputs, tolerances
from refimpl.audit.kinds import KINDS
from refimpl.audit.report import DIFFERENT, NOT_JUDGED, RIGHT, Agreement, Count, Difference, Report, shown
from refimpl.audit.suite import cases_of, definition, ordinary
from refimpl.audit.variants import Variant, variants_of

SECONDS = 5.0  # for all cases together
UNCLEAR = ("float32", "ties", "vectors")  # where rounding or the order of the models may decide


def judge(
    function: Callable, kind: str, *, form: str = "", limit: float = 3.0, shrinks: bool = True, name: str = ""
) -> Report:
    """Says what `function` computes, as a kind of KINDS. It never raises because of the function.

    `form` is how it takes arrays, one of calls.FORMS; it is found out if not given. `limit` is the number of
    seconds after which a call counts as hanging.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}, choose from {', '.join(KINDS)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _Trial(
            function, kind, form, limit, shrinks, name or getattr(function, "__name__", "it")
        ).report()


class _Trial:
    """One function before the judge."""

    def __init__(
        self, function: Callable, kind: str, form: str, limit: float, shrinks: bool, name: str
    ) -> None:
        self.kind, self.table, self.name, self.shrinks = KINDS[kind], kind, name, shrinks
        self.cases = list(cases_of(kind))
        self.fixed = self.kind.optional and not _takes(function, len(self.kind.arguments))
        if self.fixed:  # it has no such parameter: only the default is asked
            self.cases = [case._replace(inputs=case.inputs[:-1]) for case in self.cases if case.inputs[-1] == 1]
        self.caller = Caller(function, form, self.read, limit)
        self.indices = False  # does it return the number of the chosen model?

    def read(self, returned: Any) -> Any:
        value = self.kind.read(returned)
        self.indices = self.indices or (self.kind.selects and np.ndim(value) == 0 and value.dtype.kind in "iu")
        return value

    # --- Running it -----------------------------------------------------------------------------------------

    def report(self) -> Report:
        problem = self.choose_form()
        if problem:
            return self.verdict(NOT_JUDGED, "could not be judged", problem=problem)
        asked, answers = self.ask()
        if answers[-1].late:
            before = sum(self.agrees(case, answer) for case, answer in zip(asked, answers, strict=True))
            problem = f"{answers[-1].problem} to {asked[-1].name}; {before} of {len(asked) - 1} agreed before"
            return self.verdict(NOT_JUDGED, "could not be judged", problem=problem)
        return self.compare(asked, answers)

    def choose_form(self) -> str:
        """Finds out how the function takes arrays; returns why it cannot be called, or ""."""
        probe = next((case for case in self.cases if _telling(case)), self.cases[0])
        problems = {}
        for form in [self.caller.form] if self.caller.form else available():
            self.caller.form = form
            answer = self.caller(probe.inputs)
            problems[form] = answer.problem or self.misfit(probe, answer)
            if not problems[form] or answer.late:
                return problems[form]
        shapes = [problem for problem in problems.values() if problem.startswith("returns")]
        if shapes:
            return f"{shapes[0]}; see --call for another way to call it: {self.kind.call}"
        lines = [f"with {form}: {problem}" for form, problem in problems.items()]
        return "\n  ".join([f"it cannot be called as {self.kind.call}", *lines])

    def misfit(self, case: Case, answer: Answer) -> str:
        """Why an answer has not the form of the expected one, or ""."""
        expected = case.expected if not isinstance(case.expected, dict) else case.expected["W"]
        value = answer.value if not isinstance(answer.value, dict) else answer.value["W"]
        if np.shape(value) == np.shape(expected) or self.indices:
            return ""
        return f"returns shape {np.shape(value)} where {np.shape(expected)} is expected"

    def ask(self) -> tuple[list[Case], list[Answer]]:
        """Its answers, until it hangs or the time is over. Cases come in an order that allows that."""
        answers = self.caller.all([case.inputs for case in self.cases], SECONDS)
        return self.cases[: len(answers)], answers

    # --- Comparing ------------------------------------------------------------------------------------------

    def agrees(self, case: Case, answer: Answer) -> bool:
        return agree(case, case.expected, self.row(case.inputs, answer))

    def row(self, inputs: Inputs, answer: Answer) -> Any:
        """The answer; for the number of a model that model; None if there is no answer."""
        if self.indices and answer.value is not None and np.ndim(answer.value) == 0:
            i = int(answer.value)
            return inputs[0][i] if 0 <= i < len(inputs[0]) else None
        return answer.value

    def compare(self, asked: list[Case], answers: list[Answer]) -> Report:
        pairs = list(zip(asked, answers, strict=True))
        judged = [(case, self.row(case.inputs, answer)) for case, answer in pairs if case.expected is not None]
        right = [agree(case, case.expected, value) for case, value in judged]
        base = agreement("the definition", judged, right)
        facts: dict[str, Any] = {"form": self.caller.form, "agreement": base, "groups": groups(judged, right)}
        facts["notes"] = (
            *self.traits(pairs),
            *([] if len(asked) == len(self.cases) else [self.unfinished(asked)]),
        )
        if all(right):
            return self.verdict(RIGHT, "right", **facts)
        known = [self.likeness(variant, judged, right) for variant in self.suspects(judged, right)]
        variant = max((v for v in known if v.full), key=lambda v: v.rank, default=base)
        different = [
            (case, answer)
            for case, answer in pairs
            if case.expected is not None and not self.agrees(case, answer)
        ]
        facts["difference"] = self.smallest(different)
        facts["step"] = self.first_step(different)
        if variant.rank > base.rank and (variant.complete or not base.full):
            return self.verdict(DIFFERENT, "a known variant", variant=variant, **facts)
        if base.full:
            facts["by_group"] = self.by_group(judged, right)
            return self.verdict(DIFFERENT, "right, but for the cases counted apart", **facts)
        best = max(known, key=lambda v: v.explained, default=base)
        closest = best if best.explained else None
        return self.verdict(DIFFERENT, "different, and no variant that is known", closest=closest, **facts)

    def by_group(self, judged: list[tuple[Case, Any]], right: list[bool]) -> dict[str, Agreement]:
        """For each group in which it leaves the definition, a variant that agrees in all of that group."""
        found = {}
        likely = [self.likeness(variant, judged, right) for variant in variants_of(self.table)]
        for group, count in groups(judged, right).items():
            fits = [v for v in likely if v.full and group in v.apart and v.apart[group].agreed == count.of]
            if count.agreed < count.of and fits:
                found[group] = fits[0]
        return found

    def suspects(self, judged: list[tuple[Case, Any]], right: list[bool]) -> list[Variant]:
        """The variants that agree most on a few cases, half of them such as tell it from the definition."""
        marked = list(zip(judged, right, strict=True))
        wrong, others = ([pair for pair in marked if pair[1] is agreed] for agreed in (False, True))
        few = [*wrong[:: len(wrong) // 30 + 1], *others[:: len(others) // 30 + 1]]

        def found(variant: Variant) -> int:
            return sum(agree(case, answer_of(variant, case), value) for (case, value), _ in few)

        return sorted(variants_of(self.table), key=found, reverse=True)[:4]

    def likeness(self, variant: Variant, judged: list[tuple[Case, Any]], right: list[bool]) -> Agreement:
        """How far a variant agrees with the function, and how many of its differences that explains."""
        same = [agree(case, answer_of(variant, case), value) for case, value in judged]
        explained = [equal for equal, agreed in zip(same, right, strict=True) if not agreed]
        return agreement(variant.name, judged, same)._replace(
            about=variant.about,
            used_by=variant.used_by,
            explains=Count(sum(explained), len(explained)),
        )

    def first_step(self, different: list[tuple[Case, Answer]]) -> str:
        """Of a round: the step that leaves the path, by what was returned or else by the kind of setting."""
        if self.table != "round":
            return ""
        found = []
        for case, answer in different:
            if answer.value is not None and len(answer.value) > 1:
                found += [step for step in case.expected if not agree(case, case.expected, answer.value, step)][
                    :1
                ]
        if found:
            return min(found, key=rounds.STEPS.index)
        return min((case.group for case, _ in different), key=rounds.LADDER.index)

    def verdict(self, status: int, verdict: str, **facts: Any) -> Report:
        definition = f"{self.kind.about} ({self.kind.reference})"
        return Report(self.name, self.table, definition, status, verdict, **facts)

    # --- One difference -------------------------------------------------------------------------------------

    def smallest(self, different: list[tuple[Case, Answer]]) -> Difference:
        """The smallest input on which it differs, if hypothesis finds one; else the first that was drawn."""
        case, answer = different[0]
        poison = all(case.apart for case, _ in different)
        found = None
        if self.shrinks and self.kind.why and any(case.group != FAR for case, _ in different):
            found = shrink.smallest(self.kind.arguments, self.differs, poison)
        title = case.name
        if found is not None:
            title, inputs = "the smallest input found", found[:-1] if self.fixed else found
            case, answer = self.case(inputs), self.caller(inputs)
        return self.described(title, case, answer)

    def differs(self, inputs: Inputs) -> bool:
        inputs = inputs[:-1] if self.fixed else inputs
        try:
            case = self.case(inputs)
        except ValueError:  # the definition refuses it
            return False
        answer = self.caller(inputs)
        return not answer.late and not agree(case, case.expected, self.row(inputs, answer))

    def case(self, inputs: Inputs) -> Case:
        return Case("", "", inputs, definition(self.kind, inputs), *tolerances(""))

    def described(self, title: str, case: Case, answer: Answer) -> Difference:
        value = self.row(case.inputs, answer)
        if isinstance(case.expected, dict):
            return rounds.difference(case, answer)
        inputs = {name: shown(v) for name, v in zip(self.kind.arguments, case.inputs, strict=False)}
        why = self.arithmetic(case, value) if np.size(case.inputs[0]) < 40 else ""
        return Difference(title, inputs, shown(case.expected), answer.problem or shown(value), why)

    def arithmetic(self, case: Case, value: Any) -> str:
        """How the definition comes to its answer, in the first coordinate that differs."""
        text = self.kind.why(*case.inputs) if self.kind.why else ""
        if not text.startswith("first coordinate") or np.shape(value) != np.shape(case.expected):
            return text
        close = np.isclose(value, case.expected, rtol=case.rtol, atol=case.atol, equal_nan=True)
        j = int(np.argmin(close))
        cut = [v[:, j : j + 1] if np.ndim(v) == 2 else v for v in case.inputs]
        return self.kind.why(*cut).replace("first coordinate", f"coordinate {j}", 1) if self.kind.why else ""

    # --- What else can be said --------------------------------------------------------------------------------

    def traits(self, pairs: list[tuple[Case, Answer]]) -> Iterable[str]:
        """Sentences about inputs, dtypes, order, translation and refusals."""
        answers = [answer for _, answer in pairs]
        yield f"takes {self.caller.form}" + (", returns the number of a model" if self.indices else "")
        wrote = sorted({self.kind.arguments[i] for answer in answers for i in answer.wrote})
        yield f"writes to its inputs: {', '.join(wrote)}" if wrote else "does not write to its inputs"
        yield from self.dtypes(pairs)
        yield from self.relations()
        refused = [answer for case, answer in pairs if case.expected is None]
        if refused:
            count = sum(bool(answer.problem) for answer in refused)
            yield f"refuses {count} of {len(refused)} inputs that the definition refuses"

    def dtypes(self, pairs: list[tuple[Case, Answer]]) -> Iterable[str]:
        changed = {}
        for case, answer in pairs:
            given = [v.dtype for v in case.inputs if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
            if given and answer.dtype not in ("", str(given[0])) and not self.indices:
                changed[str(given[0])] = answer.dtype
        yield from (f"changes dtype: {before} in, {after} out" for before, after in changed.items())

    def relations(self) -> Iterable[str]:
        """Whether answers move as they must, on ordinary models; and whether asking twice changes them."""
        probes = [case for case in ordinary(self.table) if _telling(case) and case.group not in UNCLEAR][:8]
        probes = [case._replace(inputs=case.inputs[:-1]) if self.fixed else case for case in probes]
        first = [self.row(case.inputs, self.caller(case.inputs)) for case in probes]
        twice = [self.row(case.inputs, self.caller(case.inputs)) for case in probes]
        if not all(agree(case, a, b) for case, a, b in zip(probes, first, twice, strict=True)):
            yield "gives different answers to the same input"
            return
        for relation in self.kind.relations:
            held = []
            for case, value in zip(probes, first, strict=True):
                inputs = relation.inputs(*case.inputs)
                after = self.row(inputs, self.caller(inputs))
                if value is not None and after is not None and np.shape(value) == np.shape(case.expected):
                    held.append(agree(case, relation.answer(value), after))
            if held:
                broken = f"no, in {held.count(False)} of {len(held)} cases"
                yield f"{relation.name}: {'yes' if all(held) else broken}"

    def unfinished(self, asked: list[Case]) -> str:
        return f"slow: {len(asked)} of {len(self.cases)} cases were asked in {SECONDS:g} s"


# --- Helpers ------------------------------------------------------------------------------------------------


def _telling(case: Case) -> bool:
    """An ordinary case with several models of several coordinates, for a first look."""
    sizes = [np.shape(value) for value in case.inputs if isinstance(value, np.ndarray)]
    return not case.apart and case.expected is not None and all(min(s, default=0) >= 2 for s in sizes)


def _takes(function: Callable, count: int) -> bool:
    """Can it be called with so many arguments? Yes, if that cannot be known."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        pass
    return True
