"""From a configuration to arrays, and the three tasks on small data in the shape of the real ones."""

import ast
import dataclasses
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import data_loaders
from data_loaders import Dataset, mnist
from refimpl import draws, train
from refimpl.experiments import cli, grid, tasks
from refimpl.experiments.registry import TABLES
from refimpl.fast import engine as fast

REFIMPL = Path(train.__file__).parent


def configs(task, options=""):
    return cli.configs(task, cli.parse(task, options.split())[1])


def config(**changes):
    return dataclasses.replace(configs("spambase", "--rules adaptive --attacks sign-flip")[0], **changes)


# --- What imports what --------------------------------------------------------------------------------------


def test_refimpl_works_without_data_loaders():
    """All but `experiments`: nobody else imports it."""
    modules = [path.stem for path in REFIMPL.glob("*.py") if path.stem != "__init__"]
    imports = "".join(f"import refimpl.{module}\n" for module in modules)
    code = f"import sys\nsys.modules['data_loaders'] = None\n{imports}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_code_asks_for_an_entry_by_its_name():
    """Tables, not cases: nothing that names an entry is compared with a string."""
    folders = [REFIMPL, REFIMPL / "fast", REFIMPL / "experiments", Path(data_loaders.__file__).parent]
    for path in (path for folder in folders for path in folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                names = {getattr(side, "id", getattr(side, "attr", "")) for side in sides}
                literal = any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in sides)
                assert not (literal and names & {*TABLES, "name"}), f"{path}:{node.lineno}"


# --- From a configuration to arrays -------------------------------------------------------------------------


def test_a_common_start_is_worker_0s_and_changes_nothing_else():
    own, common = (tasks.build(config(start=start, seed=3)) for start in ("own", "common"))
    assert_array_equal(common[2], np.tile(own[2][0], (10, 1)))
    assert len(np.unique(own[2][:, 0])) == 10
    for a, b in zip([*own[0].X, *own[0].y, *own[1][:3]], [*common[0].X, *common[0].y, *common[1][:3]]):
        assert_array_equal(a, b)
    assert_array_equal(own[0].attackers, common[0].attackers)


def test_the_spambase_preset_is_the_papers():
    setting, _, W = tasks.build(config())
    assert W.shape == (10, 57 * 20 + 20 + 20 * 2 + 2)
    assert len(setting.attackers) == 3
    assert (setting.batch_size, setting.step_size, setting.optimizer, setting.risk) == (
        20,
        0.01,
        "sgd",
        "local",
    )
    assert setting.graph.all()
    for k in range(10):
        assert set(setting.y[k]) >= {0, 1}  # every worker holds both classes


def test_how_often_a_worker_reads_its_rows_in_an_epoch():
    """Not once, nor once in the mean over the workers: slip 12 of AUDIT.md."""
    setting, _, _ = tasks.build(config())
    rows = np.array(train.sizes(setting))
    passes = draws.rounds_per_epoch(rows, setting.batch_size) * setting.batch_size / rows
    assert_allclose([passes.min(), passes.max(), passes.mean()], [0.32, 2.97, 1.58], atol=0.005)


def test_every_row_is_dealt_once_and_features_are_standardised():
    setting, test, _ = tasks.build(config())
    X, rows = np.concatenate(setting.X), np.array(train.sizes(setting))
    assert rows.sum() + len(test.y) == 4601
    assert_array_equal(test.own.sum(axis=0), 1)
    assert_allclose(test.own.sum(axis=1) / (test.own.sum(axis=1) + rows), 0.2, atol=0.02)
    assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    assert_allclose(X.std(axis=0), 1, rtol=1e-12)
    raw, raw_test, _ = tasks.build(config(features="raw"))
    seen = np.concatenate(raw.X)
    assert seen.max() == 15841  # the longest run of capitals
    mean, std = seen.mean(axis=0), seen.std(axis=0)
    assert_allclose(test.X, (raw_test.X - mean) / std, atol=1e-9)  # as the training rows are


def test_no_attack_means_no_attackers():
    assert len(tasks.build(config(attack="none"))[0].attackers) == 0
    tasks.build(config(attack="none", attackers=10))  # nobody to be refused


def test_all_runs_of_a_seed_see_the_same_draws():
    one, _, W = tasks.build(config())
    other, _, V = tasks.build(config(rule="median", attack="foe"))
    assert_array_equal(W, V)
    assert_array_equal(one.attackers, other.attackers)
    for mine, its in zip(one.X, other.X):
        assert_array_equal(mine, its)
    third, _, U = tasks.build(config(seed=1))
    assert (U != W).any()
    assert train.sizes(third) != train.sizes(one)


def test_a_graph_by_its_edges():
    path = tuple((k, k + 1) for k in range(9))
    graph = tasks.build(config(graph=path))[0].graph
    assert_array_equal(graph, np.abs(np.subtract.outer(np.arange(10), np.arange(10))) <= 1)


@pytest.mark.parametrize("attackers", [10, 11])
def test_everyone_an_attacker_is_refused(attackers):
    with pytest.raises(
        ValueError, match=f"at least one worker must be normal, got {attackers} attackers of 10 workers"
    ):
        tasks.build(config(attackers=attackers))


def test_a_shared_row_is_no_test_row(monkeypatch):
    """A row that one worker tests on, another would train on."""
    data = Dataset(np.zeros((100, 57)), np.arange(100) % 10)
    monkeypatch.setitem(tasks.TASKS, "spambase", tasks.TASKS["spambase"]._replace(load=lambda _: data))
    with pytest.raises(ValueError, match="deals a row to several workers needs a test set of its own"):
        tasks.build(config(partition="label-pairs"))


# --- The other two tasks ------------------------------------------------------------------------------------


@pytest.fixture
def small_har(monkeypatch):
    """30 people with 12 to 17 rows each, whose activity shows in the first six features."""
    rng = np.random.default_rng(0)
    subject = np.repeat(np.arange(1, 31), rng.integers(12, 18, 30))
    y = rng.integers(0, 6, len(subject))
    X = rng.uniform(-1, 1, (len(y), 561))
    X[np.arange(len(y)), y] += 3
    data = Dataset(X, y, subject)
    monkeypatch.setitem(tasks.TASKS, "har", tasks.TASKS["har"]._replace(load=lambda _: data))
    return subject


@pytest.fixture
def small_mnist(monkeypatch):
    """400 + 100 images of noise with a bright row for the digit."""
    rng = np.random.default_rng(0)
    y, y_test = np.arange(400) % 10, np.arange(100) % 10
    X, X_test = (rng.uniform(0, 0.1, (len(labels), 28, 28)).astype(np.float32) for labels in (y, y_test))
    for images, labels in ((X, y), (X_test, y_test)):
        images[np.arange(len(labels)), 2 * labels + 3] = 1
    data = Dataset(X, y, X_test=X_test, y_test=y_test)
    monkeypatch.setitem(tasks.TASKS, "mnist", tasks.TASKS["mnist"]._replace(load=lambda _: data))
    return data


def test_har_is_one_worker_per_person_with_a_quarter_of_its_rows_for_testing(small_har):
    setting, test, W = tasks.build(configs("har", "--rules adaptive --attacks foe")[0])
    assert W.shape == (30, 561 * 100 + 100 + 100 * 6 + 6)
    assert (len(setting.attackers), setting.batch_size) == (13, 10)
    assert (setting.step_size, setting.risk) == (0.01, "local")
    for k in range(30):
        n = (small_har == k + 1).sum()
        assert test.own[k].sum() == round(n / 4)
        assert train.sizes(setting)[k] == n - round(n / 4)
    assert (configs("har", "--attackers 6")[0].attackers, len(configs("har"))) == (6, 40)


@pytest.mark.slow
def test_har_runs_from_the_command_line(small_har, tmp_path, capsys):
    argv = "--rules adaptive krum local --attacks none alie --epochs 2 --jobs 1 --out"
    assert cli.main("har", [*argv.split(), str(tmp_path)]) == 0
    assert "30 workers, 13 attackers" in capsys.readouterr().out


def test_har_needs_a_worker_per_person(small_har, tmp_path, capsys):
    with pytest.raises(SystemExit):
        cli.main("har", ["--workers", "20", "--out", str(tmp_path / "out")])
    assert "by-subject needs one worker per person, got 20 workers for 30 people" in capsys.readouterr().err


def test_mnist_workers_hold_two_labels_and_are_tested_on_these(small_mnist):
    setting, test, W = tasks.build(configs("mnist")[0])
    assert W.shape == (10, 130890)
    assert W.dtype == np.float32
    held = np.zeros(10, int)
    for k in range(10):
        labels = set(setting.y[k]) - {-1}
        held[list(labels)] += 1
        assert len(labels) == 2
        assert_array_equal(test.own[k], np.isin(small_mnist.y_test, list(labels)))
    assert sum(train.sizes(setting)) == 400  # every image is somebody's, and nobody else's
    assert_array_equal(held, 2)
    assert_array_equal(test.X, small_mnist.X_test)


def test_label_pairs_share_images(small_mnist):
    setting, _, _ = tasks.build(configs("mnist", "--partition label-pairs")[0])
    assert train.sizes(setting) == [80] * 10
    assert set(setting.y[7]) == {0, 8}


@pytest.mark.slow
def test_the_cnn_learns_two_digits_a_worker(small_mnist):
    """A few rounds suffice: the digit is written on the image."""
    quick = configs("mnist", "--rules adaptive --attacks sign-flip --epochs 3 --batch-size 8 --lr 0.003")[0]
    history = grid.run(quick).history
    assert history["mean_own"][-1] > 0.9
    assert history["mean_loss"] == [pytest.approx(0.14, abs=0.1)]  # of one evaluation; log 10 = 2.3 by chance


@pytest.mark.slow
def test_digits_need_no_download(tmp_path, capsys):
    argv = "--dataset digits --rules local --attacks sign-flip --epochs 1 --jobs 1 --out"
    assert cli.main("mnist", [*argv.split(), str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "scikit-learn's digits: 10 workers, 3 attackers, 1 epoch," in said.out
    assert configs("digits")[0].epochs == 15


@pytest.mark.slow
def test_an_mnist_round_stays_below_two_gigabytes():
    """10 workers, batch 64, float32: what the round allocates, at its peak."""
    setting, _, W = tasks.build(configs("digits", "--rules adaptive --attacks none")[0])
    tracemalloc.start()
    next(train.rounds(setting, W, seed=0, engine=fast.engine))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5e9  # bytes; the bar is 2e9


def test_without_a_network_one_line_says_what_to_do(tmp_path, monkeypatch, capsys):
    tasks._load.cache_clear()
    monkeypatch.setenv("REFIMPL_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(mnist, "URL", "http://127.0.0.1:9/mnist/")  # nobody listens there
    with pytest.raises(SystemExit) as caught:
        cli.main("mnist", ["--out", str(tmp_path / "out")])
    assert caught.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "http://127.0.0.1:9/mnist/train-images-idx3-ubyte.gz" in last
    assert str(tmp_path / "cache" / "mnist") in last
    assert "--dataset digits" in last
    assert not (tmp_path / "out").exists()
