"""The array-module switch: numpy or cupy, told by the data. The only file that imports cupy.

Every other function asks `module_of` for the module of its input, so the same line runs on the host
and on a GPU. Nothing moves between the two by itself.
"""

import functools
import math
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray or cupy.ndarray

# What attackers send overflows and turns into NaN. The rules are written for that, so numpy need not warn.
quiet = np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")


def module_of(array: Array) -> ModuleType:
    """The module, numpy or cupy, that `array` belongs to. Raises TypeError for lists and scalars."""
    if type(array) is np.ndarray:
        return np
    module = sys.modules[type(array).__module__.partition(".")[0]]
    if not hasattr(module, "ndarray"):
        raise TypeError(f"needs an array of numpy or cupy, got {type(array).__name__}")
    return module


def to_host(array: Array) -> np.ndarray:
    """`array` as a numpy array: a copy from the device, or the array itself."""
    return array.get() if hasattr(array, "get") else array


def beside(array: Array, host: np.ndarray) -> Array:
    """A small numpy array where `array` is: copied there the first time only, so nobody may write to it."""
    return _moved(module_of(array), str(array.device), host.dtype.str, host.shape, host.tobytes())


@functools.lru_cache(maxsize=64)
def _moved(xp: ModuleType, device: str, dtype: str, shape: tuple[int, ...], content: bytes) -> Array:
    return xp.asarray(np.frombuffer(content, dtype).reshape(shape))


# --- How much to compute at a time --------------------------------------------------------------------------


FLOATS = 2**20  # numbers that one expression should hold at a time on a CPU: they fit in its cache


def grain(xp: ModuleType) -> int:
    """How many times more at a time than on a CPU: much on a GPU, where every expression is a kernel launch."""
    return 1 if xp is np else 128


@functools.cache
def keep_memory() -> None:
    """Has the C library keep what is freed for the next array, instead of asking the system for it again.

    glibc learns this from the largest array that it has seen freed, up to 32 MB. Until then a round of HAR
    spends a third of its time on memory that the system hands out page by page.
    """
    np.empty(31 * 2**20, np.uint8)


def boxes(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Cuts an array of this shape into boxes of at most `most` entries: one slice per axis.

    A box has at least one entry, unless the array has none.
    """
    if not shape or math.prod(shape) <= most:
        yield tuple(slice(0, n) for n in shape)
        return
    step = most // max(1, math.prod(shape[1:]))
    for start in range(0, max(1, shape[0]), max(1, step)):
        for rest in boxes(shape[1:], most):
            yield slice(start, start + max(1, step)), *rest


# --- Asking for a GPU ---------------------------------------------------------------------------------------


class DeviceError(ValueError):
    """A GPU was asked for and cannot be had; the message says what is missing and what to install."""


def choose(gpu_wanted: bool, device: int = 0) -> ModuleType:
    """numpy, or cupy with this device chosen."""
    return gpu(device) if gpu_wanted else np


def gpu(device: int = 0) -> ModuleType:
    """The cupy module, after checking that it imports, finds GPU number `device` and can run kernels on it.

    The device becomes the current one of this thread. TF32, which would keep 10 of float32's 23 bits in matrix
    products, is switched off.
    """
    os.environ["CUPY_TF32"] = "0"  # CuPy reads it at the first product of float32
    try:
        import cupy
    except Exception as error:
        raise DeviceError(
            f"--gpu needs CuPy, which does not import ({_line(error)}): "
            "pip install '.[cuda12]' or '.[cuda13]', whichever your driver supports"
        ) from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # cupy's own error class is only known once cupy imports
        raise DeviceError(
            f"--gpu needs an NVIDIA GPU and its driver; CuPy finds none ({_line(error)}): install the driver, "
            "or for an older one pip install '.[cuda12]' in place of '.[cuda13]'"
        ) from None
    if count == 0:
        raise DeviceError("--gpu needs an NVIDIA GPU; CuPy works but finds no device")
    if device >= count:
        raise DeviceError(f"--device {device} is not there: CuPy finds {count}, numbered from 0")
    try:
        cupy.cuda.Device(device).use()
        v = cupy.arange(3.0)
        if float(v @ v) != 5:
            raise RuntimeError("0 + 1 + 4 is not 5 on it")
    except Exception as error:
        raise DeviceError(
            f"--gpu found a GPU that cannot run a kernel ({_line(error)}): the CUDA toolkit may be missing, "
            "pip install 'cupy-cuda12x[ctk]' or 'cupy-cuda13x[ctk]'"
        ) from None
    return cupy


def _line(error: BaseException) -> str:
    """The first line with words in what the error says; CuPy wraps the import that failed in a banner."""
    error = error.__cause__ or error
    lines = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if any(map(str.isalnum, line))), type(error).__name__)
