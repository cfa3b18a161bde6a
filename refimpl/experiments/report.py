"""Tables of a grid of results, as `grid.run` returns them."""

import csv
import io
import textwrap
from collections.abc import Iterable
from typing import Any

import numpy as np

from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.related import SYSTEMS

Results = list[dict[str, Any]]
Row = dict[str, Any]
MEASURES = ("worst_own", "mean_own", "worst_whole", "mean_whole")
WIDTH = 80  # columns of a terminal


def rules_of(results: Results) -> list[str]:
    """The rules that were run, the paper's first, then systems."""
    return present(results, "rule", RULES | SYSTEMS)


def rows(results: Results) -> list[Row]:
    """One row per rule and attack, averaged over the seeds, in the order of the options."""
    table = []
    for rule in rules_of(results):
        for attack in present(results, "attack", ATTACKS):
            runs = select(results, rule, attack)
            row = {"rule": rule, "attack": attack, "seeds": len(runs)}
            row |= {m: float(np.mean([run["history"][m][-1] for run in runs])) for m in MEASURES}
            row["not_finite"] = int(max(run["history"]["not_finite"][-1] for run in runs))
            table.append(row | {"bytes_per_round": float(np.mean([run["bytes_per_round"] for run in runs]))})
    return table


def present(results: Results, key: str, names: Iterable[str]) -> list[str]:
    """Those of the names that were run, in the order of the names."""
    return [name for name in names if any(run["config"][key] == name for run in results)]


def select(results: Results, rule: str, attack: str) -> Results:
    """The runs of a rule and an attack, one per seed."""
    return [r for r in results if (r["config"]["rule"], r["config"]["attack"]) == (rule, attack)]


def text_table(results: Results) -> str:
    """Rules down, attacks across, "worst mean" in each cell; as many attacks side by side as fit in WIDTH."""
    table = {(row["rule"], row["attack"]): row for row in rows(results)}
    rules, attacks = rules_of(results), present(results, "attack", ATTACKS)
    first, cell = max(13, 1 + max(map(len, rules))), max(12, 1 + max(map(len, attacks)))
    some = max(1, (WIDTH - first - 6) // cell)
    blocks = [attacks[i : i + some] for i in range(0, len(attacks), some)]
    text = "\n\n".join(block_of(table, rules, block, first, cell) for block in blocks)
    if any(row["not_finite"] for row in table.values()):
        text += "\n* some normal workers' parameters are NaN or infinite; their accuracy counts as 0"
    return text


def block_of(
    table: dict[tuple[str, str], Row], rules: list[str], attacks: list[str], first: int, cell: int
) -> str:
    """The lines for some of the attacks; `first` and `cell` are the columns' widths."""
    lines = [
        f"{'':{first + 5}}" + "".join(f"{attack:>{cell}}" for attack in attacks),
        f"{'rule':{first}}{'test':5}" + "".join(f"{'worst mean':>{cell}}" for _ in attacks),
    ]
    for rule in rules:
        for test, name in (("own", rule), ("whole", "")):
            cells = "".join(cell_of(table[rule, attack], test).rjust(cell) for attack in attacks)
            lines.append(f"{name:{first}}{test:6}{cells}".rstrip())
    return "\n".join(lines)


def cell_of(row: Row, test: str) -> str:
    """ "0.81 0.92 ", or with a star for models that were lost."""
    return f"{row[f'worst_{test}']:.2f} {row[f'mean_{test}']:.2f}{'*' if row['not_finite'] else ' '}"


def sent(results: Results) -> str:
    """A sentence: what a worker sends in a round, and which rules send so much. Most rules first."""
    groups: dict[str, list[str]] = {}
    for rule in rules_of(results):
        amount = np.mean([run["bytes_per_round"] for run in results if run["config"]["rule"] == rule])
        groups.setdefault(f"{amount / 1000:.3g} kB", []).append(rule)
    usual, *others = sorted(groups, key=lambda amount: -len(groups[amount]))
    text = "".join(f"; {amount} with {', '.join(groups[amount])}" for amount in others)
    return textwrap.fill(f"A worker sends {usual} to all its neighbours together in a round{text}.", WIDTH)


def csv_table(results: Results) -> str:
    """The same numbers, unrounded, one row per rule and attack."""
    table = rows(results)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return buffer.getvalue()
