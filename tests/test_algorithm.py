"""Algorithm 1 against the scalar loops of oracles.py: small ragged data on any graph, then Spambase."""

import functools
import itertools

import numpy as np
import oracle_layers
import oracles
import pytest
from numpy.testing import assert_allclose
from test_train import GRAPHS, SIZES, after, initial, setting

from refimpl import aggregate, attacks, cli, draws, experiment, models


def drawn(s, d, seed):
    """The oracle's draws: per round the row numbers of all workers, and the attackers' signals by worker."""
    sizes = s.data.sizes()
    per_epoch = draws.rounds_per_epoch(sizes, s.batch_size)
    batch_rng, attack_rng = draws.stream(seed, "batches"), draws.stream(seed, "attack")
    while True:
        for rows in draws.batches(sizes, s.batch_size, per_epoch, batch_rng):
            signals = (
                draws.signals(len(s.attackers), d, attack_rng).tolist() if s.attack == "arbitrary" else None
            )
            by_worker = {int(k): signals and signals[i] for i, k in enumerate(s.attackers)}
            yield rows.tolist(), by_worker


def oracle_rounds(s, W, count, shapes, seed=0):
    """W after `count` rounds of the scalar Algorithm 1 on the same draws."""
    rounds = oracles.algorithm_1(
        W.tolist(),
        [(s.data.X[k, :n].tolist(), s.data.y[k, :n].tolist()) for k, n in enumerate(s.data.sizes())],
        drawn(s, W.shape[1], seed),
        [np.flatnonzero(row).tolist() for row in s.graph],
        s.attackers.tolist(),
        shapes,
        **{name: getattr(s, name) for name in ("rule", "attack", "lr", "optimizer", "risk", "smoothing")},
    )
    return next(itertools.islice(rounds, count - 1, None))


def check_small(**options):
    s = setting(**options)
    expected = oracle_rounds(s, initial(), 4, oracle_layers.mlp_shapes(SIZES))
    assert_allclose(after(s, 4).state.W, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("attack", attacks.ATTACKS)
@pytest.mark.parametrize("rule", aggregate.NAMES)
def test_rounds_equal_the_scalar_algorithm_on_the_complete_graph(rule, attack):
    check_small(rule=rule, attack=attack, attackers=[1, 4])


@pytest.mark.parametrize("graph", ["ring", "a star and a path"])
@pytest.mark.parametrize("rule", ["adaptive", "inverse-risk", "median", "medoid", "average"])
def test_rounds_equal_the_scalar_algorithm_on_sparse_graphs(rule, graph):
    check_small(rule=rule, attack="sign-flip", graph=GRAPHS[graph])


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("smoothing", [1.0, 0.25])
@pytest.mark.parametrize("risk", ["local", "batch"])
@pytest.mark.parametrize("rule", ["adaptive", "inverse-risk"])
def test_rounds_equal_the_scalar_algorithm_with_every_option(rule, risk, smoothing, optimizer):
    graph = GRAPHS["a star and a path"]
    check_small(
        rule=rule, risk=risk, smoothing=smoothing, optimizer=optimizer, graph=graph, lr=0.05, attack="sign-flip"
    )


# --- Spambase -----------------------------------------------------------------------------------------------

ROWS, HIDDEN = (
    12,
    4,
)  # of each worker's data, and of the network: loops in Python take their time


@functools.cache
def spambase_setting():
    """The example's own setting: 10 workers, non-uniform data, 3 attackers, SGD 0.01, cut to 12 rows a worker
    and to 4 hidden units. All 57 features. The full size is compared with torch, in test_torch.py."""
    arguments = cli.parser("spambase").parse_args(["--rules", "adaptive", "--attacks", "alie"])
    s, _ = experiment.build(cli.configs("spambase", arguments)[0])
    data = s.data._replace(X=s.data.X[:, :ROWS], y=s.data.y[:, :ROWS])
    model = models.mlp([57, HIDDEN, 2])
    return s._replace(data=data, model=model, batch_size=5), draws.initial(
        model.layout, 10, draws.stream(0, "init")
    )


@pytest.mark.parametrize("attack", attacks.ATTACKS)
@pytest.mark.parametrize("rule", aggregate.NAMES)
def test_twenty_rounds_of_spambase_equal_the_scalar_algorithm(rule, attack):
    s, W = spambase_setting()
    s = s._replace(rule=rule, attack=attack, attackers=s.attackers if attack != "none" else s.attackers[:0])
    expected = oracle_rounds(s, W, 20, oracle_layers.mlp_shapes([57, HIDDEN, 2]))
    assert_allclose(after(s, 20, W).state.W, expected, rtol=1e-9, atol=1e-9)
