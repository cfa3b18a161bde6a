"""A grid of runs: in parallel, resumable, one JSON file per run.

A run is named by its `Config`. Its file carries the configuration in full, the data, the code and the entries
by their digests, and in its name a fingerprint of all four: the same command finishes what is missing, while
another option, other data or an edited rule never reuse a stale result and never overwrite one. A file that is
not as it was written is set aside.
"""

import contextlib
import math
import platform
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import joblib

import refimpl
from refimpl import arrays, train
from refimpl.experiments import checkpoints, results, watch
from refimpl.experiments.atomic import remove, set_aside, write
from refimpl.experiments.config import Config
from refimpl.experiments.fingerprint import Origin, fingerprint, origin_of
from refimpl.experiments.registry import Entries, at_home, entries, installed
from refimpl.experiments.results import RunResult
from refimpl.experiments.run import AfterRound, compute, prepare
from refimpl.experiments.tasks import data_digest
from refimpl.process import end_with_parent, reason, say


def run(config: Config, data_dir: str | None = None, threads: int = 1, path: Path | None = None) -> RunResult:
    """The result of one run. If `path` is its file, it goes on from the checkpoint beside it.

    The numbers are the same for any number of threads.
    """
    start, origin = time.perf_counter(), origin_of(config)
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
        code=origin.code,
        entries=origin.entries,
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
    return out / file_name(config, data_digest(config.task, data_dir), origin_of(config))


def file_name(config: Config, data: str, origin: Origin) -> str:
    """The name of the file of a run on these data, of this origin."""
    return f"{config.name}_{fingerprint(config, data, origin)}.json"


def name_of(result: RunResult) -> str:
    """The name of the file of a result, by what the result says itself."""
    return file_name(result.config, result.data, Origin(result.code, result.entries))


def is_there(config: Config, out: Path, data_dir: str | None = None) -> bool:
    """Whether the run has a file. Never so if its entries can't be compared: it may be a file of others."""
    return origin_of(config).known and path_of(config, out, data_dir).exists()


def saved(config: Config, out: Path, data_dir: str | None = None) -> RunResult | None:
    """The result of an earlier run, or None. A file in its place that does not hold it is set aside."""
    path = path_of(config, out, data_dir)
    if not origin_of(config).known:
        for old in (path, checkpoints.path_of(path)):
            if old.exists():
                set_aside(old)
    if not path.exists():
        return None
    try:
        result = results.load(path)
        if name_of(result) != path.name:
            raise ValueError("it is of another run")
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
                count += not (now and results.is_todays(now))
    return count


def run_to_file(config: Config, path: Path, data_dir: str | None, threads: int, sent: Entries) -> RunResult:
    """Runs, writes the file, and returns the result; `sent` are the entries that it uses.

    Raises OSError if it is another run here than in the process that asked for it.
    """
    end_with_parent()
    with installed(at_home(sent)):
        if path_of(config, path.parent, data_dir) != path:
            what = f"the code, the data or a value that {config.name} depends on"
            raise OSError(f"{what} is not as it was when the command started: start it again")
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
    paths = [path_of(config, out, data_dir) for config in configs]  # now: a run may change what it uses
    sent, job = entries(configs), joblib.delayed(run_to_file)
    pool = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from pool(job(c, path, data_dir, threads, sent) for c, path in zip(configs, paths, strict=True))
