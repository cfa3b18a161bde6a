"""Times every rule and every attack beside byzfl, and beside an operation for scale.

    python benchmarks/rules.py

The yardstick of the median and the trimmed mean is numpy's sort of the models, that of Krum and the medoid one
product W W^T; the others have none. The models are random; "krum, foe" and "medoid, foe" see honest ones that
nearly agree and attackers that send the same, which is harder. One thread. Where byzfl defines the same thing,
the results are compared before anything is timed; its Krum(f + 1) is Krum(f) here (tests/test_byzfl_flower.py).
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import timing
from timing import libraries

from refimpl import attacks
from refimpl.aggregate import RULES
from refimpl.experiments.options import HelpFormatter, Parser, folder, whole_number
from refimpl.experiments.tasks import DTYPES
from refimpl.fast import distances
from refimpl.fast.rules import TWINS, Twin, all_finite, combine_into
from refimpl.process import ended

SIZES = {"spambase": (10, 3, 1202), "har": (30, 13, 56806), "mnist": (10, 3, 130890), "100": (100, 40, 56806)}


def refimpl_functions(W: np.ndarray, f: int) -> dict[str, Callable[[], np.ndarray]]:
    """Every rule as the engine computes it on W (n, d), every attack in its plain form, by the first f."""
    rng = np.random.default_rng(1)
    own, honest = W[:f], W[f:]
    risks, signals = rng.random(len(W)).astype(W.dtype), (rng.random(own.shape) - 0.5).astype(W.dtype)
    receiver, made = np.array([[f]]), np.empty((1, W.shape[1]), W.dtype)

    def computed(twin: Twin) -> np.ndarray:
        if twin.models:
            return twin.models(W, f)
        c = twin.weights(risks[None, None], receiver)  # type: ignore
        combine_into(c, W[None], all_finite(W), made, np.array([[0]]), slice(0, 1))
        return made

    found: dict[str, Callable[[], np.ndarray]] = {
        name: partial(computed, TWINS[rule.compute]) for name, rule in RULES.items() if rule.listens
    }
    attacked = under_attack(W, f)
    found |= {
        "medoid, foe": partial(distances.medoid, attacked),
        "krum, foe": partial(distances.krum, attacked, f),
    }
    view = attacks.View(None, None, None, own, honest, np.arange(len(honest)), signals)
    for name, attack in attacks.ATTACKS.items():
        if attack.lies and attack.by_default:
            found[name] = partial(attack.made_from, view)
    return found


def under_attack(W: Any, f: int) -> Any:
    """The last n - f models close to each other, the first f all minus their mean."""
    attacked = W[-1] + W / 1000
    attacked[:f] = -attacked[f:].mean(0)
    return attacked


def byzfl_functions(W: Any, f: int) -> dict[str, Callable[[], Any]]:
    """The rules that byzfl has too, on its input, a numpy array or a torch tensor."""
    rules, lies = libraries.byzfl()
    honest, h = W[f:], len(W) - f
    average, median, trimmed, krum = rules.Average(), rules.Median(), rules.TrMean(f), rules.Krum(f + 1)
    attacked = under_attack(W, f)
    foe = lies.InnerProductManipulation(tau=1.0)
    alie = lies.ALittleIsEnough(tau=-attacks.alie_z(len(W), f) * ((h - 1) / h) ** 0.5)
    return {
        "average": lambda: average(W),
        "median": lambda: median(W),
        "trimmed-mean": lambda: trimmed(W),
        "krum": lambda: krum(W),
        "krum, foe": lambda: krum(attacked),
        "foe": lambda: foe(honest),
        "alie": lambda: alie(honest),
    }


def yardsticks(W: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
    sort, product = partial(np.sort, W, axis=0), partial(np.matmul, W, W.T)
    products = dict.fromkeys(("krum", "medoid", "krum, foe", "medoid, foe"), product)
    return {"median": sort, "trimmed-mean": sort, **products}


def measure(n: int, f: int, d: int, dtype: str, count: int) -> list[dict[str, Any]]:
    """The quartiles of each column by rule or attack that it has."""
    W = np.random.default_rng(0).normal(size=(n, d)).astype(dtype)
    columns: dict[str, dict[str, Callable[[], Any]]] = {"refimpl": refimpl_functions(W, f)}
    if not libraries.missing("torch", "byzfl"):
        import torch

        columns["byzfl"] = byzfl_functions(W, f)
        columns["on torch"] = byzfl_functions(torch.from_numpy(W), f)
        for name, function in columns["byzfl"].items():
            scale = 1e-4 if dtype == "float32" else 1e-9
            np.testing.assert_allclose(
                function(), columns["refimpl"][name](), rtol=scale, atol=scale, err_msg=name
            )
    columns["yardstick"] = yardsticks(W)
    results = []
    for name in columns["refimpl"]:
        turns = {column: functions[name] for column, functions in columns.items() if name in functions}
        results.append({"name": name, "n": n, "f": f, "d": d, "ms": timing.take_turns(turns, count, 0.05)})
    return results


def main(argv: list[str] | None = None) -> int:
    p = Parser(description="Milliseconds per call of every rule and attack.", formatter_class=HelpFormatter)
    add = p.add_argument
    add("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES), help="of the tasks, and 100 models")
    add("--dtype", choices=DTYPES, default="float32", help="of the models")
    add("--turns", type=whole_number(1), default=15, help="of each column")
    add("--write", action="store_true", help="put what is printed into docs/engineering/PERFORMANCE.md")
    add("--out", type=folder, default=Path("results/benchmarks"), help="folder for rules.json")
    args = p.parse_args(argv)
    p.need_folder(args.out)
    if absent := libraries.missing("torch", "byzfl"):
        print(f"no columns of byzfl: missing {' and '.join(absent)}, pip install '.[bench]'", file=sys.stderr)
    results, table = [], timing.Table()
    for size in args.sizes:
        n, f, d = SIZES[size]
        with timing.threads(1):
            rows = measure(n, f, d, args.dtype, args.turns)
        names = list(dict.fromkeys(name for row in rows for name in row["ms"]))
        table.say(f"{n} models of {d} parameters in {args.dtype}, {f} attackers; milliseconds per call")
        table.say(timing.header(14, names))
        for row in rows:
            table.say(timing.line(f"{row['name']:14}", names, row["ms"]))
        table.say()
        results += rows
    timing.write(args.out, "rules.json", {"dtype": args.dtype, "results": results})
    if args.write:
        table.into_page("rules")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
