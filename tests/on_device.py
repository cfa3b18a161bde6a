"""Runs tests that were written for numpy on another device: `pytest --on strict` or `pytest --on cupy`.

Each public function of the array code is wrapped, in the specification and in `fast`. Called by a test, with
numpy arrays, it moves them to the device, computes there and moves the results back; called by refimpl itself,
with arrays that are there already, it is left alone. So every oracle and every property of the suite judges
what the device computed. Where a test asks for more than rounding allows there, TOLERANCES are granted.
"""

import functools
import inspect

import numpy as np

from refimpl import aggregate, algorithm, attacks, layers, models, optim, released, train
from refimpl.arrays import to_host
from refimpl.engine import Engine
from refimpl.fast import distances, engine, networks, plan, risks, rules

MODULES = (algorithm, aggregate, attacks, layers, optim, released, train, engine, risks, rules, distances)
TABLES = {"compute": aggregate.RULES, "send": attacks.ATTACKS, "step": optim.OPTIMIZERS}
METHODS = ("inputs", "logits", "losses", "risk", "gradient", "step", "predict")
METHODS += ("losses_of_all", "prepared")
# Where a sum is 0, conv_pool leaves rounding of its summands.
TOLERANCES = {"float64": {"rtol": 1e-10, "atol": 1e-13}, "float32": {"rtol": 1e-4, "atol": 1e-5}}
NOT_HERE = {
    "test_combine_is_that_of_the_specification": "all_finite does not wait for one",
    "test_a_large_batch_of_images_fits_in_little_memory": "measures the host's memory",
    "test_any_number_of_threads_gives_the_same_bytes": "threads are the host's",
    "test_a_row_that_nobody_has_is_refused": "to look would be to wait for the device",
}
# Their arrays are, or stay, there.
ON_THE_HOST = {
    "check",
    "trust_summary",
    "combine_into",
    "between",
    "by_products",
    "different",
    "of_pairs",
    "linked",
}
# What lives on the device, of tuples that also hold what lives on the host.
MOVES = {
    algorithm.Setting: ("X", "y"),
    engine.Result: ("state",),
    plan.Plan: (),
    plan.Group: (),
    plan.Chunk: (),
    plan.Rows: (),
    models.MLP: (),
    models.Network: (),
    networks.Batched: (),
}


def install(xp):
    """Wraps every function that the modules define, the entries of the tables and the methods of a network."""
    for module in MODULES:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            own = function.__module__ == module.__name__
            if own and not name.startswith("_") and name not in ON_THE_HOST:
                setattr(module, name, wrapped(function, xp))
    for field, table in TABLES.items():
        for name, entry in table.items():
            table[name] = entry._replace(**{field: wrapped(getattr(entry, field), xp)})
    for network in (models.MLP, models.Network, networks.Batched):
        for name in METHODS:
            if hasattr(network, name):
                setattr(network, name, wrapped(getattr(network, name), xp))
    restore_identities()
    np.testing.assert_allclose = assert_close
    np.testing.assert_array_equal = functools.partial(assert_close, rtol=0)


def restore_identities():
    """`fast` recognises functions of the specification by identity: tells it their new ones."""
    for rule in aggregate.RULES.values():
        rules.TWINS[rule.compute] = rules.TWINS.pop(rule.compute.__wrapped__)
    for attack in attacks.ATTACKS.values():
        if attack.send.__wrapped__ in rules.COORDINATEWISE:
            rules.COORDINATEWISE[attack.send] = rules.COORDINATEWISE.pop(attack.send.__wrapped__)
    engine.sgd = optim.OPTIMIZERS["sgd"].step
    networks.STAGE = (layers.conv2d, layers.relu, layers.maxpool2d)


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
        if inspect.isgenerator(result):
            return map(home, result)
        if isinstance(result, Engine):
            return result._replace(step=wrapped(result.step, xp))
        return home(result)

    return call


def fields_of(value):
    """What a container holds on the device, by name or number; None if it is no container."""
    if type(value) in MOVES:
        return {name: getattr(value, name) for name in MOVES[type(value)]}
    if isinstance(value, dict):
        return value
    return dict(enumerate(value)) if isinstance(value, (tuple, list)) else None


def holds_numpy(value):
    fields = fields_of(value)
    return isinstance(value, np.ndarray) if fields is None else any(map(holds_numpy, fields.values()))


def moved(value, xp):
    return rebuilt(value, lambda array: xp.asarray(array) if isinstance(array, np.ndarray) else array)


def home(value):
    return rebuilt(value, lambda array: to_host(array)[()] if hasattr(array, "get") else array)


def rebuilt(value, change):
    """The same containers around the changed arrays."""
    fields = fields_of(value)
    if fields is None:
        return change(value)
    new = {name: rebuilt(part, change) for name, part in fields.items()}
    if type(value) in MOVES:
        return value._replace(**new)
    if isinstance(value, dict):
        return new
    return type(value)(*new.values()) if hasattr(value, "_fields") else type(value)(new.values())
