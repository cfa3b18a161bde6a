"""The systems of refimpl.related: against scalar oracles, the identities between them, what they refuse."""

import importlib
import itertools
import json
from pathlib import Path

import numpy as np
import oracle_related as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import GRAPHS, MODEL, after, held_out, initial, local_data, sends, setting
from strategies import attacked, models

from refimpl import aggregate, algorithm, draws, graphs, related, train
from refimpl.arrays import module_of
from refimpl.attacks import ATTACKS
from refimpl.layout import layout
from refimpl.related import SYSTEMS, costs, mixing, resilient, rules, schedules

D = MODEL.layout.size
DENSE = graphs.complete(7)
DENSE[0, 3] = DENSE[3, 0] = DENSE[2, 6] = DENSE[6, 2] = False  # degrees 5 and 6, so weights differ
BAND = graphs.from_edges(7, [(k, (k + j) % 7) for k in range(7) for j in (1, 2)])
WHOLE = ("bulyan", "icwtm", "mda")  # need all seven
SCREENING = [
    *(
        "bridge-t",
        "bridge-m",
        "bridge-k",
        "bridge-b",
        "byrdie",
        "mozi",
        "ubar",
        "clipped-gossip",
        "icwtm",
        "mda",
    ),
    *(
        "clipped-gossip-adaptive",
        "clipped-gossip-oracle",
        "tv-penalty",
        "multi-task",
        "ios",
        "geometric-median",
    ),
    *("multi-krum", "bulyan"),
]


def graph_for(name):
    return graphs.complete(7) if name in WHOLE else DENSE


def mu(k, t):
    """A step size of each worker's own in every round."""
    return 0.4 * (1 + k) / (7 + t)


def run(name, count, s, W=None, schedule=None, **options):
    """The last of `count` rounds."""
    return after(s, count, W, engine=related.engine(name, schedule, **options))


def batches(s, count, seed=0):
    sizes, rng = train.sizes(s), draws.stream(seed, "batches")
    per_epoch = draws.rounds_per_epoch(sizes, s.batch_size)
    epochs = (draws.batches(sizes, s.batch_size, per_epoch, rng) for _ in itertools.count())
    return list(itertools.islice(itertools.chain.from_iterable(epochs), count))


# --- Against the oracles ------------------------------------------------------------------------------------


def net_of(s, t, batch, signals):
    """What the oracles know of round t."""
    data = [(s.X[k, batch[k]], s.y[k, batch[k]]) for k in range(7)]

    def say(rows, c=None):
        drawn = signals if signals is None or c is None else signals[:, c : c + 1]
        return algorithm.messages(s, np.array(rows), drawn).tolist()

    return oracle.Net(
        hears=[np.flatnonzero(row).tolist() for row in s.graph],
        normal=s.normal.tolist(),
        f=len(s.attackers),
        eta=lambda k: mu(k, t),
        grad=lambda k, w: (MODEL.gradient(np.array(w), *data[k]) + s.l2 * np.array(w)).tolist(),
        loss=lambda k, w: float(MODEL.risk(np.array(w), *data[k])) + s.l2 / 2 * sum(a * a for a in w),
        say=say,
        rows=train.sizes(s),
    )


def choco_oracle(share, gamma):
    def rounds(net, t, x, copies=None):
        zeros = [[0.0] * D for _ in x]
        return oracle.choco(net, x, copies or zeros, max(1, round(share * D)), gamma)

    return rounds


def clipping(radius):
    def rounds(net, t, x, m=None):
        return oracle.clipped_gossip(net, x, m or [[0.0] * D for _ in x], radius)

    return rounds


def by_rows(rule):
    def rounds(net, t, x):
        return (oracle.stepped_then(net, x, lambda k, got: rule([got[l] for l in net.hears[k]], net.f)),)

    return rounds


# (net, t, models, what it remembered) -> models and what it remembers
ORACLES = {
    "d-psgd": lambda net, t, x: (oracle.d_psgd(net, x),),
    "d-sgd": lambda net, t, x: (oracle.d_sgd(net, x),),
    "dmsgd": lambda net, t, x, before=None: oracle.dmsgd(net, x, before or x),
    "sgp": lambda net, t, z, x=None, u=None: oracle.sgp(net, z, x or z, u or [1.0] * 7),
    "choco": choco_oracle(0.01, 0.04),
    "choco-identity": choco_oracle(1.0, 1.0),
    "bridge-t": lambda net, t, x: (oracle.bridge(net, x, "T"),),
    "bridge-m": lambda net, t, x: (oracle.bridge(net, x, "M"),),
    "bridge-k": lambda net, t, x: (oracle.bridge(net, x, "K"),),
    "bridge-b": lambda net, t, x: (oracle.bridge(net, x, "B"),),
    "byrdie": lambda net, t, x: (oracle.byrdie(net, x),),
    "mozi": lambda net, t, x: (oracle.mozi(net, x),),
    "ubar": lambda net, t, x: (oracle.mozi(net, x, lowest_risk=True),),
    "clipped-gossip": clipping(1.0),
    "clipped-gossip-adaptive": clipping("adaptive"),
    "clipped-gossip-oracle": clipping("oracle"),
    "icwtm": lambda net, t, x: (oracle.learn(net, x, t, oracle.trimmed),),
    "mda": lambda net, t, x: (oracle.learn(net, x, t, oracle.smallest_diameter),),
    "tv-penalty": lambda net, t, x: (oracle.tv_penalty(net, x),),
    "multi-task": lambda net, t, x, L=None: oracle.multi_task(net, x, L or [[1.0] * 7 for _ in x]),
    "ios": lambda net, t, x: (oracle.ios(net, x),),
    "fedavg": lambda net, t, x: (oracle.fedavg(net, x),),
    "geometric-median": by_rows(lambda rows, f: oracle.weiszfeld(rows)),
    "multi-krum": by_rows(oracle.multi_krum),
    "bulyan": by_rows(oracle.bulyan),
}


def check_system(name, attack, rounds=4):
    s = setting(graph=graph_for(name), attackers=[1], attack=attack, step_size=mu, l2=0.01)
    results = train.rounds(s, initial(), 0, related.engine(name))
    x, remembered, rng = initial().tolist(), (), draws.stream(0, "attack")
    for t, (batch, result) in enumerate(zip(batches(s, rounds), results), start=1):
        signals = draws.signals(1, D, rng) if ATTACKS[attack].draw else None
        x, *remembered = ORACLES[name](net_of(s, t, batch, signals), t, x, *remembered)
        assert_allclose(result.state.W, x, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("attack", ["sign-flip", "arbitrary", "alie"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_equals_its_oracle(name, attack):
    check_system(name, attack)


@pytest.mark.parametrize("name", [name for name in SYSTEMS if name not in WHOLE and "bridge" not in name])
def test_a_system_equals_its_oracle_on_a_sparse_graph(name):
    """Where neighbourhoods differ, and one has no attacker."""
    s = setting(graph=BAND, attackers=[2], attack="foe", step_size=mu)
    first = run(name, 1, s)
    x, *_ = ORACLES[name](net_of(s, 1, batches(s, 1)[0], None), 1, initial().tolist())
    assert_allclose(first.state.W, x, rtol=1e-8, atol=1e-10)


def test_every_system_has_an_oracle():
    assert set(ORACLES) == set(SYSTEMS)


@pytest.mark.parametrize("letter", "TMKB")
def test_bridge_with_the_gradient_at_the_screened_model(letter):
    s = setting(graph=DENSE, attackers=[1], attack="sign-flip", step_size=mu)
    x = oracle.bridge(net_of(s, 1, batches(s, 1)[0], None), initial().tolist(), letter, mixed_gradient=True)
    assert_allclose(run(f"bridge-{letter.lower()}", 1, s, at="mixed").state.W, x, rtol=1e-9, atol=1e-12)


def test_byrdie_with_the_gradient_at_the_screened_value():
    s = setting(graph=DENSE, attackers=[1], attack="sign-flip", step_size=mu)
    x = oracle.byrdie(net_of(s, 1, batches(s, 1)[0], None), initial().tolist(), mixed_gradient=True)
    assert_allclose(run("byrdie", 1, s, at="mixed").state.W, x, rtol=1e-9, atol=1e-12)


def test_choco_in_the_order_of_the_paper():
    s, share = setting(graph=DENSE, attackers=[1], attack="alie", step_size=mu), 0.2
    x, copies = initial().tolist(), [[0.0] * D for _ in range(7)]
    results = train.rounds(
        s, initial(), 0, related.engine("choco", share=share, gamma=0.3, order="step-then-mix")
    )
    for t, (batch, result) in enumerate(zip(batches(s, 4), results), start=1):
        net = net_of(s, t, batch, None)
        x, copies = oracle.choco(net, x, copies, round(share * D), 0.3, authors=False)
        assert_allclose(result.state.W, x, rtol=1e-9, atol=1e-12)
        assert_allclose(result.state.memory[-1], copies, rtol=1e-9, atol=1e-12)


# --- Rules against the oracles ------------------------------------------------------------------------------


@given(models(least=3), st.integers(0, 2))
def test_rules_equal_the_oracle(W, f):
    rows = W.tolist()
    assert_allclose(rules.geometric_median(W), oracle.weiszfeld(rows), rtol=1e-7, atol=1e-6)
    if len(W) > 2 * f:
        assert_allclose(
            rules.minimum_diameter_average(W, f), oracle.smallest_diameter(rows, f), rtol=1e-9, atol=1e-9
        )
    if len(W) > 2 * f + 1:
        own = [oracle.keep_own_and_trim(c[0], c[1:], f) for c in zip(*rows)]
        assert_allclose(rules.own_trimmed_mean(W, 0, f), own, rtol=1e-9, atol=1e-9)


@given(attacked(lambda f: 3 * f + 3, most=2))
def test_multi_krum_and_bulyan_equal_the_oracle(given_):
    honest, W, f = given_
    if not np.isfinite(W).all() or np.abs(W).max() > 1e4 or len(np.unique(W, axis=0)) < len(W):
        W = np.concatenate([honest, honest[:f] + 0.5])
    W = W + np.random.default_rng(0).normal(size=W.shape)  # no ties
    assert_allclose(rules.multi_krum(W, f), oracle.multi_krum(W.tolist(), f), rtol=1e-9, atol=1e-9)
    assert_allclose(rules.bulyan(W, f), oracle.bulyan(W.tolist(), f), rtol=1e-9, atol=1e-9)


@given(attacked(lambda f: f + 2, most=2), st.data())
def test_the_trimmed_mean_that_keeps_its_own_stays_in_the_honest_hull(given_, data):
    """f attackers, whatever they send: 1e300, NaN, infinity."""
    honest, W, f = given_
    is_honest = [any(np.array_equal(row, h) for h in honest) for row in W]
    own = data.draw(st.sampled_from(np.flatnonzero(is_honest).tolist()))
    if len(W) - 1 < 2 * f + 1:
        return
    result = rules.own_trimmed_mean(W, own, f)
    room = 1e-9 * (1 + np.abs(honest).max())
    assert (result >= honest.min(axis=0) - room).all()
    assert (result <= honest.max(axis=0) + room).all()


@given(models(least=2))
def test_no_point_is_nearer_to_all_than_the_geometric_median(W):
    def total(z):
        return np.sqrt(((W - z) ** 2).sum(axis=1)).sum()

    z = rules.geometric_median(W, steps=3000, tolerance=1e-12)
    slack = 1e-3 * (1 + np.ptp(W))  # Weiszfeld is slow near a data point
    assert all(total(z) <= total(other) + slack for other in [*W, W.mean(axis=0), np.median(W, axis=0)])


def test_the_geometric_median_in_one_dimension_is_the_median():
    W = np.array([[1.0], [2.0], [10.0], [3.0], [100.0]])
    assert_allclose(rules.geometric_median(W, steps=2000), [3.0], atol=1e-3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_geometric_median_drops_what_is_not_finite(bad):
    W = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, bad], [0.0, 4.0]])
    assert_array_equal(rules.geometric_median(W), rules.geometric_median(W[[0, 1, 3]]))


def test_bulyan_takes_the_lower_of_two_as_near():
    """Without attackers it is the mean; with one, of five values the three nearest to the median."""
    W = np.array([[0.0], [1.0], [2.0], [4.0], [9.0], [100.0], [101.0]])
    assert_allclose(rules.bulyan(W, 0), W.mean(axis=0))
    assert_allclose(rules.bulyan(W, 1), [1.0])


def test_mda_takes_the_first_of_equal_subsets():
    W = np.array([[0.0], [1.0], [2.0]])  # {0, 1} and {1, 2} are as wide
    assert_array_equal(rules.minimum_diameter_average(W, 1), [0.5])


def test_scissor_by_hand():
    """100 goes first; without it the mean is 1.4, and 4 is farther from it than 0."""
    W, c = np.array([[0.0], [100.0], [4.0], [1.0], [2.0]]), np.full(5, 0.2)
    assert_allclose(rules.iterative_outlier_scissor(W, 3, c, 1), [7 / 4])
    assert_allclose(rules.iterative_outlier_scissor(W, 3, c, 2), [1.0])
    assert_allclose(rules.iterative_outlier_scissor(W, 1, c, 1), [(100 + 4 + 1 + 2) / 4])  # its own stays


def test_clip_by_hand():
    """A difference of length 5 is clipped to 1; one of length 0.5 stays."""
    W = np.array([[0.0, 0.0], [3.0, 4.0], [0.3, -0.4]])
    assert_allclose(rules.clipped_gossip(W, 0, np.array([0.5, 0.25, 0.25]), 1.0), [0.225, 0.1])
    assert_allclose(rules.clipped_gossip(W, 1, np.array([0.25, 0.5, 0.25]), 0.0), [3.0, 4.0])


def test_radii_by_hand():
    """Equal weights of 1/4, distances 1, 2 and 10, one attacker."""
    W, c = np.array([[0.0], [1.0], [-2.0], [10.0]]), np.full(4, 0.25)
    honest = np.array([True, True, True, False])
    assert rules.oracle_radius(W, 0, c, honest) == pytest.approx(5**0.5)
    assert rules.adaptive_radius(W, 0, c, 1) == pytest.approx(1.0)  # 3/4 is reached with -2: it is left out
    assert rules.oracle_radius(W, 0, c, honest | True) == np.inf
    assert rules.adaptive_radius(W, 0, c, 0) == np.inf


def test_mozi_by_hand():
    W, risks = np.array([[0.0], [1.0], [-2.0], [10.0]]), np.array([0.5, 0.7, 0.6, 0.1])
    assert_allclose(rules.mozi(W, 0, risks, 3), [5.0])  # only 10 is no worse
    assert_allclose(rules.mozi(W, 0, risks, 2), [0.5])  # not among the nearest: the nearest
    assert_allclose(rules.mozi(W, 0, risks, 2, empty="lowest-risk"), [-1.0])
    assert_allclose(rules.mozi(W, 0, np.array([0.5, 0.5, 0.6, 0.1]), 3), [5.5 / 2])  # as good is good enough
    assert_allclose(rules.mozi(W, 0, risks, 2, alpha=0.9), [0.1])


# --- Weights, compressor ------------------------------------------------------------------------------------


@given(st.integers(1, 8), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_metropolis_weights_are_symmetric_and_doubly_stochastic(n, p, seed):
    graph = graphs.erdos_renyi(n, p, np.random.default_rng(seed))
    W = related.metropolis_weights(graph)
    assert_array_equal(W, W.T)
    assert_allclose(W.sum(axis=0), 1, rtol=1e-12)
    assert_array_equal(W > 0, graph)
    assert_allclose(
        W, oracle.metropolis([np.flatnonzero(row).tolist() for row in graph]), rtol=1e-12, atol=1e-15
    )


def test_metropolis_weights_on_a_path_and_an_even_ring():
    """1/3 at both edges of the path; on the ring no eigenvalue is -1, as without the "+ 1"."""
    assert_allclose(
        related.metropolis_weights(graphs.from_edges(3, [(0, 1), (1, 2)])),
        [[2 / 3, 1 / 3, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1 / 3, 2 / 3]],
    )
    assert np.linalg.eigvalsh(related.metropolis_weights(graphs.ring(6))).min() == pytest.approx(-1 / 3)


def test_push_weights_share_out_what_is_sent():
    graph = schedules.one_way(graphs.complete(6), 0.5, np.random.default_rng(0))
    P = related.push_weights(graph)
    assert not np.array_equal(graph, graph.T)
    assert_allclose(P.sum(axis=0), 1)
    assert_array_equal(P > 0, graph)


def test_top_k_by_hand():
    x = np.array([1.0, -3.0, 2.0, -2.0, 0.5])
    assert_array_equal(mixing.top_k(x, 2), [0, -3, 2, 0, 0])  # of 2 and -2 the first
    assert_array_equal(mixing.top_k(x, 5), x)
    assert mixing.count_of(0.01, 26) == 1


# --- Identities ---------------------------------------------------------------------------------------------


def peaceful(graph=DENSE, **options):
    return setting(graph=graph, attackers=[], step_size=mu, **options)


def assert_same(a, b, rtol=1e-9):
    assert_allclose(a.state.W, b.state.W, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize(("order", "equal"), [("mix-and-step", "d-psgd"), ("step-then-mix", "d-sgd")])
def test_choco_without_compression_is_d_psgd(order, equal):
    s = peaceful()
    assert_same(run("choco-identity", 5, s, order=order, copies="models"), run(equal, 5, s))


def test_the_two_orders_of_d_psgd_differ():
    s = peaceful()
    assert not np.allclose(run("d-psgd", 1, s).state.W, run("d-sgd", 1, s).state.W, rtol=1e-3)


def test_dmsgd_without_momentum_is_d_psgd():
    s = peaceful()
    assert_same(run("dmsgd", 5, s, beta=0.0), run("d-psgd", 5, s))


def test_dmsgd_without_neighbours_is_heavy_ball():
    s = peaceful(np.eye(7, dtype=bool))
    before = W = initial()
    for t, batch in enumerate(batches(s, 4), start=1):
        G = np.stack([MODEL.gradient(W[k], s.X[k, batch[k]], s.y[k, batch[k]]) for k in range(7)])
        rates = np.array([[mu(k, t)] for k in range(7)])
        before, W = W, W - rates * G + 0.9 * (W - before)
    assert_allclose(run("dmsgd", 4, s).state.W, W, rtol=1e-9)


def test_sgp_on_a_regular_graph_is_step_then_mix():
    s = peaceful(BAND)
    result = run("sgp", 5, s)
    assert_same(result, run("d-sgd", 5, s))
    assert_allclose(result.state.memory[-1], 1, rtol=1e-12)


@pytest.mark.parametrize("name", ["exponential", "one-way:0.5"])
def test_push_sum_finds_the_mean_on_directed_graphs(name):
    """Without steps every model goes to the mean of the first ones; weights by in-degrees would miss it."""
    s = setting(attackers=[], step_size=0.0)
    result = run("sgp", 60, s, schedule=schedules.build(name, graphs.complete(7), 3))
    assert_allclose(result.state.W, np.broadcast_to(initial().mean(axis=0), (7, D)), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "name", ["d-psgd", "d-sgd", "ios", "multi-task", "clipped-gossip-adaptive", "tv-penalty"]
)
def test_alone_everyone_descends(name):
    s = peaceful(np.eye(7, dtype=bool))
    options = {"momentum": 0.0} if "clipped" in name else {}
    assert_same(run(name, 3, s, **options), after(s._replace(rule="local"), 3))


def test_a_mean_every_third_round_is_local_sgd():
    s = peaceful(graphs.complete(7))
    schedule = schedules.build("every:3", s.graph, 0)
    alone = after(s._replace(rule="local"), 3).state.W
    assert_allclose(run("d-sgd", 2, s, schedule=schedule).state.W, after(s._replace(rule="local"), 2).state.W)
    assert_allclose(
        run("d-sgd", 3, s, schedule=schedule).state.W, np.broadcast_to(alone.mean(axis=0), (7, D)), rtol=1e-9
    )
    assert_same(run("d-sgd", 3, s, schedule=schedules.build("every:1", s.graph, 0)), run("d-sgd", 3, s))


@pytest.mark.parametrize("name", ["clipped-gossip", "clipped-gossip-adaptive", "clipped-gossip-oracle"])
def test_nothing_is_clipped_without_a_radius_or_attackers(name):
    s, options = peaceful(), {"momentum": 0.0}
    if name == "clipped-gossip":
        options["radius"] = np.inf
    assert_same(run(name, 4, s, **options), run("d-sgd", 4, s))


def test_a_radius_of_zero_hears_nobody():
    s = peaceful()
    assert_same(run("clipped-gossip", 4, s, radius=0.0, momentum=0.0), after(s._replace(rule="local"), 4))


def test_fedavg_of_as_many_rows_is_the_average_on_a_complete_graph():
    s = setting(rows=[6] * 7, attackers=[1], attack="foe", step_size=mu)
    assert_same(run("fedavg", 4, s), after(s._replace(rule="average"), 4))


def test_multi_task_without_memory_is_the_papers_rule():
    s = setting(graph=DENSE, attackers=[1], attack="sign-flip", risk="batch", step_size=mu)
    result, papers = run("multi-task", 4, s, nu=1.0), after(s, 4)
    assert_same(result, papers)
    assert_allclose(result.weights, papers.weights, rtol=1e-9)


class Quadratic:
    """Its risk is the mean of |w - x|^2 / 2: separable."""

    layout = layout([("w", (3,), 1)])

    def risk(self, w, X, y):
        return (((w - X) ** 2).sum(axis=-1) / 2).mean()

    def gradient(self, w, X, y):
        return (w - X).mean(axis=0)

    def predict(self, w, X):
        return (X @ w > 0).astype(int)


@pytest.mark.parametrize("at", ["own", "mixed"])
def test_byrdie_of_a_separable_risk_is_bridge_t(at):
    s = setting(graph=DENSE, attackers=[1], attack="alie", step_size=mu)._replace(model=Quadratic())
    W = np.random.default_rng(0).normal(size=(7, 3))
    assert_same(run("byrdie", 4, s, W, at=at), run("bridge-t", 4, s, W, at=at))


@pytest.mark.parametrize("name", ["icwtm", "mda"])
def test_learning_without_attackers_averages_gradients_and_models(name):
    s, W = peaceful(graphs.complete(7)), initial()
    batch = batches(s, 1)[0]
    g = np.mean([MODEL.gradient(W[k], s.X[k, batch[k]], s.y[k, batch[k]]) for k in range(7)], axis=0)
    rates = np.mean([mu(k, 1) for k in range(7)])
    expected = np.broadcast_to(W.mean(axis=0) - rates * g, W.shape)
    assert_allclose(run(name, 1, s).state.W, expected, rtol=1e-9)


def test_agreement_takes_more_and_more_rounds():
    assert [resilient.agreement_rounds(t) for t in (1, 2, 3, 4, 5, 8, 9)] == [0, 1, 2, 2, 3, 3, 4]


@pytest.mark.parametrize(
    ("name", "equal"), [("ios", "d-sgd"), ("bulyan", "average"), ("bridge-t", None), ("geometric-median", None)]
)
def test_without_attackers(name, equal):
    """IOS drops nobody; Bulyan keeps all; BRIDGE-T takes the plain mean."""
    s = peaceful()
    if name == "geometric-median":  # of two models anything between, and of one that model
        s = peaceful(np.eye(7, dtype=bool))
        assert_same(run(name, 3, s), after(s._replace(rule="local"), 3))
    elif name == "bridge-t":
        G = np.stack(
            [
                MODEL.gradient(w, s.X[k, b], s.y[k, b])
                for k, (w, b) in enumerate(zip(initial(), batches(s, 1)[0]))
            ]
        )
        rates = np.array([[mu(k, 1)] for k in range(7)])
        assert_allclose(
            run(name, 1, s).state.W, related.uniform_weights(DENSE) @ initial() - rates * G, rtol=1e-9
        )
    else:
        assert_same(run(name, 3, s), run(equal, 3, s) if equal in SYSTEMS else after(s._replace(rule=equal), 3))


def test_the_penalty_pulls_by_its_size_and_no_more():
    s, W = setting(attackers=[1], attack="hostile", step_size=0.1), initial()
    with sends(lambda own, honest, signals: 0 * own + 1e300) as s_attack:
        far = run("tv-penalty", 1, s._replace(attack=s_attack), W, penalty=0.01).state.W
    none = run("tv-penalty", 1, s._replace(attack="none"), W, penalty=0.0).state.W
    assert np.abs(far - none)[s.normal].max() <= 0.1 * 0.01 * 6 + 1e-12
    assert_same(
        run("tv-penalty", 3, s._replace(attack="none"), W, penalty=0.0),
        after(s._replace(rule="local", attack="none"), 3),
    )


# --- Attackers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("name", SCREENING)
def test_who_screens_stays_finite(name, bad):
    s = setting(graph=graph_for(name), attackers=[4], attack="hostile")
    with sends(lambda own, honest, signals: 0 * own + bad):
        result = run(name, 3, s)
    assert np.isfinite(result.state.W).all()


@pytest.mark.parametrize("name", SYSTEMS)
def test_attackers_lie_about_everything_they_send_and_aggregate_nothing(name):
    s = setting(graph=graph_for(name), attackers=[4], attack="sign-flip", step_size=mu)
    result, W, batch = run(name, 1, s), initial(), batches(s, 1)[0]
    own = W[4] - mu(4, 1) * MODEL.gradient(W[4], s.X[4, batch[4]], s.y[4, batch[4]])
    if name != "byrdie":  # whose gradient moves with the coordinates
        assert_allclose(result.state.W[4], own, rtol=1e-9)
    honest = run(name, 1, s._replace(attack="none"))
    for lie, truth in zip(result.sent, honest.sent):
        if truth.shape == W.shape:
            assert_allclose(lie[4], -truth[4], rtol=1e-9, atol=1e-12)


# --- States, types, schedules, costs ------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_state_is_all_that_a_run_needs_to_go_on(name, optimizer):
    s = setting(graph=graph_for(name), attackers=[1], attack="sign-flip", optimizer=optimizer, step_size=0.01)
    rows = batches(s, 4)
    state, step = algorithm.start(s, initial()), related.engine(name)(s)
    for batch in rows:
        state = step(state, batch).state
    again = algorithm.start(s, initial())
    for batch in rows:
        kept = again.W.copy(), again.memory.copy()
        following = related.engine(name)(s)(again, batch).state  # a new engine for every round
        assert_array_equal(again.W, kept[0])  # inputs are never written to
        assert_array_equal(again.memory, kept[1])
        again = following
    assert_array_equal(again.W, state.W)
    assert_array_equal(again.memory, state.memory)
    assert again.t == 4


@pytest.mark.parametrize("name", SYSTEMS)
def test_float32_stays_float32(name):
    s = setting(graph=graph_for(name), attackers=[1], attack="sign-flip")
    single = s._replace(X=s.X.astype("float32"))
    result = run(name, 2, single, initial().astype("float32"))
    assert result.state.W.dtype == result.state.memory.dtype == np.float32
    assert_allclose(result.state.W, run(name, 2, s).state.W, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_on_another_array_module(name, xp):
    s = setting(graph=graph_for(name), attackers=[1], attack="alie", optimizer="adam", step_size=mu, l2=0.01)
    result = run(name, 3, s._replace(X=xp.asarray(s.X), y=xp.asarray(s.y)), xp.asarray(initial()))
    assert module_of(result.state.W) is module_of(result.state.memory) is xp
    assert_allclose(result.state.W.get(), run(name, 3, s).state.W, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_run_under_train(name):
    s = setting(graph=graph_for(name), attackers=[1], attack="alie", rule="local")
    result = train.run(s, held_out(local_data()), initial(), 0, 2, related.engine(name))
    assert len(result.history["mean_own"]) == 2
    assert (result.weights is not None) == (name == "multi-task")


def test_the_averages_of_multi_task_fit_any_number_of_parameters():
    """Seven averages a worker in slots of three numbers."""
    s = setting(attackers=[])._replace(model=Quadratic())
    result = run("multi-task", 2, s, np.random.default_rng(0).normal(size=(7, 3)), nu=0.5)
    assert result.state.memory.shape == (3, 7, 3)
    L = result.state.memory.swapaxes(0, 1).reshape(7, 9)
    assert (L[:, :7] > 0.25).all()  # a quarter of the 1 they began with is left
    assert not L[:, 7:].any()


@pytest.mark.parametrize("name", schedules.SCHEDULES)
def test_a_schedule_depends_on_seed_and_round_alone(name):
    graph = graphs.erdos_renyi(9, 0.6, np.random.default_rng(1))
    schedule, again = (schedules.build(name, graph, 5) for _ in range(2))
    later = [again(t) for t in (7, 3, 1)][::-1]
    assert_array_equal([schedule(t) for t in (1, 3, 7)], later)
    for A in later:
        assert A.diagonal().all()
        assert name == "exponential" or not (A & ~graph).any()


def test_schedules_are_what_they_say():
    graph = graphs.complete(8)
    thin = np.mean([schedules.build("thinned:0.3", graph, 0)(t) for t in range(1, 200)], axis=0)
    assert_allclose(thin[np.triu_indices(8, 1)].mean(), 0.3, atol=0.02)
    for t in range(1, 20):
        A = schedules.build("thinned:0.3", graph, 0)(t)
        assert_array_equal(A, A.T)
        pairs = schedules.build("matching", graph, 0)(t)
        assert_array_equal(pairs, pairs.T)
        assert (pairs.sum(axis=0) == 2).all()  # everyone with one other, of eight that all know each other
    one_way = schedules.build("one-way", graph, 0)(1)
    assert not np.array_equal(one_way, one_way.T)
    assert schedules.build("every:2", graph, 0)(3).sum() == 8
    assert schedules.build("every:2", graph, 0)(4).all()


def test_exponential_graphs_by_hand():
    one, two = (schedules.build(name, graphs.complete(6), 0) for name in ("exponential", "exponential:2"))
    for t, distance in enumerate([1, 2, 4, 1], start=1):
        assert_array_equal(np.argwhere(one(t) & ~np.eye(6, dtype=bool))[:, 0], [*range(6)])
        assert all(one(t)[(l + distance) % 6, l] for l in range(6))
    assert set(np.flatnonzero(two(1)[:, 0])) == {0, 1, 2}
    assert set(np.flatnonzero(two(2)[:, 0])) == {0, 3}  # 3 and 6, which is 0 itself


def test_bytes_by_hand():
    """26 parameters of 8 bytes; 7 workers with 40 edges' ends in all."""
    s = setting(graph=DENSE)
    ends = int(DENSE.sum()) - 7
    cost = {name: system.bytes(s, 5) * 7 / ends for name, system in SYSTEMS.items()}
    assert cost["d-psgd"] == pytest.approx(26 * 8)
    assert cost["dmsgd"] == pytest.approx(2 * 26 * 8)
    assert cost["sgp"] == pytest.approx(27 * 8)
    assert cost["choco"] == pytest.approx(8 + 4)
    assert cost["icwtm"] == pytest.approx(5 * 26 * 8)  # gradients, three more times, models
    assert SYSTEMS["fedavg"].bytes(s, 1) == 26 * 8
    assert SYSTEMS["d-psgd"].bytes(s._replace(X=s.X.astype("float32")), 1) * 7 / ends == pytest.approx(26 * 4)


@pytest.mark.parametrize("name", SYSTEMS)
def test_bytes_are_those_of_what_is_sent(name):
    s = setting(graph=graph_for(name), attackers=[])
    sent = run(name, 3, s).sent
    count = sum(np.count_nonzero(m) / 7 if name == "choco" else m.shape[-1] for m in sent)
    neighbours = 1 if name == "fedavg" else (s.graph.sum() - 7) / 7
    assert SYSTEMS[name].bytes(s, 3) == pytest.approx(count * neighbours * (12 if name == "choco" else 8))


# --- Refusals -----------------------------------------------------------------------------------------------

STAR = GRAPHS["a star and a path"]


@pytest.mark.parametrize(
    ("name", "graph", "message"),
    [
        ("bridge-t", "ring", "worker 0, with 2 neighbours: bridge-t needs 2f . 1 neighbours, got 2, f=1"),
        ("bridge-m", "star", "worker 2, with 1 neighbours: bridge-m needs"),
        ("bridge-k", "ring", "worker 0, with 2 neighbours: krum needs n >= 2f . 3"),
        (
            "bridge-b",
            "band",
            r"worker 0, with 4 neighbours: bridge-b needs max\(4f, 3f . 2\) neighbours, got 4",
        ),
        ("byrdie", "ring", "worker 0, with 2 neighbours: byrdie needs"),
        ("multi-krum", "ring", "worker 0, with 2 neighbours: krum needs"),
        ("bulyan", "dense", "worker 0, with 5 neighbours: bulyan needs n >= 4f . 3 models, got n=6, f=1"),
        ("icwtm", "dense", "icwtm: everyone must hear everyone, but worker 0 does not hear worker 3"),
        ("mda", "ring", "mda: everyone must hear everyone, but worker 0 does not hear worker 2"),
        ("icwtm", "crowd", "worker 0, with 6 neighbours: trimmed_mean needs n >= 2f . 1 models, got n=4, f=3"),
        ("mda", "crowd", "worker 0, with 6 neighbours: mda needs n >= 2f . 1 models, got n=4, f=3"),
        ("mozi", "alone", "worker 0, with 0 neighbours: mozi needs 1 or more"),
        ("ios", "alone", "worker 0, with 0 neighbours: ios needs f neighbours"),
        (
            "d-psgd",
            "directed",
            "d-psgd: metropolis_weights needs an undirected graph, but worker 5 sends to 0 only",
        ),
    ],
)
def test_what_cannot_work_is_refused_and_names_the_worker(name, graph, message):
    given_graphs = {
        "ring": graphs.ring(7),
        "star": STAR,
        "band": BAND,
        "dense": DENSE,
        "alone": np.eye(7, dtype=bool),
    }
    given_graphs["directed"] = schedules.exponential(7, 1, 2)
    given_graphs["crowd"] = graphs.complete(7)
    s = setting(graph=given_graphs[graph], attackers=[1, 2, 3] if graph == "crowd" else [1], attack="sign-flip")
    with pytest.raises(ValueError, match=message):
        related.engine(name)(s)


def test_too_much_work_is_refused(monkeypatch):
    monkeypatch.setattr(costs, "GRADIENTS", 100)
    with pytest.raises(
        ValueError, match=r"byrdie: a round would take 7 workers times 26 parameters = 182 gradients"
    ):
        related.check("byrdie", setting(graph=DENSE))
    with pytest.raises(ValueError, match="mda looks at all subsets of n - f models, 119759850 for n=30, f=13"):
        rules.require_mda(30, 13)


def test_a_schedule_is_refused_by_who_needs_a_fixed_graph_and_checked_by_all_others():
    schedule = schedules.build("matching", DENSE, 0)
    s = setting(graph=DENSE, attackers=[1])
    with pytest.raises(ValueError, match="choco needs a graph that stays the same"):
        related.engine("choco", schedule)(s)
    with pytest.raises(ValueError, match="round 1: worker 0, with 0 neighbours: bridge-t needs"):
        related.engine("bridge-t", schedule)(s)


def test_a_schedule_is_checked_in_all_rounds():
    """In the third round worker 0 hears nobody."""
    s = setting(graph=DENSE, attackers=[1])
    schedule = {t: DENSE if t < 3 else np.eye(7, dtype=bool) for t in range(1, 5)}.__getitem__
    related.check("bridge-t", s, schedule, 2)
    with pytest.raises(ValueError, match="round 3: worker 0, with 0 neighbours: bridge-t needs"):
        related.check("bridge-t", s, schedule, 4)
    step, state = related.engine("bridge-t", schedule)(s), algorithm.start(s, initial())
    for batch in batches(s, 2):
        state = step(state, batch).state
    with pytest.raises(ValueError, match="worker 0, with 0 neighbours: bridge-t needs"):
        step(state, batch)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: related.engine("d-pgsd"), "unknown system 'd-pgsd', choose from d-psgd, "),
        (
            lambda: schedules.build("thined:0.1", DENSE, 0),
            "unknown schedule 'thined:0.1': needs thinned:P, one-way:P, ",
        ),
        (lambda: schedules.build("thinned:2", DENSE, 0), "thinned:P needs a probability"),
        (lambda: schedules.build("every:1.5", DENSE, 0), "every:TAU needs a whole number"),
        (lambda: schedules.build("exponential:0", DENSE, 0), "exponential:PEERS needs a whole number"),
        (lambda: schedules.build("every:x", DENSE, 0), "schedule every:TAU needs a number, got 'x'"),
        (lambda: run("d-psgd", 1, peaceful(), order="mix"), "unknown order 'mix'"),
        (lambda: run("choco", 1, peaceful(), order="mix"), "unknown order 'mix'"),
        (lambda: run("choco", 1, peaceful(), copies="x"), "copies start at"),
        (lambda: run("choco", 1, peaceful(), share=0.0), "a compressor keeps a share"),
        (lambda: run("clipped-gossip", 1, peaceful(), radius="x"), "a radius is a number"),
        (lambda: run("mozi", 1, peaceful(), empty="x"), "mozi without an accepted model"),
        (lambda: run("bridge-m", 1, peaceful(), at="x"), "the gradient must be taken at"),
        (lambda: rules.bulyan(np.ones((6, 2)), 1), "bulyan needs n >= 4f"),
        (lambda: rules.minimum_diameter_average(np.ones((4, 2)), 2), "mda needs n >= 2f"),
    ],
)
def test_wrong_words_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- As rules of Algorithm 1 --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", related.RULES)
def test_related_rules_run_on_either_engine(name, monkeypatch):
    """Put into RULES, they are computed by `algorithm.round_` and by the fast engine as by their own."""
    monkeypatch.setitem(aggregate.RULES, name, related.RULES[name])
    s = setting(attackers=[1], attack="alie", rule=name)
    for engine in (train.plain, train.fast):
        assert_same(after(s, 3, engine=engine), run(name, 3, s))


# --- Published numbers --------------------------------------------------------------------------------------


@pytest.fixture
def published(monkeypatch):
    """The script, on pictures of ten pixels, of which the bright one is the label."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    module, rng = importlib.import_module("published"), np.random.default_rng(0)
    y = rng.integers(0, 10, 1200)
    X = (rng.random((1200, 10)) / 4 + np.eye(10)[y]).astype("float32")
    data = module.Data(X[:1000], y[:1000], X[1000:], y[1000:])
    monkeypatch.setattr(module, "load", lambda data_dir, symmetric: data)
    return module


@pytest.mark.parametrize("partition", ["iid", "label-separated"])
def test_published_tables_are_computed(published, partition, capsys, tmp_path):
    assert published.main(["--rounds", "2", "--partition", partition, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    cells = json.loads((tmp_path / "published.json").read_text())
    assert max(map(len, said)) <= 80
    assert len(cells) == len(said) - 3 * 2 == (1 + 8 * 6) + 3 + 4 * 2
    assert all(0 <= cell["ours"] <= 100 for cell in cells)
    first = next(cell for cell in cells if (cell["row"], cell["column"]) == ("IOS", "alie"))
    assert first["theirs"] == {"iid": 91.68, "label-separated": 86.61}[partition]


def test_published_rules_learn_and_isolation_isolates(published):
    """A mean against isolation is as good as no communication, and IOS drops the isolators."""
    data = published.load(None, True)
    cell = {
        (rule, attack): published.ios_cell(data, rule, attack, "label-separated", 300, 0)
        for rule, attack in (("IOS", "isolation"), ("MH mean", "isolation"), ("no communication", "none"))
    }
    assert cell["IOS", "isolation"] > 60
    assert cell["MH mean", "isolation"] < 40
    assert cell["no communication", "none"] < 40


def test_the_isolators_make_the_mean_ones_own_model(published):
    places = published.ios_places("isolation")
    sent = np.random.default_rng(0).normal(size=(12, 4)).astype("float32")
    for k, place in places.items():
        h = place.heard(sent, "isolation", np.random.default_rng(0))
        if h.f:
            assert_allclose(h.weights @ h.models, sent[k], rtol=1e-4, atol=1e-5)


def test_an_unknown_table_is_one_line(published, capsys):
    with pytest.raises(SystemExit) as caught:
        published.main(["iso"])
    assert caught.value.code == 2
    assert "unknown table 'iso', choose from ios, peng, wu" in capsys.readouterr().err
