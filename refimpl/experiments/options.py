"""The options of the command line, in groups, and what they share."""

import argparse
import math
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from data_loaders.partition import PARTITIONS
from refimpl import methods, process
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS, KNOWLEDGE, Attack
from refimpl.experiments.atomic import make_folder
from refimpl.experiments.presets import FIGURES, presets
from refimpl.experiments.registry import strangers
from refimpl.experiments.tasks import DTYPES, FEATURES, TASKS
from refimpl.graphs import GRAPHS, parse_number
from refimpl.optim import OPTIMIZERS
from refimpl.process import reason
from refimpl.related import SYSTEMS
from refimpl.related.schedules import SCHEDULES
from refimpl.released import DIFFERENCES

LISTED: dict[str, dict[str, Any]] = {
    "Rules": RULES,
    "Systems, beside the rules": SYSTEMS,
    "Attacks": ATTACKS,
    "Graphs": GRAPHS,
    "Schedules of a graph, for systems; or a file of edges with --- between rounds": SCHEDULES,
    "Partitions": PARTITIONS,
    "Features": FEATURES,
    "Optimizers": OPTIMIZERS,
    "Differences of the released code": DIFFERENCES,
}


class Parser(process.Parser):
    """A parser of commands that write results."""

    def need_folder(self, path: Path, option: str = "--out") -> None:
        """Makes the folder for what will be computed, or ends now if nothing could be written to it."""
        try:
            make_folder(path)
        except OSError as error:
            self.error(f"{option} needs a folder that can be written to, got {reason(error)}")


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """A line per option, with its default; description and epilogue in the lines that they are written in."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=22)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        """Adds the default where there is one worth showing."""
        default = action.default
        if default in (None, False, "", []) or default is argparse.SUPPRESS:
            return action.help
        if isinstance(default, list):
            whole = {"all": list(action.choices or ()), "all rules": list(RULES)}
            names = " ".join(map(str, default))
            default = next((word for word, table in whole.items() if table == default), names)
        return f"{action.help} ({default})"

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        """NAME ... for one or more of them."""
        name = super()._format_args(action, default_metavar)
        return f"{action.metavar or 'NAME'} ..." if action.nargs == "+" else name


class List(argparse.Action):
    """Prints the tables and ends, as --help does."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print("\n\n".join(listing(title, table) for title, table in LISTED.items()))
        parser.exit()


def listing(title: str, table: dict[str, Any]) -> str:
    """The names in a table, with what each is and where it comes from."""
    lines = [f"{title}:"]
    for name, entry in table.items():
        number = getattr(entry, "number", "")
        reference = "" if entry.reference == "-" else f" [{entry.reference}]"
        knows = f"; knows {knowledge(entry)}" if getattr(entry, "lies", False) else ""
        knows = f"; must know {entry.needs}" if getattr(entry, "needs", "nothing") != "nothing" else knows
        needs = f"; needs {entry.requires}" if getattr(entry, "requires", "") else ""
        name = f"{name}:{number} " if number else f"{name} "
        text = f"{name:22}{entry.about}{reference}{knows}{needs}"
        lines.append(textwrap.fill(text, 80, initial_indent="  ", subsequent_indent=" " * 24))
    return "\n".join(lines)


def knowledge(attack: Attack) -> str:
    """What an attack knows, in words, each once."""
    words = dict.fromkeys(KNOWLEDGE[name].words if name in KNOWLEDGE else name for name in attack.knows)
    return ", ".join(filter(None, words)) or "nothing"


# --- What an option takes -----------------------------------------------------------------------------------


def format_typed(text: str) -> str:
    """The text that was typed, as far as it fits in a line."""
    return (text if len(text) <= 40 else f"{text[:40]}...").strip() or "nothing"


def whole_number(least: int, most: int = 10**9) -> Any:
    """A parser of whole numbers from `least` to `most`."""

    def parse(text: str) -> int:
        try:
            value = parse_number(text, int)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            needs = f"up to {most}" if value > most else f"{least} or more"
            raise argparse.ArgumentTypeError(f"needs a whole number, {needs}, got {format_typed(text)}")
        return value

    return parse


def number(or_zero: bool = False) -> Any:
    """A parser of finite numbers above 0, or from 0 on if `or_zero`."""

    def parse(text: str) -> float:
        try:
            value = parse_number(text, float)
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf or (value == 0 and not or_zero):
            needs = "of 0 or more" if or_zero else "above 0"
            raise argparse.ArgumentTypeError(f"needs a number {needs}, got {format_typed(text)}")
        return value

    return parse


def probability(text: str) -> float:
    """A number from 0 to 1."""
    try:
        value = parse_number(text, float)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"needs a probability, 0 to 1, got {format_typed(text)}")
    return value


def address(text: str) -> str:
    """The host and port of a Dask scheduler, which is reached by TCP."""
    host, _, port = text.removeprefix("tcp://").rpartition(":")
    if not re.fullmatch(r"[\w.-]+|\[[\w.:]+\]", host) or not port.isdecimal() or int(port) >= 2**16:
        needs = "needs host:port of a Dask scheduler"
        raise argparse.ArgumentTypeError(f"{needs}, got {format_typed(text)}")
    return text


def folder(text: str) -> Path:
    """The folder of that name, which need not be there."""
    if not text or not text.isprintable():
        raise argparse.ArgumentTypeError(f"needs the name of a folder, got {text!r}")
    return Path(text)


# --- The options --------------------------------------------------------------------------------------------

EPILOGUE = """\
In brackets: the default. --list says what the names mean. Examples:
  {script} --rules adaptive krum local --attacks alie --epochs 20
  {script} --graph ring --rules adaptive local --seeds 0 1 2"""


def parser(task: str, kind: type[Parser] = Parser) -> Parser:
    """A parser of all options, of this kind, with the task's own defaults."""
    script = Path(sys.argv[0]).name
    if strange := strangers():
        kind(prog=script).error(f"a table needs named tuples like those in it, got {strange[0]!r}")
    preset = TASKS[task]
    epilogue = "\n".join(filter(None, (EPILOGUE.format(script=f"python {script}"), preset.note)))
    p = kind(
        prog=script,
        usage="%(prog)s [options]",
        description=f"{preset.title}:\nrules against attacks, worst and mean test accuracy.",
        epilog=epilogue,
        formatter_class=HelpFormatter,
        add_help=False,
    )
    what_to_run(p.add_argument_group("what to run"), task)
    network(p.add_argument_group("the network of workers"))
    learning(p.add_argument_group("learning"))
    machine(p.add_argument_group("the machine"))
    output(p.add_argument_group("output"), task)
    p.set_defaults(figure=None, **preset.defaults)
    return p


def parse(task: str, argv: list[str] | None, kind: type[Parser] = Parser) -> tuple[Parser, argparse.Namespace]:
    """The parser and what was typed, on top of what --figure and the like stand for."""
    p = parser(task, kind)
    defaults = vars(p.parse_args([]))
    typed = vars(p.parse_args(argv, argparse.Namespace(**dict.fromkeys(defaults))))  # None: it was not
    typed = {name: value for name, value in typed.items() if value is not None}
    if (other := typed.get("dataset", task)) != task:
        return parse(other, argv, kind)  # which may have other options
    first = argparse.Namespace(**defaults | typed)
    if first.protocol == "released" and first.released:
        p.error("--protocol released has all differences, and --released names some: needs one of the two")
    try:
        return p, argparse.Namespace(**defaults | presets(task, first) | typed, task=task)
    except ValueError as error:
        p.error(f"--released: {error}")


def choice(group: Any, option: str, names: Iterable[str], help: str, **more: Any) -> None:
    """Adds an option that takes one of some names, which its help need not list."""
    group.add_argument(option, choices=list(names), metavar="NAME", help=help, **more)


def what_to_run(group: Any, task: str) -> None:
    """Adds the options that choose the runs."""
    add = group.add_argument
    if datasets := TASKS[task].datasets:
        choice(group, "--dataset", datasets, " or ".join(datasets) + ", which needs no download", default=task)
    some: dict[str, Any] = {"nargs": "+", "metavar": "NAME"}
    help = "one or more, systems of other papers too"
    add("--rules", choices=methods.names(), default=list(RULES), help=help, **some)
    usual = [name for name, attack in ATTACKS.items() if attack.by_default]
    add("--attacks", choices=list(ATTACKS), default=usual, help="one or more", **some)
    if figures := FIGURES.get(task):
        every = f"of the paper, with all that it needs: {', '.join(figures)}"
        choice(group, "--figure", figures, every)
    seed, either = whole_number(0, 2**63 - 1), group.add_mutually_exclusive_group().add_argument
    either("--repeats", type=whole_number(1, 1000), metavar="R", help="seeds 0 to R - 1; shows 95 %% intervals")
    either("--seeds", nargs="+", type=seed, default=[0], metavar="K", help="one or more")
    epoch = "how many; one is as many rounds as the workers together need to read as many rows as they hold"
    add("--epochs", type=whole_number(1), metavar="T", help=epoch)


def network(group: Any) -> None:
    """Adds the options of the workers and their graph."""
    add = group.add_argument
    add("--workers", type=whole_number(2), metavar="N", help="how many workers")
    add("--attackers", type=whole_number(0), metavar="F", help="how many lie, unless the attack is none")
    add("--graph", metavar="NAME", default="complete", help="who hears whom, or a file of edges")
    changes = "how it changes from round to round, or a file of edges"
    add("--graph-schedule", metavar="S", default="", help=changes)
    choice(group, "--partition", PARTITIONS, "how the rows are dealt to the workers")
    likely: dict[str, Any] = {"type": probability, "metavar": "P", "default": 0.0}
    add("--loss", help="the probability that a message is lost", **likely)
    add("--late", help="the probability that one comes a round late", **likely)
    stop = "how many normal workers stop for a while and come back"
    add("--crash", type=whole_number(0), metavar="K", default=0, help=stop)


def learning(group: Any) -> None:
    """Adds the options of the local steps and of the protocol."""
    add = group.add_argument
    choice(group, "--risk", ("local", "batch"), "score models on all local data or on the batch")
    choice(group, "--optimizer", OPTIMIZERS, "of the local step: " + " or ".join(OPTIMIZERS))
    add("--lr", type=number(), metavar="MU", help="learning rate, mu in Eq. (2)")
    add("--l2", type=number(or_zero=True), metavar="L", default=0.0, help="adds L |w|^2 / 2 to the risk")
    choice(group, "--start", ("own", "common"), "initial values: each worker's own, or common", default="own")
    add("--batch-size", type=whole_number(1), metavar="B", help="rows per local step")
    choice(group, "--features", FEATURES, " or ".join(FEATURES))
    choice(group, "--dtype", DTYPES, " or ".join(DTYPES))
    protocols = ("paper", "released")
    choice(group, "--protocol", protocols, "the paper's, or its authors' code's", default="paper")
    names, one = list(DIFFERENCES), "single differences of that code"
    add("--released", nargs="+", choices=names, default=[], metavar="NAME", help=one)


def machine(group: Any) -> None:
    """Adds the options of what computes the runs."""
    add = group.add_argument
    add("--plain", action="store_true", help="run algorithm.py itself: the same numbers, slowly")
    add("--gpu", action="store_true", help="compute on an NVIDIA GPU with CuPy")
    add("--device", type=whole_number(0), default=0, metavar="K", help="which GPU")
    add("--jobs", type=whole_number(1), metavar="J", help="runs at a time (one per core; 1 with --gpu)")
    add("--threads", type=whole_number(1, 1000), metavar="K", help="of a run (its share of the cores)")
    scheduler = "of a Dask scheduler that is given the runs: host:port"
    add("--cluster", type=address, metavar="ADDRESS", help=scheduler)


def output(group: Any, task: str) -> None:
    """Adds the options of what is read, written and shown."""
    add = group.add_argument
    add("--out", type=folder, metavar="FOLDER", default=Path("results") / task, help="for the results")
    text_of = lambda text: str(folder(text))
    add("--data-dir", type=text_of, metavar="FOLDER", help="with the data (as shipped, or fetched once)")
    add("--dry-run", action="store_true", help="print the runs, and how much work they are")
    add("--list", action=List, nargs=0, help="what each rule, attack, graph, ... is")
    add("-h", "--help", action="help", help="this text")
