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
    found = talking.gains(list(some_runs()))
    assert_allclose(found["median", "worst_own"]["spambase", "own", 0, 10, "none"], [0.1, 0.2, 0.3, 0.4, 0.5])
    assert_allclose(found["median", "worst_own"]["spambase", "own", 9, 10, "alie"], [-0.3] * 5)
    assert_allclose(found["krum", "worst_own"]["spambase", "own", 0, 10, "none"], [0.3])


def summed_up(talking, runs):
    return talking.summary(talking.gains(runs), talking.VIEWS[0]).splitlines()


def test_the_summary_has_the_worst_case_with_its_interval_and_the_best(talking):
    head, _, *lines = summed_up(talking, list(some_runs()))
    assert head == (
        "| | worst *own*, 0 liars of 10 | mean *own*, 0 liars of 10 | mean *whole*, 0 liars of 10 "
        "| worst *own*, 9 liars of 10 | mean *whole*, 9 liars of 10 |"
    )
    few, most = "+0.300 ±0.196 to +0.300", "-0.300 ±0.000 to -0.300"
    assert lines == [f"| `median` | {few} | {few} | {few} | {most} | {most} |"]  # Krum has one seed


def test_the_mean_is_left_out_only_where_the_worst_worker_is_the_one(talking):
    runs = [result(rule, "alie", seed, 0.5, attackers=7) for rule in ("local", "median") for seed in range(5)]
    assert "mean *own*, 7 liars of 10" in summed_up(talking, runs)[0]


def test_a_rule_with_a_cell_of_few_seeds_has_no_worst_case(talking):
    """It may be the worst one; what the rule does with most liars is still there."""
    runs = [*some_runs(), result("median", "sign-flip", 0, 0.1), result("local", "sign-flip", 0, 0.6)]
    (line,) = summed_up(talking, runs)[2:]
    assert line.startswith("| `median` | - | - | - | -0.300")


def test_a_rule_that_was_not_run_in_all_cases_says_so(talking):
    more = [result(rule, "foe", seed, 0.5) for rule in ("krum", "local") for seed in range(5)]
    others = [run for run in some_runs() if run.config.rule != "krum"]
    median, krum = summed_up(talking, [*others, *more])[2:]
    assert median.startswith("| `median` | +0.300 ±0.196 to +0.300 (1 of 2 cases) |")
    assert krum.startswith("| `krum` | +0.000 ±0.000 to +0.000 (1 of 2 cases) |")
    assert krum.endswith("| - | - |")  # nothing with most liars


def test_own_and_common_initial_values_tasks_and_attacks_are_never_in_one_mean(talking):
    """Each has gains of its own, and a line of its own in the page."""
    mnist = {"risk": "batch", "optimizer": "adam", "lr": 0.001, "batch_size": 64, "dtype": "float32"}
    kinds = {
        "Spambase": {},
        "Spambase, common initial values": {"start": "common"},
        "Spambase, other attacks": {"attack": "backdoor"},
        "Spambase, attacks that know Eq. (6)": {"attack": "echo"},
        "HAR": {"task": "har", "workers": 30, "attackers": 13},
        "MNIST": {"task": "mnist", **mnist},
    }
    runs = []
    for i, options in enumerate(kinds.values()):
        for seed in range(5):
            given = {"attack": "alie", "seed": seed} | options
            runs.append(result("local", worst=0.5, **given))
            runs.append(result("median", worst=0.5 + 0.1 * i, **given))
    found = talking.gains(runs)["median", "worst_own"]
    assert {(c.task, c.start, c.attack): round(float(v.mean()), 3) for c, v in found.items()} == {
        ("spambase", "own", "alie"): 0.0,
        ("spambase", "common", "alie"): 0.1,
        ("spambase", "own", "backdoor"): 0.2,
        ("spambase", "own", "echo"): 0.3,
        ("har", "own", "alie"): 0.4,
        ("mnist", "own", "alie"): 0.5,
    }
    text = talking.section(runs)
    for i, about in enumerate(kinds):
        of = text.partition(f"{about}, rules with")[2].partition("\n\n")[2].partition("\n\n")[0]
        assert f"+0.{i}00 ±0.000 to +0.{i}00" in of
        assert of.count("`median`") == 1
    assert text.count("<details") == 6
    assert "3 attackers, 2 epochs, common initial values, 5 seeds, 10 runs" in text
    assert "3 attackers, 2 epochs, other attacks, 5 seeds, 10 runs" in text
    assert "3 attackers, 2 epochs, attacks that know Eq. (6), 5 seeds, 10 runs" in text
    assert "13 liars of 30" in text


def test_a_cell_of_the_tables_says_if_it_has_fewer_seeds_than_others(talking):
    text = talking.section(list(some_runs()))
    assert "| `krum` | the number of attackers | 1.23 | 0.90 / 0.89 (1) | - |" in text
    assert "| `local` | nothing | 1.23 | 0.70 / 0.69 | 0.70 / 0.69 |" in text


def test_the_picture_has_the_rules_of_the_summary(talking, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    one = [result(rule, "foe", 0, 0.5, attackers=9) for rule in ("local", "median")]
    with mock.patch.object(talking, "panel", wraps=talking.panel) as panel:
        talking.draw([*some_runs(), *one], tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    drawn = [[len(found) for found in call.args[1]] for call in panel.call_args_list]
    assert drawn == [[1], [1], [0], [0]]  # of the median a dot, and none where a cell has one seed; not Krum
    titles = [call.args[0].get_title().splitlines()[1] for call in panel.call_args_list]
    assert titles == ["0 liars of 10", "0 liars of 10", "9 liars of 10", "9 liars of 10"]


def test_two_configurations_of_a_run_are_still_refused(talking):
    with pytest.raises(ValueError, match="one configuration for each run"):
        talking.section([*some_runs(), result("local", "none", 0, 0.5, lr=0.5)])


def test_the_margins_are_systems_of_the_study_alone(talking):
    assert "skill-bar-0.4" not in SYSTEMS
    talking.add_margins()
    assert SYSTEMS["skill-bar-0.4"].round.keywords == {"m": 0.4}
    assert SYSTEMS["skill-bar"].round is not SYSTEMS["skill-bar-0"].round


def test_the_page_says_what_the_csv_says(talking):
    """After `collect`, `show` has been run."""
    written = importlib.import_module("blocks").read_block(talking.PAGE, "talking")
    assert written == talking.section(talking.kept()).strip("\n")
