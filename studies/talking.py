"""Is there a rule that is never worse than not talking, and better when most are honest?

    python studies/talking.py run TASK [options of examples/TASK.py]   # computes runs, as these scripts do
    python studies/talking.py collect FOLDER ...   # their files -> docs/results/talking.csv
    python studies/talking.py show                 # the CSV -> part of docs/results/talking.md

Beside all other names, `--rules` knows the skill bar with other margins: skill-bar-0.4 has m = 0.4.
"""

import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import systems
from blocks import DOCS, write_blocks

from refimpl.attacks import ATTACKS
from refimpl.experiments import main as experiment
from refimpl.experiments.figures import COLOURS, MARKERS, attack_name, drawing
from refimpl.experiments.results import Results, read
from refimpl.experiments.statistics import interval
from refimpl.experiments.tables import names_run, select
from refimpl.experiments.tasks import TASKS
from refimpl.experiments.words import several
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
UNSEEN = [name for name in MARGINS if name not in ("skill-bar", "skill-bar-0.4")]  # in the picture
EDGE = 0.2  # of the picture's panels
MEASURES = {"worst_own": "worst *own*", "mean_own": "mean *own*", "mean_whole": "mean *whole*"}
NAMES = {"spambase": "Spambase", "har": "HAR", "mnist": "MNIST"}  # of the tasks with summaries
STARTS = {"own": "", "common": "common initial values"}
KINDS = {"paper": "", "other": "other attacks", "ours": "attacks that know Eq. (6)"}


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


def kind_of(attack: str) -> str:
    """Which of KINDS an attack is of: the paper's, ours, which know Eq. (6), or another."""
    if ATTACKS[attack].by_default:
        return "paper"
    return "ours" if ATTACKS[attack].reference == "ours" else "other"


class Cell(NamedTuple):
    """What the runs behind one mean agree in, besides the rule."""

    task: str
    start: str
    liars: int
    workers: int
    attack: str

    @property
    def most_lie(self) -> bool:
        """Whether more than half of the workers do."""
        return 2 * self.liars > self.workers


class View(NamedTuple):
    """The cells that one summary is about."""

    task: str
    start: str
    kind: str

    @property
    def about(self) -> str:
        """Its title."""
        return ", ".join(filter(None, [NAMES[self.task], STARTS[self.start], KINDS[self.kind]]))

    @property
    def seeds(self) -> int:
        """With fewer in a cell, a rule is in the tables, and not in the summary."""
        return 5 if (self.task, self.kind) == ("spambase", "paper") else 3

    def has(self, cell: Cell) -> bool:
        """Whether a cell is one of the view's."""
        return (cell.task, cell.start, kind_of(cell.attack)) == self


VIEWS = [View(task, start, kind) for task in NAMES for start in STARTS for kind in KINDS]

Gains = dict[Cell, np.ndarray]  # how far a rule is above `local` in a measure, seed by seed


def parts(results: Results) -> dict[tuple[str, str, int], Results]:
    """The parts of `systems.parts`, own initial values and common ones apart: (task, start, attackers)."""
    found: dict[tuple[str, str, int], Results] = {}
    for start in STARTS:
        some = [run for run in results if run.config.start == start]
        found |= {(task, start, f): part for (task, f), part in systems.parts(some).items()}
    return found


def gains(results: Results) -> dict[tuple[str, str], Gains]:
    """The gains by rule and measure, over the seeds that the rule and `local` were both run with."""
    apart = parts(results)
    return {(rule, measure): gain(apart, rule, measure) for rule in RULES[1:] for measure in MEASURES}


def gain(apart: dict[tuple[str, str, int], Results], rule: str, measure: str) -> Gains:
    """The gains of a rule in a measure, in all `parts`."""
    found: Gains = {}
    for (task, start, f), some in apart.items():
        for attack in names_run(some, "attack", ATTACKS):
            ours, alone = (
                {run.config.seed: run.last(measure) for run in select(some, name, attack)}
                for name in (rule, "local")
            )
            if seeds := sorted(set(ours) & set(alone)):
                liars = f if ATTACKS[attack].lies else 0
                cell = Cell(task, start, liars, some[0].config.workers, attack)
                found[cell] = np.array([ours[k] - alone[k] for k in seeds])
    return found


def of_view(some: Gains, view: View, many: bool) -> Gains:
    """The gains in the cells of a view in which most lie, or in the others."""
    return {cell: values for cell, values in some.items() if view.has(cell) and cell.most_lie == many}


def summary(found: dict[tuple[str, str], Gains], view: View) -> str:
    """A line per rule: its lowest and highest mean gain over `local`, with few liars and with most; or ""."""
    head, columns = [], []
    for many in (False, True):
        cells = cells_of(found, view, many)
        one = all(cell.workers - cell.liars == 1 for cell in cells)  # who is the worst worker and the mean
        for measure, name in MEASURES.items():
            if cells and not (one and measure == "mean_own"):
                head.append(f"{name}, {who(cells)}")
                columns.append((measure, many, len(cells)))
    lines = []
    for rule in RULES[1:]:
        texts = [
            span(of_view(found[rule, measure], view, many), view, count) for measure, many, count in columns
        ]
        if any(texts):
            lines.append(f"| `{rule}` | {' | '.join(text or '-' for text in texts)} |")
    return "\n".join([f"| | {' | '.join(head)} |", f"|---|{'---|' * len(head)}", *lines]) if lines else ""


def cells_of(found: dict[tuple[str, str], Gains], view: View, many: bool) -> set[Cell]:
    """The cells of a view in which most lie, or the others, in which there are gains of any rule."""
    return {cell for some in found.values() for cell in of_view(some, view, many)}


def who(cells: set[Cell]) -> str:
    """How many lie in the cells: "0 or 3 liars of 10"."""
    counts = sorted({cell.liars for cell in cells})
    return f"{' or '.join(map(str, counts))} liars of {max(cell.workers for cell in cells)}"


def enough(some: Gains, view: View) -> list[np.ndarray]:
    """The gains in each cell; none if a cell has too few seeds, as it might be the worst."""
    return list(some.values()) if some and min(map(len, some.values())) >= view.seeds else []


def span(some: Gains, view: View, count: int) -> str:
    """The lowest mean gain with its 95 % interval, and the highest; "" if a cell has too few seeds.

    If it is not of all `count` cells, of how many.
    """
    if not (found := enough(some, view)):
        return ""
    low, high = (pick(found, key=np.mean) for pick in (min, max))
    missing = f" ({len(found)} of {count} cases)" if len(found) < count else ""
    return f"{low.mean():+.3f} ±{interval(low):.3f} to {high.mean():+.3f}{missing}"


def section(results: Results) -> str:
    """The block of the page: the summaries, then the tables, folded."""
    text, found = [], gains(results)
    for view in VIEWS:
        if lines := summary(found, view):
            text.append(f"{view.about}, rules with {view.seeds} seeds or more:\n\n{lines}")
    for (_, start, f), part in parts(results).items():
        for kind in KINDS:
            if some := [run for run in part if kind_of(run.config.attack) == kind]:
                text.append(folded(some, start, f, kind))
    return "\n\n".join(text)


def folded(some: Results, start: str, f: int, kind: str) -> str:
    """A table that opens at a click, with what it is about."""
    c = some[0].config
    counts = Counter((run.config.rule, run.config.attack) for run in some).values()
    facts = [f"{c.workers} workers", several(f, "attacker"), several(c.epochs, "epoch")]
    facts += [*filter(None, [STARTS[start], KINDS[kind]]), systems.seeds(some), f"{len(some)} runs"]
    title = f"{TASKS[c.task].title}: worst <i>own</i> / mean <i>whole</i>; {', '.join(facts)}"
    lines = systems.table(some, max(counts))
    return f'<details markdown="1">\n<summary>{title}</summary>\n\n{lines}\n\n</details>'


def draw(results: Results, path: Path) -> None:
    """Writes a picture of the first view: the gain over `local` of the rules, with 95 % intervals."""
    view, found = VIEWS[0], gains(results)
    few = {rule: of_view(found[rule, "worst_own"], view, False) for rule in RULES[1:] if rule not in UNSEEN}
    shown = [rule for rule, some in few.items() if enough(some, view)][::-1]
    title = "Accuracy minus that of workers that never talk; Spambase"
    facts = "bar: 95 % interval over the seeds; an arrow: beyond the edge"
    with drawing(path, f"{title}\n{facts}", (7.2, 0.42 * len(shown) + 1.8)) as fig:
        panels = [(many, measure) for many in (False, True) for measure in ("worst_own", "mean_whole")]
        axes = fig.subplots(1, 4, sharey=True)
        for ax, (many, measure) in zip(axes, panels, strict=True):
            some = [of_view(found[rule, measure], view, many) for rule in shown]
            panel(ax, [gains if enough(gains, view) else {} for gains in some])
            ax.set_title(f"{systems.MAPS[measure]}\n{who(cells_of(found, view, many))}", fontsize=8)
        axes[0].set_yticks(range(len(shown)), shown)
        drawn = dict(zip(*axes[0].get_legend_handles_labels()[::-1], strict=True))
        fig.legend(drawn.values(), drawn, loc="outside lower center", ncols=len(drawn), frameon=False)


def panel(ax: Any, rules: list[Gains]) -> None:
    """Draws the gains of a measure, a line of marks per rule and one for each attack."""
    for y, found in enumerate(rules):
        for cell, values in found.items():
            place = list(ATTACKS).index(cell.attack)
            at, colour, mean = y + 0.3 - 0.15 * place, COLOURS[place], values.mean()
            look = {"color": colour, "markersize": 3.5, "elinewidth": 0.8, "label": attack_name(cell.attack)}
            ax.errorbar(mean, at, xerr=interval(values), fmt=MARKERS[place], **look)
            if abs(mean) > EDGE:
                edge = np.copysign(EDGE, mean)
                arrow = {"arrowstyle": "->", "color": colour, "linewidth": 0.8}
                ax.annotate("", (edge, at), (0.8 * edge, at), arrowprops=arrow)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_xlim(-EDGE, EDGE)
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
