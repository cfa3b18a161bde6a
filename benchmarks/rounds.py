"""Times a full round of Algorithm 1 (local step, attack, aggregation) of the three tasks at the paper's sizes.

    python benchmarks/rounds.py          # one thread of the CPU
    python benchmarks/rounds.py --gpu    # and a GPU beside it, in the same run

The data are random, of the tasks' shapes: no value changes what a round costs. Rule adaptive, attack ALIE, the
risk on the round's batch. The rounds of the columns take turns; shown are the median and the quartiles.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from refimpl import arrays, draws, experiment, graphs, train
from refimpl.cli import HelpFormatter, Parser, whole_number

ROWS = {"spambase": 368, "har": 257, "mnist": 640}  # a worker's; MNIST's 6000 would only take memory


def rounds(task: str, dtype: str, xp: ModuleType) -> Iterator[train.Round]:
    """Endless rounds of the task on random data, in arrays of `xp`."""
    preset = experiment.TASKS[task]
    model, options, rng = preset.model(), preset.defaults, np.random.default_rng(0)
    N, F, n = options["workers"], options["attackers"], ROWS[task]
    classes = model.layout.fields[-1].size
    X, y = rng.random((N, n, *model.sample)), rng.integers(0, classes, (N, n))
    data = train.Data(X, y, X[0], y[0], np.ones((N, n), dtype=bool)).to(xp, dtype)
    setting = train.Setting(
        model, data, graphs.complete(N), np.arange(F), "adaptive", "alie", "batch",
        optimizer=options["optimizer"], lr=options["lr"], batch_size=options["batch_size"],
    )  # fmt: skip
    W = draws.initial(model.layout, N, draws.stream(0, "init"))
    return train.rounds(setting, xp.asarray(W.astype(dtype)), seed=0)


def milliseconds(running: Iterator[train.Round]) -> float:
    """One more round; the copy of one number waits until a device has finished."""
    start = time.perf_counter()
    arrays.to_host(next(running).state.W[0, 0])
    return 1000 * (time.perf_counter() - start)


def measure(task: str, dtype: str, columns: dict[str, ModuleType], count: int) -> dict[str, list[float]]:
    """By column the quartiles of `count` rounds, which take turns, after two that warm up."""
    running = {name: rounds(task, dtype, xp) for name, xp in columns.items()}
    times: dict[str, list[float]] = {name: [] for name in columns}
    for _ in range(2 + count):
        for name, iterator in running.items():
            times[name].append(milliseconds(iterator))
    return {name: np.percentile(t[2:], [25, 50, 75]).tolist() for name, t in times.items()}


def main(argv: list[str] | None = None) -> int:
    p = Parser(description="Milliseconds per round of the three tasks.", formatter_class=HelpFormatter)
    p.add_argument("--tasks", nargs="+", choices=list(ROWS), default=list(ROWS), help="which tasks")
    p.add_argument("--rounds", type=whole_number(1), default=15, help="timed rounds")
    p.add_argument("--gpu", action="store_true", help="add a column for an NVIDIA GPU with CuPy")
    p.add_argument("--out", type=Path, default=Path("results/benchmarks"), help="folder for rounds.json")
    args = p.parse_args(argv)
    columns: dict[str, Any] = {"cpu": np}
    try:
        if args.gpu:
            columns["gpu"] = arrays.gpu()
        args.out.mkdir(parents=True, exist_ok=True)
    except (arrays.DeviceError, OSError) as error:
        p.error(str(error))
    print(f"{'ms per round':20}" + "".join(f"{name:>28}" for name in columns))
    results = []
    with threadpool_limits(1):
        for task in args.tasks:
            for dtype in experiment.DTYPES:
                quartiles = measure(task, dtype, columns, args.rounds)
                cells = [f"{q[1]:12.3f} ({q[0]:.3f}-{q[2]:.3f})" for q in quartiles.values()]
                print(f"{task:12}{dtype:8}" + "".join(f"{cell:>28}" for cell in cells), flush=True)
                results.append({"task": task, "dtype": dtype, "ms": quartiles})
    experiment.write(args.out / "rounds.json", json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
