"""studies/ablation.py: which runs it makes, and what it says of them."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
import ablation
from some_results import result, with_options

from refimpl import released
from refimpl.experiments.results import as_csv

ALL = released.differences_of("spambase")


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
    return result(rule, attack, seed, value, released=tuple(names))


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
    assert "python studies/ablation.py spambase" in capsys.readouterr().out


def test_what_cannot_be_run_or_read_is_refused_in_a_line(tmp_path, capsys):
    assert ablation.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"ablation.py: {tmp_path} needs results of runs, and has none\n"
    for options, said in (
        ("--graph nosuch", "unknown graph 'nosuch'"),
        ("--attackers 9", "krum needs n >= 2f"),
    ):
        with pytest.raises(SystemExit, match="2"):
            ablation.main(["spambase", *options.split(), "--out", str(tmp_path / "out")])
        err = capsys.readouterr().err
        assert said in err
        assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


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
    assert ablation.main([str(tmp_path / "runs")]) == 2
    assert capsys.readouterr().err.endswith("ablation.py: needs runs with the same epochs, got 1, 2\n")


def test_runs_by_several_versions_of_the_code_say_so(tmp_path, capsys):
    runs = [run_of((), 0, 0.5), replace(run_of((), 1, 0.5), code="another")]
    (tmp_path / "runs.csv").write_text(as_csv(runs), encoding="utf-8")
    assert ablation.main([str(tmp_path / "runs.csv")]) == 0
    assert "epochs 2, 2 seeds, computed by 2 versions of the code\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("other", "got"),
    [
        ({"batch_size": 40}, "the same batch_size, got 20, 40"),
        ({"dtype": "float32"}, "the same dtype, got float32, float64"),
        ({"l2": 0.1}, "the same l2, got 0.0, 0.1"),
        ({"lr": 0.1}, "the same lr, got 0.01, 0.1"),
        ({"released": ("adam",), "optimizer": "adam", "lr": 0.1}, "the same lr, got 0.01, 0.1"),
        ({"data": "other"}, "the same data, got da7a, other"),
        ({"released": ("adam",), "optimizer": "adam", "lr": 0.005}, ""),
        ({"data": ""}, ""),
        ({"seed": 1}, ""),
    ],
)
def test_runs_that_differ_in_what_is_no_difference_are_refused(other, got, tmp_path, capsys):
    facts = {name: value for name, value in other.items() if name == "data"}
    options = {name: value for name, value in other.items() if name != "data"}
    runs = [run_of((), 0, 0.5), run_of(("smoothed-risk",), 0, 0.6)]
    runs = [runs[0], with_options(runs[1], risk="batch")]
    runs.append(replace(with_options(runs[0], **{"seed": 2} | options), **facts))
    (tmp_path / "runs.csv").write_text(as_csv(runs), encoding="utf-8")
    assert ablation.main([str(tmp_path / "runs.csv")]) == (2 if got else 0)
    said = capsys.readouterr().err
    assert said == (f"ablation.py: needs runs with {got}\n" if got else "")


def test_a_dry_run_runs_nothing(tmp_path, capsys):
    options = f"--attacks none --epochs 1 --dry-run --out {tmp_path / 'none'}".split()
    assert ablation.main(["spambase", *options]) == 0
    said = capsys.readouterr().out
    common = "seed 0, workers 10, attackers 0, epochs 1, graph complete, batch-size 20, dtype float64"
    assert " ".join(said.split()).startswith(f"{common} adaptive none: ")  # and no more
    assert "runs to do" in said
    assert not (tmp_path / "none").exists()
