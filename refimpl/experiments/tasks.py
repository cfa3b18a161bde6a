"""The paper's experiments, and the way from a configuration to the arrays of a run."""

import functools
import hashlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from data_loaders import Dataset, checked, digits, har, mnist, spambase
from data_loaders.partition import PARTITIONS, Partition, Parts, deal, deal_and_split
from refimpl import draws, graphs, methods, models
from refimpl.algorithm import Setting
from refimpl.arrays import Array
from refimpl.attacks import ATTACKS
from refimpl.experiments.config import Config
from refimpl.methods import Method
from refimpl.train import HeldOut

DTYPES = ("float64", "float32")


class Task(NamedTuple):
    """An entry of TASKS: the data, the network and the options that an experiment is run with."""

    title: str
    load: Callable[[str | None], Dataset]
    """(folder with the data, or None) -> data set"""
    model: Callable[[], models.Model]
    test_share: float  # of each worker's rows, where the data set has no test set of its own
    defaults: dict[str, Any]  # of the command line, by option
    note: str = ""  # below the command line's help
    datasets: tuple[str, ...] = ()  # tasks that --dataset chooses among
    evaluate_every: int = 1  # so many epochs


TASKS = {
    "spambase": Task(
        title="Spam detection on Spambase",
        load=spambase.load,
        model=lambda: models.mlp([57, 20, 2]),
        test_share=0.2,
        defaults={
            "workers": 10,
            "attackers": 3,
            "epochs": 200,
            "risk": "local",
            "optimizer": "sgd",
            "lr": 0.01,
            "batch_size": 20,
            "partition": "nonuniform",
            "features": "standardised",
            "dtype": "float64",
        },
    ),
    "har": Task(
        title="Activity recognition on UCI HAR",
        load=har.load,
        model=lambda: models.mlp([561, 100, 6]),
        test_share=0.25,
        defaults={
            "workers": 30,
            "attackers": 13,
            "epochs": 100,
            "risk": "local",
            "optimizer": "sgd",
            "lr": 0.01,
            "batch_size": 10,
            "partition": "by-subject",
            "features": "raw",  # UCI's are in [-1, 1]
            "dtype": "float32",  # half the time of float64, for a figure that takes most of an hour
        },
        note="The paper's other scenario: --attackers 6\nA quick look: --risk batch --epochs 30",
        evaluate_every=2,  # takes a fifteenth of an epoch of adaptive
    ),
    "mnist": Task(
        title="Digit classification on MNIST",
        load=mnist.load,
        model=lambda: models.cnn(side=28, channels=(32, 64, 64), hidden=128, classes=10),
        test_share=0.0,
        defaults={
            "rules": ["adaptive", "average", "median", "krum", "local"],
            "attacks": ["sign-flip", "alie"],
            "workers": 10,
            "attackers": 3,
            "epochs": 1,
            "risk": "batch",  # all local data, the paper's definition, would be a hundred times the work
            "optimizer": "adam",
            "lr": 0.001,  # the released code's; with the paper's 0.02 hardly anything is learned
            "batch_size": 64,
            "partition": "two-labels",
            "features": "raw",  # pixels in [0, 1]
            "dtype": "float32",
        },
        note="The paper's Fig. 2, with its learning rate: --figure 2.",
        datasets=("mnist", "digits"),
        evaluate_every=8,  # takes a third of an epoch
    ),
}
TASKS["digits"] = TASKS["mnist"]._replace(  # no download, fewer rows
    title="Digit classification on scikit-learn's digits",
    load=digits.load,
    defaults=TASKS["mnist"].defaults | {"epochs": 15},
    evaluate_every=1,
)


# --- Features -----------------------------------------------------------------------------------------------


class Scaling(NamedTuple):
    """An entry of FEATURES."""

    fit: Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]]
    """(all training rows) -> function that scales rows"""
    about: str
    reference: str = "-"


def standardise(seen: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A function that scales to zero mean and unit variance over all training rows; a constant feature stays 0.

    As if the workers had agreed on these two numbers per feature beforehand.
    """
    mean, std = seen.mean(axis=0), seen.std(axis=0)
    varies = (seen != seen[0]).any(axis=0) & (std > 0)  # rounding may give a constant a deviation
    mean, std = np.where(varies, mean, seen[0]), np.where(varies, std, 1)
    return lambda X: (X - mean) / std


FEATURES = {
    "standardised": Scaling(standardise, "zero mean and unit variance over all training rows"),
    "raw": Scaling(lambda seen: lambda X: X, "as they are"),
}


# --- From a configuration to arrays -------------------------------------------------------------------------


def build(config: Config, data_dir: str | None = None, xp: ModuleType = np) -> tuple[Setting, HeldOut, Array]:
    """The setting, the test data and the initial parameters of a run, in arrays of `xp`.

    Raises ValueError if there are none; `run.check` says whether the setting can be trained.
    """
    c, method = config, method_of(config)
    model = method.network(TASKS[c.task].model())
    if not 0 <= c.liars < c.workers:
        raise ValueError(f"at least one worker must be normal, got {c.liars} attackers of {c.workers} workers")
    X, y, test = local_data(c, data_dir)
    attackers = draws.attackers(c.workers, c.liars, draws.stream(c.seed, "attackers"))
    X, y, backdoor = poisoned(X, y, test, attackers, c.attack)
    if c.batch_size > (rows := sum(map(len, y))):
        raise ValueError(f"there are {rows} rows to train on in all, got a batch of {c.batch_size}")
    setting = Setting(
        model=model,
        X=[xp.asarray(own.astype(c.dtype, copy=False)) for own in X],
        y=[xp.asarray(own) for own in y],
        graph=graphs.build(c.graph, c.workers, draws.stream(c.seed, "graph"))
        if isinstance(c.graph, str)
        else graphs.from_edges(c.workers, c.graph),
        attackers=attackers,
        rule=method.rule,
        attack=c.attack,
        risk=c.risk,
        optimizer=c.optimizer,
        step_size=c.lr,
        l2=c.l2,
        batch_size=c.batch_size,
    )
    W = draws.initial(model.layout, c.workers, draws.stream(c.seed, "init"))
    if c.start == "common":
        W[:] = W[0]  # drawn as ever, so that nothing else that is drawn changes
    held_out = HeldOut(*map(xp.asarray, (test.X.astype(c.dtype, copy=False), test.y, test.own)))
    if backdoor:
        triggered, wanted = backdoor
        held_out = held_out._replace(backdoor=(xp.asarray(triggered.astype(c.dtype)), xp.asarray(wanted)))
    return setting, held_out, xp.asarray(W.astype(c.dtype))


def poisoned(
    X: Parts, y: Parts, test: HeldOut, attackers: np.ndarray, attack: str
) -> tuple[Parts, Parts, tuple[np.ndarray, np.ndarray] | None]:
    """The rows of each worker, the attackers' poisoned if the attack does that, and the backdoor of `HeldOut`.

    Its samples are the test rows that the same poison changes, and gives a wrong label. Raises ValueError if
    the attack makes anything but as many rows of the same kind.
    """
    if not ATTACKS[attack].poison:
        return X, y, None
    classes = 1 + max(int(labels.max()) for labels in y if len(labels))
    X, y = list(X), list(y)
    for k in attackers:
        X[k], y[k] = poisoned_copy(X[k], y[k], classes, attack)
    triggered, wanted = poisoned_copy(test.X, test.y, classes, attack)
    changed = (triggered != test.X).any(axis=tuple(range(1, test.X.ndim))) & (wanted != test.y)
    return X, y, (triggered[changed], wanted[changed]) if changed.any() else None


def poisoned_copy(X: np.ndarray, y: np.ndarray, classes: int, attack: str) -> tuple[np.ndarray, np.ndarray]:
    """What an attack makes of a copy of some rows, which it may write to: the rows are kept for other runs."""
    made: Any = ATTACKS[attack].poison(X.copy(), y.copy(), classes)  # type: ignore[misc]
    arrays = made if isinstance(made, tuple | list) else [made]
    kinds: list[tuple[Any, Any]] = [
        (getattr(array, "shape", ()), getattr(array, "dtype", None)) for array in arrays
    ]
    if [shape for shape, _ in kinds] != [X.shape, y.shape] or not all(
        np.can_cast(dtype, kind, "same_kind") for (_, dtype), kind in zip(kinds, (float, int), strict=True)
    ):
        needs = f"an array {X.shape} of samples and one {y.shape} of integer labels"
        got = " and ".join(f"{dtype} {shape}" for shape, dtype in kinds)
        raise ValueError(f"attack {attack} needs to poison with {needs}, got {got}")
    return arrays[0], arrays[1].astype(y.dtype)


def method_of(c: Config) -> Method:
    """What the run's rule means: a rule, a rule as the released code has it, or a system."""
    return methods.find(c.rule, c.released, c.plain, c.faulty)


def local_data(c: Config, data_dir: str | None) -> tuple[Parts, Parts, HeldOut]:
    """The rows of each worker, X and y as in `Setting`, and what it is tested on."""
    task, partition, scaling = TASKS[c.task], PARTITIONS[c.partition], FEATURES[c.features]
    return build_data(task.load, task.test_share, partition, scaling, c.workers, c.seed, data_dir)


@functools.lru_cache(maxsize=1)
def build_data(
    load: Callable[[str | None], Dataset],
    test_share: float,
    partition: Partition,
    scaling: Scaling,
    workers: int,
    seed: int,
    data_dir: str | None,
) -> tuple[Parts, Parts, HeldOut]:
    """Loads the data, deals the rows to the workers, keeps some for testing, scales the features."""
    data, rng = _load(load, data_dir), draws.stream(seed, "partition")
    if data.X_test is not None and data.y_test is not None:
        parts = deal(partition, data, workers, rng)
        test = HeldOut(data.X_test, data.y_test, own_labels(data.y_test, data.y, parts))
    else:
        parts, test_parts = deal_and_split(partition, data, workers, test_share, rng)
        test = own_rows(data, test_parts)
    scale = scaling.fit(data.X[np.concatenate(parts)])
    X = scale(data.X)
    return [X[part] for part in parts], [data.y[part] for part in parts], test._replace(X=scale(test.X))


@functools.lru_cache(maxsize=1)
def _load(load: Callable[[str | None], Dataset], data_dir: str | None) -> Dataset:
    return checked(load(data_dir))


def data_of(task: str, data_dir: str | None) -> Dataset:
    """The task's data, which are kept for the next run."""
    return _load(TASKS[task].load, data_dir)


def forget() -> None:
    """Frees the data that are kept for the next run."""
    build_data.cache_clear()
    _load.cache_clear()


def data_digest(task: str, data_dir: str | None) -> str:
    """Sixteen hexadecimal digits of the task's data."""
    return _digest(TASKS[task].load, data_dir)


@functools.lru_cache(maxsize=1)
def _digest(load: Callable[[str | None], Dataset], data_dir: str | None) -> str:
    digest = hashlib.sha256()
    for array in _load(load, data_dir):
        if array is not None:
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def own_rows(data: Dataset, test_parts: Parts) -> HeldOut:
    """The test data if each worker is tested on the rows split off for it."""
    rows, workers = np.concatenate(test_parts), np.arange(len(test_parts))
    owner = np.repeat(workers, [len(part) for part in test_parts])
    return HeldOut(data.X[rows], data.y[rows], owner == workers[:, None])


def own_labels(y_test: np.ndarray, y: np.ndarray, parts: Parts) -> np.ndarray:
    """The rows of the data set's own test set whose label worker k trains on: (N, M) bool."""
    return np.stack([np.isin(y_test, np.unique(y[part])) for part in parts])
