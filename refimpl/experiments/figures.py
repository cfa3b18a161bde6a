"""Figures of results: curves like those of the paper, trust, single workers. Needs matplotlib, an extra."""

import contextlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from refimpl import methods
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments.atomic import write
from refimpl.experiments.results import Results, protocol
from refimpl.experiments.statistics import interval
from refimpl.experiments.tables import names_run, rules_of, select

# Colour-blind safe (Okabe and Ito), for the rules that listen in the order of RULES, then systems.
COLOURS = ("#D55E00", "#E69F00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#7F7F7F")
# All colours with the first of these, then all with the next.
DASHES = ("-", "-.", ":", "--", (0, (6, 1, 1, 1, 1, 1)), (0, (6, 1, 2, 1)))
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
    marker: str
    label: str


def style_of(rule: str) -> Style:
    """How a rule is drawn: the first, the paper's, is thick; one that listens to no one is black and dashed."""
    listening = [name for name in methods.names() if methods.find(name).listens]
    marker, label = MARKERS[place_of(rule) % len(MARKERS)], methods.find(rule).entry.label
    if rule not in listening:
        return Style("#000000", "--", 0.9, marker, label)
    place, styles = listening.index(rule), [(colour, dash) for dash in DASHES for colour in COLOURS]
    return Style(*styles[place % len(styles)], 0.9 if place else 2.0, marker, label)


def place_of(rule: str) -> int:
    """The position of a rule among all rules, then systems."""
    return methods.names().index(rule)


def figure(results: Results, title: str, path: Path, shows: Sequence[str] = ("worst_own",)) -> None:
    """Writes a figure with a panel per attack and number shown, a line per rule, as PNG and as PDF.

    Over several seeds the mean, with a band for the 95 % interval. Runs of one epoch become dots.
    """
    panels = [(attack, what) for attack in names_run(results, "attack", ATTACKS) for what in shows]
    columns = min(len(panels), 2 if len(panels) in (2, 4) else 3)
    rows = -(-len(panels) // columns)
    size = (max(2, columns) * PANEL, 1.45 * rows + 1.0)
    what = " and ".join(SHOWN[name] for name in shows)
    with drawing(path, caption(results, title, what), size) as fig:
        for i, spec in enumerate(centred(fig, len(panels), columns)):
            ax = fig.add_subplot(spec)
            panel(ax, results, *panels[i])
            if len(epochs(results)) > 1 and i // columns == rows - 1:
                ax.set_xlabel("epoch")
            if len(shows) > 1:
                along = ax.set_ylabel if len(epochs(results)) > 1 else ax.set_xlabel
                along(SHOWN[panels[i][1]].partition(",")[0])
        legend(fig, rules_of(results))


@contextlib.contextmanager
def drawing(path: Path, title: str, size: tuple[float, float], **layout: Any) -> Iterator[Any]:
    """A figure of that size in inches to draw on, which is then written, with its title above."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(TEXT):
        fig: Any = Figure(figsize=size, layout="constrained")
        fig.get_layout_engine().set(**layout)
        fig.suptitle(title, fontsize=8, wrap=True)
        yield fig
        save(fig, path)


def centred(fig: Any, count: int, columns: int) -> list[Any]:
    """Places for `count` panels, the last row in the middle."""
    rows = -(-count // columns)
    grid, places = fig.add_gridspec(rows, 2 * columns), []
    for i in range(count):
        row = i // columns
        start = 2 * (i % columns) + (rows * columns - count if row == rows - 1 else 0)
        places.append(grid[row, start : start + 2])
    return places


def caption(results: Results, title: str, what: str) -> str:
    """The title of a figure: the protocol unless it is the paper's, the sizes and seeds, and what is shown."""
    c, liars = results[0].config, max(run.config.liars for run in results)
    head = title if (which := protocol(c)) == "protocol paper" else f"{title}, {which}"
    return f"{head}\nN = {c.workers}, F = {liars}, {seeds_of(results)}; {what}"


def seeds_of(results: Results) -> str:
    """The seeds that were run: "seed 0", "seeds 0 to 4", "seeds 0, 2"; and whether some runs have fewer."""
    by_run: dict[tuple[str, str], list[int]] = {}
    for run in results:
        by_run.setdefault((run.config.rule, run.config.attack), []).append(run.config.seed)
    seeds = sorted({seed for some in by_run.values() for seed in some})
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    following = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
    which = f"{seeds[0]} to {seeds[-1]}" if following else ", ".join(map(str, seeds))
    return f"seeds {which}" + (" or fewer" if min(map(len, by_run.values())) < len(seeds) else "")


def legend(fig: Any, rules: list[str]) -> None:
    """Draws the legend of all panels below them, in as many columns as there is room for."""
    found = (zip(*ax.get_legend_handles_labels(), strict=True) for ax in fig.axes)
    drawn = {label: line for pairs in found for line, label in pairs}
    labels = [label for label in (style_of(rule).label for rule in rules) if label in drawn]
    for columns in (4, 3, 2):
        place = {"loc": "outside lower center", "ncols": columns, "frameon": False}
        made = fig.legend([drawn[label] for label in labels], labels, **place)
        if columns == 2 or made.get_window_extent().width <= fig.bbox.width:
            return
        made.remove()


def save(fig: Any, path: Path) -> None:
    """Writes the figure as PNG for the screen and as PDF for print."""
    for kind in ("png", "pdf"):
        buffer = io.BytesIO()
        undated = {"CreationDate": None} if kind == "pdf" else {}
        fig.savefig(buffer, dpi=200, format=kind, metadata=undated)
        write(path.with_suffix(f".{kind}"), buffer.getvalue())


def epochs(results: Results) -> list[int]:
    """The epochs after which any of the runs was evaluated."""
    return sorted(set().union(*(run.evaluated for run in results)))


def shared(results: Results) -> list[int]:
    """The epochs after which all of the runs were evaluated: versions of the code may differ in that."""
    return sorted(set(epochs(results)).intersection(*(run.evaluated for run in results)))


def panel(ax: Any, results: Results, attack: str, what: str = "worst_own") -> None:
    """Draws one number under one attack."""
    rules = [r for r in rules_of(results) if curves(results, r, attack, what).size]
    (lines if len(epochs(results)) > 1 else dots)(ax, results, rules, attack, what)
    ax.set_title(ATTACKS[attack].label)
    ax.grid(alpha=0.3, linewidth=0.5)


def curves(results: Results, rule: str, attack: str, what: str) -> np.ndarray:
    """A number by seed and epoch, (seeds, epochs); NaN where it was lost."""
    runs = [run for run in select(results, rule, attack) if what in run.history]
    at = [dict(zip(run.evaluated, run.history[what], strict=True)) for run in runs]
    return np.array([[run[epoch] for epoch in shared(runs)] for run in at], dtype=float)


def lines(ax: Any, results: Results, rules: list[str], attack: str, what: str) -> None:
    """Draws a line per rule, with markers at different epochs, so that curves that coincide are told apart."""
    from matplotlib.ticker import MaxNLocator

    for i, rule in reversed(list(enumerate(rules))):  # the paper's rule on top
        x = np.array(shared(select(results, rule, attack)))
        apart = max(1, len(x) // 5)  # epochs between two markers of a rule
        values, style = curves(results, rule, attack, what), style_of(rule)
        mean, half = values.mean(axis=0), np.array([interval(v) for v in values.T])
        at = {"markersize": 3, "markevery": (place_of(rule) * apart // len(RULES) % apart, apart)}
        if apart == 1:  # too few epochs for that: markers around each other
            at |= {"markersize": 3 + 0.8 * min(i, 8), "fillstyle": "none" if i else "full"}
        ax.plot(x, mean, **style._asdict(), **at)
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
    """Draws a dot per rule, with its interval."""
    for y, rule in enumerate(reversed(rules)):
        values, style = curves(results, rule, attack, what)[:, -1], style_of(rule)
        mean, half = values.mean(), None
        if len(values) > 1:
            low, high = band(mean, interval(values), what)
            half = [[mean - low], [high - mean]]
        look = {"fmt": style.marker, "markersize": 4, "color": style.color, "label": style.label}
        ax.errorbar(mean, y, xerr=half, **look)
    ax.set_yticks([])
    ax.set_ylim(-0.6, len(rules) - 0.4)
    if is_share(what):
        ax.set_xlim(-0.03, 1.03)


def is_share(what: str) -> bool:
    """Whether a measure lies between 0 and 1."""
    return what not in ("highest_loss", "passing")


def band(mean: Any, half: Any, what: str) -> tuple[Any, Any]:
    """The ends of Student's interval, cut where the number itself ends: at 0, and at 1 if it is a share."""
    return np.maximum(mean - half, 0), np.minimum(mean + half, 1 if is_share(what) else np.inf)


# --- Trust, and single workers -------------------------------------------------------------------------------


def trust(results: Results, rule: str, title: str, path: Path) -> None:
    """Draws the weights c(l, k) of the first seed after a few epochs, a row of panels per attack.

    A row of a panel is a receiver. Attackers' columns are marked above, their rows are white: they do not
    aggregate. A bright diagonal says that each worker keeps its own model.
    """
    attacks = names_run([run for run in results if run.config.rule == rule], "attack", ATTACKS)
    runs = [select(results, rule, attack)[0] for attack in attacks]
    at = list(runs[0].weights_at)
    size = (max(3, len(at)) * 0.7 * PANEL + 0.9, len(runs) * 0.75 * PANEL + 0.5)
    about = f"{title}: who trusts whom, {style_of(rule).label}"
    how = "rows receive, columns send; a triangle marks attackers"
    with drawing(path, caption(runs, about, how), size, h_pad=0.08) as fig:  # inches, for the marks
        axes = fig.subplots(len(runs), len(at), squeeze=False)
        for row, run, attack in zip(axes, runs, attacks, strict=True):
            for ax, epoch in zip(row, at, strict=True):
                image = matrix(ax, np.array(run.weights_at[epoch]), run.attackers)
            row[0].set_ylabel(ATTACKS[attack].label.replace(" attack", "\nattack"))
        for ax, epoch in zip(axes[-1], at, strict=True):
            ax.set_xlabel(f"epoch {epoch}")
        fig.colorbar(image, ax=list(axes.flat), shrink=0.8, label="weight")


def matrix(ax: Any, C: np.ndarray, attackers: list[int]) -> Any:
    """Draws the weights (N, N) as an image, the attackers' columns marked, and returns it."""
    rows = np.isin(np.arange(len(C)), attackers)[:, None]
    image = ax.imshow(np.where(rows, np.nan, C), vmin=0, vmax=1, cmap="viridis")
    look = {"color": "#D55E00", "markersize": 3, "clip_on": False, "in_layout": False}
    ax.plot(attackers, np.full(len(attackers), 1.06), "v", transform=ax.get_xaxis_transform(), **look)
    ax.set_xticks([])
    ax.set_yticks([])
    return image


def workers(results: Results, title: str, path: Path) -> None:
    """Draws every normal worker's last accuracy, own split: a panel per attack, a row per rule."""
    attacks, rules = names_run(results, "attack", ATTACKS), rules_of(results)
    what = "every normal worker's test accuracy, own split"
    size = (max(2.4, len(attacks)) * PANEL, 0.2 * len(rules) + 1.1)
    with drawing(path, caption(results, title, what), size) as fig:
        axes = fig.subplots(1, len(attacks), squeeze=False, sharey=True)[0]
        for ax, attack in zip(axes, attacks, strict=True):
            for y, rule in enumerate(reversed(rules)):
                values = [a for run in select(results, rule, attack) for a in run.accuracy["own"]]
                color, marker = style_of(rule).color, style_of(rule).marker
                ax.plot(values, np.full(len(values), y), marker, color=color, markersize=2.5, alpha=0.5)
            ax.set_title(ATTACKS[attack].label)
            ax.set_xlim(-0.03, 1.03)
            ax.grid(alpha=0.3, linewidth=0.5)
        axes[0].set_yticks(range(len(rules)), [style_of(rule).label for rule in reversed(rules)])
