"""The runs of a command: computed where no file has them yet, planned, shown."""

import argparse
import dataclasses
import textwrap
from pathlib import Path

import joblib

from refimpl.experiments import figures, grid, run, tables, watch
from refimpl.experiments.atomic import write
from refimpl.experiments.config import Config
from refimpl.experiments.fingerprint import origin_of
from refimpl.experiments.presets import ACCURACY, FIGURES
from refimpl.experiments.results import Results, config_cells, csv_text, protocol
from refimpl.experiments.watch import Board, show_progress
from refimpl.experiments.words import duration, several
from refimpl.process import say


def machine(args: argparse.Namespace) -> tuple[grid.RunAll, int, int | None]:
    """What computes the runs, how many at a time, and with how many threads each; None: as there are cores.

    Raises ValueError if there is no such cluster.
    """
    run_all, places = connect(args.cluster) if args.cluster else (grid.run_all, joblib.cpu_count())
    jobs = args.jobs or (1 if args.gpu and not args.cluster else places)
    return run_all, jobs, args.threads or (1 if args.cluster else None)


def connect(address: str) -> tuple[grid.RunAll, int]:
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
    run_all: grid.RunAll | None = None,
) -> Results:
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
    if unsure := [origin.entries for config in todo if not (origin := origin_of(config)).known]:
        what = f"they use {unsure[0]}, and nobody can tell whether it is as before"
        say(f"{several(len(unsure), 'run')} to be computed anew: {what}")
    if not todo:
        return results
    # One run of each kind comes first, to know early how long all will take.
    first = {watch.kind_of(config): config for config in reversed(todo)}
    todo.sort(key=lambda config: first[watch.kind_of(config)] is not config)
    jobs = min(jobs, len(todo))
    threads = threads or max(1, joblib.cpu_count() // jobs)
    board = Board({config: grid.path_of(config, out, data_dir) for config in todo}, jobs, results)
    results.extend(show_progress((run_all or grid.run_all)(todo, out, jobs, data_dir, threads), board))
    return results


def plan(runs: list[Config], out: Path, jobs: int, data_dir: str | None) -> None:
    """Prints the setting, the runs by rule, and how much work those are that are missing: --dry-run."""
    print(textwrap.fill(in_common(runs), tables.WIDTH, break_on_hyphens=False))
    todo = [config for config in runs if not grid.is_there(config, out, data_dir)]
    jobs = max(1, min(jobs, len(todo)))
    known = watch.paces(grid.stored(out))
    rules = list(dict.fromkeys(config.rule for config in runs))
    width = max(map(len, rules)) + 1
    for rule in rules:
        attacks = " ".join(dict.fromkeys(c.attack for c in runs if c.rule == rule))
        missing = [config for config in todo if config.rule == rule]
        rest = f"{len(missing)} to run, {work(missing, known, data_dir)}"
        print(f"{rule:{width}}{attacks}: {rest if missing else 'all there'}")
    print(f"{len(todo)} of {several(len(runs), 'run')} to do, {work(todo, known, data_dir, jobs)}")


def work(todo: list[Config], known: dict[Config, float], data_dir: str | None, jobs: int = 1) -> str:
    """How long the runs take, `jobs` at a time, if the seconds per epoch of all their kinds are known.

    Otherwise how many rounds they have.
    """
    kinds = {config: watch.kind_of(config) for config in todo}
    if not all(kind in known for kind in kinds.values()):
        seeds = sorted(todo, key=lambda c: c.seed)  # one seed's data at a time
        return several(sum(run.prepare(config, data_dir).rounds for config in seeds), "round")
    seconds = sum(config.epochs * known[kind] for config, kind in kinds.items())
    return f"about {duration(seconds / jobs)}" + (f" at {jobs} at a time" if jobs > 1 else "")


def in_common(runs: list[Config]) -> str:
    """The options that all runs share, as "workers 10, attackers 3, ..."; nobody lies if the attack is none."""
    rows, told = [config_cells(c) | {"attackers": max(c.liars for c in runs)} for c in runs], []
    for field in dataclasses.fields(Config):
        value, *others = {row[field.name] for row in rows}
        named = field.name in ("task", "rule", "attack", "released")  # by the command, below, and at the end
        if not others and not named and value not in (field.default, ""):
            told.append(f"{field.name.replace('_', '-')} {value}")
    protocols = {protocol(c) for c in runs}
    return ", ".join(told + (list(protocols) if len(protocols) == 1 else []))


def newer(files: list[Path], sources: list[Path]) -> bool:
    """Whether all the files are there, and none was written before one of its sources."""
    written = [path.stat().st_mtime_ns for path in files if path.exists()]
    return len(written) == len(files) and min(written) >= max(path.stat().st_mtime_ns for path in sources)


def show(results: Results, title: str, args: argparse.Namespace) -> None:
    """Writes the table as CSV, and the figure, unless they are there already; then prints the table."""
    table, text = args.out / "table.csv", csv_text(tables.rows(results))
    if not table.exists() or table.read_bytes() != text.encode():
        write(table, text)
    made = ["a JSON file per run", "table.csv"]
    name = f"figure_{args.figure}" if args.figure else "figure"
    shows = FIGURES[args.task][args.figure].shows if args.figure else (ACCURACY,)
    drawn = [args.out / f"{name}.{kind}" for kind in ("png", "pdf")]
    try:
        if not newer(drawn, [table, Path(figures.__file__)]):  # drawing takes as long as all the rest
            figures.figure(results, title, drawn[0], shows)
        made.append(f"{name}.png and .pdf")
    except ImportError as error:
        say(f"no figure: matplotlib does not import ({error}): pip install '.[examples]'")
    liars = several(max(run.config.liars for run in results), "attacker")
    sizes = f"{args.workers} workers, {liars}, {several(args.epochs, 'epoch')}"
    print(f"{title}: {sizes}, {figures.seeds_of(results)}")
    for what in shows:
        print(f"{tables.QUANTITIES[what].about}\n\n{tables.text_table(results, what)}\n")
    print("\n".join(filter(None, (tables.one_seed(results), tables.sent(results), tables.too_few(results)))))
    print(f"\nIn {args.out}: {', '.join(made)}")
