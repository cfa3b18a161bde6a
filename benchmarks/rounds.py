"""Times a full round of Algorithm 1 (local step, attack, aggregation) of the three tasks at the paper's sizes.

    python benchmarks/rounds.py              # beside PyTorch, if it is installed
    python benchmarks/rounds.py --gpu        # and a GPU, in the same run
    python benchmarks/rounds.py --profile    # where refimpl's time goes instead
    python benchmarks/rounds.py --write      # and puts the table into docs/engineering/PERFORMANCE.md

refimpl    train.rounds
plain      the PyTorch code a competent user would write: a module per worker, autograd, loops (torch_rounds.py)
fast       the fastest PyTorch we could write: all workers in one call (torch_rounds.py)
floor      the products of the definition alone, at the rate of one large product, timed in the same turns

The data are random, of the tasks' shapes. Rule adaptive, attack ALIE; the risk is taken on the round's batch,
in a second block on all local data. Before anything is timed, all columns must arrive at the same parameters.
With several threads, refimpl's parts and torch have as many, and the floor as many products at a time. It
counts every message, and convolutions as defined: who scores equal messages once, or transforms tiles, needs
fewer.
"""

import cProfile
import itertools
import math
import os
import pstats
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import timing
from timing import libraries

import refimpl
from refimpl import algorithm, arrays, attacks, draws, graphs, models, train
from refimpl.experiments.options import HelpFormatter, Parser, folder, whole_number
from refimpl.experiments.tasks import DTYPES, TASKS
from refimpl.fast import networks, parallel, plan
from refimpl.fast.engine import engine
from refimpl.process import ended

# A worker's rows. Of MNIST's 6000 a part; with the risk on all of them, the part that takes about a second.
ROWS = {
    "batch": {"spambase": 368, "har": 257, "mnist": 640},
    "local": {"spambase": 368, "har": 257, "mnist": 128},
}
SIDE = 1024  # of the large product
# How many times refimpl's time `fast` should take, by risk, task and threads; and refimpl the floor's, on one.
GOALS = {("batch", "spambase", 1): 2.0, ("batch", "spambase", 2): 2.0, ("batch", "har", 1): 1.3}
GOALS |= {("batch", "har", 2): 1.3, ("batch", "mnist", 1): 1.1, ("batch", "mnist", 2): 1.0}
GOALS |= {("local", task, threads): 1.2 for task in ("spambase", "har", "mnist") for threads in (1, 2)}
AT_MOST = {"har": 2.0, "mnist": 1.4}


class Case(NamedTuple):
    """A task at the paper's size: random data and initial parameters, on the host."""

    model: models.MLP | models.Network
    N: int  # workers
    F: int  # attackers, the first ones
    z: float  # ALIE's
    optimizer: str
    lr: float
    batch_size: int
    X: np.ndarray  # (N, rows, ...)
    y: np.ndarray  # (N, rows)
    W: np.ndarray  # (N, d)
    risk: str  # as in `algorithm.Setting`
    attack: str

    def draws(self) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Endless row numbers (N, B), and the attack's signals: those of `train.rounds` with seed 0."""
        return train.Draws(setting(self, np), self.W, seed=0)


def case(task: str, dtype: str, risk: str = "batch", attack: str = "alie") -> Case:
    """Of any of the paper's attacks; without one there are no attackers."""
    preset = TASKS[task]
    model, options, rng = preset.model(), preset.defaults, np.random.default_rng(0)
    assert isinstance(model, models.MLP | models.Network)
    N, F, n = options["workers"], options["attackers"], ROWS[risk][task]
    F = F if attacks.ATTACKS[attack].lies else 0
    X = rng.random((N, n, *model.sample)).astype(dtype)
    y = rng.integers(0, model.layout.fields[-1].size, (N, n))
    W = draws.initial(model.layout, N, draws.stream(0, "init")).astype(dtype)
    how = options["optimizer"], options["lr"], options["batch_size"]
    return Case(model, N, F, attacks.alie_z(N, F) if F else 0.0, *how, X, y, W, risk, attack)


def setting(c: Case, xp: ModuleType) -> algorithm.Setting:
    return algorithm.Setting(
        c.model, list(xp.asarray(c.X)), list(xp.asarray(c.y)), graphs.complete(c.N), np.arange(c.F), "adaptive",
        c.attack, c.risk, c.optimizer, c.lr, batch_size=c.batch_size,
    )  # fmt: skip


def refimpl_rounds(c: Case, xp: ModuleType) -> Iterator[np.ndarray]:
    """Endless rounds in arrays of `xp`; yields W, which may still be on a device."""
    for result in train.rounds(setting(c, xp), xp.asarray(c.W), seed=0, engine=engine):
        W = result.state.W
        del result
        yield W


def flops(c: Case) -> float:
    """Multiplications and additions in a round's matrix products, convolutions counted as in their definition.

    Two products flow back through a layer for one forwards; in the first layer one, as data learn nothing.
    """
    forward, side = [], c.model.sample[0]  # per row, by layer
    for field in c.model.layout.fields:
        if field.name[0] == "K":
            out = side // 2 * 2  # pooling drops an odd row
            forward.append(2 * math.prod(field.shape) * out**2)
            side //= 2
        elif field.name[0] == "W":
            forward.append(2 * math.prod(field.shape))
    gradients = c.N * c.batch_size * (3 * sum(forward) - forward[0])
    scored = c.batch_size if c.risk == "batch" else c.X.shape[1]
    risks = (c.N - c.F) * c.N * scored * sum(forward)
    combine = 2 * (c.N - c.F) * c.N * c.W.shape[1]
    return gradients + risks + combine


def columns(c: Case, gpu: ModuleType | None) -> dict[str, Iterator[Any]]:
    """The columns by name: endless rounds that yield W, or in torch a function that gives it."""
    found: dict[str, Iterator[Any]] = {"refimpl": refimpl_rounds(c, np)}
    if gpu:
        found["gpu"] = refimpl_rounds(c, gpu)
    if not libraries.missing("torch"):
        import torch_rounds

        found |= {"plain": torch_rounds.plain(c)} if (c.risk, c.attack) == ("batch", "alie") else {}
        found["fast"] = torch_rounds.fast(c)
    return found


def check(task: str, gpu: ModuleType | None, risk: str = "batch", attack: str = "alie") -> None:
    """Raises AssertionError unless all columns arrive at the same parameters after two rounds, in float64."""
    expected = None
    for name, running in columns(case(task, "float64", risk, attack), gpu).items():
        next(running)
        W = next(running)
        W = arrays.to_host(W() if callable(W) else W)
        expected = W if expected is None else expected
        np.testing.assert_allclose(W, expected, rtol=1e-9, atol=1e-9, err_msg=name)


def measure(c: Case, gpu: ModuleType | None, threads: int, count: int) -> dict[str, Any]:
    """Quartiles of `count` rounds by column, and what the floor is made of."""
    square = np.random.default_rng(0).random((SIDE, SIDE)).astype(c.X.dtype)
    turns: dict[str, Callable[[], Any]] = {name: _next(running) for name, running in columns(c, gpu).items()}
    turns["floor"] = lambda: parallel.parallel_for(lambda _: square @ square, range(threads))
    # Where rounds carry products over, one in 32 takes longer: a turn must be long enough to hold it.
    carries = plan.carries(setting(c, np), networks.batched(c.model))
    with timing.threads(threads):
        ms = timing.take_turns(turns, count, turn=1.5 if carries else 0.2)
    large = 2 * SIDE**3 * threads
    rate = large / ms["floor"][1] / 1e6
    ms["floor"] = [t * flops(c) / large for t in ms["floor"]]
    return {"ms": ms, "gflop": flops(c) / 1e9, "gflop_per_s": rate}


def in_processes(c: Case, gpu: ModuleType | None, threads: int, count: int, processes: int) -> dict[str, Any]:
    """`measure` in that many processes, one after the other: medians, and in "ratios" refimpl's from each.

    Where arrays come to lie, and which core they meet, is decided once in a process.
    """
    if processes == 1 or gpu:  # whose library is not sent to another process
        found = [measure(c, gpu, threads, count)]
    else:
        pool = ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1)
        with pool:
            found = [pool.submit(measure, c, gpu, threads, count).result() for _ in range(processes)]
    names = found[0]["ms"]
    ms = {name: np.median([row["ms"][name] for row in found], axis=0).tolist() for name in names}
    ratios = {name: sorted(row["ms"][name][1] / row["ms"]["refimpl"][1] for row in found) for name in names}
    return {**found[0], "ms": ms, "ratios": ratios}


def spread(ratios: list[float]) -> str:
    """The median, and the least and the largest."""
    return f"{np.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def goals(results: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each goal that the results speak of."""
    for row in results:
        risk, task, threads, ms = row["risk"], row["task"], row["threads"], row["ms"]
        what, goal, most = f"{task:9}{risk:6}{threads:3}", GOALS.get((risk, task, threads)), AT_MOST.get(task)
        if row["dtype"] != "float32":
            continue
        if goal and "fast" in ms:
            times = row["ratios"]["fast"]
            missed = "" if np.median(times) >= goal else ", missed"
            yield f"{what}  fast at least {goal:3}x: {spread(times)}{missed}"
        if most and (risk, threads) == ("batch", 1):
            times = [1 / ratio for ratio in row["ratios"]["floor"]]
            missed = "" if np.median(times) <= most else ", missed"
            yield f"{what}  at most {most} floors: {spread(times)}{missed}"


def _next(running: Iterator[Any]) -> Callable[[], Any]:
    def once() -> None:
        W = next(running)
        if hasattr(W, "get"):
            W[0, 0].get()  # the copy of one number waits until a device has finished

    return once


def profile(task: str, dtype: str, count: int, table: timing.Table) -> None:
    """Prints which functions of refimpl take a round's time; what they call in numpy counts as theirs."""
    running = refimpl_rounds(case(task, dtype), np)
    next(running)
    start = time.perf_counter()
    for _ in range(count):
        next(running)
    usual = 1000 * (time.perf_counter() - start) / count
    with cProfile.Profile() as profiler:
        for _ in range(count):
            next(running)
    own: Counter[str] = Counter()
    for (path, _, name), (_, _, seconds, _, callers) in pstats.Stats(profiler).stats.items():  # type: ignore
        where = {(path, name): seconds} if is_ours(path) else {}
        if not is_ours(path):
            where = {(caller, function): row[2] for (caller, _, function), row in callers.items()}
        for (file, function), spent in where.items():
            own[f"{Path(file).stem}.{function}" if is_ours(file) else "inside numpy"] += 1000 * spent / count
    table.say(f"{task} {dtype}: {usual:.3g} ms per round, {sum(own.values()):.3g} under the profiler, of these")
    for function, ms in own.most_common(9):
        table.say(f"{ms:10.3f}  {function}")


def is_ours(path: str) -> bool:
    return Path(refimpl.__file__).parent in Path(path).parents


def main(argv: list[str] | None = None) -> int:
    p = Parser(description="Milliseconds per round of the three tasks.", formatter_class=HelpFormatter)
    add, cores = p.add_argument, sorted({1, os.cpu_count() or 1})
    add("--tasks", nargs="+", choices=list(ROWS["batch"]), default=list(ROWS["batch"]), help="which tasks")
    add("--risks", nargs="+", choices=list(ROWS), default=list(ROWS), help="taken on what")
    add("--dtypes", nargs="+", choices=DTYPES, default=["float32", "float64"], help="of W")
    add("--threads", nargs="+", type=whole_number(1), default=cores, metavar="K", help="of refimpl and torch")
    add("--rounds", type=whole_number(1), default=15, help="turns of each column, of 0.2 s or one round")
    add("--processes", type=whole_number(1), default=3, help="that measure it, one after the other")
    add("--gpu", action="store_true", help="add a column for an NVIDIA GPU with CuPy")
    add("--profile", action="store_true", help="only refimpl, by function; one thread")
    add("--write", action="store_true", help="put what is printed into docs/engineering/PERFORMANCE.md")
    add("--out", type=folder, default=Path("results/benchmarks"), help="folder for rounds.json")
    args = p.parse_args(argv)
    if args.profile:
        table = timing.Table()
        with timing.threads(1):
            for task in args.tasks:
                profile(task, args.dtypes[0], args.rounds, table)
        if args.write:
            table.into_page("profile")
        return 0
    try:
        gpu = arrays.gpu() if args.gpu else None
    except arrays.DeviceError as error:
        p.error(str(error))
    p.need_folder(args.out)
    if libraries.missing("torch"):
        print("no columns plain and fast: torch is missing, pip install '.[bench]'", file=sys.stderr)
    results: list[dict[str, Any]] = []
    table = timing.Table()
    for risk in args.risks:
        for task in args.tasks:
            check(task, gpu, risk)
            for dtype, threads in itertools.product(
                args.dtypes if risk == "batch" else ["float32"], args.threads
            ):
                row = in_processes(case(task, dtype, risk), gpu, threads, args.rounds, args.processes)
                if not any(r["risk"] == risk for r in results):
                    what = {"batch": "the round's batch", "local": "all local data"}[risk]
                    table.say(f"\nMilliseconds per round, risk on {what}, by task, bits, threads")
                    table.say(timing.header(14, list(row["ms"])))
                table.say(timing.line(f"{task:9}{dtype[5:]}{threads:3}", list(row["ms"]), row["ms"]))
                results.append({"task": task, "risk": risk, "dtype": dtype, "threads": threads, **row})
    if reached := list(goals(results)):
        table.say("\nGoals, float32, by task, risk, threads")
        for text in reached:
            table.say(text)
    timing.write(args.out, "rounds.json", {"results": results})
    if args.write:
        table.into_page("rounds")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
