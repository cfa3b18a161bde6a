"""refimpl/related/tailored.py: what passes Eq. (6), what it breaks, and what stays true (Theorem 1)."""

import itertools
import math
from unittest import mock

import numpy as np
import oracle_layers
import oracle_tailored
import pytest
import test_engine
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import after, initial, setting
from test_tasks import config

from refimpl import algorithm, draws, graphs, models, train
from refimpl.algorithm import Setting
from refimpl.attacks import ATTACKS, KNOWLEDGE, View
from refimpl.experiments import tasks
from refimpl.fast import engine
from refimpl.related import attacks, tailored

OURS = [name for name, entry in ATTACKS.items() if entry.reference == "ours"]
numbers = st.integers(-30, 30).map(lambda x: x / 10)


class Bowl:
    """|w - x|^2 / 2 for the mean x of the rows: a convex risk, over any number of parameters."""

    def __init__(self, d):
        self.layout = models.layout([("w", (d,), 1)])

    def risk(self, w, X, y):
        return ((w - X) ** 2).sum(axis=-1).mean() / 2

    def gradient(self, w, X, y):
        return (w - X).mean(axis=0)

    def predict(self, w, X):
        return np.zeros(len(X), dtype=int)


def bowls(optima, attackers, attack, **options):
    """A setting in which worker k has one row, its optimum; all hear all."""
    optima = np.array(optima, dtype=float)
    X, y = list(optima[:, None]), [np.zeros(1, dtype=int)] * len(optima)
    f, graph = np.array(attackers), graphs.complete(len(optima))
    return Setting(Bowl(optima.shape[1]), X, y, graph, f, attack=attack, step_size=0.1, **options)


def played(s, W):
    """One round, from W; every worker's batch is its first row."""
    return algorithm.round_(s, algorithm.start(s, np.array(W, dtype=float)), np.zeros((len(W), 1), dtype=int))


def risk_of(s, k, w):
    return float(algorithm.risk(s, w, s.X[k], s.y[k]))


# --- All of them --------------------------------------------------------------------------------------------


def seven_workers(attack, risk):
    """Four liars, three ways to turn the second of two hidden layers; rows of 0 and 3 are easily told apart."""
    rng, sizes = np.random.default_rng(3), [5, 3, 4, 2]
    y = [rng.integers(0, 2, n) for n in (7, 4, 6, 5, 8, 4, 6)]
    X = [rng.normal(size=(len(own), 5)) + own[:, None] for own in y]
    for k in (0, 3):
        X[k] = (X[k] - y[k][:, None]) / 2 + (2 * y[k][:, None] - 1) * np.array([2, -2, 0, 0, 2])
    model, liars = models.mlp(sizes), np.array([1, 2, 4, 5])
    s = Setting(model, X, y, graphs.complete(7), liars, attack=attack, risk=risk, step_size=0.3, l2=0.001)
    return s, rng.normal(size=(7, model.layout.size)), oracle_layers.mlp_shapes(sizes)


@pytest.mark.parametrize("risk", ["local", "batch"])
@pytest.mark.parametrize("attack", oracle_tailored.SENDS)
def test_an_attack_equals_its_oracle(attack, risk):
    """What every receiver is sent, by the definition; the last digits of a `permuted` are its only step."""
    s, W, shapes = seven_workers(attack, risk)
    batch = np.tile(np.arange(3), (7, 1))
    for t in (300, 301) if attack == "patient-permuted" else (1,):
        made = algorithm.round_(s, algorithm.start(s, W)._replace(t=t - 1), batch)
        count = 3 if risk == "batch" else None
        rows = [(X[:count].tolist(), y[:count].tolist()) for X, y in zip(s.X, s.y)]
        fooling = [([[*x[:-3], 3.0, 3.0, 3.0] for x in X], [0] * len(y)) for X, y in rows]
        r, slope = (
            lambda w, X, y: oracle_layers.risk(w, X, y, shapes) + s.l2 / 2 * sum(x * x for x in w),
            lambda w, X, y: oracle_tailored.along(oracle_layers.gradient(w, X, y, shapes), w, s.l2),
        )
        world = oracle_tailored.World(
            made.local.tolist(),
            s.attackers.tolist(),
            t,
            shapes,
            *(lambda k, w, f=f, some=some: f(w, *some[k]) for some in (rows, fooling) for f in (r, slope)),
        )
        for k, a in itertools.product(s.normal, s.attackers):
            assert_allclose(made.sent[k, a], oracle_tailored.SENDS[attack](world, k, a), rtol=1e-10, atol=1e-12)


def test_the_oracles_are_of_all_attacks_that_know_the_rule():
    assert list(oracle_tailored.SENDS) == OURS


@pytest.mark.parametrize("risk", ["local", "batch"])
@pytest.mark.parametrize("rule", ["adaptive", "median"])
@pytest.mark.parametrize("attack", OURS)
def test_the_engine_sends_what_the_specification_sends(attack, rule, risk):
    for graph in test_engine.GRAPHS.values():
        options = {"rule": rule, "attack": attack, "risk": risk, "attackers": np.array([1, 4])}
        s = test_engine.setting(test_engine.ROWS, graph, **options)
        assert test_engine.assert_same_rounds(s, test_engine.initial(s), seed=0, count=2) == 2


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("attack", [name for name in OURS if name not in ("boundary-own", "patient-permuted")])
def test_lies_pass_in_both_engines(attack, dtype):
    """By their margin, or as an echo does; and none of them has a risk above the receiver's."""
    s = setting(attack=attack, attackers=[1, 3])
    s = s._replace(X=[X.astype(dtype) for X in s.X])
    for build in (None, engine.engine):
        result = after(s, 4, initial().astype(dtype), **({"engine": build} if build else {}))
        assert (result.weights[np.ix_(s.normal, s.attackers)] > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("attack", OURS)
@given(
    st.lists(st.tuples(numbers, numbers), min_size=4, max_size=5), st.lists(numbers, min_size=10, max_size=10)
)
def test_on_convex_risks_no_receiver_is_worse_off(attack, optima, start):
    """What is left of Theorem 1: after aggregation the risk is at most that of one's own model."""
    s = bowls(optima, [0, 2], attack)
    result = played(s, np.reshape(start, (-1, 2))[: len(optima)])
    for k in s.normal:
        before, now = (risk_of(s, k, w) for w in (result.local[k], result.state.W[k]))
        assert now <= before + 1e-9 * (1 + before)


# --- Echo ---------------------------------------------------------------------------------------------------


@given(st.integers(1, 5))
def test_an_echo_has_all_weight_but_one_part_where_nobody_else_passes(f):
    """Three workers far apart, f liars: f / (f + 1) of the weight, and nothing has changed but that."""
    s = bowls([[10.0 * k, 0] for k in range(3 + f)], range(3, 3 + f), "echo")
    result = played(s, s.X[0][0] + np.array([[10.0 * k, 1] for k in range(3 + f)]))
    assert_allclose(result.weights[:3, 3:].sum(axis=1), f / (f + 1))
    assert_array_equal(result.sent[:3, 3:], np.repeat(result.local[:3, None], f, axis=1))
    assert_allclose(result.state.W[:3], result.local[:3])


def test_an_echo_takes_weight_from_honest_models():
    """A neighbour as good as oneself has 1/2 without liars, and 1 / (f + 2) beside f echoes."""
    alone = played(bowls([[0], [0]], [], "echo"), [[1.0], [-1.0]])
    beside = played(bowls([[0], [0], [9], [9], [9]], [2, 3, 4], "echo"), [[1.0], [-1.0], [9], [9], [9]])
    assert alone.weights[0, 1] == pytest.approx(1 / 2)
    assert beside.weights[0, 1] == pytest.approx(1 / 5)


# --- Boundary -----------------------------------------------------------------------------------------------


def farthest_by_formula(w, x):
    """The largest t <= 1 with |w - 2 t w - x|^2 <= |w - x|^2, by the quadratic formula; 0 if there is none."""
    ww, wx = float(w @ w), float(w @ x)
    # |(1 - 2t) w - x|^2 - |w - x|^2 = ((1 - 2t)^2 - 1) w.w + 4 t w.x = 4 t (t w.w - w.w + w.x)
    return min(1.0, max(0.0, (ww - wx) / ww)) if ww else 0.0


@given(st.tuples(numbers, numbers), st.tuples(numbers, numbers))
def test_on_a_bowl_the_boundary_is_where_the_formula_puts_it(w, x):
    w, x = np.array(w), np.array(x)
    sent = tailored.boundary(w, lambda v: ((v - x) ** 2).sum() / 2)
    t = farthest_by_formula(w, x)
    assert_allclose(sent, w - 2 * t * w, atol=2 * np.abs(w).max() * (1 / 256 + 1e-6))
    assert ((sent - x) ** 2).sum() <= ((w - x) ** 2).sum()


def test_attackers_with_the_receivers_data_need_not_know_them():
    s = setting(attackers=[1], attack="boundary")
    own = s._replace(attack="boundary-own", X=[s.X[0]] * 7, y=[s.y[0]] * 7)
    W, batch = initial(), np.zeros((7, 5), dtype=int)
    assert_array_equal(lie_to(own, 0, W, batch), lie_to(own._replace(attack="boundary"), 0, W, batch))
    assert (lie_to(s._replace(attack="boundary-own"), 0, W, batch) != lie_to(s, 0, W, batch)).any()


@given(st.lists(st.tuples(numbers, numbers), min_size=4, max_size=4))
def test_attackers_judge_by_the_mean_of_their_risks(points):
    """On bowls: the squared distance to the mean of their optima, and what does not depend on the lie."""
    w, optima = np.array(points[0]), np.array(points[1:])
    s = bowls([[9.0, 9.0], *optima], [1, 2, 3], "boundary-own")
    sent = lie_to(s, 0, np.stack([w] * 4), np.zeros((4, 1), dtype=int))
    t = farthest_by_formula(w, optima.mean(axis=0))
    assert_allclose(sent, w - 2 * t * w, atol=2 * np.abs(w).max() * (1 / 256 + 1e-6))


def lie_to(s, k, W, batch):
    view = View(s, algorithm.start(s, W), batch, W[s.attackers], W[s.normal], s.normal, None, k)
    return ATTACKS[s.attack].made_from(view)


@pytest.mark.parametrize(
    ("attack", "rows"), [("boundary", [[0.0], [10.0]]), ("boundary-fitted", [[5.0, 3.0], [5.0, -3.0]])]
)
def test_judged_by_a_batch_the_boundary_keeps_a_receiver_from_its_optimum(attack, rows):
    """Two rows: scored on one of them, the lie goes as far as that row lets it. `local` comes to the middle."""
    X, labels, best = [np.array(rows)] * 4, [np.zeros(2, dtype=int)] * 4, np.mean(rows, axis=0)
    s = Setting(
        Bowl(len(best)), X, labels, graphs.complete(4), np.array([1, 2, 3]), attack=attack, step_size=0.1
    )
    rng, gaps = np.random.default_rng(0), {}
    batches = rng.integers(0, 2, (200, 4, 1))
    for risk, rule in (("batch", "adaptive"), ("local", "adaptive"), ("batch", "local")):
        state, far = algorithm.start(s, np.tile(best, (4, 1))), []
        for batch in batches:
            state = algorithm.round_(s._replace(risk=risk, rule=rule), state, batch).state
            far.append(((state.W[0] - best) ** 2).sum() / 2)
        gaps[risk, rule] = np.mean(far[100:])
    assert gaps["batch", "adaptive"] > 10 * gaps["batch", "local"]
    assert gaps["local", "adaptive"] <= 1.01 * gaps["batch", "local"]


def test_the_fit_makes_room_where_no_step_towards_minus_the_model_passes():
    """For a row at right angles to that way, where each step raises the risk."""
    w, x = np.array([5.0, 0.0]), np.array([5.0, 3.0])
    risk, gradient = lambda v: ((v - x) ** 2).sum() / 2, lambda v: v - x
    assert_array_equal(tailored.boundary(w, risk), w)
    sent = tailored.fitted(w, risk, gradient)
    assert risk(sent) <= risk(w)
    assert sent[0] < 3.1


def test_judged_by_a_batch_a_backdoor_comes_in_that_knows_neither_the_rule_nor_the_data():
    """Now and then two rows are better explained by a model that is worse on all; the risk is convex."""
    rng, model, liars = np.random.default_rng(0), models.mlp([5, 2]), [2, 3]
    y = np.arange(16) % 2
    X = np.zeros((4, 16, 5))
    X[..., 0], X[..., 1] = 2 * y - 1 + rng.normal(size=(4, 16)), rng.normal(size=(4, 16))
    dirty = [attacks.backdoored(own, y, 2) if k in liars else (own, y) for k, own in enumerate(X)]
    s = Setting(
        model, *map(list, zip(*dirty)), graphs.complete(4), np.array(liars), attack="backdoor", step_size=0.1
    )
    W, batches, found = (
        draws.initial(model.layout, 4, draws.stream(0, "init")),
        rng.integers(0, 16, (100, 4, 2)),
        {},
    )
    for risk, rule in (("batch", "adaptive"), ("local", "adaptive"), ("batch", "local")):
        state = algorithm.start(s, W)
        for batch in batches:
            state = algorithm.round_(s._replace(risk=risk, rule=rule), state, batch).state
        w = state.W[0]
        right = (model.predict(w, X[0]) == y).mean()
        found[risk, rule] = (model.predict(w, attacks.with_trigger(X[0])) == 0).mean(), right
    fooled, right = found["batch", "adaptive"]
    assert fooled == 1
    assert right < 0.8
    for fooled, right in (found["local", "adaptive"], found["batch", "local"]):
        assert fooled < 0.5
        assert right > 0.8


# --- Capture ------------------------------------------------------------------------------------------------


def separable(f):
    """Workers with four rows of two classes that lie apart, and a small network."""
    X = np.array([[2.0, 1, 0], [2, -1, 1], [-2, 1, 1], [-2, -1, 0]])
    N = 2 + f
    model = models.mlp([3, 4, 2])
    s = Setting(
        model, [X] * N, [np.array([0, 0, 1, 1])] * N, graphs.complete(N), np.arange(2, N), step_size=0.1
    )
    return s._replace(attack="capture")


def test_three_captors_get_nearly_all_the_weight():
    s = separable(3)
    result = algorithm.round_(s, algorithm.start(s, initial(5)), np.tile(np.arange(4), (5, 1)))
    assert (result.weights[:2, 2:].sum(axis=1) > 0.99).all()
    assert (result.risks[:2, 2:] <= result.risks[[0, 1], [0, 1]][:, None] / 100).all()


def test_what_they_send_is_the_farthest_that_this_allows():
    """A few more steps of the way towards minus the receiver's model, and it would have too high a risk."""
    s = separable(1)
    w, risk = initial(1)[0], lambda v: s.model.risk(v, s.X[0], s.y[0])
    gradient = lambda v: s.model.gradient(v, s.X[0], s.y[0])
    for share in (1.0, 0.01):
        limit = share * risk(w)
        sent = tailored.fitted(w, risk, gradient, share)
        fit = tailored.descended(w, risk, gradient, limit / 2)
        assert risk(fit) <= limit / 2
        assert risk(sent) <= limit < risk(sent + (-w - fit) / 128)


def test_a_descent_stops_at_its_limit_and_never_climbs():
    """On |w|^2 / 2 a step of Polyak's length halves w; on a steep bowl it is shortened until it descends."""
    half = tailored.descended(np.array([8.0]), lambda w: (w * w).sum() / 2, lambda w: w, 2.0)
    assert_allclose(half, 2.0)
    steep = tailored.descended(np.array([1.0]), lambda w: 1 + (w * w).sum() / 2, lambda w: w, 0.0)
    assert 0 <= abs(steep) < 0.2
    assert_array_equal(tailored.descended(np.zeros(2), lambda w: 1.0, lambda w: 0 * w, 0.0), 0)


def with_room(attack):
    """Two normal workers and a liar with eight rows of two classes, in two of five features: s, W, batch."""
    X = np.zeros((8, 5))
    X[:, 0], X[:, 1] = [2, 2, 2, 2, -2, -2, -2, -2], [1, -1, 2, -2, 1, -1, 2, -2]
    y, model = np.repeat([0, 1], 4), models.mlp([5, 4, 2])
    s = Setting(model, [X] * 3, [y] * 3, graphs.complete(3), np.array([2]), attack=attack, step_size=0.1)
    W = draws.initial(model.layout, 3, draws.stream(0, "init"))
    return s, W, np.tile(np.arange(8), (3, 1))


@pytest.mark.parametrize("risk", ["local", "batch"])
def test_a_captors_backdoor_gets_in_and_nothing_shows(risk):
    """Its risk is a capture's, the receiver is right on all its rows, and on all with the trigger it says 0."""
    for attack, says_0 in (("capture-backdoor", 1.0), ("capture", 0.5)):
        s, W, batch = with_room(attack)
        s, state = s._replace(risk=risk), algorithm.start(s, W)
        for _ in range(3):
            made = algorithm.round_(s, state, batch)
            state = made.state
        w, (X, y) = state.W[0], (s.X[0], s.y[0])
        assert made.weights[0, 2] > 0.9
        assert_array_equal(s.model.predict(w, X), y)
        assert (s.model.predict(w, attacks.with_trigger(X)) == 0).mean() == says_0


def test_a_backdoor_that_the_receiver_would_refuse_goes_as_far_as_it_lets_it():
    """Rows at 1, with the trigger at -9: fitted to both it is -4, where the receiver's risk is 12.5, not 2."""
    bowl = lambda x: (lambda w: ((w - x) ** 2).sum() / 2, lambda w: w - x)
    sent = tailored.capture_backdoor(np.array([3.0]), *bowl(1.0), *bowl(-9.0))
    assert_allclose(sent, -1.0, atol=7 / 256)
    assert bowl(1.0)[0](sent) <= 2.0


def test_the_same_rows_with_the_trigger_are_what_the_backdoor_is_trained_on():
    s, W, batch = with_room("capture-backdoor")
    view = View(s, algorithm.start(s, W), batch, W[2:], W[:2], s.normal, None, 0)
    X, y = s.X[0].copy(), s.y[0]
    X[:, 2:] = 3
    assert KNOWLEDGE["triggered_risk"].of(view)(W[1]) == s.model.risk(W[1], X, 0 * y)
    assert_array_equal(KNOWLEDGE["triggered_gradient"].of(view)(W[1]), s.model.gradient(W[1], X, 0 * y))
    assert (s.X[0][:, 2:] == 0).all()  # the receiver's rows are left as they are


def test_a_run_counts_its_success():
    """On Spambase, after an epoch; the same rows in models that listen to nobody, for comparison."""
    s, test, W = tasks.build(config(attack="capture-backdoor", attackers=3))
    assert test.backdoor
    listening, deaf = (
        train.run(s._replace(rule=rule), test, W, 0, 1, engine.engine).history["backdoor_success"][-1]
        for rule in ("adaptive", "local")
    )
    assert listening > 0.9
    assert deaf < 0.5


# --- Permuted -----------------------------------------------------------------------------------------------

NETWORKS = {
    "one hidden layer": models.mlp([3, 4, 2]),
    "two": models.mlp([3, 5, 4, 2]),
    "cnn": models.cnn(side=6, channels=(2,), hidden=4, classes=2),
}


@pytest.mark.parametrize("name", NETWORKS)
@given(places=st.integers(-9, 9), seed=st.integers(0, 99))
def test_a_turned_network_is_the_same_network(name, places, seed):
    model, rng = NETWORKS[name], np.random.default_rng(seed)
    w, X, y = rng.normal(size=model.layout.size), rng.normal(size=(6, *model.sample)), rng.integers(0, 2, 6)
    turned = tailored.turned(w, model.layout, places)
    assert model.risk(turned, X, y) == pytest.approx(model.risk(w, X, y), rel=1e-12)
    assert (turned == w).all() == (places % 4 == 0)  # four hidden units
    assert_array_equal(np.sort(turned), np.sort(w))


def test_a_turn_by_hand():
    model = models.mlp([1, 3, 2])
    w = np.arange(1.0, 15)  # W1 1 2 3, b1 4 5 6, W2 (7 8) (9 10) (11 12), b2 13 14
    by_hand = [3, 1, 2, 6, 4, 5, 11, 12, 7, 8, 9, 10, 13, 14]
    assert_array_equal(tailored.turned(w, model.layout, 1), by_hand)
    assert_array_equal(tailored.turned(w, models.mlp([6, 2]).layout, 1), w)  # nothing is hidden


def two_of_a_mind(attack):
    """A receiver and a liar with one model, logits 4 relu(-x) and 4 relu(x), and two rows: s, W."""
    model = models.mlp([1, 2, 2])
    w = np.zeros(model.layout.size)
    tensors = model.layout.views(w)
    tensors["W1"][...], tensors["W2"][...] = [[2, -2]], [[0, 2], [2, 0]]
    X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    liar = np.array([1])
    s = Setting(model, [X] * 2, [y] * 2, graphs.complete(2), liar, attack=attack, step_size=0.0)
    return s, np.stack([w, w])


def in_round(t, s, W):
    """Round t, from W; every worker's batch is all that it has."""
    return algorithm.round_(s, algorithm.start(s, W)._replace(t=t - 1), np.array([[0, 1], [0, 1]]))


def test_a_permuted_network_ruins_a_receiver_that_knows_its_task():
    """Slip 10: its risk is all but the same, so it passes with half of the weight; the mean knows nothing."""
    s, W = two_of_a_mind("permuted")
    result = in_round(1, s, W)
    assert_allclose(result.weights[0], [0.5, 0.5], rtol=1e-5)
    assert risk_of(s, 0, W[0]) < 0.02
    assert risk_of(s, 0, result.state.W[0]) == pytest.approx(math.log(2), rel=1e-6)


def test_a_sign_flip_can_do_the_same_and_knows_nothing():
    """relu(x) and relu(-x) change places: the logits of -w differ as those of w, and their mean is zeros."""
    s, W = two_of_a_mind("sign-flip")
    result = in_round(1, s, W)
    assert_array_equal(result.sent[1], -W[0])
    assert result.risks[0, 1] == result.risks[0, 0] < 0.02
    assert_array_equal(result.state.W[0], 0)
    assert risk_of(s, 0, result.state.W[0]) == pytest.approx(math.log(2))


def test_a_scaled_backdoor_can_come_in_by_a_mixture_that_is_worse_than_all_its_parts():
    """Slip 10 again, with r_k on all data: what is sent is as good as the receiver's, with its units turned.

    The attacker's own model knows the trigger and nothing else, and lies between the two: so does the mixture.
    """
    model, liar = models.mlp([4, 2, 2]), np.array([1])
    W = np.zeros((2, model.layout.size))
    receiver, own = map(model.layout.views, W)
    receiver["W1"][0], receiver["W2"][...] = [2, -2], [[0, 2], [2, 0]]
    own["W1"][1:, 0], own["W2"][...] = 1, [[1.1, 0.9], [1, 1]]
    X, y = np.array([[-1.0, 0, 0, 0], [1, 0, 0, 0]]), np.array([0, 1])
    s = Setting(model, [X] * 2, [y] * 2, graphs.complete(2), liar, attack="backdoor", step_size=0.0)
    result = in_round(1, s, W)
    assert result.weights[0, 1] > 0.5
    assert (result.risks[0] < 0.02).all()
    assert risk_of(s, 0, result.state.W[0]) > 0.5
    assert_array_equal(model.predict(W[0], attacks.with_trigger(X)), y)
    assert_array_equal(model.predict(result.state.W[0], attacks.with_trigger(X)), 0)


def test_attackers_turn_by_different_places_and_lower_the_risk_by_little():
    s = setting(attackers=[1, 2, 3], attack="permuted")
    W = initial()
    sent = lie_to(s, 0, W, np.zeros((7, 5), dtype=int))
    back = [tailored.turned(w, s.model.layout, -1 - i) for i, w in enumerate(sent)]
    for w in back:
        assert_array_equal(w, back[0])
    assert_allclose(back[0], W[0], rtol=1e-4, atol=1e-6)
    assert 1e-8 < 1 - risk_of(s, 0, back[0]) / risk_of(s, 0, W[0]) < 1e-6


def test_attackers_that_outnumber_the_units_begin_again_and_send_no_echo():
    """Four units turn by 1, 2 or 3 places; one, or none, as it can."""
    s = setting(attackers=[1, 2, 3, 4, 5], attack="permuted")
    sent = lie_to(s, 0, initial(), np.zeros((7, 5), dtype=int))
    same = tailored.turned(sent[0], s.model.layout, -1)
    for w, places in zip(sent, (1, 2, 3, 1, 2), strict=True):
        assert_array_equal(w, tailored.turned(same, s.model.layout, places))
        assert (w != same).any()
    for sizes in ([3, 1, 2], [3, 2]):
        few = s._replace(model=models.mlp(sizes))
        W = draws.initial(few.model.layout, 7, draws.stream(0, "init"))
        sent = lie_to(few, 0, W, np.zeros((7, 5), dtype=int))
        assert_array_equal(sent, np.tile(sent[0], (5, 1)))


# --- Patient ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", [name for name, entry in ATTACKS.items() if entry.poison])
def test_patient_attackers_do_not_poison(attack):
    """As they would train on that from round 1."""
    with pytest.raises(ValueError, match=r"^patient attackers need an attack that does not poison, got .+$"):
        tailored.patient(ATTACKS[attack], 2)


@pytest.mark.parametrize("attack", ["sign-flip", "foe", "arbitrary", "echo", "permuted"])
def test_patient_attackers_are_honest_first(attack):
    entry, s = tailored.patient(ATTACKS[attack], 2), setting(attackers=[1, 4], attack="patient")
    for t in (1, 2, 3):
        with mock.patch.dict(ATTACKS, patient=entry):
            result = after(s, t)
        sent = result.sent if result.sent.ndim == 2 else result.sent[0]
        assert (sent == result.local).all() == (t <= 2)
    assert (entry.draw, entry.per_receiver) == (ATTACKS[attack].draw, ATTACKS[attack].per_receiver)


@pytest.mark.parametrize("attack", ["foe", "echo", "permuted"])
def test_after_that_they_lie_as_they_would_have_at_once(attack):
    entry = tailored.patient(ATTACKS[attack], 2)
    s, W, batch = setting(attackers=[1, 4], attack=attack), initial(), np.zeros((7, 5), dtype=int)
    at = [
        View(s, algorithm.State(W, W[None][:0], t), batch, W[[1, 4]], W[s.normal], s.normal, None, 0)
        for t in (1, 2)
    ]
    assert_array_equal(entry.made_from(at[0]), W[[1, 4]])
    assert_array_equal(entry.made_from(at[1]), ATTACKS[attack].made_from(at[1]))


def test_a_patient_attack_ruins_what_was_harmless_until_then():
    """`permuted` after round 300: in a receiver that knows its task, and has taken half of it from the liar."""
    s, W = two_of_a_mind("patient-permuted")
    for t, risk in ((300, risk_of(s, 0, W[0])), (301, math.log(2))):
        result = in_round(t, s, W)
        assert_allclose(result.weights[0], [0.5, 0.5], rtol=1e-5)
        assert risk_of(s, 0, result.state.W[0]) == pytest.approx(risk, rel=1e-6)


def test_the_tables_patient_attack_waits_for_three_hundred_rounds():
    entry, own = ATTACKS["patient-permuted"], np.ones((2, 3))
    assert_array_equal(entry.send(own, 300, *[None] * 5), own)
    with pytest.raises(TypeError):  # it looks at the receiver's model, which is None here
        entry.send(own, 301, *[None] * 5)
    assert "honest up to round 300: a run of 300 or fewer has no attack" in entry.about
