"""Rules, weights and attacks on arrays of other libraries: the strictest reading of the standard, and PyTorch.

Everything is compared with numpy. A result is of the input's library, dtype and device.
"""

import sys
from functools import partial

import numpy as np
import pytest
from problems import PAPERS, sent_by

from refimpl import arrays
from refimpl.aggregate import RULES, combine
from refimpl.attacks import ATTACKS


@pytest.fixture(params=["array_api_strict", "torch"])
def library(request):
    """A module with `asarray`, float32 and float64."""
    if request.param == "torch":
        pytest.importorskip("array_api_compat", reason="array-api-compat is in the extra 'oracles'")
    return pytest.importorskip(request.param, reason=f"{request.param} is in the extra 'oracles'")


dtypes = pytest.mark.parametrize("dtype", ["float64", "float32"])


def normal(*shape, dtype="float64", seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def poisoned(W):
    """Some models as attackers send them: NaN, infinite, and so large that squares overflow."""
    W = W.copy()
    W[1, :], W[4, 2], W[6, :] = np.nan, -np.inf, np.finfo(W.dtype).max
    return W


def assert_same(library, function, *inputs):
    """`function` gives on the library's arrays what it gives on numpy's, and in that library."""
    moved = [library.asarray(array) for array in inputs]
    result, expected = function(*moved), function(*inputs)
    assert type(result) is type(moved[0])
    assert (result.dtype, result.device) == (moved[0].dtype, moved[0].device)
    rtol, atol = (1e-10, 1e-13) if expected.dtype == np.float64 else (1e-4, 1e-5)
    np.testing.assert_allclose(np.asarray(result), expected, rtol, atol)
    for array, before in zip(moved, inputs, strict=True):
        np.testing.assert_array_equal(np.asarray(array), before)


@dtypes
@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if not rule.weighs])
def test_rules(library, name, dtype):
    for W in (normal(11, 40, dtype=dtype), poisoned(normal(11, 40, dtype=dtype))):
        assert_same(library, lambda W: RULES[name].compute(W, None, 3, 4), W)


@dtypes
@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.weighs])
def test_weights(library, name, dtype):
    several = np.abs(normal(6, 5, dtype=dtype))
    several[1, 2:], several[2], several[3, 0], several[4, 3] = np.inf, np.nan, 0, np.nan
    W = poisoned(normal(7, 40, dtype=dtype))[:5]
    for k, risks in enumerate(several):
        assert_same(library, lambda r, k=k: RULES[name].compute(None, r, k % 5, 0), risks)
        assert_same(library, lambda r, W, k=k: combine(RULES[name].compute(W, r, k % 5, 0), W), risks, W)


@dtypes
@pytest.mark.parametrize("name", PAPERS)
def test_attacks(library, name, dtype):
    own, honest, signals = (normal(n, 40, dtype=dtype, seed=i) for i, n in enumerate((3, 7, 3)))
    assert_same(library, partial(sent_by, ATTACKS[name]), own, honest, signals)


def test_tensors_without_the_package_are_refused_in_a_line(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is in the extra 'oracles'")
    for name in ("array_api_compat", "array_api_compat.torch"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(TypeError, match=r"^tensors of PyTorch need .*: pip install array-api-compat [^\n]*$"):
        arrays.module_of(torch.zeros(3))


def test_gradients_flow_through_a_rule():
    torch = pytest.importorskip("torch", reason="torch is in the extra 'oracles'")
    pytest.importorskip("array_api_compat", reason="array-api-compat is in the extra 'oracles'")
    W = torch.arange(6.0).reshape(3, 2).requires_grad_()
    RULES["average"].compute(W, None, 0, 0).sum().backward()
    np.testing.assert_allclose(W.grad.numpy(), 1 / 3)
