"""The paper's theory, run: supplement A (the weights), B.1 (Lemma 1), B.2 (the steps of Theorem 1), Sec. 3.

The proofs take expectations early. Here each step is tested on every path, which implies it in expectation
and is safer: the weights, the risks and the set N_k^+ depend on the same samples. Theorem 1 itself is in
test_theorem_1.py, round by round, and its limit in test_convex_toy.py. At the end are the assumptions, which
the paper's own networks do not meet, and the cost.
"""

import math
import statistics
from typing import NamedTuple

import numpy as np
import pytest
import strategies
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from problems import MODEL, initial, setting
from scipy.optimize import minimize

from refimpl import aggregate, algorithm, draws, models
from refimpl.arrays import quiet

positive_risks = st.lists(strategies.positive, min_size=1, max_size=8).map(np.array)

# --- Supplement A: Eq. (5) solves  min over the simplex of  f(c) = sum_l c_l^2 r_l / 2 ----------------------


def objective(c, r):
    return math.fsum(c * c * r / 2)


@pytest.mark.parametrize("seed", range(20))
def test_eq_5_is_what_a_numerical_optimiser_finds(seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(2, 9)
    r = 10 ** rng.uniform(-1, 1, n)
    found = minimize(
        objective, np.full(n, 1 / n), (r,), method="SLSQP", jac=lambda c, r: c * r, bounds=[(0, 1)] * n,
        constraints={"type": "eq", "fun": lambda c: c.sum() - 1}, options={"ftol": 1e-14},
    )  # fmt: skip
    assert found.success
    assert_allclose(aggregate.inverse_risk_weights(r), found.x, atol=1e-6)


@given(positive_risks)
def test_eq_5_meets_the_kkt_conditions(r):
    """Stationary, c_l r_l = lambda = 1 / sum_p r_p^-1; feasible; c_l >= 0 is nowhere active, as printed."""
    c = aggregate.inverse_risk_weights(r)
    assert_allclose(c * r, 1 / math.fsum(1 / r), rtol=1e-12)
    assert math.fsum(c) == pytest.approx(1, rel=1e-14)
    assert (c > 0).all()


@given(st.integers(1, 8).flatmap(lambda n: hnp.arrays(float, (2, n), elements=strategies.positive)))
def test_every_other_point_of_the_simplex_costs_more_by_a_known_amount(rows):
    """f(c') - f(c) = sum_l r_l (c'_l - c_l)^2 / 2: f is quadratic, its gradient at c the same in all l."""
    r, other = rows[0], rows[1] / rows[1].sum()
    c = aggregate.inverse_risk_weights(r)
    excess = objective(other - c, r)
    assert objective(other, r) == pytest.approx(objective(c, r) + excess, rel=1e-9)


def test_the_approximation_in_front_of_eq_5_drops_the_cross_terms():
    """|sum c_l e_l|^2 ~ sum c_l^2 |e_l|^2 is exact for orthogonal errors e_l = w_l - w*, and sum c_l^2 of
    the truth when all models are wrong in the same way. A heuristic, then; Lemma 1 needs none of it."""
    c = aggregate.inverse_risk_weights(np.array([1.0, 2.0, 4.0]))
    for e, share in ((np.eye(3), 1), (np.ones((3, 3)), (c**2).sum())):
        assert (c**2 * (e**2).sum(axis=1)).sum() == pytest.approx(share * (aggregate.combine(c, e) ** 2).sum())


# --- Supplement B.1: Lemma 1 --------------------------------------------------------------------------------


class Risk(NamedTuple):
    """A strongly convex risk, as a function of the rows of W (n, d): a quadratic or a ridge logistic risk."""

    kind: str
    X: np.ndarray  # (rows, d), samples or, for the quadratic, a square root of its curvature
    centre: np.ndarray  # (d,) the quadratic's minimiser
    least: float  # its minimum

    @quiet
    def __call__(self, W):
        if self.kind == "quadratic":
            e = W - self.centre
            return self.least + ((e @ self.X.T) ** 2).sum(axis=-1) / 2 + 0.05 * (e * e).sum(axis=-1)
        labels = np.where(np.arange(len(self.X)) % 2, 1, -1)
        return np.logaddexp(0, -labels * (W @ self.X.T)).mean(axis=-1) + 0.05 * (W * W).sum(axis=-1)


whole = st.integers(-3, 3).map(float)


@st.composite
def scenes(draw, most=6):
    """(risk, models W (n, d) with repetitions now and then)."""
    W = draw(strategies.models(elements=whole | strategies.ordinary, most=most))
    X = draw(hnp.arrays(float, (draw(st.integers(1, 4)), W.shape[1]), elements=whole))
    kind = draw(st.sampled_from(["quadratic", "logistic"]))
    centre = draw(hnp.arrays(float, W.shape[1], elements=whole))
    return Risk(kind, X, centre, draw(st.sampled_from([0.0, 0.5, 10.0]))), W


def at_most(a, b):
    """a <= b up to rounding."""
    return a <= b + 1e-9 * abs(b) + 1e-12


@given(scenes())
def test_jensen_step(scene):
    """r(sum c_l w_l) <= sum c_l r(w_l), which for Eq. (5) is the risks' harmonic mean."""
    risk, W = scene
    r = risk(W)
    c = aggregate.inverse_risk_weights(r)
    assert float(c @ r) == pytest.approx(statistics.harmonic_mean(r.tolist()), rel=1e-12)
    assert at_most(risk(aggregate.combine(c, W)), statistics.harmonic_mean(r.tolist()))


@given(positive_risks, st.floats(0, 1))
def test_chebyshev_step(r, share):
    """sum chi_l Delta_l / sum chi_p <= mean Delta, for any r(w*) below all r: Chebyshev's sum inequality.

    Printed, the proof gets there by chi_l <= chi_l2 for all l but l1, and that is true of the sum.
    """
    r = np.sort(r)
    Delta = r - share * r[0]
    chi = aggregate.inverse_risk_weights(r)
    assert (np.diff(chi) <= 0).all()
    assert at_most(chi @ Delta, Delta.mean())
    T = len(r) * Delta - Delta.sum()
    assert chi[1:] @ T[1:] <= (chi[1:2] * T[1:]).sum() + 1e-9 * (chi @ np.abs(T))


def test_chebyshev_step_is_not_true_term_by_term():
    """|N_k| Delta_l - sum Delta may be negative, and then chi_l <= chi_l2 turns round."""
    r = np.array([1.0, 2.0, 3.0, 100.0])
    chi, T = aggregate.inverse_risk_weights(r), 4 * r - r.sum()
    assert chi[2] * T[2] > chi[1] * T[2]


@given(scenes())
def test_lemma_1(scene):
    """r(w_k) <= mean of r(w_l); r(w*) is on both sides. Equality if and only if all models are the same."""
    risk, W = scene
    r = risk(W)
    after = risk(aggregate.combine(aggregate.inverse_risk_weights(r), W))
    assert at_most(after, r.mean())
    if (W[:1] == W).all():  # among them n = 1
        assert after == pytest.approx(r.mean(), rel=1e-9)
    elif np.ptp(W, axis=0).max() > 0.1 and r.max() < 1e3:  # far enough apart for rounding not to decide
        assert after < r.mean()


def test_lemma_1_with_equal_risks_is_jensen_alone():
    """All risks equal: Chebyshev's step is an equality, and what is left is the spread of the models."""
    risk = Risk("quadratic", np.eye(2), np.zeros(2), 0.5)
    W = np.array([[3.0, 4.0], [-3.0, 4.0], [5.0, 0.0]])
    r = risk(W)
    assert_allclose(r, r[0], rtol=1e-15)
    c = aggregate.inverse_risk_weights(r)
    assert c @ r == pytest.approx(r.mean())
    assert risk(aggregate.combine(c, W)) < 0.5 * r.mean()


def test_lemma_1_is_lost_with_weights_that_grow_with_the_risk():
    """On |w|, linear where the models are, Jensen leaves no room: 2.5 > mean = 2 > harmonic mean = 1.5."""
    W = np.array([[1.0], [3.0]])
    r = np.abs(W[:, 0])
    assert aggregate.combine(aggregate.inverse_risk_weights(r), W) == pytest.approx(1.5)
    assert aggregate.combine(r / r.sum(), W) == 2.5
    assert aggregate.average(W) == 2  # Lemma 1 holds for the average too, the harmonic mean does not


def test_the_lines_between_expectations_in_the_proof_of_lemma_1_are_wrong_and_its_end_is_right():
    """E[r(w_k)] <= sum E[c_l] E[r_l] <= sum E[r_l]^-1 E[r_l] / sum E[r_p]^-1, as printed with r(w*) = 0.

    The first takes E[c r] for E[c] E[r], the second E[1 / x] for 1 / E[x]; either can fail. Two equally likely
    outcomes and r = |w| are enough. End to end it is right: with r(w*) = 0 the ends are E[H(r)] and H(E[r]),
    H the harmonic mean, which is concave. Averaging the lemma's path-wise form needs none of this.
    """

    def chain(r):
        c = np.stack([aggregate.inverse_risk_weights(risks) for risks in r])
        start = (c * r).sum(axis=1).mean()  # E[r_k(w_k)]
        return start, c.mean(axis=0) @ r.mean(axis=0), statistics.harmonic_mean(r.mean(axis=0).tolist())

    first, second, third = chain(np.array([[10.0, 9.0], [1.0, 0.5]]))
    assert first > second + 0.01
    assert first < third
    first, second, third = chain(np.array([[1.0, 1.0], [2.0, 10.0]]))
    assert first < third < second - 0.4


def test_lemma_1_is_lost_in_expectation_with_the_risk_on_the_batch():
    """Rows 0 with probability 0.6, 10 with 0.4; the receiver steps from its optimum, the neighbour sends 0.

    On a row at 0 the neighbour's model has no risk, and gets all the weight: E[gap] is 4.84, the mean of the
    models' E[gap] 4.06. With the weights of r_k itself the lemma holds.
    """
    gap = lambda w: (w - 4) ** 2 / 2
    after, mean, by_r_k = 0.0, 0.0, 0.0
    for x, p in ((0.0, 0.6), (10.0, 0.4)):
        W = np.array([4 - 0.1 * (4 - x), 0.0])  # Eq. (2) with mu = 0.1
        c = aggregate.inverse_risk_weights((W - x) ** 2 / 2)
        after, mean = after + p * gap(c @ W), mean + p * gap(W).mean()
        by_r_k += p * gap(aggregate.inverse_risk_weights(gap(W) + 12) @ W)
    assert (after, mean) == pytest.approx((4.84, 4.06), abs=0.005)
    assert by_r_k < mean


@given(st.integers(1, 5).flatmap(lambda n: hnp.arrays(float, (4, n), elements=strategies.positive)))
def test_the_harmonic_mean_is_concave(r):
    assert at_most(
        statistics.mean(map(statistics.harmonic_mean, r.tolist())),
        statistics.harmonic_mean(r.mean(axis=0).tolist()),
    )


# --- Supplement B.2: the step behind Theorem 1 --------------------------------------------------------------


@st.composite
def attacked(draw):
    """(risk, W, own): hypothesis is all the attackers, and knows the receiver's risk and model."""
    risk, honest = draw(scenes(most=1))
    own, d = honest[0], honest.shape[1]
    mirrored = 2 * risk.centre - own  # as good as the receiver's own, and on the other side
    anything = hnp.arrays(float, d, elements=whole | strategies.finite | strategies.poison)
    tempting = st.sampled_from([own, mirrored, risk.centre, np.zeros(d)])
    sent = draw(st.lists(st.one_of(anything, tempting), max_size=6))
    k = draw(st.integers(0, len(sent)))
    return risk, np.array([*sent[:k], own, *sent[k:]]), k


@given(attacked())
@example((Risk("quadratic", np.eye(1), np.zeros(1), 0.0), np.array([[np.nan], [1.0], [1e300], [-1.0]]), 1))
def test_no_message_makes_a_receiver_worse(case):
    """r_k(w_k) <= mean over N_k^+ of r_k(w_l) <= r_k(own), whatever was sent: Lemma 1 on N_k^+."""
    risk, W, own = case
    r = risk(W)
    c = aggregate.adaptive_weights(r, own)
    after = risk(aggregate.combine(c, W))
    assert at_most(after, r[r <= r[own]].mean())
    assert at_most(after, r[own])


def test_in_floating_point_the_risk_must_not_be_flat():
    """Strong convexity keeps N_k^+ bounded. Where r_k is flat, along (3, -1) here, what passes may be of any
    size, and so may its rounding errors: finite models of finite risk make a model of infinite risk."""
    risk = quiet(lambda W: 1 + (W[..., 0] + 3 * W[..., 1]) ** 2 / 2)
    own = np.linspace(0.5, 1.5, 50)[:, None, None] * [1.0, 0.0]
    sent = np.array([2.0**1000, 0.7 * 2.0**1000, -(2.0**990)])[:, None] * [3.0, -1.0]
    W = np.concatenate([own, np.broadcast_to(sent, (50, 3, 2))], axis=1)
    assert_array_equal(risk(W)[:, 1:], 1)
    mixed = [aggregate.combine(aggregate.adaptive_weights(risk(w), 0), w) for w in W]
    assert np.isinf(risk(np.stack(mixed))).any()


def test_one_message_does_under_the_average_and_under_eq_5_alone():
    risk = Risk("quadratic", np.eye(1), np.zeros(1), 0.5)
    W = np.array([[0.1], [9.0]])
    r = risk(W)
    assert risk(aggregate.combine(aggregate.adaptive_weights(r, 0), W)) == r[0]
    assert risk(aggregate.combine(aggregate.inverse_risk_weights(r), W)) > r[0]
    assert risk(aggregate.average(W)) > 10 * r[0]


def test_the_proof_of_theorem_1_must_sum_over_n_plus():
    """Printed: (1 / |N_k^+|) sum over l in N_k of [r(w_l) - r*] <= r(own) - r*. One bad neighbour refutes it.

    Repair: w_k combines N_k^+ only, so Lemma 1 holds with N_k^+ for N_k, and there r(w_l) <= r(own), l by l.
    """
    risk = Risk("quadratic", np.eye(1), np.zeros(1), 0.0)
    W = np.array([[1.0], [0.5], [100.0]])
    r = risk(W)
    in_N_plus = aggregate.adaptive_weights(r, 0) > 0
    assert_array_equal(in_N_plus, [True, True, False])
    assert r.sum() / in_N_plus.sum() > 1000 * r[0]
    assert r[in_N_plus].sum() / in_N_plus.sum() <= r[0]


def test_without_convexity_a_message_that_passes_can_hurt():
    """Theorem 1 keeps the workers in a ball where r_k is convex. Nothing keeps there what attackers send.

    Exchanging the hidden units of a network changes its weights, not its risk, so the receiver's own model with
    its units exchanged passes Eq. (6), at weight 1/2. The mean of the two knows nothing: its risk is log 2.
    """
    model = models.mlp([1, 2, 2])
    W = np.zeros((2, model.layout.size))
    own, other = map(model.layout.views, W)
    own["W1"][...], own["W2"][...] = [[4, -4]], [[0, 4], [4, 0]]
    other["W1"][...], other["W2"][...] = own["W1"][:, ::-1], own["W2"][::-1]
    X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    r = np.array([model.risk(w, X, y) for w in W])
    assert r[1] == r[0] < 1e-6
    c = aggregate.adaptive_weights(r, 0)
    assert_array_equal(c, [0.5, 0.5])
    assert model.risk(aggregate.combine(c, W), X, y) == pytest.approx(math.log(2))


# --- Sec. 3: the assumptions and the cost -------------------------------------------------------------------

NETWORKS = {"mlp": (models.mlp([3, 4, 2]), "b2"), "cnn": (models.cnn(8, (1, 1, 1), 2, 3), "b5")}


@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("seed", range(3))
def test_no_softmax_network_meets_assumption_1_without_a_regulariser(network, seed, l2):
    """A number added to all of the last biases changes neither the risk nor its gradient, wherever one is.

    So the Hessian maps that direction to 0, and m I <= Hessian holds for no m > 0, at no point. With l2 > 0,
    which Sec. 2.1 allows ("possibly regularized"), the Hessian maps it to l2 times itself.
    """
    model, last = NETWORKS[network]
    rng = np.random.default_rng(seed)
    w = rng.normal(size=model.layout.size)
    X, y = rng.normal(size=(5, *model.sample)), rng.integers(0, 2, 5)
    moved = w.copy()
    model.layout.views(moved)[last][...] += rng.uniform(-10, 10)
    s, nothing = setting(l2=l2)._replace(model=model, X=[X], y=[y]), np.zeros((0, len(w)))
    before, after = (algorithm.local_step(s, 0, v, nothing, np.arange(5), 1)[0] for v in (w, moved))
    assert_allclose(after - before, l2 * (moved - w), atol=1e-12)
    assert model.risk(moved, X, y) == pytest.approx(model.risk(w, X, y), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("l2", [0.0, 0.2])
def test_the_network_of_zeros_is_a_saddle_against_assumption_1(l2):
    """With two classes of one size its gradient is 0, and as near as one likes are smaller risks and larger.

    Here that is so with any regulariser l2 < 1/4. With classes of other sizes it is no stationary point.
    """
    model, X, y = models.mlp([1, 2, 2]), np.array([[-1.0], [1.0]]), np.array([0, 1])
    s, w = setting(l2=l2)._replace(model=model), np.zeros(model.layout.size)
    assert_array_equal(model.gradient(w, X, y), 0)
    assert model.layout.views(model.gradient(w, X[[0, 0, 1]], y[[0, 0, 1]]))["b2"].any()
    for size in (1e-1, 1e-3):
        right, wrong = np.zeros((2, len(w)))
        for v, sign in ((right, 1), (wrong, -1)):
            views = model.layout.views(v)
            views["W1"][...], views["W2"][...] = [[size, -size]], [[0, sign * size], [sign * size, 0]]
        assert algorithm.risk(s, right, X, y) < algorithm.risk(s, w, X, y) < algorithm.risk(s, wrong, X, y)


@pytest.mark.parametrize("step", [1e-3, 1e-6, 1e-9])
def test_at_a_kink_of_relu_the_gradient_jumps_against_assumption_2(step):
    """One hidden unit, one row: across the kink the gradient moves by 0.7, however short the way."""
    model = models.mlp([1, 1, 2])
    below, above = (np.zeros(model.layout.size) for _ in range(2))
    for w, bias in ((below, -step), (above, step)):
        views = model.layout.views(w)
        views["b1"][...], views["W2"][...] = bias, [[1, 0]]
    X, y = np.ones((1, 1)), np.array([0])
    jump = np.linalg.norm(model.gradient(above, X, y) - model.gradient(below, X, y))
    assert jump == pytest.approx(math.sqrt(0.5), abs=0.01)
    assert jump / np.linalg.norm(above - below) > 0.3 / step


def test_without_replacement_a_gradient_is_biased_against_assumption_3():
    """Given the rounds before, an epoch's last batch is what they left over: the same row for certain.

    Its gradient is that row's, not r_k's. The toys draw with replacement, as the assumption asks.
    """
    x = np.array(
        [0.0, 0.0, 0.0, 10.0]
    )  # l(w; x) = (w - x)^2 / 2, so the gradient is w - x and r_k's is w - 2.5
    for seed in range(20):
        *before, last = draws.batches([4], 1, 4, np.random.default_rng(seed))[:, 0, 0]
        assert {*before, last} == {0, 1, 2, 3}
        assert x[last] == x.sum() - x[before].sum()
        assert x[last] != x.mean()


@pytest.mark.parametrize("risk", ["local", "batch"])
@pytest.mark.parametrize("neighbours", [2, 4, 7])
def test_an_aggregation_step_reads_each_neighbours_model_once_for_each_row(neighbours, risk):
    """O(d |N_k|), the paper's cost, is that of the batch risk; with r_k as defined it is O(d |N_k| |S_k|).

    Counted are the rows on which a model is scored, not seconds: a row costs as many products as there are
    parameters in the layers.
    """
    counted = []

    class Counting:
        layout = MODEL.layout

        def risk(self, w, X, y):
            counted.append(len(y))
            return MODEL.risk(w, X, y)

    s = setting(risk=risk)._replace(model=Counting(), graph=np.ones((neighbours, neighbours), bool))
    rows = np.array([0, 3, 1])
    algorithm.aggregation_step(s, 0, initial(neighbours), rows)
    assert counted == [len(s.y[0]) if risk == "local" else len(rows)] * neighbours
