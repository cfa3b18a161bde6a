"""Where does "resilient against an arbitrary number of adversarial neighbors" hold, and where does it break?

    python studies/attacks.py run FOLDER              # hours: what the CSV lacks, kept in FOLDER, resumable
    python studies/attacks.py collect FOLDER ...      # JSON files of runs -> docs/results/attacks.csv
    python studies/attacks.py show                    # the CSV -> the blocks of docs/results/attacks.md

Spambase, 60 epochs, F of 10 workers lie; HAR, 15 epochs, F of 30. The paper's rule with both risks, three
others among the best (by coordinates, by distances, by screening), and `local`, which no attack reaches,
so that one is enough for it. `run` leaves out what the CSV has, rules that are not defined for F liars, and
attacks that are not defined against a rule.
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


def falls(results: Results, risk: str, measure: str) -> dict[str, dict[int, list[float]]]:
    """By attack and number of liars, how far adaptive is below local in a measure, seed by seed.

    Without an attack the number is 0.
    """
    found: dict[str, dict[int, list[float]]] = {}
    for attack in attacks_run(results):
        for F in counts(results) if ATTACKS[attack].lies else [0]:
            columns = ("adaptive", risk), ("local", "local")
            ours, alone = (
                {run.config.seed: run.last(measure) for run in chosen(results, column, attack, F)}
                for column in columns
            )
            if both := sorted(set(ours) & set(alone)):
                found.setdefault(attack, {})[F] = [alone[seed] - ours[seed] for seed in both]
    return found


Fall = tuple[int, list[float]]  # with so many liars, seed by seed


def named(results: Results, risk: str, measure: str) -> dict[str, Fall]:
    """By attack, the fall that the page names."""
    return {attack: worst(by_F) for attack, by_F in falls(results, risk, measure).items()}


def worst(by_F: dict[int, list[float]]) -> Fall:
    """The surest of the deep falls, with its number of liars; the deepest fall if no deep one is sure."""
    sure = {F: fall for F, fall in by_F.items() if is_deep(fall) and lower_end(fall) > 0}
    return max((sure or by_F).items(), key=lambda item: lower_end(item[1]) if sure else np.mean(item[1]))


def is_deep(fall: list[float]) -> bool:
    """Whether the mean is beyond what counts as comparable."""
    return round(float(np.mean(fall)), 2) > CLOSE


def lower_end(values: list[float]) -> float:
    """The lower end of the 95 % interval; minus infinity for one value."""
    half = interval(values)
    return float(np.mean(values)) - half if np.isfinite(half) else -np.inf


def summary(results: Results) -> str:
    """A line per task and risk: under how many attacks adaptive is below local, and under which it is most."""
    lines = []
    for task, some in by_task(results).items():
        for risk, words in LISTENING.items():
            said = [summed_up(named(some, risk, measure), name) for measure, name in MEASURES.items()]
            lines.append(wrapped(f"- {PARTS[task].name}, {words}: {'; '.join(said)}.", "  "))
    return "\n".join(lines)


def summed_up(found: dict[str, Fall], name: str) -> str:
    """How many attacks make a measure fall, how many certainly, and how far; and how far it is without any."""
    under = {attack: fall for attack, (_, fall) in found.items() if ATTACKS[attack].lies}
    deep = {attack: fall for attack, fall in under.items() if is_deep(fall)}
    sure = {attack: fall for attack, fall in deep.items() if lower_end(fall) > 0}
    text = f"worst {name} under {len(deep) or 'none'} of {several(len(under), 'attack')}"
    if deep:
        some = sure or deep
        most = max(some, key=lambda attack: np.mean(some[attack]))
        details = [f"by {with_interval(some[most])}", several(found[most][0], "liar"), of_seeds(some[most])]
        text += f", {len(sure) or 'none'} certain, most under `{most}` ({', '.join(details)})"
    alone = [fall for attack, (_, fall) in found.items() if not ATTACKS[attack].lies and is_deep(fall)]
    return text + "".join(f", and by {with_interval(fall)} if nobody lies" for fall in alone)


def wrapped(text: str, indent: str = "") -> str:
    """The text in lines of at most WIDTH characters, the indent before all but the first.

    A number stays beside its interval.
    """
    joined = text.replace(" ± ", "\0±\0")
    lines = textwrap.wrap(joined, WIDTH - len(indent), break_long_words=False, break_on_hyphens=False)
    return f"\n{indent}".join(lines).replace("\0", " ")


def verdict(results: Results) -> str:
    """How far adaptive is below local: a line for when nobody lies, and one for each attack that counts."""
    columns = {(risk, measure): named(results, risk, measure) for risk in LISTENING for measure in MEASURES}
    head = [f"{MEASURES[measure]}{', batch' if risk == 'batch' else ''}" for risk, measure in columns]
    lines = [f"| attack | {' | '.join(head)} |", f"|---|{'---|' * len(head)}"]
    for attack in attacks_run(results):
        lies = ATTACKS[attack].lies
        found = [column.get(attack) for column in columns.values()]
        shown = [fall if fall and (is_deep(fall[1]) or not lies) else None for fall in found]
        if any(shown):
            cells = [of_fall(*fall) if fall else "-" for fall in shown]
            lines.append(f"| {f'`{attack}`' if lies else 'nobody lies'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def with_interval(values: list[float]) -> str:
    """The mean with half of the 95 % interval, if there are two values or more."""
    half = interval(values)
    return f"{np.mean(values):.2f}" + (f" ± {half:.2f}" if np.isfinite(half) else "")


def of_seeds(values: list[float]) -> str:
    """How many seeds there is a value for: "1 seed", "2 seeds"."""
    return several(len(values), "seed")


def of_fall(F: int, fall: list[float]) -> str:
    """A fall with its interval, the number of liars, if any, and of seeds; bold if the interval excludes 0."""
    sure = abs(np.mean(fall)) > interval(fall)  # never with one seed, whose interval is NaN
    text = f"**{with_interval(fall)}**" if sure else with_interval(fall)
    return f"{text} ({f'F = {F}, ' if F else ''}{of_seeds(fall)})"


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
    return wrapped(
        f"Of the rows with its trigger {np.mean(of_one):.0f} % get its label (`{PLANTED}`, Spambase, mean of "
        f"{of_seeds(of_one)}; {min(shares):.0f} to {max(shares):.0f} % in each of the {len(runs)} runs of "
        f"`adaptive`, with {liars[0]} to {liars[-1]} liars and both risks)."
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
