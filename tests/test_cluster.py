"""Grids on a Dask cluster: two workers on this machine, where distributed is installed."""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest
from test_grid import config

from refimpl.aggregate import RULES
from refimpl.experiments import cli, fingerprint, grid, tasks

ROOT = Path(__file__).parents[1]
missing = importlib.util.find_spec("distributed") is None
needs_distributed = pytest.mark.skipif(missing, reason="distributed is in the extra 'cluster'")

if not missing:
    from refimpl.experiments import cluster


def contents(folder):
    """The results by file, without the time that they took."""
    found = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
    for result in found.values():
        assert result.pop("seconds") > 0
    return {name: json.dumps(result) for name, result in found.items()}


@contextlib.contextmanager
def dask(*command, cwd):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    line = [sys.executable, "-m", "dask", *command, "--no-dashboard"]
    process = subprocess.Popen(line, cwd=cwd, env=environment, **quiet)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def running(folder, workers=2, threads=1):
    """A scheduler on loopback with workers of so many threads each: its address, itself, them."""
    where = folder / "scheduler.json"
    with contextlib.ExitStack() as stack:
        start = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(where)]
        scheduler = stack.enter_context(dask(*start, cwd=folder))
        wait_for(where.exists)
        address = json.loads(where.read_text(encoding="utf-8"))["address"]
        one = ["worker", address, "--nthreads", str(threads), "--no-nanny"]
        started = [stack.enter_context(dask(*one, cwd=folder)) for _ in range(workers)]
        if workers:
            with cluster.Client(address, set_as_default=False) as client:
                client.wait_for_workers(workers, timeout=60)
        yield address, scheduler, started


def wait_for(condition, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


SCRIPT = """
import sys
from refimpl.aggregate import RULES
from refimpl.experiments import main
RULES["mine"] = RULES["average"]._replace(compute=lambda W, risks, own, f: W[own] / 2)
sys.exit(main("spambase"))
"""
RUNS = "--rules adaptive mine --attacks none foe alie --epochs 2"


@needs_distributed
def test_a_worker_killed_during_a_grid_costs_only_its_runs(tmp_path):
    """The folder is that of a local run, with a rule of the user's own; the same command finds it complete."""
    (tmp_path / "mine.py").write_text(SCRIPT, encoding="utf-8")
    there, environment = tmp_path / "there", os.environ | {"PYTHONPATH": str(ROOT)}

    def start(out, *more):
        line = [sys.executable, "mine.py", *RUNS.split()]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([*line, "--out", out, *more], cwd=tmp_path, env=environment, **pipes)

    with running(tmp_path) as (address, _, workers):
        grid_there = start(there, "--cluster", address)
        wait_for(lambda: list(there.glob("*.json")) or grid_there.poll() is not None)
        workers[0].send_signal(signal.SIGKILL)
        assert len(list(there.glob("*.json"))) < 6
        said = grid_there.communicate(timeout=240)[1]
        assert grid_there.returncode == 0, said
        assert "[6/6]" in said
        assert "6 of 6 runs" in start(there, "--cluster", address).communicate(timeout=240)[1]
    start(tmp_path / "here", "--threads", "1", "--jobs", "1").communicate(timeout=240)
    assert contents(there) == contents(tmp_path / "here")


@needs_distributed
def test_data_travel_once_to_each_worker_and_not_with_each_run(tmp_path, monkeypatch):
    loaded, arrived = [], []
    load = tasks.TASKS["spambase"].load
    counted = tasks.TASKS["spambase"]._replace(load=lambda folder: loaded.append(folder) or load(folder))
    monkeypatch.setattr(cluster.Parcel, "setup", count_calls(cluster.Parcel.setup, arrived))
    runs = [config(rule=rule, epochs=1) for rule in ("average", "median", "local", "krum", "medoid")]
    with running_here(2) as address, mock.patch.dict(tasks.TASKS, {"spambase": counted}):
        run_all, slots = cluster.connect(address)
        assert slots == 2
        results = list(run_all(runs, tmp_path, 2, None))
    assert {result.config.rule for result in results} == {run.rule for run in runs}
    assert len(arrived) == 2
    assert len(loaded) == 1


def count_calls(function, calls):
    return lambda *args, **named: calls.append(args) or function(*args, **named)


@contextlib.contextmanager
def running_here(workers):
    """A cluster whose workers are threads of this process."""
    from distributed import LocalCluster

    options = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}  # any free port
    with LocalCluster(n_workers=workers, **options) as made:
        yield made.scheduler_address


@needs_distributed
def test_without_its_scheduler_a_grid_ends_and_keeps_what_it_has(tmp_path):
    runs = [config(rule=rule, epochs=5) for rule in ("average", "local", "median", "medoid")]
    with running(tmp_path, workers=1) as (address, scheduler, _):
        results = cluster.connect(address)[0](runs, tmp_path, 1, None)
        first = next(results)
        scheduler.kill()
        with pytest.raises(OSError, match=r"--cluster: .*the same command does the rest"):
            list(results)
    assert grid.saved(config(rule=first.config.rule, epochs=5), tmp_path).history == first.history


@needs_distributed
def test_workers_with_another_version_are_refused(tmp_path, monkeypatch):
    """Whatever it is that is another there: here a module that only some systems use."""
    digest, client = fingerprint.code_digest, threading.get_ident()

    def in_a_thread_of_its_own(roots):
        other = "refimpl.related" in roots and threading.get_ident() != client
        return "another" if other else digest(roots)

    monkeypatch.setattr(fingerprint, "code_digest", in_a_thread_of_its_own)
    with running_here(1) as address:
        assert list(cluster.connect(address)[0]([config(epochs=1)], tmp_path, 1, None))
        run_all, _ = cluster.connect(address)
        with pytest.raises(OSError, match=r"needs the same refimpl everywhere, but inproc://.* has another"):
            list(run_all([config(rule="d-sgd", epochs=1)], tmp_path, 1, None))
    assert len(list(tmp_path.glob("*.json"))) == 1


@needs_distributed
def test_two_clients_of_one_worker_each_have_their_own_rule(tmp_path):
    """At once, in its two threads; and what one of them has sent is not left for a third."""
    runs = [config(rule="krum", epochs=3, seed=seed) for seed in range(3)]
    mine = {"krum": RULES["krum"]._replace(compute=lambda W, risks, own, f: W[own] / 2)}

    def numbers(run_all, name):
        (tmp_path / name).mkdir()
        return {run.config.seed: run.history for run in run_all(runs, tmp_path / name, 1, None)}

    shipped = numbers(grid.run_all, "shipped here")
    with running(tmp_path, workers=1, threads=2) as (address, _, _), ThreadPoolExecutor() as pool:
        with mock.patch.dict(RULES, mine):
            own = numbers(grid.run_all, "own here")
            first = cluster.connect(address)[0](runs, tmp_path, 1, None)
            started = [next(first)]  # the entries are on their way
        other = pool.submit(numbers, cluster.connect(address)[0], "shipped there")
        assert {run.config.seed: run.history for run in [*started, *first]} == own
        assert other.result() == shipped
        assert numbers(cluster.connect(address)[0], "later") == shipped


def refused(tmp_path, capsys, address):
    """The line that the command ends with, and nothing is computed."""
    with pytest.raises(SystemExit) as caught:
        cli.main("spambase", ["--epochs", "1", "--out", str(tmp_path), "--cluster", address])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert not list(tmp_path.glob("*.json"))
    return said


@needs_distributed
def test_a_scheduler_that_is_not_there_is_one_line(tmp_path, capsys):
    assert "--cluster needs a Dask scheduler" in refused(tmp_path, capsys, "127.0.0.1:1")


@needs_distributed
def test_a_scheduler_without_workers_is_one_line(tmp_path, capsys):
    with running(tmp_path / "..", workers=0) as (address, _, _):
        assert "has none" in refused(tmp_path, capsys, address)


def test_without_distributed_there_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "refimpl.experiments.cluster", raising=False)
    monkeypatch.delattr("refimpl.experiments.cluster", raising=False)
    assert "pip install '.[cluster]'" in refused(tmp_path, capsys, "127.0.0.1:8786")
