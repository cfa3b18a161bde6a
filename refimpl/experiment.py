"""A grid of runs: presets, in parallel, resumable, one JSON file per run.

A run is named by its `Config`. Its file carries the configuration in full, and in its name a fingerprint of
the configuration and of the code that computed it: the same command finishes what is missing, while another
option or an edited rule never reuses a stale result and never overwrites one.
"""

import functools
import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

import data_loaders
import refimpl
from data_loaders import Dataset, digits, har, mnist, spambase
from data_loaders.partition import deal, split
from refimpl import arrays, draws, graphs, models, train
from refimpl.arrays import Array


class Task(NamedTuple):
    """One of the paper's experiments: its data, its network and the options it is run with."""

    title: str
    load: Callable[[str | None], Dataset]
    model: Callable[[], models.Model]
    test_share: float  # of each worker's rows, where the data set has no test set of its own
    partitions: tuple[str, ...]
    defaults: dict[str, Any]  # of the command line, by option
    note: str = ""  # below the command line's help
    datasets: tuple[str, ...] = ()  # tasks that --dataset chooses among


TASKS = {
    "spambase": Task(
        title="Spam detection on Spambase",
        load=spambase.load,
        model=lambda: models.mlp([57, 20, 2]),
        test_share=0.2,
        partitions=("nonuniform", "iid", "shards"),
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
        partitions=("by-subject",),
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
        note="The paper's other scenario: --attackers 6. A quick look: --risk batch --epochs 30.",
    ),
    "mnist": Task(
        title="Digit classification on MNIST",
        load=mnist.load,
        model=lambda: models.cnn(side=28, channels=(32, 64, 64), hidden=128, classes=10),
        test_share=0.0,
        partitions=("two-labels", "label-pairs", "iid"),
        defaults={
            "rules": ["adaptive", "average", "median", "krum", "local"],
            "attacks": ["sign-flip", "alie"],
            "workers": 10,
            "attackers": 3,
            "epochs": 1,
            "risk": "batch",
            "optimizer": "adam",
            "lr": 0.001,
            "batch_size": 64,
            "partition": "two-labels",
            "features": "raw",  # pixels in [0, 1]
            "dtype": "float32",
        },
        note="The paper's whole figure: --epochs 100 --attacks sign-flip arbitrary foe alie "
        "--rules adaptive average medoid trimmed-mean median krum; about ten hours on two cores.",
        datasets=("mnist", "digits"),
    ),
}
# The same task on scikit-learn's bundled digits: no download, fewer rows.
TASKS["digits"] = TASKS["mnist"]._replace(
    title="Digit classification on scikit-learn's digits",
    load=digits.load,
    defaults=TASKS["mnist"].defaults | {"epochs": 15},
)

FEATURES = ("standardised", "raw")
FRONT_END = ("cli.py", "report.py", "vectors.py")  # files that decide no run's numbers
DTYPES = ("float64", "float32")


@dataclass(frozen=True)
class Config:
    """All that decides a run's numbers, and the device, which does not."""

    task: str
    rule: str
    attack: str
    seed: int
    workers: int
    attackers: int
    epochs: int
    graph: str | tuple[tuple[int, int], ...]  # a name for `build_graph`, or the edges
    risk: str
    smoothing: float
    optimizer: str
    lr: float
    batch_size: int
    partition: str
    features: str
    dtype: str
    gpu: bool
    device: int = 0  # which GPU


# --- From a configuration to arrays -------------------------------------------------------------------------


def build_graph(graph: str | tuple[tuple[int, int], ...], workers: int, rng: np.random.Generator) -> np.ndarray:
    """complete, ring, regular[:DEGREE] (4), erdos-renyi[:P] (0.5), or the edges themselves."""
    if not isinstance(graph, str):
        return graphs.from_edges(workers, graph)
    name, _, number = graph.partition(":")
    if graph == "complete":
        return graphs.complete(workers)
    if graph == "ring":
        return graphs.ring(workers)
    if name == "regular" and (number or "4").isdecimal():
        return graphs.random_regular(workers, int(number or 4), rng)
    if name == "erdos-renyi" and (number or "0").replace(".", "", 1).isdecimal():
        return graphs.erdos_renyi(workers, float(number or 0.5), rng)
    names = "complete, ring, regular:DEGREE, erdos-renyi:P"
    raise ValueError(f"unknown graph {graph!r}: needs {names} or a file of edges")


@functools.lru_cache(maxsize=1)
def build_data(
    task: str, partition: str, features: str, workers: int, seed: int, data_dir: str | None
) -> train.Data:
    """Deals the rows to the workers and scales the features.

    Each worker's own test split is a share of its rows; where the data set has a test set of its own, it is
    the part of that with the labels that the worker trains on. "standardised" means zero mean and unit
    variance over all training rows, as if the workers had agreed on these two numbers per feature
    beforehand; a constant feature stays 0.
    """
    X, y, _, X_test, y_test = data = _load(task, data_dir)
    rng = draws.stream(seed, "partition")
    parts = deal(partition, data, workers, rng)
    if X_test is None or y_test is None:
        parts, test_parts = split(parts, TASKS[task].test_share, rng)
        test = np.concatenate(test_parts)
        owner = np.repeat(np.arange(workers), [len(part) for part in test_parts])
        X_test, y_test, own_test = X[test], y[test], owner == np.arange(workers)[:, None]
    else:
        own_test = np.stack([np.isin(y_test, np.unique(y[part])) for part in parts])
    if features == "standardised":
        seen = X[np.concatenate(parts)]
        mean, std = seen.mean(axis=0), seen.std(axis=0)
        X, X_test = ((x - mean) / np.where(std > 0, std, 1) for x in (X, X_test))
    longest = max(map(len, parts))
    local_X = np.zeros((workers, longest, *X.shape[1:]), X.dtype)
    local_y = np.full((workers, longest), -1)
    for k, part in enumerate(parts):
        local_X[k, : len(part)], local_y[k, : len(part)] = X[part], y[part]
    return train.Data(local_X, local_y, X_test, y_test, own_test)


@functools.lru_cache(maxsize=1)
def _load(task: str, data_dir: str | None) -> Dataset:
    return TASKS[task].load(data_dir)


def build(config: Config, data_dir: str | None = None, xp: ModuleType = np) -> tuple[train.Setting, Array]:
    """The setting and the initial parameters of a run, in arrays of `xp`. Raises ValueError if it cannot be."""
    c = config
    count = c.attackers if c.attack != "none" else 0
    if not 0 <= count < c.workers:
        raise ValueError(f"one worker must be normal, got {count} attackers of {c.workers} workers")
    data = build_data(c.task, c.partition, c.features, c.workers, c.seed, data_dir)
    model = TASKS[c.task].model()
    setting = train.Setting(
        model=model,
        data=data.to(xp, c.dtype),
        graph=build_graph(c.graph, c.workers, draws.stream(c.seed, "graph")),
        attackers=draws.attackers(c.workers, count, draws.stream(c.seed, "attackers")),
        rule=c.rule,
        attack=c.attack,
        risk=c.risk,
        smoothing=c.smoothing,
        optimizer=c.optimizer,
        lr=c.lr,
        batch_size=c.batch_size,
    )
    train.check(setting)
    W = draws.initial(model.layout, c.workers, draws.stream(c.seed, "init"))
    return setting, xp.asarray(W.astype(c.dtype))


# --- Runs and their files -----------------------------------------------------------------------------------


def run(config: Config, data_dir: str | None = None, threads: int = 1) -> dict[str, Any]:
    """Trains and returns what the run's file will hold, all of it plain Python.

    How many threads a matrix product has decides no more than rounding.
    """
    start = time.perf_counter()
    xp = arrays.choose(config.gpu, config.device)
    setting, W = build(config, data_dir, xp)
    with threadpool_limits(threads):
        result = train.run(setting, W, config.seed, config.epochs)
    return {
        "config": asdict(config),
        "attackers": setting.attackers.tolist(),
        "rounds_per_epoch": draws.rounds_per_epoch(setting.data.sizes(), config.batch_size),
        "history": {name: [_number(v) for v in column] for name, column in result.history.items()},
        "weights": None if result.weights is None else result.weights.tolist(),
        "versions": versions(xp),
        "threads": threads,
        "seconds": time.perf_counter() - start,
    }


def seconds(config: Config, data_dir: str | None, threads: int = 1) -> float:
    """About how long the run will take, by its second round (the first one warms up)."""
    setting, W = build(config, data_dir, arrays.choose(config.gpu, config.device))
    with threadpool_limits(threads):
        rounds = train.rounds(setting, W, config.seed)
        next(rounds)
        start = time.perf_counter()
        arrays.to_host(next(rounds).state.W)  # waits for a device
        once = time.perf_counter() - start
    return once * config.epochs * draws.rounds_per_epoch(setting.data.sizes(), config.batch_size)


def _number(value: float) -> float | None:
    """JSON has no NaN and no infinity: null."""
    return value if math.isfinite(value) else None


def versions(xp: ModuleType) -> dict[str, str]:
    packages = ("numpy", "scipy", "scikit-learn")
    found = {"refimpl": refimpl.__version__, "code": code_digest(), "python": platform.python_version()}
    found |= {name: version(name) for name in packages}
    return found | {xp.__name__: xp.__version__}


@functools.cache
def code_digest() -> str:
    """A digest of the source that decides the numbers: all of refimpl and data_loaders but FRONT_END."""
    folders = [Path(package.__file__).parent for package in (refimpl, data_loaders)]  # type: ignore[arg-type]
    files = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    source = b"".join(path.read_bytes() for path in files if path.name not in FRONT_END)
    return hashlib.sha256(source).hexdigest()[:16]


def path_of(config: Config, out: Path) -> Path:
    """The run's file: adaptive_alie_seed0_1a2b3c4d.json."""
    name = json.dumps([asdict(replace(config, device=0)), code_digest()], sort_keys=True)
    fingerprint = hashlib.sha256(name.encode()).hexdigest()[:8]
    return out / f"{config.rule}_{config.attack}_seed{config.seed}_{fingerprint}.json"


def write(path: Path, text: str) -> None:
    """Writes all or nothing: to a file beside it, then renames."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(text)
    part.replace(path)


def run_to_file(config: Config, path: Path, data_dir: str | None, threads: int = 1) -> dict[str, Any]:
    """Runs, writes the file, and only then returns the result."""
    result = run(config, data_dir, threads)
    write(path, json.dumps(result, indent=1, allow_nan=False) + "\n")
    return result


def saved(config: Config, out: Path) -> dict[str, Any] | None:
    """The result of an earlier run, or None."""
    path = path_of(config, out)
    return json.loads(path.read_text()) if path.exists() else None


def run_all(
    configs: list[Config], out: Path, jobs: int, data_dir: str | None, threads: int = 1
) -> Iterator[dict[str, Any]]:
    """Runs them, `jobs` at a time, yielding each result as soon as its file is written."""
    pool = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from pool(joblib.delayed(run_to_file)(c, path_of(c, out), data_dir, threads) for c in configs)
