"""What a round costs beyond one process and beyond this machine: measured, predicted, and on paper.

    python benchmarks/distributed_costs.py --write

fills in the numbers of docs/engineering/SCALE.md. It measures small things (an edge, a byte, a sample),
predicts larger ones from them, and measures those too. The part about MPI needs the extra `mpi`; bytes on the
wire are counted where a network namespace can be made (on Linux, as root).
"""

import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scale
import timing
from timing import DOCS, as_code, libraries, write_blocks

from refimpl import algorithm, draws
from refimpl.aggregate import adaptive_weights, combine
from refimpl.experiments.options import HelpFormatter, Parser, whole_number
from refimpl.experiments.tasks import TASKS
from refimpl.optim import OPTIMIZERS
from refimpl.process import ended

ROOT = Path(__file__).parents[1]
PAGE, EXAMPLE = DOCS / "engineering" / "SCALE.md", ROOT / "examples" / "mpi_peers.py"
DEGREE = 8

# --- All workers in one process -----------------------------------------------------------------------------

WORKERS = (100, 1000, 5000, 20000)


class Fit(NamedTuple):
    """Costs of a round, N workers, E = N |N_k| edges: worker N + edge E ms; base + row N + square N^2 bytes."""

    worker: float
    edge: float
    base: float
    row: float
    square: float

    def ms(self, N: float, neighbours: float) -> float:
        return N * (self.worker + self.edge * neighbours)

    def bytes(self, N: float) -> float:
        return self.base + self.row * N + self.square * N**2


def fitted(rounds: int) -> Fit:
    """The costs, fitted to 500 workers of three degrees and the memory of three other numbers of workers."""
    degrees, sizes = (2, 8, 32), (300, 1500, 4000)
    ms = [scale.in_its_own_process((500, degree, 20), rounds)["ms"][1] for degree in degrees]
    edge, worker = np.polyfit([degree + 1 for degree in degrees], np.array(ms) / 500, 1)
    peak = [scale.in_its_own_process((N, DEGREE, 20), 1)["MB"] * 1e6 for N in sizes]
    square, row, base = np.polyfit(sizes, peak, 2)
    return Fit(worker, edge, base, row, square)


def one_process(fit: Fit, rounds: int) -> str:
    """The prediction beside the measurement."""
    lines = [
        f"a round: {1000 * fit.worker:.1f} us for a worker, {1000 * fit.edge:.1f} us for an edge",
        f"memory: {fit.base / 1e6:.0f} MB to begin with, {fit.row / 1000:.0f} kB for a worker, "
        f"{fit.square:.1f} bytes for a pair of workers",
        "",
    ]
    lines += [f"{'':8}{'ms a round':>27}{'':7}{'peak MB':>23}"]
    lines += [f"{'workers':>8}" + 2 * f"{'predicted':>14}{'measured':>13}{'ratio':>7}"]
    for N in WORKERS:
        found = scale.in_its_own_process((N, DEGREE, 20), rounds)
        pairs = ((fit.ms(N, DEGREE + 1), found["ms"][1]), (fit.bytes(N) / 1e6, found["MB"]))
        lines.append(f"{N:8}" + "".join(f"{a:14.0f}{b:13.0f}{b / a:7.2f}" for a, b in pairs))
    return "\n".join(lines)


# --- One peer -----------------------------------------------------------------------------------------------


class Peer(NamedTuple):
    """A peer's costs, in ms: its local step, a model that it scores and combines, a sample to score it on."""

    d: int
    itemsize: int
    batch: int
    row: int  # bytes of a sample
    local: float
    model: float
    sample: float

    def compute(self, neighbours: float, rows: float) -> float:
        return self.local + neighbours * (self.model + rows * self.sample)


def peer(task: str, turns: int) -> Peer:
    """The costs of one peer, by the specification's own functions, on random data of the task's shapes."""
    model: Any = TASKS[task].model()
    options, rng = TASKS[task].defaults, np.random.default_rng(0)
    B, dtype, few = options["batch_size"], options["dtype"], 4
    X = rng.random((few * B, *model.sample)).astype(dtype)
    y = rng.integers(0, 2, len(X))
    W = draws.initial(model.layout, 9, rng).astype(dtype)
    memory = np.zeros((OPTIMIZERS[options["optimizer"]].slots, W.shape[1]), dtype)
    s = algorithm.Setting(model, [X], [y], np.ones((1, 1), bool), np.array([]), optimizer=options["optimizer"])
    columns = {
        "local": lambda: algorithm.local_step(s, 0, W[0], memory, np.arange(B), 1),
        "batch": lambda: algorithm.risk(s, W[0], X[:B], y[:B]),
        "more": lambda: algorithm.risk(s, W[0], X, y),
        "combine": lambda: combine(adaptive_weights(np.ones(9, dtype), 0), W),
    }
    with timing.threads(1):
        ms = {name: times[0] for name, times in timing.take_turns(columns, turns, turn=0.05).items()}
    sample = max((ms["more"] - ms["batch"]) / ((few - 1) * B), 0)
    each = max(ms["batch"] - B * sample, 0) + ms["combine"] / 9
    return Peer(W.shape[1], W.itemsize, B, X[0].nbytes, ms["local"], each, sample)


def one_peer(peers: dict[str, Peer]) -> str:
    names = ("parameters", "bytes a model", "local step ms", "a model ms", "a sample ms", "ratio")
    lines = ["task    " + "".join(f"{name:>15}" for name in names)]
    for task, p in peers.items():
        ratio = (p.model + p.batch * p.sample) / p.local
        numbers = (p.d, p.d * p.itemsize, f"{p.local:.3f}", f"{p.model:.4f}", f"{p.sample:.5f}", f"{ratio:.2f}")
        lines.append(f"{task:8}" + "".join(f"{x:>15}" for x in numbers))
    return "\n".join(lines)


# --- Peers on this machine, by MPI --------------------------------------------------------------------------


def mpiexec(ranks: int, *command: Any, options: tuple[str, ...] = ()) -> list[str]:
    """The command as that many ranks, on however few cores."""
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    launcher = shutil.which("mpiexec", path=beside) or "mpiexec"
    return [launcher, *options, "-n", str(ranks), sys.executable, *map(str, command)]


def output(command: list[str]) -> tuple[str, str]:
    """The command's stdout and stderr. Open MPI needs to be told that it may run as root."""
    allow = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    allow |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    done = subprocess.run(command, env=os.environ | allow, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stderr}")
    return done.stdout, done.stderr


def exchange_times(rounds: int = 200) -> None:
    """Runs as one of two ranks: prints the ms of an exchange by bytes, as JSON."""
    from mpi4py import MPI

    sys.path.insert(0, str(EXAMPLE.parent))
    from mpi_peers import Channel

    comm, both = MPI.COMM_WORLD, np.ones((2, 2), bool) & ~np.eye(2, dtype=bool)
    found = []
    for d in (1, 1000, 10_000, 100_000):
        W = np.zeros((2, d))
        channel = Channel(comm, both, [np.array([0]), np.array([1])], W, timeout=60)
        times = []
        for _ in range(rounds):
            comm.Barrier()
            start = time.perf_counter()
            channel({(comm.rank, 1 - comm.rank): W[0]})
            times.append(1000 * (time.perf_counter() - start))
        found.append((W[0].nbytes, float(np.percentile(times, 25))))
    if comm.rank == 0:
        print(json.dumps(found))


def ranks(p: Peer, epochs: int) -> str:
    """Spambase on 4 and 10 ranks, a worker each; the risk is on the batch."""
    by_size = json.loads(output(mpiexec(2, __file__, "--exchange"))[0])
    sizes, times = zip(*by_size, strict=True)
    byte, message = np.polyfit(sizes, times, 1)
    lines = [f"an exchange of two ranks {message:.2f} ms, a megabyte {1e6 * byte:.2f} ms", ""]
    columns = ("bytes sent", "d(|N_k|-1)8", "computes", "predicted", "exchanges", "waits", "round", "predicted")
    lines.append("ranks" + "".join(f"{name:>12}" for name in columns))
    for N in (4, 10):
        fixed = ["--workers", N, "--attackers", 0, "--risk", "batch", "--epochs", epochs]
        with tempfile.TemporaryDirectory() as out:
            table = output(mpiexec(N, EXAMPLE, *fixed, "--out", out))[0].partition("waiting ms\n")[2]
        rows = np.array([line.split() for line in table.splitlines()], float)
        _, _, sent, should, computing, exchanging, waiting = rows.mean(axis=0)
        alone = p.compute(N, p.batch)
        together = alone * math.ceil(N / (os.cpu_count() or 1)) + message + byte * sent * N
        numbers = (computing, alone, exchanging, waiting, computing + exchanging + waiting, together)
        lines.append(f"{N:5}{sent:12.0f}{should:12.0f}" + "".join(f"{x:12.2f}" for x in numbers))
    return "\n".join(lines)


COUNT = """
import fcntl, pathlib, socket, struct, subprocess, sys
with socket.socket() as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x41))  # switches loopback on
subprocess.run(sys.argv[1:], check=True)
print(pathlib.Path("/proc/net/dev").read_text().partition("lo:")[2].split()[8])
"""


def on_the_wire() -> str:
    """How many bytes a round cross loopback when 4 ranks talk TCP, in a network of their own.

    The difference of a longer and a shorter run, as starting takes some too.
    """
    tcp = ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo")
    fixed, found = ["--workers", 4, "--attackers", 0, "--risk", "batch"], []
    for epochs in (1, 4):
        with tempfile.TemporaryDirectory() as out:
            line = mpiexec(4, EXAMPLE, *fixed, "--epochs", epochs, "--out", out, options=tcp)
            said, progress = output(["unshare", "--net", sys.executable, "-c", COUNT, *line])
        sent = sum(float(row.split()[2]) for row in said.partition("waiting ms\n")[2].splitlines()[:4])
        rounds = int(progress.partition("round 0 of ")[2].split()[0])
        found.append((rounds, int(said.split()[-1])))
    (few, less), (many, more) = found
    carried = (more - less) / (many - few)
    above = 100 * (carried / sent - 1)
    return f"4 ranks send {sent:.0f} bytes a round; the wire carries {carried:.0f}, {above:.1f} % more"


# --- On paper -----------------------------------------------------------------------------------------------

NETWORKS = {"1 Gbit/s": 1e9 / 8, "10 Mbit/s": 1e7 / 8}  # bytes a second: assumptions
DEGREES = {"8": lambda N: 8, "log N": lambda N: round(math.log2(N)), "N": lambda N: N - 1}
SIZES = list(itertools.product((3, 5, 7), DEGREES))  # powers of ten, and how many others a peer hears


def si(x: float, unit: str) -> str:
    """1234567 bytes: 1.23 MB."""
    power = min(max(math.floor(math.log10(x) / 3), -2), 6)
    return f"{x / 1000**power:.3g} {['u', 'm', '', 'k', 'M', 'G', 'T', 'P', 'E'][power + 2]}{unit}"


def as_peers(p: Peer) -> list[str]:
    """A peer's round: what it computes, holds and sends, and how long sending takes; what takes longest."""
    lines = [
        f"{'peers':>6}{'hear':>7}{'compute':>10}{'memory':>10}{'send':>10}"
        + "".join(f"{n:>11}" for n in NETWORKS)
    ]
    for power, degree in SIZES:
        others = DEGREES[degree](10**power)
        compute, sent = p.compute(others + 1, p.batch) / 1000, p.d * others * p.itemsize
        cells = f"{si(compute, 's'):>10}{si((others + 4) * p.d * p.itemsize, 'B'):>10}{si(sent, 'B'):>10}"
        times = [sent / rate for rate in NETWORKS.values()]
        cells += "".join(f"{si(t, 's') + (' *' if t > compute else '  '):>13}" for t in times)
        lines.append(f"{f'10^{power}':>6}{degree:>7}{cells}".rstrip())
    return lines


def on_paper(fit: Fit, peers: dict[str, Peer]) -> str:
    lines = []
    for task, p in peers.items():
        about = f"{task}: a peer's round, the risk on its batch of {p.batch}; * longer than it computes"
        lines += [about, *as_peers(p), ""]
    lines += [
        "spambase: all in one process on one core",
        f"{'peers':>8}{'hear':>8}{'compute':>12}{'memory':>12}",
    ]
    for power, degree in SIZES:
        N = 10**power
        took, memory = fit.ms(N, DEGREES[degree](N) + 1) / 1000, fit.bytes(N)
        lines.append(f"{f'10^{power}':>8}{degree:>8}{si(took, 's'):>12}{si(memory, 'B'):>12}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    p = Parser(description="Costs beyond one process.", formatter_class=HelpFormatter)
    add = p.add_argument
    add("--write", action="store_true", help="fill in docs/engineering/SCALE.md")
    add("--rounds", type=whole_number(1), default=5, help="timed rounds of each point")
    add("--epochs", type=whole_number(1), default=10, help="of the runs by MPI")
    add("--exchange", action="store_true", help="as one of two ranks: time exchanges")
    args = p.parse_args(argv)
    if args.exchange:
        exchange_times()
        return 0
    fit = fitted(args.rounds)
    peers = {task: peer(task, args.rounds) for task in ("spambase", "mnist")}
    blocks = {
        "one process": one_process(fit, args.rounds),
        "one peer": one_peer(peers),
        "on paper": on_paper(fit, peers),
    }
    if libraries.missing("mpi4py"):
        print("nothing about MPI: mpi4py is missing, pip install '.[mpi]'", file=sys.stderr)
    else:
        blocks["ranks"] = ranks(peers["spambase"], args.epochs)
        try:
            blocks["wire"] = on_the_wire()
        except (RuntimeError, OSError):
            print("nothing about bytes on the wire: no network namespace can be made", file=sys.stderr)
    for name, text in blocks.items():
        print(f"{name}\n\n{text}\n")
    if args.write:
        write_blocks(PAGE, {name: as_code(text) for name, text in blocks.items()})
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
