"""Where does "resilient against an arbitrary number of adversarial neighbors" hold, and where does it break?

    python studies/attacks.py run FOLDER              # hours: what the CSV lacks, kept in FOLDER, resumable
    python studies/attacks.py collect FOLDER ...      # JSON files of runs -> docs/results/attacks.csv
    python studies/attacks.py show                    # the CSV -> the blocks of docs/results/attacks.md

Spambase, 60 epochs, F of 10 workers lie; HAR, 15 epochs, F of 30. The paper's rule with both risks; three
others that hold on Spambase by docs/results/systems.md ("Who wins where"), one that goes by coordinates, one by
distances, one by screening; and `local`, which no attack reaches, so that one is enough for it. `run` leaves
out what the CSV has, rules that are not defined for F liars, and attacks that are not defined against a rule.
"""

import argparse
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import systems
from blocks import DOCS, write_blocks

from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments import cli, runner
from refimpl.experiments.config import Config
from refimpl.experiments.figures import COLOURS, MARKERS, drawing
from refimpl.experiments.options import Parser, parse, whole_number
from refimpl.experiments.results import Results, read
from refimpl.experiments.statistics import interval
from refimpl.experiments.tables import names_run
from refimpl.experiments.tasks import TASKS
from refimpl.experiments.words import several
from refimpl.process import ended, reason

CSV, PAGE = DOCS / "results" / "attacks.csv", DOCS / "results" / "attacks.md"
ANY = "sign-flip"  # the attack that `local` is run with
TRIGGERED = "backdoor"  # and the one that says what it does with triggered rows
PLANTED = "capture-backdoor"  # the backdoor that knows Eq. (6)
STUDIED = [name for name in ATTACKS if name != "alie-corrupted"]  # ALIE with less knowledge: see docs/AUDIT.md
CLOSE = 0.05  # accuracies that differ by no more are comparable
FEW = 3  # seeds; the picture leaves out means of fewer
WIDTH = 120  # of a line of text


class Part(NamedTuple):
    """The runs of a task."""

    name: str
    options: tuple[str, ...]
    attackers: tuple[int, ...]
    seeds: int


PARTS = {
    "spambase": Part("Spambase", ("--epochs", "60"), tuple(range(1, 10)), 5),
    "har": Part("HAR", ("--epochs", "15"), (1, 6, 13, 20, 29), 3),
}
COLUMNS = {  # by rule and risk
    ("adaptive", "local"): "`adaptive`",
    ("adaptive", "batch"): "`adaptive`, batch",
    ("median", "local"): "`median`",
    ("krum", "local"): "`krum`",
    ("ios", "local"): "`ios`",
    ("local", "local"): "`local`",
}
MEASURES = {"worst_own": "*own*", "worst_whole": "*whole*"}
LISTENING = {"local": "with the paper's r_k", "batch": "with the risk on the batch"}


# --- Runs -> CSV --------------------------------------------------------------------------------------------


def configs(task: str) -> Iterator[Config]:
    """The runs of a task that are defined."""
    part = PARTS[task]
    seeds = [str(seed) for seed in range(part.seeds)]
    for (rule, risk), F in ((key, F) for F in part.attackers for key in COLUMNS):
        attacks = [ANY, TRIGGERED, "none"] if rule == "local" else STUDIED
        given = [
            "--rules",
            rule,
            "--risk",
            risk,
            "--attackers",
            str(F),
            "--attacks",
            *attacks,
            "--seeds",
            *seeds,
        ]
        _, args = parse(task, [*part.options, *given])
        yield from filter(defined, cli.configs(task, args))


def defined(c: Config) -> bool:
    """Whether the rule is defined for so many liars, and the attack against it: some are made against rules."""
    if c.rule not in RULES:  # IOS is defined for any number of liars
        return "outcome" not in ATTACKS[c.attack].knows
    try:
        RULES[c.rule].require(c.workers, c.attackers)
    except ValueError:
        return False
    return True


def key_of(c: Config) -> tuple[Any, ...]:
    """What tells runs of this study apart; without an attack the number of attackers does not."""
    return c.task, c.rule, c.risk, c.attack, c.liars, c.seed


def missing(task: str, kept: Results) -> list[Config]:
    """The runs that are not among those kept, each once."""
    known = {key_of(run.config) for run in kept}
    return [c for key, c in {key_of(c): c for c in configs(task)}.items() if key not in known]


def run(task: str, folder: Path, jobs: int, data_dir: str | None) -> None:
    """Computes what the CSV lacks, and adds it."""
    if todo := missing(task, read(CSV) if CSV.exists() else []):
        folder.mkdir(parents=True, exist_ok=True)
        runner.run_grid(todo, folder, jobs, data_dir, 1)
        systems.collect([folder], CSV)


# --- CSV -> text --------------------------------------------------------------------------------------------


def kept(path: Path = CSV) -> Results:
    """The runs of the CSV, without seeds that adaptive was not attacked with, as others are compared to it."""
    found = read(path)
    seeds_of = {(r.config.task, r.config.seed) for r in found if r.config.rule == "adaptive" and r.config.liars}
    return [run for run in found if (run.config.task, run.config.seed) in seeds_of]


def chosen(results: Results, column: tuple[str, str], attack: str, F: int, alone: str = ANY) -> Results:
    """The runs of a rule with a risk under an attack with F liars, 0 for no attack; of local under `alone`."""
    rule, risk = column
    attack = attack if F and rule != "local" else alone if F else "none"
    wanted = (rule, risk, attack, F)
    return [r for r in results if (r.config.rule, r.config.risk, r.config.attack, r.config.liars) == wanted]


def mean(runs: Results, measure: str) -> float | None:
    """The mean over the seeds; None if there are none."""
    return float(np.mean([run.last(measure) for run in runs])) if runs else None


def counts(results: Results) -> list[int]:
    """The numbers of liars that were run."""
    return sorted({run.config.liars for run in results} - {0})


def by_task(results: Results) -> dict[str, Results]:
    """The runs of each task that was run, in the order of PARTS."""
    found = {task: [run for run in results if run.config.task == task] for task in PARTS}
    return {task: some for task, some in found.items() if some}


def attacks_run(results: Results) -> list[str]:
    """The attacks that were run; `none` comes first."""
    return names_run(results, "attack", ATTACKS)


class Fall(NamedTuple):
    """How far adaptive is below local, seed by seed."""

    liars: int  # 0 if nobody lies
    values: list[float]
    beyond: list[float]  # less the fall when nobody lies, of the seeds that have it; `values` if none has


def falls(results: Results, risk: str, measure: str) -> dict[str, list[Fall]]:
    """By attack, how far adaptive is below local in a measure, for each number of liars."""

    def below(attack: str, F: int) -> dict[int, float]:
        ours, alone = (
            {run.config.seed: run.last(measure) for run in chosen(results, column, attack, F)}
            for column in (("adaptive", risk), ("local", "local"))
        )
        return {seed: alone[seed] - ours[seed] for seed in sorted(set(ours) & set(alone))}

    found: dict[str, list[Fall]] = {}
    usual = below("none", 0)
    for attack in attacks_run(results):
        for F in counts(results) if ATTACKS[attack].lies else [0]:
            if fall := below(attack, F):
                values = list(fall.values())
                beyond = [fall[seed] - usual[seed] for seed in fall if F and seed in usual]
                found.setdefault(attack, []).append(Fall(F, values, beyond or values))
    return found


def worst(found: list[Fall]) -> Fall:
    """The fall that the page names: of those that count the surest, or if none is above 0 the deepest."""
    if above := [fall for fall in found if is_above_0(fall)]:
        return max(above, key=lambda fall: lower_end(fall.values))
    deep = [fall for fall in found if is_deep(fall)]
    return max(deep or found, key=lambda fall: np.mean(fall.values))


def is_deep(fall: Fall) -> bool:
    """Whether it counts: it is beyond what counts as comparable, also beyond the fall when nobody lies."""
    return all(round(float(np.mean(values)), 2) > CLOSE for values in (fall.values, fall.beyond))


def is_above_0(fall: Fall) -> bool:
    """Whether it counts and its 95 % interval is above 0, also that beyond the fall when nobody lies."""
    return is_deep(fall) and all(lower_end(values) > 0 for values in (fall.values, fall.beyond))


def lower_end(values: list[float]) -> float:
    """The lower end of the 95 % interval; minus infinity for one value."""
    half = interval(values)
    return float(np.mean(values)) - half if np.isfinite(half) else -np.inf


def summary(results: Results) -> str:
    """A line per task and risk: how many cells were looked at, how many attacks count, and the deepest fall."""
    head = ["task and risk", "cells (above 0)"]
    for name in MEASURES.values():
        head += [f"{name}: attacks", "above 0", "deepest"]
    lines = [f"| {' | '.join(head)} |", f"|---|{'---|' * (len(head) - 1)}"]
    for task, some in by_task(results).items():
        for risk, words in LISTENING.items():
            cells, numbers = [], list[str]()
            for measure in MEASURES:
                by_attack = {a: found for a, found in falls(some, risk, measure).items() if ATTACKS[a].lies}
                cells += [fall for found in by_attack.values() for fall in found]
                numbers += summed_up({attack: worst(found) for attack, found in by_attack.items()})
            looked_at = f"{len(cells)} ({sum(map(is_above_0, cells))})"
            row = [f"{PARTS[task].name}, {words}", looked_at, *numbers]
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def summed_up(found: dict[str, Fall]) -> list[str]:
    """How many attacks count, how many are above 0, and the deepest fall: of these, if there are any."""
    deep = {attack: fall for attack, fall in found.items() if is_deep(fall)}
    above = {attack: fall for attack, fall in found.items() if is_above_0(fall)}
    most = max(above or deep, key=lambda attack: np.mean(deep[attack].values), default=None)
    name = "-" if most is None else f"`{most}` {of_fall(deep[most])}"
    return [f"{len(deep)} of {len(found)}", str(len(above)), name]


def verdict(results: Results) -> str:
    """How far adaptive is below local: a line for when nobody lies, and one for each attack that counts."""
    columns = {(risk, measure): falls(results, risk, measure) for risk in LISTENING for measure in MEASURES}
    head = [f"{MEASURES[measure]}{', batch' if risk == 'batch' else ''}" for risk, measure in columns]
    lines = [f"| attack | {' | '.join(head)} |", f"|---|{'---|' * len(head)}"]
    for attack in attacks_run(results):
        lies = ATTACKS[attack].lies
        found = [worst(column[attack]) if attack in column else None for column in columns.values()]
        shown = [fall if fall and (is_deep(fall) or not lies) else None for fall in found]
        if any(shown):
            cells = [of_fall(fall) if fall else "-" for fall in shown]
            lines.append(f"| {f'`{attack}`' if lies else 'nobody lies'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def of_seeds(values: list[float]) -> str:
    """How many seeds there is a value for: "1 seed", "2 seeds"."""
    return several(len(values), "seed")


def of_fall(fall: Fall) -> str:
    """A fall with half of its interval, if it has one, the number of liars, if any, and of seeds.

    Bold if the interval excludes 0, also that beyond the fall when nobody lies.
    """
    half = interval(fall.values)
    text = f"{np.mean(fall.values):.2f}" + (f" ± {half:.2f}" if np.isfinite(half) else "")
    if all(abs(np.mean(some)) > interval(some) for some in (fall.values, fall.beyond)):  # never of one: NaN
        text = f"**{text}**"
    return f"{text} ({f'F = {fall.liars}, ' if fall.liars else ''}{of_seeds(fall.values)})"


def table(results: Results, F: int) -> str:
    """A line per attack: what passes and its weight, with both risks, then the accuracies of all rules."""
    head = ["attack", "pass", "weight", "pass, batch", "weight, batch", *COLUMNS.values()]
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * 4}{'---|' * len(COLUMNS)}"]
    most = most_seeds(results, F)
    for attack in attacks_run(results):
        if ATTACKS[attack].lies == bool(F) and any(
            chosen(results, ("adaptive", r), attack, F) for r in LISTENING
        ):
            listening = [
                number(mean(chosen(results, ("adaptive", risk), attack, F), measure), digits)
                for risk in LISTENING
                for measure, digits in (("passing", 1), ("attacker_weight", 2))
            ]
            cells = [cell(chosen(results, column, attack, F), most) for column in COLUMNS]
            lines.append(f"| {' | '.join([f'`{attack}`', *listening, *cells])} |")
    return "\n".join(lines)


def number(value: float | None, digits: int) -> str:
    """A number, or a dash."""
    return "-" if value is None or not np.isfinite(value) else f"{value:.{digits}f}"


def cell(runs: Results, most: int) -> str:
    """The worst own and the worst whole accuracy, and of how many seeds, if others have more."""
    if not runs:
        return "-"
    own, whole = (number(mean(runs, measure), 2) for measure in MEASURES)
    return f"{own} / {whole}{systems.few(runs, most)}"


def section(results: Results) -> str:
    """The tables of all tasks, one for each number of liars."""
    text = []
    for task, some in by_task(results).items():
        c, text_of_task = some[0].config, []
        facts = f"{c.workers} workers, {c.epochs} epochs, {seeds(some)} a cell, {len(some)} runs."
        for F in [0, *counts(some)]:
            if len((made := table(some, F)).splitlines()) > 2:
                title = f"{several(F, 'liar') if F else 'Nobody lies'}; {several(most_seeds(some, F), 'seed')}"
                summary = f"<summary>{title}</summary>"
                text_of_task.append(f'<details markdown="1">\n{summary}\n\n{made}\n\n</details>')
        text.append("\n\n".join([f"## {TASKS[task].title}", facts, *text_of_task]))
    return "\n\n".join(text)


def planted(results: Results) -> str:
    """What one liar's backdoor comes to on Spambase with the paper's r_k, and in all runs of adaptive."""
    ours = [run for run in by_task(results)["spambase"] if run.config.rule == "adaptive"]
    runs = [run for run in ours if run.config.attack == PLANTED]
    shares, of_one = (
        [100 * run.last("backdoor_success") for run in some]
        for some in (runs, chosen(runs, ("adaptive", "local"), PLANTED, 1))
    )
    liars = counts(runs)
    return textwrap.fill(
        f"Of the rows with its trigger {np.mean(of_one):.0f} % get its label (`{PLANTED}`, Spambase, mean of "
        f"{of_seeds(of_one)}; {min(shares):.0f} to {max(shares):.0f} % in each of the {len(runs)} runs of "
        f"`adaptive`, with {liars[0]} to {liars[-1]} liars and both risks).",
        WIDTH,
        break_on_hyphens=False,
    )


def backdoors(results: Results) -> str:
    """A line per backdoor and number of liars: the share of triggered rows that get the attackers' label."""
    some = [run for run in results if np.isfinite(run.last("backdoor_success"))]
    lines = [f"| attack | F | {' | '.join(COLUMNS.values())} |", f"|---|---:|{'---|' * len(COLUMNS)}"]
    most = max(counted(some).values(), default=0)
    for attack in attacks_run(some):
        for F in counts(some):
            found = [chosen(some, column, attack, F, TRIGGERED) for column in COLUMNS]
            if any(found[:-1]):  # more than local
                cells = [number(mean(runs, "backdoor_success"), 2) + systems.few(runs, most) for runs in found]
                lines.append(f"| `{attack}` | {F} | {' | '.join(cells)} |")
    return "\n".join(lines)


def counted(results: Results) -> Counter[tuple[Any, ...]]:
    """The number of seeds of each cell."""
    return Counter(key_of(run.config)[:-1] for run in results)


def most_seeds(results: Results, F: int) -> int:
    """The number of seeds of the cell with F liars that has most; 0 if there is none."""
    return max(counted([run for run in results if run.config.liars == F]).values(), default=0)


def seeds(results: Results) -> str:
    """The number of seeds of a cell, at least and at most."""
    found = counted(results).values()
    low, high = min(found), max(found)
    return several(low, "seed") if low == high else f"{low} to {high} seeds"


def blocks() -> dict[str, str]:
    """The blocks of the page."""
    results = kept()
    spambase, har = (by_task(results)[task] for task in PARTS)
    return {
        "backdoor of one": planted(results),
        "falls": summary(results),
        "verdict": verdict(spambase),
        "verdict on HAR": verdict(har),
        "backdoors": backdoors(spambase),
        "backdoors on HAR": backdoors(har),
        "tables": section(results),
    }


# --- CSV -> picture -----------------------------------------------------------------------------------------


def draw(results: Results, path: Path) -> None:
    """Writes a picture of Spambase: a column per risk, a row per test data, a line per attack over F."""
    every = by_task(results)["spambase"]
    cells = counted(every)
    some = [run for run in every if cells[key_of(run.config)[:-1]] >= FEW]
    attacks = [name for name in attacks_run(some) if ATTACKS[name].lies]
    facts = f"Spambase, {some[0].config.epochs} epochs, {seeds(some)}; worst of the normal workers"
    with drawing(
        path, f"adaptive under each attack, and local, by the number of liars of 10\n{facts}", (7, 5)
    ) as fig:
        axes = fig.subplots(2, 2, sharex=True, sharey="row")
        for row, measure in zip(axes, MEASURES, strict=True):
            for ax, risk in zip(row, LISTENING, strict=True):
                panel(ax, some, risk, measure, attacks)
            row[0].set_ylabel(f"test accuracy, {'own' if measure == 'worst_own' else 'all'} data")
        for ax, words in zip(axes[0], LISTENING.values(), strict=True):
            ax.set_title(words)
        for ax in axes[-1]:
            ax.set_xlabel("liars among 10 workers")
        handles, labels = axes[0][0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=7)


def panel(ax: Any, results: Results, risk: str, measure: str, attacks: list[str]) -> None:
    """Draws a line per attack, those of the paper and of others in grey, and local's."""
    lines = {attack: (("adaptive", risk), attack) for attack in attacks} | {"local": (("local", "local"), ANY)}
    for i, (name, (column, attack)) in enumerate(lines.items()):
        points = {F: mean(chosen(results, column, attack, F), measure) for F in [0, *counts(results)]}
        known = {F: value for F, value in points.items() if value is not None}
        grey = name in ATTACKS and ATTACKS[name].reference != "ours"
        colour = "black" if name == "local" else "0.8" if grey else COLOURS[i % len(COLOURS)]
        style = ("--" if name == "local" else "-") + ("" if grey else MARKERS[i % len(MARKERS)])
        label = ("others" if i == 0 else "_") if grey else name  # an underscore: not in the legend
        look = {"color": colour, "linewidth": 1, "markersize": 3.5, "label": label, "zorder": 1 if grey else 2}
        ax.plot(list(known), list(known.values()), style, **look)
    ax.grid(alpha=0.3, linewidth=0.5)


def main(argv: list[str] | None = None) -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", help="what the CSV lacks -> CSV")
    runs.add_argument("folders", nargs=1, type=Path, metavar="FOLDER")
    runs.add_argument("--task", choices=PARTS, default="spambase")
    runs.add_argument("--jobs", type=whole_number(1), default=1, help="runs at a time (1)")
    runs.add_argument("--data-dir", metavar="FOLDER", help="with the data (as shipped, or fetched once)")
    commands.add_parser("collect", help="runs -> CSV").add_argument("folders", nargs="+", type=Path)
    commands.add_parser("show", help="CSV -> docs/results/attacks.md")
    options = parser.parse_args(argv)
    try:
        if options.command == "run":
            run(options.task, options.folders[0], options.jobs, options.data_dir)
        elif options.command == "collect":
            print(f"{systems.collect(options.folders, CSV)} runs in {CSV}")
        else:
            write_blocks(PAGE, blocks())
    except ValueError as error:
        parser.error(reason(error))
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
