"""Figures of results: by epoch, in the end, worker by worker, and trust. Needs matplotlib, an extra."""

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from refimpl import methods
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments.atomic import write
from refimpl.experiments.results import Results, groups, protocol
from refimpl.experiments.statistics import interval
from refimpl.experiments.tables import format_number, names_run, rules_of, select
from refimpl.experiments.words import several

# Colour-blind safe (Okabe and Ito).
COLOURS = ("#D55E00", "#E69F00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#7F7F7F")
# All colours with the first of these, then all with the next: rules, then systems.
DASHES = ("-", "-.", ":", "--", (0, (6, 1, 1, 1, 1, 1)), (0, (6, 1, 2, 1)), (0, (1, 4)))
FOR_RULES = 2  # so many of DASHES
MARKERS = "osv^D<>P"
TEXT: Any = {"font.size": 8, "axes.titlesize": 8, "axes.linewidth": 0.6, "pdf.fonttype": 42}
FEW = 5  # seeds: with fewer each one is drawn, for Student's interval of so few says little
SHOWN = {  # up to the first "of": the name of the axis
    "worst_own": "test accuracy of the worst normal worker, own test split",
    "mean_own": "test accuracy of the normal workers, mean, own test split",
    "worst_whole": "test accuracy of the worst normal worker, all test data",
    "mean_whole": "test accuracy of the normal workers, mean, all test data",
    "highest_loss": "training loss of the worst normal worker",
    "attacker_weight": "weight of the attackers, mean over the normal workers",
    "passing": "number of neighbours that pass the filter, mean over the normal workers",
}
NOTES = {"highest_loss": "The released code plots this loss divided by the batch size."}
# (axes, height of the line, rule, attack, number): draws the rule's line of a panel
Draw = Callable[[Any, int, str, str, str], None]


class Style(NamedTuple):
    """How a rule is drawn."""

    color: str
    linestyle: Any  # a name, or a pattern
    linewidth: float
    marker: str
    label: str


def style_of(rule: str) -> Style:
    """How a rule is drawn, by its place among rules or systems; if it listens to no one, black and dashed."""
    found = methods.find(rule)
    alike = [name for name in methods.names() if bool(methods.find(name).rule) == bool(found.rule)]
    marker = MARKERS[alike.index(rule) % len(MARKERS)]
    if not found.listens:
        return Style("#000000", "--", 1.2, marker, rule)
    place = [name for name in alike if methods.find(name).listens].index(rule)
    dashes = DASHES[:FOR_RULES] if found.rule else DASHES[FOR_RULES:]
    styles = [(colour, dash) for dash in dashes for colour in COLOURS]
    first = rule == methods.names()[0]  # the paper's
    return Style(*styles[place % len(styles)], 2.0 if first else 0.9, marker, rule)


def figure(results: Results, title: str, path: Path, shows: Sequence[str] = ("worst_own",)) -> None:
    """Writes a figure of these numbers under each attack, as PNG and as PDF: by epoch, if several are known."""
    (by_epoch if len(epochs(results)) > 1 else at_the_end)(results, title, path, shows)


@contextlib.contextmanager
def drawing(path: Path, title: str, size: tuple[float, float]) -> Iterator[Any]:
    """A figure of that size in inches to draw on, which is then written, with its title above."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(TEXT):
        fig: Any = Figure(figsize=size, layout="constrained")
        fig.suptitle(title, fontsize=9, wrap=True)
        yield fig
        save(fig, path)


def caption(results: Results, title: str, what: str, of_few: str = "", of_many: str = "") -> str:
    """The title of a figure: the protocol unless it is the paper's, what is shown, and the sizes and seeds.

    `of_few` and `of_many` say how few and many seeds are drawn.
    """
    c, liars = results[0].config, max(run.config.liars for run in results)
    head = title if (which := protocol(c)) == "protocol paper" else f"{title}, {which}"
    sizes = f"{several(c.workers, 'worker')}, {several(liars, 'attacker')}, {seeds_of(results)}"
    seeds = max(map(len, by_rule_and_attack(results)))
    how = f"; {of_many}: 95 % interval" if seeds >= FEW else f"; {of_few}: one seed" if seeds > 1 else ""
    return f"{head}\n{what}; {sizes}{how if of_few else ''}"


def caption_of(results: Results, title: str, shows: Sequence[str], of_few: str, of_many: str) -> str:
    """The title of a figure of these numbers, with what must be known to compare them with the paper's."""
    what = " and ".join(SHOWN[name] for name in shows)
    notes = [NOTES[name] for name in shows if name in NOTES]
    return "\n".join([caption(results, title, what, of_few, of_many), *notes])


def by_rule_and_attack(results: Results) -> list[Results]:
    """The runs that differ in nothing but their seed."""
    return groups(results, ("rule", "attack"))


def seeds_of(results: Results) -> str:
    """The seeds that were run: "seed 0", "seeds 0-4", "seeds 0, 2"; and whether some runs have fewer."""
    seeds = sorted({run.config.seed for run in results})
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    following = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
    which = f"{seeds[0]}-{seeds[-1]}" if following else ", ".join(map(str, seeds))
    return f"seeds {which}" + (" or fewer" if min(map(len, by_rule_and_attack(results))) < len(seeds) else "")


def save(fig: Any, path: Path) -> None:
    """Writes the figure as PNG for the screen and as PDF for print."""
    for kind in ("png", "pdf"):
        buffer = io.BytesIO()
        undated = {"CreationDate": None} if kind == "pdf" else {}
        fig.savefig(buffer, dpi=200, format=kind, metadata=undated)
        write(path.with_suffix(f".{kind}"), buffer.getvalue())
        fig.set_layout_engine(None)  # both have the layout of the first, which takes as long as drawing


def epochs(results: Results) -> list[int]:
    """The epochs after which any of the runs was evaluated."""
    return sorted(set().union(*(run.evaluated for run in results)))


def shared(results: Results) -> list[int]:
    """The epochs after which all of the runs were evaluated: versions of the code may differ in that."""
    return sorted(set(epochs(results)).intersection(*(run.evaluated for run in results)))


def curves(results: Results, rule: str, attack: str, what: str) -> np.ndarray:
    """A number by seed and epoch, (seeds, epochs); NaN where it was lost."""
    runs = [run for run in select(results, rule, attack) if what in run.history]
    at = [dict(zip(run.evaluated, run.history[what], strict=True)) for run in runs]
    return np.array([[run[epoch] for epoch in shared(runs)] for run in at], dtype=float)


# --- Axes ---------------------------------------------------------------------------------------------------


def axis_name(what: str) -> str:
    """The name of the axis that a number is drawn along."""
    return SHOWN[what].partition(" of ")[0] + (",\nstretched towards 1" if is_accuracy(what) else "")


def attack_name(attack: str) -> str:
    """The name of an attack in the title of a panel."""
    return attack if ATTACKS[attack].lies else "no attack"


def is_accuracy(what: str) -> bool:
    """Whether a number is an accuracy."""
    return what.endswith(("own", "whole"))


def is_share(what: str) -> bool:
    """Whether a number lies between 0 and 1."""
    return what not in ("highest_loss", "passing")


def set_scale(ax: Any, results: Results, what: str, along: str = "y") -> None:
    """Sets the axis of a number, the same in all panels; accuracies are stretched towards 1."""
    if is_accuracy(what):
        known = [value for run in results for value in run.history.get(what, []) if value is not None] or [0]
        fitting = max(min(known) - 0.05, -0.05), min(max(known) + 0.02, 1.01)
        stretch(ax, along, fitting if along == "y" else (-0.05, 1.01))  # bars go farther
    elif is_share(what):
        ax.set(**{f"{along}lim": (-0.03, 1.03)})  # a line at 0 is seen beside the axis


# Draws accuracies a as -log(1.1 - a), and back: 0 to 0.5 takes a quarter of an axis, as does 0.9 to 1.
STRETCH = (lambda a: -np.log(np.maximum(1.1 - np.asarray(a), 1e-3)), lambda z: 1.1 - np.exp(-np.asarray(z)))


def stretch(ax: Any, along: str, limits: tuple[float, float]) -> None:
    """Stretches an axis of accuracies towards 1, where rules differ."""
    ticks = (0, 0.5, 0.8, 0.9, 1) if along == "x" else (0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1)
    getattr(ax, f"set_{along}scale")("function", functions=STRETCH)
    ax.set(**{f"{along}ticks": ticks, f"{along}lim": limits})
    getattr(ax, f"{along}axis").set_major_formatter("{x:g}")


# --- By epoch -----------------------------------------------------------------------------------------------


def by_epoch(results: Results, title: str, path: Path, shows: Sequence[str]) -> None:
    """Draws a panel per attack and number shown, two side by side, a line per rule."""
    panels = [(attack, what) for attack in names_run(results, "attack", ATTACKS) for what in shows]
    columns, tall = min(len(panels), 2), max(2.0, 0.14 * len(rules_of(results)) + 0.5)
    rows = -(-len(panels) // columns)
    about = caption_of(results, title, shows, "thin line", "±")
    with drawing(path, about, (3.6 * columns, tall * rows + 0.5)) as fig:
        axes = fig.subplots(rows, columns, squeeze=False).flat
        for ax, (attack, number) in zip(axes, panels, strict=False):
            panel(ax, results, attack, number)
            ax.set_xlabel("epoch")
            ax.set_ylabel(axis_name(number))
        for ax in axes[len(panels) :]:
            ax.remove()


def panel(ax: Any, results: Results, attack: str, what: str = "worst_own") -> None:
    """Draws one number under one attack: a line per rule, with its name and its last value beside it."""
    from matplotlib.ticker import MaxNLocator

    set_scale(ax, results, what)
    rules = [rule for rule in rules_of(results) if curves(results, rule, attack, what).size]
    numbers = {rule: curves(results, rule, attack, what) for rule in rules}
    for rule in reversed(rules):  # the paper's on top
        line(ax, results, rule, attack, what)
    drawn = [y for values in numbers.values() for y in values.mean(axis=0) if y > 0] or [1]
    if what == "highest_loss" and max(drawn) > 100 * min(drawn):  # else most would be flat
        ax.set_yscale("log")
    ax.set_xlim(0, epochs(results)[-1])
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    ax.set_title(attack_name(attack), loc="left")
    ax.grid(alpha=0.3, linewidth=0.5)
    ends = {rule: values[:, -1] for rule, values in numbers.items()}
    name_lines(ax, {rule: last for rule, last in ends.items() if np.isfinite(last).all()})


def line(ax: Any, results: Results, rule: str, attack: str, what: str) -> None:
    """Draws a rule: its mean over the seeds, and each seed as a thin line if they are few.

    Rules have their markers at different epochs, so that one sees which of them coincide.
    """
    x, values = np.array(shared(select(results, rule, attack))), curves(results, rule, attack, what)
    style, mean = style_of(rule), values.mean(axis=0)
    apart = max(1, len(x) // 5)  # epochs between two markers of a rule
    at = methods.names().index(rule) * apart // len(RULES) % apart
    ax.plot(x, mean, **style._asdict(), markersize=3, markevery=(at, apart))
    if 1 < len(values) < FEW:
        ax.plot(x, values.T, color=style.color, linestyle=style.linestyle, linewidth=0.4, alpha=0.6)


def name_lines(ax: Any, ends: dict[str, np.ndarray]) -> None:
    """Writes each rule's marker, name and last value right of the panel, beside the end of its line.

    `ends` are the last values of all seeds, by rule.
    """
    ax.get_ylim()  # settles the limits
    rules, to_axes = sorted(ends, key=lambda rule: ends[rule].mean()), ax.transScale + ax.transLimits
    heights = np.array([to_axes.transform((1, ends[rule].mean()))[1] for rule in rules])
    places = spread(heights, min(0.105, 1 / max(1, len(rules))))
    for rule, height, place in zip(rules, heights, places, strict=True):
        style, at = style_of(rule), {"transform": ax.transAxes, "clip_on": False}
        ax.plot([1, 1.04], [height, place], color=style.color, linewidth=0.6, **at)
        ax.plot(1.07, place, style.marker, color=style.color, markersize=3.5, **at)
        weight = "bold" if style.linewidth > 1.5 else "normal"
        half = f"±{format_number(interval(ends[rule]))}" if len(ends[rule]) >= FEW else ""
        text = f"{rule} {format_number(ends[rule].mean())}{half}"
        ax.text(1.11, place, text, va="center", fontsize=7, weight=weight, **at)


def spread(heights: np.ndarray, gap: float) -> np.ndarray:
    """The places in 0 to 1 nearest to these ascending heights that are at least a gap apart.

    Less its gaps, the k-th is the greatest over i <= k of the least over j >= k of the means from i to j
    (isotonic regression, which scikit-learn has, too; importing that would take a third of the time).
    """
    n = len(heights)
    steps = gap * np.arange(n)
    sums = np.append(0, np.cumsum(heights - steps))
    mean = lambda i, j: (sums[j + 1] - sums[i]) / (j + 1 - i)
    places = [max(min(mean(i, j) for j in range(k, n)) for i in range(k + 1)) for k in range(n)]
    return np.clip(places, 0, 1 - gap * (n - 1)) + steps


# --- In the end ---------------------------------------------------------------------------------------------


def at_the_end(results: Results, title: str, path: Path, shows: Sequence[str]) -> None:
    """Draws the numbers after the last epoch, a panel per attack and number shown."""

    def draw(ax: Any, y: int, rule: str, attack: str, what: str) -> None:
        if (values := curves(results, rule, attack, what)).size:
            dots(ax, values[:, -1], y, rule, what)

    rule_rows(results, caption_of(results, title, shows, "hollow dot", "bar"), path, shows, draw)


def workers(results: Results, title: str, path: Path) -> None:
    """Draws every normal worker's last accuracy, on its own test split, a panel per attack."""

    def draw(ax: Any, y: int, rule: str, attack: str, what: str) -> None:
        values = [a for run in select(results, rule, attack) for a in run.accuracy["own"]]
        style = style_of(rule)
        ax.plot(values, np.full(len(values), y), style.marker, color=style.color, markersize=2.5, alpha=0.5)

    what = "test accuracy of every normal worker, own test split"
    rule_rows(results, caption(results, title, what), path, ("worst_own",), draw)


def rule_rows(results: Results, title: str, path: Path, shows: Sequence[str], draw: Draw) -> None:
    """Writes a figure: a column of panels per attack, a row of them per number, and a line per rule in each."""
    attacks, rules = names_run(results, "attack", ATTACKS), rules_of(results)[::-1]
    size = (1.45 * max(2, len(attacks)) + 0.9, len(shows) * (0.19 * max(4, len(rules)) + 0.6) + 0.6)
    with drawing(path, title, size) as fig:
        axes = fig.subplots(len(shows), len(attacks), squeeze=False, sharey=True)
        for what, row in zip(shows, axes, strict=True):
            for attack, ax in zip(attacks, row, strict=True):
                for y, rule in enumerate(rules):
                    draw(ax, y, rule, attack, what)
                set_scale(ax, results, what, "x")
                ax.set_title(attack_name(attack))
                ax.set_xlabel(axis_name(what))
                ax.set_ylim(-0.6, len(rules) - 0.4)
                ax.grid(alpha=0.3, linewidth=0.5)
        axes[0, 0].set_yticks(range(len(rules)), rules)


def dots(ax: Any, values: np.ndarray, y: float, rule: str, what: str) -> None:
    """Draws a rule's mean, with its interval, or with a hollow dot per seed if they are few.

    The interval is cut where the number itself ends: at 0, and at 1 if it is a share. A dotted line marks the
    mean of a rule that listens to no one, to compare the others with.
    """
    style, mean, half = style_of(rule), values.mean(), None
    if len(values) >= FEW:
        room = mean, 1 - mean if is_share(what) else np.inf
        half = [[min(interval(values), end)] for end in room]
    elif len(values) > 1:
        ax.plot(values, np.full(len(values), y), "o", mfc="none", color=style.color, markersize=3, mew=0.6)
    ax.errorbar(mean, y, xerr=half, fmt=style.marker, markersize=4.5, color=style.color)
    if not methods.find(rule).listens:
        ax.axvline(mean, color=style.color, linestyle=":", linewidth=0.8, zorder=0)


# --- Trust --------------------------------------------------------------------------------------------------


def trust(results: Results, rule: str, title: str, path: Path) -> None:
    """Draws the weights c(l, k) of the first seed after a few epochs, a row of panels per attack."""
    attacks = names_run([run for run in results if run.config.rule == rule], "attack", ATTACKS)
    runs = [select(results, rule, attack)[0] for attack in attacks]
    at, N = list(runs[0].weights_at), runs[0].config.workers
    what = f"weight that a normal worker gives to a model under {rule}; right of the line: of attackers"
    side = 1 + 0.05 * N  # inches
    tall = [side * (1 - run.config.liars / N) + 0.6 for run in runs]  # with room for the numbers
    size = (max(3, len(at)) * (side + 0.25) + 0.9, sum(tall) + 0.6)
    with drawing(path, caption(runs, title, what), size) as fig:
        axes = fig.subplots(len(runs), len(at), squeeze=False, height_ratios=tall)
        for row, run, attack in zip(axes, runs, attacks, strict=True):
            for ax, epoch in zip(row, at, strict=True):
                image = matrix(ax, np.array(run.weights_at[epoch]), run.attackers)
                ax.set_title(f"{attack_name(attack)}, epoch {epoch}")
            row[0].set_ylabel("receiver")
        for ax in axes[-1]:
            ax.set_xlabel(SENDERS)
        fig.colorbar(image, ax=list(axes.flat), shrink=0.5, label="weight")


SENDERS = "sender (x: attacker)"


def matrix(ax: Any, C: np.ndarray, attackers: list[int]) -> Any:
    """Draws the weights (N, N) of the normal receivers as an image, and returns it.

    Normal workers come first, so that the weight on one's own model is on the diagonal; attackers, who
    aggregate nothing and have no row, are columns on the right with an x below their number.
    """
    normal = [k for k in range(len(C)) if k not in attackers]
    image = ax.imshow(C[np.ix_(normal, [*normal, *attackers])], vmin=0, vmax=1, cmap="Greys")
    names = [*map(str, normal), *(f"{k}\nx" for k in attackers)]
    every = 1 + len(C) // 15  # as many as can be read
    for along, some in (("x", names), ("y", names[: len(normal)])):
        ax.set(**{f"{along}ticks": range(0, len(some), every), f"{along}ticklabels": some[::every]})
    ax.tick_params(labelsize=6, length=0, pad=1)
    if attackers:
        ax.axvline(len(normal) - 0.5, color="#D55E00", linewidth=1.2)
    return image
