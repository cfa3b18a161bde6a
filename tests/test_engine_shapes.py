"""The engine at the shapes that run: problems as large as the paper's, and no constant of the engine patched.

test_engine.py cuts tiny problems as if they were large; these are cut because they are. Attackers are not
neighbours, so neither they nor the others are a slice, and every worker has a number of rows of its own.
"""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from test_engine import assert_same_runs, draws_of

from refimpl import algorithm, draws, graphs, models
from refimpl.aggregate import RULES
from refimpl.fast import engine, networks, plan
from refimpl.fast.parallel import threads

TOLERANCE = {"float64": 1e-12, "float32": 1e-6}
# No decision is within ten times that of another; by the choice of seeds, within fifty times in float32.
CLEAR = {"float64": 1e-9, "float32": 1e-7}
HAR, SPAMBASE = models.mlp([561, 100, 6]), models.mlp([57, 20, 2])
BAND = graphs.from_edges(12, [(k, (k + j) % 12) for k in range(12) for j in (1, 2, 3)])


def step_size(k, t):
    """Some workers learn faster: the others trust them, and some of the lies."""
    return 0.1 * (1 + k % 4) / (1 + t / 4)


def setting(network, rows, classes, dtype, seed, **options):
    """Noisy samples around a centre for each class, every feature in (-1, 1)."""
    rng = np.random.default_rng(seed)
    labels, centres = [rng.integers(0, classes, n) for n in rows], rng.normal(size=(classes, *network.sample))
    X = [np.tanh(centres[y] / 2 + rng.normal(size=(len(y), *network.sample))).astype(dtype) for y in labels]
    options = {"graph": graphs.complete(len(rows)), "step_size": step_size} | options
    return algorithm.Setting(network, X, labels, **options)


def har(dtype="float64", seed=0, **options):
    """Twelve workers with some 90 rows each, of whom three lie, and HAR's network and batches."""
    options = {"attackers": np.array([1, 4, 7]), "batch_size": 10} | options
    return setting(HAR, [90 + k % 5 for k in range(12)], 6, dtype, seed, **options)


def initial(s, seed=0):
    return draws.initial(s.model.layout, len(s.graph), draws.stream(seed, "init")).astype(s.X[0].dtype)


def assert_same(s, seed, rounds=4):
    dtype = str(s.X[0].dtype)
    assert assert_same_runs(s, initial(s, seed), seed, rounds, TOLERANCE[dtype], CLEAR[dtype]) == rounds


@pytest.mark.parametrize(
    ("rule", "attack", "dtype", "seed"),
    [
        ("adaptive", "alie", "float64", 0),
        ("adaptive", "sign-flip", "float32", 1),
        ("inverse-risk", "foe", "float32", 7),
        ("inverse-risk", "arbitrary", "float64", 1),
    ],
)
def test_har_with_carried_products(rule, attack, dtype, seed):
    s = har(dtype, seed, rule=rule, attack=attack)
    made = plan.plan(s)
    assert made.carries
    assert [group.stages for group in made.groups] == [plan.WHOLE]  # what is carried has stages of its own
    assert len(made.chunks) > 1
    assert_same(s, seed)


@pytest.mark.parametrize(
    ("dtype", "seed", "rounds", "options"),
    [
        ("float64", 0, 4, {"optimizer": "adam", "step_size": 0.001}),
        ("float32", 1, 2, {"risk": "batch", "batch_size": 80}),
    ],
)
def test_har_with_risks_in_stages(dtype, seed, rounds, options):
    """Of ranked rows if they are all local data, else of the batch's."""
    s = har(dtype, seed, attack="alie", **options)
    made = plan.plan(s)
    assert made.ranks == (s.risk == "local")
    assert (len(made.groups[0].stages) > 1) != made.ranks
    assert_same(s, seed, rounds)


@pytest.mark.parametrize(
    ("dtype", "seed", "rule"), [("float32", 1, "adaptive"), ("float64", 0, "inverse-risk")]
)
def test_har_with_neighbourhoods_of_each_ones_own(dtype, seed, rule):
    """More of them than are computed together, and more rows than are scored together."""
    s = har(dtype, seed, rule=rule, attack="alie", graph=BAND, l2=0.01)
    groups = plan.plan(s).groups
    assert max(len(group.receivers) for group in groups) > 1
    assert len(groups) > len({group.numbers.shape[1] for group in groups})
    assert all(len(group.local) > 1 for group in groups if len(group.receivers) > 1)
    assert_same(s, seed)


@pytest.mark.parametrize("rule", [name for name, rule in RULES.items() if not rule.scores])
def test_har_with_rules_that_see_only_models(rule):
    for dtype, seed, attack in (("float64", 0, "sign-flip"), ("float32", 1, "alie")):
        assert_same(har(dtype, seed, rule=rule, attack=attack), seed, rounds=1)


@pytest.mark.parametrize("rule", RULES)
def test_spambase(rule):
    """All risks by one product, on more than 2000 rows."""
    for dtype, seed, attack in (("float64", 0, "alie"), ("float32", 7, "sign-flip")):
        rows = [360 + 2 * k for k in range(10)]
        options = {"rule": rule, "attack": attack, "attackers": np.array([2, 5, 8]), "batch_size": 20}
        assert_same(setting(SPAMBASE, rows, 2, dtype, seed, **options), seed)


def test_mnist():
    """More images than are convolved together, and more models than see them together."""
    s = setting(
        models.cnn(), [22, 17, 24, 17, 20], 10, "float64", 0,
        attackers=np.array([2]), attack="alie", risk="batch", batch_size=17,
    )  # fmt: skip
    assert s.batch_size > networks.IMAGES
    assert len(s.normal) + 1 > networks.SEE
    assert_same(s, 0, rounds=1)


def test_a_batch_that_is_cut_with_its_products_carried():
    """With 3000 features, fewer than 360 rows of a batch are computed at a time."""
    s = setting(
        models.mlp([3000, 4, 3]), [20, 30, 25], 3, "float64", 0,
        attackers=np.array([1]), rule="inverse-risk", attack="foe", batch_size=360,
    )  # fmt: skip
    made = plan.plan(s)
    assert made.carries
    assert len(made.network._parts((1, s.batch_size), np)) > 1
    assert_same(s, 0, rounds=3)


@pytest.mark.parametrize("options", [{}, {"optimizer": "adam"}, {"graph": BAND}, {"rule": "median"}], ids=list)
def test_any_number_of_threads_gives_the_same_bytes(options):
    s, made = har("float32", attack="alie", **options), []
    for count in (1, 3):
        with threads(count):
            state, step = algorithm.start(s, initial(s)), engine.engine(s).step
            for batch, signals in draws_of(s, state.W, 0, 3):
                state = step(state, batch, signals).state
        made.append(state.W)
    assert_array_equal(*made)
