"""The command line that the examples share."""

import argparse
import dataclasses
import itertools
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import joblib

from data_loaders.download import progress_bar
from refimpl import arrays, graphs
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments import figures, grid, summary, tasks
from refimpl.experiments.endings import reason, say
from refimpl.experiments.files import write
from refimpl.experiments.options import HelpFormatter, Parser, folder, number, parse, parser, whole_number
from refimpl.experiments.paper import ACCURACY, FIGURES
from refimpl.experiments.tasks import TASKS, Config, Edges

__all__ = ["HelpFormatter", "Parser", "configs", "folder", "main", "number", "parser", "whole_number"]


def main(task: str, argv: list[str] | None = None) -> int:
    """Runs the task's grid; the exit status."""
    start = time.perf_counter()
    p, args = parse(task, argv)
    task = args.task  # --dataset may have chosen another
    try:
        runs = prepare(task, args)
    except (OSError, ValueError, MemoryError) as error:
        p.error(reason(error))
    p.need_folder(args.out)
    jobs = args.jobs or (1 if args.gpu else joblib.cpu_count())
    results = run_grid(runs, args.out, jobs, args.data_dir, args.threads)
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
    fixed |= {"task": task, "graph": graph_of(args.graph), "released": tuple(args.released)}
    names = itertools.product(args.rules, args.attacks, args.seeds)
    runs = [Config(rule=rule, attack=attack, seed=seed, **fixed) for rule, attack, seed in names]
    return list(dict.fromkeys(runs))


def graph_of(text: str) -> str | Edges:
    """A name in GRAPHS as it is; the edges in a file, unless it is called like a graph."""
    named = text.partition(":")[0] in graphs.GRAPHS
    return tuple(graphs.read_edges(text)) if not named and Path(text).is_file() else text


# --- Running ------------------------------------------------------------------------------------------------


def run_grid(
    runs: list[Config], out: Path, jobs: int, data_dir: str | None, threads: int | None
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
    if (total := estimate(todo, data_dir, threads) / jobs) > 20:
        say(f"about {duration(total)} for {several(len(todo), 'run')}, {jobs} at a time")
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

    Rules that score models cost much more than others, and without attackers more workers score.
    """
    kinds: dict[tuple[bool, bool], list[Config]] = {}
    for config in todo:
        kinds.setdefault((RULES[config.rule].scores, ATTACKS[config.attack].lies), []).append(config)
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
        say(f"{line} in {result['seconds']:.1f} s")
        yield result


def show(results: list[dict[str, Any]], title: str, args: argparse.Namespace) -> None:
    """Writes the table as CSV, and the figure; then prints the table, if anyone listens."""
    write(args.out / "table.csv", summary.csv_table(results))
    made = ["a JSON file per run", "table.csv"]
    name = f"figure_{args.figure}" if args.figure else "figure"
    shows = FIGURES[args.task][args.figure].shows if args.figure else (ACCURACY,)
    try:
        figures.figure(results, title, args.out / f"{name}.png", shows)
        made.append(f"{name}.png and .pdf")
    except ImportError:
        say("no figure: matplotlib is missing, pip install '.[examples]'")
    seeds = " ".join(map(str, dict.fromkeys(args.seeds)))
    sizes = f"{args.workers} workers, {several(args.attackers, 'attacker')}, {several(args.epochs, 'epoch')}"
    print(f"{title}: {sizes}, seed {seeds}")
    print("Test accuracy of the normal workers, each on its own test split or on the whole.\n")
    print(summary.text_table(results))
    print(f"\nIn {args.out}: {', '.join(made)}")
