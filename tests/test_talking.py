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
    assert_allclose(found["spambase", "own", 0, "none"], [0.1, 0.2, 0.3, 0.4, 0.5])
    assert_allclose(found["spambase", "own", 9, "alie"], [-0.3] * 5)
    assert talking.gains(list(some_runs()), "krum", "worst_own") == {}


def test_the_summary_has_the_worst_case_with_its_interval_and_the_best(talking):
    text = talking.summary(list(some_runs()), talking.VIEWS[0])
    assert "| `median` | +0.300 ±0.196 to +0.300 |" in text
    assert "-0.300 ±0.000 to -0.300" in text
    assert "krum" not in text  # one seed


def test_own_and_common_initial_values_tasks_and_attacks_are_never_in_one_mean(talking):
    """Each has gains of its own, and a line of its own in the page."""
    kinds = {
        "own": {},
        "common": {"start": "common"},
        "har": {"task": "har", "workers": 30, "attackers": 13},
        "echo": {"attack": "echo"},
    }
    runs = []
    for i, options in enumerate(kinds.values()):
        for seed in range(5):
            given = {"attack": "alie", "seed": seed} | options
            runs.append(result("local", worst=0.5, **given))
            runs.append(result("median", worst=0.5 + 0.1 * i, **given))
    found = talking.gains(runs, "median", "worst_own")
    assert {(c.task, c.start, c.attack): round(float(v.mean()), 3) for c, v in found.items()} == {
        ("spambase", "own", "alie"): 0.0,
        ("spambase", "common", "alie"): 0.1,
        ("har", "own", "alie"): 0.2,
        ("spambase", "own", "echo"): 0.3,
    }
    text = talking.section(runs)
    for about, gain in zip(talking.VIEWS, ("+0.000", "+0.100", "+0.300", "+0.200")):
        of = text.partition(f"{about.about}, rules with")[2].partition("\n\n")[2].partition("\n\n")[0]
        assert f"{gain} ±0.000 to {gain}" in of
        assert of.count("`median`") == 1
    assert text.count("<details") == 4
    assert "3 attackers, 2 epochs, common initial values, 5 seeds, 10 runs" in text
    assert "3 attackers, 2 epochs, attacks that know the rule, 5 seeds, 10 runs" in text
    assert "13 liars of 30" in text


def test_two_configurations_of_a_run_are_still_refused(talking):
    with pytest.raises(ValueError, match="one configuration for each run"):
        talking.section([*some_runs(), result("local", "none", 0, 0.5, lr=0.5)])


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
