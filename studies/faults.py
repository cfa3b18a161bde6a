"""What do lost messages cost? Accuracy on Spambase against the probability that a message is lost.

    python studies/faults.py              # some minutes: docs/results/faults.csv, then
    python studies/faults.py --show       # the table from it

Ten workers as in the paper, 30 epochs, without attack and with three attackers (ALIE). `local` hears nobody,
so that it was run once.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from blocks import DOCS

from refimpl.experiments import runner
from refimpl.experiments.atomic import make_folder, write
from refimpl.experiments.config import Config
from refimpl.experiments.figures import drawing, style_of
from refimpl.experiments.options import Parser, whole_number
from refimpl.experiments.results import Results, as_csv, read
from refimpl.experiments.tasks import TASKS
from refimpl.process import ended

CSV = DOCS / "results" / "faults.csv"
OUT = Path("results/faults")
LOSSES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
RULES = ("adaptive", "median", "krum", "local")
ATTACKS = ("none", "alie")
MEASURES = {"worst_own": "own", "worst_whole": "whole"}


def config(rule: str, attack: str, seed: int, loss: float) -> Config:
    """The run with this loss; of `local`, that without."""
    fixed = TASKS["spambase"].defaults | {"epochs": 30, "loss": 0.0 if rule == "local" else loss}
    return Config("spambase", rule, attack, seed, graph="complete", **fixed)


def numbers_of(results: Results, rule: str, attack: str, loss: float, measure: str) -> list[float]:
    """A number for each seed."""
    by_config = {run.config: run for run in results}
    wanted = [config(rule, attack, seed, loss) for seed in sorted({run.config.seed for run in results})]
    return [by_config[c].last(measure) for c in wanted]


def kept(results: Results, rule: str, attack: str, loss: float) -> float:
    """The share of all normal workers' rounds in which too few messages arrived for the rule."""
    found = [run for run in results if run.config == config(rule, attack, run.config.seed, loss)]
    shares = [
        (run.history.get("too_few", [0.0])[-1] or 0.0)
        / (run.config.epochs * run.rounds_per_epoch * (run.config.workers - run.config.liars))
        for run in found
    ]
    return float(np.mean(shares))


def table(results: Results) -> str:
    """The mean over the seeds of the worst accuracy, own and whole, by attack and loss."""
    lines = [f"{'':12}" + "".join(f"{rule:>13}" for rule in RULES) + "   krum keeps"]
    lines.append(f"{'':12}" + "    own whole" * len(RULES) + "      its own")
    for attack in ATTACKS:
        for loss in LOSSES:
            cells = ""
            for rule in RULES:
                own, whole = (np.mean(numbers_of(results, rule, attack, loss, m)) for m in MEASURES)
                cells += f"{own:7.2f}{whole:6.2f}"
            lines.append(f"{attack:6}{loss:6.1f}{cells}{100 * kept(results, 'krum', attack, loss):11.0f} %")
    return "\n".join([*lines, "local hears nobody: under each attack it was run once for all losses."])


def draw(results: Results, path: Path) -> None:
    """Writes a picture with a column for the attack, a row for the test data; a dot is a seed."""
    title = "Worst accuracy of the normal workers if a message is lost with probability P"
    facts = "Spambase, 10 workers, 30 epochs; line: mean; dots: seeds"
    with drawing(path, f"{title}\n{facts}", (6, 4)) as fig:
        axes = fig.subplots(len(MEASURES), len(ATTACKS), sharex=True, sharey="row")
        for row, (measure, words) in zip(axes, MEASURES.items(), strict=True):
            for ax, attack in zip(row, ATTACKS, strict=True):
                panel(ax, results, attack, measure)
            row[0].set_ylabel(f"test accuracy,\n{words} data")
        for ax, attack in zip(axes[0], ATTACKS, strict=True):
            ax.set_title("no attack" if attack == "none" else "alie, 3 attackers")
        for ax in axes[-1]:
            ax.set_xlabel("P")
        handles, labels = axes[0][0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=len(RULES), frameon=False)


def panel(ax: Any, results: Results, attack: str, measure: str) -> None:
    """Draws a line per rule against the loss."""
    for rule in RULES:
        numbers = np.array([numbers_of(results, rule, attack, loss, measure) for loss in LOSSES])
        style = style_of(rule)
        ax.plot(LOSSES, numbers.mean(axis=1), **style._asdict(), markersize=4)
        ax.plot(LOSSES, numbers, ".", color=style.color, markersize=2, alpha=0.6)
    ax.grid(alpha=0.3, linewidth=0.5)


def main(argv: list[str] | None = None) -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="only the table, from the CSV")
    parser.add_argument("--repeats", type=whole_number(1), default=3, help="seeds (3)")
    cores = joblib.cpu_count()
    parser.add_argument("--jobs", type=whole_number(1), default=cores, help="runs at a time (one per core)")
    options = parser.parse_args(argv)
    if not options.show:
        names = [
            (seed, loss, a, r)
            for seed in range(options.repeats)
            for loss in LOSSES
            for a in ATTACKS
            for r in RULES
        ]
        runs = list(dict.fromkeys(config(r, a, seed, loss) for seed, loss, a, r in names))
        make_folder(OUT)
        found = {run.config: run for run in runner.run_grid(runs, OUT, options.jobs, None, 1)}
        write(CSV, as_csv([found[c] for c in runs]))
    print(table(read(CSV)))
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
