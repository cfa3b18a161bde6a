"""Tables that others have printed, once more with refimpl: theirs, ours, the difference.

    python benchmarks/published.py ios --data-dir mnist               # Wu, Chen and Ling 2023, iid
    python benchmarks/published.py ios --partition label-separated    # and not iid
    python benchmarks/published.py peng wu                            # Peng et al. 2021; Wu et al. 2020
    python benchmarks/published.py docs/results/published.csv         # numbers that --csv has kept

All on MNIST, accuracies in percent. As many rounds as theirs unless --rounds says otherwise: 50 000, 5 000 and
15 000; 5 to 15 ms each for `ios`. With --out each number is kept in a file as soon as it is there, and the same
command does the rest. Where a number is the mean of ten records, +- is the standard error of that mean.
Settings are in the docstrings below. Gradients, medians and Krum are refimpl.fast's, everything else is
refimpl.related, worker by worker.
"""

import argparse
import csv
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from threadpoolctl import threadpool_limits

import refimpl
from data_loaders import mnist
from refimpl import aggregate, graphs, models
from refimpl.arrays import quiet
from refimpl.experiments.cli import Parser, whole_number
from refimpl.experiments.endings import ended
from refimpl.experiments.files import write
from refimpl.experiments.summary import csv_text
from refimpl.fast import distances
from refimpl.fast.networks import Batched, batched
from refimpl.fast.rules import ascending
from refimpl.related import diminishing, metropolis_weights, rules, uniform_weights
from refimpl.related.common import Heard
from refimpl.related.gossip import weighted

Rng = np.random.Generator
Rule = Callable[[Heard], np.ndarray]


class Data(NamedTuple):
    X: np.ndarray  # (rows, 784) float32
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load(data_dir: str | None, symmetric: bool) -> Data:
    """MNIST with pixels in [0, 1], or in [-1, 1] if symmetric."""
    d = mnist.load(data_dir)
    assert d.X_test is not None
    assert d.y_test is not None
    X, X_test = (
        x.reshape(len(x), -1) * (2 if symmetric else 1) - (1 if symmetric else 0) for x in (d.X, d.X_test)
    )
    return Data(X, d.y, X_test, d.y_test)


def network(*sizes: int) -> Batched:
    made = batched(models.mlp(sizes))
    assert made
    return made


def accuracy(net: Batched, W: np.ndarray, data: Data) -> float:
    """Of the models W (n, d), in the mean, in percent."""
    hits = [net.predict(w, data.X_test) == data.y_test for w in W]
    return 100 * float(np.mean(hits))


def lower_median(W: np.ndarray) -> np.ndarray:
    """Of each coordinate; of two in the middle the lower one, as torch has it, and so IOS's code."""
    place = (len(W) - 1) // 2
    return ascending(W, place, place + 1)[0]


def geometric_median(W: np.ndarray, steps: int = 80, tolerance: float = 1e-5, nu: float = 1e-5) -> np.ndarray:
    """`rules.geometric_median` by products: z = a W, so that distances need the models' products only."""
    if not np.isfinite(W).all():
        return rules.geometric_median(W, steps, tolerance, nu)
    V = (W - W.mean(axis=0)).astype(np.float64)
    products, a = V @ V.T, np.full(len(W), 1 / len(W))
    for _ in range(steps):
        away = np.diag(products) - 2 * products @ a + a @ products @ a
        closeness = 1 / np.maximum(np.sqrt(np.maximum(away, 0)), nu)
        before, a = a, closeness / closeness.sum()
        if np.sqrt(max((a - before) @ products @ (a - before), 0)) <= tolerance:
            break
    return a.astype(W.dtype) @ W


class Cell(NamedTuple):
    """A number of a table."""

    row: str
    column: str
    theirs: float
    compute: Callable[[int], list[float]]
    """(rounds) -> records, of which ours is the mean"""


# --- IOS: Wu, Chen and Ling 2023, Tables II and III ---------------------------------------------------------

# Their Erdos-Renyi graph (12 workers, p = 0.7, seed 300), as networkx draws it, and its two attackers.
IOS_EDGES = [
    *((0, l) for l in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11)),
    *((1, l) for l in (2, 4, 5, 6, 8, 10)),
    *((2, l) for l in (3, 4, 5, 6, 7, 8, 11)),
    *((3, l) for l in (4, 5, 7, 9, 11)),
    *((4, l) for l in (6, 8, 10)),
    *((5, l) for l in (6, 8, 9, 11)),
    *((6, l) for l in (7, 10, 11)),
    *((7, l) for l in (8, 9, 10, 11)),
    *((8, l) for l in (9, 10)),
    *((9, l) for l in (10, 11)),
    (10, 11),
]
IOS_ATTACKERS = (6, 7)
IOS_COLUMNS = ("none", "gaussian", "sign", "isolation", "duplicate", "alie")
IOS_TABLE = {
    "iid": {
        "no communication": (90.24,),
        "MH mean": (91.70, 13.78, 30.93, 90.18, 91.63, 91.67),
        "median": (91.58, 91.56, 87.00, 91.52, 91.46, 91.52),
        "geometric median": (91.70, 91.68, 87.10, 91.29, 91.70, 91.69),
        "Krum": (90.83, 90.83, 91.23, 90.89, 90.91, 91.45),
        "trimmed mean": (91.73, 91.61, 86.34, 91.57, 91.61, 91.62),
        "TV penalty": (91.69, 91.62, 90.27, 91.61, 91.64, 91.64),
        "SCC": (91.72, 91.74, 32.56, 91.59, 91.71, 91.70),
        "IOS": (91.68, 91.68, 91.66, 91.66, 91.70, 91.68),
    },
    "label-separated": {
        "no communication": (10.00,),
        "MH mean": (91.70, 13.63, 20.89, 10.00, 91.53, 91.21),
        "median": (75.49, 77.92, 66.38, 41.56, 78.74, 82.46),
        "geometric median": (88.00, 88.63, 23.35, 73.01, 88.68, 89.14),
        "Krum": (19.71, 19.76, 19.16, 19.76, 29.20, 63.79),
        "trimmed mean": (91.61, 90.40, 70.97, 54.47, 87.54, 82.56),
        "TV penalty": (76.43, 89.38, 10.50, 88.60, 85.27, 60.69),
        "SCC": (91.70, 91.57, 20.89, 83.80, 91.52, 91.21),
        "IOS": (91.70, 91.60, 91.61, 91.55, 88.22, 86.61),
    },
}
IOS_RULES: dict[str, Callable[[float], Rule]] = {
    "no communication": lambda tau: lambda h: h.models[h.own],
    "MH mean": lambda tau: weighted,
    "median": lambda tau: lambda h: lower_median(h.models),
    "geometric median": lambda tau: lambda h: geometric_median(h.models),
    "Krum": lambda tau: lambda h: distances.krum(h.models, h.f),
    "trimmed mean": lambda tau: lambda h: rules.own_trimmed_mean(h.models, h.own, h.f),
    "SCC": lambda tau: lambda h: rules.clipped_gossip(h.models, h.own, h.weights, tau),
    "IOS": lambda tau: lambda h: rules.iterative_outlier_scissor(h.models, h.own, h.weights, h.f),
}


class Sight(NamedTuple):
    """What the attackers among worker k's neighbours know."""

    own: np.ndarray  # (d,): what k has
    near: np.ndarray  # (h, d): what k's honest neighbours send, without k
    weights: np.ndarray  # (h,): how k weighs them
    own_weight: float
    lying_weight: float  # of all attackers that k hears
    liars: int  # how many these are


def alie(v: Sight, rng: Rng) -> np.ndarray:
    """mean + z std, with n neighbours in place of n workers, and ddof 1."""
    n = len(v.near) + v.liars
    s = (n + 1) // 2 - v.liars
    return v.near.mean(axis=0) + float(ndtri((n - s) / n)) * v.near.std(axis=0, ddof=1)


IOS_ATTACKS: dict[str, Callable[[Sight, Rng], np.ndarray]] = {
    "gaussian": lambda v, rng: v.near.mean(axis=0) + 30 * rng.normal(size=(v.liars, len(v.own))),
    "sign": lambda v, rng: -np.concatenate([v.near, v.own[None]]).mean(axis=0),
    "isolation": lambda v, rng: ((1 - v.own_weight) * v.own - v.weights @ v.near) / v.lying_weight,
    "duplicate": lambda v, rng: v.near[rng.integers(len(v.near))],
    "alie": alie,
}


class Place(NamedTuple):
    """A worker's place in the network: what stays the same in all rounds."""

    members: np.ndarray  # (n,): whom it hears, itself included
    own: int
    lies: np.ndarray  # (n,) bool
    near: np.ndarray  # (n,) bool: honest, without itself
    weights: np.ndarray  # (n,)

    def heard(self, sent: np.ndarray, attack: str, rng: Rng) -> Heard:
        """What it hears of what is sent, (N, d); attackers tell it something of its own."""
        M, c, lying = sent[self.members], self.weights, int(self.lies.sum())
        if lying:
            lying_weight = float(c[self.lies].sum())
            sight = Sight(M[self.own], M[self.near], c[self.near], float(c[self.own]), lying_weight, lying)
            M[self.lies] = IOS_ATTACKS[attack](sight, rng)
        return Heard(self.members, M, self.own, c, lying, ~self.lies, lambda w: np.array(0.0))


def ios_places(attack: str) -> dict[int, Place]:
    """The honest workers of their graph; without an attack, of its part without attackers."""
    graph, lying = graphs.from_edges(12, IOS_EDGES), np.isin(np.arange(12), IOS_ATTACKERS)
    if attack == "none":
        graph[lying] = graph[:, lying] = False
    mixing, places = metropolis_weights(graph).astype(np.float32), {}
    for k in np.flatnonzero(~lying).tolist():
        N_k = np.flatnonzero(graph[k])
        lies = lying[N_k]
        own = int(np.searchsorted(N_k, k))
        places[k] = Place(N_k, own, lies, ~lies & (N_k != k), mixing[k, N_k])
    return places


def parts_of(data: Data, count: int, partition: str) -> list[np.ndarray]:
    """The rows of each honest worker: as they come, or label l at worker l modulo the number of workers."""
    if partition == "iid":
        return np.array_split(np.arange(len(data.y)), count)
    return [np.flatnonzero(data.y % count == i) for i in range(count)]


@quiet
def ios_cell(data: Data, rule: str, attack: str, partition: str, rounds: int, seed: int) -> list[float]:
    """Softmax regression; step, then rule; mu_t = 0.9 / sqrt(t), decay 0.01, start 6 N(0, 1), batches of 32.

    f is the number of attackers that a worker hears, as in their code. The accuracy is the mean of the last ten
    records, one every 500 rounds, as in their tables.
    """
    rng, net, places = np.random.default_rng(seed), network(data.X.shape[1], 10), ios_places(attack)
    honest = np.array(list(places))
    parts = parts_of(data, len(honest), partition)
    penalty, tau = (0.001, 0.1) if partition == "iid" else (0.5, 0.3)
    combine, step_size = IOS_RULES.get(rule, lambda tau: weighted)(tau), diminishing(0.9)
    W = (6 * rng.normal(size=(12, net.layout.size))).astype(np.float32)
    records = []
    for t in range(1, rounds + 1):
        mu = step_size(0, t)
        starts = [rng.integers(len(part)) + np.arange(32) for part in parts]
        rows = np.stack([part[at % len(part)] for part, at in zip(parts, starts, strict=True)])
        G = net.gradient(W[honest], data.X[rows], data.y[rows]) + 0.01 * W[honest]
        sent = W.copy()
        if rule == "TV penalty":
            for i, (k, place) in enumerate(places.items()):
                G[i] += penalty * np.sign(sent[k] - place.heard(sent, attack, rng).models).sum(axis=0)
            W[honest] -= mu * G
        else:
            sent[honest] -= mu * G
            for k, place in places.items():
                W[k] = combine(place.heard(sent, attack, rng))
        if rounds - t < 5000 and (rounds - t) % 500 == 0:
            records.append(accuracy(net, W[honest], data))
    return records


def ios(options: argparse.Namespace) -> Iterator[Cell]:
    data = load(options.data_dir, symmetric=True)
    for rule, theirs in IOS_TABLE[options.partition].items():
        for attack, number in zip(IOS_COLUMNS, theirs, strict=False):
            yield Cell(
                rule,
                attack,
                number,
                lambda rounds, rule=rule, attack=attack: ios_cell(  # type: ignore[misc]
                    data, rule, attack, options.partition, rounds, options.seed
                ),
            )


# --- Peng, Li and Ling 2021: stored curves, without attack --------------------------------------------------

PENG = {  # name: accuracy after 5000 rounds, a of mu_t = a / sqrt(t), penalty or None
    "DPSGD": (89.9, 0.5, None),
    "BRIDGE": (90.0, 0.5, None),  # with nobody to trim it is DPSGD; its script reads DPSGD's step size
    "TV penalty": (89.5, 0.3, 0.005),
}


def peng_cell(data: Data, a: float, penalty: float | None, rounds: int, seed: int) -> list[float]:
    """30 workers, Erdos-Renyi with p = 0.7; softmax regression without a bias, from 0; L2 0.01.

    Batches are 32 rows side by side from a random place; theirs are cut at the end of the data, ours go on from
    the beginning. Mix-and-step with the plain mean of the neighbourhood, or the penalty. Of one worker.
    """
    rng, net = np.random.default_rng(seed), network(data.X.shape[1], 10)
    graph = graphs.erdos_renyi(30, 0.7, rng)
    graphs.require_connected(graph)
    W, mixing = np.zeros((30, net.layout.size), np.float32), uniform_weights(graph).astype(np.float32)
    parts = np.stack([part[: len(data.y) // 30] for part in np.array_split(np.arange(len(data.y)), 30)])
    for t in range(1, rounds + 1):
        places = rng.integers(parts.shape[1], size=(30, 1)) + np.arange(32)
        rows = np.take_along_axis(parts, places % parts.shape[1], axis=1)
        G = net.gradient(W, data.X[rows], data.y[rows]) + 0.01 * W
        G[:, -10:] = 0  # the biases
        base = mixing @ W
        if penalty is not None:
            base = W
            G = G + penalty * np.stack([np.sign(W[k] - W[graph[k]]).sum(axis=0) for k in range(30)])
        W = base - diminishing(a)(0, t) * G
    return [accuracy(net, W[:1], data)]


def peng(options: argparse.Namespace) -> Iterator[Cell]:
    data = load(options.data_dir, symmetric=False)
    for name, (theirs, a, penalty) in PENG.items():
        yield Cell(
            name,
            "none",
            theirs,
            lambda rounds, a=a, penalty=penalty: peng_cell(data, a, penalty, rounds, options.seed),  # type: ignore[misc]
        )


# --- Wu et al. 2020 (Byrd-SAGA), Table I, mini-batch SGD ----------------------------------------------------

WU = {"none": (98.6, 98.0), "gaussian": (36.3, 98.0), "sign": (0.16, 90.3), "zero": (9.89, 81.5)}
WU_ATTACKS: dict[str, Callable[[np.ndarray, Rng], np.ndarray]] = {
    "gaussian": lambda G, rng: G.mean(axis=0) + 30 * rng.normal(size=(20, G.shape[1])).astype(G.dtype),
    "sign": lambda G, rng: -3 * G.mean(axis=0),
    "zero": lambda G, rng: -G.sum(axis=0) / 20,
}
WU_RULES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mean": aggregate.average,
    "geometric median": geometric_median,
}


@quiet
def wu_cell(data: Data, rule: str, attack: str, rounds: int, seed: int) -> list[float]:
    """A server, 50 honest clients, 20 attackers; 784-50-10, ReLU (theirs: tanh), batches of 50, mu = 0.5.

    Gaussian attackers have a standard deviation of 30, as in their code; their paper says a variance of 30.
    """
    rng, net = np.random.default_rng(seed), network(data.X.shape[1], 50, 10)
    bound = np.concatenate([np.full(field.size, field.fan_in**-0.5) for field in net.layout.fields])
    w = (rng.uniform(-1, 1, net.layout.size) * bound).astype(np.float32)
    parts = np.stack([part[: len(data.y) // 50] for part in np.array_split(rng.permutation(len(data.y)), 50)])
    for _ in range(rounds):
        rows = np.take_along_axis(parts, rng.integers(parts.shape[1], size=(50, 50)), axis=1)
        sent = net.gradient(np.tile(w, (50, 1)), data.X[rows], data.y[rows])
        if attack != "none":
            lies = np.broadcast_to(WU_ATTACKS[attack](sent, rng), (20, len(w)))
            sent = np.concatenate([sent, lies])
        w = w - np.float32(0.5) * WU_RULES[rule](sent)
    return [accuracy(net, w[None], data)]


def wu(options: argparse.Namespace) -> Iterator[Cell]:
    data = load(options.data_dir, symmetric=False)
    for attack, numbers in WU.items():
        for rule, theirs in zip(WU_RULES, numbers, strict=True):
            yield Cell(
                rule,
                attack,
                theirs,
                lambda rounds, rule=rule, attack=attack: wu_cell(  # type: ignore[misc]
                    data, rule, attack, rounds, options.seed
                ),
            )


# --- The command line ---------------------------------------------------------------------------------------

TABLES: dict[str, tuple[Callable[[argparse.Namespace], Iterator[Cell]], int]] = {
    "ios": (ios, 50_000),
    "peng": (peng, 5_000),
    "wu": (wu, 15_000),
}
ROWS = {"ios": list(IOS_TABLE["iid"]), "peng": list(PENG), "wu": list(WU_RULES)}
COLUMNS = {"ios": list(IOS_COLUMNS), "peng": ["none"], "wu": list(WU)}
Row = dict[str, Any]


def main(argv: list[str] | None = None) -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="ios, peng, wu, or a file that --csv wrote")
    parser.add_argument("--data-dir", help="folder with MNIST; default: the cache")
    parser.add_argument("--rounds", type=whole_number(1), help="default: as many as theirs")
    parser.add_argument("--partition", choices=list(IOS_TABLE), default="iid", help="of ios")
    parser.add_argument("--rows", nargs="+", metavar="RULE", help="only these")
    parser.add_argument("--columns", nargs="+", metavar="ATTACK", help="only these")
    parser.add_argument("--seed", type=whole_number(0), default=0)
    parser.add_argument("--out", type=Path, help="folder for a file per number; kept if it is there")
    parser.add_argument("--kept", action="store_true", help="only numbers that are in --out already")
    parser.add_argument("--csv", type=Path, help="file for the numbers, a row each")
    options = parser.parse_args(argv)
    tables = options.tables or list(TABLES)
    if unknown := {name for name in tables if not name.endswith(".csv")} - set(TABLES):
        parser.error(f"unknown table {sorted(unknown)[0]!r}, choose from {', '.join(TABLES)}")
    if options.partition != "iid" and "ios" not in tables:
        parser.error(f"--partition {options.partition} is for ios, got {', '.join(tables)}")
    for asked, of in ((options.rows, ROWS), (options.columns, COLUMNS)):
        there = [name for table in tables for name in of.get(table, [])]
        if strange := set(asked or []) - set(there):
            parser.error(f"{', '.join(tables)} has no {sorted(strange)[0]!r}, choose from {', '.join(there)}")
    if options.kept and not options.out:
        parser.error("--kept needs --out")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        rows = [row for name in tables for row in show(from_file(name) or cells_of(name, options))]
    if not rows:
        print("no numbers: without --kept they are computed", file=sys.stderr)
    if options.csv and rows:
        write(options.csv, csv_text(rows))
    return 0


def from_file(name: str) -> list[Row]:
    """The rows of a file, if it is one."""
    if not name.endswith(".csv"):
        return []
    with Path(name).open(newline="") as file:
        return list(csv.DictReader(file))


def cells_of(name: str, options: argparse.Namespace) -> Iterator[Row]:
    """The cells of a table that were asked for, computed or from their files."""
    cells, theirs = TABLES[name]
    rounds, partition = options.rounds or theirs, options.partition if name == "ios" else "iid"
    for cell in cells(options):
        facts = {"table": name, "partition": partition, "row": cell.row, "column": cell.column}
        facts |= {"theirs": cell.theirs, "rounds": rounds, "of": theirs, "seed": options.seed}
        path = path_of(facts, options.out)
        asked = cell.row in (options.rows or [cell.row]) and cell.column in (options.columns or [cell.column])
        if asked and (not options.kept or (path and path.exists())):
            yield computed(facts, cell, path)


def show(rows: Iterable[Row]) -> Iterator[Row]:
    """Prints each as it comes, below a heading for each table."""
    heading = ""
    for row in rows:
        about = "{table}, {partition}: {rounds} of {of} rounds, seed {seed}".format(**row)
        if about != heading:
            print(f"{about}\n{'':20}{'attack':12}{'theirs':>8}{'ours':>8}{'+-':>7}{'diff':>8}{'s':>7}")
        heading, theirs, ours = about, float(row["theirs"]), float(row["ours"])
        error = f"{float(row['error']):7.2f}" if row.get("error") else f"{'':7}"
        numbers = f"{theirs:8.2f}{ours:8.2f}{error}{ours - theirs:+8.2f}{float(row['seconds']):7.0f}"
        print(f"{row['row']:20}{row['column']:12}{numbers}", flush=True)
        yield row


def path_of(facts: dict[str, Any], out: Path | None) -> Path | None:
    """The file of a number, if they are kept."""
    name = "_".join(str(facts[key]) for key in ("table", "partition", "row", "column", "rounds", "seed"))
    return out and out / f"{name.replace(' ', '-')}.json"


def computed(facts: dict[str, Any], cell: Cell, path: Path | None) -> dict[str, Any]:
    """The number of a cell with the facts about it, from its file if there is one."""
    if path and path.exists():
        return json.loads(path.read_text())
    start, records = time.perf_counter(), cell.compute(facts["rounds"])
    error = float(np.std(records, ddof=1)) / math.sqrt(len(records)) if len(records) > 1 else ""
    made = facts | {"ours": float(np.mean(records)), "error": error, "version": refimpl.__version__}
    made["seconds"] = time.perf_counter() - start
    if path:
        write(path, json.dumps(made, indent=1) + "\n")
    return made


if __name__ == "__main__":
    sys.exit(ended(main))
