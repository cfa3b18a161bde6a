"""The array-module switch: numpy or cupy, told by the data. The only file that imports cupy.

Every other function asks `module_of` for the module of its input, so the same line runs on the host
and on a GPU. Nothing moves between the two by itself.
"""

import sys
from types import ModuleType
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray or cupy.ndarray

# What attackers send overflows and turns into NaN. The rules are written for that, so numpy need not warn.
quiet = np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")


def module_of(array: Array) -> ModuleType:
    """The module, numpy or cupy, that `array` belongs to. Raises TypeError for lists and scalars."""
    module = sys.modules[type(array).__module__.partition(".")[0]]
    if not hasattr(module, "ndarray"):
        raise TypeError(f"needs an array of numpy or cupy, got {type(array).__name__}")
    return module


def to_host(array: Array) -> np.ndarray:
    """`array` as a numpy array: a copy from the device, or the array itself."""
    return array.get() if hasattr(array, "get") else array


class DeviceError(ValueError):
    """A GPU was asked for and cannot be had; the message says what is missing and what to install."""


def gpu() -> ModuleType:
    """The cupy module, after checking that it imports, finds a GPU and can run a kernel on it."""
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            f"--gpu needs CuPy, which does not import ({error}): pip install '.[cuda12]' or '.[cuda13]', "
            "whichever your driver supports"
        ) from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # cupy's own error class is only known once cupy imports
        raise DeviceError(f"--gpu needs an NVIDIA GPU and its driver; CuPy finds none ({error})") from None
    if count == 0:
        raise DeviceError("--gpu needs an NVIDIA GPU; CuPy works but finds no device")
    try:
        if float(cupy.arange(3).sum()) != 3:
            raise RuntimeError("0 + 1 + 2 is not 3 on it")
    except Exception as error:
        first_line = (str(error) or type(error).__name__).splitlines()[0]
        raise DeviceError(
            f"--gpu found a GPU that cannot run a kernel ({first_line}): the CUDA toolkit may be missing, "
            "pip install 'cupy-cuda12x[ctk]' or 'cupy-cuda13x[ctk]'"
        ) from None
    return cupy
