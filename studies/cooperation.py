"""When does cooperation pay? Accuracy with and without it, against rows, skew and attackers.

    python studies/cooperation.py              # about ten minutes: docs/results/cooperation.csv, then
    python studies/cooperation.py --show       # the table from it

Eight workers on Spambase, the paper's network, SGD 0.01 and batches of 20, 1500 rounds. One of three things
varies while the others stay at 100 rows a worker, half skewed, two attackers that flip signs: the rows of a
worker; the skew of its labels, from everybody's share (0) to one class only (1); the number of attackers, up to
all but one. A worker is tested on rows with the shares of labels that it trains on (own), and on all (whole).
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from blocks import DOCS

from data_loaders import Dataset, spambase
from refimpl import draws, graphs, methods, models, train
from refimpl.algorithm import Setting
from refimpl.experiments import grid
from refimpl.experiments.atomic import write
from refimpl.experiments.config import Config
from refimpl.experiments.figures import drawing, style_of
from refimpl.experiments.fingerprint import origin
from refimpl.experiments.options import Parser, whole_number
from refimpl.experiments.results import Results, RunResult, as_csv, read
from refimpl.experiments.statistics import interval
from refimpl.experiments.tasks import data_digest, standardise
from refimpl.fast.engine import engine
from refimpl.process import ended
from refimpl.train import HeldOut

CSV = DOCS / "results" / "cooperation.csv"
WORKERS, ROUNDS, BATCH = 8, 1500, 20
SPAM = 0.4  # the share of spam in the data
USUAL: dict[str, Any] = {"rows": 100, "skew": 0.5, "attackers": 2}
VARIED: dict[str, tuple[float, ...]] = {
    "rows": (20, 50, 100, 200, 400),
    "skew": (0, 0.25, 0.5, 0.75, 1),
    "attackers": (0, 1, 2, 3, 4, 5, 6, 7),
}
RULES = ("adaptive", "median", "local")
MEASURES = ("mean_own", "mean_whole")


def shares(skew: float) -> np.ndarray:
    """The share of spam among each worker's rows, (N,): half of the workers have more of it, half less."""
    return np.where(np.arange(WORKERS) % 2, SPAM + (1 - SPAM) * skew, SPAM * (1 - skew))


def local_data(
    data: Dataset, rows: int, skew: float, rng: np.random.Generator
) -> tuple[list[np.ndarray], list[np.ndarray], HeldOut]:
    """Rows dealt without repetition; of the tenth that is kept for tests, each worker's own may overlap."""
    order = rng.permutation(len(data.y))
    test, rest = np.split(order, [len(order) // 10])
    pools = [rest[data.y[rest] == label].tolist() for label in (0, 1)]
    parts, own = [], np.zeros((WORKERS, len(test)), dtype=bool)
    for k, share in enumerate(shares(skew)):
        spam = round(rows * share)
        parts.append(np.array([pools[label].pop() for label in [0] * (rows - spam) + [1] * spam]))
        size = min((data.y[test] == label).sum() / part for label, part in ((0, 1 - share), (1, share)) if part)
        for label, part in ((0, 1 - share), (1, share)):
            own[k, np.flatnonzero(data.y[test] == label)[: int(size * part)]] = True
    scale = standardise(data.X[np.concatenate(parts)])
    X = scale(data.X)
    local_X, local_y = [X[part] for part in parts], [data.y[part] for part in parts]
    return local_X, local_y, HeldOut(scale(data.X[test]), data.y[test], own)


def config(rule: str, seed: int, rows: int, skew: float, attackers: int) -> Config:
    """The configuration of a run; the name of its partition says how the rows are dealt."""
    return Config(
        task="spambase",
        rule=rule,
        attack="sign-flip",
        seed=seed,
        workers=WORKERS,
        attackers=attackers,
        epochs=ROUNDS // draws.rounds_per_epoch([rows] * WORKERS, BATCH),
        graph="complete",
        risk="local",
        optimizer="sgd",
        lr=0.01,
        batch_size=BATCH,
        partition=f"{rows} rows skew {skew:g}",
        features="standardised",
        dtype="float64",
    )


def run(rule: str, seed: int, rows: int, skew: float, attackers: int) -> RunResult:
    """The result of a run."""
    start, made_by, c = time.perf_counter(), origin(run), config(rule, seed, rows, skew, attackers)
    X, y, test = local_data(spambase.load(None), rows, skew, draws.stream(seed, "partition"))
    model = models.mlp([57, 20, 2])
    lying = draws.attackers(WORKERS, attackers, draws.stream(seed, "attackers"))
    s = Setting(model, X, y, graphs.complete(WORKERS), lying, rule, c.attack, step_size=c.lr, batch_size=BATCH)
    W = draws.initial(model.layout, WORKERS, draws.stream(seed, "init"))
    for result in train.rounds(s, W, seed, engine):
        if result.state.t == ROUNDS:
            break
    numbers = train.evaluate(s, test, result.state.W, engine(s).model)
    return RunResult(
        config=c,
        attackers=lying.tolist(),
        rounds_per_epoch=draws.rounds_per_epoch([rows] * WORKERS, BATCH),
        bytes_per_round=methods.find(rule).bytes_per_round(s, None, ROUNDS),
        evaluated=[c.epochs],
        history={name: [value] for name, value in numbers.items()},
        weights_at={},
        accuracy={},
        data=data_digest(c.task, None),
        code=made_by.code,
        versions=grid.versions(np),
        threads=1,
        seconds=time.perf_counter() - start,
        entries=made_by.entries,
    )


def points() -> Iterator[tuple[str, float, dict[str, Any]]]:
    """The points of the study: the name of what varies, its value, and the values of all three."""
    for varied, values in VARIED.items():
        for value in values:
            yield varied, value, USUAL | {varied: value}


def numbers_of(results: Results, at: dict[str, Any], rule: str, measure: str) -> list[float]:
    """A number for each seed."""
    runs = [run for run in results if run.config == config(rule, run.config.seed, **at)]
    return [run.last(measure) for run in runs]


def gain_of(results: Results, at: dict[str, Any]) -> np.ndarray:
    """How far adaptive is above local in own accuracy, for each seed."""
    ours, alone = (numbers_of(results, at, rule, "mean_own") for rule in ("adaptive", "local"))
    return np.subtract(ours, alone)


def table(results: Results) -> str:
    """The mean over the seeds, and how far adaptive is above local on its own, with its 95 % interval."""
    lines = [f"{'':14}" + "".join(f"{rule:>13}" for rule in RULES) + "  adaptive - local,"]
    lines.append(f"{'':14}" + "    own whole" * len(RULES) + "               own")
    for varied, value, at in points():
        numbers = {(rule, m): numbers_of(results, at, rule, m) for rule in RULES for m in MEASURES}
        cells = [f"{np.mean(numbers[rule, m]):.2f}" for rule in RULES for m in MEASURES]
        gain = gain_of(results, at)
        text = "".join(f"{own:>7}{whole:>6}" for own, whole in zip(cells[::2], cells[1::2], strict=True))
        lines.append(f"{varied:10}{value:<4g}{text}{gain.mean():+12.3f} ±{interval(gain):.3f}")
    return "\n".join(lines)


def draw(results: Results, path: Path) -> None:
    """Writes a picture with a column for what varies, a row for the test data; bands are 95 % intervals."""
    words = {"rows": "rows per worker", "skew": "skew of the labels", "attackers": "attackers among 8 workers"}
    gains = [gain_of(results, at).mean() for *_, at in points()]
    most = max(gains, key=abs)
    title = f"With adaptive, own accuracy is on average within {abs(most):.2f} of local's at every point"
    n = len({run.config.seed for run in results})
    facts = f"Spambase, 8 workers, sign-flip; mean over the normal workers; band: 95 % interval of {n} seeds"
    with drawing(path, f"{title}\n{facts}", (6.8, 4.2)) as fig:
        axes = fig.subplots(len(MEASURES), len(VARIED), sharey="row", sharex="col")
        for row, measure in zip(axes, MEASURES, strict=True):
            for ax, varied in zip(row, VARIED, strict=True):
                panel(ax, results, varied, measure)
            row[0].set_ylabel(f"test accuracy,\n{'own' if measure == 'mean_own' else 'all'} data")
        for ax, varied in zip(axes[-1], VARIED, strict=True):
            ax.set_xlabel(words[varied])
        axes[0][0].set_xscale("log")
        axes[0][0].set_xticks(VARIED["rows"], [f"{value:g}" for value in VARIED["rows"]])
        axes[0][0].minorticks_off()
        handles, labels = axes[0][0].get_legend_handles_labels()
        fig.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=3, frameon=False)


def panel(ax: Any, results: Results, varied: str, measure: str) -> None:
    """Draws a line per rule against what varies."""
    values = VARIED[varied]
    for rule in reversed(RULES):
        numbers = [numbers_of(results, USUAL | {varied: value}, rule, measure) for value in values]
        mean, half = np.mean(numbers, axis=1), np.array([interval(v) for v in numbers])
        style = style_of(rule)
        ax.plot(values, mean, **style._asdict(), markersize=4)
        ax.fill_between(values, mean - half, mean + half, color=style.color, alpha=0.15, linewidth=0)
    ax.grid(alpha=0.3, linewidth=0.5)


def main(argv: list[str] | None = None) -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="only the table, from the CSV")
    parser.add_argument("--repeats", type=whole_number(1), default=10, help="seeds (10)")
    cores = joblib.cpu_count()
    parser.add_argument("--jobs", type=whole_number(1), default=cores, help="runs at a time (one per core)")
    options = parser.parse_args(argv)
    if not options.show:
        different = {tuple(at.values()): at for *_, at in points()}
        seeds, job = range(options.repeats), joblib.delayed(run)
        todo = [job(rule, seed, **at) for at in different.values() for rule in RULES for seed in seeds]
        write(CSV, as_csv(joblib.Parallel(options.jobs)(todo)))
    print(table(read(CSV)))
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
