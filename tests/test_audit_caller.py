"""How functions are called: with the arrays that they take, and so that none can hang, print or exit."""

import re
import subprocess
import sys
import time

import numpy as np
import pytest
from strangers import hangs, hangs_on_nan

from refimpl.audit import caller, judge, report

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


def test_a_slow_function_is_judged_on_part_of_the_cases(monkeypatch):
    monkeypatch.setattr(caller, "SECONDS", 0.3)
    said = judge(lambda W: time.sleep(0.02) or W.mean(axis=0), "average")
    assert (said.status, said.verdict) == (report.RIGHT, "right, as far as it was asked")
    assert said.agreement.ordinary.of < 30
    assert [note for note in said.notes if note.startswith("slow: ")]


def test_what_a_function_prints_does_not_get_into_the_report(capsys):
    """Even if it never comes back."""

    def talks(W):
        print("hello")
        return hangs(W) if np.isnan(W).any() else W.mean(axis=0)

    print(judge(talks, "average", limit=1))
    printed = capsys.readouterr()
    assert "hello" in printed.err
    assert "hello" not in printed.out
    assert printed.out.startswith("talks, judged as average: could not be judged")
