"""python -m refimpl.audit MODULE:FUNCTION --as KIND: which definition does somebody's function compute?

MODULE is a module that can be imported, or a file that ends in .py. Nothing else is run, and that in a
process of its own. With --run COMMAND instead, a program in any language is asked (docs/JUDGE.md).
Exit status: 0 right, 1 a known variant or different, 2 could not be judged.
"""

import argparse
import importlib
import importlib.util
import json
import os
import sys
import textwrap
from collections.abc import Callable
from contextlib import closing, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from refimpl.audit.caller import FORMS, TIMES, available, in_a_line
from refimpl.audit.child import in_a_child
from refimpl.audit.external import Process
from refimpl.audit.judge import judge
from refimpl.audit.kinds import KINDS
from refimpl.audit.report import NOT_JUDGED, WIDTH, Report, wrap
from refimpl.audit.variants import VARIANTS
from refimpl.process import Parser, ended
from refimpl.vectors import InputError

MOST_SECONDS = 86400  # of a limit; no clock can wait for 1e12


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    options = parser().parse_args(arguments)
    if options.list:
        show(overview() if options.list is True else described(options.list))
        return 0
    try:
        if bool(options.target) == (options.run is not None) or not options.kind:
            raise InputError("needs MODULE:FUNCTION or --run COMMAND, and --as KIND; or --list")
        if options.run is not None and (options.call or options.form):
            raise InputError("--call and --form are for a function of Python, not for --run")
        if not 0 < options.limit <= MOST_SECONDS:
            needs = f"--limit needs a positive number of seconds, up to {MOST_SECONDS}"
            raise InputError(f"{needs}, got {options.limit:g}")
        here = importlib.import_module("refimpl.audit.__main__")  # a new process knows it by this name only
        report = in_a_child(here.judged, options) if options.run is None else answers_judged(options)
    except InputError as error:
        print(f"refimpl.audit: {error}", file=sys.stderr)
        return NOT_JUDGED
    show(json.dumps(report.as_dict(), indent=1) if options.json else str(report))
    return report.status


def judged(options: argparse.Namespace) -> Report:
    """The report that the options ask for. Raises InputError."""
    with redirect_stdout(sys.stderr):  # a module may print; the report is on stdout alone
        function = load(options.target, options.call)
    if options.form and options.form not in available():
        raise InputError(f"--form {options.form} needs torch, which {options.target} does not import")
    name = options.call or options.target
    return judge(
        function,
        options.kind,
        form=options.form,
        limit=options.limit,
        strict=options.strict,
        name=name,
    )


def answers_judged(options: argparse.Namespace) -> Report:
    """The report on the process that --run names. Raises InputError."""
    with closing(Process(options.run, options.kind, options.limit)) as function:
        report = judge(
            function,
            options.kind,
            form="numpy",
            limit=options.limit + 1,  # that of the process is over first
            strict=options.strict,
            name=options.run,
        )
    if function.failure:
        raise InputError(function.failure)
    return report


def show(text: str) -> None:
    """Prints the text. A reader such as `head` may close the pipe early."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> Parser:
    made = Parser(
        prog="python -m refimpl.audit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("target", nargs="?", metavar="MODULE:FUNCTION", help="what to judge")
    made.add_argument("--run", metavar="COMMAND", help="a program to judge, which answers lines of JSON")
    made.add_argument("--as", dest="kind", choices=KINDS, metavar="KIND", help="what it is meant to be")
    made.add_argument(
        "--call", metavar="LAMBDA", help="how to call it, in terms of its name: 'lambda W, f: Krum(f)(W)'"
    )
    made.add_argument("--form", choices=FORMS, default="", help="how it takes arrays; found out if not given")
    made.add_argument(
        "--limit",
        type=float,
        default=3.0,
        metavar="S",
        help=f"seconds for one call (default 3); all calls together get {TIMES} times as much",
    )
    made.add_argument(
        "--strict", action="store_true", help="count hostile inputs too, and what else a source leaves open"
    )
    made.add_argument("--json", action="store_true", help="print the report as JSON")
    made.add_argument(
        "--list",
        nargs="?",
        const=True,
        choices=KINDS,
        metavar="KIND",
        help="show what can be judged, or how a kind is called and its variants",
    )
    return made


def overview() -> str:
    """The text of --list: a line for each kind."""
    first = max(map(len, KINDS)) + 1
    cut = lambda about: textwrap.shorten(about, WIDTH - first, placeholder=" ...")
    lines = [f"{name:{first}}{cut(kind.about)}" for name, kind in KINDS.items()]
    return "\n".join([*lines, "", "--list KIND says how a kind is called, and which variants are known."])


def described(name: str) -> str:
    """The text of --list KIND: its definition, its call and its variants."""
    kind = KINDS[name]
    lines = wrap(f"{name}: {kind.about} ({kind.reference})", subsequent_indent="  ")
    lines += wrap(f"called as {kind.call}", initial_indent="  ", subsequent_indent="  ")
    for variant in VARIANTS[name]:
        used = f" [{variant.used_by}]" if variant.used_by else ""
        text = f"{variant.name}: {variant.about}{used}"
        lines += wrap(text, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines)


def load(target: str, call: str | None) -> Callable:
    """The function that was named, or the one that `call` makes of it. Raises InputError."""
    where, _, name = target.rpartition(":")
    if not where or not name:
        raise InputError(f"needs MODULE:FUNCTION, got {target!r}")
    module = _module(where)
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise InputError(f"{where} has no {name}") from None
        except (Exception, SystemExit) as error:  # of a module's own __getattr__
            raise InputError(f"{where} does not give {name}: {in_a_line(error)}") from None
    if call:
        try:
            found = eval(call, {"np": np, **vars(module)})
        except (Exception, SystemExit) as error:
            raise InputError(f"--call {call!r}: {in_a_line(error)}") from None
    if not callable(found):
        raise InputError(f"{call or target} cannot be called")
    return found


def _module(where: str) -> ModuleType:
    """The module of a name or of a file; the file's neighbours can be imported, as when it is run."""
    try:
        if not where.endswith(".py"):
            return importlib.import_module(where)
        if Path(where).exists() and not Path(where).is_file():
            raise ValueError("not a file")  # a pipe would keep us waiting
        spec = importlib.util.spec_from_file_location(Path(where).stem, where)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(Path(where).resolve().parent))
        spec.loader.exec_module(module)
        return module
    except (Exception, SystemExit) as error:
        raise InputError(f"cannot import {where}: {in_a_line(error)}") from None


if __name__ == "__main__":
    sys.exit(ended(main, failed=NOT_JUDGED))
