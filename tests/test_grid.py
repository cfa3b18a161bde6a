"""Runs and their files."""

import dataclasses
import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from data_loaders import Dataset
from refimpl.experiments import fingerprint, grid, results, tasks
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


# --- Files --------------------------------------------------------------------------------------------------


def test_a_result_is_found_again_until_an_option_or_the_code_changes(tmp_path, monkeypatch):
    assert grid.saved(config(), tmp_path) is None
    result = grid.run_to_file(config(), grid.path_of(config(), tmp_path), None, 1, {})
    assert grid.saved(config(), tmp_path) == result
    for change in ({"lr": 0.02}, {"plain": True}, {"l2": 0.1}, {"graph": "ring"}):
        assert grid.saved(config(**change), tmp_path) is None
    assert grid.saved(config(device=1), tmp_path) == result  # the device does not decide the numbers
    monkeypatch.setattr(fingerprint, "code_digest", lambda roots: "another version of the rules")
    assert grid.saved(config(), tmp_path) is None


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


def test_a_result_of_other_data_under_the_right_name_is_set_aside(folders, tmp_path, capsys):
    path = grid.path_of(config(epochs=1), tmp_path, "second")
    grid.run_to_file(config(epochs=1), path, "first", 1, {})
    assert grid.saved(config(epochs=1), tmp_path, "second") is None
    assert "it is of other data" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == [f"{path.name}.1.aside"]


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
