"""A stand-in for CuPy over numpy: what CuPy refuses is refused, and nothing moves by itself.

Only the names and parameters in cupy_names.json exist. Reductions and a[0] give 0-d arrays. It is stricter
than CuPy where CuPy is silent: host arrays as indices and as arguments (a hidden copy, or a computation on the
host), indices out of bounds (wrapped round), assignments to repeated indices (any of the values may win),
numpy functions of device arrays. Memory from `empty` holds NaN. `count` counts what costs time on a GPU.
"""

import inspect
import json
import operator
from pathlib import Path
from types import NoneType, SimpleNamespace

import numpy as np

CUPY = json.loads(Path(__file__).with_name("cupy_names.json").read_text(encoding="utf-8"))
__version__ = f"over numpy, as strict as CuPy {CUPY['cupy']}"
count = {"launches": 0, "to_device": 0, "to_host": 0}

quiet = np.errstate(all="ignore")  # CuPy never warns
CREATION = {"array", "asarray", "ascontiguousarray", "asfortranarray"}
PLAIN_NUMBERS = {"shape", "newshape", "axis", "axis1", "axis2", "N", "M", "start", "stop", "step", "num"}
ON_THE_HOST = {"axes"}  # lists of numbers, as numpy takes them
SEQUENCES = {"stack", "concatenate", "hstack", "vstack", "broadcast_arrays"}


def on_device(value):
    """The numbers behind an argument of a function. Raises TypeError for anything that lives on the host."""
    if isinstance(value, ndarray):
        return value._host
    if isinstance(value, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>: it is not on the device")
    if isinstance(value, list):
        raise TypeError("lists are not arrays")
    return tuple(map(on_device, value)) if isinstance(value, tuple) else value


def as_device(value):
    """Results as device arrays, numpy's scalars as 0-d ones."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(as_device, value))
    return ndarray(value) if isinstance(value, (np.ndarray, np.generic)) else value


def checked(name, function, parameters):
    """`function` of numpy, called with nothing but the parameters that CuPy's has."""
    signature = inspect.signature(eval(f"lambda {parameters}: None"))

    @quiet
    def call(*args, **kwargs):
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"CuPy's {name}: {error}") from None
        if name in CREATION:
            return created(function, *args, **kwargs)
        for parameter in PLAIN_NUMBERS & bound.arguments.keys():
            if not isinstance(on_device(bound.arguments[parameter]), (int, float, tuple, NoneType)):
                raise TypeError(f"CuPy's {name}: {parameter} must be on the host")
        if "kind" in bound.arguments and bound.arguments["kind"] not in (None, "stable"):
            raise ValueError("sort kind must be None or 'stable'")
        if name in SEQUENCES and args and isinstance(args[0], list):
            args = (tuple(args[0]), *args[1:])
        count["launches"] += 1
        result = function(
            *map(on_device, args),
            **{key: value if key in ON_THE_HOST else on_device(value) for key, value in kwargs.items()},
        )
        if name.startswith("empty"):
            result.fill(np.nan if result.dtype.kind == "f" else 77)
        return as_device(result)

    return call


def created(function, source, *args, **kwargs):
    """A copy of a host array, or the device array itself as numpy's rules say."""
    if isinstance(source, ndarray):
        result = function(source._host, *args, **kwargs)
        return source if result is source._host else ndarray(result)
    if np.asarray(source).dtype.kind not in "fiubc":
        raise ValueError(f"Unsupported dtype {np.asarray(source).dtype}")
    count["to_device"] += 1
    return ndarray(np.array(source, *args, **kwargs))


def __getattr__(name):
    return lookup("", name)


def lookup(folder, name):
    """CuPy's `name`, from numpy."""
    path = folder + name
    if any(known.startswith(path + ".") for known in CUPY["functions"]):
        return Folder(path + ".")
    if path in CUPY["functions"]:
        return checked(path, operator.attrgetter(path)(np), CUPY["functions"][path])
    if path in CUPY["same as numpy's"]:
        return operator.attrgetter(path)(np)
    raise AttributeError(f"CuPy {CUPY['cupy']} has no {path}")


class Folder(SimpleNamespace):
    def __init__(self, path):
        self.path = path

    def __getattr__(self, name):
        return lookup(self.path, name)


class ndarray:  # noqa: N801
    __array_ufunc__ = None  # numpy's operators leave `h + a` to us
    __hash__ = None

    def __init__(self, host):
        self._host = np.asarray(host)

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed; use .get()")

    def __getattr__(self, name):
        if name in CUPY["methods"] and name != "get":
            return checked(name, getattr(self._host, name), CUPY["methods"][name])
        if name in CUPY["attributes"] and name != "device":
            value = getattr(self._host, name)
            return ndarray(value) if isinstance(value, np.ndarray) else value
        raise AttributeError(f"CuPy {CUPY['cupy']}'s arrays have no {name}")

    device = "strict"

    def get(self):
        count["to_host"] += 1
        return self._host.copy()

    def tolist(self):
        return self.get().tolist()

    def item(self):
        return self.get().item()

    def __float__(self):
        return float(self.get())

    def __int__(self):
        return int(self.get())

    def __bool__(self):
        return bool(self.get())

    def __len__(self):
        return len(self._host)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __repr__(self):
        return f"strict_device.{self._host!r}"

    def __getitem__(self, key):
        key = self._key(key)
        count["launches"] += any(isinstance(part, np.ndarray) for part in key)
        return ndarray(self._host[key])

    @quiet
    def __setitem__(self, key, value):
        key = self._key(key)
        if isinstance(value, (np.ndarray, list)):
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        if index := [part for part in key if isinstance(part, np.ndarray) and part.dtype != bool]:
            places = np.stack(np.broadcast_arrays(*index)).reshape(len(index), -1)
            if len(np.unique(places, axis=1).T) < places.shape[1]:
                raise ValueError("assignment to repeated indices: any of the values may win on a GPU")
        count["launches"] += 1
        self._host[key] = on_device(value)

    @staticmethod
    def _key(key):
        """With an ellipsis, so that numpy gives a 0-d view and no scalar."""
        parts = tuple(on_device(part) for part in (key if isinstance(key, tuple) else (key,)))
        count["to_host"] += sum(isinstance(part, np.ndarray) and part.dtype == bool for part in parts)
        return parts if any(part is Ellipsis for part in parts) else (*parts, Ellipsis)


def binary(function, swap=False, in_place=False):
    @quiet
    def method(self, other):
        other = on_device(other)
        if other is None or isinstance(other, (str, tuple)):
            return NotImplemented
        count["launches"] += 1
        if in_place:
            function(self._host, other, out=self._host)
            return self
        return ndarray(function(other, self._host) if swap else function(self._host, other))

    return method


def unary(function):
    def method(self):
        count["launches"] += 1
        return ndarray(function(self._host))

    return method


ARITHMETIC = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "pow": np.power,
    "floordiv": np.floor_divide, "mod": np.remainder, "matmul": np.matmul, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
COMPARISON = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal,
}  # fmt: skip
for name, function in ARITHMETIC.items():
    setattr(ndarray, f"__{name}__", binary(function))
    setattr(ndarray, f"__r{name}__", binary(function, swap=True))
    setattr(ndarray, f"__i{name}__", binary(function, in_place=True))
for name, function in COMPARISON.items():
    setattr(ndarray, f"__{name}__", binary(function))
for name, function in {"neg": np.negative, "invert": np.invert, "abs": np.absolute}.items():
    setattr(ndarray, f"__{name}__", unary(function))
