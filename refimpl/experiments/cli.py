"""The command line that the examples share."""

import argparse
import dataclasses
import itertools
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib

from refimpl import arrays, graphs
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments import figures, grid, summary, tasks
from refimpl.experiments.endings import reason, say
from refimpl.experiments.files import write
from refimpl.experiments.options import HelpFormatter, Parser, folder, number, parse, parser, whole_number
from refimpl.experiments.paper import ACCURACY, FIGURES
from refimpl.experiments.progress import Board, duration, several, shown
from refimpl.experiments.runs import protocol
from refimpl.experiments.tasks import TASKS, Config, Edges
from refimpl.related import Rounds, schedules

__all__ = ["HelpFormatter", "Parser", "configs", "folder", "main", "number", "parser", "whole_number"]


def main(task: str, argv: list[str] | None = None) -> int:
    """Runs the task's grid; the exit status."""
    start = time.perf_counter()
    p, args = parse(task, argv)
    task = args.task  # --dataset may have chosen another
    try:
        runs = prepare(task, args)
        run_all, places = connect(args.cluster) if args.cluster else (grid.run_all, joblib.cpu_count())
    except (OSError, ValueError, MemoryError) as error:
        p.error(reason(error))
    jobs = args.jobs or (1 if args.gpu and not args.cluster else places)
    threads = args.threads or (1 if args.cluster else None)
    if args.dry_run:
        plan(runs, args.out, jobs, args.data_dir, threads)
        return 0
    p.need_folder(args.out)
    results = run_grid(runs, args.out, jobs, args.data_dir, threads, run_all)
    show(results, TASKS[task].title, args)
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
    for config in sorted(runs, key=lambda c: c.seed):  # one seed's data at a time
        tasks.build(config, args.data_dir)
    return runs


def configs(task: str, args: argparse.Namespace) -> list[Config]:
    """The grid: every rule, attack and seed, without repetitions."""
    fixed = {f.name: getattr(args, f.name) for f in dataclasses.fields(Config) if hasattr(args, f.name)}
    fixed |= {"task": task, "released": tuple(args.released)}
    fixed |= {"graph": graph_of(args.graph), "graph_schedule": schedule_of(args.graph_schedule)}
    names = itertools.product(args.rules, args.attacks, args.seeds)
    runs = [Config(rule=rule, attack=attack, seed=seed, **fixed) for rule, attack, seed in names]
    return list(dict.fromkeys(runs))


def graph_of(text: str) -> str | Edges:
    """A name in GRAPHS as it is; the edges in a file, unless it is called like a graph."""
    return tuple(graphs.read_edges(text)) if is_file(text, graphs.GRAPHS) else text


def schedule_of(text: str) -> str | Rounds:
    """Likewise the name of a schedule, or the rounds in a file."""
    return schedules.read_rounds(text) if is_file(text, schedules.SCHEDULES) else text


def is_file(text: str, table: dict[str, Any]) -> bool:
    """Whether it names a file; the names in the table come first."""
    return text.partition(":")[0] not in table and Path(text).is_file()


# --- Running ------------------------------------------------------------------------------------------------

RunAll = Callable[..., Iterator[dict[str, Any]]]  # in the form of `grid.run_all`


def connect(address: str) -> tuple[RunAll, int]:
    """`cluster.connect`, for which distributed has to be installed."""
    try:
        from refimpl.experiments import cluster
    except ImportError as error:
        raise ValueError(f"--cluster needs distributed, pip install '.[cluster]': {error}") from None
    return cluster.connect(address)


def run_grid(
    runs: list[Config],
    out: Path,
    jobs: int,
    data_dir: str | None,
    threads: int | None,
    run_all: RunAll | None = None,
) -> list[dict[str, Any]]:
    """All results, from files where they are there already, showing progress.

    No more than `jobs` at a time; `threads` of each, or by default the cores divided among them.
    """
    found = {config: grid.saved(config, out, data_dir) for config in runs}
    results = [result for result in found.values() if result]
    todo = [config for config, result in found.items() if not result]
    if results:
        say(f"{len(results)} of {several(len(runs), 'run')} are in {out} already")
    if old := grid.outdated(out):
        say(f"{several(old, 'file')} in {out} of another version of the code: not used")
    if not todo:
        return results
    jobs = min(jobs, len(todo))
    threads = threads or max(1, joblib.cpu_count() // jobs)
    seconds = estimates(todo, data_dir, threads)
    if (total := sum(seconds.values()) / jobs) > 20:
        say(f"about {duration(total)} for {several(len(todo), 'run')}, {jobs} at a time")
    board = Board({grid.path_of(config, out, data_dir): seconds[config] for config in todo})
    results.extend(shown((run_all or grid.run_all)(todo, out, jobs, data_dir, threads), board))
    return results


def plan(runs: list[Config], out: Path, jobs: int, data_dir: str | None, threads: int | None) -> None:
    """What --dry-run prints: the setting, the runs by rule, and how long what is missing would take."""
    print(textwrap.fill(in_common(runs), summary.WIDTH, break_on_hyphens=False))
    todo = [config for config in runs if not grid.path_of(config, out, data_dir).exists()]
    jobs = max(1, min(jobs, len(todo)))
    seconds = estimates(todo, data_dir, threads or max(1, joblib.cpu_count() // jobs))
    rules = list(dict.fromkeys(config.rule for config in runs))
    width = max(map(len, rules)) + 1
    for rule in rules:
        attacks = " ".join(dict.fromkeys(c.attack for c in runs if c.rule == rule))
        missing = [config for config in todo if config.rule == rule]
        rest = f"{len(missing)} to run, {duration(sum(seconds[c] for c in missing))} of work"
        print(f"{rule:{width}}{attacks}: {rest if missing else 'all there'}")
    left = duration(sum(seconds.values()) / jobs)
    print(f"{len(todo)} of {several(len(runs), 'run')} to do, about {left} at {jobs} at a time")


def in_common(runs: list[Config]) -> str:
    """The options that all runs share, as "workers 10, attackers 3, ..."; nobody lies if the attack is none."""
    facts: dict[str, set[Any]] = {"workers": {c.workers for c in runs}}
    facts["attackers"] = {c.attackers for c in runs if ATTACKS[c.attack].lies} or {0}
    names = ("epochs", "risk", "optimizer", "lr", "batch_size", "partition", "features", "dtype", "seed")
    facts |= {name: {getattr(c, name) for c in runs} for name in names}
    for name in ("graph", "graph_schedule"):
        values = [getattr(c, name) for c in runs]
        facts[name] = {value if isinstance(value, str) else "from a file" for value in values if value}
    told = [f"{name.replace('_', '-')} {found.pop()}" for name, found in facts.items() if len(found) == 1]
    protocols = {protocol(dataclasses.asdict(c)) for c in runs}
    return ", ".join(told + (list(protocols) if len(protocols) == 1 else []))


def estimates(todo: list[Config], data_dir: str | None, threads: int) -> dict[Config, float]:
    """Seconds of each run, from one timed run of each kind.

    Rules that score models cost much more than others, on all local data most, and without attackers more
    workers score. Each system is a kind of its own.
    """
    kinds: dict[tuple[Any, ...], list[Config]] = {}
    for config in todo:
        rule = RULES[config.rule].scores if config.rule in RULES else config.rule
        kind = (rule, config.risk, config.optimizer, ATTACKS[config.attack].lies)
        kinds.setdefault(kind, []).append(config)
    timed = {kind: grid.seconds(some[0], data_dir, threads) for kind, some in kinds.items()}
    return {config: timed[kind] for kind, some in kinds.items() for config in some}


def show(results: list[dict[str, Any]], title: str, args: argparse.Namespace) -> None:
    """Writes the table as CSV, and the figure; then prints the table, if anyone listens."""
    write(args.out / "table.csv", summary.csv_table(results))
    made = ["a JSON file per run", "table.csv"]
    name = f"figure_{args.figure}" if args.figure else "figure"
    shows = FIGURES[args.task][args.figure].shows if args.figure else (ACCURACY,)
    try:
        figures.figure(results, title, args.out / f"{name}.png", shows)
        made.append(f"{name}.png and .pdf")
    except ImportError as error:
        say(f"no figure: matplotlib does not import ({error}): pip install '.[examples]'")
    seeds = " ".join(map(str, dict.fromkeys(args.seeds)))
    liars = args.attackers if any(ATTACKS[name].lies for name in args.attacks) else 0
    sizes = f"{args.workers} workers, {several(liars, 'attacker')}, {several(args.epochs, 'epoch')}"
    print(f"{title}: {sizes}, seed {seeds}")
    for what in shows:
        print(f"{summary.TABLES[what].about}\n\n{summary.text_table(results, what)}\n")
    print(f"{summary.sent(results)}")
    print(f"\nIn {args.out}: {', '.join(made)}")
