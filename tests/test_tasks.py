"""The three tasks from one command each, on small data in the shape of the real ones."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from data_loaders import Dataset, mnist
from refimpl import cli, experiment, train


def grid(task, options=""):
    return cli.configs(task, cli.parser(task).parse_args(options.split()))


@pytest.fixture
def fresh():
    """The experiment's caches hold no data of an earlier test, and none are left for a later one."""

    def clear():
        experiment._load.cache_clear()
        experiment.build_data.cache_clear()

    clear()
    yield
    clear()


@pytest.fixture
def small_har(monkeypatch, fresh):
    """30 people with 12 to 17 rows each, whose activity shows in the first six features."""
    rng = np.random.default_rng(0)
    subject = np.repeat(np.arange(1, 31), rng.integers(12, 18, 30))
    y = rng.integers(0, 6, len(subject))
    X = rng.uniform(-1, 1, (len(y), 561))
    X[np.arange(len(y)), y] += 3
    monkeypatch.setitem(
        experiment.TASKS, "har", experiment.TASKS["har"]._replace(load=lambda _: Dataset(X, y, subject))
    )
    return subject


@pytest.fixture
def small_mnist(monkeypatch, fresh):
    """400 + 100 images of noise with a bright row for the digit."""
    rng = np.random.default_rng(0)
    y, y_test = np.arange(400) % 10, np.arange(100) % 10
    X, X_test = (rng.uniform(0, 0.1, (len(labels), 28, 28)).astype(np.float32) for labels in (y, y_test))
    for images, labels in ((X, y), (X_test, y_test)):
        images[np.arange(len(labels)), 2 * labels + 3] = 1
    data = Dataset(X, y, X_test=X_test, y_test=y_test)
    monkeypatch.setitem(experiment.TASKS, "mnist", experiment.TASKS["mnist"]._replace(load=lambda _: data))
    return data


def test_har_is_one_worker_per_person_with_a_quarter_of_its_rows_for_testing(small_har):
    config = grid("har", "--rules adaptive --attacks foe")[0]
    setting, W = experiment.build(config)
    assert W.shape == (30, 561 * 100 + 100 + 100 * 6 + 6)
    assert (len(setting.attackers), setting.batch_size, setting.lr, setting.risk) == (13, 10, 0.01, "local")
    for k in range(30):
        n = (small_har == k + 1).sum()
        assert setting.data.own_test[k].sum() == round(n / 4)
        assert setting.data.sizes()[k] == n - round(n / 4)
    assert (grid("har", "--attackers 6")[0].attackers, len(grid("har"))) == (6, 40)


def test_har_runs_from_the_command_line(small_har, tmp_path, capsys):
    argv = "--rules adaptive krum local --attacks none alie --epochs 2 --jobs 1 --out"
    assert cli.main("har", [*argv.split(), str(tmp_path)]) == 0
    assert "30 workers, 13 attackers" in capsys.readouterr().out


def test_har_needs_a_worker_per_person(small_har, tmp_path, capsys):
    with pytest.raises(SystemExit):
        cli.main("har", ["--workers", "20", "--out", str(tmp_path / "out")])
    assert "by-subject needs one worker per person, got 20 workers for 30 people" in capsys.readouterr().err


def test_mnist_workers_hold_two_labels_and_are_tested_on_these(small_mnist):
    setting, W = experiment.build(grid("mnist")[0])
    assert W.shape == (10, 130890)
    assert W.dtype == np.float32
    held = np.zeros(10, int)
    for k in range(10):
        labels = set(setting.data.y[k]) - {-1}
        held[list(labels)] += 1
        assert len(labels) == 2
        assert_array_equal(setting.data.own_test[k], np.isin(small_mnist.y_test, list(labels)))
    assert sum(setting.data.sizes()) == 400  # every image is somebody's, and nobody else's
    assert_array_equal(held, 2)
    assert_array_equal(setting.data.X_test, small_mnist.X_test)


def test_label_pairs_share_images(small_mnist):
    setting, _ = experiment.build(grid("mnist", "--partition label-pairs")[0])
    assert setting.data.sizes() == [80] * 10
    assert set(setting.data.y[7]) == {0, 8}


def test_the_cnn_learns_two_digits_a_worker(small_mnist):
    """A few rounds suffice: the digit is written on the image."""
    config = grid("mnist", "--rules adaptive --attacks sign-flip --epochs 3 --batch-size 8 --lr 0.003")[0]
    history = experiment.run(config)["history"]
    assert history["mean_own"][-1] > 0.9
    assert history["mean_loss"][-1] < history["mean_loss"][0]


def test_digits_need_no_download(tmp_path, capsys):
    argv = "--dataset digits --rules local --attacks sign-flip --epochs 1 --jobs 1 --out"
    assert cli.main("mnist", [*argv.split(), str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "scikit-learn's digits: 10 workers, 3 attackers, 1 epochs" in said.out
    assert grid("digits")[0].epochs == 15


def test_an_mnist_round_stays_below_two_gigabytes():
    """10 workers, batch 64, float32: what the round allocates, at its peak."""
    setting, W = experiment.build(grid("digits", "--rules adaptive --attacks none")[0])
    tracemalloc.start()
    next(train.rounds(setting, W, seed=0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5e9  # bytes; the bar is 2e9


def test_without_a_network_one_line_says_what_to_do(tmp_path, monkeypatch, capsys, fresh):
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


def test_a_long_run_begins_with_an_estimate(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(experiment, "seconds", lambda config, *_: 100.0 if config.attack == "none" else 1.0)
    monkeypatch.setattr(experiment, "run_all", lambda todo, *_: iter([]))
    configs = grid("spambase", "--rules adaptive median --attacks none alie")
    cli.run_grid(configs, tmp_path, 2, None, 1)
    assert "about 2 minutes for 4 runs, 2 at a time" in capsys.readouterr().err
