"""The comparison of all systems, from the runs' files to docs/results/systems.md.

    python studies/systems.py collect FOLDER ...   # JSON files of runs -> docs/results/systems.csv
    python studies/systems.py show                 # the CSV -> part of docs/results/systems.md

`collect` adds to what the CSV holds already; the latest of two runs of the same configuration counts.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from blocks import DOCS, write_blocks

from refimpl import methods
from refimpl.attacks import ATTACKS
from refimpl.experiments.atomic import write
from refimpl.experiments.figures import STRETCH, drawing
from refimpl.experiments.options import Parser
from refimpl.experiments.results import (
    TOGETHER,
    Results,
    as_csv,
    describe_versions,
    identity,
    need_same,
    protocol,
    read,
    read_all,
)
from refimpl.experiments.tables import kilobytes, names_run, rules_of, select
from refimpl.experiments.tasks import TASKS
from refimpl.experiments.words import several
from refimpl.process import ended, reason

CSV, PAGE = DOCS / "results" / "systems.csv", DOCS / "results" / "systems.md"
NEEDS = {name: methods.find(name).entry.needs for name in methods.names()}


def collect(folders: Iterable[Path], path: Path = CSV) -> int:
    """Adds the runs in these folders to the CSV; how many rows it has then. Raises ValueError."""
    found = sorted(read_all([*([path] if path.exists() else []), *folders]), key=identity)
    if others := {run.config.name: protocol(run.config) for run in found if run.config.released}:
        name, what = others.popitem()
        raise ValueError(f"{path.name} needs runs under the paper's protocol, got {name}, {what}")
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, as_csv(found))
    return len(found)


# --- CSV -> text --------------------------------------------------------------------------------------------


def parts(results: Results) -> dict[tuple[str, int], Results]:
    """The runs by task and number of attackers, in the order of TASKS, most attackers first.

    Without an attack their number means nothing: such a run is in all parts of its task. Raises ValueError if a
    part holds two configurations of a rule, of which a mean would say nothing, or if rules differ in more than
    the learning rate.
    """
    configs = [run.config for run in results]
    runs = [(c.task, c.liars, c.rule, c.attack, c.seed) for c in configs]
    if twice := [run for run, count in Counter(runs).items() if count > 1]:
        raise ValueError(f"{CSV.name} needs one configuration for each run, got two of {twice[0]}")
    order = sorted(
        {(c.task, c.attackers) for c in configs}, key=lambda part: (list(TASKS).index(part[0]), -part[1])
    )
    found = {
        (task, f): [
            run
            for run in results
            if run.config.task == task and (run.config.attackers == f or not ATTACKS[run.config.attack].lies)
        ]
        for task, f in order
    }
    for some in found.values():
        need_same(some, (name for name in TOGETHER if name not in ("attackers", "lr")))
    return found


def mean(results: Results, rule: str, attack: str, measure: str) -> float | None:
    """The mean over the seeds; None if there is no such run."""
    values = [run.last(measure) for run in select(results, rule, attack)]
    return float(np.mean(values)) if values else None


def table(results: Results, most: int = 0) -> str:
    """A line per rule or system: what it must know, kB, and "worst own / mean whole" under each attack.

    A cell of fewer seeds than `most` says of how many.
    """
    attacks = names_run(results, "attack", ATTACKS)
    lines = [f"| | must know | kB | {' | '.join(attacks)} |", f"|---|---|---:|{'---|' * len(attacks)}"]
    for rule in rules_of(results):
        cells = " | ".join(cell(results, rule, attack, most) for attack in attacks)
        lines.append(f"| `{rule}` | {NEEDS[rule]} | {kilobytes(results, rule)} | {cells} |")
    return "\n".join(lines)


def cell(results: Results, rule: str, attack: str, most: int) -> str:
    """The worst own and the mean whole accuracy, and of how many seeds, if of fewer than `most`."""
    worst, whole = (mean(results, rule, attack, measure) for measure in ("worst_own", "mean_whole"))
    if worst is None or whole is None:
        return "-"
    return f"{worst:.2f} / {whole:.2f}{few(select(results, rule, attack), most)}"


def few(runs: Results, most: int) -> str:
    """The number of runs in brackets, if there are fewer than `most`: " (1)"; "" for none."""
    return f" ({len(runs)})" if 0 < len(runs) < most else ""


def winners(results: Results, measure: str) -> str:
    """The best rules under each attack, all that are within 0.005 of it; of more than six, how many."""
    said = []
    for attack in names_run(results, "attack", ATTACKS):
        scores = {rule: mean(results, rule, attack, measure) for rule in rules_of(results)}
        known = {rule: score for rule, score in scores.items() if score is not None}
        best = max(known.values())
        names = [f"`{rule}`" for rule, score in known.items() if score >= best - 0.005]
        who = ", ".join(names) if len(names) <= 6 else f"{len(names)} of {len(known)}"
        said.append(f"{attack} {who} ({best:.2f})")
    return "; ".join(said)


def seeds(results: Results) -> str:
    """The number of seeds that a number is the mean of, at least and at most: "3 seeds", "1 to 3 seeds"."""
    counts = Counter((run.config.rule, run.config.attack) for run in results).values()
    low, high = min(counts), max(counts)
    return several(low, "seed") if low == high else f"{low} to {high} seeds"


def section(results: Results) -> str:
    """The block in docs/results/systems.md: what each part is, who is best, and its table, folded."""
    text = []
    for (task, attackers), some in parts(results).items():
        rates, c = sorted({f"{run.config.lr:g}" for run in some}), some[0].config
        facts = f"{c.workers} workers, {attackers} attackers, {c.epochs} epochs"
        if c.partition != TASKS[task].defaults["partition"]:
            facts += f", partition {c.partition}"
        facts += f", {seeds(some)}, learning rate {' or '.join(rates)}"
        facts = ", ".join([facts, *describe_versions(some), f"{len(some)} runs."])
        own, whole = (winners(some, measure) for measure in ("worst_own", "mean_whole"))
        title = f"### {TASKS[task].title}, {attackers} attackers"
        best = f"Best worst *own*: {own}.\n\nBest mean *whole*: {whole}."
        folded = f'<details markdown="1">\n<summary>The table</summary>\n\n{table(some)}\n\n</details>'
        text.append(f"{title}\n\n{facts}\n\n{best}\n\n{folded}\n")
    return "\n".join(text)


def show(path: Path = CSV, page: Path = PAGE) -> None:
    """Writes the section."""
    write_blocks(page, {"systems": section(read(path))})


# --- CSV -> picture -----------------------------------------------------------------------------------------


def draw(results: Results, task: str, path: Path) -> None:
    """Writes the heat maps of a task, rule by attack: worst own, mean whole, for each number of attackers."""
    from matplotlib.colors import FuncNorm

    found = {f: some for (name, f), some in parts(results).items() if name == task}
    order, first = ranked(next(iter(found.values()))), next(iter(found))
    maps = [(f, measure) for f in found for measure in ("worst_own", "mean_whole")]
    attacks = {f: names_run(some, "attack", ATTACKS) for f, some in found.items()}
    wide = [len(attacks[f]) for f, _ in maps]
    facts = f"{found[first][0].config.epochs} epochs, {seeds(found[first])}; bold: the paper's; empty: not run"
    title = f"{answer(found[first])}\n{TASKS[task].title}, {facts}"
    size = (max(5.2, 2.2 + 0.37 * sum(wide) + 0.15 * len(wide)), 1.3 + 0.155 * len(order))
    top = max(run.last("worst_own") for run in results if run.config.task == task)
    with drawing(path, title, size) as fig:
        axes = fig.subplots(1, len(maps), squeeze=False, sharey=True, width_ratios=wide)[0]
        for ax, (f, measure) in zip(axes, maps, strict=True):
            heat_map(ax, found[f], order, attacks[f], measure, FuncNorm(STRETCH, 0, top))
            ax.set_title(f"{MAPS[measure]}\n{several(f, 'attacker')}")
        axes[0].set_yticks(range(len(order)), order)
        for text, rule in zip(axes[0].get_yticklabels(), order, strict=True):
            text.set_weight("bold" if rule in methods.RULES else "normal")


MAPS = {"worst_own": "worst worker, own data", "mean_whole": "mean, all data"}


def answer(results: Results) -> str:
    """A sentence on three rules: the one that loses least in its worst case, adaptive and local."""
    order = ranked(results)
    named = [rule for rule in dict.fromkeys([order[0], "adaptive", "local", *order]) if rule in order]
    said = ", ".join(f"{rule} {min(known(results, rule)):.2f}" for rule in named[:3])
    return f"Accuracy in the worst of these cases: {said}"


def known(results: Results, rule: str) -> list[float]:
    """The worst own accuracy under each attack that the rule was run with."""
    scores = (mean(results, rule, attack, "worst_own") for attack in names_run(results, "attack", ATTACKS))
    return [score for score in scores if score is not None]


def ranked(results: Results) -> list[str]:
    """The rules, first the one that loses least under its worst attack; last, those not run under all."""
    scores = {rule: known(results, rule) for rule in rules_of(results)}
    return sorted(scores, key=lambda rule: (-len(scores[rule]), -min(scores[rule])))


def heat_map(ax: Any, results: Results, rules: list[str], attacks: list[str], measure: str, norm: Any) -> None:
    """Draws a measure, rule by attack, with its numbers; a cell is empty where nothing was run."""
    scores = [[mean(results, rule, attack, measure) for attack in attacks] for rule in rules]
    ax.imshow(np.array(scores, dtype=float), norm=norm, cmap="viridis", aspect="auto")
    for i, row in enumerate(scores):
        for j, score in enumerate(row):
            if score is not None:
                colour = "black" if norm(score) > 0.55 else "white"
                ax.text(j, i, f"{score:.2f}", ha="center", va="center", fontsize=6.5, color=colour)
    ax.set_xticks(range(len(attacks)), attacks, rotation=45, ha="right", rotation_mode="anchor")
    ax.tick_params(length=0)


def main(argv: list[str] | None = None) -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("collect", help="runs -> CSV").add_argument("folders", nargs="+", type=Path)
    commands.add_parser("show", help="CSV -> docs/results/systems.md")
    options = parser.parse_args(argv)
    try:
        if options.command == "show":
            show()
            return 0
        if empty := [str(folder) for folder in options.folders if not any(folder.glob("*.json"))]:
            raise ValueError(f"needs folders with JSON files of runs, got none in {', '.join(empty)}")
        print(f"{collect(options.folders)} runs in {CSV}")
    except ValueError as error:
        parser.error(reason(error))
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
