"""studies/systems.py: from the files of runs to a table; docs/results/systems.md must be what it writes."""

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from some_results import result, with_options

from refimpl.experiments.results import as_json, identity, read
from refimpl.experiments.tables import select

ROOT = Path(__file__).parents[1]


@pytest.fixture
def systems(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "studies"))
    return importlib.import_module("systems")


RUNS = [
    *(result("adaptive", "none", seed, 0.8 + 0.1 * seed, sent=86544.0) for seed in (0, 1)),
    *(result("ios", "none", seed, 0.7, sent=86544.0) for seed in (0, 1)),
    result("choco", "alie", 0, 0.9, sent=1296.0),
    result("adaptive", "alie", 0, 0.9, sent=86544.0, attackers=2),
]


@pytest.fixture
def runs(systems, tmp_path):
    for i, run in enumerate(RUNS):
        (tmp_path / f"{i}.json").write_text(as_json(run), encoding="utf-8")
    for _ in range(2):  # again adds nothing
        assert systems.collect([tmp_path], tmp_path / "new" / "systems.csv") == len(RUNS)
    return read(tmp_path / "new" / "systems.csv")


def test_a_row_is_a_run(runs):
    assert sorted(map(identity, runs)) == sorted(map(identity, RUNS))
    (run,) = select(runs, "choco", "alie")
    assert (run.last("worst_own"), run.last("mean_whole"), run.bytes_per_round) == (0.9, 0.89, 1296)
    assert (run.config.seed, run.code, run.config.lr) == (0, "c0de", 0.01)


def test_a_run_of_another_partition_or_schedule_is_added(systems, runs, tmp_path):
    others = {"partition": "iid"}, {"graph_schedule": "thinned:0.3"}, {"graph_schedule": (((0, 1),),)}
    for i, other in enumerate(others):
        (tmp_path / f"other{i}.json").write_text(as_json(with_options(RUNS[0], **other)), encoding="utf-8")
    assert systems.collect([tmp_path], tmp_path / "new" / "systems.csv") == len(RUNS) + 3


def test_a_run_of_the_released_protocol_is_refused_and_replaces_nothing(
    systems, runs, tmp_path, monkeypatch, capsys
):
    path = tmp_path / "new" / "systems.csv"
    before = path.read_bytes()
    (tmp_path / "other.json").write_text(
        as_json(with_options(RUNS[0], released=("smoothed-risk",))), encoding="utf-8"
    )
    monkeypatch.setattr(systems, "CSV", path)
    monkeypatch.setattr(systems.collect, "__defaults__", (path,))
    with pytest.raises(SystemExit, match="2"):
        systems.main(["collect", str(tmp_path)])
    got = "needs runs under the paper's protocol, got adaptive_none_seed0, released smoothed-risk"
    assert capsys.readouterr().err.splitlines()[-1].endswith(got)
    assert path.read_bytes() == before


def test_rules_of_a_table_differ_in_no_more_than_the_learning_rate(systems, runs):
    ios = select(runs, "ios", "none")
    rest = [run for run in runs if run not in ios]
    assert systems.parts([*rest, *(with_options(run, lr=0.1) for run in ios)])
    for name, other in {"epochs": 3, "batch_size": 5, "released": ("adam",)}.items():
        with pytest.raises(ValueError, match=f"needs runs with the same {name}, got "):
            systems.parts([*rest, *(with_options(run, **{name: other}) for run in ios)])
    with pytest.raises(ValueError, match="needs runs with the same data, got da7a, other"):
        systems.parts([*rest, *(replace(run, data="other") for run in ios)])
    assert systems.parts([*rest, *(replace(run, data="") for run in ios)])  # of an older file


def test_the_section_names_a_partition_that_is_not_the_tasks_own(systems, runs):
    assert "partition" not in systems.section(runs)
    other = [with_options(run, partition="iid") for run in runs]
    assert "10 workers, 3 attackers, 2 epochs, partition iid, 1 to 2 seeds" in systems.section(other)


def test_the_section_says_who_is_best_and_leaves_a_dash_where_nothing_was_run(systems, runs):
    assert list(systems.parts(runs)) == [("spambase", 3), ("spambase", 2)]
    text = systems.section(runs)
    assert "| `adaptive` | nothing | 86.5 | 0.85 / 0.84 | - |" in text
    assert "| `choco` | the neighbours' degrees | 1.3 | - | 0.90 / 0.89 |" in text
    assert "Best worst *own*: none `adaptive` (0.85); alie `choco` (0.90)." in text
    assert "10 workers, 3 attackers, 2 epochs, 1 to 2 seeds, learning rate 0.01, 5 runs." in text


def test_runs_without_an_attack_count_whatever_the_number_of_attackers(systems, runs):
    parts = systems.parts(runs)
    assert [len(parts["spambase", f]) for f in (3, 2)] == [5, 5]
    assert {run.config.attack for run in parts["spambase", 2]} == {"none", "alie"}
    again = with_options(select(runs, "adaptive", "none")[0], attackers=2)
    with pytest.raises(ValueError, match="one configuration for each run"):
        systems.parts([*runs, again])


def test_two_configurations_of_a_run_are_refused(systems, runs):
    with pytest.raises(ValueError, match=r"one configuration for each run, got two of .*'ios'"):
        systems.parts([*runs, with_options(select(runs, "ios", "none")[0], lr=0.1)])


def test_a_folder_without_runs_is_named(systems, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        systems.main(["collect", str(tmp_path / "none")])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"needs folders with JSON files of runs, got none in {tmp_path / 'none'}")


def test_a_file_that_is_no_json_is_named(systems, tmp_path, capsys):
    (tmp_path / "run.json").write_bytes(b"\xff")
    with pytest.raises(SystemExit, match="2"):
        systems.main(["collect", str(tmp_path)])
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / 'run.json'} needs to be JSON" in line


def test_who_was_not_run_under_all_attacks_comes_last(systems, runs):
    """choco has the best number, under ALIE alone."""
    both = [*runs, result("ios", "alie", 0, 0.5)]
    assert systems.ranked(both) == ["adaptive", "ios", "choco"]
    assert systems.answer(both) == "Accuracy in the worst of these cases: adaptive 0.85, ios 0.50, choco 0.90"


def test_a_heat_map_has_the_numbers_and_leaves_a_cell_empty_where_nothing_was_run(systems, runs, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    systems.heat_map(ax, runs, ["choco", "adaptive"], ["none", "alie"], "worst_own", Normalize(0, 1))
    assert {(*text.get_position(), text.get_text()) for text in ax.texts} == {
        (1, 0, "0.90"), (0, 1, "0.85"), (1, 1, "0.90")
    }  # fmt: skip
    assert np.isnan(ax.images[0].get_array().filled(np.nan)[0, 0])
    systems.draw(runs, "spambase", tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_says_what_the_csv_says(systems):
    """After `collect`, `show` has been run."""
    written = importlib.import_module("blocks").read_block(systems.PAGE, "systems")
    assert written == systems.section(read(systems.CSV)).strip("\n")
