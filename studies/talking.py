"""Is there a rule that is never worse than not talking, and better when most are honest?

    python studies/talking.py run TASK [options of examples/TASK.py]   # computes runs, as these scripts do
    python studies/talking.py collect FOLDER ...   # their files -> docs/results/talking.csv
    python studies/talking.py show                 # the CSV -> part of docs/results/talking.md

Beside all other names, `--rules` knows the skill bar with other margins: skill-bar-0.4 has m = 0.4.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import systems
from blocks import DOCS, write_blocks

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
    "two-tracks",
    *MARGINS,
    "median",
    "krum",
    "mozi",
    "clipped-gossip",
]
MEASURES = {"worst_own": "worst *own*", "mean_own": "mean *own*", "mean_whole": "mean *whole*"}
FEW = 5  # seeds: with fewer, a rule is in the tables, and not in the summary


def add_margins() -> None:
    """Puts the skill bar with other margins into SYSTEMS."""
    bar = SYSTEMS["skill-bar"]
    for name, m in MARGINS.items():
        SYSTEMS.setdefault(name, bar._replace(round=partial(bar.round, m=m), label=name, about=f"m = {m:g}"))
        systems.NEEDS.setdefault(name, bar.needs)


def kept(path: Path = CSV) -> Results:
    """The runs that are kept."""
    add_margins()
    return read(path)


Cell = tuple[str, int, str]  # task, attackers, attack


def gains(results: Results, rule: str, measure: str) -> dict[Cell, np.ndarray]:
    """How far a rule is above `local` in a measure, seed by seed, wherever there are two seeds or more."""
    found: dict[Cell, np.ndarray] = {}
    for (task, f), some in systems.parts(results).items():
        for attack in names_run(some, "attack", systems.ATTACKS):
            ours, alone = (
                {run.config.seed: run.last(measure) for run in select(some, name, attack)}
                for name in (rule, "local")
            )
            seeds = sorted(set(ours) & set(alone))
            if len(seeds) > 1:
                found[task, 0 if attack == "none" else f, attack] = np.array(
                    [ours[k] - alone[k] for k in seeds]
                )
    return found


def summary(results: Results) -> str:
    """A line per rule: its lowest and highest mean gain over `local`, with few liars and with all but one."""
    head = [f"{words}, {who}" for who in ("0 or 3 liars of 10", "9 of 10") for words in MEASURES.values()]
    head.remove("mean *own*, 9 of 10")  # of the one normal worker, which is the worst, too
    lines = [f"| | {' | '.join(head)} |", f"|---|{'---|' * len(head)}"]
    for rule in RULES[1:]:
        cells = [
            span(gains(results, rule, measure), many)
            for many in (False, True)
            for measure in MEASURES
            if not (many and measure == "mean_own")
        ]
        if cells[0]:
            lines.append(f"| `{rule}` | {' | '.join(cell or '-' for cell in cells)} |")
    return "\n".join(lines)


def span(found: dict[Cell, np.ndarray], many: bool) -> str:
    """The lowest mean gain with its 95 % interval, and the highest, on Spambase; "" with too few seeds."""
    some = [v for (task, f, _), v in found.items() if task == "spambase" and (f > 5) == many]
    if not some or min(map(len, some)) < FEW:
        return ""
    low, high = (pick(some, key=np.mean) for pick in (min, max))
    return f"{low.mean():+.3f} ±{interval(low):.3f} to {high.mean():+.3f}"


def section(results: Results) -> str:
    """The block of the page: the summary, then the tables, folded."""
    text = [summary(results)]
    for (task, f), some in systems.parts(results).items():
        c = some[0].config
        facts = (
            f"{c.workers} workers, {f} attackers, {c.epochs} epochs, {systems.seeds(some)}, {len(some)} runs"
        )
        title = f"<summary>{TASKS[task].title}: worst <i>own</i> / mean <i>whole</i>; {facts}</summary>"
        text.append(f'<details markdown="1">\n{title}\n\n{systems.table(some)}\n\n</details>')
    return "\n\n".join(text)


def draw(results: Results, path: Path) -> None:
    """Writes a picture: the gain over `local` of the rules, a dot per attack, with its 95 % interval."""
    shown = [rule for rule in RULES[1:] if span(gains(results, rule, "worst_own"), False)][::-1]
    title = "Accuracy minus that of workers that never talk; Spambase, a dot per attack"
    facts = "bar: 95 % interval over the seeds; beyond the edge where a dot is missing"
    with drawing(path, f"{title}\n{facts}", (7.2, 0.42 * len(shown) + 1.5)) as fig:
        panels = [(many, measure) for many in (False, True) for measure in ("worst_own", "mean_whole")]
        axes = fig.subplots(1, 4, sharey=True)
        for ax, (many, measure) in zip(axes, panels, strict=True):
            panel(ax, results, shown, measure, many)
            ax.set_title(f"{systems.MAPS[measure]}\n{'9' if many else '0 or 3'} liars of 10", fontsize=8)
        axes[0].set_yticks(range(len(shown)), shown)


def panel(ax: Any, results: Results, rules: list[str], measure: str, many: bool) -> None:
    """Draws the gains of a measure, a line of dots per rule."""
    for y, rule in enumerate(rules):
        cells = gains(results, rule, measure).items()
        found = [v for (task, f, _), v in cells if task == "spambase" and (f > 5) == many]
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
