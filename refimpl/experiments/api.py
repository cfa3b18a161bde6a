"""The experiments as a library: `refimpl.run`, and the object that it returns.

It takes the options of the command line as keywords, and functions where that takes names of rules and attacks.
"""

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from refimpl.aggregate import Rule
from refimpl.attacks import Attack
from refimpl.experiments import cli, figures, options, registry, runner, tables
from refimpl.experiments.atomic import make_folder
from refimpl.experiments.registry import Entries
from refimpl.experiments.results import RunResult
from refimpl.experiments.tasks import TASKS

Choice = Iterable[Any] | Mapping[str, Any]  # of names, functions, entries


class Runs(list[RunResult]):
    """The results of some runs, by rule, then by attack, then by seed, in the order of the call.

    Each has its `config`, `history`, `weights_at` by epoch, and `accuracy`.
    """

    def __init__(self, results: Iterable[RunResult], mine: Entries) -> None:
        """`mine` are the caller's own rules and attacks, which no table knows after the runs."""
        super().__init__(results)
        self.mine = mine

    def table(self, measure: str = "worst_own") -> str:
        """The worst and mean test accuracy after the last epoch, by rule and attack, as text of 80 columns.

        `measure="highest_loss"`: the training loss instead.
        """
        with added(self.mine):
            return tables.text_table(self, measure)

    def frame(self) -> Any:
        """A pandas.DataFrame with a row for each epoch after which a run was evaluated. Needs pandas."""
        import pandas

        rows = []
        for run in self:
            names = {name: getattr(run.config, name) for name in ("task", "rule", "attack", "seed")}
            columns = zip(*run.history.values(), strict=True)
            for epoch, values in zip(run.evaluated, columns, strict=True):
                rows.append({**names, "epoch": epoch, **dict(zip(run.history, values, strict=True))})
        return pandas.DataFrame(rows)

    def figure(self, path: str | Path) -> Path:
        """Draws the worst accuracy by epoch, a panel per attack, as PNG and PDF. Needs matplotlib.

        Returns the path of the PNG.
        """
        png = Path(path).with_suffix(".png")
        with added(self.mine):
            figures.figure(self, self.title, png)
        return png

    def trust(self, path: str | Path, rule: str = "adaptive") -> Path:
        """Draws the weights that a rule gave after some epochs, a row per attack. Otherwise as `figure`."""
        png = Path(path).with_suffix(".png")
        with added(self.mine):
            figures.trust(self, rule, self.title, png)
        return png

    @property
    def title(self) -> str:
        """The name of the task."""
        return TASKS[self[0].config.task].title

    def __repr__(self) -> str:
        return self.table()


def run(
    task: str = "spambase",
    rules: Choice = (),
    attacks: Choice = (),
    seeds: Iterable[int] = (),
    **more: Any,
) -> Runs:
    """Runs every rule against every attack with every seed, and returns the results.

    Rules and attacks are names, or functions of your own. A rule has some of the parameters W (n, d), risks
    (n,), own and f, and returns a model (d,); an attack has some of own (f, d), honest (h, d) and signals, and
    returns (f, d), or (d,) if all attackers send the same. A dictionary gives them other names, and takes
    entries of the tables too: {"mine": Rule(...)}. If none are given, those of the command line are run.

    `more` are the options of the command line: epochs=20, attackers=2, graph="ring", plain=True, ... Finished
    runs are kept in the folder `out` and used again. Raises ValueError, in the words of the command line, if
    there are no such runs.
    """
    if task not in TASKS:
        raise ValueError(f"needs a task among {', '.join(TASKS)}, got {task}")
    if strange := more.keys() & {"dry_run", "list", "help"}:
        raise ValueError(f"needs options of runs, got {', '.join(sorted(strange))}")
    mine = {"rule": entries(rules, "rule", rule_of), "attack": entries(attacks, "attack", attack_of)}
    given = {"rules": [*mine["rule"]], "attacks": [*mine["attack"]], "seeds": [*seeds], **more}
    new = {kind: {name: entry for name, entry in some.items() if entry} for kind, some in mine.items()}
    with added(new):
        _, args = options.parse(task, as_typed(given), Refusing)
        runs = cli.prepare(args.task, args)
        run_all, jobs, threads = runner.machine(args)
        make_folder(args.out)
        results = runner.run_grid(runs, args.out, jobs, args.data_dir, threads, run_all)
        place = {replace(config, device=0): i for i, config in enumerate(runs)}  # a result may be another's
        return Runs(sorted(results, key=lambda result: place[replace(result.config, device=0)]), new)


ADDING = threading.RLock()


@contextlib.contextmanager
def added(mine: Entries) -> Iterator[None]:
    """Within it, these entries are in the tables; other threads wait."""
    with ADDING:
        before = registry.put(mine)
        try:
            yield
        finally:
            registry.put(before)


class Refusing(options.Parser):
    """A parser that raises its errors."""

    def error(self, message: str) -> NoReturn:
        """Raises ValueError."""
        raise ValueError(message.removeprefix("argument --")) from None


def as_typed(given: dict[str, Any]) -> list[str]:
    """Keywords as one would type them: epochs=20 is --epochs 20. What is None, False or empty is not typed."""
    argv = []
    for name, value in given.items():
        values = [value] if isinstance(value, (str, Path)) or not isinstance(value, Iterable) else [*value]
        if values and value is not None and value is not False:
            argv += [f"--{name.replace('_', '-')}", *(str(each) for each in values if each is not True)]
    return argv


# --- Functions in the place of names ------------------------------------------------------------------------


def entries(choice: Choice, kind: str, entry_of: Callable[[Callable], Any]) -> dict[str, Any]:
    """The chosen entries by name; None for one that is chosen by its name alone."""
    if isinstance(choice, str) or callable(choice):
        raise ValueError(f"{kind}s needs a list of names or functions, got {choice!r}")
    pairs = choice.items() if isinstance(choice, Mapping) else [(getattr(c, "__name__", c), c) for c in choice]
    made: dict[str, Any] = {}
    for name, what in pairs:
        taken = [*registry.TABLES[kind], *registry.TABLES["system"], *made]
        if isinstance(what, str) and what != name:
            raise ValueError(f"{kind} {name} needs a function or an entry, got the name {what}")
        if name in taken and not isinstance(what, str):
            raise ValueError(f"there is a {kind} {name}: give yours another name, {{'mine': ...}}")
        made[name] = None if isinstance(what, str) else entry_of(what) if callable(what) else what
    return made


def rule_of(function: Callable) -> Rule:
    """The entry of a rule that is given as a function."""
    compute, asked = by_name(function, ("W", "risks", "own", "f"), (1,))
    return Rule(compute, inspect.getdoc(function) or "a rule", "-", scores="risks" in asked)


def attack_of(function: Callable) -> Attack:
    """The entry of an attack that is given as a function."""
    send, _ = by_name(function, ("own", "honest", "signals"), (1, 2))
    return Attack(send, inspect.getdoc(function) or "an attack", "-")


def by_name(
    function: Callable, names: tuple[str, ...], axes: tuple[int, ...]
) -> tuple[Callable, tuple[str, ...]]:
    """A function of all these arguments, and the names of those that it hands on, as `function` asks for them.

    Its result has one of these numbers of axes. Raises ValueError if it has other arguments without a default.
    """
    parameters = inspect.signature(function).parameters
    needed = [name for name, p in parameters.items() if p.default is p.empty]
    if strange := [name for name in needed if name not in names]:
        called = getattr(function, "__name__", function)
        raise ValueError(f"{called} needs parameters among {', '.join(names)}, got {', '.join(strange)}")
    bound = getattr(function, "keywords", {})  # of a functools.partial
    asked = tuple(name for name in names if name in parameters and name not in bound)
    return partial(call_by_name, function, names, asked, axes), asked


def call_by_name(
    function: Callable, names: tuple[str, ...], asked: tuple[str, ...], axes: tuple[int, ...], *values: Any
) -> Any:
    """Calls the function with the values whose names it asks for.

    Raises ValueError unless the result has the shape of the first value or of a row of it, as `axes` allow: a
    number would silently become a model whose entries are all equal.
    """
    result = function(**{name: value for name, value in zip(names, values, strict=True) if name in asked})
    shapes = [values[0].shape[-count:] for count in axes]
    if (got := np.shape(result)) not in shapes:
        needs = " or ".join(map(str, shapes))
        raise ValueError(f"{function.__name__} needs to return an array of shape {needs}, got {got}")
    return result
