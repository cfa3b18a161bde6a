"""A grid of runs: in parallel, resumable, one JSON file per run.

A run is named by its `Config`. Its file carries the configuration in full, and in its name a fingerprint of
the configuration, the data and the code: the same command finishes what is missing, while another option, other
data or an edited rule never reuse a stale result and never overwrite one. A file that is not as it was written
is set aside.
"""

import contextlib
import math
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import joblib

import refimpl
from refimpl import arrays, train
from refimpl.experiments import checkpoints, results, watch
from refimpl.experiments.atomic import remove, set_aside, write
from refimpl.experiments.config import Config
from refimpl.experiments.fingerprint import code_of, fingerprint
from refimpl.experiments.registry import Added, added, install
from refimpl.experiments.results import RunResult
from refimpl.experiments.run import AfterRound, compute, prepare
from refimpl.experiments.tasks import data_digest
from refimpl.process import end_with_parent, reason, say


def run(config: Config, data_dir: str | None = None, threads: int = 1, path: Path | None = None) -> RunResult:
    """The result of one run. If `path` is its file, it goes on from the checkpoint beside it.

    The numbers are the same for any number of threads.
    """
    start = time.perf_counter()
    xp = arrays.choose(config.gpu, config.device)
    ready = prepare(config, data_dir, xp)
    since, hooks = None, list[AfterRound]()
    if path:
        kept = checkpoints.path_of(path)
        since = checkpoints.load(kept, xp)
        hooks = [checkpoints.keeper(kept), watch.reporter(watch.path_of(path), ready.rounds, config.epochs)]
    trained = compute(ready, threads, since, hooks)
    return RunResult(
        config=config,
        attackers=ready.setting.attackers.tolist(),
        rounds_per_epoch=ready.rounds_per_epoch,
        bytes_per_round=ready.bytes_per_round,
        evaluated=train.evaluation_epochs(config.epochs, ready.evaluate_every),
        history={
            name: [value if math.isfinite(value) else None for value in column]  # JSON has no NaN
            for name, column in trained.history.items()
        },
        weights_at={epoch: C.tolist() for epoch, C in trained.weights_at.items()},
        accuracy=trained.accuracy,
        data=data_digest(config.task, data_dir),
        code=code_of(config),
        versions=versions(xp),
        threads=threads,
        seconds=time.perf_counter() - start,
    )


def versions(xp: ModuleType) -> dict[str, str]:
    """The versions of refimpl, Python and the packages that compute."""
    found = {"refimpl": refimpl.__version__, "python": platform.python_version()}
    found |= {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return found | {xp.__name__: xp.__version__}


# --- Files --------------------------------------------------------------------------------------------------


def path_of(config: Config, out: Path, data_dir: str | None = None) -> Path:
    """The run's file: adaptive_alie_seed0_1a2b3c4d.json."""
    return out / f"{config.name}_{fingerprint(config, data_digest(config.task, data_dir))}.json"


def saved(config: Config, out: Path, data_dir: str | None = None) -> RunResult | None:
    """The result of an earlier run, or None. A file in its place that does not hold it is set aside."""
    path = path_of(config, out, data_dir)
    if not path.exists():
        return None
    try:
        result = results.load(path)
        if replace(result.config, device=0) != replace(config, device=0):
            raise ValueError("it is of another run")
        if result.data != data_digest(config.task, data_dir):
            raise ValueError("it is of other data")
    except (OSError, ValueError) as error:
        say(f"{path} is not used ({reason(error)}); now {set_aside(path).name}, and computed again")
        return None
    return result


def stored(out: Path) -> list[RunResult]:
    """All results in the folder that can be read, whatever computed them."""
    found = []
    for path in out.glob("*.json"):
        with contextlib.suppress(Exception):  # it may be anything
            found.append(results.load(path))
    return found


def outdated(out: Path) -> int:
    """How many results in the folder were computed by another version of the code."""
    count = 0
    for path in out.glob("*.json"):
        with contextlib.suppress(Exception):
            content = results.load_json(path)
            if results.is_run(content):
                now = content["format"] == results.FORMAT and results.from_json(content)
                count += not (now and now.code == code_of(now.config))
    return count


def run_to_file(config: Config, path: Path, data_dir: str | None, threads: int, entries: Added) -> RunResult:
    """Runs, writes the file, and returns the result. `entries` are those that a user has added."""
    end_with_parent()
    install(entries)
    result = run(config, data_dir, threads, path)
    write(path, results.as_json(result))
    for beside in (checkpoints.path_of(path), watch.path_of(path)):
        remove(beside)
    return result


RunAll = Callable[..., Iterator[RunResult]]  # in the form of `run_all`


def run_all(
    configs: list[Config], out: Path, jobs: int, data_dir: str | None, threads: int = 1
) -> Iterator[RunResult]:
    """Computes the runs, up to `jobs` at a time, yielding each result as soon as its file is written."""
    entries, job = added(), joblib.delayed(run_to_file)
    pool = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from pool(job(c, path_of(c, out, data_dir), data_dir, threads, entries) for c in configs)
