"""Mutants of the audit: mistakes of the judge's own, by which it would say something untrue of a function."""

import importlib
import math

from mutants.common import killer
from refimpl import aggregate
from refimpl.audit import caller, counterexample, hostile, rounds
from refimpl.audit.report import RIGHT, Count

command = importlib.import_module("refimpl.audit.__main__")
judge = importlib.import_module("refimpl.audit.judge")  # the package has the function under this name
asked, commanded, small, met, judged, of_rounds = (
    killer(f"audit_{part}") for part in ("caller", "command", "counterexample", "hostile", "judge", "rounds")
)


def all_cases(by_default):
    return lambda cases: [case._replace(inputs=case.inputs[:-1]) for case in cases]


def limit_of_all(answers):
    return lambda self, many, seconds=math.inf: answers(self, many, min(seconds, self.limit))


def last_step(leaves_at):
    order = [*rounds.STEPS, *rounds.LADDER]
    return lambda different: max((leaves_at([pair]) for pair in different), key=order.index)


def ties_too(leaves):
    return lambda called, inputs, clearly, liked: leaves(called, inputs, False, liked)


def all_agreed(hung):
    return lambda pairs: hung(pairs[-1:]).replace("0 of 0", f"{len(pairs) - 1} of {len(pairs) - 1}")


def groups_that_agree(by_group):
    return lambda known, apart: by_group(known, {g: Count(c.share < 1, 1) for g, c in apart.items()})


def first_full(named):
    return lambda called, known, judged: named(called, [v for v in known if v.full][:1] or known, judged)


MUTANTS = [
    ("a function without sigma is asked with sigma", caller, "by_default", all_cases,
     asked("a_function_without_the_optional_argument_is_asked_by_its_default_alone")),
    ("the limit of a call is that of all", caller.Caller, "answers", limit_of_all,
     asked("the_limit_is_that_of_one_call")),
    ("what was cut short is right", judge, "cut_short", lambda cut_short: lambda *of: "",
     asked("a_judgement_that_was_cut_short_is_none"), asked("a_single_case_that_was_not_asked_is_enough")),
    ("silence is right", command, "NOT_JUDGED", lambda status: RIGHT,
     commanded("a_process_that_ends_without_a_report_is_not_right", end="_exit(0)")),
    ("the last step that leaves the path", rounds, "leaves_at", last_step,
     of_rounds("the_first_step_of_several_cases")),
    ("a tie as example", counterexample, "leaves", ties_too,
     small("a_tie_is_no_example_of_another_choice")),
    ("before a hang all agreed", judge, "hung", all_agreed,
     judged("what_agreed_before_a_hang_is_counted")),
    ("variants where all agree", judge, "by_group", groups_that_agree,
     judged("right_is_right_whatever_hostile_inputs_do_and_strict_counts_them")),
    ("the first variant for the best", judge, "named", first_full,
     judged("of_variants_alike_the_one_that_is_like_it_under_attack_too")),
    ("a tie decides the name", judge, "tied", lambda tied: lambda *of: False,
     judged("a_tie_that_rounding_decides_does_not_decide_the_name")),
    ("an example without attackers", counterexample, "likeable", lambda likeable: counterexample.possible,
     small("an_example_has_an_attacker_and_small_whole_numbers", kind="krum", name="Krum over all others")),
    ("a fate with more attackers than can be borne", hostile, "bearable", lambda right: lambda *of: True,
     met("fates", function=aggregate.coordinate_median, kind="median", fates={"survives"})),
]  # fmt: skip
