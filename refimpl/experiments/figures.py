"""The figure of a grid of results, like the paper's Fig. 1 to 3. Needs matplotlib, an extra."""

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments.files import write
from refimpl.experiments.report import Results, present, rules_of, select
from refimpl.related import SYSTEMS

# Colour-blind safe (Okabe and Ito), for the rules in the order of RULES, then systems.
COLOURS = ("#D55E00", "#E69F00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#7F7F7F")
MORE_DASHES = ("-.", ":", "--", (0, (6, 1, 1, 1, 1, 1)))  # for systems, and for rules beyond the package's own


class Style(NamedTuple):
    """How a rule is drawn."""

    color: str
    linestyle: Any  # a name, or a pattern
    linewidth: float


def style_of(rule: str) -> Style:
    """By its place in RULES: the first, the paper's, is thick; the eighth, `local`, is black and dashed."""
    own = (*((colour, "-") for colour in COLOURS), ("#000000", "--"))
    more = [(colour, dash) for dash in MORE_DASHES for colour in COLOURS]
    place = list(RULES | SYSTEMS).index(rule)
    colour, dash = own[place] if place < len(own) else more[(place - len(own)) % len(more)]
    return Style(colour, dash, 1.1 if place else 2.4)


def figure(results: Results, title: str, path: Path) -> None:
    """Worst test accuracy of the normal workers by epoch, one panel per attack, one line per rule.

    Averaged over the seeds.
    """
    from matplotlib.figure import Figure

    attacks = present(results, "attack", ATTACKS)
    columns = min(3, len(attacks) + 1)
    lines = -(-(len(attacks) + 1) // columns)  # one panel more, for the legend
    fig = Figure(figsize=(1 + 3.2 * columns, 1 + 2.6 * lines), layout="constrained")
    axes = fig.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for ax, attack in zip(axes, attacks, strict=False):
        panel(ax, results, attack)
    for ax in axes[len(attacks) :]:
        ax.axis("off")
    handles, labels = axes[0].get_legend_handles_labels()
    size, ncols = ("medium", 1) if len(labels) < 12 else ("xx-small", 2)
    legend = {"loc": "center", "frameon": False, "fontsize": size, "ncols": ncols}
    axes[len(attacks)].legend(handles[::-1], labels[::-1], **legend)
    fig.suptitle(title)
    fig.supxlabel("epoch")
    fig.supylabel("worst test accuracy")
    buffer = io.BytesIO()
    fig.savefig(buffer, dpi=120, format="png")
    write(path, buffer.getvalue())


def panel(ax: Any, results: Results, attack: str) -> None:
    """A line per rule under one attack."""
    from matplotlib.ticker import MaxNLocator

    table = RULES | SYSTEMS
    for rule in reversed(rules_of(results)):  # the paper's rule on top
        worst = np.mean([run["history"]["worst_own"] for run in select(results, rule, attack)], axis=0)
        dot = "o" if len(worst) < 5 else None  # a line of one point would not be seen
        style = style_of(rule)._asdict()
        ax.plot(range(1, len(worst) + 1), worst, marker=dot, label=table[rule].label, **style)
    ax.set_title(ATTACKS[attack].label)
    ax.set_ylim(-0.03, 1.03)  # a line at 0 is seen beside the axis
    ax.set_xlim(0, len(worst) + 1)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.grid(alpha=0.3)
    ax.tick_params(labelbottom=True)
