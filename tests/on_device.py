"""Runs tests that were written for numpy on another device: `pytest --on strict` or `pytest --on cupy`.

Each public function of the array code is wrapped. Called by a test, with numpy arrays, it moves them to the
device, computes there and moves the results back; called by refimpl itself, with arrays that are there
already, it is left alone. So every oracle and every property of the suite judges what the device computed.
Where a test asks for more than rounding allows on another device, TOLERANCES are granted.
"""

import functools
import inspect

import numpy as np

from refimpl import aggregate, attacks, layers, models, optim, train
from refimpl.arrays import to_host

MODULES = (aggregate, attacks, layers, models, optim, train)
BY_NAME = (aggregate.WEIGHTS, aggregate.RULES, attacks.ATTACKS, optim.OPTIMIZERS)
# Where a sum is 0, conv_pool leaves rounding of its summands.
TOLERANCES = {"float64": {"rtol": 1e-10, "atol": 1e-13}, "float32": {"rtol": 1e-4, "atol": 1e-5}}
NOT_HERE = {
    "test_affine_backward_parameters_fills_what_it_is_given": "looks into the host's memory",
    "test_a_large_batch_of_images_fits_in_little_memory": "measures the host's memory",
}
ON_THE_HOST = {"check", "mlp", "cnn", "weight_matrix"}  # take no arrays, or take them to the host


def install(xp):
    """Wraps every function that the modules define, and the methods of a model."""
    for module in MODULES:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            own = function.__module__ == module.__name__
            if own and not name.startswith("_") and name not in ON_THE_HOST:
                setattr(module, name, wrapped(function, xp))
    for table in BY_NAME:
        table.update({name: wrapped(function, xp) for name, function in table.items()})
    for name in ("logits", "losses", "loss", "risk", "gradient", "predict"):
        setattr(models.Model, name, wrapped(getattr(models.Model, name), xp))
    np.testing.assert_allclose = assert_close
    np.testing.assert_array_equal = functools.partial(assert_close, rtol=0)


def assert_close(actual, desired, rtol=1e-7, atol=0, *args, compare=np.testing.assert_allclose, **kwargs):
    """numpy's, at least as tolerant as TOLERANCES; whole numbers and booleans stay as they are."""
    dtypes = {str(getattr(value, "dtype", "")) for value in (actual, desired)}
    least = TOLERANCES["float32" if "float32" in dtypes else "float64"]
    compare(actual, desired, max(rtol, least["rtol"]), max(atol, least["atol"]), *args, **kwargs)


def wrapped(function, xp):
    @functools.wraps(function)
    def call(*args, **kwargs):
        if not holds_numpy((args, kwargs)):
            return function(*args, **kwargs)
        result = function(*moved(args, xp), **moved(kwargs, xp))
        return map(home, result) if inspect.isgenerator(result) else home(result)

    return call


def parts_of(value):
    """What a container holds. Of a setting only the data: its graph and attackers live on the host."""
    if isinstance(value, train.Setting):
        return [value.data]
    return list(value.values()) if isinstance(value, dict) else list(value)


def is_container(value):
    return isinstance(value, (tuple, list, dict)) and not isinstance(value, models.Model)


def holds_numpy(value):
    if is_container(value):
        return any(map(holds_numpy, parts_of(value)))
    return isinstance(value, np.ndarray)


def moved(value, xp):
    return rebuilt(value, lambda array: xp.asarray(array) if isinstance(array, np.ndarray) else array)


def home(value):
    return rebuilt(value, lambda array: to_host(array)[()] if hasattr(array, "get") else array)


def rebuilt(value, change):
    """The same containers around the changed arrays."""
    if not is_container(value):
        return change(value)
    if isinstance(value, train.Setting):
        return value._replace(data=rebuilt(value.data, change))
    if isinstance(value, dict):
        return {key: rebuilt(part, change) for key, part in value.items()}
    parts = [rebuilt(part, change) for part in value]
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
