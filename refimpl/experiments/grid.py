"""A grid of runs: in parallel, resumable, one JSON file per run.

A run is named by its `Config`. Its file carries the configuration in full, and in its name a fingerprint of
the configuration, the data and the code: the same command finishes what is missing, while another option, other
data or an edited rule never reuse a stale result and never overwrite one. A file that is not as it was written
is set aside.
"""

import contextlib
import functools
import json
import math
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import joblib
import numpy as np

import refimpl
from refimpl import arrays, draws, related, released, train
from refimpl.aggregate import RULES
from refimpl.algorithm import Setting
from refimpl.arrays import Array
from refimpl.experiments import checkpoints, progress
from refimpl.experiments.endings import end_with_parent, reason, say
from refimpl.experiments.files import set_aside, write
from refimpl.experiments.fingerprint import code_of_rule, fingerprint, seal
from refimpl.experiments.tables import Added, added, install
from refimpl.experiments.tasks import TASKS, Config, build, data_digest, rounds_of, schedule_of
from refimpl.fast import parts
from refimpl.fast import released as released_fast
from refimpl.fast.networks import batched
from refimpl.models import Network


def engine(config: Config, setting: Setting) -> train.Engine:
    """What computes the rounds: all workers at once, the specification, the released code, or a system."""
    if config.rule not in RULES:
        return related.engine(config.rule, schedule_of(config, setting))
    if on := released.in_the_round(config.released):
        return functools.partial(released.engine if config.plain else released_fast.engine, on=on)
    return train.plain if config.plain else train.fast


def prepared(config: Config, data_dir: str | None, xp: ModuleType) -> tuple[Setting, train.HeldOut, Array]:
    """`tasks.build`. A system goes worker by worker, but through the network of `fast` unless told --plain."""
    setting, test, W = build(config, data_dir, xp)
    if config.rule in RULES or config.plain:
        return setting, test, W
    return setting._replace(model=batched(setting.model) or setting.model), test, W


def run(
    config: Config, data_dir: str | None = None, threads: int = 1, path: Path | None = None
) -> dict[str, Any]:
    """One run, as its file holds it. If `path` is that file, it goes on from the checkpoint beside it.

    The numbers are the same for any number of threads.
    """
    start = time.perf_counter()
    xp = arrays.choose(config.gpu, config.device)
    setting, test, W = prepared(config, data_dir, xp)
    every = TASKS[config.task].evaluate_every
    rounds = draws.rounds_per_epoch(train.sizes(setting), config.batch_size)
    with parts.threads(threads):
        more = watched(path, config.epochs, rounds, xp) if path else ()
        result = train.run(setting, test, W, config.seed, config.epochs, engine(config, setting), every, *more)
    return {
        "config": asdict(config),
        "data": data_digest(config.task, data_dir),
        "attackers": setting.attackers.tolist(),
        "rounds_per_epoch": rounds,
        "bytes_per_round": bytes_per_round(config, setting),
        "evaluated": train.evaluated(config.epochs, every),  # after these epochs
        "history": {name: [_number(v) for v in column] for name, column in result.history.items()},
        "weights": None if result.weights is None else result.weights.tolist(),
        "weights_at": {str(epoch): C.tolist() for epoch, C in result.weights_at.items()},
        "accuracy": result.accuracy,  # of each normal worker
        "versions": versions(config, xp),
        "threads": threads,
        "seconds": time.perf_counter() - start,
    }


def bytes_per_round(c: Config, s: Setting) -> float:
    """What a worker sends in a round, to all its neighbours together: the mean over workers and rounds."""
    if c.rule in RULES:
        return related.a_model(s) if RULES[c.rule].listens else 0.0
    return related.bytes_per_round(c.rule, s, schedule_of(c, s), rounds_of(c, s))


def watched(
    path: Path, epochs: int, rounds: int, xp: ModuleType
) -> tuple[train.Progress | None, Callable[[Any], None]]:
    """Where the run was when it was stopped, and what to do after a round: keep that, tell how far it is."""
    keep = checkpoints.keeper(checkpoints.path_of(path))
    tell = progress.reporter(progress.path_of(path), epochs * rounds, epochs)

    def after_round(where: Callable[[], train.Progress]) -> None:
        keep(where)
        tell(where)

    return checkpoints.load(checkpoints.path_of(path), xp), after_round


def _number(value: float) -> float | None:
    """JSON has no NaN and no infinity: null."""
    return value if math.isfinite(value) else None


def versions(config: Config, xp: ModuleType) -> dict[str, str]:
    packages = ("numpy", "scipy", "scikit-learn")
    code, python = code_of_rule(config.rule), platform.python_version()
    found = {"refimpl": refimpl.__version__, "code": code, "python": python}
    found |= {name: version(name) for name in packages}
    return found | {xp.__name__: xp.__version__}


def seconds(config: Config, data_dir: str | None, threads: int = 1) -> float:
    """About how long the run will take, by some of its rounds and an evaluation on some rows."""
    xp = arrays.choose(config.gpu, config.device)
    setting, test, W = prepared(config, data_dir, xp)
    with parts.threads(threads):
        computed = engine(config, setting)
        rounds = train.rounds(setting, knowing_labels(setting, W), config.seed, computed)
        most = min(rounds_of(config, setting), 31)  # a schedule may not go on for longer
        times: list[float] = []
        while len(times) < min(2, most) or (sum(times[1:]) < 0.5 and len(times) < most):
            times.append(_timed(lambda: arrays.to_host(next(rounds).state.W)))  # waits for a device
        rows, X, y = 50, setting.X[:, :50], setting.y[:, :50]
        some = train.HeldOut(test.X[:rows], test.y[:rows], test.own[:, :rows])
        evaluate = functools.partial(train.evaluate, setting._replace(X=X, y=y), some, W, computed)
        evaluation = min(_timed(evaluate), _timed(evaluate))
    scale = max(1, (len(test.X) + setting.X.shape[1]) / (2 * rows))
    per_epoch = draws.rounds_per_epoch(train.sizes(setting), config.batch_size)
    evaluations = len(train.evaluated(config.epochs, TASKS[config.task].evaluate_every))
    a_round = statistics.median(times[1:] or times) * growth(config, setting, len(times))  # the first warms up
    return config.epochs * per_epoch * a_round + evaluations * scale * evaluation


def growth(config: Config, s: Setting, timed: int) -> float:
    """How many times as much a worker sends in the mean round of the run as in the mean of the first few.

    Rounds of `icwtm` and `mda` send more and more, and take longer and longer.
    """
    if config.rule in RULES:
        return 1.0
    first, whole = (related.bytes_per_round(config.rule, s, None, n) for n in (timed, rounds_of(config, s)))
    return whole / first if first else 1.0


def knowing_labels(s: Setting, W: Array) -> Array:
    """W, as if each worker had learned how frequent its labels are, as it has after a few rounds.

    How long `adaptive` takes depends on how soon it sees that a neighbour is worse.
    """
    bias = s.model.layout.fields[-1]
    y, classes = arrays.to_host(s.y), math.prod(bias.shape)
    if not isinstance(s.model, Network) or classes <= y.max():
        return W
    W = W.copy()
    for k, labels in enumerate(y):
        share = np.bincount(labels[labels >= 0], minlength=classes) / (labels >= 0).sum()
        W[k, bias.offset : bias.offset + classes] = arrays.module_of(W).asarray(np.log(share + 1e-6))
    return W


def _timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


# --- Files --------------------------------------------------------------------------------------------------


def path_of(config: Config, out: Path, data_dir: str | None = None) -> Path:
    """The run's file: adaptive_alie_seed0_1a2b3c4d.json."""
    digits = fingerprint(config, data_digest(config.task, data_dir))
    return out / f"{config.rule}_{config.attack}_seed{config.seed}_{digits}.json"


def saved(config: Config, out: Path, data_dir: str | None = None) -> dict[str, Any] | None:
    """The result of an earlier run, or None. A file in its place that does not hold it is set aside."""
    path = path_of(config, out, data_dir)
    if not path.exists():
        return None
    try:
        result = read(path)
        if result["config"] | {"device": 0} != json.loads(json.dumps(asdict(replace(config, device=0)))):
            raise ValueError("it is of another run")
        if result["data"] != data_digest(config.task, data_dir):
            raise ValueError("it is of other data")
    except (OSError, ValueError, RecursionError) as error:  # the last by brackets without end
        say(f"{path} is not used ({reason(error)}); now {set_aside(path).name}, and computed again")
        return None
    return result


def read(path: Path) -> dict[str, Any]:
    """The result in a file. Raises OSError or ValueError unless it is as it was written."""
    result = load(path)
    if not isinstance(result, dict) or result.pop("sha256", None) != seal(result):
        raise ValueError("not as it was written")
    return result


def load(path: Path) -> Any:
    """The JSON in a file, whatever it is."""
    if not path.is_file():  # a pipe would keep us waiting
        raise ValueError("not a file")
    return json.loads(path.read_text(encoding="utf-8"))


def outdated(out: Path) -> int:
    """How many results in the folder were computed by another version of the code."""
    count = 0
    for path in out.glob("*.json"):
        with contextlib.suppress(Exception):  # it may be anything
            result = load(path)
            count += result["versions"]["code"] != code_of_rule(result["config"]["rule"])
    return count


def run_to_file(
    config: Config, path: Path, data_dir: str | None, threads: int, entries: Added
) -> dict[str, Any]:
    """Runs, writes the file, and returns what it holds. `entries` are those that a user has added."""
    end_with_parent()
    install(entries)
    result = json.loads(json.dumps(run(config, data_dir, threads, path), allow_nan=False))
    write(path, json.dumps(result | {"sha256": seal(result)}, indent=1) + "\n")
    for beside in (checkpoints.path_of(path), progress.path_of(path)):
        beside.unlink(missing_ok=True)
    return result


def run_all(
    configs: list[Config], out: Path, jobs: int, data_dir: str | None, threads: int = 1
) -> Iterator[dict[str, Any]]:
    """Runs them, up to `jobs` at a time, yielding each result as soon as its file is written."""
    entries, job = added(), joblib.delayed(run_to_file)
    pool = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from pool(job(c, path_of(c, out, data_dir), data_dir, threads, entries) for c in configs)
