"""Is there a rule that is never worse than not talking, and better when most are honest?

    python studies/talking.py run TASK [options of examples/TASK.py]   # computes runs, as these scripts do
    python studies/talking.py collect FOLDER ...   # their files -> docs/results/talking.csv
    python studies/talking.py show                 # the CSV -> part of docs/results/talking.md

Beside all other names, `--rules` knows the skill bar with other margins: skill-bar-0.4 has m = 0.4.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import systems
from blocks import DOCS, write_blocks

from refimpl.attacks import ATTACKS
from refimpl.experiments import main as experiment
from refimpl.experiments.figures import drawing
from refimpl.experiments.results import Results, read
from refimpl.experiments.statistics import interval
from refimpl.experiments.tables import names_run, select
from refimpl.experiments.tasks import TASKS
from refimpl.process import ended
from refimpl.related import SYSTEMS

CSV, PAGE = DOCS / "results" / "talking.csv", DOCS / "results" / "talking.md"
MARGINS = {"skill-bar" if m == 0.1 else f"skill-bar-{m:g}": m for m in (0, 0.05, 0.1, 0.2, 0.4, 0.8)}
RULES = [
    "local",
    "adaptive",
    "held-out-bar",
    "chosen-bar",
    "two-tracks",
    *MARGINS,
    "median",
    "krum",
    "mozi",
    "clipped-gossip",
]
MEASURES = {"worst_own": "worst *own*", "mean_own": "mean *own*", "mean_whole": "mean *whole*"}
FEW = 5  # seeds, unless a view asks for fewer


def add_margins() -> None:
    """Puts the skill bar with other margins into SYSTEMS."""
    bar = SYSTEMS["skill-bar"]
    for name, m in MARGINS.items():
        SYSTEMS.setdefault(name, bar._replace(round=partial(bar.round, m=m), about=f"m = {m:g}"))
        systems.NEEDS.setdefault(name, bar.needs)


def kept(path: Path = CSV) -> Results:
    """The runs that are kept."""
    add_margins()
    return read(path)


class Cell(NamedTuple):
    """What runs agree in that a mean is taken of, but for the rule."""

    task: str
    start: str
    liars: int
    attack: str


class View(NamedTuple):
    """Cells that one line of a summary may be about."""

    about: str
    task: str
    start: str = "own"
    papers: bool = True  # the attacks of the paper, or those that know the rule
    seeds: int = FEW  # with fewer, a rule is in the tables, and not in the summary

    def has(self, cell: Cell) -> bool:
        """Whether the cell is one of them."""
        same = (cell.task, cell.start) == (self.task, self.start)
        return same and ATTACKS[cell.attack].by_default == self.papers


VIEWS = (
    View("Spambase", "spambase"),
    View("Spambase, common initial values", "spambase", start="common"),
    View("Spambase, attacks that know the rule", "spambase", papers=False, seeds=3),
    View("HAR", "har", seeds=3),
)


def parts(results: Results) -> dict[tuple[str, str, int], Results]:
    """The parts of `systems.parts`, own initial values and common ones apart: (task, start, attackers)."""
    found: dict[tuple[str, str, int], Results] = {}
    for start in ("own", "common"):
        some = [run for run in results if run.config.start == start]
        found |= {(task, start, f): part for (task, f), part in systems.parts(some).items()}
    return found


def gains(results: Results, rule: str, measure: str) -> dict[Cell, np.ndarray]:
    """How far a rule is above `local` in a measure, seed by seed, wherever there are two seeds or more."""
    found: dict[Cell, np.ndarray] = {}
    for (task, start, f), some in parts(results).items():
        for attack in names_run(some, "attack", systems.ATTACKS):
            ours, alone = (
                {run.config.seed: run.last(measure) for run in select(some, name, attack)}
                for name in (rule, "local")
            )
            seeds = sorted(set(ours) & set(alone))
            if len(seeds) > 1:
                cell = Cell(task, start, f if ATTACKS[attack].lies else 0, attack)
                found[cell] = np.array([ours[k] - alone[k] for k in seeds])
    return found


def summary(results: Results, view: View) -> str:
    """A line per rule: its lowest and highest mean gain over `local`, with few liars and with most; or ""."""
    columns = [(many, measure) for many in (False, True) for measure in MEASURES]
    columns.remove((True, "mean_own"))  # of the one normal worker, which is the worst, too
    every = {column: who(results, view, column[0]) for column in columns}
    columns = [column for column in columns if every[column]]
    head = [f"{MEASURES[measure]}, {every[many, measure]}" for many, measure in columns]
    lines = []
    for rule in RULES[1:]:
        cells = [span(of_view(gains(results, rule, measure), view, many), view) for many, measure in columns]
        if cells and cells[0]:
            lines.append(f"| `{rule}` | {' | '.join(cell or '-' for cell in cells)} |")
    return "\n".join([f"| | {' | '.join(head)} |", f"|---|{'---|' * len(head)}", *lines]) if lines else ""


def who(results: Results, view: View, many: bool) -> str:
    """How many lie in the cells of a view in which most do, or in the others: words; "" if there are none."""
    configs = [run.config for run in results]
    found = {
        (c.liars, c.workers)
        for c in configs
        if view.has(Cell(c.task, c.start, c.liars, c.attack)) and (2 * c.liars > c.workers) == many
    }
    counts = " or ".join(str(liars) for liars, _ in sorted(found))
    return f"{counts}{'' if many else ' liars'} of {max(found)[1]}" if found else ""


def of_view(found: dict[Cell, np.ndarray], view: View, many: bool) -> list[np.ndarray]:
    """The gains in the cells of a view in which most lie, or in the others."""
    N = TASKS[view.task].defaults["workers"]
    return [values for cell, values in found.items() if view.has(cell) and (2 * cell.liars > N) == many]


def span(some: list[np.ndarray], view: View) -> str:
    """The lowest mean gain with its 95 % interval, and the highest; "" with too few seeds."""
    if not some or min(map(len, some)) < view.seeds:
        return ""
    low, high = (pick(some, key=np.mean) for pick in (min, max))
    return f"{low.mean():+.3f} ±{interval(low):.3f} to {high.mean():+.3f}"


def section(results: Results) -> str:
    """The block of the page: the summaries, then the tables, folded."""
    text = []
    for view in VIEWS:
        if lines := summary(results, view):
            text.append(f"{view.about}, rules with {view.seeds} seeds or more:\n\n{lines}")
    for (task, start, f), part in parts(results).items():
        for papers in (True, False):
            some = [run for run in part if ATTACKS[run.config.attack].by_default == papers]
            if some:
                text.append(folded(some, task, start, f, papers))
    return "\n\n".join(text)


def folded(some: Results, task: str, start: str, f: int, papers: bool) -> str:
    """A table that opens at a click, with what it is about."""
    c = some[0].config
    facts = [f"{c.workers} workers", f"{f} attackers", f"{c.epochs} epochs"]
    facts += ["common initial values"] if start == "common" else []
    facts += [] if papers else ["attacks that know the rule"]
    facts += [systems.seeds(some), f"{len(some)} runs"]
    title = f"{TASKS[task].title}: worst <i>own</i> / mean <i>whole</i>; {', '.join(facts)}"
    return f'<details markdown="1">\n<summary>{title}</summary>\n\n{systems.table(some)}\n\n</details>'


def draw(results: Results, path: Path, view: View = VIEWS[0]) -> None:
    """Writes a picture: the gain over `local` of the rules, a dot per attack, with its 95 % interval."""
    safe = {rule: of_view(gains(results, rule, "worst_own"), view, False) for rule in RULES[1:]}
    shown = [rule for rule, some in safe.items() if span(some, view)][::-1]
    title = "Accuracy minus that of workers that never talk; Spambase, a dot per attack"
    facts = "bar: 95 % interval over the seeds; beyond the edge where a dot is missing"
    with drawing(path, f"{title}\n{facts}", (7.2, 0.42 * len(shown) + 1.5)) as fig:
        panels = [(many, measure) for many in (False, True) for measure in ("worst_own", "mean_whole")]
        axes = fig.subplots(1, 4, sharey=True)
        for ax, (many, measure) in zip(axes, panels, strict=True):
            panel(ax, [of_view(gains(results, rule, measure), view, many) for rule in shown])
            ax.set_title(f"{systems.MAPS[measure]}\n{'9' if many else '0 or 3'} liars of 10", fontsize=8)
        axes[0].set_yticks(range(len(shown)), shown)


def panel(ax: Any, rules: list[list[np.ndarray]]) -> None:
    """Draws the gains of a measure, a line of dots per rule."""
    for y, found in enumerate(rules):
        for i, values in enumerate(found):
            at = y + 0.3 - 0.6 * i / max(1, len(found) - 1)
            ax.errorbar(
                values.mean(), at, xerr=interval(values), fmt="o", markersize=3, color="C0", elinewidth=0.8
            )
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_xlim(-0.2, 0.2)
    ax.grid(axis="x", alpha=0.3, linewidth=0.5)


def main(argv: list[str]) -> int:
    match argv:
        case ["run", task, *options]:
            add_margins()
            return experiment(task, options)
        case ["collect", *folders] if folders:
            add_margins()
            print(f"{systems.collect(map(Path, folders), CSV)} runs in {CSV}")
        case ["show"]:
            write_blocks(PAGE, {"talking": section(kept())})
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(ended(lambda: main(sys.argv[1:])))
