"""examples/mpi_peers.py: what a rank keeps and saves, and runs by MPI where it is installed."""

import contextlib
import importlib.util
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from argparse import Namespace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from problems import initial, setting
from test_peers import cases

from refimpl import algorithm, faults, peers, train
from refimpl.experiments import tasks
from refimpl.experiments.run import compute, prepare

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "mpi_peers.py"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    return importlib.import_module("mpi_peers")


def config(**changes):
    fixed = {"task": "spambase", "rule": "adaptive", "attack": "alie", "seed": 0, "graph": "complete"}
    return tasks.Config(**fixed | tasks.TASKS["spambase"].defaults | {"epochs": 1, "plain": True} | changes)


def test_a_rank_keeps_its_own_rows_and_frees_the_rest(example):
    prepare(config())  # imports what is imported on demand
    tasks.forget()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        own = example.own_share(prepare(config()), np.array([3]))
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    whole = tasks.build(config())[0]
    np.testing.assert_array_equal(own.setting.X[3], whole.X[3])
    arrays = [*own.setting.X, *own.setting.y, own.W, *(X for X, _ in own.tests)]
    needed = sum(array.nbytes for array in arrays)
    assert needed < kept < 1.2 * needed
    assert kept < sum(X.nbytes for X in whole.X) / 5


def test_a_checkpoint_is_read_back_and_the_last_but_one_is_kept(example, tmp_path):
    """Of the last one, at the end of a run, somebody else may be up to N rounds away: two more are kept."""
    s, workers, W = setting(optimizer="adam"), np.array([2, 5]), initial()
    start = peers.start(s, W[workers])
    states = [peers.Ours(start.W + t, start.memory - t, t, np.array([t, 0])) for t in (10, 20, 30, 35)]
    for state, kept in zip(states, ({10}, {10, 20}, {20, 30}, {20, 30, 35})):
        late = {(1, 5): state.W[0], (10, 2): state.W[1], (0, 1): W[0]}
        example.save(tmp_path, workers, state, late, every=10)
        assert example.saved(tmp_path, 2) == example.saved(tmp_path, 5) == kept
    for state in states[1:]:
        read, held = example.load(tmp_path, workers, state.t)
        for a, b in zip(read, state, strict=True):
            np.testing.assert_array_equal(a, b)
        assert held.keys() == {(1, 5), (10, 2)}  # for these two
        np.testing.assert_array_equal([held[1, 5], held[10, 2]], state.W)


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"PK"])
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_is_used(example, tmp_path, capsys, damage):
    s, workers = setting(), np.array([2, 5])
    for t in (10, 20):
        state = peers.start(s, initial()[workers])._replace(t=t)
        example.save(tmp_path, workers, state, {}, every=10)
    (tmp_path / "worker2_roundabout.npz").write_text("no checkpoint", encoding="utf-8")
    path = tmp_path / "worker5_round20.npz"
    path.write_bytes(damage(path.read_bytes()))
    assert [example.usable(tmp_path, k) for k in workers] == [{10, 20}, {10}]
    said = capsys.readouterr().err
    assert said.startswith(f"{path} is not used (")
    assert said.endswith("); now worker5_round20.npz.1.aside\n")
    assert said.count("\n") == 1
    assert example.usable(tmp_path, 5) == {10}


def test_without_mpi4py_there_is_one_line(example, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    assert example.main([]) == 2
    said = capsys.readouterr().err
    assert "pip install '.[mpi]'" in said
    assert said.count("\n") == 1


def test_the_help_has_the_defaults_of_the_task(example, capsys):
    asked = ["--task", "har", "--help"]
    with pytest.raises(SystemExit):
        example.parser(asked).parse_args(asked)
    said = capsys.readouterr().out
    assert "how many workers (30)" in said


def test_what_was_saved_stands_for_a_worker_that_has_died(example, tmp_path, capsys):
    """It dies before it has been saved, and so does its successor; of the last one it is the end."""
    whole, sent = prepare(config()), []
    plan = example.Plan(config(), None, peers.channels(whole.setting), tmp_path, every=10, last=20, go_on=True)
    own = example.own_share(whole, np.array([0]))
    child = example.Child(plan, 0, np.zeros(2, int), 0)
    child.join(needed=True)
    assert child.hear().keys() == {(0, to) for to in range(1, 10)}
    first = ended(child.process)
    child.before(2)
    assert child.talk(lambda mail: sent.append(mail) or {(4, 2): own.W[0]}, {}).keys() == {(4, 2)}
    assert not child.up
    assert sent[0].keys() == {(0, to) for to in range(1, 10)}
    np.testing.assert_array_equal(list(sent[0].values()), own.W.repeat(9, axis=0))
    child.pipe.poll(None)  # it is ready
    child.before(11)
    assert child.hear().keys() == sent[0].keys()
    second = ended(child.process)
    child.before(21)
    assert child.end() == example.evaluate(own, peers.start(own.setting, own.W))
    for t in (0, 10, 20):
        np.testing.assert_array_equal(example.load(tmp_path, own.workers, t)[0].W, own.W)
    with pytest.raises(ChildProcessError, match="the process of worker 0 has died; the same command goes on"):
        child.hear(needed=True)
    assert capsys.readouterr().err.splitlines() == [
        f"worker 0: process {first} has died in round 2, another goes back to round 0",
        f"worker 0: process {second} is back in round 11",
        f"worker 0: process {second} has died in round 21, another goes back to round 10",
    ]


def ended(process):
    """Kills a process: its number."""
    process.kill()
    process.join()
    return process.pid


def test_only_attackers_hear_what_a_dead_worker_is_said_to_send(example):
    dead, alive = Namespace(k=3, up=False), Namespace(k=4, up=True)
    mail = {(k, to): np.array([k, np.nan], "float32") for k in (3, 4, 5) for to in (1, 2)}
    heard = example.marked(lambda marked: marked, [dead, alive], np.array([2]), mail)
    assert heard.keys() == mail.keys() - {(3, 1)}
    for pair, w in heard.items():
        assert w.dtype == "float32"
        np.testing.assert_array_equal(w, mail[pair])


# --- With MPI -----------------------------------------------------------------------------------------------

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
missing = importlib.util.find_spec("mpi4py") is None or MPIEXEC is None
needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="ranks are found in /proc")
needs_mpi = pytest.mark.skipif(missing, reason="mpi4py and mpiexec are in the extra 'mpi'")


def mpiexec(ranks, *command, options=()):
    """The command as that many ranks, on however few cores, and as root too."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    anywhere = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PYTHONPATH": path}
    anywhere |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    line = [MPIEXEC, *options, "-n", str(ranks), sys.executable, *map(str, command)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(line, env=os.environ | anywhere, **pipes)


def finished(process, seconds=240):
    """(exit status, output, errors)."""
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return process.returncode, out, err


def peers_command(out, *options):
    return [EXAMPLE, "--rule", "adaptive", "--attack", "alie", "--batch-size", "40", "--out", out, *options]


def models(out, workers=10):
    """The last saved models, (N, d), and after which round."""
    files = [max(out.glob(f"*/worker{k}_round*.npz"), key=round_of) for k in range(workers)]
    (t,) = {round_of(path) for path in files}
    return np.stack([np.load(path)["w"] for path in files]), t


def too_few(out):
    """How often normal workers had too few messages, of what the example prints."""
    return int(re.search(r"as too few others arrived: (\d+) of", out)[1])


def crashes(err):
    """Which processes were killed, and which came back, by worker: (number of the process, round)."""
    lines = (
        r"worker (\d+): killed process (\d+) in round (\d+)",
        r"worker (\d+): process (\d+) is back in round (\d+)",
    )
    return [{int(k): (int(pid), int(t)) for k, pid, t in re.findall(line, err)} for line in lines]


def round_of(path):
    return int(path.stem.partition("_round")[2])


def expected(**changes):
    c = config(batch_size=40, **changes)
    setting, test, W = tasks.build(c)
    return train.run(setting, test, W, c.seed, c.epochs, train.plain)


@needs_mpi
@pytest.mark.parametrize("ranks", [4, 10])
def test_ranks_compute_what_one_process_does(ranks):
    status, out, err = finished(mpiexec(ranks, ROOT / "tests" / "mpi_ranks.py"))
    assert status == 0, err
    assert out.splitlines() == [f"{len(list(cases())) + 1} cases on {ranks} ranks"]


@needs_mpi
def test_the_example_trains_spambase_and_counts_its_bytes(tmp_path):
    status, out, err = finished(mpiexec(10, *peers_command(tmp_path, "--epochs", "1")))
    assert status == 0, err
    result = expected()
    np.testing.assert_array_equal(models(tmp_path)[0], result.W)
    assert f"worst {result.history['worst_own'][-1]:.4f}, mean {result.history['mean_own'][-1]:.4f}" in out
    assert f"highest {result.history['highest_loss'][-1]:.4f}" in out
    table = [line.split() for line in out.partition("rank  workers")[2].splitlines()[1:]]
    assert [row[:4] for row in table] == [
        [str(p), "1", str(9 * 8 * 1202), str(9 * 8 * 1202)] for p in range(10)
    ]
    assert all(float(number) > 0 for row in table for number in row[4:])
    status, again, err = finished(mpiexec(4, *peers_command(tmp_path, "--epochs", "1")))
    assert status == 0, err
    assert again == out.partition("\nA round of each rank")[0]  # of what was done already, nothing is measured


@needs_mpi
@pytest.mark.parametrize("ranks", [4, 10])
@pytest.mark.parametrize("several", [{"loss": 0.1}, {"loss": 0.05, "late": 0.3, "crash": 3}])
def test_what_goes_wrong_between_ranks_is_what_does_in_one_process(tmp_path, ranks, several):
    options = itertools.chain(*((f"--{name}", value) for name, value in several.items()))
    command = peers_command(tmp_path, "--rule", "krum", "--epochs", "1", *options)
    status, out, err = finished(mpiexec(ranks, *command))
    assert status == 0, err
    whole = prepare(config(rule="krum", batch_size=40, **several))
    result = compute(whole)
    np.testing.assert_array_equal(models(tmp_path)[0], result.W)
    killed, begun = crashes(err)
    down = {k: times for k, times in enumerate(whole.faults.down.tolist()) if any(times)}
    assert {k: [killed[k][1], back] for k, (_, back) in begun.items()} == down
    assert len({pid for pid, _ in (*killed.values(), *begun.values())}) == 2 * several.get("crash", 0)
    assert 0 < too_few(out) == result.history["too_few"][-1] < 7 * whole.rounds


@needs_proc
@needs_mpi
@pytest.mark.parametrize(
    ("several", "more"), [({}, []), ({"rule": "krum", "late": 0.3, "crash": 5}, []), ({}, ["--go-on"])]
)
def test_a_rank_that_is_killed_ends_the_run_and_the_same_command_goes_on_to_the_same_bytes(
    tmp_path, several, more
):
    """With faults too: what is late, who is down, and what was counted is in the checkpoints."""
    options = itertools.chain(*((f"--{name}", value) for name, value in several.items()))
    command = peers_command(tmp_path, "--epochs", "12", "--checkpoint", "10", *options, *more)
    process = mpiexec(4, *command)
    while not list(tmp_path.glob("*/worker*_round20.npz")) and process.poll() is None:
        time.sleep(0.01)
    os.kill(ranks_of(process)[2], signal.SIGKILL)
    status, _, err = finished(process)
    assert status != 0
    assert "rank 2" in err  # by the launcher, or by us
    for path in tmp_path.glob("*/worker*_round*.npz"):
        if round_of(path) % 10:  # of a worker that is down, which also checkpoints after it is back let go
            path.unlink()
    status, out, err = finished(mpiexec(4, *command))
    assert status == 0, err
    first = int(re.search(r"round (\d+) of 120", err)[1])
    assert 10 <= first < 120
    W, t = models(tmp_path)
    assert t == 120
    result = compute(prepare(config(epochs=12, batch_size=40, **several)))
    np.testing.assert_array_equal(W, result.W)
    assert not several or too_few(out) == result.history["too_few"][-1]


def ranks_of(process):
    """The processes of the ranks, by rank."""
    found = {}
    for pid in children_of(process.pid):
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        rank = next((v for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK=")), None)
        if rank:
            found[int(rank.partition(b"=")[2])] = pid
    return found


def children_of(pid):
    """The processes that this one has started."""
    return [
        int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    ]


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def is_alive(pid):
    """Whether the process has not ended; a zombie has, and has no command line."""
    return bool(command_of(pid))


@needs_proc
@needs_mpi
def test_a_worker_that_is_killed_unasked_ends_the_run(tmp_path):
    """Those that were killed to crash did not, and are gone. The first that comes back is killed again."""
    command = peers_command(tmp_path, "--epochs", "30", "--crash", "7")
    err, begun = "", {}
    with mpiexec(4, *command) as process:
        while not begun and process.poll() is None:
            line = process.stderr.readline()
            killed, begun = crashes(line)
            assert not [pid for pid, _ in killed.values() if Path(f"/proc/{pid}").exists()]
            err += line
        ((k, (pid, _)),) = begun.items()
        os.kill(pid, signal.SIGKILL)
        err += process.stderr.read()
    assert process.returncode != 0
    assert k in crashes(err)[0]
    said = (
        f"mpi_peers.py: the process of worker {k} has died; the same command goes on from the last checkpoint\n"
    )
    assert said in err
    assert err.count("mpi_peers.py") == 1
    assert "Traceback" not in err


def workers_of(rank):
    """The processes of workers that a rank has started, of those that it has."""
    return {child for child in children_of(rank) if b"multiprocessing-fork" in command_of(child)}


DIED = r"worker (\d+): process (\d+) has died in round (\d+), another goes back to round (\d+)"
BACK = r"worker (\d+): process (\d+) is back in round (\d+)"


def read_until(process, pattern, said):
    """Reads what is said on standard error into `said` until a line matches: its groups, as numbers."""
    while not (found := re.search(pattern, said[-1] if said else "")):
        assert process.poll() is None, said
        said.append(process.stderr.readline())
    said.append("")
    return [int(number) for number in found.groups()]


def replayed(whole, said):
    """The models after each round of `faults.round_`, if workers die and are back as was `said`.

    Who dies is as if it had crashed, but falls back to what was saved of it.
    """
    deaths = []
    for i, line in enumerate(said):
        if found := re.search(DIED, line):
            k, _, t, since = map(int, found.groups())
            later = [list(map(int, m.groups())) for m in map(partial(re.search, BACK), said[i:]) if m]
            deaths.append((k, t, since, next((back for who, _, back in later if who == k), whole.rounds + 1)))
    nothing = faults.Faults(0, 0, np.zeros((len(whole.W), 2), int), 0)
    states = [algorithm.start(whole.setting, whole.W)]
    drawn = train.Draws(whole.setting, whole.W, whole.config.seed)
    for t, of_round in zip(range(1, whole.rounds + 1), drawn, strict=False):
        wrong = (whole.faults or nothing)._replace(down=nothing.down.copy())
        for k, first, since, back in deaths:
            if t == first:
                states[-1].W[k], states[-1].memory[:, k] = states[since].W[k], states[since].memory[:, k]
            if first <= t < back:
                wrong.down[k] = first, back
        states.append(faults.round_(whole.setting, wrong, states[-1], *of_round).state)
    return deaths, [state.W for state in states]


@needs_proc
@needs_mpi
@pytest.mark.parametrize("several", [{}, {"rule": "krum", "loss": 0.03, "optimizer": "adam"}])
def test_workers_that_die_come_back_while_the_others_go_on(tmp_path, several):
    """One is killed twice, as is another, whose second process is not yet ready. It is as in one process."""
    options = itertools.chain(*((f"--{name}", value) for name, value in several.items()))
    command = peers_command(tmp_path, "--epochs", "80", "--checkpoint", "10", "--go-on", *options)
    said = []
    with mpiexec(4, *command) as process:
        read_until(process, "round 20 of 800", said)
        ranks = ranks_of(process)
        seen = set.union(*map(workers_of, ranks.values()))
        assert len(seen) == 7
        twice = min(workers_of(ranks[1]))
        os.kill(twice, signal.SIGKILL)
        k, pid, _, _ = read_until(process, DIED, said)
        assert pid == twice
        _, pid, _ = read_until(process, rf"worker ({k}): process (\d+) is back in round (\d+)", said)
        seen.add(pid)
        os.kill(pid, signal.SIGKILL)
        other = min(workers_of(ranks[3]))
        os.kill(other, signal.SIGKILL)
        read_until(process, rf"process ({other}) has died", said)
        while not (successor := workers_of(ranks[3]) - seen):
            assert process.poll() is None
        os.kill(*successor, signal.SIGKILL)
        said += process.stderr.read().splitlines()
        out = process.stdout.read()
    assert process.returncode == 0, said
    assert not any(map(is_alive, seen | set(ranks.values())))
    whole = prepare(config(epochs=80, batch_size=40, **several))
    deaths, W = replayed(whole, said)
    assert len(deaths) == 4
    assert deaths[0][1] + 1 < deaths[0][3] <= 800  # nobody has waited
    made, t = models(tmp_path)
    assert t == 800
    np.testing.assert_array_equal(made, W[-1])
    status, again, err = finished(mpiexec(3, *command))
    assert status == 0, err
    assert again == out.partition("\nA round of each rank")[0]


@needs_proc
@needs_mpi
def test_the_same_command_goes_on_with_what_was_saved_of_a_worker_that_has_died(tmp_path):
    """The ranks end two checkpoints later, when it may still be down: it has a share in the first of them."""
    command = peers_command(tmp_path, "--epochs", "80", "--checkpoint", "10", "--go-on")
    said = []
    with mpiexec(4, *command) as process:
        read_until(process, "round 20 of 800", said)
        os.kill(min(workers_of(ranks_of(process)[1])), signal.SIGKILL)
        _, _, t, _ = read_until(process, DIED, said)
        read_until(process, rf"round {t // 10 * 10 + 20} of 800", said)
        os.kill(ranks_of(process)[2], signal.SIGKILL)
        process.stderr.read()
    assert process.returncode != 0
    status, _, err = finished(mpiexec(4, *command))
    assert status == 0, err
    assert int(re.search(r"round (\d+) of 800", err)[1]) > t
    made, t = models(tmp_path)
    assert t == 800
    assert np.isfinite(made).all()


@needs_proc
@needs_mpi
def test_a_worker_that_dies_before_the_first_round_ends_the_run(tmp_path):
    with mpiexec(4, *peers_command(tmp_path, "--epochs", "80", "--go-on")) as process:
        while not (workers := set().union(*map(workers_of, ranks_of(process).values()))):
            assert process.poll() is None
        os.kill(min(workers), signal.SIGKILL)
        _, err = process.communicate(timeout=240)
    assert process.returncode != 0
    assert re.search(r"mpi_peers.py: the process of worker \d has died; the same command goes on", err), err
    assert "Traceback" not in err


@needs_proc
@needs_mpi
def test_no_worker_outlives_its_rank(tmp_path):
    """If the launcher is killed the ranks end, and nobody is left to end their children."""
    with mpiexec(4, *peers_command(tmp_path, "--epochs", "100", "--crash", "7")) as process:
        while "killed process" not in process.stderr.readline():
            assert process.poll() is None
        workers = [child for rank in ranks_of(process).values() for child in children_of(rank)]
        process.kill()
    assert len(workers) >= 6
    deadline = time.monotonic() + 20
    while any(map(is_alive, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@needs_proc
@needs_mpi
def test_ranks_that_wait_in_vain_say_for_whom(tmp_path):
    """A rank that is stopped, not dead: no launcher notices."""
    process = mpiexec(4, *peers_command(tmp_path, "--epochs", "50", "--checkpoint", "10", "--timeout", "3"))
    while not list(tmp_path.glob("*/worker*_round10.npz")) and process.poll() is None:
        time.sleep(0.01)
    stopped = ranks_of(process)[2]
    os.kill(stopped, signal.SIGSTOP)
    start = time.monotonic()
    try:
        status, _, err = finished(process, 60)
    finally:
        with contextlib.suppress(ProcessLookupError):  # the launcher may have ended it
            os.kill(stopped, signal.SIGKILL)
    assert status != 0
    # Of rank 2, or of those that it holds up: who had heard from it in that round waits for these in the next.
    lost = r"rank \d \(worker [\d ]+\)"
    assert re.search(rf"rank [013] has heard nothing from {lost}(, {lost})* for 3 s, in round \d+", err)
    assert time.monotonic() - start < 30


@needs_mpi
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--workers", "3", "--attackers", "1"], "got 4 processes for 3 workers"),
        (["--rule", "krum", "--attackers", "4"], "krum needs n >= 2f + 3"),
        (["--rule", "mine"], "unknown name 'mine'"),
        (["--graph", "nosuch"], "unknown graph 'nosuch'"),
        (["--protocol", "released"], "--released: peers do as the paper says"),
        (["--crash", "8"], "needs as many normal workers as crash, got 8 for 7"),
        (["--go-on", "--crash", "1"], "--go-on: not with --late or --crash"),
        (["--go-on", "--late", "0.1"], "--go-on: not with --late or --crash"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(tmp_path, options, reason):
    status, out, err = finished(mpiexec(4, *peers_command(tmp_path, *options)))
    ours = [line for line in err.splitlines() if line.startswith("mpi_peers.py")]
    assert status == 2, err
    assert len(ours) == 1
    assert reason in ours[0]
    assert not out.strip()
    assert "Traceback" not in err
