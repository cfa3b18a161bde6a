"""Small settings for the tests of Algorithm 1: seven workers with ragged data and a small network."""

import contextlib
import itertools
from unittest import mock

import numpy as np
import oracles

from refimpl import draws, graphs, models, train
from refimpl.algorithm import Setting
from refimpl.attacks import ATTACKS, Attack, View

PAPERS = list(oracles.ATTACKS)  # the paper's attacks; those of other papers: test_related_attacks.py
SIZES = (3, 4, 2)
ROWS = [7, 4, 9, 5, 8, 4, 6]  # ragged on purpose, and fewer than a batch
MODEL = models.mlp(SIZES)
GRAPHS = {
    "complete": graphs.complete(7),
    "ring": graphs.ring(7),
    "a star and a path": graphs.from_edges(7, [(0, k) for k in range(1, 5)] + [(4, 5), (5, 6)]),
}


def local_data(rows=ROWS, seed=0):
    """One (X, y) per worker; the classes lie apart by a different direction for each."""
    rng = np.random.default_rng(seed)
    data = []
    for n in rows:
        y = rng.integers(0, 2, n)
        data.append((rng.normal(size=(n, 3)) + 2 * y[:, None] * rng.normal(size=3), y))
    return data


def apart(data):
    """The X and y of a setting."""
    return [X for X, _ in data], [y for _, y in data]


def held_out(data, rows=3):
    """Each worker's last rows once more, as its test split."""
    X, y = (np.concatenate([own[i][-rows:] for own in data]) for i in (0, 1))
    return train.HeldOut(X, y, np.repeat(np.arange(len(data)), rows) == np.arange(len(data))[:, None])


def setting(rows=ROWS, graph=None, attackers=(1,), **options):
    """A setting on `local_data(rows)`, on the complete graph unless told otherwise."""
    graph = graphs.complete(len(rows)) if graph is None else graph
    options = {"step_size": 0.3, "batch_size": 5} | options
    return Setting(MODEL, *apart(local_data(rows)), graph, np.array(attackers, dtype=int), **options)


def cast(s, dtype):
    """The setting with samples of this type."""
    return s._replace(X=[X.astype(dtype) for X in s.X])


def diminishing(k, t):
    """Step sizes of each worker's own, smaller from round to round."""
    return 0.1 * (1 + k) / (4 + t)


def initial(N=7, seed=0):
    return draws.initial(MODEL.layout, N, draws.stream(seed, "init"))


def after(s, count, W=None, seed=0, engine=train.plain):
    """The last of `count` rounds."""
    rounds = train.rounds(s, initial(len(s.graph)) if W is None else W, seed, engine)
    return next(itertools.islice(rounds, count - 1, None))


def run(s, epochs, seed=0, engine=train.plain):
    """`train.run` from `initial`, tested on some of the training data."""
    N = len(s.graph)
    test = held_out(list(zip(s.X, s.y)))
    return train.run(s, test, initial(N).astype(s.X[0].dtype), seed, epochs, engine)


@contextlib.contextmanager
def sends(message, **more):
    """Puts the function (own, honest, signals) -> what the attackers send into ATTACKS, as "hostile"."""
    with mock.patch.dict(ATTACKS, {"hostile": Attack(message, "a test's own", "-", **more)}):
        yield "hostile"


# --- The scalar Algorithm 1 on the same draws ---------------------------------------------------------------


def drawn(s, d, seed):
    """The oracle's draws: per round the row numbers of all workers, and the attackers' signals by worker."""
    sizes = train.sizes(s)
    per_epoch = draws.rounds_per_epoch(sizes, s.batch_size)
    batch_rng, attack_rng = draws.stream(seed, "batches"), draws.stream(seed, "attack")
    while True:
        for rows in draws.batches(sizes, s.batch_size, per_epoch, batch_rng):
            signals = (
                draws.signals(len(s.attackers), d, attack_rng).tolist() if s.attack == "arbitrary" else None
            )
            by_worker = {int(k): signals and signals[i] for i, k in enumerate(s.attackers)}
            yield rows.tolist(), by_worker


def oracle_rounds(s, W, count, shapes, seed=0, smoothing=1.0):
    """W after `count` rounds of oracles.algorithm_1."""
    options = ("rule", "attack", "step_size", "l2", "optimizer", "risk")
    rounds = oracles.algorithm_1(
        W.tolist(),
        [(X.tolist(), y.tolist()) for X, y in zip(s.X, s.y)],
        drawn(s, W.shape[1], seed),
        [np.flatnonzero(row).tolist() for row in s.graph],
        s.attackers.tolist(),
        shapes,
        **{name: getattr(s, name) for name in options},
        smoothing=smoothing,
    )
    return next(itertools.islice(rounds, count - 1, None))


def sent_by(attack, own, honest, signals):
    """What an attack that knows no more than these models and its draw sends."""
    return attack.made_from(View(None, None, None, own, honest, None, signals))
