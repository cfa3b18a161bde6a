"""Peers that are processes of their own and talk by MPI: Algorithm 1 without a centre.

    pip install -e '.[mpi]'
    mpiexec --oversubscribe -n 10 python examples/mpi_peers.py --task spambase --rule adaptive --attack alie

--oversubscribe is for machines with fewer cores than ranks; as root, Open MPI asks for --allow-run-as-root.

Each process (rank) is one worker. It holds its own data and its own model, takes its local step, sends the
result to its neighbours and to nobody else, weighs what it receives and combines it: `peers.round_`, which
calls the functions of the specification. No rank holds W. The models that come out are those of a run in one
process with --plain, bit for bit. With fewer ranks than workers, each rank holds several of them.

With --loss, --late and --crash the same goes wrong as in one process. Messages are dropped on arrival, or held
back for a round. A worker that crashes in this run lives in a process of its own, a child of its rank, which
alone has its data, its model and its memory. After its last round it is saved, and the process is killed; the
others go on without it. Another process reads its rows and its file, and listens from the last round on that
the worker misses, as something may come late.

With --go-on every normal worker lives in such a process, which may die at any time and of anything. From the
next exchange on the others go on without it, and do not wait: as soon as another process is ready, the worker
is back from its last checkpoint.

The rank stays, as MPI would not go on without it. For a worker that is down it sends what was saved, which all
drop but attackers that know all models. Any other process that dies ends the run, as does a rank that keeps
others waiting for too long; they say which it was. The same command goes on from the last common checkpoint.

What a real network would not have: all ranks start from one file. Each reads it, deals it like all the others,
keeps the rows of its own workers and forgets the rest before the first round. In the end rank 0 collects a few
numbers from each, for the table.
"""

import contextlib
import io
import itertools
import multiprocessing
import os
import sys
import time
import traceback
from argparse import Namespace
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from refimpl import faults, peers, process, train
from refimpl.aggregate import RULES
from refimpl.algorithm import Setting
from refimpl.attacks import ATTACKS
from refimpl.experiments import cli, grid, tasks
from refimpl.experiments.atomic import set_aside, write
from refimpl.experiments.config import Config
from refimpl.experiments.options import (
    HelpFormatter,
    Parser,
    choice,
    folder,
    learning,
    network,
    number,
    whole_number,
)
from refimpl.experiments.run import Run, check
from refimpl.experiments.run import prepare as prepared
from refimpl.experiments.tasks import TASKS
from refimpl.experiments.words import several
from refimpl.faults import Faults
from refimpl.peers import Ours

# --- The network --------------------------------------------------------------------------------------------

PAUSE = 2e-5  # seconds between two looks at what has arrived; asleep, as ranks may have to share a core
NOTHING = bytearray(0)


class LostError(Exception):
    """The ranks that have not been heard from for too long."""


class Channel:
    """The ranks that we send to and hear from, as a graph that MPI knows, and what it costs to talk to them.

    An exchange has two parts. First every rank tells those it sends to, by an empty message, that it is there;
    they wait for that. Then the models travel, in one call that is collective among neighbours.
    """

    def __init__(
        self,
        comm: Any,
        sends: np.ndarray,
        parts: list[np.ndarray],
        W: np.ndarray,
        timeout: float,
        each: bool = False,
    ):
        """`sends` (N, N) says who sends to whom, to `each` something else or the same to all.

        parts[p] are the workers of rank p; W is for its shape.
        """
        here, ranks = parts[comm.rank], [p for p in range(comm.size) if p != comm.rank]
        self.here = set(here.tolist())
        self.out = {p: found for p in ranks if (found := peers.parcels(sends, here, parts[p], each))}
        self.into = {p: found for p in ranks if (found := peers.parcels(sends, parts[p], here, each))}
        self.graph = comm.Create_dist_graph_adjacent(list(self.into), list(self.out))
        self.outgoing, self.incoming = (
            np.empty((sum(map(len, side.values())), W.shape[-1]), W.dtype) for side in (self.out, self.into)
        )
        self.timeout, self.waiting, self.exchanging, self.bytes = timeout, 0.0, 0.0, 0

    def __call__(self, mail: peers.Mail) -> peers.Mail:
        """Hands each rank the models that it hears, and returns those that our workers hear."""
        start = time.perf_counter()
        self.meet()
        met = time.perf_counter()
        self.exchange(mail)
        self.waiting += met - start
        self.exchanging += time.perf_counter() - met
        among_us = {pair: w for pair, w in mail.items() if pair[1] in self.here}
        parcels = zip(itertools.chain(*self.into.values()), self.incoming.copy(), strict=True)
        return among_us | {pair: w for parcel, w in parcels for pair in parcel}

    def meet(self) -> None:
        """Waits until all ranks that we hear from are there. Raises LostError with those that are not."""
        told = [self.graph.Isend(NOTHING, p) for p in self.out]
        calls = {p: self.graph.Irecv(NOTHING, p) for p in self.into}
        self.wait(calls)
        for call in told:
            call.Wait()  # an empty message leaves at once, whether or not somebody is there to read it

    def exchange(self, mail: peers.Mail) -> None:
        """Fills `incoming`. If somebody dies meanwhile, the others find out who when they meet again."""
        for row, parcel in zip(self.outgoing, itertools.chain(*self.out.values()), strict=True):
            row[:] = mail[parcel[0]]
        d = self.outgoing.shape[-1]
        sizes = [[d * len(parcels) for parcels in side.values()] for side in (self.out, self.into)]
        call = self.graph.Ineighbor_alltoallv([self.outgoing, sizes[0]], [self.incoming, sizes[1]])
        try:
            self.wait(dict.fromkeys([*self.into, *self.out], call))
        except LostError:
            self.meet()
            raise
        self.bytes += self.outgoing.nbytes

    def wait(self, calls: dict[int, Any]) -> None:
        """For all of them, by the rank that each depends on."""
        deadline = time.monotonic() + self.timeout
        while calls := {p: call for p, call in calls.items() if not call.Test()}:
            if time.monotonic() > deadline:
                raise LostError(*calls)
            time.sleep(PAUSE)


def open_channels(
    comm: Any, s: Setting, hears: peers.Channels, parts: list[np.ndarray], W: np.ndarray, timeout: float
) -> list[Channel]:
    """The channels of a setting, for models and for lies."""
    each = ATTACKS[s.attack].per_receiver
    lies = Channel(comm, hears.lies, parts, W, timeout, each)
    return [Channel(comm, hears.models, parts, W, timeout), lies]


# --- What a rank holds --------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """What all processes of a run know."""

    config: Config
    data_dir: str | None
    hears: peers.Channels
    folder: Path  # for checkpoints
    every: int  # so many rounds from one checkpoint to the next
    last: int  # round
    go_on: bool  # without a worker whose process has died

    def due(self, t: int) -> bool:
        """Whether all workers are saved after round t."""
        return t % self.every == 0 or t == self.last


class Own(NamedTuple):
    """A process's share of a run."""

    workers: np.ndarray  # (m,), ascending
    setting: Setting  # of all workers, but the rows of the others are not there
    W: np.ndarray  # (m, d), their initial parameters
    tests: list[tuple[np.ndarray, np.ndarray]]  # their test splits
    sizes: list[int]  # how many training rows each of all workers has
    faults: Faults | None  # what goes wrong; None if nothing does


def own_share(whole: Run, workers: np.ndarray) -> Own:
    """Of a run in one process, with its data and initial parameters, keeps what belongs to `workers`."""
    check(whole)
    setting, test, W = whole.setting, whole.test, whole.W
    tests = [(test.X[mine], test.y[mine]) for mine in test.own[workers]]
    X, y = (
        [rows if k in workers else rows[:0].copy() for k, rows in enumerate(of_all)]
        for of_all in (setting.X, setting.y)
    )
    own = setting._replace(X=X, y=y)
    tasks.forget()
    return Own(workers, own, W[workers], tests, train.sizes(setting), whole.faults)


Found = tuple[list[tuple[float, float]], int]
"""accuracy and loss of each normal worker; how often too few arrived"""


def evaluate(own: Own, state: Ours) -> Found:
    """Accuracy on the own test split and loss of each of our normal workers; how often too few arrived."""
    s = own.setting
    scores = [
        (float((s.model.predict(w, X) == y).mean()), float(s.model.risk(w, s.X[k], s.y[k])))
        for k, w, (X, y) in zip(own.workers, state.W, own.tests, strict=True)
        if k not in s.attackers
    ]
    return scores, int(state.too_few.sum())


# --- Checkpoints --------------------------------------------------------------------------------------------


def save(folder: Path, workers: np.ndarray, state: Ours, held: peers.Mail, every: int) -> None:
    """A file per worker, so that another number of ranks can go on; the one before is kept.

    It has what is `held` for the worker, too: `late3` came late from worker 3.

    Neighbours are at most a round apart, so nobody is N rounds ahead of anybody, and `every` is at least N:
    when somebody saves a checkpoint, all have saved the one before. It is not pickled: arrays of numbers only.
    """
    keep = (state.t // every - 1) * every
    for i, k in enumerate(workers):
        buffer = io.BytesIO()
        late = {f"late{sender}": w for (sender, to), w in held.items() if to == k}
        np.savez(buffer, w=state.W[i], memory=state.memory[:, i], too_few=state.too_few[i], **late)
        write(file_of(folder, k, state.t), buffer.getvalue())
        for t in saved(folder, k):
            if t < keep:
                file_of(folder, k, t).unlink()


def file_of(folder: Path, k: int, t: int) -> Path:
    """Where worker k is saved after round t."""
    return folder / f"worker{k}_round{t}.npz"


def saved(folder: Path, k: int) -> set[int]:
    """The rounds that worker k has been saved after."""
    names = [path.stem.partition("_round")[2] for path in folder.glob(f"worker{k}_round*.npz")]
    return {int(digits) for digits in names if digits.isdecimal()}


def usable(folder: Path, k: int) -> set[int]:
    """The rounds from which worker k can go on. A file that can't be read is set aside."""
    found = saved(folder, k)
    for t in sorted(found):
        try:
            load(folder, np.array([k]), t)
        except Exception as error:  # a damaged zip can raise nearly anything
            path = file_of(folder, k, t)
            process.say(f"{path} is not used ({process.reason(error)}); now {set_aside(path).name}")
            found.remove(t)
    return found


def load(folder: Path, workers: np.ndarray, t: int) -> tuple[Ours, peers.Mail]:
    """The state of some workers after round t, and what is held for them."""
    w, memory, too_few = [], [], []
    held: peers.Mail = {}
    for k in workers.tolist():
        with np.load(io.BytesIO(file_of(folder, k, t).read_bytes())) as file:
            w.append(file["w"])
            memory.append(file["memory"])
            too_few.append(file["too_few"])
            held |= {(int(name[4:]), k): file[name] for name in file.files if name.startswith("late")}
    return Ours(np.stack(w), np.stack(memory, axis=1), t, np.stack(too_few)), held


# --- Rounds -------------------------------------------------------------------------------------------------


def rounds(plan: Plan, own: Own, since: int, t: int, exchanges: Sequence[peers.Exchange]) -> Iterator[Ours]:
    """The state of our workers after round t, as it was saved after round `since`, and after each that is left.

    Before a worker crashes it is saved. The exchanges are for models and for lies.
    """
    s, (config, _, hears, folder, every, last, _) = own.setting, plan
    saved = since and len(own.workers)  # all workers of a rank may be in processes of their own
    state, held = load(folder, own.workers, since) if saved else (peers.start(s, own.W), {})
    state = state._replace(t=t)
    yield state
    for drawn in itertools.islice(train.Draws(s, own.W, config.seed, own.sizes), t, last):
        t, (models, lies), up = state.t + 1, exchanges, None
        if own.faults:
            if t in own.faults.down[own.workers, 0]:
                save(folder, own.workers, state, held, every)
            models, lies = (peers.faulty(exchange, s, own.faults, t, held) for exchange in exchanges)
            up = faults.up(own.faults, t)
        state = peers.round_(s, own.workers, state, *drawn, hears, models, lies, up)
        if plan.due(t):
            save(folder, own.workers, state, held, every)
        yield state


# --- Workers that crash or die ------------------------------------------------------------------------------

SPAWN = multiprocessing.get_context("spawn")  # a fork would begin with what the rank has in memory


def live(pipe: Connection, plan: Plan, k: int, since: int) -> None:
    """A child: worker k, as it was saved after round `since`, from the round on that its rank names.

    It never touches MPI; its rank is at the pipe. As the worker is normal, it sends no lies.
    """
    process.end_with_parent()
    own = own_share(prepared(plan.config, plan.data_dir), np.array([k]))

    def talk(mail: peers.Mail) -> peers.Mail:
        pipe.send(mail)
        return pipe.recv()

    try:
        if plan.go_on and not since:  # it may die before a checkpoint is due
            save(plan.folder, own.workers, peers.start(own.setting, own.W), {}, plan.every)
        pipe.send("ready")
        t = pipe.recv() - 1
        with threadpool_limits(1):
            states = rounds(plan, own, since, t, [talk, lambda _: pipe.recv()])
            pipe.send(evaluate(own, deque(states, maxlen=1).pop()))
    except (EOFError, ConnectionError):
        pass  # the rank is gone
    except OSError as error:
        process.say(f"mpi_peers.py: {process.reason(error)}")


class Child:
    """A worker in a process of its own, which is killed when the worker crashes, or dies unasked.

    Then another takes its place. Until that is `up`, what was saved of the worker stands for it.
    """

    def __init__(self, plan: Plan, k: int, down: np.ndarray, t: int):
        """Worker k after round t; when it is `down` is in `Faults`."""
        self.plan, self.k, self.stops, self.back = plan, k, max(down[0], t + 1), down[1]
        self.t, self.last_words = t + 1, dict[peers.Pair, np.ndarray]()
        self.begin(t)

    def begin(self, since: int) -> None:
        """Starts a process, which gets ready to go on from what was saved after round `since`."""
        self.since, self.up = since, False
        self.pipe, its = SPAWN.Pipe()
        self.process: Any = SPAWN.Process(target=live, args=(its, self.plan, self.k, since), daemon=True)
        self.process.start()
        its.close()

    def join(self, needed: bool) -> None:
        """Waits until the process is ready, and has it take part from this round on; not if it has died."""
        self.up = bool(self.hear(needed))
        if self.up:
            self.send(self.t)

    def before(self, t: int) -> None:
        """Kills the process, or lets the next one join, if it is time in round t."""
        self.t = t
        if self.up and self.stops <= t < self.back:
            self.hear()  # when it says this, it has been saved
            self.replace(f"killed process {self.process.pid} in round {t}", t - 1)
        if not self.up:
            self.stand_in(t - 1)
            crashed, over = t == self.back - 1, t > self.plan.last
            if crashed or over or (self.plan.go_on and self.pipe.poll()):
                self.join(needed=over)
            if self.up and not over:
                process.say(f"worker {self.k}: process {self.process.pid} is back in round {t + crashed}")

    def replace(self, why: str, since: int) -> None:
        """Ends the process, if it has not ended, and begins another."""
        self.process.kill()
        self.process.join()
        process.say(f"worker {self.k}: {why}")
        self.begin(since)
        w = load(self.plan.folder, np.array([self.k]), since)[0].W[0]
        self.last_words = peers.addressed({self.k: w}, self.plan.hears.models)
        self.stand_in(self.t - 1)

    def stand_in(self, t: int) -> None:
        """Saves once more what was saved last, if that is due after round t."""
        if t > self.since and self.plan.due(t):
            before, now = (file_of(self.plan.folder, self.k, r) for r in (self.since, t))
            write(now, before.read_bytes())

    def talk(self, exchange: peers.Exchange, mail: peers.Mail) -> peers.Mail:
        """An exchange of the rank, in which the child speaks and listens."""
        said = self.hear() if self.up else None
        return self.listen(exchange, mail | (said or self.last_words))

    def listen(self, exchange: peers.Exchange, mail: peers.Mail) -> peers.Mail:
        """An exchange of the rank, in which the child listens."""
        heard = exchange(mail)
        if self.up:
            self.send({pair: w for pair, w in heard.items() if pair[1] == self.k})
        return {pair: w for pair, w in heard.items() if pair[1] != self.k}

    def send(self, what: Any) -> None:
        """Tells the process something, if it is not dead, which `hear` finds out."""
        with contextlib.suppress(ConnectionError):
            self.pipe.send(what)

    def hear(self, needed: bool = False) -> Any:
        """What the process says next; if it has died None, or ChildProcessError if nobody can go on."""
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionError):
            if needed or not self.plan.go_on:
                what = f"the process of worker {self.k} has died"
                raise ChildProcessError(f"{what}; the same command goes on from the last checkpoint") from None
        since = max(t for t in saved(self.plan.folder, self.k) if t < self.t)
        died = f"process {self.process.pid} has died in round {self.t}"
        self.replace(f"{died}, another goes back to round {since}", since)
        return None

    def end(self) -> Found:
        """What it has found in the end, or if it has died, what the next one has."""
        if found := self.hear():
            return found
        self.join(needed=True)
        return self.hear(needed=True)


def marked(
    exchange: peers.Exchange, children: list[Child], attackers: np.ndarray, mail: peers.Mail
) -> peers.Mail:
    """An exchange with a number behind each model: 0 if its sender is down, and only attackers hear it."""
    down = {child.k for child in children if not child.up}
    heard = exchange({(k, to): np.append(w, k not in down) for (k, to), w in mail.items()})
    return {(k, to): w[:-1] for (k, to), w in heard.items() if w[-1] or to in attackers}


# --- A run --------------------------------------------------------------------------------------------------


Share = tuple[list[np.ndarray], Own, Plan]


def prepare(comm: Any, config: Config, args: Namespace) -> Share:
    """The workers of each rank, what this rank has itself, without those in other processes, and what all know.

    If any rank cannot, all of them raise ValueError with the reason of the first.
    """
    reason = ""
    try:
        parts = peers.deal(config.workers, comm.size)
        whole, here = prepared(config, args.data_dir), parts[comm.rank]
        crash = np.flatnonzero(whole.faults.down[:, 1]) if whole.faults else here[:0]
        own = own_share(whole, np.setdiff1d(here, whole.setting.normal if args.go_on else crash))
        folder = grid.path_of(config, args.out, args.data_dir).with_suffix(f".hear-{args.hear}")
        every, last = max(args.checkpoint, config.workers), whole.rounds
        hears = peers.channels(own.setting, args.hear)
        plan = Plan(config, args.data_dir, hears, folder, every, last, args.go_on)
        folder.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        reason = str(error)
    if reasons := list(filter(None, comm.allgather(reason))):
        raise ValueError(reasons[0])
    return parts, own, plan


def run(comm: Any, share: Share, timeout: float) -> None:
    """Trains from the last checkpoint that all ranks have, and reports."""
    parts, own, plan = share
    here = parts[comm.rank]
    done = comm.allgather(set.intersection(*(usable(plan.folder, k) for k in here)))
    first, last = max(set.intersection(*done), default=0), plan.last
    W = np.pad(own.W, ((0, 0), (0, int(plan.go_on))))  # a number more, see `marked`
    channels = open_channels(comm, own.setting, plan.hears, parts, W, timeout)
    say(comm, f"{plan.config.workers} workers on {several(comm.size, 'rank')}, round {first} of {last}")
    down = own.faults.down if own.faults else np.zeros((plan.config.workers, 2), int)
    children = [Child(plan, k, down[k], first) for k in np.setdiff1d(here, own.workers)]
    models, lies = list[peers.Exchange](channels)
    if plan.go_on:
        models, lies = (partial(marked, channel, children, own.setting.attackers) for channel in channels)
    for child in children:
        models, lies = partial(child.talk, models), partial(child.listen, lies)
        child.join(needed=True)
    start = time.perf_counter()
    try:
        for state in rounds(plan, own, first, first, [models, lies]):
            if state.t > first and plan.due(state.t):
                say(comm, f"round {state.t} of {last}")
            for child in children:
                child.before(state.t + 1)
    except LostError as lost:
        give_up(comm, state.t + 1, timeout, {p: parts[p] for p in lost.args})
    seconds = time.perf_counter() - start
    ends = [evaluate(own, state), *(child.end() for child in children)]
    report(comm, share, ends, cost(channels, seconds, last - first) if first < last else [])
    say(comm, f"the models are in {plan.folder}")


def give_up(comm: Any, t: int, timeout: float, lost: dict[int, np.ndarray]) -> None:
    """Ends all ranks, with a line that says which are lost."""
    names = ", ".join(f"rank {p} (worker {' '.join(map(str, workers))})" for p, workers in lost.items())
    about = f"rank {comm.rank} has heard nothing from {names} for {timeout:g} s, in round {t}"
    print(
        f"mpi_peers.py: {about}; the same command goes on from the last checkpoint", file=sys.stderr, flush=True
    )
    comm.Abort(3)


def cost(channels: list[Channel], seconds: float, rounds: int) -> list[float]:
    """The cost of one of the rounds: bytes sent; milliseconds that this rank computed, exchanged and waited."""
    totals = [(c.bytes, 1000 * c.exchanging, 1000 * c.waiting) for c in channels]
    sent, exchanging, waiting = (sum(column) / rounds for column in zip(*totals, strict=True))
    return [sent, 1000 * seconds / rounds - exchanging - waiting, exchanging, waiting]


def report(comm: Any, share: Share, found: list[Found], costs: list[float]) -> None:
    """Rank 0 prints what all have found; `costs` are empty if no round was left to do."""
    gathered = comm.gather((found, costs))
    if comm.rank:
        return
    parts, own, plan = share
    config = plan.config
    found_by, costs_of = zip(*gathered, strict=True)
    scores, too_few = zip(*itertools.chain(*found_by), strict=True)
    accuracy, loss = zip(*itertools.chain(*scores), strict=True)
    print(f"{TASKS[config.task].title}: {config.rule} against {config.attack}, {config.workers} workers")
    print(f"own test accuracy: worst {min(accuracy):.4f}, mean {np.mean(accuracy):.4f}")
    print(f"training loss: highest {max(loss):.4f}, mean {np.mean(loss):.4f}")
    if own.faults or plan.go_on:
        how_often = f"{sum(too_few)} of {len(own.setting.normal) * plan.last} times"
        print(f"normal workers kept their own models, as too few others arrived: {how_often}")
    if not costs:
        return
    print("\nA round of each rank, and d (|N_k| - 1) itemsize, which one worker a rank should send")
    print("rank  workers  bytes sent  should send  compute ms  exchange ms  waiting ms")
    neighbours = own.setting.graph.sum(axis=1) - 1
    for p, (workers, numbers) in enumerate(zip(parts, costs_of, strict=True)):
        sent, computing, exchanging, waiting = numbers
        should = neighbours[workers].sum() * own.W.shape[1] * own.W.itemsize
        times = f"{computing:12.3f}{exchanging:13.3f}{waiting:12.3f}"
        print(f"{p:4}{len(workers):9}{sent:12.0f}{should:13}{times}")


def say(comm: Any, line: str) -> None:
    """Prints a line on standard error, on rank 0 only."""
    if comm.rank == 0:
        print(line, file=sys.stderr, flush=True)


# --- The command line ---------------------------------------------------------------------------------------


def parser(argv: list[str] | None) -> Parser:
    """The options, with the defaults of the task that is asked for."""
    p = Parser(prog="mpi_peers.py", description=__doc__, formatter_class=HelpFormatter, add_help=False)
    one: dict[str, Any] = {"nargs": 1}
    choice(p, "--task", TASKS, "what is learned", default="spambase", dest="dataset")
    choice(p, "--rule", RULES, "how models are combined", default=["adaptive"], dest="rules", **one)
    choice(p, "--attack", ATTACKS, "what attackers send", default=["none"], dest="attacks", **one)
    add = p.add_argument
    add("--seed", type=whole_number(0), default=[0], dest="seeds", metavar="K", help="of all draws", **one)
    epoch = "how many; one is as many rounds as the workers together need to read as many rows as they hold"
    add("--epochs", type=whole_number(1), metavar="T", help=epoch)
    network(p.add_argument_group("the network of workers"))
    hear = "whom attackers listen to if their attack takes models of others: all, or as the graph says"
    choice(p, "--hear", peers.HEAR, hear, default="all")
    learning(p.add_argument_group("learning"))
    add = p.add_argument_group("the machine").add_argument
    add("--timeout", type=number(), default=60.0, metavar="S", help="seconds to wait for neighbours")
    add("--checkpoint", type=whole_number(1), default=100, metavar="T", help="in how many rounds; N or more")
    go_on = "without a normal worker whose process dies, until another is back from its checkpoint"
    add("--go-on", action="store_true", help=go_on)
    add("--out", type=folder, default=Path("results/peers"), metavar="FOLDER", help="for the models")
    add("--data-dir", metavar="FOLDER", help="with the data (as shipped, or fetched once)")
    task = p.parse_known_args(argv)[0].dataset
    add("-h", "--help", action="help", help="this text")  # with the defaults of the task
    p.set_defaults(plain=True, **TASKS[task].defaults | {"rules": ["adaptive"], "attacks": ["none"]})
    return p


def main(argv: list[str] | None = None) -> int:
    """The exit status."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: it finds no MPI
        print(f"mpi_peers.py needs mpi4py and an MPI, pip install '.[mpi]': {error}", file=sys.stderr)
        return 2
    comm = MPI.COMM_WORLD
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.ExitStack() as stack:
        if comm.rank:  # what is wrong with the options need be said only once
            stack.enter_context(contextlib.redirect_stderr(nowhere))
            stack.enter_context(contextlib.redirect_stdout(nowhere))
        p = parser(argv)
        args = p.parse_args(argv)
        try:
            (config,) = cli.configs(args.dataset, args)
        except (ValueError, OSError) as error:
            p.error(str(error))
        if config.released or args.protocol != "paper":
            p.error("--released: peers do as the paper says, and nothing else")
        if args.go_on and (config.late or config.crash):
            p.error("--go-on: not with --late or --crash")
    try:
        share = prepare(comm, config, args)
    except ValueError as error:
        say(comm, f"mpi_peers.py: {error}")
        return 2
    try:
        with threadpool_limits(1):  # as a run in one process has it
            run(comm, share, args.timeout)
    except OSError as error:
        process.say(f"mpi_peers.py: {process.reason(error)}")
        comm.Abort(1)  # or the others would wait for us
    except Exception:
        traceback.print_exc()
        comm.Abort(1)
    return 0


if __name__ == "__main__":
    sys.exit(process.ended(main))
