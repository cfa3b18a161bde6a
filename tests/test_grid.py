"""Runs and their files."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import copytree, ignore_patterns

import numpy as np
import pytest
from numpy.testing import assert_allclose

import data_loaders
import refimpl
from data_loaders import Dataset
from refimpl.aggregate import RULES
from refimpl.experiments import checkpoints, fingerprint, grid, results, runner, tasks
from refimpl.experiments.config import Config

CONFIG = Config(
    task="spambase", rule="adaptive", attack="sign-flip", seed=0, graph="complete",
    **tasks.TASKS["spambase"].defaults | {"epochs": 2},
)  # fmt: skip


def config(**changes):
    return dataclasses.replace(CONFIG, **changes)


# --- Runs ---------------------------------------------------------------------------------------------------


def test_a_run_holds_what_an_auditor_asks_for():
    result = grid.run(config())
    assert result.config == config()
    assert len(result.attackers) == 3
    columns = {"worst_own", "mean_own", "worst_whole", "mean_whole", "highest_loss", "mean_loss", "not_finite"}
    assert set(result.history) == columns | {"attacker_weight", "passing"}
    assert {len(column) for column in result.history.values()} == {2}
    assert result.evaluated == [1, 2]
    assert set(result.weights_at) == {1, 2}
    weights = np.array(result.weights_at[2])
    assert_allclose(np.delete(weights, result.attackers, 0).sum(axis=1), 1)
    for test in ("own", "whole"):
        assert len(result.accuracy[test]) == 7
        assert min(result.accuracy[test]) == result.history[f"worst_{test}"][-1]
    assert {"refimpl", "python", "numpy", "scipy", "scikit-learn"} == set(result.versions)
    assert (result.rounds_per_epoch, result.threads) == (19, 1)
    assert result.seconds > 0
    for digest in (result.data, result.code):
        assert re.fullmatch("[0-9a-f]{16}", digest)
    assert results.from_json(json.loads(results.as_json(result))) == result


def test_a_lost_number_is_null_in_json():
    result = grid.run(config(rule="average", lr=1e300))
    assert result.history["mean_loss"][-1] is None
    assert result.history["not_finite"][-1] == 7
    assert "NaN" not in results.as_json(result)


def test_the_bytes_do_not_depend_on_the_number_of_jobs(tmp_path):
    runs = [config(rule=rule, epochs=1) for rule in ("adaptive", "krum", "median")]
    files = []
    for jobs in (1, 2):
        out = tmp_path / str(jobs)
        out.mkdir()
        found = list(grid.run_all(runs, out, jobs, None))
        assert {run.config.rule for run in found} == {c.rule for c in runs}
        texts = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in out.iterdir()}
        for text in texts.values():
            assert text.pop("seconds") > 0
        files.append({name: json.dumps(text) for name, text in texts.items()})
    assert files[0] == files[1]
    assert set(files[0]) == {grid.path_of(c, tmp_path).name for c in runs}


# --- A user's own entries -----------------------------------------------------------------------------------


def own_rule(monkeypatch, compute):
    monkeypatch.setitem(RULES, "krum", RULES["krum"]._replace(compute=compute))


def worst(out, jobs):
    """The worst accuracy of a run with the rule that is called krum."""
    (result,) = grid.run_all([config(rule="krum", epochs=1)], out, jobs, None)
    assert grid.path_of(result.config, out).name == grid.name_of(result)
    return result.last("worst_own")


def test_a_worker_process_forgets_the_entries_of_its_last_run(tmp_path, monkeypatch):
    """It may be the same process that computes the next command's."""
    right = worst(tmp_path, 1)
    for beta in (0.0, 0.5):
        with monkeypatch.context() as patch:
            own_rule(patch, lambda W, risks, own, f, beta=beta: beta * W[own])
            assert worst(tmp_path, 2) == worst(tmp_path, 1) != right
    assert worst(tmp_path, 2) == right
    assert len(list(tmp_path.iterdir())) == 3


MEMORY = []


def remembering(W, risks, own, f):
    MEMORY.append(len(W))
    return W[own]


def test_a_rule_that_remembers_what_ran_before_is_refused(tmp_path, monkeypatch):
    """Its numbers would depend on the order of the runs and on the number of processes."""
    own_rule(monkeypatch, remembering)
    runs = grid.run_all([config(rule="krum", epochs=1, seed=seed) for seed in (0, 1)], tmp_path, 1, None)
    assert next(runs).config.seed == 0
    with pytest.raises(OSError, match="krum_sign-flip_seed1 depends on is not as it was"):
        next(runs)


def test_what_cannot_be_compared_is_computed_anew_and_never_reused(tmp_path, monkeypatch, capsys):
    own_rule(monkeypatch, lambda W, risks, own, f, odd=(x for x in ()): W[own])
    c = config(rule="krum", epochs=1)
    path = grid.path_of(c, tmp_path)
    for kept in (set(), {f"{file.name}.1.aside" for file in (path, checkpoints.path_of(path))}):
        assert len(runner.run_grid([c], tmp_path, 1, None, 1)) == 1
        said = capsys.readouterr().err
        assert "1 run to be computed anew: they use a generator, and nobody can tell" in said
        assert f"[1/1] {c.name}" in said
        assert {file.name for file in tmp_path.glob("*.aside")} == kept
        checkpoints.path_of(path).write_text("of who knows what", encoding="utf-8")
    runner.plan([c], tmp_path, 1, None)
    assert "1 of 1 run to do" in capsys.readouterr().out


# --- Files --------------------------------------------------------------------------------------------------


def test_a_result_is_found_again_until_an_option_or_the_code_changes(tmp_path, monkeypatch):
    assert grid.saved(config(), tmp_path) is None
    assert not grid.is_there(config(), tmp_path)
    result = grid.run_to_file(config(), grid.path_of(config(), tmp_path), None, 1, {})
    assert grid.saved(config(), tmp_path) == result
    assert grid.is_there(config(), tmp_path)
    for change in ({"lr": 0.02}, {"plain": True}, {"l2": 0.1}, {"graph": "ring"}):
        assert grid.saved(config(**change), tmp_path) is None
    assert grid.saved(config(device=1), tmp_path) == result  # the device does not decide the numbers
    monkeypatch.setattr(fingerprint, "code_digest", lambda roots: "another version of the rules")
    assert grid.saved(config(), tmp_path) is None


def test_results_of_another_version_are_counted_and_what_is_no_result_is_not():
    right = results.as_json(grid.run(config(epochs=1, rule="local")))
    older = json.dumps(json.loads(right) | {"format": 1})
    other = results.as_json(dataclasses.replace(results.from_json(json.loads(right)), code="0" * 16))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        for number, text in enumerate([right, right, "[]", "{", "{}"]):
            (out / f"{number}.json").write_text(text, encoding="utf-8")
        assert grid.outdated(out) == 0
        (out / "older.json").write_text(older, encoding="utf-8")
        assert grid.outdated(out) == 1
        (out / "other.json").write_text(other, encoding="utf-8")
        assert grid.outdated(out) == 2


def test_a_result_on_a_graph_of_one_s_own_is_found_again(tmp_path):
    c = config(epochs=1, rule="local", graph=tuple((k, k + 1) for k in range(9)))
    grid.run_to_file(c, grid.path_of(c, tmp_path), None, 1, {})
    assert grid.saved(c, tmp_path) is not None


@pytest.fixture
def folders(monkeypatch):
    """Spambase by the name of the folder that it is asked from, each a little different."""
    data, changes = tasks.TASKS["spambase"].load(None), {"first": 0, "second": 1e-9}

    def load(folder):
        return data._replace(X=data.X + changes[folder])

    monkeypatch.setitem(tasks.TASKS, "spambase", tasks.TASKS["spambase"]._replace(load=load))


def test_two_data_folders_are_two_results(folders, tmp_path):
    c = config(epochs=1)
    paths = [grid.path_of(c, tmp_path, folder) for folder in ("first", "second", "first")]
    assert paths[0] == paths[2] != paths[1]
    first = grid.run_to_file(c, paths[0], "first", 1, {})
    assert grid.saved(c, tmp_path, "first") == first
    assert grid.saved(c, tmp_path, "second") is None
    assert first.data == tasks.data_digest("spambase", "first") != tasks.data_digest("spambase", "second")


def test_a_result_of_other_data_or_code_under_the_right_name_is_set_aside(folders, tmp_path, capsys):
    right = grid.run(config(epochs=1), "second")
    path = grid.path_of(config(epochs=1), tmp_path, "second")
    for number, other in enumerate([{"data": "0" * 16}, {"code": "0" * 16}, {"entries": "0" * 16}], start=1):
        path.write_text(results.as_json(dataclasses.replace(right, **other)), encoding="utf-8")
        assert grid.saved(config(epochs=1), tmp_path, "second") is None
        assert "it is of another run" in capsys.readouterr().err
        assert [p.name for p in tmp_path.glob("*.json*")].count(f"{path.name}.{number}.aside") == 1
    path.write_text(results.as_json(right), encoding="utf-8")
    assert grid.saved(config(epochs=1), tmp_path, "second") == right


def test_a_run_that_has_become_another_is_refused_and_not_filed(folders, tmp_path, monkeypatch):
    """Data, code or a value that it uses changed after it was asked for."""
    changed = "adaptive_sign-flip_seed0 depends on is not as it was when the command started"
    path = grid.path_of(config(epochs=1), tmp_path, "second")
    with pytest.raises(OSError, match=changed):
        grid.run_to_file(config(epochs=1), path, "first", 1, {})
    monkeypatch.setattr(fingerprint, "code_digest", lambda roots: "another version")
    with pytest.raises(OSError, match=changed):
        grid.run_to_file(config(epochs=1), path, "second", 1, {})
    assert list(tmp_path.iterdir()) == []


EDITING = """
import sys
import tempfile
from pathlib import Path
import refimpl
from refimpl.experiments import cli, grid, main
def edit_then_run(*args, run_all=grid.run_all):
    path = Path(refimpl.__file__).with_name("aggregate.py")
    path.write_text(path.read_text().replace(".mean(W, axis=0)", ".mean(W, axis=0) / 2"))
    return run_all(*args)
grid.run_all = edit_then_run
sys.exit(main("spambase"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_code_edited_before_the_worker_processes_start_is_not_filed_as_the_old(tmp_path, jobs):
    """One job is this process, which has the old code; worker processes have the new one, and say so."""
    for package in (refimpl, data_loaders):
        copytree(
            Path(package.__file__).parent, tmp_path / package.__name__, ignore=ignore_patterns("__pycache__")
        )
    options = f"--rules average --attacks none --epochs 1 --seeds 0 1 --jobs {jobs} --out out".split()
    done = subprocess.run(
        [sys.executable, "-c", EDITING, *options],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    files = list((tmp_path / "out").glob("*.json"))
    assert (tmp_path / "refimpl" / "aggregate.py").read_text(encoding="utf-8").count(
        ".mean(W, axis=0) / 2"
    ) == 1
    if jobs == "2":
        assert (done.returncode, files) == (1, [])
        assert done.stderr.count("\n") == 1
        assert "is not as it was when the command started: start it again" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        right = grid.run(config(rule="average", attack="none", epochs=1))
        assert right.history in [results.load(path).history for path in files]
        assert grid.name_of(right) in [path.name for path in files]


@pytest.mark.parametrize(
    "change",
    [
        {"X": np.ones((3, 2), "float32")},
        {"X": np.ones((3, 1, 2))},
        {"X": np.ones((3, 2)).T[::-1].T * [1, 2]},
        {"y": np.array([0, 1, 1])},
        {"subject": np.array([1, 1, 2])},
        {"X_test": np.ones((1, 2)), "y_test": np.array([0])},
    ],
)
def test_the_digest_sees_every_array_its_dtype_and_its_shape(change, monkeypatch):
    data = Dataset(np.ones((3, 2)), np.array([0, 1, 0]))

    def digest_of(data):
        monkeypatch.setitem(tasks.TASKS, "spambase", tasks.TASKS["spambase"]._replace(load=lambda _: data))
        return tasks.data_digest("spambase", None)

    assert digest_of(data._replace(**change)) != digest_of(data) == digest_of(data)
