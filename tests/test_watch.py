"""What a run tells of itself, what a command shows of its runs, and how long it says that they take."""

import dataclasses
import json
import time

import pytest

from refimpl.experiments import cli, grid, run, runner, tasks, watch
from refimpl.experiments.config import Config
from refimpl.experiments.results import RunResult
from refimpl.experiments.watch import Board, kind_of, paces

CONFIG = Config(
    task="spambase", rule="adaptive", attack="alie", seed=0, graph="complete",
    **tasks.TASKS["spambase"].defaults | {"epochs": 6, "batch_size": 60, "optimizer": "adam"},
)  # fmt: skip


def config(**changes):
    return dataclasses.replace(CONFIG, **changes)


def result(config, seconds, worst=0.5):
    """A finished run of which only this is asked."""
    empty = {"attackers": [], "evaluated": [], "weights_at": {}, "accuracy": {}, "versions": {}}
    none = {"rounds_per_epoch": 1, "bytes_per_round": 0.0, "data": "", "code": "", "threads": 1}
    return RunResult(config=config, history={"worst_own": [worst]}, seconds=seconds, **empty, **none)


# --- A run --------------------------------------------------------------------------------------------------


def test_a_run_tells_how_far_it_is(tmp_path, monkeypatch):
    now = config(risk="batch")  # which can be resumed after every round
    told, path = [], grid.path_of(now, tmp_path)
    monkeypatch.setattr(watch, "EVERY", 0)
    monkeypatch.setattr(watch, "write", lambda at, text: told.append((at, json.loads(text))))
    found = grid.run_to_file(now, path, None, 1, {})
    assert {at for at, _ in told} == {tmp_path / f".{path.stem}.progress"}
    facts = [facts for _, facts in told]
    shares = [f["share"] for f in facts]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 1
    assert (facts[0]["epoch"], facts[0]["worst"]) == (0, None)
    assert facts[-1]["epoch"] == 5
    assert facts[-1]["worst"] == found.history["worst_own"][4]
    assert "pace" not in facts[0]  # the first round warms up
    assert 0 < facts[-1]["pace"] < found.seconds


class Where:
    """Where a run is."""

    def __init__(self, t):
        self.state, self.history = self, {}
        self.t = t


def test_the_pace_is_that_of_the_rounds_since_the_first_also_of_a_run_that_goes_on(monkeypatch, tmp_path):
    """A round takes two seconds; the run goes on after round 50 of 100, which are five epochs."""
    clock, told = iter([0.0, 9.0, 11.0, 11.0, 13.0, 13.0]), []
    monkeypatch.setattr(watch.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(watch, "EVERY", 9.5)
    monkeypatch.setattr(watch, "write", lambda at, text: told.append(json.loads(text)))
    after_round = watch.reporter(tmp_path, 100, 5)
    for t in (51, 52, 53):
        after_round(lambda: Where(t))  # noqa: B023
    assert told == [{"share": 0.52, "epoch": 2, "worst": None, "pace": 2 * 20}]


# --- How long runs take -------------------------------------------------------------------------------------


def test_runs_of_a_kind_differ_in_what_hardly_changes_their_time():
    same = [{"seed": 1}, {"epochs": 7}, {"lr": 0.5}, {"rule": "inverse-risk"}, {"attack": "foe"}]
    other = [{"rule": "krum"}, {"rule": "sgp"}, {"attack": "none"}, {"risk": "batch"}, {"plain": True}]
    assert {kind_of(config(**changes)) for changes in same} == {kind_of(config())}
    kinds = [kind_of(config(**changes)) for changes in [*other, {"workers": 12}, {"task": "digits"}]]
    assert len({kind_of(config()), *kinds}) == 1 + len(kinds)


def test_paces_are_seconds_per_epoch_of_runs_that_are_known_here():
    found = [result(config(), 60), result(config(seed=1), 30), result(config(rule="their-own"), 1)]
    assert paces(found) == {kind_of(config()): 7.5}
    assert paces(found, {config(): 15.0}) == {kind_of(config()): 10.0}


def test_the_board_counts_work_by_what_is_known_of_each_kind(tmp_path):
    """Of adaptive its own rounds so far, of krum the run of local that is finished, of sgp nothing."""
    runs = {name: config(rule=name) for name in ("adaptive", "krum", "local", "sgp")}
    files = {c: tmp_path / f"{name}_alie_seed0_12345678.json" for name, c in runs.items()}
    board = Board(files, 2)
    assert board.line() == "0/4"
    share, left = board.estimate()
    assert (share, left >= 0) == (0, False)
    board.finished[runs["local"]] = result(runs["local"], 6.0)
    facts = {"share": 0.5, "epoch": 3, "worst": 0.8125, "pace": 10.0}
    watch.path_of(files[runs["adaptive"]]).write_text(json.dumps(facts), encoding="utf-8")
    watch.path_of(files[runs["krum"]]).write_text("half a li", encoding="utf-8")  # being written
    of_sgp = 6 * (10 + 1) / 2
    work, rest = 60 + 6 + 6 + of_sgp, 30 + 6 + of_sgp
    assert board.estimate() == pytest.approx((1 - rest / work, float("nan")), nan_ok=True)
    assert board.line() == board.line(1) == "1/4; adaptive_alie_seed0 4/6 worst 0.81"
    board.before.append(result(config(rule="sgp", seed=1), 30.0))
    assert board.estimate() == pytest.approx((1 - 66 / 102, 66 / 2))
    assert board.line() == "1/4, 33 seconds left; adaptive_alie_seed0 4/6 worst 0.81"
    watch.path_of(files[runs["sgp"]]).write_text(
        json.dumps({"share": 0.0, "epoch": 0, "worst": None}), encoding="utf-8"
    )
    assert sorted(board.line().split("; ")[1:]) == ["adaptive_alie_seed0 4/6 worst 0.81", "sgp_alie_seed0 1/6"]
    assert len(board.line(1).split("; ")) == 2  # one of the two, in turn


def test_what_is_left_is_at_least_the_longest_run(tmp_path):
    board = Board({config(seed=k): tmp_path / f"{k}.json" for k in (0, 1)}, 8, [result(config(seed=2), 60)])
    assert board.estimate()[1] == 60


def test_results_that_are_there_already_tell_how_long_the_others_take(tmp_path, monkeypatch):
    boards = []
    runs = [config(epochs=1, batch_size=200, rule="local", seed=seed) for seed in (0, 1)]
    first = grid.run_to_file(runs[0], grid.path_of(runs[0], tmp_path), None, 1, {})
    monkeypatch.setattr(runner, "show_progress", lambda results, board: boards.append(board) or [])
    runner.run_grid(runs, tmp_path, 2, None, 1)
    assert boards[0].estimate()[1] == pytest.approx(first.seconds)


def test_one_run_of_each_kind_comes_first_so_that_it_is_known_early(tmp_path):
    asked = []
    rules = ("adaptive", "inverse-risk", "sgp")
    runs = [config(rule=rule, seed=seed) for rule in rules for seed in (0, 1)]
    runner.run_grid(runs, tmp_path, 1, None, 1, lambda todo, *_: asked.extend(todo) or [])
    assert [c.name.replace("_alie_seed", " ") for c in asked] == [
        "adaptive 0", "sgp 0", "adaptive 1", "inverse-risk 0", "inverse-risk 1", "sgp 1"
    ]  # fmt: skip


# --- Lines --------------------------------------------------------------------------------------------------


def slowly(path, facts, found, seconds=1.0):
    watch.path_of(path).write_text(json.dumps(facts), encoding="utf-8")
    time.sleep(seconds)
    yield found


def test_where_there_is_no_terminal_a_line_comes_every_minute(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(watch, "MINUTE", 0.02)
    monkeypatch.setattr(watch, "EVERY", 0.01)
    path = tmp_path / "adaptive_alie_seed0_12345678.json"
    facts = {"share": 0.25, "epoch": 1, "worst": 0.5, "pace": 1.0}
    results = slowly(path, facts, result(config(), 1.0))
    assert len(list(watch.show_progress(results, Board({config(): path}, 1)))) == 1
    said = capsys.readouterr().err.splitlines()
    line = "0/1, 4 seconds left; adaptive_alie_seed0 2/6 worst 0.50"
    assert said.count(line) > 2
    assert "[1/1] adaptive_alie_seed0: worst 0.50 in 1.0 s" in said  # a line of the watcher may come after it


def test_how_long_all_will_take_is_told_as_soon_as_the_first_rounds_are_done(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(watch, "EVERY", 0.01)
    paths = {config(seed=k): tmp_path / f"adaptive_alie_seed{k}_12345678.json" for k in range(4)}
    facts = {"share": 0.0, "epoch": 0, "worst": None, "pace": 10.0}
    results = slowly(paths[config()], facts, result(config(), 60.0))
    assert len(list(watch.show_progress(results, Board(paths, 2)))) == 1
    first, last = capsys.readouterr().err.splitlines()
    assert first == "0/4, 2 minutes left; adaptive_alie_seed0 1/6"
    assert last.startswith("[1/4]")


# --- A dry run ----------------------------------------------------------------------------------------------

OPTIONS = "--rules krum geometric-median --attacks arbitrary --epochs 6 --batch-size 60 --optimizer adam"


def dry_run(out, capsys):
    assert cli.main("spambase", [*OPTIONS.split(), "--seeds", "0", "1", "--out", str(out), "--dry-run"]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_dry_run_prints_the_grid_and_its_rounds_and_writes_nothing(tmp_path, capsys):
    out = tmp_path / "out"
    lines = dry_run(out, capsys)
    rounds = run.prepare(config()).rounds
    assert lines[0] == "workers 10, attackers 3, epochs 6, graph complete, risk local, optimizer adam,"
    assert " ".join(lines[1:3]).endswith("dtype float64, protocol paper")
    assert lines[3:] == [
        f"krum             arbitrary: 2 to run, {2 * rounds} rounds",
        f"geometric-median arbitrary: 2 to run, {2 * rounds} rounds",
        f"4 of 4 runs to do, {4 * rounds} rounds",
    ]
    assert not out.exists()


def test_a_dry_run_tells_the_time_from_runs_of_the_same_kind_in_the_folder(tmp_path, capsys):
    some = config(rule="krum", attack="arbitrary", epochs=6, graph="complete")
    one = grid.run_to_file(some, grid.path_of(some, tmp_path), None, 1, {})
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    lines = dry_run(tmp_path, capsys)
    assert lines[3] == f"krum             arbitrary: 1 to run, about {round(one.seconds)} second" + (
        "" if round(one.seconds) == 1 else "s"
    )
    assert lines[4].endswith(" rounds")
    assert lines[5].endswith(" rounds")
