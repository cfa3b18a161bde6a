import ast
import os
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from refimpl import arrays

ROOT = Path(__file__).parents[1]


def test_the_module_comes_from_the_data():
    assert arrays.module_of(np.ones(3)) is np
    assert arrays.module_of(np.float64(1)) is np
    assert arrays.to_host(np.ones(3)).sum() == 3


@pytest.mark.parametrize("thing", [[1.0, 2.0], 3.0, None])
def test_lists_and_scalars_are_refused(thing):
    with pytest.raises(TypeError, match="needs an array of numpy, cupy or the array API standard, got "):
        arrays.module_of(thing)


def test_nothing_else_imports_cupy():
    files = [path for name in ("refimpl", "data_loaders", "examples") for path in (ROOT / name).rglob("*.py")]
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0].startswith("cupy") for name in names):
                assert path == ROOT / "refimpl" / "arrays.py"


# --- Asking for a GPU ---------------------------------------------------------------------------------------


class Vector:
    """On a GPU where the squares of 0, 1, 2 add up to `total`, or raise it."""

    def __init__(self, total):
        self.total = total

    def __matmul__(self, other):
        if isinstance(self.total, Exception):
            raise self.total
        return self.total


def fake_cupy(monkeypatch, count=1, total=5.0):
    """A cupy whose driver finds `count` GPUs, or raises it; `used` says which was chosen."""

    def device_count():
        if isinstance(count, Exception):
            raise count
        return count

    cupy = types.ModuleType("cupy")
    cupy.used = []
    cupy.cuda = types.SimpleNamespace(
        runtime=types.SimpleNamespace(getDeviceCount=device_count),
        Device=lambda number: types.SimpleNamespace(use=lambda: cupy.used.append(number)),
    )
    cupy.arange = lambda n: Vector(total)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy


def refusal(match, device=0):
    with pytest.raises(arrays.DeviceError, match=match) as caught:
        arrays.gpu(device)
    assert "\n" not in str(caught.value)


INSTALL = r"pip install '\.\[cuda12\]' or '\.\[cuda13\]'"


def test_gpu_says_that_cupy_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    refusal(f"needs CuPy.*{INSTALL}")


def test_gpu_says_why_cupy_does_not_import(monkeypatch, tmp_path):
    """As cupy/__init__.py does it: a banner around the error that matters."""
    program = """
try:
    raise ImportError("libcudart.so.12: cannot open shared object file")
except ImportError as error:
    raise ImportError("=====\\nFailed to import CuPy.\\n=====") from error
"""
    (tmp_path / "cupy.py").write_text(program, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    refusal(rf"does not import \(libcudart\.so\.12: cannot open shared object file\): {INSTALL}")


@pytest.mark.parametrize("count", [0, RuntimeError("cudaErrorInsufficientDriver: too old\nlong story")])
def test_gpu_says_that_no_device_is_there(monkeypatch, count):
    fake_cupy(monkeypatch, count=count, total=RuntimeError("a later check"))
    refusal("needs an NVIDIA GPU")


def test_gpu_says_that_the_device_is_not_there(monkeypatch):
    cupy = fake_cupy(monkeypatch, count=2, total=RuntimeError("a later check"))
    refusal(r"--device 2 is not there: CuPy finds 2, numbered from 0", device=2)
    assert cupy.used == []


@pytest.mark.parametrize("total", [4.0, RuntimeError("libnvrtc not found\nlong story"), RuntimeError()])
def test_gpu_says_that_kernels_do_not_run(monkeypatch, total):
    fake_cupy(monkeypatch, total=total)
    refusal(r"cannot run a kernel \(\w.*\[ctk\]")


def test_gpu_chooses_the_device_and_switches_tf32_off(monkeypatch):
    monkeypatch.setenv("CUPY_TF32", "1")
    cupy = fake_cupy(monkeypatch, count=3)
    assert arrays.gpu(2) is cupy
    assert cupy.used == [2]
    assert os.environ["CUPY_TF32"] == "0"
    assert arrays.choose(True, 1) is cupy
    assert cupy.used == [2, 1]
    assert arrays.choose(False) is np
