"""The stand-in device refuses what CuPy refuses: the same tests on both (`pytest -m gpu` for CuPy)."""

import json

import cupy_names
import numpy as np
import pytest
import strict_device

# a is on the device, h on the host, k an index on the device.
REFUSED = {
    "a + h": (TypeError, lambda xp, a, h, k: a + h),
    "h * a": (TypeError, lambda xp, a, h, k: h * a),
    "a + a numpy array without axes": (TypeError, lambda xp, a, h, k: a + np.array(1.0)),
    "a @ h": (TypeError, lambda xp, a, h, k: a @ h),
    "exp(h)": (TypeError, lambda xp, a, h, k: xp.exp(h)),
    "maximum(a, h)": (TypeError, lambda xp, a, h, k: xp.maximum(a, h)),
    "where(h)": (TypeError, lambda xp, a, h, k: xp.where(h > 1, a, 0)),
    "concatenate": (TypeError, lambda xp, a, h, k: xp.concatenate([a, h])),
    "asarray": (TypeError, lambda xp, a, h, k: np.asarray(a)),
    "array of entries": (TypeError, lambda xp, a, h, k: np.array([a[0], a[1]])),
    "assert_allclose": (TypeError, lambda xp, a, h, k: np.testing.assert_allclose(a, h)),
    "h[k]": (TypeError, lambda xp, a, h, k: h[k]),
    "h[:2] = a[:2]": (TypeError, lambda xp, a, h, k: h.copy().__setitem__(slice(2), a[:2])),
    "a[:2] = h[:2]": (ValueError, lambda xp, a, h, k: a.__setitem__(slice(2), h[:2])),
    "a list": ((AttributeError, TypeError), lambda xp, a, h, k: xp.argsort([3, 1])),
    "range": (TypeError, lambda xp, a, h, k: range(a.argmax())),
    "index of a list": (TypeError, lambda xp, a, h, k: [1, 2, 3][a.argmax()]),
    "shape": (TypeError, lambda xp, a, h, k: xp.zeros(k.max())),
    "key": (TypeError, lambda xp, a, h, k: {a.sum(): 1}),
    "json": (TypeError, lambda xp, a, h, k: json.dumps(a.sum())),
    "where= in a reduction": (TypeError, lambda xp, a, h, k: a.sum(where=a > 1)),
    "initial=": (TypeError, lambda xp, a, h, k: a.max(initial=0)),
    "where= in a ufunc": (TypeError, lambda xp, a, h, k: xp.exp(a, where=a > 1)),
    "correction=": (TypeError, lambda xp, a, h, k: xp.std(a, correction=1)),
    "stable=": (TypeError, lambda xp, a, h, k: xp.sort(a, stable=True)),
    "quicksort": (ValueError, lambda xp, a, h, k: xp.sort(a, kind="quicksort")),
    "strings": (ValueError, lambda xp, a, h, k: xp.asarray(np.array(["a"]))),
    "errstate": (AttributeError, lambda xp, a, h, k: xp.errstate),
    "block": (AttributeError, lambda xp, a, h, k: xp.block),
    "insert": (AttributeError, lambda xp, a, h, k: xp.insert),
    "vector_norm": (AttributeError, lambda xp, a, h, k: xp.linalg.vector_norm),
}
# CuPy lets these pass, at the price of a hidden copy, a computation on the host or a wrong result.
REFUSED_BY_THE_STAND_IN = {
    "a[host index]": (TypeError, lambda xp, a, h, k: a[np.array([0, 1])]),
    "a[list]": (TypeError, lambda xp, a, h, k: a[[0, 1]]),
    "sum(h)": (TypeError, lambda xp, a, h, k: xp.sum(h)),
    "numpy's exp(a)": (TypeError, lambda xp, a, h, k: np.exp(a)),
    "out of bounds": (IndexError, lambda xp, a, h, k: a[k + 9]),
    "repeated indices": (ValueError, lambda xp, a, h, k: a.__setitem__(k, a[:2])),
}


def arrays_of(xp):
    h = np.array([1.0, 2.0, 3.0])
    return xp, xp.asarray(h), h, xp.asarray(np.array([1, 1]))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, xp):
    error, act = REFUSED[name]
    with pytest.raises(error):
        act(*arrays_of(xp))


@pytest.mark.parametrize("name", REFUSED_BY_THE_STAND_IN)
def test_refused_by_the_stand_in(name):
    error, act = REFUSED_BY_THE_STAND_IN[name]
    with pytest.raises(error):
        act(*arrays_of(strict_device))


def test_reductions_and_entries_are_arrays_on_the_device(xp):
    _, a, h, _ = arrays_of(xp)
    for zero_d in (a.sum(), a.mean(axis=0), a[0], a.max(), xp.sum(a), a @ a, np.float64(2) * a[0]):
        assert isinstance(zero_d, xp.ndarray)
        assert zero_d.shape == ()
    first = a[0]
    a[0] = 9
    assert float(first) == 9  # a view
    assert h[0] == 1  # `asarray` copied
    assert {float(2 * a.sum()), float(a.sum() * np.float32(2))} == {28.0}


@pytest.mark.gpu
def test_the_list_of_cupys_names_is_right(cupy):
    if cupy.__version__ != strict_device.CUPY["cupy"]:
        pytest.skip(f"the list is that of CuPy {strict_device.CUPY['cupy']}")
    assert cupy_names.collect(cupy, np) == strict_device.CUPY
