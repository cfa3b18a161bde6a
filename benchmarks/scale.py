"""How the cost of a round grows with the workers, their neighbours, the model's size and the rows.

    python benchmarks/scale.py

The paper says O(d |N_k|) for a worker, of a risk on the batch; with r_k over all of S_k it is O(d |N_k| |S_k|).
Each point is a process of its own, so that its peak memory is its own: everything that it holds, Python, numpy
and random data included. Spambase's network on a random regular graph, rule adaptive, attack ALIE by a tenth of
the workers, one thread and float64; whole rounds of the fast engine. A worker has 40 rows, and the risk is on
the batch, of 20 rows, but where the rows grow: there it is on all of them. The exponent is the slope of a line
through the larger half of the points, on logarithmic axes.
"""

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import timing

from refimpl import algorithm, draws, graphs, models, train
from refimpl.experiments.options import HelpFormatter, Parser, folder, whole_number
from refimpl.fast import parallel
from refimpl.fast.engine import engine
from refimpl.process import ended

# Workers, neighbours besides oneself, hidden units; rows and where risks are on, if not as in `point`.
SWEEPS: dict[str, list[tuple[Any, ...]]] = {
    "workers": [(N, 8, 20) for N in (10, 30, 100, 300, 1000, 2000, 5000, 20000)],
    "neighbours": [(500, degree, 20) for degree in (2, 4, 8, 16, 32, 64, 128, 256)],
    "parameters": [(100, 8, hidden) for hidden in (5, 20, 80, 320, 1280, 5120)],
    "rows": [(100, 8, 20, rows, "local") for rows in (40, 80, 160, 320, 640, 1280, 2560, 5120)],
}


def point(count: int, N: int, degree: int, hidden: int, rows: int = 40, risk: str = "batch") -> dict[str, Any]:
    """Milliseconds per round, the quartiles of `count`; the peak memory of this process; d, and the rows.

    And the seconds that it takes to draw the graph and the first round, with all that is computed once.
    """
    rng = np.random.default_rng(0)
    model = models.mlp([57, hidden, 2])
    X, y = rng.random((N, rows, 57)), rng.integers(0, 2, (N, rows))
    began = time.perf_counter()
    graph = graphs.random_regular(N, degree, rng)
    attackers = draws.attackers(N, N // 10, rng)
    setting = algorithm.Setting(model, list(X), list(y), graph, attackers, "adaptive", "alie", risk)
    running = train.rounds(setting, draws.initial(model.layout, N, rng), seed=0, engine=engine)
    times = []
    with parallel.threads(1):
        next(running)
        before = time.perf_counter() - began
        for _ in range(1 + count):
            start = time.perf_counter()
            next(running)
            times.append(1000 * (time.perf_counter() - start))
    return {
        "ms": np.percentile(times[1:], [25, 50, 75]).tolist(),
        "MB": peak(),
        "d": model.layout.size,
        "rows": rows,
        "start": before,
    }


def peak() -> float:
    """The most memory that this process has held, in MB; NaN on Windows, where Python cannot tell."""
    status = Path("/proc/self/status")  # on Linux; what getrusage says there may be the parent's
    if status.exists():
        return int(status.read_text(encoding="utf-8").partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    try:
        import resource
    except ImportError:
        return math.nan
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # bytes, on macOS


def in_its_own_process(sizes: tuple[Any, ...], count: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--point", json.dumps(sizes), "--rounds", str(count)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def exponent(x: list[float], y: list[float]) -> float:
    """The slope of log y over log x, by least squares, for the larger half of the points."""
    half = min(len(x) // 2, len(x) - 2)
    return float(np.polyfit(np.log(x[half:]), np.log(y[half:]), 1)[0])


def figure(results: dict[str, Any], path: Path) -> None:
    """Time and memory of the sweeps, on logarithmic axes. Raises ImportError without matplotlib."""
    from matplotlib.figure import Figure

    fig = Figure(figsize=(2.5 * len(results), 4.4), layout="constrained")
    axes = fig.subplots(2, len(results), sharey="row", sharex="col", squeeze=False)
    for i, (name, sweep) in enumerate(results.items()):
        x = sweep["x"]
        for ax, key, label in ((axes[0, i], "ms", "ms per round"), (axes[1, i], "MB", "peak MB")):
            ax.loglog(x, sweep[key], "o-", color="C0")
            ax.grid(alpha=0.3)
            if i == 0:
                ax.set_ylabel(label)
        axes[0, i].set_title(f"time ~ {name}^{sweep['exponent']:.2f}")
        symbols = {"neighbours": ", |N_k|", "parameters": ", d", "rows": ", |S_k|"}
        axes[1, i].set_xlabel(name + symbols.get(name, ""))
    fig.savefig(path, dpi=180)


def main(argv: list[str] | None = None) -> int:
    p = Parser(description="Cost of a round against its sizes.", formatter_class=HelpFormatter)
    add = p.add_argument
    add("--sweeps", nargs="+", choices=list(SWEEPS), default=list(SWEEPS), help="what grows")
    add("--rounds", type=whole_number(1), default=9, help="timed rounds of each point")
    add("--write", action="store_true", help="put what is printed into docs/engineering/PERFORMANCE.md")
    add("--out", type=folder, default=Path("results/benchmarks"), help="folder for scale.json and scale.png")
    add("--point", type=json.loads, metavar="SIZES", help="one point of a sweep, in and out as JSON")
    args = p.parse_args(argv)
    if args.point:
        print(json.dumps(point(args.rounds, *args.point)))
        return 0
    p.need_folder(args.out)
    results: dict[str, Any] = {}
    table = timing.Table()
    for name in args.sweeps:
        table.say(f"{name:>12}{'ms per round':>16}{'quartiles':>20}{'peak MB':>10}{'start, s':>12}")
        sweep: dict[str, Any] = {"x": [], "ms": [], "quartiles": [], "MB": []}
        for sizes in SWEEPS[name]:
            made = in_its_own_process(sizes, args.rounds)
            N, degree, *_ = sizes
            x = {"workers": N, "neighbours": degree + 1, "parameters": made["d"], "rows": made["rows"]}[name]
            low, median, high = made["ms"]
            row = f"{x:12}{median:16.2f}{f'{low:.2f}-{high:.2f}':>20}{made['MB']:10.0f}{made['start']:12.1f}"
            table.say(row)
            for key, value in (("x", x), ("ms", median), ("quartiles", made["ms"]), ("MB", made["MB"])):
                sweep[key].append(value)
        sweep["exponent"] = exponent(sweep["x"], sweep["ms"])
        table.say(f"time grows with {name}^{sweep['exponent']:.2f}\n")
        results[name] = sweep
    timing.write(args.out, "scale.json", {"rounds": args.rounds, "results": results})
    if args.write:
        table.into_page("scale")
    try:
        figure(results, args.out / "scale.png")
    except ImportError as error:
        print(f"no figure: matplotlib does not import ({error}): pip install '.[examples]'", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
