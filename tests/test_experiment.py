import dataclasses
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import draws, experiment, graphs

CONFIG = experiment.Config(
    task="spambase", rule="adaptive", attack="sign-flip", seed=0, graph="complete",
    smoothing=1.0, gpu=False, **experiment.TASKS["spambase"].defaults | {"epochs": 2},
)  # fmt: skip


def config(**changes):
    return dataclasses.replace(CONFIG, **changes)


# --- From a configuration to arrays -------------------------------------------------------------------------


def test_the_spambase_preset_is_the_papers():
    setting, W = experiment.build(experiment.Config(**vars(CONFIG)))
    assert W.shape == (10, 57 * 20 + 20 + 20 * 2 + 2)
    assert len(setting.attackers) == 3
    assert (setting.batch_size, setting.lr, setting.optimizer, setting.risk) == (20, 0.01, "sgd", "local")
    assert setting.graph.all()
    for k in range(10):
        assert set(setting.data.y[k]) >= {0, 1}  # every worker holds both classes


def test_every_row_is_dealt_once_and_features_are_standardised():
    setting, _ = experiment.build(config())
    data, real = setting.data, setting.data.y >= 0
    assert real.sum() + len(data.y_test) == 4601
    assert_array_equal(data.own_test.sum(axis=0), 1)
    assert_allclose(data.own_test.sum(axis=1) / (data.own_test.sum(axis=1) + real.sum(axis=1)), 0.2, atol=0.02)
    assert_allclose(data.X[real].mean(axis=0), 0, atol=1e-12)
    assert_allclose(data.X[real].std(axis=0), 1, rtol=1e-12)
    raw, _ = experiment.build(config(features="raw"))
    assert raw.data.X.max() == 15841  # the longest run of capitals
    assert_array_equal(data.X[~real], 0)


def test_no_attack_means_no_attackers():
    assert len(experiment.build(config(attack="none"))[0].attackers) == 0
    experiment.build(config(attack="none", attackers=10))  # nobody to be refused


def test_all_runs_of_a_seed_see_the_same_draws():
    one, W = experiment.build(config())
    other, V = experiment.build(config(rule="median", attack="foe"))
    assert_array_equal(W, V)
    assert_array_equal(one.attackers, other.attackers)
    assert_array_equal(one.data.X, other.data.X)
    third, U = experiment.build(config(seed=1))
    assert (U != W).any()
    assert third.data.X.shape != one.data.X.shape or (third.data.X != one.data.X).any()


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ("complete", graphs.complete(10)),
        ("ring", graphs.ring(10)),
        ("regular", graphs.random_regular(10, 4, draws.stream(0, "graph"))),
        ("regular:6", graphs.random_regular(10, 6, draws.stream(0, "graph"))),
        ("erdos-renyi", graphs.erdos_renyi(10, 0.5, draws.stream(0, "graph"))),
        ("erdos-renyi:0.8", graphs.erdos_renyi(10, 0.8, draws.stream(0, "graph"))),
        (((0, 1), (1, 2)), graphs.from_edges(10, [(0, 1), (1, 2)])),
    ],
)
def test_graphs_by_name(graph, expected):
    assert_array_equal(experiment.build_graph(graph, 10, draws.stream(0, "graph")), expected)


@pytest.mark.parametrize("graph", ["cube", "ring:3", "regular:x", "erdos-renyi:-1", "regular:2.5"])
def test_an_unknown_graph_is_refused(graph):
    with pytest.raises(ValueError, match="unknown graph"):
        experiment.build_graph(graph, 10, draws.stream(0, "graph"))


@pytest.mark.parametrize("attackers", [10, 11])
def test_everyone_an_attacker_is_refused(attackers):
    with pytest.raises(ValueError, match=f"one worker must be normal, got {attackers} attackers of 10 workers"):
        experiment.build(config(attackers=attackers))


# --- Runs and their files -----------------------------------------------------------------------------------


def test_a_run_holds_what_an_auditor_asks_for():
    result = experiment.run(config())
    assert result["config"] == dataclasses.asdict(config())
    assert len(result["attackers"]) == 3
    columns = {"worst_own", "mean_own", "worst_whole", "mean_whole", "highest_loss", "mean_loss", "not_finite"}
    assert set(result["history"]) == columns
    assert {len(column) for column in result["history"].values()} == {2}
    weights = np.array(result["weights"])
    assert_allclose(np.delete(weights, result["attackers"], 0).sum(axis=1), 1)
    assert {"refimpl", "code", "python", "numpy", "scipy", "scikit-learn"} == set(result["versions"])
    json.dumps(result, allow_nan=False)


def test_a_lost_number_is_null_in_json():
    result = experiment.run(config(rule="average", lr=1e300))
    assert result["history"]["mean_loss"][-1] is None
    assert result["history"]["not_finite"][-1] == 7
    json.dumps(result, allow_nan=False)


def test_the_bytes_do_not_depend_on_the_number_of_jobs(tmp_path):
    grid = [config(rule=rule, epochs=1) for rule in ("adaptive", "krum", "median")]
    files = []
    for jobs in (1, 2):
        out = tmp_path / str(jobs)
        out.mkdir()
        results = list(experiment.run_all(grid, out, jobs, None))
        assert {r["config"]["rule"] for r in results} == {c.rule for c in grid}
        texts = {path.name: json.loads(path.read_text()) for path in out.iterdir()}
        for text in texts.values():
            assert text.pop("seconds") > 0
        files.append({name: json.dumps(text) for name, text in texts.items()})
    assert files[0] == files[1]
    assert set(files[0]) == {experiment.path_of(c, tmp_path).name for c in grid}


def test_a_result_is_found_again_until_an_option_or_the_code_changes(tmp_path, monkeypatch):
    assert experiment.saved(config(), tmp_path) is None
    result = experiment.run_to_file(config(), experiment.path_of(config(), tmp_path), None)
    assert experiment.saved(config(), tmp_path) == result
    assert experiment.saved(config(lr=0.02), tmp_path) is None
    assert experiment.saved(config(device=1), tmp_path) == result  # the device does not decide the numbers
    monkeypatch.setattr(experiment, "code_digest", lambda: "another version of the rules")
    assert experiment.saved(config(), tmp_path) is None


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    experiment.write(path, "old")

    def full_disk(self, text):
        self.touch()
        raise OSError("no space left on device")

    monkeypatch.setattr(experiment.Path, "write_text", full_disk)
    with pytest.raises(OSError, match="no space"):
        experiment.write(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
