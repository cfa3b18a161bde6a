"""What a configuration says arrives where it is used, and every draw comes from the run's own seed."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest
import strict_device
from numpy.testing import assert_array_equal
from problems import sent_by

from data_loaders.partition import PARTITIONS
from refimpl import algorithm, arrays, faults, models, train
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.engine import Engine
from refimpl.experiments import grid, options, presets, tasks
from refimpl.experiments.config import Config
from refimpl.fast import engine as fast_engine
from refimpl.fast import released

CONFIG = Config(
    task="spambase", rule="adaptive", attack="arbitrary", seed=0, graph="regular:4",
    **tasks.TASKS["spambase"].defaults | {"epochs": 2},
)  # fmt: skip


def config(**changes):
    return dataclasses.replace(CONFIG, **changes)


# --- Every field --------------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """What `grid.run` trains with."""

    setting: algorithm.Setting
    test: train.HeldOut
    W: Any
    seed: int
    epochs: int
    engine: Any
    every: int
    devices: list[int]  # asked for


def seen(run):
    """Runs it up to the point where training would begin."""
    found, devices = [], []

    def stand_in(*args):
        found.extend(args)
        return train.Trained(args[2], {}, {}, {})

    other = tasks.TASKS["spambase"]._replace(model=lambda: models.mlp([57, 3, 2]), evaluate_every=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(tasks.TASKS, "another", other)
        patch.setattr(train, "run", stand_in)
        patch.setattr(arrays, "gpu", lambda device=0: devices.append(device) or strict_device)
        grid.run(run)
    return Seen(*found[:7], devices)


def arrays_of(s):
    return *s.setting.X, s.test.X, s.W


def enclosed(function, name):
    """What a function that was made by another one knows by this name."""
    return dict(zip(function.__code__.co_freevars, function.__closure__ or ()))[name].cell_contents


def faults_of(s):
    """What goes wrong in a plain run, without anything unless it was asked for."""
    return getattr(s.engine, "keywords", {}).get("faults", faults.Faults(0, 0, np.zeros((10, 2)), 0))


# A value that is not the default, and what shows that it has arrived. A new field needs a line here.
FIELDS = {
    "task": ("another", lambda s: s.setting.model.layout.size == 57 * 3 + 3 + 3 * 2 + 2 == s.W.shape[1]
             and s.every == 3),
    "rule": ("median", lambda s: s.setting.rule == "median"),
    "attack": ("foe", lambda s: s.setting.attack == "foe"),
    "seed": (1, lambda s: s.seed == 1),
    "workers": (12, lambda s: len(s.setting.graph) == len(s.setting.X) == len(s.test.own) == len(s.W) == 12),
    "attackers": (2, lambda s: len(s.setting.attackers) == 2),
    "epochs": (5, lambda s: s.epochs == 5),
    "graph": ("ring", lambda s: (s.setting.graph.sum(axis=1) == 3).all()),
    "risk": ("batch", lambda s: s.setting.risk == "batch"),
    "optimizer": ("adam", lambda s: s.setting.optimizer == "adam"),
    "lr": (0.3, lambda s: s.setting.step_size == 0.3),
    "batch_size": (7, lambda s: s.setting.batch_size == 7),
    "partition": ("iid", lambda s: np.ptp(train.sizes(s.setting)) <= 1),
    "features": ("raw", lambda s: max(X.max() for X in s.setting.X) > 1000 and s.test.X.max() > 1000),
    "dtype": ("float32", lambda s: {a.dtype.name for a in arrays_of(s)} == {"float32"}),
    "released": (("lower-median",), lambda s: getattr(s.engine, "func", None) is released.engine
                 and s.engine.keywords == {"differences": ("lower-median",)}),
    "l2": (0.25, lambda s: s.setting.l2 == 0.25),
    "start": ("common", lambda s: np.ptp(s.W, axis=0).max() == 0),
    "graph_schedule": ("every:4", lambda s: enclosed(s.engine, "schedule") is not None),
    "loss": (0.3, lambda s: faults_of(s).loss == 0.3),
    "late": (0.3, lambda s: faults_of(s).late == 0.3),
    "crash": (2, lambda s: (faults_of(s).down > 0).sum() == 4),
    "plain": (True, lambda s: s.engine is train.plain),
    "gpu": (True, lambda s: {type(a) for a in arrays_of(s)} == {strict_device.ndarray}),
    "device": (3, lambda s: s.devices == [3]),
}  # fmt: skip


def test_no_field_of_a_configuration_is_left_out():
    assert list(FIELDS) == [field.name for field in dataclasses.fields(Config)]


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_reaches_what_it_configures(field):
    value, arrived = FIELDS[field]
    others = {"device": config(gpu=True), "graph_schedule": config(rule="d-psgd", plain=True)}
    default = (others | dict.fromkeys(("loss", "late", "crash"), config(plain=True))).get(field, CONFIG)
    assert getattr(default, field) != value
    assert not arrived(seen(default))
    assert arrived(seen(dataclasses.replace(default, **{field: value})))


# --- Every draw ---------------------------------------------------------------------------------------------


class Drawn(NamedTuple):
    """What a run draws; lists and first axes go by worker, or by attacker."""

    graph: np.ndarray
    attackers: np.ndarray
    initial: np.ndarray
    rows: list[np.ndarray]  # training rows
    tested: list[np.ndarray]  # test rows
    batches: np.ndarray  # of the first round
    signals: np.ndarray


def drawn(seed):
    """By a run of one epoch on a graph and under an attack that are drawn, too.

    All workers have as many rows whatever the seed, so that batches can be compared.
    """
    found = []

    def engine(setting):
        def step(state, batch, signals=None):
            found.append((setting, state.W, batch, signals))
            return algorithm.Round(None, None, None, None, None, state._replace(t=state.t + 1))

        return Engine(step, setting.model)

    tests = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_engine, "engine", engine)
        nothing = (np.ones(1), np.ones(1), np.ones(1), np.ones(1, bool))
        patch.setattr(train, "scores_by_worker", lambda s, test, W, model: tests.append(test) or nothing)
        grid.run(config(seed=seed, epochs=1, batch_size=100, partition="iid"))
    s, W, batch, signals = found[0]
    rows = s.X
    tested = [tests[0].X[own] for own in tests[0].own]
    return Drawn(s.graph, s.attackers, W, rows, tested, batch, signals)


def test_another_seed_is_another_run_in_everything_that_is_drawn():
    one, same, other = drawn(0), drawn(0), drawn(1)
    for what in ("graph", "attackers"):
        assert_array_equal(getattr(one, what), getattr(same, what))
        assert not np.array_equal(getattr(one, what), getattr(other, what)), what
    for what in ("initial", "rows", "tested", "batches", "signals"):
        for k, (a, b, c) in enumerate(zip(*(getattr(run, what) for run in (one, same, other)), strict=True)):
            assert_array_equal(a, b)
            assert not np.array_equal(a, c), (what, k)


# --- The paper's settings -----------------------------------------------------------------------------------

# By supplement C, Sec. 5 ("Results and Discussion": attackers) and the figures' axes (epochs). "ours": what the
# paper leaves open or we do otherwise, see docs/CHOICES.md.
PRESETS = {
    "spambase": {
        "workers": 10, "attackers": 3, "epochs": 200, "optimizer": "sgd", "lr": 0.01, "batch_size": 20,
        "risk": "local", "partition": "nonuniform",
        "features": "standardised", "dtype": "float64",  # ours
    },
    "har": {
        "workers": 30, "attackers": 13, "epochs": 100, "optimizer": "sgd", "lr": 0.01, "batch_size": 10,
        "risk": "local", "partition": "by-subject",
        "features": "raw", "dtype": "float32",  # ours
    },
    "mnist": {
        "workers": 10, "attackers": 3, "optimizer": "adam", "batch_size": 64, "partition": "two-labels",
        "risk": "batch",  # Sec. 3, the cost of aggregation
        "lr": 0.001,  # ours: the released code's, for the paper's 0.02
        "epochs": 1,  # ours: for the paper's 100; likewise the choice of rules and attacks
        "rules": ["adaptive", "average", "median", "krum", "local"], "attacks": ["sign-flip", "alie"],
        "features": "raw", "dtype": "float32",  # ours
    },
}  # fmt: skip
PRESETS["digits"] = PRESETS["mnist"] | {"epochs": 15}

NETWORKS = {  # shapes of the tensors, and the share of each worker's rows that it is tested on
    "spambase": ([(57, 20), (20,), (20, 2), (2,)], 0.2),
    "har": ([(561, 100), (100,), (100, 6), (6,)], 0.25),
    "mnist": (
        [
            (3, 3, 1, 32),
            (32,),
            (3, 3, 32, 64),
            (64,),
            (3, 3, 64, 64),
            (64,),
            (576, 128),
            (128,),
            (128, 10),
            (10,),
        ],
        0.0,
    ),
}
NETWORKS["digits"] = NETWORKS["mnist"]


@pytest.mark.parametrize("task", tasks.TASKS)
def test_a_preset_is_the_papers(task):
    preset = tasks.TASKS[task]
    assert preset.defaults == PRESETS[task]
    shapes = [field.shape for field in preset.model().layout.fields]
    assert (shapes, preset.test_share) == NETWORKS[task]
    args = options.parser(task).parse_args([])
    for option, value in PRESETS[task].items():
        assert getattr(args, option) == value
    assert (args.graph, args.seeds, args.released, args.l2) == ("complete", [0], [], 0.0)
    assert (args.protocol, args.figure, args.repeats) == ("paper", None, None)
    assert args.start == "own"
    assert (args.plain, args.gpu, args.device) == (False, False, 0)


FIGURES = {  # Sec. 5 and supplement D: workers, attackers, epochs (the axes), learning rate, what is shown
    ("har", "1"): (30, 13, 100, 0.01, ["worst_own"]),
    ("mnist", "2"): (10, 3, 100, 0.02, ["worst_own"]),
    ("spambase", "3"): (10, 3, 200, 0.01, ["worst_own"]),
    ("har", "D1"): (30, 13, 100, 0.01, ["highest_loss"]),
    ("mnist", "D2"): (10, 3, 100, 0.02, ["highest_loss"]),
    ("spambase", "D3"): (10, 3, 200, 0.01, ["highest_loss"]),
    ("har", "D4"): (30, 6, 100, 0.01, ["highest_loss"]),
    ("har", "D5"): (30, 6, 100, 0.01, ["worst_own"]),
    ("har", "D6"): (30, None, 100, 0.01, ["highest_loss", "worst_own"]),
    ("mnist", "D6"): (10, None, 100, 0.02, ["highest_loss", "worst_own"]),
    ("spambase", "D6"): (10, None, 200, 0.01, ["highest_loss", "worst_own"]),
}


@pytest.mark.parametrize(("task", "points"), [("har", 50), ("mnist", 13), ("spambase", 200)])
def test_a_curve_of_a_figure_has_so_many_points(task, points):
    """A point costs an evaluation: on MNIST a third of an epoch."""
    epochs = {epochs for (of, _), (_, _, epochs, _, _) in FIGURES.items() if of == task}
    assert [len(train.evaluation_epochs(n, tasks.TASKS[task].evaluate_every)) for n in epochs] == [points]


def test_figures_are_the_papers():
    assert {(task, name) for task, some in presets.FIGURES.items() for name in some} == set(FIGURES)
    for (task, name), (workers, attackers, epochs, lr, shows) in FIGURES.items():
        _, args = options.parse(task, ["--figure", name])
        attacks = ["sign-flip", "arbitrary", "foe", "alie"] if attackers else ["none"]
        assert (args.workers, args.epochs, args.lr, args.attacks) == (workers, epochs, lr, attacks)
        assert args.attackers == attackers or not attackers
        assert set(args.rules) == {"adaptive", "average", "medoid", "trimmed-mean", "median", "krum"}
        assert list(presets.FIGURES[task][name].shows) == shows


def test_a_figure_under_the_released_protocol_has_the_released_learning_rate():
    rates = {"har": 0.01, "mnist": 0.001, "spambase": 0.005}
    for (task, name), (_, _, epochs, _, _) in FIGURES.items():
        _, args = options.parse(task, ["--figure", name, "--protocol", "released"])
        assert (args.lr, args.epochs) == (rates[task], epochs)
    _, args = options.parse("mnist", ["--figure", "2", "--protocol", "released", "--lr", "0.5"])
    assert args.lr == 0.5


def test_the_whole_grid_is_every_rule_against_the_papers_attacks():
    args = options.parser("spambase").parse_args([])
    assert args.rules == list(RULES)
    assert args.attacks == ["none", "sign-flip", "arbitrary", "foe", "alie"]


def test_what_a_setting_is_unless_told_otherwise():
    """The paper's rule and risk, nobody lying, Spambase's step; the attacks' strengths in Sec. 2.2 and 5."""
    assert algorithm.Setting._field_defaults == {
        "rule": "adaptive", "attack": "none", "risk": "local", "optimizer": "sgd", "step_size": 0.01, "l2": 0.0,
        "batch_size": 20,
    }  # fmt: skip
    own, honest = np.array([[2.0, 4.0]]), np.array([[1.0, 5.0], [3.0, 5.0]])
    assert_array_equal(sent_by(ATTACKS["sign-flip"], own, honest, None), [[-2, -4]])  # sigma 1
    assert_array_equal(sent_by(ATTACKS["foe"], own, honest, None), [-2, -5])  # epsilon 1


def test_what_a_partition_deals_unless_told_otherwise():
    """At least 20 rows of each class to each worker; two shards."""
    y = np.repeat(np.arange(2), 250)
    parts = PARTITIONS["nonuniform"].deal(y, 10, np.random.default_rng(0))
    assert min(np.bincount(y[part], minlength=2).min() for part in parts) == 20
    parts = PARTITIONS["shards"].deal(np.arange(40), 10, np.random.default_rng(0))
    assert max(np.sum(np.diff(part) != 1) for part in parts) == 1  # each is two runs of rows


# --- Features -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 12345.678])
@pytest.mark.parametrize("rows", [3, 10, 3680])
def test_a_constant_feature_stays_0(rows, value):
    """To the last bit, whatever rounding makes of its mean and deviation; others are scaled as before."""
    X = np.stack([np.full(rows, value), np.arange(rows) - 1.0], axis=1)
    scaled = tasks.FEATURES["standardised"].fit(X)(X)
    assert_array_equal(scaled[:, 0], 0)
    assert scaled[:, 1].mean() == pytest.approx(0, abs=1e-12)
    assert scaled[:, 1].std() == pytest.approx(1)
