"""Times whole grids on all cores, and what a run spends on evaluation.

    python benchmarks/grids.py --data-dir FOLDER    # with folders har and mnist; fetched once without
    python benchmarks/grids.py --tasks har --write  # and into docs/engineering/PERFORMANCE.md; other lines stay

The grids: the README's main command, and HAR's six rules against four attacks for 10 epochs. PyTorch's code
(torch_rounds.fast) has the rule adaptive only, so it computes the runs whose rule scores models as if it were
theirs, under their attacks, in as many processes, each with one thread; on random data as large, and without
evaluation. The ratio is of these runs. Estimate, evaluation, and the milliseconds of a round in the first and
the last epoch are those of one run of each task with adaptive and ALIE, on one thread.
"""

import contextlib
import functools
import io
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import rounds
import timing
from timing import libraries

from refimpl import draws, train
from refimpl.aggregate import RULES
from refimpl.experiments import cli, grid
from refimpl.experiments.config import Config
from refimpl.experiments.options import HelpFormatter, Parser, folder, parser, whole_number
from refimpl.experiments.tasks import TASKS, build
from refimpl.fast.engine import engine
from refimpl.process import ended

SIX = "--rules adaptive average medoid trimmed-mean median krum --attacks sign-flip arbitrary foe alie"
# Options of the grid; epochs of the single run. MNIST's grid would take most of a day.
GRIDS: dict[str, tuple[str | None, int]] = {
    "spambase": ("", 20),
    "har": (f"{SIX} --epochs 10", 50),
    "mnist": (None, 8),
}


def configs(task: str, options: str) -> list[Config]:
    return cli.configs(task, parser(task).parse_args(options.split()))


def seconds_of_grid(runs: list[Config], jobs: int, data_dir: str | None) -> float:
    """Seconds of the runs by `grid.run_all`, into a folder that is thrown away."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        for _ in grid.run_all(runs, Path(out), jobs, data_dir):
            pass
    return time.perf_counter() - start


def torch_run(task: str, dtype: str, risk: str, attack: str, count: int) -> None:
    """Computes `count` rounds of `torch_rounds.fast` at the task's size, on one thread."""
    import torch_rounds

    with timing.threads(1):
        running = torch_rounds.fast(rounds.case(task, dtype, risk, attack))
        for _ in range(count):
            next(running)


def seconds_of_torch(runs: list[Config], jobs: int, data_dir: str | None) -> float:
    """Seconds of PyTorch for as many runs as there are, each with as many rounds."""
    setting, _, _ = build(runs[0], data_dir)
    count = runs[0].epochs * draws.rounds_per_epoch(train.sizes(setting), runs[0].batch_size)
    job = joblib.delayed(torch_run)
    start = time.perf_counter()
    joblib.Parallel(n_jobs=jobs)(job(c.task, c.dtype, c.risk, c.attack, count) for c in runs)
    return time.perf_counter() - start


def share(task: str, epochs: int, data_dir: str | None) -> dict[str, float]:
    """The seconds that one run took, the share of its evaluations, and its pace.

    The pace is the milliseconds of a round in the first epoch and in the last.
    """
    (config,) = configs(task, f"--rules adaptive --attacks alie --epochs {epochs}")
    every = TASKS[task].evaluate_every
    setting, test, W = build(config, data_dir)
    network = engine(setting).model
    with timing.threads(1):
        next(train.rounds(setting, W, config.seed, engine))  # imports what is imported on demand
        after = [(0, time.perf_counter())]  # so many rounds
        train.run(
            setting, test, W, config.seed, epochs, engine, every=every,
            after_round=lambda progress: after.append((progress().state.t, time.perf_counter())),
        )  # fmt: skip
        taken = time.perf_counter() - after[0][1]
        evaluate = functools.partial(train.evaluate, setting, test, W, network)
        once = np.median([timing.seconds(evaluate, 1) for _ in range(3)])
    share = len(train.evaluation_epochs(epochs, every)) * float(once) / taken
    t, times = map(np.array, zip(*after, strict=True))
    ms = 1000 * np.diff(times) / np.diff(t)
    paces = [float(np.median(part)) for part in np.array_split(ms, min(len(ms), max(2, epochs)))]
    first, last = paces[0], paces[-1]
    return {"taken": taken, "evaluation": share, "first": first, "last": last}


def seconds_of_both(task: str, options: str, jobs: int, data_dir: str | None) -> dict[str, Any]:
    """The times of the grid, of those of its runs that score models, and of PyTorch's."""
    runs = configs(task, options)
    scoring = [config for config in runs if RULES[config.rule].scores]
    row: dict[str, Any] = {"runs": len(runs), "scoring": len(scoring)}
    row |= {"all": seconds_of_grid(runs, jobs, data_dir), "these": seconds_of_grid(scoring, jobs, data_dir)}
    if not libraries.missing("torch"):
        row["fast"] = seconds_of_torch(scoring, jobs, data_dir)
    return row


def main(argv: list[str] | None = None) -> int:
    p = Parser(description="Seconds of whole grids.", formatter_class=HelpFormatter)
    add = p.add_argument
    add("--tasks", nargs="+", choices=list(GRIDS), default=list(GRIDS), help="which grids")
    add("--jobs", type=whole_number(1), default=os.cpu_count(), help="processes")
    add("--data-dir", metavar="FOLDER", help="with folders har and mnist (fetched once without)")
    add("--write", action="store_true", help="put what is printed into docs/engineering/PERFORMANCE.md")
    add("--out", type=folder, default=Path("results/benchmarks"), help="folder for grids.json")
    args = p.parse_args(argv)
    p.need_folder(args.out)
    table, results = timing.Table(), []
    table.say(f"Seconds of grids, {args.jobs} at a time, and of their runs that score models;")
    table.say("of one run, with the share of its evaluations, and its ms per round")
    table.say("         runs    all scores  these  fast         taken  eval  first   last")
    for task in args.tasks:
        options, epochs = GRIDS[task]
        data_dir = str(Path(args.data_dir, task)) if args.data_dir and task != "spambase" else None
        row: dict[str, Any] = {"task": task}
        line = f"{task:9}"
        with contextlib.redirect_stderr(io.StringIO()):
            if options is not None:
                row |= seconds_of_both(task, options, args.jobs, data_dir)
                line += f"{row['runs']:4}{row['all']:7.1f}{row['scoring']:7}{row['these']:7.1f}"
            if "fast" in row:
                line += f"{row['fast']:6.1f} {row['fast'] / row['these']:4.2f}x"
            row |= share(task, epochs, data_dir)
        line = f"{line:46}{row['taken']:7.1f}{row['evaluation']:6.1%}"
        line += f"{row['first']:7.3g}{row['last']:7.3g}"
        table.say(line)
        results.append(row)
    timing.write(args.out, "grids.json", {"jobs": args.jobs, "results": results})
    if args.write:
        table.lines += [
            line for line in table.of_page("grid") if line.split(" ")[0] in {*GRIDS} - {*args.tasks}
        ]
        table.into_page("grid")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
