"""benchmarks/systems.py: from the files of runs to a table; docs/RESULTS.md must be what it writes."""

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def systems(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("systems")


def result(rule, attack, seed, worst, sent=86544.0, attackers=3):
    config = {"task": "spambase", "rule": rule, "attack": attack, "seed": seed, "attackers": attackers}
    config |= {"workers": 10, "epochs": 200, "graph": "complete", "risk": "local", "optimizer": "sgd"}
    config |= {"lr": 0.01, "batch_size": 20, "partition": "nonuniform", "dtype": "float64"}
    config |= {"features": "standardised", "l2": 0.0, "graph_schedule": "", "released": []}
    history = {"worst_own": [0.1, worst], "mean_own": [0.2, worst], "worst_whole": [0.3, worst]}
    history |= {"mean_whole": [0.4, worst - 0.1], "not_finite": [0, 0]}
    facts = {"bytes_per_round": sent, "rounds_per_epoch": 19, "seconds": 1.26}
    return {"config": config, "history": history, **facts, "versions": {"refimpl": "0", "code": "c0de"}}


RUNS = [
    *(result("adaptive", "none", seed, 0.8 + 0.1 * seed) for seed in (0, 1)),
    *(result("ios", "none", seed, 0.7) for seed in (0, 1)),
    result("choco", "alie", 0, 0.9, sent=1296.0),
    result("adaptive", "alie", 0, 0.9, attackers=2),
]


@pytest.fixture
def rows(systems, tmp_path):
    for i, run in enumerate(RUNS):
        (tmp_path / f"{i}.json").write_text(json.dumps(run))
    for _ in range(2):  # again adds nothing
        assert systems.collect([tmp_path], tmp_path / "new" / "systems.csv") == len(RUNS)
    return systems.read(tmp_path / "new" / "systems.csv")


def test_a_row_is_a_run(rows):
    assert len(rows) == 6
    row = next(row for row in rows if row["rule"] == "choco")
    assert (row["worst_own"], row["mean_whole"], row["bytes_per_round"]) == pytest.approx((0.9, 0.8, 1296))
    assert (row["seed"], row["rounds"], row["code"], row["lr"]) == (0, 3800, "c0de", 0.01)
    assert row["partition"] == "nonuniform"


def test_an_old_file_has_the_partitions_of_its_tasks(systems, rows, tmp_path):
    """The run of another partition is another run, and so is that of another schedule."""
    new, old = tmp_path / "new" / "systems.csv", tmp_path / "old.csv"
    lines = [line.split(",") for line in new.read_text().splitlines()]
    missing = [lines[0].index(name) for name in ("partition", "features", "l2", "graph_schedule")]
    kept = [[word for at, word in enumerate(line) if at not in missing] for line in lines]
    old.write_text("".join(",".join(line) + "\n" for line in kept))
    assert systems.read(old) == rows
    others = {"partition": "iid"}, {"graph_schedule": "thinned:0.3"}, {"graph_schedule": [[[0, 1]]]}
    for i, other in enumerate(others):
        config = RUNS[0]["config"] | other
        (tmp_path / f"other{i}.json").write_text(json.dumps(RUNS[0] | {"config": config}))
    assert systems.collect([tmp_path], old) == len(RUNS) + 3


def test_the_section_names_a_partition_that_is_not_the_tasks_own(systems, rows):
    assert "partition" not in systems.section(rows)
    other = [row | {"partition": "iid"} for row in rows]
    assert "10 workers, 3 attackers, 200 epochs, partition iid, 1 to 2 seeds" in systems.section(other)


def test_the_section_says_who_is_best_and_leaves_a_dash_where_nothing_was_run(systems, rows):
    assert list(systems.parts(rows)) == [("spambase", 3), ("spambase", 2)]
    text = systems.section(rows)
    assert "| `adaptive` | nothing | 86.5 | 0.85 / 0.75 | - |" in text
    assert "| `choco` | the neighbours' degrees | 1.3 | - | 0.90 / 0.80 |" in text
    assert "Best worst *own*: none `adaptive` (0.85); alie `choco` (0.90)." in text
    assert "10 workers, 3 attackers, 200 epochs, 1 to 2 seeds, learning rate 0.01, 5 runs." in text
    assert "(systems.png)" in text


def test_runs_without_an_attack_count_whatever_the_number_of_attackers(systems, rows):
    parts = systems.parts(rows)
    assert [len(parts["spambase", f]) for f in (3, 2)] == [5, 5]
    assert {row["attack"] for row in parts["spambase", 2]} == {"none", "alie"}
    again = next(row for row in rows if row["attack"] == "none") | {"attackers": 2.0}
    with pytest.raises(ValueError, match="one configuration for each run"):
        systems.parts([*rows, again])


def test_two_configurations_of_a_run_are_refused(systems, rows):
    with pytest.raises(ValueError, match=r"one configuration for each run, got two of .*'ios'"):
        systems.parts([*rows, next(row for row in rows if row["rule"] == "ios") | {"lr": 0.1}])


def test_a_folder_without_runs_is_named(systems, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        systems.main(["collect", str(tmp_path / "none")])
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.endswith(f"needs folders with JSON files of runs, got none in {tmp_path / 'none'}")


def test_an_attack_looks_the_same_in_every_panel(systems, rows):
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    some = [[row for row in rows if row["attackers"] == f] for f in (3, 2)]
    axes = matplotlib.Figure().subplots(2)
    for ax, part in zip(axes, some):
        systems.panel(ax, part)
    (_, first), (second,) = (ax.collections for ax in axes)  # none and alie; alie
    assert first.get_label() == second.get_label()
    assert (first.get_facecolor() == second.get_facecolor()).all()


def test_who_was_not_run_under_all_attacks_comes_last(systems, rows):
    """choco has the best number, under ALIE alone."""
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ax = matplotlib.Figure().subplots()
    both = [row | {"attack": "alie", "worst_own": 0.5} for row in rows if row["rule"] == "ios"]
    systems.panel(ax, [*rows, *both])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["CHOCO", "IOS", "adaptive"]  # upwards


def test_large_amounts_are_written_out(systems):
    assert systems.kilobytes([{"bytes_per_round": 6.59e6}]) == "6590"
    assert systems.kilobytes([{"bytes_per_round": 86544}]) == "86.5"


def test_the_figure_is_a_png(systems, rows, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    systems.draw(systems.parts(rows), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_every_rule_and_system_says_what_it_must_know(systems):
    assert set(systems.NEEDS) == set(systems.LABELS)


def test_the_page_says_what_the_csv_says(systems):
    """After `collect`, `show` has been run."""
    page = systems.PAGE.read_text()
    written = page.split(systems.BEGIN)[1].split(systems.END)[0]
    assert written.strip() == systems.section(systems.read(systems.CSV)).strip()
