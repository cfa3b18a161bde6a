"""The paper's four attacks, ALIE in both readings."""

import math

import numpy as np
import oracles
import pytest
import strategies
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import PAPERS, after, sends, sent_by, setting

from refimpl import attacks

# Honest models are ordinary numbers; ties, zeros and subnormals are among them.
honest_models = strategies.models(strategies.ordinary | strategies.few | strategies.tiny)


def test_sign_flip_and_arbitrary_by_hand():
    W = np.array([[1.0, -2.0]])
    assert_array_equal(attacks.sign_flip(W), [[-1, 2]])
    assert_array_equal(attacks.sign_flip(W, sigma=3.0), [[-3, 6]])
    assert_array_equal(attacks.arbitrary(W, np.array([[0.5, 0.25]])), [[0.5, -0.5]])


@given(strategies.models(strategies.hard), st.data())
def test_attackers_own_models_equal_the_oracle(W, data):
    """The attackers may have lost their own models already: NaN and infinity go through."""
    with np.errstate(over="ignore"):
        sigma = data.draw(st.sampled_from([1.0, 0.5, 3.0]))
        assert_array_equal(attacks.sign_flip(W, sigma), [oracles.sign_flip(w, sigma) for w in W.tolist()])
    signals = np.random.default_rng(0).uniform(-0.5, 0.5, W.shape)
    expected = [oracles.arbitrary(w, s) for w, s in zip(W.tolist(), signals.tolist())]
    assert_array_equal(attacks.arbitrary(W, signals), expected)


@given(honest_models, st.floats(0, 5))
@example(np.array([[1.0], [3.0], [8.0]]), 1.0)
def test_mean_based_attacks_equal_the_oracle(honest, strength):
    rows = honest.tolist()
    size = np.abs(honest).max()
    foe = attacks.fall_of_empires(honest, strength)
    assert_allclose(foe, oracles.fall_of_empires(rows, strength), rtol=1e-12, atol=1e-14 * size + 1e-320)
    alie = attacks.a_little_is_enough(honest, strength)
    assert_allclose(alie, oracles.a_little_is_enough(rows, strength), rtol=1e-12, atol=1e-7 * size + 1e-150)


@given(strategies.models(strategies.whole), st.integers(-1000, 1000), st.randoms(use_true_random=False))
def test_alie_moves_with_a_translation_and_not_with_the_order(honest, shift, random):
    sent = attacks.a_little_is_enough(honest, 1.5)
    assert_allclose(attacks.a_little_is_enough(honest + shift, 1.5), sent + shift, rtol=1e-9, atol=1e-9)
    order = random.sample(range(len(honest)), len(honest))
    assert_allclose(attacks.a_little_is_enough(honest[order], 1.5), sent, rtol=1e-12, atol=1e-12)
    assert_allclose(attacks.fall_of_empires(honest[order]), attacks.fall_of_empires(honest), atol=1e-12)


@given(strategies.models(strategies.whole, least=2))
def test_alie_is_below_the_mean_by_no_more_than_the_honest_spread(honest):
    """It hides: with z = 1 it stays between the lowest and the mean of the honest values."""
    sent = attacks.a_little_is_enough(honest, 1.0)
    below = honest.mean(axis=0) - sent
    spread = honest.max(axis=0) - honest.min(axis=0)
    assert (below <= spread / 2 + 1e-9).all()  # Popoviciu: std <= range / 2, with ddof 0
    assert (below[spread > 0] > 0).all()


def test_alie_subtracts_the_population_deviation():
    honest = np.array([[0.0], [2.0]])  # mean 1; deviation 1 (ddof 0), 1.41 (ddof 1)
    assert_array_equal(attacks.a_little_is_enough(honest, 0.5), [0.5])


@pytest.mark.parametrize(("n", "f", "z"), [(10, 3, 0.18), (30, 13, 0.93), (30, 6, 0.21)])
def test_alie_z_at_the_papers_sizes(n, f, z):
    assert attacks.alie_z(n, f) == pytest.approx(z, abs=0.005)
    assert attacks.alie_z(n, f) == pytest.approx(oracles.alie_z(n, f), rel=1e-12)


def test_alie_z_by_the_normal_distribution():
    """Of 7 honest workers, 3 must be further out than z, so that with 3 attackers they are a majority of 10."""
    z = attacks.alie_z(10, 3)
    assert math.erfc(z / math.sqrt(2)) / 2 == pytest.approx(3 / 7, rel=1e-12)


@given(st.integers(2, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1))))
def test_alie_z_is_the_formula_where_it_has_a_value_and_finite_everywhere(case):
    n, f = case
    z = attacks.alie_z(n, f)
    assert np.isfinite(z)
    supporters = n // 2 + 1 - f
    if 1 <= supporters < n - f:
        assert z == pytest.approx(oracles.alie_z(n, f), rel=1e-9, abs=1e-12)


def test_alie_z_when_attackers_are_the_majority():
    assert attacks.alie_z(10, 6) == pytest.approx(0.6744897501960817)  # one supporter of four: Phi^-1(3/4)
    assert attacks.alie_z(10, 9) == 0


@pytest.mark.parametrize(("n", "f"), [(3, 3), (3, -1)])
def test_alie_z_needs_an_honest_worker(n, f):
    with pytest.raises(ValueError, match=f"0 <= f < n, got n={n}, f={f}"):
        attacks.alie_z(n, f)


@pytest.mark.parametrize("name", PAPERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", [0, 1, 2])
def test_named_attacks_equal_the_oracle_and_keep_dtype_and_inputs(name, dtype, form):
    rng = np.random.default_rng(0)
    own, honest, signals = (strategies.frozen(rng.normal(size=(n, 4)).astype(dtype), form) for n in (3, 7, 3))
    sent = sent_by(attacks.ATTACKS[name], own, honest, signals)
    assert sent.dtype == dtype
    assert type(sent) is np.ndarray
    rows = own.tolist(), honest.tolist()
    expected = [oracles.ATTACKS[name](w, *rows, s) for w, s in zip(own.tolist(), signals.tolist())]
    assert_allclose(np.broadcast_to(sent, own.shape), expected, rtol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", PAPERS)
def test_the_table_tells_the_truth_about_an_attack(name):
    """Whether it draws, whether all attackers send one message, whether it lies, and what it looks at."""
    rng = np.random.default_rng(0)
    own, honest, other, signals, others = (rng.normal(size=(n, 4)) for n in (3, 7, 7, 3, 3))
    entry = attacks.ATTACKS[name]
    sent = sent_by(entry, own, honest, signals)
    assert (sent.shape == (4,)) == entry.one_message
    assert (entry.draw is not None) == (sent != sent_by(entry, own, honest, others)).any()
    assert entry.lies == (np.broadcast_to(sent, own.shape) != own).all()
    knows = {"all honest models"} if (sent != sent_by(entry, own, other, signals)).any() else set()
    theirs = own.copy()
    theirs[0] *= 2  # the first attacker's model
    changed = np.broadcast_to(sent != sent_by(entry, theirs, honest, signals), own.shape).any(axis=1)
    knows |= {"its own model"} if changed[0] and not changed[1:].any() else set()
    knows |= {"all attackers' own models"} if changed.all() else set()
    words = {attacks.KNOWLEDGE[name].words for name in entry.knows}
    assert (knows or {"nothing"}) == words - {""}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_alone_an_attacker_without_knowledge_of_others_sends_its_own_model(dtype):
    """The deviation of one model is 0, to the last bit; with a second one there is something to subtract."""
    rng = np.random.default_rng(0)
    own, honest = rng.normal(size=(2, 4)).astype(dtype), rng.normal(size=(7, 4)).astype(dtype)
    attack = attacks.ATTACKS["alie-corrupted"]
    assert_array_equal(sent_by(attack, own[:1], honest, None), own[0])
    assert (sent_by(attack, own, honest, None) < own.mean(axis=0)).all()
    assert_array_equal(attacks.a_little_is_enough_corrupted(own[:1], 1e6), own[0])


@given(honest_models, st.floats(0, 5))
def test_the_two_readings_of_alie_are_one_formula_over_other_models(W, z):
    assert_array_equal(attacks.a_little_is_enough_corrupted(W, z), attacks.a_little_is_enough(W, z))


def test_an_attack_that_forgets_to_return_is_no_attack_with_nan():
    refusal = pytest.raises(ValueError, match=r"^attack hostile needs to return what is sent, got None$")
    with sends(lambda own, honest, signals: None) as name, refusal:
        after(setting(attack=name), 1)


def test_only_the_papers_reading_of_an_attack_runs_unless_told_otherwise():
    usual = [name for name, attack in attacks.ATTACKS.items() if attack.by_default]
    assert usual == ["none", "sign-flip", "arbitrary", "foe", "alie"]
