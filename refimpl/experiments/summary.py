"""Tables of a grid of results, as `grid.run` returns them; over several seeds with intervals."""

import csv
import io
import textwrap
from collections.abc import Iterable
from typing import Any

import numpy as np

from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments.compare import interval, not_worse
from refimpl.related import SYSTEMS

Results = list[dict[str, Any]]
Row = dict[str, Any]
MEASURES = ("worst_own", "mean_own", "worst_whole", "mean_whole")
WIDTH = 80  # columns of a terminal


def rows(results: Results) -> list[Row]:
    """One row per rule and attack, averaged over the seeds, in the order of the options.

    With half of the 95 % interval, and whether the rule is among those that can't be told from the best.
    """
    table = []
    attacks = present(results, "attack", ATTACKS)
    level = {(attack, m): level_with_best(results, attack, m) for attack in attacks for m in MEASURES}
    for rule in rules_of(results):
        for attack in attacks:
            if runs := select(results, rule, attack):
                last = {m: [run["history"][m][-1] for run in runs] for m in MEASURES}
                row = {"rule": rule, "attack": attack, "seeds": len(runs)}
                row |= {m: float(np.mean(values)) for m, values in last.items()}
                row |= {f"{m}_interval": interval(values) for m, values in last.items()}
                row |= {f"{m}_level": rule in level[attack, m] for m in MEASURES}
                lost = [run["history"]["not_finite"][-1] for run in runs]
                row |= {"not_finite": int(max(lost)), "seeds_lost": sum(map(bool, lost))}
                sizes = [run.get("bytes_per_round", np.nan) for run in runs]  # older files have none
                table.append(row | {"bytes_per_round": float(np.mean(sizes))})
    return table


def rules_of(results: Results) -> list[str]:
    """The rules that were run, the paper's first, then systems."""
    return present(results, "rule", RULES | SYSTEMS)


def sent(results: Results) -> str:
    """A sentence: what a worker sends in a round, and which rules send so much. Most rules first."""
    groups: dict[str, list[str]] = {}
    for rule in rules_of(results):
        amount = np.mean([run["bytes_per_round"] for run in results if run["config"]["rule"] == rule])
        kB = amount / 1000
        groups.setdefault(f"{kB:.3g} kB" if kB < 1000 else f"{kB:.0f} kB", []).append(rule)
    usual, *others = sorted(groups, key=lambda amount: -len(groups[amount]))
    text = "".join(f"; {amount} with {', '.join(groups[amount])}" for amount in others)
    return textwrap.fill(f"A worker sends {usual} to all its neighbours together in a round{text}.", WIDTH)


def level_with_best(results: Results, attack: str, measure: str) -> set[str]:
    """The rules that can't be told from the best one under this attack."""
    values: dict[str, dict[int, float]] = {}
    for run in results:
        if run["config"]["attack"] == attack:
            by_seed = values.setdefault(run["config"]["rule"], {})
            by_seed[run["config"]["seed"]] = run["history"][measure][-1]
    return not_worse(values)


def present(results: Results, key: str, names: Iterable[str]) -> list[str]:
    """Those of the names that were run, in the order of the names."""
    return [name for name in names if any(run["config"][key] == name for run in results)]


def select(results: Results, rule: str, attack: str) -> Results:
    """The runs of a rule and an attack, one per seed."""
    return [r for r in results if (r["config"]["rule"], r["config"]["attack"]) == (rule, attack)]


# --- As text ------------------------------------------------------------------------------------------------

NOTES = {
    "±": "± half of the 95 % interval over the seeds (Student's t)",
    "=": "= can't be told from the best of its column (paired t-test, Holm, 5 %)",
    "*": "* some normal workers' parameters are NaN or infinite; their accuracy counts as 0",
}


def text_table(results: Results) -> str:
    """Rules down, attacks across; as many attacks side by side as fit in WIDTH.

    In each cell "worst mean", or with several seeds the worst and its interval.
    """
    table = {(row["rule"], row["attack"]): row for row in rows(results)}
    rules, attacks = rules_of(results), present(results, "attack", ATTACKS)
    first, cell = max(13, 1 + max(map(len, rules))), max(12, 1 + max(map(len, attacks)))
    some = max(1, (WIDTH - first - 6) // cell)
    blocks = [attacks[i : i + some] for i in range(0, len(attacks), some)]
    text = "\n\n".join(block_of(table, rules, block, first, cell) for block in blocks)
    return "\n".join([text, *notes(text)])


MEAN, INTERVAL = "worst mean", "worst ±   "


def head_of(rows: Iterable[Row]) -> str:
    """What is in a cell."""
    return INTERVAL if any(row["seeds"] > 1 for row in rows) else MEAN


def block_of(
    table: dict[tuple[str, str], Row], rules: list[str], attacks: list[str], first: int, cell: int
) -> str:
    """The lines for some of the attacks; `first` and `cell` are the columns' widths."""
    head = head_of(table.values())
    lines = [
        f"{'':{first + 5}}" + "".join(f"{attack:>{cell}}" for attack in attacks),
        f"{'rule':{first}}{'test':5}" + "".join(f"{head:>{cell}}" for _ in attacks).rstrip(),
    ]
    for rule in rules:
        for test, name in (("own", rule), ("whole", "")):
            found = (table.get((rule, attack)) for attack in attacks)
            cells = "".join(cell_of(row, test, head).rjust(cell) for row in found)
            lines.append(f"{name:{first}}{test:6}{cells}".rstrip())
    return "\n".join(lines)


def cell_of(row: Row | None, test: str, head: str) -> str:
    """ "0.81 0.92 ", over several seeds "0.81±0.05 ", each with a mark for models that were lost.

    Below a head for several seeds, one that was run with a single one is "0.81".
    """
    if row is None:
        return "- "
    worst, lost = row[f"worst_{test}"], "*" if row["not_finite"] else " "
    if head == MEAN:
        return f"{worst:.2f} {row[f'mean_{test}']:.2f}{lost}"
    marks = ("=" if row[f"worst_{test}_level"] and row["seeds"] > 1 else "") + lost.strip()
    half = f"±{row[f'worst_{test}_interval']:.2f}" if row["seeds"] > 1 else " " * 5
    return f"{worst:.2f}{half}{marks:<2}"


# --- For documents ------------------------------------------------------------------------------------------


def cells(results: Results) -> list[list[str]]:
    """The header, then for every rule the worst accuracy on the own and on the whole test data."""
    table = {(row["rule"], row["attack"]): row for row in rows(results)}
    rules, attacks = rules_of(results), present(results, "attack", ATTACKS)
    lines, head = [["rule", "test", *attacks]], head_of(table.values())
    for rule in rules:
        for test in ("own", "whole"):
            found = (table.get((rule, attack)) for attack in attacks)
            lines.append([rule, test, *(cell_of(row, test, head).strip() for row in found)])
    return lines


def notes(text: str) -> list[str]:
    """On the marks in a table."""
    return [note for mark, note in NOTES.items() if mark in text]


def markdown_table(results: Results) -> str:
    header, *lines = cells(results)
    table = "\n".join(f"| {' | '.join(line)} |" for line in [header, ["---"] * len(header), *lines])
    return "\n\n".join([table, *notes(table)])


def latex_table(results: Results) -> str:
    """A tabular, for booktabs."""
    header, *lines = cells(results)
    body = [r"\toprule", tex_line(header), r"\midrule", *map(tex_line, lines), r"\bottomrule"]
    comments = [f"% {note}" for note in notes("\n".join(body))]
    text = "\n".join([rf"\begin{{tabular}}{{ll{'r' * (len(header) - 2)}}}", *body, r"\end{tabular}", *comments])
    return text.replace("±", r"$\pm$")


def tex_line(line: list[str]) -> str:
    return " & ".join(line) + r" \\"


def csv_table(results: Results) -> str:
    """The numbers of the table, unrounded, one row per rule and attack."""
    return csv_text(rows(results))


def csv_text(lines: list[Row]) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return buffer.getvalue()
