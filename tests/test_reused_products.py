"""Products carried from round to round: the risks of the specification, and the same bytes after a stop."""

import contextlib
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from problems import PAPERS, cast
from test_engine import assert_same_runs, data, draws_of, hostile, largest

from refimpl import algorithm, draws, graphs, models, train
from refimpl.arrays import quiet
from refimpl.attacks import ATTACKS
from refimpl.fast import engine, plan, reused_products
from refimpl.fast.parallel import threads
from refimpl.fast.rules import COORDINATEWISE

ROWS = [23, 8, 40, 9, 17, 8, 31]
MODELS = {"mlp": models.mlp([4, 5, 3]), "deep": models.mlp([4, 5, 6, 3])}


@contextlib.contextmanager
def surroundings():
    """Of every test here, however small its problem; test_mutants.py, which calls tests directly, enters it."""
    with mock.patch.object(plan, "WORTH", 0), mock.patch.object(reused_products, "EVERY", 4):
        yield


@pytest.fixture(autouse=True)
def _within():
    with surroundings():
        yield


def setting(model="mlp", rows=ROWS, dtype="float64", **options):
    network, N = MODELS[model], len(rows)
    lies = ATTACKS[options.get("attack", "none")].lies
    options = {"step_size": 0.1, "batch_size": 3, "attackers": np.array([1, 4] if lies else [], int)} | options
    return algorithm.Setting(network, *data(rows, network.sample, 0, dtype), graphs.complete(N), **options)


def initial(s):
    return draws.initial(s.model.layout, len(s.graph), draws.stream(0, "init")).astype(s.X[0].dtype)


@pytest.mark.parametrize("attack", PAPERS)
@pytest.mark.parametrize("rule", ["adaptive", "inverse-risk"])
@pytest.mark.parametrize("model", MODELS)
def test_carried_rounds_are_the_specifications(model, rule, attack):
    """With step sizes that differ by worker and round, over rounds that carry and rounds that do not."""
    s = setting(model, rule=rule, attack=attack, step_size=lambda k, t: 0.3 / (1 + k + t))
    assert engine.plan(s).carries == (ATTACKS[attack].send in COORDINATEWISE)
    assert assert_same_runs(s, initial(s), 0, 10, 1e-9) > 5


@pytest.mark.slow
@given(st.data())
def test_carried_rounds_of_any_size_are_the_specifications(data):
    rows = data.draw(st.lists(st.integers(1, 12), min_size=3, max_size=7))
    attack = data.draw(st.sampled_from(["sign-flip", "foe", "alie"]))
    liars = sorted(data.draw(st.sets(st.integers(0, len(rows) - 1), max_size=len(rows) - 2)))
    s = setting(
        rows=rows, attack=attack, rule=data.draw(st.sampled_from(["adaptive", "inverse-risk"])),
        attackers=np.array(liars, int), batch_size=data.draw(st.integers(1, 6)),
    )  # fmt: skip
    with mock.patch.object(reused_products, "FLOATS", data.draw(st.sampled_from([0, 500, 2**20]))):
        assert_same_runs(s, initial(s), data.draw(st.integers(0, 1000)), 6, 1e-8)


HIDDEN_BIAS = MODELS["mlp"].layout.fields[1].offset


@quiet
@pytest.mark.parametrize(("value", "entry"), [(np.nan, 3), (np.inf, 3), (-1e308, 3), (-np.inf, HIDDEN_BIAS)])
@pytest.mark.parametrize("rule", ["adaptive", "inverse-risk"])
def test_nothing_is_carried_over_from_what_is_not_finite(rule, value, entry):
    """Of a message, or of its products, which the next round would multiply by a weight of 0.

    ReLU hides a bias of -infinity: its risk is finite, and yet it is not trusted.
    """
    attack = ATTACKS["foe"]

    def now_and_then(honest):
        sent = attack.send(honest).copy()
        sent[..., entry] = value if int(abs(honest).sum() * 1e6) % 2 == 0 else sent[..., entry]
        return sent

    s = setting(rule=rule, attack="foe")
    known = {**plan.COORDINATEWISE, now_and_then: now_and_then}
    liar = attack._replace(send=now_and_then)
    with mock.patch.dict(ATTACKS, {"foe": liar}), mock.patch.object(plan, "COORDINATEWISE", known):
        assert engine.plan(s).carries
        assert assert_same_runs(s, initial(s), 0, 12, 1e-9) > 8


def test_rounding_does_not_add_up():
    """In float32, over as many rounds as are carried: the risks stay those of the parameters."""
    s = setting(rule="inverse-risk", attack="alie", dtype="float32", step_size=0.01)
    worst = []
    call = reused_products.ReusedProducts.risks

    def compared(self, M, state, batch, delta):
        r = call(self, M, state, batch, delta)
        expected = [[s.model.risk(w, s.X[k], s.y[k]) for w in M] for k in s.normal]
        worst.append(abs(r / np.array(expected) - 1).max())
        return r

    with (
        mock.patch.object(reused_products, "EVERY", 32),
        mock.patch.object(reused_products.ReusedProducts, "risks", compared),
    ):
        state, step = algorithm.start(s, initial(s)), engine.engine(s).step
        for batch, signals in draws_of(s, state.W, 0, 70):
            state = step(state, batch, signals).state
    assert len(worst) == 70
    assert max(worst) < 1e-5


def test_a_lie_that_nobody_can_trust_sees_an_eighth_of_the_rows():
    s = setting(rows=[80] * 7, rule="adaptive", attack="sign-flip")
    M, seen = initial(s), []
    M[[1, 4]] *= [[1e4], [1]]  # worker 1 is certain, and mostly wrong
    call = reused_products.ReusedProducts.score_stage

    def score_stage(self, M, *rest):
        seen.append(len(M))
        return call(self, M, *rest)

    with mock.patch.object(reused_products.ReusedProducts, "score_stage", score_stage):
        made = reused_products.ReusedProducts(engine.plan(s))
        r = made.risks(M, algorithm.start(s, M), np.zeros((7, 3), int), np.zeros((7, 3, 5)))
    assert seen == [5] * 4 + [2, 1, 1, 1]
    assert np.isinf(r[:, 1]).all()
    assert np.isfinite(np.delete(r, 1, axis=1)).all()


def test_a_round_that_was_interrupted_can_be_repeated():
    s = setting(rule="adaptive", attack="alie")
    first, second = draws_of(s, initial(s), 0, 2)
    step = engine.engine(s).step
    state = step(algorithm.start(s, initial(s)), *first).state
    with (
        mock.patch.object(reused_products, "relu", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        step(state, *second)
    assert_array_equal(step(state, *second).state.W, engine.engine(s).step(state, *second).state.W)


def test_data_of_another_kind_than_the_models_are_not_multiplied_with_each_other():
    """Derivatives rounded to whole numbers would be lost."""
    s = setting(rule="inverse-risk", attack="foe")
    s = s._replace(X=[np.clip(np.round(3 * X + 5), 0, 16).astype("float32") for X in s.X], step_size=0.01)
    assert engine.plan(s).carries
    assert assert_same_runs(s, initial(s).astype("float64"), 0, 4, 1e-12) > 2
    assert not engine.plan(cast(s, "int64")).carries


def test_products_are_carried_only_from_the_round_before():
    """A round from another state starts from scratch."""
    s = setting(rule="adaptive", attack="foe")
    (batch, signals), (other, _) = draws_of(s, initial(s), 0, 2)
    step, state = engine.engine(s).step, algorithm.start(s, initial(s))
    first = step(state, batch, signals)
    elsewhere = first.state._replace(W=first.state.W * 1.5)
    assert_array_equal(
        step(elsewhere, other, signals).state.W, engine.engine(s).step(elsewhere, other, signals).state.W
    )


@pytest.mark.parametrize("attack", ["none", "sign-flip", "alie"])
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(attack):
    s = setting(rule="adaptive", attack=attack, dtype="float32")
    N, W, stops = len(s.graph), initial(s), []
    test = train.HeldOut(np.stack([X[0] for X in s.X]), np.array([y[0] for y in s.y]), np.eye(N, dtype=bool))
    whole = train.run(s, test, W, 0, 3, engine.engine, after_round=lambda progress: stops.append(progress()))
    assert [stop.state.t % 4 for stop in stops] == [0] * len(stops)
    assert len(stops) > 2
    for stop in stops:
        history = {name: column[:] for name, column in stop.history.items()}
        again = train.run(s, test, W, 0, 3, engine.engine, since=stop._replace(history=history))
        assert_array_equal(again.W, whole.W)


@pytest.mark.parametrize("attack", ["none", "sign-flip", "alie"])
def test_carried_products_are_shared_by_threads(attack):
    s = setting(rule="adaptive", attack=attack, dtype="float32")
    runs = []
    for count in (1, 3):
        with threads(count), mock.patch.object(reused_products, "FLOATS", 500):
            state, step = algorithm.start(s, initial(s)), engine.engine(s).step
            for batch, signals in draws_of(s, state.W, 0, 6):
                state = step(state, batch, signals).state
            runs.append(state.W)
    assert_array_equal(*runs)


@pytest.mark.parametrize(
    ("why", "options"),
    [
        ("Adam's steps are no products over a batch", {"optimizer": "adam"}),
        ("L2 changes the step and the risk", {"l2": 0.1}),
        ("batches differ from round to round", {"risk": "batch"}),
        ("other rules look at no risk", {"rule": "median"}),
        ("some do not hear all", {"graph": graphs.ring(7)}),
        ("their squares overflow", {"X": np.full((7, 40, 4), 1e160)}),
        ("ALIE sends the only normal worker's model", {"attack": "alie", "attackers": np.arange(1, 7)}),
        ("one layer has nothing behind it", {"model": models.mlp([4, 3])}),
        ("an attack of one's own may copy a model, and must tie with it", {"attack": "mine"}),
    ],
)
def test_where_products_are_not_carried(why, options):
    with mock.patch.dict(ATTACKS, {"mine": hostile(largest(1e300, "float64"), None, True)}):
        assert engine.plan(setting()).carries
        assert not engine.plan(setting()._replace(**options)).carries, why


def test_small_gains_and_large_matrices_are_not_worth_it():
    s = setting()
    rows, h, N, p, B = sum(ROWS), 5, 7, 4, 3
    with mock.patch.object(plan, "CARRIED", rows * max(rows, N * max(h, B)) - 1):
        assert not engine.plan(s).carries
    with mock.patch.object(plan, "CARRIED", rows * N * 40 - 1):
        assert not engine.plan(s._replace(batch_size=40)).carries
    with mock.patch.object(plan, "WORTH", p / (N + B)):
        assert engine.plan(s).carries
    with mock.patch.object(plan, "WORTH", 1.01 * p / (N + B)):
        assert not engine.plan(s).carries
