"""The options of the command line, in groups, and what they share."""

import argparse
import math
import textwrap
from pathlib import Path
from typing import Any, NoReturn

from data_loaders.partition import PARTITIONS
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments.tables import TABLES
from refimpl.experiments.tasks import DTYPES, FEATURES, TASKS
from refimpl.graphs import GRAPHS
from refimpl.optim import OPTIMIZERS

LISTED = {
    "Rules": "rule",
    "Attacks": "attack",
    "Graphs": "graph",
    "Partitions": "partition",
    "Features": "features",
    "Optimizers": "optimizer",
}


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, status 2."""
        self.exit(2, f"{self.prog}: {message}\n")


class HelpFormatter(argparse.HelpFormatter):
    def _get_help_string(self, action: argparse.Action) -> str | None:
        """Adds the default where there is one worth showing."""
        default = action.default
        if default is None or default is False or default is argparse.SUPPRESS:
            return action.help
        if isinstance(default, list):
            everything = list(action.choices or ()) == default
            default = "all" if everything else " ".join(map(str, default))
        return f"{action.help} (default: {default})"


class List(argparse.Action):
    """Prints the tables and ends, as --help does."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print("\n\n".join(listing(title, TABLES[kind]) for title, kind in LISTED.items()))
        parser.exit()


def listing(title: str, table: dict[str, Any]) -> str:
    """The names in a table, with what each is and where it comes from."""
    lines = [f"{title}:"]
    for name, entry in table.items():
        number = getattr(entry, "number", "")
        reference = "" if entry.reference == "-" else f" [{entry.reference}]"
        text = f"{f'{name}:{number}' if number else name:16}{entry.about}{reference}"
        lines.append(textwrap.fill(text, 80, initial_indent="  ", subsequent_indent=" " * 18))
    return "\n".join(lines)


# --- What an option takes -----------------------------------------------------------------------------------


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


def number(needs: str, low: float, high: float = math.inf, or_low: bool = False) -> Any:
    """Finite, above `low`, or equal to it if `or_low`, and at most `high`; `needs` says so in words."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (low < value <= high or (or_low and value == low)) or math.isinf(value):
            raise argparse.ArgumentTypeError(f"needs a number {needs}, got {text}")
        return value

    return parse


# --- The options --------------------------------------------------------------------------------------------


def parser(task: str) -> Parser:
    """The options, with the task's own defaults."""
    preset = TASKS[task]
    p = Parser(
        description=f"{preset.title}: rules against attacks, worst and mean test accuracy.",
        epilog=preset.note,
        formatter_class=HelpFormatter,
    )
    p.add_argument("--list", action=List, nargs=0, help="say what each rule, attack, graph, ... is, and exit")
    what_to_run(p.add_argument_group("what to run"), task)
    network(p.add_argument_group("the network of workers"))
    learning(p.add_argument_group("learning"))
    machine(p.add_argument_group("the machine"))
    files(p.add_argument_group("files"), task)
    p.set_defaults(**preset.defaults)
    return p


def what_to_run(group: Any, task: str) -> None:
    add = group.add_argument
    if datasets := TASKS[task].datasets:
        add("--dataset", choices=datasets, default=task, help="the paper's, or one without a download")
    for option, metavar, table in (("--rules", "RULE", RULES), ("--attacks", "ATTACK", ATTACKS)):
        names: list[str] = list(table)
        help = "some of " + ", ".join(names)
        add(option, nargs="+", choices=names, default=names, metavar=metavar, help=help)
    add(
        "--seeds",
        nargs="+",
        type=whole_number(0),
        default=[0],
        metavar="SEED",
        help="one run per rule, attack and seed; the table shows the mean over seeds",
    )
    add("--epochs", type=whole_number(1), help="passes over the local data")


def network(group: Any) -> None:
    add = group.add_argument
    add("--workers", type=whole_number(2), help="how many workers, N")
    add(
        "--attackers", type=whole_number(0), help="how many of them are adversarial, F < N; 0 under attack none"
    )
    names = [f"{name}:{graph.number}" if graph.number else name for name, graph in GRAPHS.items()]
    edges = "or a file of edges, two worker numbers a line"
    add("--graph", default="complete", help=f"{', '.join(names)}, {edges}")
    add("--partition", choices=PARTITIONS, help="how the rows are dealt to the workers")


def learning(group: Any) -> None:
    add = group.add_argument
    add(
        "--risk",
        choices=("local", "batch"),
        help="what a model is scored on: all local data (the paper's r_k) or the round's batch (cheaper)",
    )
    add(
        "--smoothing",
        type=number("above 0 and up to 1", 0, 1),
        default=1.0,
        metavar="SHARE",
        help="share of the new risk in a running average over the rounds, as in the authors' released code; "
        "1: none, as in the paper; below 1 implies --plain",
    )
    add("--optimizer", choices=OPTIMIZERS, help="optimiser of the local step")
    add("--lr", type=number("above 0", 0), help="learning rate, mu in Eq. (2)")
    l2 = number("of 0 or more", 0, or_low=True)
    add("--l2", type=l2, default=0.0, help="adds L2 |w|^2 / 2 to the risk")
    add("--batch-size", type=whole_number(1), help="rows per local step")
    add("--features", choices=FEATURES, help="scale the features, or take them as they are")
    add("--dtype", choices=DTYPES, help="precision of all arithmetic")


def machine(group: Any) -> None:
    add = group.add_argument
    add(
        "--plain",
        action="store_true",
        help="run refimpl/algorithm.py itself, worker by worker: the same numbers, slowly",
    )
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
        help="threads of the matrix products in one run; default: the cores, shared by the runs under way",
    )


def files(group: Any, task: str) -> None:
    add = group.add_argument
    add("--out", type=Path, default=Path("results") / task, help="folder for the results")
    add("--data-dir", help="folder with the data; default: as shipped, or fetched once into a cache folder")
