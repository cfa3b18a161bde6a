"""The command line that the examples share."""

import argparse
import dataclasses
import itertools
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from refimpl import arrays, graphs
from refimpl.experiments import registry, run
from refimpl.experiments.config import Config
from refimpl.experiments.options import parse
from refimpl.experiments.tasks import TASKS
from refimpl.experiments.words import duration
from refimpl.process import reason, say
from refimpl.related import schedules
from refimpl.released import DIFFERENCES


def main(task: str, argv: list[str] | None = None) -> int:
    """Runs the task's grid, and returns the exit status."""
    start = time.perf_counter()
    p, args = parse(task, argv)
    task = args.task  # --dataset may have chosen another
    try:
        runs = prepare(task, args)
        from refimpl.experiments import runner  # here: nobody waits half a second to be refused

        run_all, jobs, threads = runner.machine(args)
    except (OSError, ValueError, MemoryError) as error:
        p.error(reason(error))
    if args.dry_run:
        runner.plan(runs, args.out, jobs, args.data_dir)
        return 0
    p.need_folder(args.out)
    results = runner.run_grid(runs, args.out, jobs, args.data_dir, threads, run_all)
    runner.show(results, TASKS[task].title, args)
    say(f"It took {duration(time.perf_counter() - start)}")
    return 0


def prepare(task: str, args: argparse.Namespace) -> list[Config]:
    """The runs, after checking everything that can be checked beforehand.

    Raises ValueError, OSError or MemoryError.
    """
    if args.device and not args.gpu:
        raise ValueError("--device chooses a GPU and needs --gpu")
    arrays.choose(args.gpu, args.device)  # says now what is missing
    runs = configs(task, args)
    for config in runs:
        registry.check(config)
    check(runs, args.data_dir)
    return runs


def check(runs: list[Config], data_dir: str | None) -> None:
    """Raises ValueError, OSError or MemoryError if one of the runs cannot be computed."""
    for config in sorted(runs, key=lambda c: c.seed):  # one seed's data at a time
        run.check(run.prepare(config, data_dir))


def configs(task: str, args: argparse.Namespace) -> list[Config]:
    """The grid: every rule, attack and seed, without repetitions."""
    fixed = {f.name: getattr(args, f.name) for f in dataclasses.fields(Config) if hasattr(args, f.name)}
    fixed |= {"task": task, "released": tuple(name for name in DIFFERENCES if name in args.released)}
    fixed["graph"] = name_or_file(args.graph, graphs.GRAPHS, graphs.read_edges)
    fixed["graph_schedule"] = name_or_file(args.graph_schedule, schedules.SCHEDULES, schedules.read_rounds)
    names = itertools.product(args.rules, args.attacks, args.seeds)
    runs = [Config(rule=rule, attack=attack, seed=seed, **fixed) for rule, attack, seed in names]
    return list(dict.fromkeys(runs))


def name_or_file(text: str, table: Collection[str], read: Callable[[str], Iterable[Any]]) -> Any:
    """What a file of that name holds; the text as it is if it names an entry of the table, or no file."""
    return tuple(read(text)) if text.partition(":")[0] not in table and Path(text).is_file() else text
