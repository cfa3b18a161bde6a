"""The mark refimpl, in tests as a stranger writes them."""

import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("patient")

TESTS = """
import unittest

import numpy as np
import pytest


def lower_median(W):
    return np.sort(W, axis=0)[(len(W) - 1) // 2]


@pytest.fixture
def axis():
    return 0


@pytest.mark.refimpl("median")
def test_right(axis, unused=None):
    return lambda W: np.median(W, axis=axis)


@pytest.mark.refimpl("median", known="lower median", shrinks=False)
class TestKnown:
    def test_known(self):
        return lower_median


@pytest.mark.refimpl("median", shrinks=False)
def test_wrong():
    return lower_median


@pytest.mark.refimpl("median", known="lower median")
def test_changed(axis):
    return lambda W: np.median(W, axis=axis)


@pytest.mark.refimpl("median", strict=True, shrinks=False)
def test_strict(axis):
    return lambda W: np.median(W, axis=axis)


@pytest.mark.refimpl("median")
def test_nothing():
    lower_median(np.eye(2))


@pytest.mark.refimpl("medan")
def test_unknown_kind():
    return lower_median


@pytest.mark.refimpl
def test_no_kind():
    return lower_median


class TestOld(unittest.TestCase):
    @pytest.mark.refimpl("median")
    def test_old(self):
        return None


def test_unmarked():
    assert lower_median(np.eye(2))[0] == 0
"""
SAID = {
    "test_wrong": "lower_median is not median as in BRIDGE-M, Fang et al. 2022; it is a known",
    "test_changed": "it is not what it is known as: lower median",
    "test_strict": "it is right on ordinary inputs, but not on others: hostile",
    "test_nothing": "the test needs to return the function to judge, got None",
    "test_unknown_kind": "unknown kind 'medan', did you mean median",
    "test_no_kind": "assert_right() missing 1 required positional argument: 'kind'",
    "test_old": "the mark refimpl is for pytest's own tests, not for those of a TestCase",
}


def test_marked_tests(pytester):
    """Reports are the judge's, without a line of our code."""
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_inprocess("-p", "refimpl.plugin", "--strict-markers", "-W", "error")
    done.assert_outcomes(passed=3, failed=6, errors=1)
    parts = done.stdout.str().split("\n___")
    for name, said in SAID.items():
        (part,) = (part for part in parts if part.split("\n")[0].rstrip("_ ").endswith(name))
        assert part.split("\n")[1].startswith(said)
        assert "plugin.py" not in part
        assert "exception occurred" not in part


RULES = """
import numpy as np


def trimmed_mean(W, f):
    return np.sort(W, axis=0)[f : len(W) - f].mean(axis=0)


class Krum:
    def __init__(self, f):
        self.f = f

    def __call__(self, W):
        D = np.nan_to_num(((W[:, None] - W) ** 2).sum(-1), nan=np.inf)
        return W[np.sort(D, axis=1)[:, : len(W) - self.f].sum(axis=1).argmin()]
"""


@pytest.mark.slow
def test_the_example_of_the_page(pytester):
    (example,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "JUDGE.md").read_text(encoding="utf-8"), re.DOTALL
    )
    package = pytester.mkpydir("my_package")
    (package / "rules.py").write_text(RULES, encoding="utf-8")
    pytester.makepyfile(example)
    pytester.syspathinsert()
    pytester.runpytest_inprocess("-p", "refimpl.plugin", "--strict-markers").assert_outcomes(passed=2)


def test_the_mark_is_described(pytester):
    done = pytester.runpytest_inprocess("-p", "refimpl.plugin", "--markers")
    done.stdout.fnmatch_lines(
        ["@pytest.mark.refimpl(kind, known=*): judges the function that the test returns*"]
    )


def test_pytest_starts_without_the_audit():
    code = "import sys, refimpl.plugin; print(sorted({'numpy', 'refimpl.audit'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_whoever_installs_the_package_has_the_mark():
    """Under the module's own name: then asking for it by -p as well does no harm."""
    config = ConfigParser(delimiters="=")
    config.read(ROOT / "setup.cfg")
    assert config["options.entry_points"]["pytest11"].split() == ["refimpl.plugin", "=", "refimpl.plugin"]
    assert "pytest" not in config["options"]["install_requires"]
