"""Tables and figures of a grid of results, as `experiment.run` returns them."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from refimpl import aggregate
from refimpl.attacks import ATTACKS

Results = list[dict[str, Any]]
MEASURES = ("worst_own", "mean_own", "worst_whole", "mean_whole")


def rows(results: Results) -> list[dict[str, Any]]:
    """One row per rule and attack, averaged over the seeds, in the order of the options."""
    table = []
    for rule in _present(results, "rule", aggregate.NAMES):
        for attack in _present(results, "attack", ATTACKS):
            runs = _select(results, rule, attack)
            last = {m: float(np.mean([run["history"][m][-1] for run in runs])) for m in MEASURES}
            lost = int(max(run["history"]["not_finite"][-1] for run in runs))
            table.append({"rule": rule, "attack": attack, "seeds": len(runs), **last, "not_finite": lost})
    return table


def _present(results: Results, key: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if any(run["config"][key] == name for run in results)]


def _select(results: Results, rule: str, attack: str) -> Results:
    return [r for r in results if (r["config"]["rule"], r["config"]["attack"]) == (rule, attack)]


def text_table(results: Results) -> str:
    """Rules down, attacks across, "worst mean" in each cell; at most 79 columns."""
    table = {(row["rule"], row["attack"]): row for row in rows(results)}
    attacks = _present(results, "attack", ATTACKS)
    lines = [
        f"{'':18}" + "".join(f"{attack:>12}" for attack in attacks),
        f"{'rule':13}{'test':5}" + "".join(f"{'worst mean':>12}" for _ in attacks),
    ]
    for rule in _present(results, "rule", aggregate.NAMES):
        for test in ("own", "whole"):
            cells = []
            for attack in attacks:
                row = table[rule, attack]
                mark = "*" if row["not_finite"] else " "
                cells.append(f"{row[f'worst_{test}']:7.2f} {row[f'mean_{test}']:.2f}{mark}"[1:])
            lines.append(f"{rule if test == 'own' else '':13}{test:6}" + "".join(cells).rstrip())
    if any(row["not_finite"] for row in table.values()):
        lines.append("* some normal workers' parameters are NaN or infinite; their accuracy counts as 0")
    return "\n".join(lines)


def csv_table(results: Results) -> str:
    """The same numbers, unrounded, one row per rule and attack."""
    table = rows(results)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return buffer.getvalue()


# Colour-blind safe (Okabe and Ito); the paper's own rule is the thick line.
COLOURS = {
    "adaptive": "#D55E00",
    "inverse-risk": "#E69F00",
    "average": "#0072B2",
    "medoid": "#56B4E9",
    "trimmed-mean": "#009E73",
    "median": "#CC79A7",
    "krum": "#7F7F7F",
    "local": "#000000",
}


def figure(results: Results, title: str, path: Path) -> None:
    """Worst test accuracy of the normal workers by epoch, one panel per attack, one line per rule.

    Like the paper's Fig. 3. Averaged over the seeds. Needs matplotlib.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    attacks = _present(results, "attack", ATTACKS)
    columns = min(3, len(attacks) + 1)
    lines = -(-(len(attacks) + 1) // columns)  # one panel more, for the legend
    fig = Figure(figsize=(1 + 3.2 * columns, 1 + 2.6 * lines), layout="constrained")
    axes = fig.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for ax, attack in zip(axes, attacks, strict=False):
        for rule in reversed(_present(results, "rule", aggregate.NAMES)):  # the paper's rule on top
            runs = _select(results, rule, attack)
            worst = np.mean([run["history"]["worst_own"] for run in runs], axis=0)
            width, style = (2.4 if rule == "adaptive" else 1.1), ("--" if rule == "local" else "-")
            epochs = range(1, len(worst) + 1)
            dot = "o" if len(worst) < 5 else None  # a line of one point would not be seen
            ax.plot(epochs, worst, ls=style, lw=width, marker=dot, color=COLOURS[rule], label=rule)
        ax.set_title("no attack" if attack == "none" else attack)
        ax.set_ylim(-0.03, 1.03)  # a line at 0 is seen beside the axis
        ax.set_xlim(0, len(worst) + 1)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.grid(alpha=0.3)
        ax.tick_params(labelbottom=True)
    for ax in axes[len(attacks) :]:
        ax.axis("off")
    handles, labels = axes[0].get_legend_handles_labels()
    axes[len(attacks)].legend(handles[::-1], labels[::-1], loc="center", frameon=False)
    fig.suptitle(title)
    fig.supxlabel("epoch")
    fig.supylabel("worst test accuracy")
    part = path.with_name(f".{path.name}.part")
    fig.savefig(part, dpi=120, format="png")
    part.replace(path)
