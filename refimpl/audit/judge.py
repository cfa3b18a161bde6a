"""Judges a function: runs it on the cases of a kind and says which definition its answers are."""

import warnings
from collections.abc import Callable
from itertools import compress
from typing import Any

import numpy as np

from refimpl.audit import rounds
from refimpl.audit.caller import Answer, Caller
from refimpl.audit.cases import APART, HOSTILE, NUDGE, Case, agree, nudges
from refimpl.audit.counterexample import count, counterexample, shown
from refimpl.audit.hostile import fates
from refimpl.audit.kinds import KINDS
from refimpl.audit.observations import notes
from refimpl.audit.report import DIFFERENT, NOT_JUDGED, RIGHT, Agreement, Count, Counterexample, Report, Verdict
from refimpl.audit.variants import VARIANTS, Variant
from refimpl.process import unknown

NEAR = 1 / 3  # a variant that explains this share of the differences is worth a word
ALMOST, EXPLAINS = 0.95, 0.9  # agreement in this share of all cases and of the differences is almost certainty
TIES = 0.75  # with fewer agreements, it is not for ties that a variant is another
Judged = list[tuple[Case, Any]]  # the cases that the definition answers, and the function's values


def judge(
    function: Callable,
    kind: str,
    *,
    form: str = "",
    limit: float = 3.0,
    shrinks: bool = True,
    strict: bool = False,
    name: str = "",
) -> Report:
    """Says what `function` computes, as a kind of KINDS. It never raises because of the function.

    `form` is how it takes arrays, one of caller.FORMS; it is found out if not given. `limit` is the number of
    seconds after which a call counts as hanging. `shrinks` makes the example of a difference smaller, which
    takes seconds. `strict` counts the cases of APART too. `name` is the function's in the report.
    """
    if kind not in KINDS:
        raise ValueError(unknown("kind", kind, KINDS))
    called_so = name or getattr(function, "__name__", "it").replace("<lambda>", "it")
    head = called_so, kind, KINDS[kind].about, KINDS[kind].reference
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        called = Caller(function, kind, form, limit)
        pairs = [] if (problem := called.choose_form()) else called.ask()
        problem = problem or hung(pairs)
        if problem:
            return Report(*head, NOT_JUDGED, Verdict.UNJUDGED, problem=problem)
        return Report(*head, **compared(called, pairs, shrinks, strict))


def assert_right(function: Callable, kind: str, *, known: str = "", **options: Any) -> None:
    """Raises AssertionError, with the report, unless the function is right.

    A difference that is meant to be is `known` by the name of the variant; then this fails as soon as the
    function is anything else, right included. The options are those of `judge`.
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    names = [variant.name for variant in VARIANTS.get(kind, ())]
    if known and known not in names:
        raise ValueError(f"unknown variant {known!r} of {kind}, choose from: {'; '.join(names)}")
    report = judge(function, kind, **options)
    found = report.variant.name if report.variant and report.verdict == Verdict.VARIANT else ""
    if report.status == NOT_JUDGED or found != known or (report.status != RIGHT and not known):
        raise AssertionError(f"it is not what it is known as: {known}\n{report}" if known else str(report))


def hung(pairs: list[tuple[Case, Answer]]) -> str:
    """A line on where the function hung, if its last answer never came, else ""."""
    *before, (case, answer) = pairs
    if not answer.late:
        return ""
    agreed = sum(agree(case, case.expected, answer.value) for case, answer in before)
    return f"{answer.problem} to {case.name}; {agreed} of {len(before)} agreed before"


def cut_short(called: Caller, pairs: list[tuple[Case, Answer]]) -> str:
    """A line on a function that agrees on ordinary inputs but is too slow to be asked every case, else ""."""
    if len(pairs) == len(called.cases):
        return ""
    asked = f"only {len(pairs)} of {len(called.cases)} cases were asked in {called.seconds:g} s"
    return f"it is slow: {asked}, and it is right as far as that goes; a larger limit gives it more time"


def compared(called: Caller, pairs: list[tuple[Case, Answer]], shrinks: bool, strict: bool) -> dict[str, Any]:
    """The fields of a report from `status` on."""
    answered = [pair for pair in pairs if pair[0].expected is not None]
    judged = [(case, answer.value) for case, answer in answered]
    right = [agree(case, case.expected, value) for case, value in judged]
    base = agreement("the definition", judged, right)
    different = [pair for pair, agreed in zip(answered, right, strict=True) if not agreed]
    known = [likeness(called, variant, judged, right) for variant in VARIANTS[called.name]] if different else []
    facts: dict[str, Any] = {
        "form": called.form,
        "agreement": base,
        "groups": groups(judged, right),
        "fates": fates(called.kind, [pair for pair in judged if pair[0].group == HOSTILE]),
        "by_group": by_group(known, base.apart) if base.full else {},
        "notes": tuple(notes(called, pairs)),
    }
    if base.full and not (strict and different):
        if problem := cut_short(called, pairs):
            return {"status": NOT_JUDGED, "verdict": Verdict.UNJUDGED, "problem": problem, **facts}
        return {"status": RIGHT, "verdict": Verdict.RIGHT, **facts}
    facts["difference"] = counterexample(called, different, shrinks)
    if called.kind.steps:
        facts["step"] = rounds.leaves_at([(case, answer.value) for case, answer in different])
    if base.full:
        return {"status": DIFFERENT, "verdict": Verdict.ORDINARY, **facts}
    return {"status": DIFFERENT, **named(called, known, judged), **facts}


# --- Variants -----------------------------------------------------------------------------------------------


def named(called: Caller, known: list[Agreement], judged: Judged) -> dict[str, Any]:
    """The verdict on a function that leaves the definition, and which of the known variants it is, if any."""
    agreed = lambda v: (v.ordinary.agreed, agreed_apart(v))
    full = [v for v in known if v.full and v.explains.agreed]
    if full:
        return {"verdict": Verdict.VARIANT, "variant": max(full, key=agreed)}
    almost = [v for v in known if v.ordinary.share >= ALMOST and v.explains.share >= EXPLAINS]
    if almost and not called.kind.steps:  # of a round, variants tell W alone
        best = max(almost, key=agreed)
        return {"verdict": Verdict.ALMOST, "variant": best, "exception": exception(called, best.name, judged)}
    closest = max(known, key=lambda v: v.explains.share)
    close = {"closest": closest} if closest.explains.share >= NEAR else {}
    return {"verdict": Verdict.DIFFERENT, **close}


def likeness(called: Caller, variant: Variant, judged: Judged, right: list[bool]) -> Agreement:
    """How far a variant agrees with the function, and how many of the ordinary differences that explains.

    Cases that differ only by a tie of the variant's, which rounding may decide either way, are left out.
    """
    same = [alike(variant, case, value) for case, value in judged]
    counted = [True] * len(same)
    unlike = any(not agreed and not case.apart for (case, _), agreed in zip(judged, right, strict=True))
    if unlike and TIES <= agreement("", judged, same).ordinary.share < 1:
        counted = [
            equal or case.apart or not tied(called, variant, case, value)
            for (case, value), equal in zip(judged, same, strict=True)
        ]
    judged, same = list(compress(judged, counted)), list(compress(same, counted))
    rows = zip(judged, same, compress(right, counted), strict=True)
    explained = [equal for (case, _), equal, agreed in rows if not agreed and not case.apart]
    return agreement(variant.name, judged, same)._replace(
        about=variant.about, used_by=variant.used_by, explains=Count(sum(explained), len(explained))
    )


def alike(variant: Variant, case: Case, value: Any) -> bool:
    """Whether the function answers as the variant; an error and NaN in all places are alike, if ordinary."""
    answer = variant.answer(case)
    nothing = lambda v: v is None or (not isinstance(v, dict) and bool(np.isnan(v).all()))
    return agree(case, answer, value) or (not case.apart and nothing(answer) and nothing(value))


def tied(called: Caller, variant: Variant, case: Case, value: Any) -> bool:
    """Whether the variant gives this answer too if its inputs are a little different, or in another order.

    Unless it chooses one of the models, each number of the answer may be from other inputs.
    """
    if value is None or not isinstance(case.expected, np.ndarray):
        return False
    floats = [v for v in case.inputs if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    slack = 2 * NUDGE * max(map(np.ptp, floats), default=0.0)
    moved = list(nudges(case.inputs))
    moved += [(W[::-1], *rest) for W, *rest in moved] if called.kind.selects else []
    others = [variant.answer_to(inputs) for inputs in moved]
    near = [abs(other - value) <= slack for other in others if np.shape(other) == np.shape(value)]
    return any(map(np.all, near)) if called.kind.selects else bool(np.any(near, axis=0).all() and near)


def exception(called: Caller, name: str, judged: Judged) -> Counterexample:
    """The smallest ordinary case in which the function differs from a variant, with both answers."""
    (variant,) = (found for found in VARIANTS[called.name] if found.name == name)
    differs = lambda case, value: not alike(variant, case, value) and not tied(called, variant, case, value)
    left = [pair for pair in judged if not pair[0].apart and differs(*pair)]
    case, value = min(left, key=lambda pair: count(pair[0].inputs))
    return shown(called, case._replace(expected=variant.answer(case)), Answer(value))


def agreed_apart(v: Agreement) -> int:
    return sum(group.agreed for group in v.apart.values())


def by_group(known: list[Agreement], apart: dict[str, Count]) -> dict[str, Agreement]:
    """For each group apart in which it leaves the definition, the best variant that agrees in all of it."""
    found = {}
    for group, missed in apart.items():
        fits = [v for v in known if v.full and v.apart[group].share == 1]
        if missed.share < 1 and fits:
            found[group] = max(fits, key=agreed_apart)
    return found


# --- Counting -----------------------------------------------------------------------------------------------


def agreement(name: str, judged: Judged, same: list[bool]) -> Agreement:
    """The agreement in these cases, with the groups of APART counted apart."""
    counts = groups(judged, same)
    usual = [count for group, count in counts.items() if group not in APART]
    total = Count(sum(count.agreed for count in usual), sum(count.of for count in usual))
    return Agreement(name, total, {group: count for group, count in counts.items() if group in APART})


def groups(judged: Judged, same: list[bool]) -> dict[str, Count]:
    """In how many cases of each group two answers are the same."""
    counts: dict[str, Count] = {}
    for (case, _), equal in zip(judged, same, strict=True):
        agreed, of = counts.get(case.group, Count(0, 0))
        counts[case.group] = Count(agreed + equal, of + 1)
    return counts
