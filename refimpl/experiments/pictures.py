"""Pictures of who listens to whom, and of the single workers. Needs matplotlib, an extra."""

from pathlib import Path
from typing import Any

import numpy as np

from refimpl.attacks import ATTACKS
from refimpl.experiments.figures import PANEL, TEXT, headed, label_of, marker_of, save, setting_of, style_of
from refimpl.experiments.summary import Results, present, rules_of, select


def trust(results: Results, rule: str, title: str, path: Path) -> None:
    """Who trusts whom: the weights c(l, k) of the first seed after a few epochs, a row of panels per attack.

    A row of a panel is a receiver. Attackers' columns are marked above, their rows are white: they do not
    aggregate. A bright diagonal says that nobody listens to anyone.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    attacks = present([run for run in results if run["config"]["rule"] == rule], "attack", ATTACKS)
    runs = [select(results, rule, attack)[0] for attack in attacks]
    epochs = [int(epoch) for epoch in runs[0]["weights_at"]]
    with matplotlib.rc_context(TEXT):
        size = (max(3, len(epochs)) * 0.7 * PANEL + 0.9, len(runs) * 0.75 * PANEL + 0.5)
        above = ConstrainedLayoutEngine(h_pad=0.08)  # inches, for the marks above the panels
        fig = Figure(figsize=size, layout=above)
        axes = fig.subplots(len(runs), len(epochs), squeeze=False)
        for row, run, attack in zip(axes, runs, attacks, strict=True):
            for ax, epoch in zip(row, epochs, strict=True):
                image = matrix(ax, np.array(run["weights_at"][str(epoch)]), run["attackers"])
            row[0].set_ylabel(ATTACKS[attack].label.replace(" attack", "\nattack"))
        for ax, epoch in zip(axes[-1], epochs, strict=True):
            ax.set_xlabel(f"epoch {epoch}")
        fig.colorbar(image, ax=list(axes.flat), shrink=0.8, label="weight")
        about = f"{headed(results, title)}: who trusts whom, {label_of(rule)}"
        how = "receivers down, senders across, attackers below a mark"
        fig.suptitle(f"{about}\n{setting_of(runs)}; {how}", fontsize=8, wrap=True)
        save(fig, path)


def matrix(ax: Any, C: np.ndarray, attackers: list[int]) -> Any:
    """The weights (N, N) as an image, the attackers' columns marked."""
    rows = np.isin(np.arange(len(C)), attackers)[:, None]
    image = ax.imshow(np.where(rows, np.nan, C), vmin=0, vmax=1, cmap="viridis")
    look = {"color": "#D55E00", "markersize": 3, "clip_on": False, "in_layout": False}
    ax.plot(attackers, np.full(len(attackers), 1.06), "v", transform=ax.get_xaxis_transform(), **look)
    ax.set_xticks([])
    ax.set_yticks([])
    return image


def workers(results: Results, title: str, path: Path) -> None:
    """Every normal worker's accuracy in the end, on its own test split: a panel per attack, a row per rule."""
    import matplotlib
    from matplotlib.figure import Figure

    attacks, rules = present(results, "attack", ATTACKS), rules_of(results)
    with matplotlib.rc_context(TEXT):
        fig = Figure(figsize=(max(2.4, len(attacks)) * PANEL, 0.2 * len(rules) + 1.1), layout="constrained")
        axes = fig.subplots(1, len(attacks), squeeze=False, sharey=True)[0]
        for ax, attack in zip(axes, attacks, strict=True):
            for y, rule in enumerate(reversed(rules)):
                values = [a for run in select(results, rule, attack) for a in run["accuracy"]["own"]]
                look = {"color": style_of(rule).color, "marker": marker_of(rule), "markersize": 2.5}
                ax.plot(values, np.full(len(values), y), linestyle="", alpha=0.5, **look)
            ax.set_title(ATTACKS[attack].label)
            ax.set_xlim(-0.03, 1.03)
            ax.grid(alpha=0.3, linewidth=0.5)
        axes[0].set_yticks(range(len(rules)), [label_of(rule) for rule in reversed(rules)])
        about = f"{setting_of(results)}; every normal worker's test accuracy, own split"
        fig.suptitle(f"{headed(results, title)}\n{about}", fontsize=8)
        save(fig, path)
