"""Runs that are stopped go on to the same bytes."""

import dataclasses
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from platforms import needs_signals

from refimpl import train
from refimpl.experiments import checkpoints, cli, fingerprint, grid, results
from refimpl.experiments.options import parse

OPTIONS = "--rules adaptive --attacks arbitrary --risk batch --epochs 6 --batch-size 60 --optimizer adam"


def config(options=OPTIONS):
    return cli.configs("spambase", parse("spambase", options.split())[1])[0]


def result_of(path):
    """The result in the file, but for the time that it took."""
    return dataclasses.replace(results.load(path), seconds=0.0)


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
    train_run = train.run
    monkeypatch.setattr(train, "run", lambda *args: started.append(args[7]) or train_run(*args))
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
    assert again.position == first.position


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", b"\x00" * 1000])
def test_a_damaged_checkpoint_is_set_aside(content, whole, tmp_path, capsys):
    path = tmp_path / whole.name
    checkpoints.path_of(path).write_bytes(content)
    grid.run_to_file(config(), path, None, 1, {})
    assert "and the run starts again" in capsys.readouterr().err
    assert result_of(path) == result_of(whole)


def test_a_pipe_in_the_place_of_a_checkpoint_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / ".run.checkpoint")
    assert checkpoints.load(tmp_path / ".run.checkpoint", np) is None


def test_a_checkpoint_of_other_options_or_code_is_not_found(monkeypatch, tmp_path):
    here = checkpoints.path_of(grid.path_of(config(), tmp_path))
    assert checkpoints.path_of(grid.path_of(dataclasses.replace(config(), lr=0.02), tmp_path)) != here
    monkeypatch.setattr(fingerprint, "code_digest", lambda roots: "another version")
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


@needs_signals
@pytest.mark.slow
def test_twenty_kills_at_random_moments(tmp_path):
    options = "--rules adaptive --attacks arbitrary --epochs 300 --optimizer adam --jobs 1 --out"
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
