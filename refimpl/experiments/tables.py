"""Tables of the results of a grid; over several seeds with intervals."""

import math
import textwrap
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from refimpl import methods
from refimpl.attacks import ATTACKS
from refimpl.experiments.results import MEASURES, Results, Row
from refimpl.experiments.statistics import interval, not_worse

WIDTH = 80  # columns of a terminal
BACKDOOR = "backdoor_success"  # a number of some runs


def rows(results: Results) -> list[Row]:
    """One row per rule and attack, averaged over the seeds, in the order of the options.

    With half of the 95 % interval, and whether the rule is among those that are level with the best.
    """
    table = []
    attacks = names_run(results, "attack", ATTACKS)
    any_backdoor = any(BACKDOOR in run.history for run in results)
    level = {(attack, m): level_with_best(results, attack, m) for attack in attacks for m in MEASURES}
    for rule in rules_of(results):
        for attack in attacks:
            if runs := select(results, rule, attack):
                at_end = {m: [run.last(m) for run in runs] for m in MEASURES}
                row = {"rule": rule, "attack": attack, "seeds": len(runs)}
                row |= {m: float(np.mean(values)) for m, values in at_end.items()}
                with np.errstate(invalid="ignore"):  # of an infinite loss: NaN
                    row |= {f"{m}_interval": interval(values) for m, values in at_end.items()}
                row |= {f"{m}_level": rule in level[attack, m] for m in MEASURES}
                row |= backdoor_of(runs) if any_backdoor else {}
                lost = [run.history.get("not_finite", [0])[-1] or 0 for run in runs]
                row |= {"not_finite": int(max(lost)), "seeds_lost": sum(map(bool, lost))}
                table.append(row | {"bytes_per_round": float(np.mean([run.bytes_per_round for run in runs]))})
    return table


def backdoor_of(runs: Results) -> Row:
    """The success of a backdoor with half of the 95 % interval; None and NaN if the runs had no backdoor."""
    values = [run.last(BACKDOOR) for run in runs if BACKDOOR in run.history]
    return {BACKDOOR: float(np.mean(values)) if values else None, f"{BACKDOOR}_interval": interval(values)}


def rules_of(results: Results) -> list[str]:
    """The rules that were run, the paper's first, then systems."""
    return names_run(results, "rule", methods.names())


def one_seed(results: Results) -> str:
    """A sentence on what rules compared with a single seed are worth; "" if there are several, or one rule."""
    seeds = {run.config.seed for run in results}
    alone = len(seeds) == 1 and len(rules_of(results)) > 1
    return "One seed proves little: --repeats 10 runs ten, and shows intervals." if alone else ""


def sent(results: Results) -> str:
    """A sentence on how much a worker sends in a round, by rule; what most rules send comes first."""
    groups: dict[str, list[str]] = {}
    for rule in rules_of(results):
        groups.setdefault(f"{kilobytes(results, rule)} kB", []).append(rule)
    usual, *others = sorted(groups, key=lambda amount: -len(groups[amount]))
    text = "".join(f"; {amount} with {', '.join(groups[amount])}" for amount in others)
    return textwrap.fill(f"A worker sends {usual} to all its neighbours together in a round{text}.", WIDTH)


def too_few(results: Results) -> str:
    """A sentence on how often too few messages arrived for a rule, by rule; "" if that never happened."""
    shares = []
    for rule in rules_of(results):
        runs = [run for run in results if run.config.rule == rule and "too_few" in run.history]
        rounds = [run.rounds_per_epoch * c.epochs * (c.workers - c.liars) for run in runs for c in [run.config]]
        if count := sum(run.last("too_few") for run in runs):
            shares.append(f"{100 * count / sum(rounds):.2g} % with {rule}")
    text = "A normal worker kept its own model, as too few others arrived, in this share of its rounds: "
    return textwrap.fill(f"{text}{', '.join(shares)}.", WIDTH) if shares else ""


def kilobytes(results: Results, rule: str) -> str:
    """How many kB a worker sends in a round to all its neighbours together, in the mean of the rule's runs."""
    kB = np.mean([run.bytes_per_round for run in results if run.config.rule == rule]) / 1000
    return f"{kB:.3g}" if kB < 1000 else f"{kB:.0f}"


def level_with_best(results: Results, attack: str, measure: str) -> set[str]:
    """The rules that are level with the best one under this attack: highest accuracy, lowest loss."""
    values: dict[str, dict[int, float]] = {}
    for run in results:
        if run.config.attack == attack:
            by_seed = values.setdefault(run.config.rule, {})
            by_seed[run.config.seed] = run.last(measure) * (-1 if "loss" in measure else 1)
    finite = {rule: found for rule, found in values.items() if all(map(math.isfinite, found.values()))}
    return not_worse(finite) if finite else set()


def names_run(results: Results, key: str, names: Iterable[str]) -> list[str]:
    """The names that were run, in the order given; `key` is a field of `Config`."""
    found = {getattr(run.config, key) for run in results}
    return [name for name in names if name in found]


def select(results: Results, rule: str, attack: str) -> Results:
    """The runs of a rule and an attack, one per seed."""
    return [run for run in results if (run.config.rule, run.config.attack) == (rule, attack)]


# --- As text ------------------------------------------------------------------------------------------------


class Quantity(NamedTuple):
    """An entry of QUANTITIES: what a table is about."""

    about: str
    what: str  # heads the names of the lines
    lines: dict[str, tuple[str, ...]]
    """of each rule, by name: the measures of the worst number and of the mean, or of the mean alone"""
    notes: dict[str, str]  # by the mark that they explain


LEVEL = "= level with the best of its column (paired t-test, Holm, 5 %)"
LOST = "* some normal workers' parameters are NaN or infinite"
QUANTITIES = {
    "worst_own": Quantity(
        "Test accuracy of the normal workers, each on its own test split (own)\n"
        "or on all workers' test data (whole).",
        "test",
        {"own": ("worst_own", "mean_own"), "whole": ("worst_whole", "mean_whole"), "fooled": (BACKDOOR,)},
        {
            "fooled": "fooled: the mean share of rows with a trigger that get the attackers' label",
            "±": "± half of the 95 % interval over the seeds (Student's t; may pass 0 or 1)",
            "=": LEVEL,
            "*": f"{LOST}; their accuracy counts as 0",
        },
    ),
    "highest_loss": Quantity(
        "Training loss of the normal workers on their own data; the worst is the highest.\n"
        "The released code plots this divided by the batch size.",
        "loss",
        {"own": ("highest_loss", "mean_loss")},
        {"±": "± half of the 95 % interval over the seeds (Student's t)", "=": LEVEL, "*": LOST},
    ),
}
"""By the measure that a figure of it shows."""


def text_table(results: Results, what: str = "worst_own") -> str:
    """The results as text: a line per rule, a column per attack, as many side by side as fit in WIDTH.

    In each cell "worst mean", or with several seeds the worst and its interval.
    """
    header, *lines = cells(results, what)
    first = max(13, 1 + max(len(line[0]) for line in lines))
    cell = max(12, *(1 + len(text) for line in [header, *lines] for text in line[2:]))
    some = max(1, (WIDTH - first - 6) // cell)
    blocks = [slice(i, i + some) for i in range(2, len(header), some)]
    text = "\n\n".join(block_of(header, lines, block, head_of(results), first, cell) for block in blocks)
    return "\n".join([text, *notes(text, what)])


MEAN, INTERVAL = "worst mean", "worst ±   "


def head_of(results: Results) -> str:
    """The heading of a cell: worst and mean, or over several seeds the worst and its interval."""
    pairs = [(run.config.rule, run.config.attack) for run in results]
    return INTERVAL if len(set(pairs)) < len(pairs) else MEAN


def block_of(header: list[str], lines: list[list[str]], block: slice, head: str, first: int, cell: int) -> str:
    """The lines for some of the attacks; `first` and `cell` are the columns' widths."""
    attacks = header[block]
    made = [
        f"{'':{first + 5}}" + "".join(f"{attack:>{cell}}" for attack in attacks),
        f"{'rule':{first}}{header[1]:5}" + "".join(f"{head:>{cell}}" for _ in attacks).rstrip(),
    ]
    above = ""
    for line in lines:
        rule, name = line[:2]
        numbers = "".join(text.rjust(cell) for text in line[block])
        made.append(f"{rule if rule != above else '':{first}}{name:6}{numbers}".rstrip())
        above = rule
    return "\n".join(made)


def cell_of(row: Row | None, measures: tuple[str, ...], head: str) -> str:
    """A cell: "0.81 0.92 ", over several seeds "0.81±0.05 ", each with a mark for models that were lost.

    Below a head for several seeds, one that was run with a single one is "0.81".
    """
    first = measures[0]
    if row is None or row[first] is None:
        return "- "
    lost = "*" if row["not_finite"] else " "
    if head == MEAN:
        return " ".join(format_number(row[measure]) for measure in measures) + lost
    marks = ("=" if row.get(f"{first}_level") and row["seeds"] > 1 else "") + lost.strip()
    half = row[f"{first}_interval"]
    return (
        f"{format_number(row[first])}{f'±{format_number(half)}' if math.isfinite(half) else ' ' * 5}{marks:<2}"
    )


def format_number(value: float) -> str:
    """A number in four characters, or five from 9999.5 on: losses may be large."""
    digits = next((d for d, below in ((2, 9.995), (1, 99.95), (0, 9999.5)) if value < below), None)
    return f"{value:.0e}" if digits is None else f"{value:.{digits}f}"


# --- For documents ------------------------------------------------------------------------------------------


def cells(results: Results, what: str) -> list[list[str]]:
    """The header, then for every rule its lines, as in QUANTITIES; no line for what no run has."""
    table, quantity = rows(results), QUANTITIES[what]
    found = {(row["rule"], row["attack"]): row for row in table}
    attacks, head = names_run(results, "attack", ATTACKS), head_of(results)
    lines = [["rule", quantity.what, *attacks]]
    for rule in rules_of(results):
        for name, measures in quantity.lines.items():
            if measures[0] in table[0]:
                numbers = (cell_of(found.get((rule, attack)), measures, head) for attack in attacks)
                lines.append([rule, name, *numbers])
    return lines


def notes(text: str, what: str) -> list[str]:
    """The notes that explain the marks in a table."""
    return [note for mark, note in QUANTITIES[what].notes.items() if mark in text]


def markdown_table(results: Results, what: str = "worst_own") -> str:
    """The results as a table in Markdown."""
    header, *lines = ([text.strip() for text in line] for line in cells(results, what))
    table = "\n".join(f"| {' | '.join(line)} |" for line in [header, ["---"] * len(header), *lines])
    return "\n\n".join([table, *notes(table, what)])


def latex_table(results: Results, what: str = "worst_own") -> str:
    """The results as a tabular, for booktabs."""
    table = cells(results, what)
    header, *lines = (" & ".join(text.strip() for text in line) + r" \\" for line in table)
    body = [r"\toprule", header, r"\midrule", *lines, r"\bottomrule"]
    comments = [f"% {note}" for note in notes("\n".join(body), what)]
    text = "\n".join(
        [rf"\begin{{tabular}}{{ll{'r' * (len(table[0]) - 2)}}}", *body, r"\end{tabular}", *comments]
    )
    return text.replace("±", r"$\pm$")
