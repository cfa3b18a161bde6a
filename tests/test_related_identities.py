"""Where two systems of refimpl.related are one: identities between them and with the paper's rules."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import MODEL, after, initial, sends, setting
from related_problems import BAND, DENSE, D, Quadratic, assert_same, batches, mu, peaceful, run

from refimpl import algorithm, graphs, related
from refimpl.related import SYSTEMS, schedules, screening


@pytest.mark.parametrize(("order", "equal"), [("mix-and-step", "d-psgd"), ("step-then-mix", "d-sgd")])
def test_choco_without_compression_is_d_psgd(order, equal):
    s = peaceful()
    assert_same(run("choco-identity", 5, s, order=order, copies="models"), run(equal, 5, s))


def test_what_a_caller_asks_for_goes_before_what_the_table_says():
    s = setting(graph=DENSE, attackers=[1], attack="alie", step_size=mu)
    assert_same(run("d-sgd", 4, s, order="mix-and-step"), run("d-psgd", 4, s))


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
        G = np.stack([MODEL.gradient(W[k], s.X[k][batch[k]], s.y[k][batch[k]]) for k in range(7)])
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


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("at", ["own", "mixed"])
def test_byrdie_of_a_separable_risk_is_bridge_t(at, optimizer):
    s = setting(graph=DENSE, attackers=[1], attack="alie", step_size=mu, optimizer=optimizer)
    s = s._replace(model=Quadratic())
    W = np.random.default_rng(0).normal(size=(7, 3))
    assert_same(run("byrdie", 4, s, W, at=at), run("bridge-t", 4, s, W, at=at))


@pytest.mark.parametrize("name", ["icwtm", "mda"])
def test_learning_without_attackers_averages_gradients_and_models(name):
    s, W = peaceful(graphs.complete(7)), initial()
    batch = batches(s, 1)[0]
    g = np.mean([MODEL.gradient(W[k], s.X[k][batch[k]], s.y[k][batch[k]]) for k in range(7)], axis=0)
    rates = np.mean([mu(k, 1) for k in range(7)])
    expected = np.broadcast_to(W.mean(axis=0) - rates * g, W.shape)
    assert_allclose(run(name, 1, s).state.W, expected, rtol=1e-9)


def test_agreement_takes_more_and_more_rounds():
    assert [screening.agreement_rounds(t) for t in (1, 2, 3, 4, 5, 8, 9)] == [0, 1, 2, 2, 3, 3, 4]


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
                MODEL.gradient(w, s.X[k][b], s.y[k][b])
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


def test_diminishing_steps_of_the_penalty():
    """Peng et al.'s: the ninth step is a third as long as the first one."""
    s, W = setting(attackers=[]), initial()
    batch = batches(s, 1)[0]

    def moved(step_size, t):
        start = algorithm.start(s, W)._replace(t=t - 1)
        return related.engine("tv-penalty")(s._replace(step_size=step_size)).step(start, batch).state.W - W

    steps = related.diminishing(0.3)
    assert_allclose(moved(steps, 1), moved(0.3, 1), rtol=1e-12)
    assert_allclose(moved(steps, 9), moved(0.3, 1) / 3, rtol=1e-9, atol=1e-15)
