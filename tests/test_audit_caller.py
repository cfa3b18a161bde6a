"""How functions are called: with the arrays that they take, and so that none can hang, print or exit."""

import re
import subprocess
import sys
import time
from unittest import mock

import numpy as np
import pytest
from strangers import hangs, hangs_on_nan

from refimpl import aggregate
from refimpl.audit import caller, judge, report
from refimpl.audit.kinds import cases_of

pytestmark = pytest.mark.usefixtures("patient")


def test_a_rule_for_lists_of_vectors_is_called_with_one():
    def average(models):
        assert isinstance(models, list)
        return sum(models) / len(models)

    said = judge(average, "average")
    assert (said.status, said.form) == (report.RIGHT, "list of arrays"), said


def test_torch_is_not_imported():
    code = "import sys; from refimpl.audit import judge; judge(abs, 'sgd'); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def raises(W):
    raise KeyError("where is\nthe server?")


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (hangs, r"no answer within 1 s$"),
        (hangs_on_nan, r"no answer within 1 s to .*; \d+ of \d+ agreed before"),
        (raises, r"cannot be called as \(W\) -> \(d,\)\nKeyError: "),
        (lambda W: sys.exit(3), r"SystemExit: 3"),
        (lambda W: W.nonsense, r"with list of arrays: AttributeError: 'list' object has no "),
        (lambda W: np.asarray(W), r"returns shape \(\d, \d\) where \(\d,\) is expected"),
        (lambda W: None, r"returns None, not an array of numbers"),
        (lambda W: (W[0], {"score": 1}), r"not an array of numbers"),
        (lambda: 0, r"cannot be called as \(W\) -> \(d,\)\nTypeError: "),
    ],
)
@pytest.mark.slow
def test_what_cannot_be_judged_is_reported(function, problem):
    said = judge(function, "average", limit=1)
    assert said.status == report.NOT_JUDGED
    assert re.search(problem, said.problem)


def by_other_names(users_grads, users_count, corrupted_count, *, distances=None):
    """As He et al.'s code has it."""


def by_keyword(W, *, f=1):
    """f is never positional."""


def with_one_between(vectors, samples, f=2):
    """(W, f) fits, but not what is meant by it."""
    return vectors[0] * samples[0]


class Krum:
    def __init__(self, f, power):
        """The second is nobody's."""


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (by_other_names, "by_other_names(users_grads=W, users_count=len(W), corrupted_count=f)"),
        (by_keyword, "by_keyword(W=W, f=f)"),
        (with_one_between, "with_one_between(vectors=W, samples=..., f=f)"),
        (Krum, "Krum(f=f, power=...)(W)"),
    ],
)
def test_another_signature_is_filled_in(function, call):
    said = judge(function, "krum")
    assert said.status == report.NOT_JUDGED
    assert f"perhaps --call 'lambda W, f: {call}'" in said.problem


def test_an_axis_is_that_of_the_models():
    assert "perhaps --call 'lambda W: median(a=W, axis=0)'" in judge(np.median, "median").problem
    assert "--call 'lambda" not in judge(lambda models: models.sum(), "median").problem
    assert "axis" not in caller.suggested(lambda vectors, axis=0: 0, ("W",))


def test_the_usual_call_is_not_suggested():
    def krum(W, f):
        return W + None

    assert "--call" not in judge(krum, "krum").problem


def in_a_hurry(function):
    """The judgement on a function of the kind average that is too slow."""
    with mock.patch.object(caller, "TIMES", 0.1):
        return judge(lambda W: time.sleep(0.02) or function(W), "average", shrinks=False)


@pytest.mark.slow
def test_a_judgement_that_was_cut_short_is_none():
    """Whatever it was asked until then it answered well."""
    said = in_a_hurry(aggregate.average)
    assert (said.status, said.verdict) == (report.NOT_JUDGED, "could not be judged")
    assert re.match(r"it is slow: only \d+ of \d+ cases were asked in 0.3 s, and it is right as ", said.problem)
    assert said.agreement.full


def test_a_single_case_that_was_not_asked_is_enough():
    """Even if hostile inputs, which come late, have shown what nobody counts."""
    all_but_one = lambda self, ask=caller.Caller.ask: ask(self)[:-1]
    with mock.patch.object(caller.Caller, "ask", all_but_one):
        assert judge(lambda W: np.median(W, axis=0), "median").status == report.NOT_JUDGED
        assert judge(aggregate.coordinate_median, "median").status == report.NOT_JUDGED


@pytest.mark.slow
def test_a_difference_that_a_slow_function_showed_is_one():
    said = in_a_hurry(lambda W: W.sum(axis=0))
    assert said.status == report.DIFFERENT
    assert [note for note in said.notes if note.startswith("slow: ")]


@pytest.mark.slow
def test_the_limit_is_that_of_one_call():
    """Not of all together, which is longer."""
    assert judge(lambda W: time.sleep(0.02) or W.mean(axis=0), "average", limit=2).status == report.RIGHT


def test_a_function_without_the_optional_argument_is_asked_by_its_default_alone():
    said = judge(lambda W: -W, "sign-flip")
    assert (said.status, said.agreement.full) == (report.RIGHT, True), said
    assert 20 < said.agreement.ordinary.of < len(cases_of("sign-flip"))


def test_what_a_function_prints_does_not_get_into_the_report(capsys):
    """Even if it never comes back."""

    def talks(W):
        print("hello")
        return hangs(W) if np.isnan(W).any() else W.mean(axis=0)

    print(judge(talks, "average", limit=1))
    printed = capsys.readouterr()
    assert "hello" in printed.err
    assert "hello" not in printed.out
    assert printed.out.startswith("talks could not be judged as average.\n")
