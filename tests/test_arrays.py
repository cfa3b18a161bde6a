import sys
import types

import numpy as np
import pytest

from refimpl import arrays


def test_the_module_comes_from_the_data():
    assert arrays.module_of(np.ones(3)) is np
    assert arrays.module_of(np.float64(1)) is np
    assert arrays.to_host(np.ones(3)).sum() == 3


@pytest.mark.parametrize("thing", [[1.0, 2.0], 3.0, None])
def test_lists_and_scalars_are_refused(thing):
    with pytest.raises(TypeError, match="needs an array of numpy or cupy, got "):
        arrays.module_of(thing)


def fake_cupy(monkeypatch, count=1, total=3.0):
    """A cupy whose driver finds `count` GPUs, the kernel on which sums 0 + 1 + 2 to `total`."""

    def result(value):
        def call(*_):
            if isinstance(value, Exception):
                raise value
            return value

        return call

    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(getDeviceCount=result(count)))
    cupy.arange = lambda n: types.SimpleNamespace(sum=result(total))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy


def test_gpu_says_that_cupy_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(arrays.DeviceError, match=r"needs CuPy.*pip install '\.\[cuda12\]' or '\.\[cuda13\]'"):
        arrays.gpu()


@pytest.mark.parametrize("count", [0, RuntimeError("cudaErrorNoDevice")])
def test_gpu_says_that_no_device_is_there(monkeypatch, count):
    fake_cupy(monkeypatch, count=count)
    with pytest.raises(arrays.DeviceError, match="needs an NVIDIA GPU"):
        arrays.gpu()


@pytest.mark.parametrize("total", [4.0, RuntimeError("libnvrtc not found\nlong story")])
def test_gpu_says_that_kernels_do_not_run(monkeypatch, total):
    fake_cupy(monkeypatch, total=total)
    with pytest.raises(arrays.DeviceError, match=r"cannot run a kernel \(.*\[ctk\]") as caught:
        arrays.gpu()
    assert "\n" not in str(caught.value)


def test_gpu_returns_the_module_when_all_is_well(monkeypatch):
    cupy = fake_cupy(monkeypatch)
    assert arrays.gpu() is cupy
