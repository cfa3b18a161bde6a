"""The command line that the examples share."""

import argparse
import dataclasses
import itertools
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import joblib

from data_loaders.download import progress_bar
from refimpl import arrays, graphs
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments import figures, grid, report, tasks
from refimpl.experiments.files import write
from refimpl.experiments.options import HelpFormatter, Parser, number, parser, whole_number
from refimpl.experiments.tasks import TASKS, Config, Edges

__all__ = ["HelpFormatter", "Parser", "configs", "main", "number", "parser", "whole_number"]


def main(task: str, argv: list[str] | None = None) -> int:
    """Runs the task's grid; the exit status."""
    start, p = time.perf_counter(), parser(task)
    args = p.parse_args(argv)
    if getattr(args, "dataset", task) != task:
        return main(args.dataset, argv)  # the same options with other defaults
    try:
        runs = prepare(task, args)
    except OSError as error:
        p.error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except ValueError as error:
        p.error(str(error))
    jobs = args.jobs or (1 if args.gpu else joblib.cpu_count())
    threads = args.threads or max(1, joblib.cpu_count() // min(jobs, len(runs)))
    try:
        results = run_grid(runs, args.out, jobs, args.data_dir, threads)
    except KeyboardInterrupt:
        rest = f"interrupted; finished runs are in {args.out}, the same command does the rest"
        print(f"\n{rest}", file=sys.stderr)
        return 130
    show(results, TASKS[task].title, args)
    print(f"It took {duration(time.perf_counter() - start)}", file=sys.stderr)
    return 0


def prepare(task: str, args: argparse.Namespace) -> list[Config]:
    """Checks everything that can be checked beforehand and makes the folder for the results; returns the runs.

    Raises ValueError or OSError.
    """
    if args.device and not args.gpu:
        raise ValueError("--device chooses a GPU and needs --gpu")
    arrays.choose(args.gpu, args.device)  # says now what is missing
    runs = configs(task, args)
    for config in sorted(runs, key=lambda c: c.seed):  # one seed's data at a time
        tasks.build(config, args.data_dir)
    if args.out.exists() and not args.out.is_dir():
        raise ValueError(f"--out needs a folder, but {args.out} is a file")
    args.out.mkdir(parents=True, exist_ok=True)
    return runs


def configs(task: str, args: argparse.Namespace) -> list[Config]:
    """The grid: every rule, attack and seed, without repetitions."""
    fixed = {f.name: getattr(args, f.name) for f in dataclasses.fields(Config) if hasattr(args, f.name)}
    fixed["graph"] = graph_of(args.graph)
    names = itertools.product(args.rules, args.attacks, args.seeds)
    runs = [Config(task=task, rule=rule, attack=attack, seed=seed, **fixed) for rule, attack, seed in names]
    return list(dict.fromkeys(runs))


def graph_of(text: str) -> str | Edges:
    """A name in GRAPHS as it is; the edges in a file, unless it is called like a graph."""
    named = text.partition(":")[0] in graphs.GRAPHS
    return tuple(graphs.read_edges(text)) if not named and Path(text).is_file() else text


# --- Running ------------------------------------------------------------------------------------------------


def run_grid(
    runs: list[Config], out: Path, jobs: int, data_dir: str | None, threads: int
) -> list[dict[str, Any]]:
    """All results, from files where they are there already, showing progress."""
    results = [result for config in runs if (result := grid.saved(config, out))]
    todo = [config for config in runs if not grid.path_of(config, out).exists()]
    if results:
        print(f"{len(results)} of {several(len(runs), 'run')} are in {out} already", file=sys.stderr)
    if todo and (total := estimate(todo, data_dir, threads) / min(jobs, len(todo))) > 20:
        about = f"about {duration(total)} for {several(len(todo), 'run')}, {jobs} at a time"
        print(about, file=sys.stderr, flush=True)
    results.extend(progress(grid.run_all(todo, out, jobs, data_dir, threads), len(todo)))
    return results


def several(count: int, what: str) -> str:
    """ "1 run", "2 runs"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def duration(seconds: float) -> str:
    """In the largest unit of which it is more than one and a half."""
    unit, name = (3600, "hour") if seconds > 5400 else (60, "minute") if seconds > 90 else (1, "second")
    return several(round(seconds / unit), name)


def estimate(todo: list[Config], data_dir: str | None, threads: int) -> float:
    """Seconds of work in all, from one timed run of each kind.

    Rules that score models cost much more than others, and without attackers more workers score. Each system is
    a kind of its own.
    """
    kinds: dict[tuple[Any, bool], list[Config]] = {}
    for config in todo:
        rule = RULES[config.rule].scores if config.rule in RULES else config.rule
        kinds.setdefault((rule, ATTACKS[config.attack].lies), []).append(config)
    return sum(len(kind) * grid.seconds(kind[0], data_dir, threads) for kind in kinds.values())


def progress(results: Iterable[dict[str, Any]], total: int) -> Iterator[dict[str, Any]]:
    """Passes the results through, with a bar on a terminal and a line each elsewhere."""
    if bar := progress_bar(total=total, unit="run"):
        with bar:
            for result in results:
                bar.update()
                yield result
        return
    for i, result in enumerate(results, start=1):
        c, worst = result["config"], result["history"]["worst_own"][-1]
        line = f"[{i}/{total}] {c['rule']} {c['attack']} seed {c['seed']}: worst {worst:.2f}"
        print(f"{line} in {result['seconds']:.1f} s", file=sys.stderr, flush=True)
        yield result


def show(results: list[dict[str, Any]], title: str, args: argparse.Namespace) -> None:
    """Prints the table; writes it as CSV, and the figure."""
    seeds = " ".join(map(str, dict.fromkeys(args.seeds)))
    sizes = f"{args.workers} workers, {several(args.attackers, 'attacker')}, {several(args.epochs, 'epoch')}"
    print(f"{title}: {sizes}, seed {seeds}")
    print("Test accuracy of the normal workers, each on its own test split or on the whole.\n")
    print(report.text_table(results))
    print(f"\n{report.sent(results)}")
    write(args.out / "table.csv", report.csv_table(results))
    made = ["a JSON file per run", "table.csv"]
    try:
        figures.figure(results, title, args.out / "figure.png")
        made.append("figure.png")
    except ImportError:
        print("no figure: matplotlib is missing, pip install '.[examples]'", file=sys.stderr)
    print(f"\nIn {args.out}: {', '.join(made)}")
