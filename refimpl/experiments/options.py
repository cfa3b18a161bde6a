"""The options of the command line, in groups, and what they share."""

import argparse
import math
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from data_loaders.partition import PARTITIONS
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments.tables import TABLES
from refimpl.experiments.tasks import DTYPES, FEATURES, TASKS
from refimpl.optim import OPTIMIZERS
from refimpl.related import SYSTEMS

LISTED = {
    "Rules": "rule",
    "Systems, beside the rules": "system",
    "Attacks": "attack",
    "Graphs": "graph",
    "Schedules of a graph, for systems": "graph_schedule",
    "Partitions": "partition",
    "Features": "features",
    "Optimizers": "optimizer",
}


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, status 2."""
        self.exit(2, f"{self.prog}: {message}\n")


class HelpFormatter(argparse.HelpFormatter):
    """A line per option, with its default, and an epilogue in the lines that it is written in."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=22)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        """Adds the default where there is one worth showing."""
        default = action.default
        if default in (None, False, "") or default is argparse.SUPPRESS:
            return action.help
        if isinstance(default, list):
            whole = {"all": list(action.choices or ()), "all rules": list(RULES)}
            names = " ".join(map(str, default))
            default = next((word for word, table in whole.items() if table == default), names)
        return f"{action.help} ({default})"

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        """NAME ... for one or more of them."""
        name = super()._format_args(action, default_metavar)
        return f"{action.metavar} ..." if action.nargs == "+" else name

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Breaks lines that are too long, but for examples, which are indented."""
        fill = super()._fill_text
        return "\n".join(x if x[:1] == " " else fill(x, width, indent) for x in text.splitlines())


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
        name = f"{name}:{number} " if number else f"{name} "
        text = f"{name:16}{entry.about}{reference}"
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

EPILOGUE = """\
In brackets: the default. --list says what the names mean. Examples:
  {script} --rules adaptive krum local --attacks alie --epochs 20
  {script} --graph ring --rules adaptive local --seeds 0 1 2"""


def parser(task: str) -> Parser:
    """The options, with the task's own defaults."""
    preset, script = TASKS[task], Path(sys.argv[0]).name
    epilogue = "\n".join(filter(None, (EPILOGUE.format(script=f"python {script}"), preset.note)))
    p = Parser(
        usage="%(prog)s [options]",
        description=f"{preset.title}: rules against attacks, worst and mean test accuracy.",
        epilog=epilogue,
        formatter_class=HelpFormatter,
        add_help=False,
    )
    what_to_run(p.add_argument_group("what to run"), task)
    network(p.add_argument_group("the network of workers"))
    learning(p.add_argument_group("learning"))
    machine(p.add_argument_group("the machine"))
    output(p.add_argument_group("output"), task)
    p.set_defaults(**preset.defaults)
    return p


def choice(group: Any, option: str, names: Iterable[str], help: str, **more: Any) -> None:
    """An option that takes one of some names, which its help need not list."""
    group.add_argument(option, choices=list(names), metavar="NAME", help=help, **more)


def what_to_run(group: Any, task: str) -> None:
    add = group.add_argument
    if datasets := TASKS[task].datasets:
        choice(group, "--dataset", datasets, " or ".join(datasets) + ", which needs no download", default=task)
    names: list[str] = list(ATTACKS)
    both, help = [*RULES, *SYSTEMS], "one or more, systems of other papers too"
    add("--rules", nargs="+", choices=both, default=list(RULES), metavar="NAME", help=help)
    add("--attacks", nargs="+", choices=names, default=names, metavar="NAME", help="one or more")
    seeds = "one or more; the table shows the mean"
    add("--seeds", nargs="+", type=whole_number(0), default=[0], metavar="K", help=seeds)
    add("--epochs", type=whole_number(1), metavar="T", help="passes over the local data")


def network(group: Any) -> None:
    add = group.add_argument
    add("--workers", type=whole_number(2), metavar="N", help="how many workers")
    add(
        "--attackers", type=whole_number(0), metavar="F", help="how many of them lie, unless the attack is none"
    )
    add("--graph", metavar="NAME", default="complete", help="who hears whom, or a file of edges")
    add("--graph-schedule", metavar="NAME", default="", help="how it changes from round to round")
    choice(group, "--partition", PARTITIONS, "how the rows are dealt to the workers")


def learning(group: Any) -> None:
    add = group.add_argument
    choice(group, "--risk", ("local", "batch"), "score models on all local data or on the batch")
    share = number("above 0 and up to 1", 0, 1)
    add("--smoothing", type=share, metavar="A", default=1.0, help="share of the new risk in a running average")
    choice(group, "--optimizer", OPTIMIZERS, "of the local step: " + " or ".join(OPTIMIZERS))
    add("--lr", type=number("above 0", 0), metavar="MU", help="learning rate, mu in Eq. (2)")
    l2 = number("of 0 or more", 0, or_low=True)
    add("--l2", type=l2, metavar="L", default=0.0, help="adds L |w|^2 / 2 to the risk")
    add("--batch-size", type=whole_number(1), metavar="B", help="rows per local step")
    choice(group, "--features", FEATURES, " or ".join(FEATURES))
    choice(group, "--dtype", DTYPES, " or ".join(DTYPES))


def machine(group: Any) -> None:
    add = group.add_argument
    add("--plain", action="store_true", help="run algorithm.py itself: the same numbers, slowly")
    add("--gpu", action="store_true", help="compute on an NVIDIA GPU with CuPy")
    add("--device", type=whole_number(0), default=0, metavar="K", help="which GPU")
    add("--jobs", type=whole_number(1), metavar="J", help="runs at a time (one per core; 1 with --gpu)")
    add(
        "--threads",
        type=whole_number(1),
        metavar="K",
        help="of a run (the cores, shared by the runs under way)",
    )


def output(group: Any, task: str) -> None:
    add = group.add_argument
    add("--out", type=Path, metavar="FOLDER", default=Path("results") / task, help="for the results")
    add("--data-dir", metavar="FOLDER", help="with the data (as shipped, or fetched once)")
    add("--list", action=List, nargs=0, help="what each rule, attack, graph, ... is")
    add("-h", "--help", action="help", help="this text")
