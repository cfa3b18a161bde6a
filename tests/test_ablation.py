"""benchmarks/ablation.py and benchmarks/cooperation.py: which runs they make, and what they say of them."""

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import ablation
import cooperation

import refimpl
from data_loaders import spambase
from refimpl import draws, released

ALL = released.of_task("spambase")


def test_each_difference_is_tried_alone_and_left_out():
    found = ablation.variants("spambase")
    assert found["paper"] == []
    assert found["released"] == ALL
    assert found["+ adam"] == ["adam"]
    assert set(found["- adam"]) == set(ALL) - {"adam"}
    assert len(found) == 2 + 2 * len(ALL)


def test_a_run_that_a_difference_can_not_change_is_left_out(tmp_path):
    configs, _ = ablation.configs("spambase", ["--attacks", "none", "foe", "--out", str(tmp_path)])
    has = {(c.rule, c.attack, c.released) for c in configs}
    assert ("adaptive", "foe", ("minus-the-mean",)) in has
    assert ("median", "none", ("lower-median",)) in has
    for run in [
        ("adaptive", "none", ("minus-the-mean",)),
        ("adaptive", "none", ("idle-attackers",)),
        ("adaptive", "foe", ("lower-median",)),
        ("median", "foe", ("adam",)),
        ("adaptive", "foe", ("deviation",)),
    ]:
        assert run not in has


def test_a_difference_brings_its_options_and_only_these(tmp_path):
    configs, _ = ablation.configs("spambase", ["--attacks", "none", "--out", str(tmp_path)])
    by_names = {c.released: c for c in configs if c.rule == "adaptive"}
    assert (by_names[("adam",)].optimizer, by_names[("adam",)].risk) == ("adam", "local")
    left_out = next(c for names, c in by_names.items() if set(names) == set(ALL) - {"smoothed-risk"})
    assert (left_out.optimizer, left_out.risk) == ("adam", "local")


def run_of(names, seed, value, rule="adaptive", attack="none"):
    config = {"task": "spambase", "rule": rule, "attack": attack, "seed": seed, "released": list(names)}
    return {"config": config, "history": {"worst_own": [0.0, value], "worst_whole": [0.0, value]}}


def test_a_line_shows_how_far_it_is_from_its_start_and_whether_that_is_certain():
    values = {(): (0.8, 0.6), ("adam",): (0.9, 0.7), ("raw-features",): (0.9, 0.5)}
    values[tuple(ALL)] = (0.5, 0.5)
    results = [run_of(names, seed, v) for names, some in values.items() for seed, v in enumerate(some)]
    moves = ablation.moves(results, "adaptive", "worst_own")
    assert moves["paper", "none"] == pytest.approx((0.7, False))
    assert moves["+ adam", "none"] == pytest.approx((0.1, True))  # the same for both seeds
    assert moves["+ raw-features", "none"] == pytest.approx((0.0, False))
    assert moves["released", "none"] == (0.5, False)
    text = ablation.table(results, "adaptive", "worst_own")
    assert "+ adam                       +0.10*" in text
    assert "- adam" not in text


def test_only_seeds_that_both_have_are_compared():
    results = [run_of((), 0, 0.5), run_of((), 1, 0.9), run_of(("adam",), 1, 0.8)]
    moved, certain = ablation.moves(results, "adaptive", "worst_own")["+ adam", "none"]
    assert moved == pytest.approx(-0.1)
    assert not certain


def test_what_it_does_not_know_is_answered_in_a_line(capsys):
    assert ablation.main(["no-such-task"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "needs a task (spambase, har, mnist, digits) with its options" in line
    assert line.endswith("got no-such-task")
    assert ablation.main(["--help"]) == 0
    assert "python benchmarks/ablation.py spambase" in capsys.readouterr().out


@pytest.mark.parametrize("skew", cooperation.VARIED["skew"])
def test_workers_have_the_rows_and_the_labels_that_are_asked_for(skew):
    data = spambase.load(None)
    X, y, test = cooperation.local_data(data, 100, skew, draws.stream(0, "partition"))
    assert X.shape == (8, 100, 57)
    share = cooperation.shares(skew)
    np.testing.assert_allclose(y.mean(axis=1), share, atol=0.005)
    tested = [test.y[own].mean() for own in test.own]
    np.testing.assert_allclose(tested, share, atol=0.02)
    assert share.mean() == pytest.approx(0.4 + 0.1 * skew)


@pytest.mark.parametrize("seed", range(10))
def test_there_are_rows_enough(seed):
    rows = int(max(cooperation.VARIED["rows"]))
    X, _, _ = cooperation.local_data(spambase.load(None), rows, 0.5, draws.stream(seed, "partition"))
    assert X.shape[1] == rows


def test_no_row_is_dealt_twice():
    data = spambase.load(None)
    different = len(np.unique(data.X, axis=0)) / len(data.X)
    X, _, _ = cooperation.local_data(data, 300, 0.5, draws.stream(0, "partition"))
    rows = X.reshape(-1, 57)
    assert len(np.unique(rows, axis=0)) > (different - 0.02) * len(rows)  # the data repeat some themselves


def test_a_kept_number_has_the_version_that_computed_it(monkeypatch):
    """The file has a line for each of its kind, with the columns that a run would write today."""
    rows = cooperation.read(cooperation.CSV)
    kinds = sum(map(len, cooperation.VARIED.values())) * len(cooperation.RULES)
    assert len(rows) % kinds == 0
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", row["version"]) for row in rows)
    monkeypatch.setattr(cooperation, "ROUNDS", 2)
    made = cooperation.run("rows", 20, "local", 0)
    assert made["version"] == refimpl.__version__
    assert list(made) == list(rows[0])


def test_the_kept_numbers_make_the_table():
    rows = [
        {"varied": varied, **cooperation.USUAL, varied: value, "rule": rule, "seed": seed}
        | {"mean_own": 0.9 + 0.01 * seed + 0.05 * (rule == "adaptive"), "mean_whole": 0.5}
        for varied, values in cooperation.VARIED.items()
        for value in values
        for rule in cooperation.RULES
        for seed in (0, 1)
    ]
    head, _, first, *_ = cooperation.table(rows).split("\n")
    assert " ".join(first.split()) == "rows 20 0.96 0.50 0.91 0.50 0.91 0.50 +0.050 ±0.000"
    assert len(first) <= 80
    assert len(head) <= 80


@pytest.mark.slow
def test_runs_of_a_folder_become_tables_and_a_mixture_is_refused(tmp_path, capsys):
    options = [
        "--attacks",
        "none",
        "--epochs",
        "1",
        "--batch-size",
        "500",
        "--seeds",
        "0",
        "--jobs",
        "1",
        "--out",
    ]
    assert ablation.main(["spambase", *options, str(tmp_path / "runs")]) == 0
    said = capsys.readouterr().out
    assert said.startswith("task spambase, workers 10, attackers 3, epochs 1, 1 seed\n\nadaptive, worst_own")
    assert "- lower-median" in said
    assert ablation.main([str(tmp_path / "runs")]) == 0
    assert capsys.readouterr().out == said
    more = [*options[:3], "2", *options[4:]]
    ablation.main(["spambase", *more, str(tmp_path / "more")])
    for path in (tmp_path / "more").glob("*.json"):
        shutil.copy(path, tmp_path / "runs")
    with pytest.raises(ValueError, match="needs runs with the same epochs, got 1, 2"):
        ablation.main([str(tmp_path / "runs")])


def test_a_dry_run_runs_nothing(tmp_path, capsys):
    options = f"--attacks none --epochs 1 --dry-run --out {tmp_path / 'none'}".split()
    assert ablation.main(["spambase", *options]) == 0
    said = capsys.readouterr().out
    common = "workers 10, attackers 0, epochs 1, batch-size 20, dtype float64, seed 0, graph complete"
    assert " ".join(said.split()).startswith(f"{common} adaptive none: ")  # and no more
    assert "runs to do" in said
    assert not (tmp_path / "none").exists()
