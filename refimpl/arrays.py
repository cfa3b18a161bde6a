"""The array-module switch: numpy or cupy, inferred from the data. The only file that imports cupy.

Every other function asks `module_of` for the module of its input, so the same line runs on the host
and on a GPU. Nothing moves between the two by itself. `aggregate` and `attacks` use only functions of the
Python array API standard, so they also take the arrays of other libraries, and tensors of PyTorch.
"""

import importlib
import os
import sys
from types import ModuleType
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray or cupy.ndarray; in `aggregate` and `attacks`, any array of the standard

# What attackers send may overflow or turn into NaN. The rules are written for that: numpy need not warn.
quiet = np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")


def module_of(array: Array) -> ModuleType:
    """The module whose functions take `array`: numpy, cupy, or what another library has for the standard.

    PyTorch's own functions do not follow it; the package array_api_compat has those that do. Raises TypeError
    for lists and Python numbers, and for tensors if that package is missing.
    """
    if type(array) is np.ndarray:
        return np
    library = type(array).__module__.partition(".")[0]
    if hasattr(sys.modules[library], "ndarray"):
        return sys.modules[library]
    if library == "torch":
        try:
            return importlib.import_module("array_api_compat.torch")
        except ImportError as error:
            needs = "tensors of PyTorch need the package array_api_compat: pip install array-api-compat"
            raise TypeError(f"{needs} ({error})") from None
    if not hasattr(array, "__array_namespace__"):
        raise TypeError(f"needs an array of numpy, cupy or the array API standard, got {type(array).__name__}")
    return array.__array_namespace__()


def positions(array: Array) -> Array:
    """0, 1, ..., n - 1 for the n rows of `array`, on its device."""
    xp, n = module_of(array), array.shape[0]
    return xp.arange(n) if hasattr(xp, "ndarray") else xp.arange(n, device=array.device)


def to_host(array: Array) -> np.ndarray:
    """`array` as a numpy array: a copy from the device, or the array itself."""
    return array.get() if hasattr(array, "get") else array


# --- Asking for a GPU ---------------------------------------------------------------------------------------


class DeviceError(ValueError):
    """A GPU was asked for and is not available; the message says what is missing and what to install."""


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
