"""The command line that the examples share."""

import argparse
import dataclasses
import itertools
import sys
from pathlib import Path
from typing import Any, NoReturn

import joblib

from refimpl import aggregate, arrays, experiment, graphs, report, train
from refimpl.attacks import ATTACKS
from refimpl.experiment import Config
from refimpl.optim import OPTIMIZERS


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, status 2."""
        self.exit(2, f"{self.prog}: {message}\n")


class HelpFormatter(argparse.HelpFormatter):
    def _get_help_string(self, action: argparse.Action) -> str | None:
        """Adds the default where there is one worth showing."""
        default = action.default
        if default in (None, False, argparse.SUPPRESS):
            return action.help
        if isinstance(default, list):
            everything = list(action.choices or ()) == default
            default = "all" if everything else " ".join(map(str, default))
        return f"{action.help} (default: {default})"


def whole_number(least: int) -> Any:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"needs a whole number, {least} or more, got {text}")
        return value

    return parse


def number(low: float, high: float) -> Any:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = low
        if not low < value <= high:
            raise argparse.ArgumentTypeError(f"needs a number above {low:g} and up to {high:g}, got {text}")
        return value

    return parse


def parser(task: str) -> Parser:
    """The options, with the task's own defaults."""
    preset = experiment.TASKS[task]
    p = Parser(
        description=f"{preset.title}: rules against attacks, worst and mean test accuracy.",
        epilog=preset.note,
        formatter_class=HelpFormatter,
    )
    add = p.add_argument
    if preset.datasets:
        add("--dataset", choices=preset.datasets, default=task, help="the paper's, or one without a download")
    add(
        "--rules",
        nargs="+",
        choices=aggregate.NAMES,
        default=list(aggregate.NAMES),
        metavar="RULE",
        help="of " + ", ".join(aggregate.NAMES),
    )
    add(
        "--attacks",
        nargs="+",
        choices=ATTACKS,
        default=list(ATTACKS),
        metavar="ATTACK",
        help="of " + ", ".join(ATTACKS),
    )
    add("--workers", type=whole_number(2), help="how many workers, N")
    add("--attackers", type=whole_number(0), help="how many of them are adversarial, F < N")
    add("--epochs", type=whole_number(1), help="passes over the local data")
    add(
        "--seeds",
        nargs="+",
        type=whole_number(0),
        default=[0],
        metavar="SEED",
        help="one run per seed; the table shows their mean",
    )
    add(
        "--graph",
        default="complete",
        help="complete, ring, regular:DEGREE, erdos-renyi:P, or a file of edges, two worker numbers a line",
    )
    add(
        "--risk",
        choices=train.RISKS,
        help="what a model is scored on: all local data (the paper's r_k) or the round's batch (cheaper)",
    )
    add(
        "--smoothing",
        type=number(0, 1),
        default=1.0,
        metavar="SHARE",
        help="share of the new risk in a running average over the rounds; 1: none, as in the paper",
    )
    add("--optimizer", choices=OPTIMIZERS, help="of the local step")
    add("--lr", type=number(0, float("inf")), help="learning rate")
    add("--batch-size", type=whole_number(1), help="rows per local step")
    add("--partition", choices=preset.partitions, help="how the rows are dealt to the workers")
    add("--features", choices=experiment.FEATURES, help="scale the features, or take them as they are")
    add("--dtype", choices=experiment.DTYPES, help="precision of all arithmetic")
    add("--gpu", action="store_true", help="compute on an NVIDIA GPU with CuPy")
    add("--device", type=whole_number(0), default=0, metavar="NUMBER", help="which GPU, the first being 0")
    add(
        "--jobs",
        type=whole_number(1),
        help="runs at a time; default: one per core, 1 with --gpu, where runs would take turns and each hold a "
        "copy of the data",
    )
    add(
        "--threads",
        type=whole_number(1),
        help="of the matrix products of one run; default: the cores, divided among the runs at a time",
    )
    add("--out", type=Path, default=Path("results") / task, help="folder for the results")
    add("--data-dir", help="folder with the data; default: as shipped, or fetched once into a cache folder")
    p.set_defaults(**preset.defaults)
    return p


def configs(task: str, args: argparse.Namespace) -> list[Config]:
    """The grid: every rule, attack and seed, without repetitions."""
    fixed = {f.name: getattr(args, f.name) for f in dataclasses.fields(Config) if hasattr(args, f.name)}
    if Path(args.graph).is_file():
        fixed["graph"] = tuple(graphs.read_edges(args.graph))
    names = itertools.product(args.rules, args.attacks, args.seeds)
    grid = [Config(task=task, rule=rule, attack=attack, seed=seed, **fixed) for rule, attack, seed in names]
    return list(dict.fromkeys(grid))


def main(task: str, argv: list[str] | None = None) -> int:
    """Runs the task's grid; the exit status."""
    p = parser(task)
    args = p.parse_args(argv)
    if getattr(args, "dataset", task) != task:
        return main(args.dataset, argv)  # the same options with other defaults
    try:
        if args.device and not args.gpu:
            raise ValueError("--device chooses a GPU and needs --gpu")
        arrays.choose(args.gpu, args.device)  # says now what is missing
        grid = configs(task, args)
        for config in sorted(grid, key=lambda c: c.seed):  # one seed's data at a time
            experiment.build(config, args.data_dir)
        if args.out.exists() and not args.out.is_dir():
            raise ValueError(f"--out needs a folder, but {args.out} is a file")
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        p.error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except ValueError as error:
        p.error(str(error))
    jobs = args.jobs or (1 if args.gpu else joblib.cpu_count())
    try:
        threads = args.threads or max(1, joblib.cpu_count() // min(jobs, len(grid)))
        results = run_grid(grid, args.out, jobs, args.data_dir, threads)
    except KeyboardInterrupt:
        print(
            f"\ninterrupted; finished runs are in {args.out}, the same command does the rest", file=sys.stderr
        )
        return 130
    show(results, experiment.TASKS[task].title, args)
    return 0


def run_grid(
    grid: list[Config], out: Path, jobs: int, data_dir: str | None, threads: int
) -> list[dict[str, Any]]:
    """All results, from files where they are there already, showing progress."""
    results = [result for config in grid if (result := experiment.saved(config, out))]
    todo = [config for config in grid if not experiment.path_of(config, out).exists()]
    if results:
        print(f"{len(results)} of {len(grid)} runs are in {out} already", file=sys.stderr)
    if todo and (total := estimate(todo, data_dir, threads) / min(jobs, len(todo))) > 20:
        unit, name = (3600, "hours") if total > 5400 else (60, "minutes") if total > 90 else (1, "seconds")
        about = f"{total / unit:.0f} {name}"
        print(f"about {about} for {len(todo)} runs, {jobs} at a time", file=sys.stderr, flush=True)
    for result in progress(experiment.run_all(todo, out, jobs, data_dir, threads), len(todo)):
        results.append(result)
    return results


def estimate(todo: list[Config], data_dir: str | None, threads: int) -> float:
    """Seconds of work in all, from one timed run of each kind.

    Rules that score models cost much more than others, and without attackers more workers score.
    """
    kinds: dict[tuple[bool, bool], list[Config]] = {}
    for config in todo:
        kinds.setdefault((config.rule in aggregate.WEIGHTS, config.attack == "none"), []).append(config)
    return sum(len(kind) * experiment.seconds(kind[0], data_dir, threads) for kind in kinds.values())


def progress(results: Any, total: int) -> Any:
    """Passes the results through, with a bar on a terminal and a line each elsewhere."""
    if sys.stderr.isatty():
        try:
            from tqdm import tqdm
        except ImportError:
            pass
        else:
            yield from tqdm(results, total=total, unit="run", leave=False)
            return
    for i, result in enumerate(results, start=1):
        c, worst = result["config"], result["history"]["worst_own"][-1]
        print(
            f"[{i}/{total}] {c['rule']} {c['attack']} seed {c['seed']}: "
            f"worst {worst:.2f} in {result['seconds']:.1f} s",
            file=sys.stderr, flush=True,
        )  # fmt: skip
        yield result


def show(results: list[dict[str, Any]], title: str, args: argparse.Namespace) -> None:
    """Prints the table; writes it as CSV, and the figure."""
    seeds = " ".join(map(str, args.seeds))
    print(f"{title}: {args.workers} workers, {args.attackers} attackers, {args.epochs} epochs, seed {seeds}")
    print("Test accuracy of the normal workers after the last epoch, worst and mean:")
    print("own is each on its own test split, whole is each on all workers' test data.\n")
    print(report.text_table(results))
    experiment.write(args.out / "table.csv", report.csv_table(results))
    made = ["a JSON file per run", "table.csv"]
    try:
        report.figure(results, title, args.out / "figure.png")
        made.append("figure.png")
    except ImportError:
        print("no figure: matplotlib is missing, pip install '.[examples]'", file=sys.stderr)
    print(f"\nIn {args.out}: {', '.join(made)}")
