"""Judges a function: runs it on the cases of a kind and says which definition its answers are."""

import warnings
from collections.abc import Callable
from typing import Any

from refimpl.audit import rounds
from refimpl.audit.caller import Answer, Caller
from refimpl.audit.cases import APART, Case, agree
from refimpl.audit.counterexample import counterexample
from refimpl.audit.kinds import KINDS
from refimpl.audit.observations import notes
from refimpl.audit.report import DIFFERENT, NOT_JUDGED, RIGHT, Agreement, Count, Report
from refimpl.audit.variants import VARIANTS, Variant

UNJUDGED = "could not be judged"
NEAR = 1 / 3  # a variant that explains this share of the differences is worth a word
Judged = list[tuple[Case, Any]]  # the cases that the definition answers, and the function's values


def judge(
    function: Callable, kind: str, *, form: str = "", limit: float = 3.0, shrinks: bool = True, name: str = ""
) -> Report:
    """Says what `function` computes, as a kind of KINDS. It never raises because of the function.

    `form` is how it takes arrays, one of caller.FORMS; it is found out if not given. `limit` is the number of
    seconds after which a call counts as hanging. `shrinks` makes the example of a difference smaller, which
    takes seconds. `name` is the function's in the report.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}, choose from {', '.join(KINDS)}")
    head = name or getattr(function, "__name__", "it"), kind, f"{KINDS[kind].about} ({KINDS[kind].reference})"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        called = Caller(function, kind, form, limit)
        pairs = [] if (problem := called.choose_form()) else called.ask()
        problem = problem or hung(pairs)
        if problem:
            return Report(*head, NOT_JUDGED, UNJUDGED, problem=problem)
        return Report(*head, **compared(called, pairs, shrinks))


def hung(pairs: list[tuple[Case, Answer]]) -> str:
    """A line on where the function hung, if its last answer never came, else ""."""
    *before, (case, answer) = pairs
    if not answer.late:
        return ""
    agreed = sum(agree(case, case.expected, answer.value) for case, answer in before)
    return f"{answer.problem} to {case.name}; {agreed} of {len(before)} agreed before"


def cut_short(called: Caller, pairs: list[tuple[Case, Answer]]) -> str:
    """A line on a function that agrees but is too slow to be asked every case."""
    asked = f"only {len(pairs)} of {len(called.cases)} cases were asked in {called.seconds:g} s"
    return f"it is slow: {asked}, all of which agree; a larger limit gives it more time"


def compared(called: Caller, pairs: list[tuple[Case, Answer]], shrinks: bool) -> dict[str, Any]:
    """The fields of a report from `status` on."""
    answered = [pair for pair in pairs if pair[0].expected is not None]
    judged = [(case, answer.value) for case, answer in answered]
    right = [agree(case, case.expected, value) for case, value in judged]
    base = agreement("the definition", judged, right)
    facts: dict[str, Any] = {
        "form": called.form,
        "agreement": base,
        "groups": groups(judged, right),
        "notes": tuple(notes(called, pairs)),
    }
    if all(right):
        if len(pairs) < len(called.cases):
            return {"status": NOT_JUDGED, "verdict": UNJUDGED, "problem": cut_short(called, pairs), **facts}
        return {"status": RIGHT, "verdict": "right", **facts}
    different = [pair for pair, agreed in zip(answered, right, strict=True) if not agreed]
    facts["difference"] = counterexample(called, different, shrinks)
    if called.kind.steps:
        facts["step"] = rounds.leaves_at([(case, answer.value) for case, answer in different])
    known = [likeness(variant, judged, right) for variant in VARIANTS[called.name]]
    return {"status": DIFFERENT, **named(known, base, facts["groups"]), **facts}


def named(known: list[Agreement], base: Agreement, counts: dict[str, Count]) -> dict[str, Any]:
    """The verdict on a function that leaves the definition, and which of the known variants it is, if any."""
    agreed_apart = lambda v: sum(count.agreed for count in v.apart.values())
    best = max((v for v in known if v.full), key=agreed_apart, default=base)
    if base.full:
        like = {"variant": best} if best.complete else {"by_group": by_group(known, counts)}
        return {"verdict": "right on ordinary inputs, different on others", **like}
    if best.full:
        return {"verdict": "a known variant", "variant": best}
    explained = lambda v: v.explains.share if v.explains else 0.0
    closest = max(known, key=explained)
    close = {"closest": closest} if explained(closest) >= NEAR else {}
    return {"verdict": "different, and no variant that is known", **close}


def likeness(variant: Variant, judged: Judged, right: list[bool]) -> Agreement:
    """How far a variant agrees with the function, and how many of its differences that explains."""
    same = [agree(case, variant.answer(case), value) for case, value in judged]
    explained = [equal for equal, agreed in zip(same, right, strict=True) if not agreed]
    return agreement(variant.name, judged, same)._replace(
        about=variant.about, used_by=variant.used_by, explains=Count(sum(explained), len(explained))
    )


def by_group(known: list[Agreement], counts: dict[str, Count]) -> dict[str, Agreement]:
    """For each group in which it leaves the definition, a variant that agrees in all of that group."""
    found = {}
    for group, count in counts.items():
        fits = [v for v in known if v.full and group in v.apart and v.apart[group].share == 1]
        if count.share < 1 and fits:
            found[group] = fits[0]
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
