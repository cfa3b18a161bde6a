"""Figures of a grid of results, like those of the paper. Needs matplotlib, an extra."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments.compare import interval
from refimpl.experiments.files import write
from refimpl.experiments.runs import protocol
from refimpl.experiments.summary import Results, present, rules_of, select
from refimpl.related import SYSTEMS

# Colour-blind safe (Okabe and Ito), for the rules in the order of RULES, then systems.
COLOURS = ("#D55E00", "#E69F00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#7F7F7F")
MORE_DASHES = ("-.", ":", "--", (0, (6, 1, 1, 1, 1, 1)))  # for systems, and rules beyond the package's own
MARKERS = "osv^D<>P"
PANEL = 1.75  # inches: two make a column of a paper
TEXT: Any = {"font.size": 8, "axes.titlesize": 8, "axes.linewidth": 0.6, "pdf.fonttype": 42}
SHOWN = {
    "worst_own": "worst test accuracy, own split",
    "mean_own": "mean test accuracy, own split",
    "worst_whole": "worst test accuracy, whole",
    "highest_loss": "highest training loss",
    "attacker_weight": "weight on attackers",
    "passing": "neighbours that pass",
}


class Style(NamedTuple):
    """How a rule is drawn."""

    color: str
    linestyle: Any  # a name, or a pattern
    linewidth: float


def place_of(rule: str) -> int:
    """Among the rules, then systems."""
    return list(RULES | SYSTEMS).index(rule)


def style_of(rule: str) -> Style:
    """By its place in RULES: the first, the paper's, is thick; the eighth, `local`, is black and dashed."""
    own = (*((colour, "-") for colour in COLOURS), ("#000000", "--"))
    more = [(colour, dash) for dash in MORE_DASHES for colour in COLOURS]
    place = place_of(rule)
    colour, dash = own[place] if place < len(own) else more[(place - len(own)) % len(more)]
    return Style(colour, dash, 0.9 if place else 2.0)


def figure(results: Results, title: str, path: Path, shows: Sequence[str] = ("worst_own",)) -> None:
    """A panel per attack and number shown, a line per rule; written as PNG and as PDF.

    Over several seeds the mean, with a band for the 95 % interval. Runs of one epoch become dots.
    """
    import matplotlib
    from matplotlib.figure import Figure

    panels = [(attack, what) for attack in present(results, "attack", ATTACKS) for what in shows]
    columns = min(len(panels), 2 if len(panels) in (2, 4) else 3)
    rows = -(-len(panels) // columns)
    with matplotlib.rc_context(TEXT):
        fig = Figure(figsize=(max(2, columns) * PANEL, 1.45 * rows + 1.0), layout="constrained")
        for i, spec in enumerate(centred(fig, len(panels), columns)):
            ax = fig.add_subplot(spec)
            panel(ax, results, *panels[i])
            if len(epochs(results)) > 1 and i // columns == rows - 1:
                ax.set_xlabel("epoch")
            if len(shows) > 1:
                along = ax.set_ylabel if len(epochs(results)) > 1 else ax.set_xlabel
                along(SHOWN[panels[i][1]].partition(",")[0])
        fig.suptitle(caption(results, title, shows), fontsize=8)
        legend(fig, rules_of(results))
        save(fig, path)


def centred(fig: Any, count: int, columns: int) -> list[Any]:
    """Places for `count` panels, the last row in the middle."""
    rows = -(-count // columns)
    grid = fig.add_gridspec(rows, 2 * columns)
    missing = rows * columns - count
    starts = [(i // columns, 2 * (i % columns)) for i in range(count)]
    return [grid[r, c + missing * (r == rows - 1) : c + missing * (r == rows - 1) + 2] for r, c in starts]


def caption(results: Results, title: str, shows: Sequence[str]) -> str:
    """What the panels have in common."""
    what = SHOWN[shows[0]] if len(shows) == 1 else "accuracy on the own split"
    return f"{headed(results, title)}\n{setting_of(results)}; {what}"


def headed(results: Results, title: str) -> str:
    """The title, and how much of the released code's protocol the runs have."""
    c = results[0]["config"]
    which = protocol(c)
    if which == "protocol paper":
        return title
    some = f"{len(c['released'])} of the released code's differences"
    return f"{title}, {which if which.startswith('protocol released') else some}"


def setting_of(results: Results) -> str:
    """How many workers and attackers, and which seeds."""
    c, lies = results[0]["config"], any(ATTACKS[run["config"]["attack"]].lies for run in results)
    return f"N = {c['workers']}, F = {c['attackers'] if lies else 0}, {seeds_of(results)}"


def seeds_of(results: Results) -> str:
    """ "seed 0", "seeds 0 to 4", "seeds 0, 2"; and whether some runs have fewer."""
    by_run: dict[tuple[str, str], list[int]] = {}
    for run in results:
        by_run.setdefault((run["config"]["rule"], run["config"]["attack"]), []).append(run["config"]["seed"])
    seeds = sorted({seed for some in by_run.values() for seed in some})
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    following = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
    which = f"{seeds[0]} to {seeds[-1]}" if following else ", ".join(map(str, seeds))
    return f"seeds {which}" + (" or fewer" if min(map(len, by_run.values())) < len(seeds) else "")


def legend(fig: Any, rules: list[str]) -> None:
    """The rules of all panels, below these, in as many columns as there is room for."""
    found = (zip(*ax.get_legend_handles_labels(), strict=True) for ax in fig.axes)
    drawn = {label: line for pairs in found for line, label in pairs}
    labels = [label for label in map(label_of, rules) if label in drawn]
    for columns in (4, 3, 2):
        place = {"loc": "outside lower center", "ncols": columns, "frameon": False}
        made = fig.legend([drawn[label] for label in labels], labels, **place)
        if columns == 2 or made.get_window_extent().width <= fig.bbox.width:
            return
        made.remove()


def save(fig: Any, path: Path) -> None:
    """For the screen and, with vectors, for print."""
    for kind in ("png", "pdf"):
        buffer = io.BytesIO()
        undated = {"CreationDate": None} if kind == "pdf" else {}
        fig.savefig(buffer, dpi=200, format=kind, metadata=undated)
        write(path.with_suffix(f".{kind}"), buffer.getvalue())


def evaluated(run: dict[str, Any]) -> list[int]:
    """After which epochs; an older file has all."""
    return run.get("evaluated") or list(range(1, 1 + len(run["history"]["worst_own"])))


def epochs(results: Results) -> list[int]:
    """After which any of the runs was evaluated."""
    return sorted(set().union(*map(evaluated, results)))


def shared(results: Results) -> list[int]:
    """After which all of the runs were evaluated: versions of the code may differ in that."""
    return sorted(set(epochs(results)).intersection(*map(evaluated, results)))


def panel(ax: Any, results: Results, attack: str, what: str = "worst_own") -> None:
    """One number under one attack."""
    rules = [r for r in rules_of(results) if curves(results, r, attack, what).size]
    (lines if len(epochs(results)) > 1 else dots)(ax, results, rules, attack, what)
    ax.set_title(ATTACKS[attack].label)
    ax.grid(alpha=0.3, linewidth=0.5)


def curves(results: Results, rule: str, attack: str, what: str) -> np.ndarray:
    """(seeds, epochs); a number that was lost is NaN."""
    runs = [run for run in select(results, rule, attack) if what in run["history"]]
    at = [dict(zip(evaluated(run), run["history"][what], strict=True)) for run in runs]
    return np.array([[run[epoch] for epoch in shared(runs)] for run in at], dtype=float)


def lines(ax: Any, results: Results, rules: list[str], attack: str, what: str) -> None:
    """A line per rule; markers at different epochs, so that curves that coincide are told apart."""
    from matplotlib.ticker import MaxNLocator

    for i, rule in reversed(list(enumerate(rules))):  # the paper's rule on top
        x = np.array(shared(select(results, rule, attack)))
        apart = max(1, len(x) // 5)  # epochs between two markers of a rule
        values, style, place = curves(results, rule, attack, what), style_of(rule), place_of(rule)
        mean, half = values.mean(axis=0), np.array([interval(v) for v in values.T])
        first = place * apart // len(RULES) % apart
        at = {"marker": marker_of(rule), "markersize": 3, "markevery": (first, apart)}
        if apart == 1:  # too few epochs for that: markers around each other
            at |= {"markersize": 3 + 0.8 * min(i, 8), "fillstyle": "none" if i else "full"}
        ax.plot(x, mean, label=label_of(rule), **style._asdict(), **at)
        if len(values) > 1:
            low, high = band(mean, half, what)
            ax.fill_between(x, low, high, color=style.color, alpha=0.15, linewidth=0)
    drawn = [y for line in ax.lines for y in line.get_ydata() if y > 0] or [1]
    if what == "highest_loss" and max(drawn) > 100 * min(drawn):  # else most would be flat
        ax.set_yscale("log")
    ax.set_xlim(0, epochs(results)[-1] + 1)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    if is_share(what):
        ax.set_ylim(-0.03, 1.03)  # a line at 0 is seen beside the axis


def dots(ax: Any, results: Results, rules: list[str], attack: str, what: str) -> None:
    """A dot per rule, with its interval."""
    for y, rule in enumerate(reversed(rules)):
        values, style = curves(results, rule, attack, what)[:, -1], style_of(rule)
        mean, half = values.mean(), None
        if len(values) > 1:
            low, high = band(mean, interval(values), what)
            half = [[mean - low], [high - mean]]
        look = {"fmt": marker_of(rule), "markersize": 4, "color": style.color, "label": label_of(rule)}
        ax.errorbar(mean, y, xerr=half, **look)
    ax.set_yticks([])
    ax.set_ylim(-0.6, len(rules) - 0.4)
    if is_share(what):
        ax.set_xlim(-0.03, 1.03)


def is_share(what: str) -> bool:
    """Whether it lies between 0 and 1."""
    return what not in ("highest_loss", "passing")


def band(mean: Any, half: Any, what: str) -> tuple[Any, Any]:
    """The ends of Student's interval, cut where the number itself ends: at 0, and at 1 if it is a share."""
    return np.maximum(mean - half, 0), np.minimum(mean + half, 1 if is_share(what) else np.inf)


def label_of(rule: str) -> str:
    return (RULES | SYSTEMS)[rule].label


def marker_of(rule: str) -> str:
    return MARKERS[place_of(rule) % len(MARKERS)]
