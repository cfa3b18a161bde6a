"""A grid of runs: in parallel, resumable, one JSON file per run.

A run is named by its `Config`. Its file carries the configuration in full, and in its name a fingerprint of
the configuration and of the code that computed it: the same command finishes what is missing, while another
option or an edited rule never reuses a stale result and never overwrites one.
"""

import functools
import json
import math
import platform
import time
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import joblib
from threadpoolctl import threadpool_limits

import refimpl
from refimpl import arrays, draws, related, released, train
from refimpl.aggregate import RULES
from refimpl.algorithm import Setting
from refimpl.experiments.files import write
from refimpl.experiments.fingerprint import code_of_run, fingerprint
from refimpl.experiments.tables import Added, added, install
from refimpl.experiments.tasks import Config, build, bytes_per_round, rounds_of, schedule_of


def engine(config: Config, setting: Setting) -> train.Engine:
    """What computes the rounds: a system, everything at once, or the specification, which smoothing needs."""
    if config.rule not in RULES:
        return related.engine(config.rule, schedule_of(config, setting))
    if config.smoothing < 1:
        return functools.partial(released.engine, smoothing=config.smoothing)
    return train.plain if config.plain else train.fast


def run(config: Config, data_dir: str | None = None, threads: int = 1) -> dict[str, Any]:
    """One run, as its file holds it.

    How many threads a matrix product has decides no more than rounding.
    """
    start = time.perf_counter()
    xp = arrays.choose(config.gpu, config.device)
    setting, test, W = build(config, data_dir, xp)
    with threadpool_limits(threads):
        result = train.run(setting, test, W, config.seed, config.epochs, engine(config, setting))
    return {
        "config": asdict(config),
        "attackers": setting.attackers.tolist(),
        "rounds_per_epoch": draws.rounds_per_epoch(train.sizes(setting), config.batch_size),
        "bytes_per_round": bytes_per_round(config, setting),
        "history": {name: [_number(v) for v in column] for name, column in result.history.items()},
        "weights": None if result.weights is None else result.weights.tolist(),
        "versions": versions(config, xp),
        "threads": threads,
        "seconds": time.perf_counter() - start,
    }


def _number(value: float) -> float | None:
    """JSON has no NaN and no infinity: null."""
    return value if math.isfinite(value) else None


def versions(config: Config, xp: ModuleType) -> dict[str, str]:
    packages = ("numpy", "scipy", "scikit-learn")
    found = {"refimpl": refimpl.__version__, "code": code_of_run(config), "python": platform.python_version()}
    found |= {name: version(name) for name in packages}
    return found | {xp.__name__: xp.__version__}


def seconds(config: Config, data_dir: str | None, threads: int = 1) -> float:
    """About how long the run will take, by its second round (the first one warms up)."""
    setting, _, W = build(config, data_dir, arrays.choose(config.gpu, config.device))
    with threadpool_limits(threads):
        rounds = train.rounds(setting, W, config.seed, engine(config, setting))
        next(rounds)
        start = time.perf_counter()
        arrays.to_host(next(rounds).state.W)  # waits for a device
        once = time.perf_counter() - start
    return once * rounds_of(config, setting)


# --- Files --------------------------------------------------------------------------------------------------


def path_of(config: Config, out: Path) -> Path:
    """The run's file: adaptive_alie_seed0_1a2b3c4d.json."""
    return out / f"{config.rule}_{config.attack}_seed{config.seed}_{fingerprint(config)}.json"


def saved(config: Config, out: Path) -> dict[str, Any] | None:
    """The result of an earlier run, or None."""
    path = path_of(config, out)
    return json.loads(path.read_text()) if path.exists() else None


def run_to_file(
    config: Config, path: Path, data_dir: str | None, threads: int, entries: Added
) -> dict[str, Any]:
    """Runs, writes the file, and only then returns the result. `entries` are those that a user has added."""
    install(entries)
    result = run(config, data_dir, threads)
    write(path, json.dumps(result, indent=1, allow_nan=False) + "\n")
    return result


def run_all(
    configs: list[Config], out: Path, jobs: int, data_dir: str | None, threads: int = 1
) -> Iterator[dict[str, Any]]:
    """Runs them, `jobs` at a time, yielding each result as soon as its file is written."""
    entries, job = added(), joblib.delayed(run_to_file)
    pool = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from pool(job(c, path_of(c, out), data_dir, threads, entries) for c in configs)
