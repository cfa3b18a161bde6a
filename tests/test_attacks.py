import numpy as np
import oracles
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import attacks


def lists(W):
    return [list(map(float, row)) for row in W]


def test_sign_flip_and_arbitrary_by_hand():
    W = np.array([[1.0, -2.0]])
    assert_array_equal(attacks.sign_flip(W), [[-1, 2]])
    assert_array_equal(attacks.sign_flip(W, sigma=3.0), [[-3, 6]])
    assert_array_equal(attacks.arbitrary(W, np.array([[0.5, 0.25]])), [[0.5, -0.5]])


@given(strategies.models(), st.floats(0, 5))
def test_mean_based_attacks_equal_the_oracle(honest, strength):
    foe = attacks.fall_of_empires(honest, strength)
    assert_allclose(foe, oracles.fall_of_empires(lists(honest), strength), rtol=1e-12, atol=1e-9)
    alie = attacks.a_little_is_enough(honest, strength)
    assert_allclose(alie, oracles.a_little_is_enough(lists(honest), strength), rtol=1e-9, atol=1e-9)


def test_alie_subtracts_the_population_deviation():
    honest = np.array([[0.0], [2.0]])  # mean 1; deviation 1 (ddof 0), 1.41 (ddof 1)
    assert_array_equal(attacks.a_little_is_enough(honest, 0.5), [0.5])


@pytest.mark.parametrize(("n", "f", "z"), [(10, 3, 0.18), (30, 13, 0.93), (30, 6, 0.21)])
def test_alie_z_at_the_papers_sizes(n, f, z):
    assert attacks.alie_z(n, f) == pytest.approx(z, abs=0.005)
    assert attacks.alie_z(n, f) == pytest.approx(oracles.alie_z(n, f), rel=1e-12)


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


@pytest.mark.parametrize("name", attacks.ATTACKS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_named_attacks_keep_dtype_and_inputs(name, dtype):
    rng = np.random.default_rng(0)
    own, honest, signals = (rng.normal(size=(n, 4)).astype(dtype) for n in (3, 7, 3))
    for array in (own, honest, signals):
        array.flags.writeable = False
    sent = attacks.ATTACKS[name](own, honest, signals)
    assert sent.dtype == dtype
    assert np.broadcast_shapes(sent.shape, own.shape) == own.shape
    expected = {
        "none": own,
        "sign-flip": -own,
        "arbitrary": signals * own,
        "foe": -honest.mean(axis=0),
        "alie": attacks.a_little_is_enough(honest, attacks.alie_z(10, 3)),
    }
    assert_array_equal(sent, expected[name])
