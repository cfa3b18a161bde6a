"""Rows ranked by what models lose on them: the rounds of the specification, and the same bytes after a stop."""

import contextlib
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import PAPERS, cast
from test_engine import assert_same_runs, data, draws_of, hostile, initial

from refimpl import algorithm, graphs, models, train
from refimpl.arrays import quiet
from refimpl.attacks import ATTACKS, Attack
from refimpl.fast import engine, plan, ranked_rows, reused_products, risks
from refimpl.fast.parallel import threads

ROWS = [23, 8, 40, 9, 17, 8, 31]
MODELS = {"two classes": models.mlp([4, 5, 2]), "deep": models.mlp([4, 5, 6, 3])}


@contextlib.contextmanager
def surroundings():
    """Of every test here: rows are ranked however small a problem is, and whether or not it pays."""
    with (
        mock.patch.object(plan, "RANKED", 0),
        mock.patch.object(ranked_rows, "PAYS", np.inf),
        mock.patch.object(reused_products, "EVERY", 4),
    ):
        yield


@pytest.fixture(autouse=True)
def _within():
    with surroundings():
        yield


def setting(model="deep", rows=ROWS, dtype="float64", **options):
    network = MODELS[model]
    X, y = data(rows, network.sample, 0, dtype)
    attack = ATTACKS[options.get("attack", "none")]
    options = {
        "step_size": 0.3,
        "batch_size": 3,
        "attackers": np.array([1, 4] if attack.lies else [], int),
    } | options
    y = [np.minimum(labels, network.layout.fields[-1].size - 1) for labels in y]
    return algorithm.Setting(network, X, y, graphs.complete(len(rows)), **options)


@pytest.mark.parametrize("attack", [*PAPERS, "copy", "NaN"])
@pytest.mark.parametrize("model", MODELS)
def test_ranked_rounds_are_the_specifications(model, attack):
    """Over rounds that rank, rounds that use it, messages that are not finite, and one that ties."""
    copy = Attack(lambda own, honest, signals: honest[0], "a copy", "-", one_message=True)
    with mock.patch.dict(ATTACKS, {"NaN": hostile(np.nan, 3, False), "copy": copy}):
        s = setting(model, attack=attack)
        assert engine.plan(s).ranks
        assert assert_same_runs(s, initial(s), 0, 10, 1e-9) > 5


@quiet
def ranked(s, M, by):
    """The risks of M (n, d) once rows are ranked by the losses of other models, and by all rows."""
    made = plan.plan(s)
    (group,) = made.groups
    rows = ranked_rows.RankedRows(made)
    rows.rank(by)
    return rows.passing(M, rows.stages), risks.neighbour_risks(made.network, M[None], group.local, group.count)[
        0
    ]


@given(st.integers(0, 2**32 - 1), st.sampled_from(["float32", "float64"]), st.sampled_from(list(MODELS)))
def test_whoever_passes_has_its_risk_and_no_other_is_trusted(seed, dtype, model):
    """Models near to each other and far away, some equal; rows that are ranked by others, or by NaN."""
    rng = np.random.default_rng(seed)
    s = cast(setting(model, rng.integers(8, 40, 7).tolist(), rule="adaptive"), dtype)
    M = initial(s).astype(dtype) * rng.choice([0.01, 1, 30])
    M += M.std() * rng.choice([0, 1e-6, 0.1, 1, 100], (7, 1)) * rng.normal(size=M.shape)
    M[rng.integers(7)] = M[rng.integers(7)]
    M = M.astype(dtype)
    r, expected = ranked(s, M, rng.choice([M, M[::-1], M + np.nan]))
    mine, its_own = expected.diagonal()[:, None], r.diagonal()[:, None]
    close, clear = 20 * np.finfo(dtype).eps, abs(expected - mine) > 1e-4 * abs(mine) + 1e-6
    alone = ~np.isfinite(np.where(np.eye(7, dtype=bool), np.inf, r)).any(axis=1, keepdims=True)
    assert_allclose(its_own[~alone], mine[~alone], rtol=close, atol=close)
    assert_allclose(its_own, mine, rtol=1e-3, atol=1e-6)  # where no other is left, by fewer digits
    assert_array_equal((r <= its_own)[clear], (expected <= mine)[clear])
    kept = (expected <= mine) & ~alone
    assert_allclose(r[kept], expected[kept], rtol=close, atol=close)
    assert (r == its_own)[(M[:, None] == M).all(axis=-1)].all()  # equal models tie, to the last bit


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 1, 30, 300]), st.sampled_from(list(MODELS)))
@quiet
def test_what_rounding_may_do_to_a_loss_is_known(seed, scale, model):
    rng = np.random.default_rng(seed)
    s = setting(model, rule="adaptive")
    made = ranked_rows.RankedRows(plan.plan(s))
    M = scale * rng.normal(size=initial(s).shape)
    exact, coarse = (
        made.network.losses_of_all(A[None], rows.X, rows.y)[0]
        for A, rows in ((M, made.rows), (M.astype("float32"), made.screened))
    )
    factor, least = made.rounding(M)[:, None], 4 * np.finfo("float32").eps
    assert not (coarse > factor * exact + least).any()  # infinity times 0 allows anything
    assert not (exact > factor * coarse + least).any()


def test_a_model_that_only_float64_can_judge_is_judged_by_it():
    """Receiver 0's own network, with two hidden units that cancel out but for rounding."""
    s = setting("two classes", rule="adaptive")
    M = initial(s)
    M[1] = M[0]
    tensors = s.model.layout.views(M[1])
    tensors["W1"][:, 1] = tensors["W1"][:, 0] = 1e9 * np.arange(1, 5)
    tensors["W2"][1] = -tensors["W2"][0]
    for own, other in ((0, 1), (1, 0)):
        M[[0, 1]] = M[[own, other]]
        r, expected = ranked(s, M, M)
        assert np.isfinite(r[expected <= expected.diagonal()[:, None]]).all()


def test_the_rows_that_tell_most_come_first():
    """One row of four on which the others are wrong decides about them."""
    s = setting("two classes", [4] * 7, rule="adaptive", dtype="float32")
    made = ranked_rows.RankedRows(plan.plan(s))
    losses = np.full((7, 28), 0.01)
    for k in range(7):
        losses[np.arange(7) != k, 4 * k + k % 4] = 5.0
    with mock.patch.object(type(made.network), "losses_of_all", return_value=losses[None]):
        made.rank(np.zeros((7, 1)))
    assert_array_equal(made.stages[0].X[0, 0], made.rows.X[0, 0, [4 * k + k % 4 for k in range(7)]])


def test_where_it_does_not_pay_all_is_scored():
    s, seen = setting("two classes", rule="adaptive"), []
    call = ranked_rows.neighbour_risks
    with (
        mock.patch.object(ranked_rows, "PAYS", 0),
        mock.patch.object(ranked_rows, "neighbour_risks", lambda *args: seen.append(1) or call(*args)),
    ):
        assert assert_same_runs(s, initial(s), 0, 10, 1e-9) > 5
    assert len(seen) == 10 - 3  # rounds 1, 5 and 9 rank


@pytest.mark.parametrize("attack", ["none", "sign-flip", "alie"])
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(attack):
    s = setting(attack=attack, rule="adaptive", dtype="float32")
    N, W, stops = len(s.graph), initial(s).astype("float32"), []
    test = train.HeldOut(np.stack([X[0] for X in s.X]), np.array([y[0] for y in s.y]), np.eye(N, dtype=bool))
    whole = train.run(s, test, W, 0, 3, engine.engine, after_round=lambda progress: stops.append(progress()))
    assert [stop.state.t % 4 for stop in stops] == [0] * len(stops)
    assert len(stops) > 2
    for stop in stops:
        history = {name: column[:] for name, column in stop.history.items()}
        again = train.run(s, test, W, 0, 3, engine.engine, since=stop._replace(history=history))
        assert_array_equal(again.W, whole.W)


def test_a_ranking_is_used_only_in_the_rounds_that_follow():
    s = setting(rule="adaptive", attack="foe")
    (batch, signals), (other, _) = draws_of(s, initial(s), 0, 2)
    step, state = engine.engine(s).step, algorithm.start(s, initial(s))
    after = step(state, batch, signals).state
    elsewhere = after._replace(W=after.W * 1.5)
    passing = ranked_rows.RankedRows.passing
    with mock.patch.object(ranked_rows.RankedRows, "passing", autospec=True, side_effect=passing) as called:
        step(elsewhere, other, signals)
        assert not called.called
        step = engine.engine(s).step
        step(step(state, batch, signals).state, other, signals)
        assert called.called


def test_threads_share_receivers_and_give_the_same_bytes():
    s, runs = setting(rule="adaptive", attack="alie", dtype="float32"), []
    for count in (1, 3):
        with threads(count):
            state, step = algorithm.start(s, initial(s).astype("float32")), engine.engine(s).step
            for batch, signals in draws_of(s, state.W, 0, 6):
                state = step(state, batch, signals).state
            runs.append(state.W)
    assert_array_equal(*runs)


@pytest.mark.parametrize(
    ("why", "options"),
    [
        ("the risk has a term that is no loss", {"l2": 0.1}),
        ("batches differ from round to round", {"risk": "batch"}),
        ("a model with any risk counts", {"rule": "inverse-risk"}),
        ("receivers hear different models", {"graph": graphs.ring(7)}),
        ("one layer has nothing behind it", {"model": models.mlp([4, 3])}),
    ],
)
def test_where_rows_are_not_ranked(why, options):
    assert engine.plan(setting()).ranks
    assert not engine.plan(setting()._replace(**options)).ranks, why
