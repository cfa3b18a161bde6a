"""The comparison of all systems, from the runs' files to docs/RESULTS.md.

    python benchmarks/systems.py collect FOLDER ...   # JSON files of runs -> docs/results/systems.csv
    python benchmarks/systems.py show                 # the CSV -> part of docs/RESULTS.md, docs/systems.png

`collect` adds to what the CSV holds already. A row is a run: its configuration, its last accuracies, the bytes
that a worker sends in a round, and the versions that computed it.
"""

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments.endings import ended
from refimpl.experiments.files import write
from refimpl.experiments.runs import as_row
from refimpl.experiments.tasks import TASKS
from refimpl.related import SYSTEMS

DOCS = Path(__file__).parents[1] / "docs"
CSV, PAGE, FIGURE = DOCS / "results" / "systems.csv", DOCS / "RESULTS.md", DOCS / "systems.png"
BEGIN, END = "<!-- systems.py writes from here -->", "<!-- to here -->"
CONFIG = ["task", "rule", "attack", "seed", "attackers", "workers", "epochs", "graph", "risk", "optimizer"]
CONFIG += ["lr", "batch_size", "partition", "dtype", "features", "l2", "graph_schedule"]
LAST = ["worst_own", "mean_own", "worst_whole", "mean_whole", "not_finite"]
COLUMNS = [*CONFIG, *LAST, "bytes_per_round", "rounds", "seconds", "version", "code"]
WORDS = {"task", "rule", "attack", "graph", "risk", "optimizer", "partition", "dtype", "features"}
WORDS |= {"graph_schedule", "version", "code"}
COUNT, MAJORITY = "the number of attackers", "that most are honest"
NEEDS = dict.fromkeys(RULES, "nothing") | {name: system.needs for name, system in SYSTEMS.items()}
NEEDS |= {"medoid": MAJORITY, "median": MAJORITY, "trimmed-mean": COUNT, "krum": COUNT}
LABELS = {name: entry.label for name, entry in (RULES | SYSTEMS).items()}
Row = dict[str, Any]


# --- Runs -> CSV --------------------------------------------------------------------------------------------


def row_of(result: dict[str, Any]) -> Row:
    """A run's file as a row."""
    rounds = result["rounds_per_epoch"] * result["config"]["epochs"]
    costs = {"bytes_per_round": result["bytes_per_round"], "rounds": rounds}
    row = as_row(result) | costs | {"seconds": round(result["seconds"], 1)}
    return {name: row[name] for name in COLUMNS}


def read(path: Path) -> list[Row]:
    """The rows of the CSV, numbers as numbers. What an older file does not say is as the task has it."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = [usual(row["task"]) | row for row in csv.DictReader(file)]
    return [{k: v if k in WORDS else float(v) for k, v in row.items()} for row in rows]


def usual(task: str) -> Row:
    """What runs of a task have unless told otherwise."""
    defaults = TASKS[task].defaults
    return {name: defaults[name] for name in ("partition", "features")} | {"l2": 0, "graph_schedule": ""}


def collect(folders: Iterable[Path], path: Path = CSV) -> int:
    """Adds the runs in these folders to the CSV, the latest of the same configuration; how many rows it has."""
    rows = {tuple(str(row[k]) for k in CONFIG): row for row in read(path)}
    for file in sorted(file for folder in folders for file in folder.glob("*.json")):
        row = row_of(json.loads(file.read_text()))
        numbers = {k: float(v) if isinstance(v, int | float) else v for k, v in row.items()}
        rows[tuple(str(numbers[k]) for k in CONFIG)] = numbers
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: compact(v) for k, v in rows[key].items()} for key in sorted(rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, buffer.getvalue())
    return len(rows)


def compact(value: Any) -> Any:
    """Whole numbers without a point, others with six digits."""
    return value if isinstance(value, str) else f"{value:.6g}" if value % 1 else int(value)


# --- CSV -> text --------------------------------------------------------------------------------------------


def parts(rows: list[Row]) -> dict[tuple[str, int], list[Row]]:
    """The rows by task and number of attackers, in the order of TASKS, most attackers first.

    Without an attack their number means nothing: such a row is in all parts of its task. Raises ValueError if a
    part holds two configurations of a rule, of which a mean would say nothing.
    """
    runs = [
        (row["task"], row["attack"] != "none" and row["attackers"], row["rule"], row["attack"], row["seed"])
        for row in rows
    ]
    if twice := [run for run in runs if runs.count(run) > 1]:
        raise ValueError(f"{CSV.name} needs one configuration for each run, got two of {twice[0]}")
    found = {(row["task"], int(row["attackers"])) for row in rows}
    order = sorted(found, key=lambda part: (list(TASKS).index(part[0]), -part[1]))
    return {
        (task, f): [r for r in rows if r["task"] == task and (r["attack"] == "none" or r["attackers"] == f)]
        for task, f in order
    }


def mean(rows: list[Row], rule: str, attack: str, measure: str) -> float | None:
    """Over the seeds; None if there is no such run."""
    values = [row[measure] for row in rows if (row["rule"], row["attack"]) == (rule, attack)]
    return float(np.mean(values)) if values else None


def present(rows: list[Row], key: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if any(row[key] == name for row in rows)]


def table(rows: list[Row]) -> str:
    """A line per rule or system: what it must know, kB, and "worst own / mean whole" under each attack."""
    attacks = present(rows, "attack", ATTACKS)
    lines = [f"| | must know | kB | {' | '.join(attacks)} |", f"|---|---|---:|{'---|' * len(attacks)}"]
    for rule in present(rows, "rule", RULES | SYSTEMS):
        own = [row for row in rows if row["rule"] == rule]
        cells = " | ".join(cell(rows, rule, attack) for attack in attacks)
        lines.append(f"| `{rule}` | {NEEDS[rule]} | {kilobytes(own)} | {cells} |")
    return "\n".join(lines)


def kilobytes(rows: list[Row]) -> str:
    """What a worker sends in a round, in the mean of the runs."""
    kB = np.mean([row["bytes_per_round"] for row in rows]) / 1000
    return f"{kB:.3g}" if kB < 1000 else f"{kB:.0f}"


def cell(rows: list[Row], rule: str, attack: str) -> str:
    worst, whole = (mean(rows, rule, attack, measure) for measure in ("worst_own", "mean_whole"))
    return "-" if worst is None or whole is None else f"{worst:.2f} / {whole:.2f}"


def winners(rows: list[Row], measure: str) -> str:
    """Who is best under each attack, and everyone within 0.005 of it; of more than six, how many."""
    said = []
    for attack in present(rows, "attack", ATTACKS):
        scores = {rule: mean(rows, rule, attack, measure) for rule in present(rows, "rule", RULES | SYSTEMS)}
        known = {rule: score for rule, score in scores.items() if score is not None}
        best = max(known.values())
        names = [f"`{rule}`" for rule, score in known.items() if score >= best - 0.005]
        who = ", ".join(names) if len(names) <= 6 else f"{len(names)} of {len(known)}"
        said.append(f"{attack} {who} ({best:.2f})")
    return "; ".join(said)


def seeds(rows: list[Row]) -> str:
    """How many seeds, at least and at most, a number is the mean of."""
    pairs = {(row["rule"], row["attack"]) for row in rows}
    counts = [sum((row["rule"], row["attack"]) == pair for row in rows) for pair in pairs]
    low, high = min(counts), max(counts)
    return f"{low} seed{'s' if low > 1 else ''}" if low == high else f"{low} to {high} seeds"


def section(rows: list[Row]) -> str:
    """The text between the marks in docs/RESULTS.md."""
    text = []
    for (task, attackers), some in parts(rows).items():
        rates = sorted({f"{row['lr']:g}" for row in some})
        facts = f"{some[0]['workers']:.0f} workers, {attackers} attackers, {some[0]['epochs']:.0f} epochs"
        if unusual := sorted({row["partition"] for row in some} - {usual(task)["partition"]}):
            facts += f", partition {' or '.join(unusual)}"
        facts += f", {seeds(some)}, learning rate {' or '.join(rates)}, {len(some)} runs."
        own, whole = (winners(some, measure) for measure in ("worst_own", "mean_whole"))
        title = f"### {TASKS[task].title}, {attackers} attackers"
        best = f"Best worst *own*: {own}.\n\nBest mean *whole*: {whole}."
        text.append(f"{title}\n\n{facts}\n\n{table(some)}\n\n{best}\n")
    picture = f"![Worst own accuracy by attack, kB a round, and what each must know]({FIGURE.name})\n"
    return "\n".join([*text, picture]) if rows else "No run yet.\n"


def show(path: Path = CSV, page: Path = PAGE, figure: Path = FIGURE) -> None:
    """Writes the section and the figure."""
    rows, text = read(path), page.read_text()
    before, rest = text.split(BEGIN)
    write(page, f"{before}{BEGIN}\n\n{section(rows)}\n{END}{rest.split(END)[1]}")
    draw(parts(rows), figure)


# --- CSV -> figure ------------------------------------------------------------------------------------------


def draw(found: dict[tuple[str, int], list[Row]], path: Path) -> None:
    """A panel per part: a line per rule, a dot per attack at its worst own accuracy; beside it kB and needs."""
    from matplotlib.figure import Figure

    tall = max(len(present(rows, "rule", RULES | SYSTEMS)) for rows in found.values())
    fig = Figure(figsize=(10, len(found) * (1.2 + 0.24 * tall)), layout="constrained")
    axes = fig.subplots(len(found), 1, squeeze=False)[:, 0]
    for ax, ((task, attackers), rows) in zip(axes, found.items(), strict=True):
        panel(ax, rows)
        ax.set_title(f"{TASKS[task].title}, {attackers} attackers")
    shown = [zip(*ax.get_legend_handles_labels(), strict=True) for ax in axes]
    dots = {label: dot for pairs in shown for dot, label in pairs}
    labels = [attack.label for attack in ATTACKS.values() if attack.label in dots]
    handles = [dots[label] for label in labels]
    fig.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    buffer = io.BytesIO()
    fig.savefig(buffer, dpi=110, format="png")
    write(path, buffer.getvalue())


def panel(ax: Any, rows: list[Row]) -> None:
    """The rules from the one that loses least under its worst attack down; last, those not run under all."""
    attacks, names = present(rows, "attack", ATTACKS), present(rows, "rule", RULES | SYSTEMS)
    scores = {rule: [mean(rows, rule, attack, "worst_own") for attack in attacks] for rule in names}
    names.sort(key=lambda rule: (None not in scores[rule], min(s for s in scores[rule] if s is not None)))
    for j, attack in enumerate(attacks):
        x = [np.nan if (score := scores[rule][j]) is None else score for rule in names]
        place = list(ATTACKS).index(attack)  # the same look in every panel
        look = {"marker": "os^vD*PX"[place], "color": f"C{place}", "s": 22}
        ax.scatter(x, range(len(names)), label=ATTACKS[attack].label, **look)
    beside = {"va": "center", "fontsize": 7, "transform": ax.get_yaxis_transform()}
    for i, rule in enumerate(names):
        sent = kilobytes([row for row in rows if row["rule"] == rule])
        ax.text(1.02, i, f"{sent} kB; {NEEDS[rule]}", **beside)
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
    if options.command == "show":
        show()
        return 0
    if empty := [str(folder) for folder in options.folders if not any(folder.glob("*.json"))]:
        parser.error(f"needs folders with JSON files of runs, got none in {', '.join(empty)}")
    print(f"{collect(options.folders)} runs in {CSV}")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
