"""The comparison of all systems, from the runs' files to docs/RESULTS.md.

    python studies/systems.py collect FOLDER ...   # JSON files of runs -> docs/results/systems.csv
    python studies/systems.py show                 # the CSV -> part of docs/RESULTS.md, docs/systems.png

`collect` adds to what the CSV holds already; the latest of two runs of the same configuration counts.
"""

import argparse
import io
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
from refimpl.experiments.process import ended, reason
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

CSV, PAGE, FIGURE = DOCS / "results" / "systems.csv", DOCS / "RESULTS.md", DOCS / "systems.png"
NEEDS = {name: methods.find(name).entry.needs for name in methods.names()}
LABELS = {name: methods.find(name).entry.label for name in methods.names()}


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


def table(results: Results) -> str:
    """A line per rule or system: what it must know, kB, and "worst own / mean whole" under each attack."""
    attacks = names_run(results, "attack", ATTACKS)
    lines = [f"| | must know | kB | {' | '.join(attacks)} |", f"|---|---|---:|{'---|' * len(attacks)}"]
    for rule in rules_of(results):
        cells = " | ".join(cell(results, rule, attack) for attack in attacks)
        lines.append(f"| `{rule}` | {NEEDS[rule]} | {kilobytes(results, rule)} | {cells} |")
    return "\n".join(lines)


def cell(results: Results, rule: str, attack: str) -> str:
    """The worst own and the mean whole accuracy."""
    worst, whole = (mean(results, rule, attack, measure) for measure in ("worst_own", "mean_whole"))
    return "-" if worst is None or whole is None else f"{worst:.2f} / {whole:.2f}"


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
    """The text of the block in docs/RESULTS.md."""
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
        text.append(f"{title}\n\n{facts}\n\n{table(some)}\n\n{best}\n")
    picture = f"![Worst own accuracy by attack, kB a round, and what each must know]({FIGURE.name})\n"
    return "\n".join([*text, picture])


def show(path: Path = CSV, page: Path = PAGE, figure: Path = FIGURE) -> None:
    """Writes the section and the figure."""
    results = read(path)
    write_blocks(page, {"systems": section(results)})
    draw(parts(results), figure)


# --- CSV -> figure ------------------------------------------------------------------------------------------


def draw(found: dict[tuple[str, int], Results], path: Path) -> None:
    """A panel per part: a line per rule, a dot per attack at its worst own accuracy; beside it kB and needs."""
    from matplotlib.figure import Figure

    tall = max(len(rules_of(some)) for some in found.values())
    fig = Figure(figsize=(10, len(found) * (1.2 + 0.24 * tall)), layout="constrained")
    axes = fig.subplots(len(found), 1, squeeze=False)[:, 0]
    for ax, ((task, attackers), some) in zip(axes, found.items(), strict=True):
        panel(ax, some)
        ax.set_title(f"{TASKS[task].title}, {attackers} attackers")
    entries = [zip(*ax.get_legend_handles_labels(), strict=True) for ax in axes]
    dots = {label: dot for pairs in entries for dot, label in pairs}
    labels = [attack.label for attack in ATTACKS.values() if attack.label in dots]
    handles = [dots[label] for label in labels]
    fig.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    buffer = io.BytesIO()
    fig.savefig(buffer, dpi=110, format="png")
    write(path, buffer.getvalue())


def panel(ax: Any, results: Results) -> None:
    """The rules from the one that loses least under its worst attack down; last, those not run under all."""
    attacks, names = names_run(results, "attack", ATTACKS), rules_of(results)
    scores = {rule: [mean(results, rule, attack, "worst_own") for attack in attacks] for rule in names}
    names.sort(key=lambda rule: (None not in scores[rule], min(s for s in scores[rule] if s is not None)))
    for j, attack in enumerate(attacks):
        x = [np.nan if (score := scores[rule][j]) is None else score for rule in names]
        place = list(ATTACKS).index(attack)  # the same look in every panel
        look = {"marker": "os^vD*PX"[place], "color": f"C{place}", "s": 22}
        ax.scatter(x, range(len(names)), label=ATTACKS[attack].label, **look)
    beside = {"va": "center", "fontsize": 7, "transform": ax.get_yaxis_transform()}
    for i, rule in enumerate(names):
        ax.text(1.02, i, f"{kilobytes(results, rule)} kB; {NEEDS[rule]}", **beside)
    ax.set_yticks(range(len(names)), [LABELS[rule] for rule in names], fontsize=8)
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel("worst test accuracy of the normal workers, each on its own test split")
    ax.grid(alpha=0.3)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("collect", help="runs -> CSV").add_argument("folders", nargs="+", type=Path)
    commands.add_parser("show", help="CSV -> docs/RESULTS.md and docs/systems.png")
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
