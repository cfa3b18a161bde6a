"""Runs that are stopped go on to the same bytes; what is running is shown."""

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from refimpl.experiments import checkpoints, cli, grid, progress
from refimpl.experiments.options import parse

OPTIONS = "--rules adaptive --attacks arbitrary --epochs 6 --batch-size 60 --optimizer adam"


def config(options=OPTIONS):
    return cli.configs("spambase", parse("spambase", options.split())[1])[0]


def result_of(path):
    """What the file holds, but for the time that it took."""
    return {name: value for name, value in grid.read(path).items() if name != "seconds"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The file of a run that was never stopped."""
    path = grid.path_of(config(), tmp_path_factory.mktemp("whole"))
    grid.run_to_file(config(), path, None, 1, {})
    return path


class Killed(BaseException):
    pass


def stopped_after(rounds, path, monkeypatch):
    """Runs with a checkpoint after every round until it dies after so many."""
    count = iter(range(rounds))
    keeper = checkpoints.keeper

    def dying(of):
        keep = keeper(of)

        def after_round(where):
            keep(where)
            if next(count, None) is None:
                raise Killed

        return after_round

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "EVERY", 0)
        patch.setattr(checkpoints, "keeper", dying)
        with pytest.raises(Killed):
            grid.run_to_file(config(), path, None, 1, {})


@pytest.mark.parametrize("rounds", [1, 7, 20])
def test_a_run_goes_on_from_its_checkpoint_to_the_same_bytes(rounds, whole, tmp_path, monkeypatch):
    path = tmp_path / whole.name
    stopped_after(rounds, path, monkeypatch)
    assert (tmp_path / f".{path.stem}.checkpoint").exists()
    started = []
    train_run = grid.train.run
    monkeypatch.setattr(grid.train, "run", lambda *args: started.append(args[7]) or train_run(*args))
    grid.run_to_file(config(), path, None, 1, {})
    assert started[0].state.t == rounds + 1
    assert result_of(path) == result_of(whole)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]  # nothing is left beside it


def test_a_checkpoint_holds_no_pickle_and_every_array_as_it_was(whole, tmp_path, monkeypatch):
    path = tmp_path / whole.name
    stopped_after(9, path, monkeypatch)
    with np.load(checkpoints.path_of(path), allow_pickle=False) as file:
        assert {file[name].dtype.kind for name in file.files} == {"f", "i", "u"}
    first = checkpoints.load(checkpoints.path_of(path), np)
    assert first.state.W.dtype == np.float64
    assert first.state.memory.shape == (2, *first.state.W.shape)
    again = checkpoints.unpacked(dict(np.load(checkpoints.path_of(path))), np)
    assert again.place == first.place


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", b"\x00" * 1000])
def test_a_damaged_checkpoint_is_set_aside(content, whole, tmp_path, capsys):
    path = tmp_path / whole.name
    checkpoints.path_of(path).write_bytes(content)
    grid.run_to_file(config(), path, None, 1, {})
    assert "and the run starts again" in capsys.readouterr().err
    assert result_of(path) == result_of(whole)


def test_a_checkpoint_of_other_options_or_code_is_not_found(monkeypatch, tmp_path):
    here = checkpoints.path_of(grid.path_of(config(), tmp_path))
    assert checkpoints.path_of(grid.path_of(dataclasses.replace(config(), lr=0.02), tmp_path)) != here
    monkeypatch.setattr(grid, "fingerprint", lambda config, data: "othercode")
    assert checkpoints.path_of(grid.path_of(config(), tmp_path)) != here


def test_a_disk_that_is_full_costs_the_checkpoint_and_not_the_run(whole, tmp_path, monkeypatch, capsys):
    path = tmp_path / whole.name
    monkeypatch.setattr(checkpoints, "EVERY", 0)
    monkeypatch.setattr(checkpoints, "write", raise_disk_full)
    grid.run_to_file(config(), path, None, 1, {})
    assert "no checkpoint: [Errno 28] No space left" in capsys.readouterr().err
    assert result_of(path) == result_of(whole)


def raise_disk_full(path, content):
    raise OSError(28, "No space left on device")


SCRIPT = """
import sys
from refimpl.experiments import checkpoints, main
checkpoints.EVERY = 0
sys.exit(main("spambase", sys.argv[1:]))
"""


@pytest.mark.slow
def test_twenty_kills_at_random_moments(tmp_path):
    options = "--rules adaptive --attacks arbitrary --epochs 40 --optimizer adam --jobs 1 --out"
    command = [sys.executable, "-c", SCRIPT, *options.split()]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([*command, str(tmp_path / "whole")], check=True, **quiet)
    rng, out = random.Random(0), tmp_path / "killed"
    kills = 0
    while kills < 20:
        process = subprocess.Popen([*command, str(out)], start_new_session=True, **quiet)
        before = stamp(out)
        while process.poll() is None and stamp(out) == before:
            time.sleep(0.002)  # until it has gone on
        time.sleep(rng.uniform(0, 0.05))
        assert process.poll() is None, "the run is too short for twenty kills"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
    subprocess.run([*command, str(out)], check=True, **quiet)
    (name,) = [path.name for path in (tmp_path / "whole").glob("*.json")]
    assert result_of(out / name) == result_of(tmp_path / "whole" / name)


def stamp(out):
    """When the checkpoint in the folder was written; None if there is none."""
    times = [path.stat().st_mtime_ns for path in out.glob(".*.checkpoint")] if out.exists() else []
    return times[0] if times else None


# --- What is running ----------------------------------------------------------------------------------------


def test_a_run_tells_how_far_it_is(whole, tmp_path, monkeypatch):
    told, path = [], tmp_path / whole.name
    monkeypatch.setattr(progress, "EVERY", 0)
    monkeypatch.setattr(progress, "write", lambda at, text: told.append((at, json.loads(text))))
    grid.run_to_file(config(), path, None, 1, {})
    assert {at for at, _ in told} == {tmp_path / f".{path.stem}.progress"}
    facts = [facts for _, facts in told]
    shares = [f["share"] for f in facts]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 1
    assert (facts[0]["epoch"], facts[0]["worst"]) == (0, None)
    assert facts[-1]["epoch"] == 5
    assert facts[-1]["worst"] == result_of(path)["history"]["worst_own"][4]


def test_the_board_counts_work_by_what_was_estimated_and_time_by_what_it_took(tmp_path, monkeypatch):
    clock = iter([0.0, 30.0, 30.0, 30.0, 30.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    files = [tmp_path / f"{name}_alie_seed0_12345678.json" for name in ("adaptive", "krum", "local")]
    board = progress.Board({files[0]: 60.0, files[1]: 20.0, files[2]: 20.0})
    board.finish("local_alie_seed0")
    facts = {"share": 0.5, "epoch": 3, "epochs": 6, "worst": 0.8125}
    progress.path_of(files[0]).write_text(json.dumps(facts))
    progress.path_of(files[1]).write_text("half a li")  # being written
    assert board.share() == pytest.approx(0.5)
    assert board.left() == pytest.approx(30)
    line = "1 of 3 runs done; adaptive_alie_seed0: epoch 4 of 6, worst 0.81; about 30 seconds left"
    assert board.line() == line
    assert board.short_line() == "1/3, 30 seconds left; adaptive_alie_seed0 4/6 worst 0.81"


def test_where_there_is_no_terminal_a_line_comes_every_minute(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(progress, "MINUTE", 0.02)
    path = tmp_path / "adaptive_alie_seed0_12345678.json"

    def slowly():
        progress.path_of(path).write_text(json.dumps({"share": 0.25, "epoch": 1, "epochs": 4, "worst": 0.5}))
        time.sleep(0.3)
        yield {
            "config": {"rule": "adaptive", "attack": "alie", "seed": 0},
            "history": {"worst_own": [0.5]},
            "seconds": 1.0,
        }

    assert len(list(progress.shown(slowly(), progress.Board({path: 1.0})))) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("0 of 1 run done; adaptive_alie_seed0: epoch 2 of 4, worst 0.50; about ")
    assert said[-1] == "[1/1] adaptive alie seed 0: worst 0.50 in 1.0 s"


def test_a_dry_run_prints_the_grid_and_writes_nothing(tmp_path, capsys):
    out = tmp_path / "out"
    options = f"{OPTIONS} --rules krum geometric-median --seeds 0 1 --out {out}"
    assert cli.main("spambase", [*options.split(), "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "workers 10, attackers 3, epochs 6, risk local, optimizer adam, lr 0.01,"
    assert " ".join(lines[1:3]).endswith("dtype float64, graph complete, protocol paper")
    assert lines[3].startswith("krum             arbitrary: 2 to run, ")
    assert lines[4].startswith("geometric-median arbitrary: 2 to run, ")
    assert lines[-1].startswith("4 of 4 runs to do, about ")
    assert not out.exists()


def test_of_runs_with_the_same_name_one_is_finished_at_a_time(tmp_path):
    paths = [tmp_path / f"adaptive_alie_seed0_{digits}.json" for digits in ("aaaaaaaa", "bbbbbbbb")]
    board = progress.Board(dict.fromkeys(paths, 1.0))
    paths[1].touch()
    board.finish("adaptive_alie_seed0")
    assert board.finished == {paths[1]}
    board.finish("adaptive_alie_seed0")
    assert board.finished == set(paths)
