"""studies/talking.py: gains over `local`, seed by seed; docs/results/talking.md must be what it writes."""

import importlib
from pathlib import Path
from unittest import mock

import pytest
from numpy.testing import assert_allclose
from some_results import result

from refimpl.related import SYSTEMS

ROOT = Path(__file__).parents[1]


@pytest.fixture
def talking(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "studies"))
    with mock.patch.dict(SYSTEMS):  # the study adds to it
        yield importlib.import_module("talking")


def some_runs():
    for seed, alone in enumerate((0.6, 0.7, 0.8, 0.7, 0.7)):
        yield result("local", "none", seed, alone)
        yield result("median", "none", seed, alone + 0.1 * (seed + 1))
        yield result("local", "alie", seed, alone, attackers=9)
        yield result("median", "alie", seed, alone - 0.3, attackers=9)
    yield result("krum", "none", 0, 0.9)


def test_gains_are_paired_by_seed(talking):
    found = talking.gains(list(some_runs()), "median", "worst_own")
    assert_allclose(found["spambase", 0, "none"], [0.1, 0.2, 0.3, 0.4, 0.5])
    assert_allclose(found["spambase", 9, "alie"], [-0.3] * 5)
    assert talking.gains(list(some_runs()), "krum", "worst_own") == {}


def test_the_summary_has_the_worst_case_with_its_interval_and_the_best(talking):
    text = talking.summary(list(some_runs()))
    assert "| `median` | +0.300 ±0.196 to +0.300 |" in text
    assert "-0.300 ±0.000 to -0.300" in text
    assert "krum" not in text  # one seed


def test_the_margins_are_systems_of_the_study_alone(talking):
    assert "skill-bar-0.4" not in SYSTEMS
    talking.add_margins()
    assert SYSTEMS["skill-bar-0.4"].round.keywords == {"m": 0.4}
    assert SYSTEMS["skill-bar"].round is not SYSTEMS["skill-bar-0"].round


@pytest.mark.slow
def test_the_page_says_what_the_csv_says(talking):
    """After `collect`, `show` has been run."""
    written = importlib.import_module("blocks").read_block(talking.PAGE, "talking")
    assert written == talking.section(talking.kept()).strip("\n")
