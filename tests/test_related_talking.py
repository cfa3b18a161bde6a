"""refimpl/related/talking.py: its guarantee against arbitrary messages, and its special cases."""

import inspect
import itertools
import math
import re
from unittest import mock

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from problems import MODEL, ROWS, after, initial, sends, setting
from related_problems import DENSE, D, assert_same, batches, run
from strategies import hard

from refimpl import algorithm, models, related
from refimpl.related import talking
from refimpl.related.rounds import Heard

SYSTEMS = ("skill-bar", "held-out-bar", "chosen-bar", "two-tracks")
HOLD_OUT = SYSTEMS[1:]
LIARS = [1, 2, 3, 4, 5, 6]  # all but one

# --- The bar and the mixture, by hand -----------------------------------------------------------------------


def hears(values, risk, own=0):
    """Models of one number."""
    W = np.array(values, float)[:, None]
    n = len(W)
    return Heard(np.arange(n), W, own, np.ones(n) / n, 0, np.ones(n, bool), lambda w: risk(w[0]))


def mixture(values, risk, bar, own=0):
    h = hears(values, risk, own)
    model, weights = talking.checked_mixture(h, bar, np.array([float(h.risk(w)) for w in h.models]))
    if np.isfinite(model).all():  # the weights are those of the mixture
        assert_allclose(weights @ np.nan_to_num(h.models, posinf=0, neginf=0), model, rtol=1e-12)
        assert weights.sum() == pytest.approx(1)
    return model[0], weights.tolist()


def test_the_bar():
    assert talking.skill(0.2, 0.7, 0.0) == 0.2
    assert talking.skill(0.2, 0.7, 0.1) == pytest.approx(0.25)
    assert talking.skill(0.2, 0.7, 1.0) == pytest.approx(0.7)
    assert talking.skill(0.9, 0.7, 0.5) == 0.9  # one that knows nothing yet is as strict as Eq. (6)
    assert talking.skill(math.nan, 0.7, 0.5) == talking.skill(math.inf, 0.7, 0.0) == math.inf


def test_weights_are_inverse_risks():
    risk = lambda w: abs(w - 3)
    assert mixture([1, 2, 5, 6], risk, bar=2.0) == (pytest.approx(2.5), pytest.approx([0.25, 0.5, 0.25, 0]))


def test_who_is_as_good_as_the_bar_passes():
    _, weights = mixture([1, 2], lambda w: 1.0, bar=1.0)
    assert weights == [0.5, 0.5]


def test_one_that_spoils_the_mixture_is_left_out_and_the_next_one_is_tried():
    """A pit at 0, one at 10, a hill between them: the better of the two that pass lies across the hill."""
    risk = lambda w: {0: 1.0, 10: 0.5}.get(w, 9.0 if 1 < w < 9 else 0.9)
    model, weights = mixture([0, 10, -1], risk, bar=1.0)
    assert weights[1] == 0
    assert model == pytest.approx(-1 / 1.9)  # weights 1 / 0.9 and 1 / 1
    assert weights[2] > weights[0] > 0


@pytest.mark.parametrize("values", [[0, 2, -2], [0, -2, 2]])
def test_models_are_added_in_the_order_of_their_risk(values):
    """Both pass, and the better one is in the first trial."""
    risks, tried = {0: 1.0, 2: 0.8, -2: 0.5}, []
    h = hears(values, lambda w: tried.append(w) or 0.9)
    talking.checked_mixture(h, 1.0, np.array([risks[value] for value in values]))
    assert tried == pytest.approx([-4 / 3, (2 / 0.8 - 2 / 0.5) / (1 + 1 / 0.8 + 1 / 0.5)])


def test_ties_go_to_the_lowest_number():
    tried = []
    h = hears([0, 5, -5, 5], lambda w: tried.append(w) or 9.0)
    talking.checked_mixture(h, 1.0, np.array([1.0, 1.0, 1.0, 1.0]))
    assert tried == [2.5, -2.5, 2.5]


def test_rounding_may_cost_an_echo_its_weight_though_the_risk_is_convex():
    """2/3 of 0.9 and 1/3 of it are more than 0.9."""
    assert mixture([0.9, 0.9, 0.9], lambda w: w, bar=0.9) == (0.9, [0.5, 0.5, 0])


def test_risks_of_zero_share_all_the_weight():
    risk = lambda w: 0.0 if w >= 2 else 1.0
    assert mixture([1, 2, 4, 1.5], risk, bar=1.0) == (pytest.approx(3), [0, 0.5, 0.5, 0])


@pytest.mark.parametrize("lost", [math.nan, math.inf])
def test_a_worker_that_is_lost_takes_what_is_finite(lost):
    risk = lambda w: w if math.isfinite(w) else math.inf
    assert mixture([lost, 2, 1, lost], risk, math.inf) == (
        pytest.approx(4 / 3),
        pytest.approx([0, 1 / 3, 2 / 3, 0]),
    )
    model, weights = mixture([lost, lost], risk, math.inf)
    assert not math.isfinite(model)
    assert weights == [1, 0]


# --- The guarantee ------------------------------------------------------------------------------------------


def entropy(y):
    return scipy.stats.entropy(np.unique(y, return_counts=True)[1])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_the_best_guess_is_the_entropy_of_the_labels(labels):
    assert talking.best_guess(np.array(labels)) == pytest.approx(entropy(labels), abs=1e-12)


def test_the_best_guess_is_the_risk_of_the_best_network_that_sees_nothing():
    y = np.array([0, 1, 1, 1, 0, 1, 1])
    shares, w = np.bincount(y) / 7, np.zeros(D)
    w[-2:] = np.log(shares)  # the last bias
    assert talking.best_guess(y) == pytest.approx(MODEL.risk(w, np.ones((7, 3)), y))


rows_near = st.tuples(st.sampled_from([1e-6, 0.1, 1, -1, 3]), hnp.arrays(float, D, elements=st.floats(-2, 2)))
rows_anywhere = hnp.arrays(float, D, elements=hard, fill=hard)


def said(draw, honest):
    """What six attackers send: near the honest model, or anything at all."""
    rows = []
    for kind in draw(st.lists(st.booleans(), min_size=6, max_size=6)):
        if kind:
            scale, noise = draw(rows_near)
            rows.append(scale * honest[0] + (noise if abs(scale) < 1 else 0.1 * noise))
        else:
            rows.append(draw(rows_anywhere))
    return np.array(rows)


@given(st.data(), st.floats(0, 1), st.sampled_from(["local", "batch"]), st.integers(0, 20))
def test_whatever_is_sent_the_risk_is_not_above_the_bar(data, m, scored, seed):
    """With N - 1 attackers, and a network, which is not convex."""
    s = setting(attackers=LIARS, attack="hostile", risk=scored, l2=0.01)
    with sends(lambda own, honest, signals: said(data.draw, honest)):
        result = run("skill-bar", 1, s, initial(seed=seed), m=m)
    X, y = s.scored_on(0, batches(s, 1)[0][0])
    r_k = algorithm.risk(s, result.sent[0][0], X, y)
    assert algorithm.risk(s, result.state.W[0], X, y) <= max(r_k, r_k + m * (talking.best_guess(y) - r_k))
    assert np.isfinite(result.state.W[0]).all()


@pytest.mark.slow
@given(st.data(), st.integers(0, 20))
def test_whatever_is_sent_two_tracks_are_no_worse_on_rows_held_out(data, seed):
    """Than the model that never listens, which hears nothing of it."""
    s, W = setting(attackers=LIARS, attack="hostile"), initial(seed=seed)
    with sends(lambda own, honest, signals: said(data.draw, honest)):
        result = run("two-tracks", 2, s, W)
    alone = run("two-tracks", 2, s._replace(graph=np.eye(7, dtype=bool), attack="none"), W).state.W[0]
    held = slice(1, None, 5)
    used, never = (MODEL.risk(w, s.X[0][held], s.y[0][held]) for w in (result.state.W[0], alone))
    assert used <= never


@given(st.data(), st.integers(0, 20))
def test_whatever_is_sent_the_risk_on_rows_held_out_does_not_rise(data, seed):
    s = setting(attackers=LIARS, attack="hostile")
    with sends(lambda own, honest, signals: said(data.draw, honest)):
        result = run("held-out-bar", 1, s, initial(seed=seed))
    X, y = s.X[0][1::5], s.y[0][1::5]
    with np.errstate(over="ignore", invalid="ignore"):  # 1e300 that ReLU hides overflows on the way
        assert MODEL.risk(result.state.W[0], X, y) <= MODEL.risk(result.sent[0][0], X, y)


@given(st.data(), st.sampled_from(["local", "batch"]), st.integers(0, 20))
def test_whatever_is_sent_the_chosen_model_is_within_the_widest_bar_and_no_worse_on_rows_held_out(
    data, scored, seed
):
    s = setting(attackers=LIARS, attack="hostile", risk=scored, l2=0.01)
    with sends(lambda own, honest, signals: said(data.draw, honest)):
        result = run("chosen-bar", 1, s, initial(seed=seed))
    own, new = result.sent[0][0], result.state.W[0]
    kept = np.arange(len(s.y[0])) % 5 != 1
    X, y = s.X[0][kept], s.y[0][kept]
    if scored == "batch":
        rows = batches(s, 1)[0][0] % kept.sum()
        X, y = X[rows], y[rows]
    r_k = algorithm.risk(s, own, X, y)
    assert algorithm.risk(s, new, X, y) <= max(r_k, r_k + 0.8 * (talking.best_guess(y) - r_k))
    assert algorithm.risk(s, new, s.X[0][~kept], s.y[0][~kept]) <= algorithm.risk(
        s, own, s.X[0][~kept], s.y[0][~kept]
    )
    assert np.isfinite(new).all()


def exchanged(w):
    """The same network with its hidden units in another order."""
    w = w.copy()
    tensors = MODEL.layout.views(w)
    for name, axis in {"W1": 1, "b1": 0, "W2": 0}.items():
        tensors[name][:] = np.roll(tensors[name], 1, axis)
    return w


def test_a_network_with_its_hidden_units_exchanged_is_not_mixed_in():
    """Its risk is the receiver's, so it passes Eq. (6), and the mean of the two is another function."""
    graph = np.eye(7, dtype=bool)
    W = after(setting(attackers=[], rule="local"), 200).state.W
    graph[0, 1] = graph[1, 0] = True
    s = setting(attackers=[1], attack="hostile", step_size=0.0, graph=graph)
    with sends(lambda own, honest, signals: exchanged(honest[0])[None]):
        eq6, ours = after(s, 1, W), run("skill-bar", 1, s, W, m=0.0)
    assert_allclose(eq6.weights[0, :2], 0.5)
    assert MODEL.risk(eq6.state.W[0], s.X[0], s.y[0]) > 1.1 * MODEL.risk(W[0], s.X[0], s.y[0])
    assert_array_equal(ours.state.W[0], W[0])


# --- A margin that is chosen --------------------------------------------------------------------------------


def test_of_equals_the_first_is_chosen_and_nan_is_above_all():
    choose = lambda *risks: talking.lowest(risks, lambda r: r)
    assert choose(1.0, 0.5, 0.5, 2.0) == 1
    assert choose(0.5, 0.5) == 0
    assert choose(math.nan, math.inf, 3.0) == 2
    assert choose(math.inf, math.nan) == choose(math.nan, math.nan) == 0


def test_workers_choose_their_own_model_or_a_mixture_of_any_margin():
    """Which is the first of the lowest risk on rows held out, among rounds of one margin each."""
    seen, margins = set(), (0.0, 0.2, 0.8)
    for seed in range(6):
        s, W = setting(attackers=[1], attack="sign-flip"), initial(seed=seed)
        W = W[0] + 0.1 * W
        single = [run("chosen-bar", 1, s, W, margins=(m,)) for m in margins]
        result = run("chosen-bar", 1, s, W, margins=margins)
        for k in s.normal:
            models = [result.sent[0][k], *(each.state.W[k] for each in single)]
            best = np.argmin([MODEL.risk(w, s.X[k][1::5], s.y[k][1::5]) for w in models])
            assert_array_equal(result.state.W[k], models[best])
            assert_array_equal(result.weights[k], [np.eye(7)[k], *(r.weights[k] for r in single)][best])
            seen.add(int(best))
    assert seen == {0, 1, 2, 3}


def test_a_model_that_is_better_only_on_what_a_worker_steps_on_is_not_mixed_in():
    """Trained on the receiver's rows, those held out with the other label: all bars let it in."""
    s = setting(attackers=[], graph=np.eye(7, dtype=bool), rule="local")
    lied = [y.copy() for y in s.y]
    lied[2][1::5] = 1 - lied[2][1::5]
    W, liar = after(s, 20).state.W, after(s._replace(y=lied), 200).state.W[2]
    graph = np.eye(7, dtype=bool)
    graph[2, 1] = graph[1, 2] = True
    s = setting(attackers=[1], attack="hostile", step_size=0.0, graph=graph)
    with sends(lambda own, honest, signals: liar[None]):
        bar, chosen = run("skill-bar", 1, talking.apart(s)[0], W), run("chosen-bar", 1, s, W)
    assert bar.weights[2, 1] > 0.5
    assert_array_equal(chosen.weights[2], np.eye(7)[2])
    assert_array_equal(chosen.state.W[2], W[2])


def test_no_model_is_scored_twice_on_the_same_rows():
    """Five margins score what is heard once, and a mixture once; liars that send the same count as one."""
    scored, risk = [], algorithm.risk

    def counted(s, w, X, y):
        scored.append((w.tobytes(), y.tobytes(), X.tobytes()))
        return risk(s, w, X, y)

    s = setting(attackers=[1, 2], attack="foe")
    with mock.patch.object(algorithm, "risk", counted), mock.patch.object(talking, "risk", counted):
        run("chosen-bar", 1, s, 0.3 * initial())
    assert len(set(scored)) == len(scored)
    assert len(scored) > len(s.normal) * 6  # one's own, four honest ones, one lie


# --- What attackers know ------------------------------------------------------------------------------------

SCORED = {
    "skill-bar": lambda rows, batch: rows,
    "held-out-bar": lambda rows, batch: rows[1::5],
    "chosen-bar": lambda rows, batch: rows[rows % 5 != 1],
    "two-tracks": lambda rows, batch: rows[rows % 5 != 1],
    "mozi": lambda rows, batch: batch,
    "ubar": lambda rows, batch: batch,
}


@pytest.mark.parametrize("name", SCORED)
def test_attackers_know_the_rows_on_which_a_receiver_scores(name):
    """And all of their own, of which they hold none out."""
    seen = {}

    def lie(receiver, place, risk, own_risk):
        seen[place] = receiver, risk(receiver), own_risk(receiver)
        return receiver

    with sends(lie, knows=("receiver", "place", "risk", "own_risk"), per_receiver=True) as attack:
        s = setting(attackers=[1, 3], attack=attack)
        run(name, 1, s)
    assert [*seen] == [*s.normal]
    for k, (w, r, theirs) in seen.items():
        rows = SCORED[name](np.arange(len(s.y[k])), batches(s, 1)[0][k])
        assert r == pytest.approx(MODEL.risk(w, s.X[k][rows], s.y[k][rows]), rel=1e-12)
        assert theirs == pytest.approx(np.mean([MODEL.risk(w, s.X[a], s.y[a]) for a in (1, 3)]), rel=1e-12)


@pytest.mark.parametrize("attack", ["boundary", "boundary-fitted"])
def test_a_boundary_lie_passes_a_bar_on_rows_held_out(attack):
    """It goes as far as these let it; where that is nowhere, it is an echo."""
    s = setting(attackers=[1], attack=attack)
    result = run("held-out-bar", 3, s)
    for k in s.normal:
        own, lie = (MODEL.risk(w, s.X[k][1::5], s.y[k][1::5]) for w in result.sent[0][k, [k, 1]])
        assert lie <= own
    assert (result.sent[0][s.normal, 1] != result.sent[0][s.normal, s.normal]).any()


# --- Special cases ------------------------------------------------------------------------------------------


CONVEX = models.mlp([3, 2])


@pytest.mark.parametrize("scored", ["local", "batch"])
@pytest.mark.parametrize("attack", ["none", "sign-flip", "alie"])
def test_with_a_convex_risk_a_margin_of_zero_is_the_papers_rule(attack, scored):
    s = setting(graph=DENSE, attackers=[1], attack=attack, risk=scored, l2=0.01)._replace(model=CONVEX)
    W = np.random.default_rng(0).normal(size=(7, CONVEX.layout.size))
    ours, papers = run("skill-bar", 4, s, W, m=0.0), after(s, 4, W)
    assert_same(ours, papers)
    assert_allclose(ours.weights, papers.weights, atol=1e-12)
    assert (after(s, 1, W).weights > 0).sum() > len(s.normal)  # somebody listens


@given(st.integers(0, 100))
def test_with_a_margin_of_zero_it_hears_no_one_that_the_papers_rule_does_not(seed):
    s = setting(attackers=[1], attack="sign-flip")
    ours, papers = run("skill-bar", 1, s, initial(seed=seed), m=0.0), after(s, 1, initial(seed=seed))
    assert not (ours.weights[s.normal] > 0)[papers.weights[s.normal] == 0].any()


def test_alone_everyone_descends_on_what_is_not_held_out():
    s = setting(attackers=[], graph=np.eye(7, dtype=bool))
    assert_same(run("skill-bar", 3, s), after(s._replace(rule="local"), 3))
    few, _ = talking.apart(s)
    state = algorithm.start(few, initial())
    for batch in batches(s, 3):
        state = algorithm.round_(few._replace(rule="local"), state, talking.rows_of(few, batch)).state
    for name in HOLD_OUT:
        assert_allclose(run(name, 3, s).state.W, state.W, rtol=1e-12)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_two_tracks_that_hear_nothing_of_use_are_one(optimizer):
    """What the optimiser remembers is kept for each."""
    s = setting(attackers=LIARS, attack="hostile", optimizer=optimizer, step_size=0.01)
    with sends(lambda own, honest, signals: 0 * own + np.nan):
        result = run("two-tracks", 4, s)
    W, memory = result.state.W[0], result.state.memory[:, 0]
    slots = (len(memory) - 2) // 2
    assert_array_equal(memory[slots], W)
    assert_array_equal(memory[slots + 1], W)
    assert_array_equal(memory[:slots], memory[slots + 2 :])
    assert not np.allclose(W, initial()[0])


def test_who_uses_which_track_is_seen_on_rows_held_out():
    """Some use the one, some the other, and it is sent the one that listens."""
    s = setting(attackers=[1], attack="sign-flip", batch_size=2)
    before, last = run("two-tracks", 5, s), run("two-tracks", 6, s)
    A, B = last.state.memory
    held = [(s.X[k][1::5], s.y[k][1::5]) for k in range(7)]
    lower = [MODEL.risk(B[k], *held[k]) < MODEL.risk(A[k], *held[k]) for k in s.normal]
    assert {True, False} == set(map(bool, lower))
    assert_array_equal(last.state.W[s.normal], np.where(np.array(lower)[:, None], B[s.normal], A[s.normal]))
    k = 0
    few, _ = talking.apart(s)
    rows = talking.rows_of(few, batches(s, 6)[-1])[k]
    step = before.state.memory[1, k] - 0.3 * MODEL.gradient(
        before.state.memory[1, k], few.X[k][rows], few.y[k][rows]
    )
    assert_allclose(last.sent[0][k], step, rtol=1e-9)


@pytest.mark.parametrize(("risks", "used"), [((math.nan, 1.0), 1), ((1.0, math.nan), 0), ((1.0, 1.0), 0)])
def test_a_track_whose_risk_is_nan_is_not_used(risks, used):
    """Nor the one that listens, if they are level."""
    s = setting(attackers=[1], attack="sign-flip")
    with mock.patch.object(talking, "risk", side_effect=itertools.cycle(risks)):
        state = run("two-tracks", 5, s).state
    assert_array_equal(state.W[s.normal], state.memory[used, s.normal])
    assert (state.memory[0] != state.memory[1]).any()


@pytest.mark.parametrize("name", HOLD_OUT)
def test_nobody_steps_on_rows_held_out(name):
    s = setting(attackers=[], graph=np.eye(7, dtype=bool))
    X = [x.copy() for x in s.X]
    for x in X:
        x[1::5] += 7
    assert_array_equal(run(name, 4, s).state.W, run(name, 4, s._replace(X=X)).state.W)


def test_every_row_that_is_not_held_out_is_stepped_on():
    s = setting(attackers=[2])
    few, held = talking.apart(s)
    assert [len(y) for y in few.y] == [5, 3, 9, 4, 6, 3, 5]
    assert [len(few.y[k]) + len(held.y[k]) for k in s.normal] == [ROWS[k] for k in s.normal]
    every = np.stack([np.arange(20) % n for n in ROWS])
    assert [len(set(rows)) for rows in talking.rows_of(few, every).tolist()] == [5, 3, 9, 4, 6, 3, 5]


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_margin_is_a_share(name):
    s = setting()
    for m in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=f"0 <= m <= 1, got {m}"):
            run(name, 1, s, **{"margins": (0.2, m)} if name == "chosen-bar" else {"m": m})


def test_the_list_names_the_margins():
    """As m, but of `skill-bar` as the share that is left."""
    default = lambda round_: inspect.signature(round_).parameters["m"].default
    said = {name: re.findall(r"0\.\d+", related.SYSTEMS[name].about) for name in SYSTEMS}
    assert said["skill-bar"] == [f"{1 - default(talking.skill_bar):g}"]
    assert said["chosen-bar"] == [f"{max(talking.MARGINS):g}"]
    assert said["two-tracks"] == [f"{default(talking.two_tracks):g}"]


@pytest.mark.parametrize("name", HOLD_OUT)
def test_a_worker_with_one_row_cannot_hold_it_out(name):
    s = setting(rows=[7, 4, 1, 5, 8, 4, 6])
    with pytest.raises(ValueError, match=f"{name}: worker 2 needs two rows, one to hold out, got 1"):
        related.check(name, s)
    related.check(name, s._replace(attackers=np.array([2])))
