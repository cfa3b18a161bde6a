"""The systems of refimpl.related: against scalar oracles, under attack, their states and types."""

from functools import partial
from unittest import mock

import numpy as np
import oracle_related as oracle
import oracle_talking
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import MODEL, ROWS, cast, held_out, initial, local_data, sends, setting
from related_problems import BAND, DENSE, WHOLE, D, Quadratic, batches, graph_for, mu, run

from refimpl import algorithm, draws, graphs, related, train
from refimpl.arrays import module_of
from refimpl.attacks import ATTACKS
from refimpl.optim import OPTIMIZERS
from refimpl.related import SYSTEMS, rounds, rules
from refimpl.related.requirements import SAME_TO_ALL

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
    *("multi-krum", "bulyan", "skill-bar", "held-out-bar", "chosen-bar", "two-tracks"),
]
WEIGHS = ("multi-task", "skill-bar", "held-out-bar", "chosen-bar", "two-tracks")


# --- Against the oracles ------------------------------------------------------------------------------------


def net_of(s, t, batch, signals):
    """What the oracles know of round t."""

    def some(k, rows):
        return s.X[k][np.array(rows)], s.y[k][np.array(rows)]

    def slope(k, w, rows):
        return (MODEL.gradient(np.array(w), *some(k, rows)) + s.l2 * np.array(w)).tolist()

    def risk(k, w, rows):
        return float(MODEL.risk(np.array(w), *some(k, rows))) + s.l2 / 2 * sum(a * a for a in w)

    def say(rows, c=None):
        drawn = signals if signals is None or c is None else signals[:, c : c + 1]
        return algorithm.messages(s, np.array(rows), drawn).tolist()

    return oracle.Net(
        hears=[np.flatnonzero(row).tolist() for row in s.graph],
        normal=s.normal.tolist(),
        f=len(s.attackers),
        eta=lambda k: mu(k, t),
        grad=lambda k, w: slope(k, w, batch[k]),
        loss=lambda k, w: risk(k, w, batch[k]),
        say=say,
        rows=train.sizes(s),
        labels=[y.tolist() for y in s.y],
        batch=batch.tolist(),
        slope=slope,
        risk=risk,
    )


def choco_oracle(share, gamma):
    def rounds(net, t, x, copies=None):
        zeros = [[0.0] * D for _ in x]
        return oracle.choco(net, x, copies or zeros, max(1, int(share * D + 0.5)), gamma)

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
    "sgp": lambda net, t, z, x=None, u=None: oracle.sgp(net, z, x or z, u or [1.0] * len(z)),
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
    "multi-task": lambda net, t, x, L=None: oracle.multi_task(net, x, L or [[1.0] * len(x) for _ in x]),
    "ios": lambda net, t, x: (oracle.ios(net, x),),
    "fedavg": lambda net, t, x: (oracle.fedavg(net, x),),
    "geometric-median": by_rows(lambda rows, f: oracle.weiszfeld(rows)),
    "multi-krum": by_rows(oracle.multi_krum),
    "bulyan": by_rows(oracle.bulyan),
    "skill-bar": lambda net, t, x: (oracle_talking.skill_bar(net, x),),
    "held-out-bar": lambda net, t, x: (oracle_talking.held_out_bar(net, x),),
    "chosen-bar": lambda net, t, x: (oracle_talking.chosen_bar(net, x),),
    "two-tracks": lambda net, t, x, a=None, b=None: oracle_talking.two_tracks(net, x, a or x, b or x),
}


def check_system(name, attack, rounds=4, attackers=(1,), rows=ROWS):
    graph = graph_for(name) if rows is ROWS else None
    s = setting(rows, graph, attackers, attack=attack, step_size=mu, l2=0.01)
    results = train.rounds(s, initial(len(rows)), 0, related.engine(name))
    x, remembered, rng = initial(len(rows)).tolist(), (), draws.stream(0, "attack")
    for t, (batch, result) in enumerate(zip(batches(s, rounds), results), start=1):
        signals = draws.signals(len(attackers), D, rng) if ATTACKS[attack].draw else None
        x, *remembered = ORACLES[name](net_of(s, t, batch, signals), t, x, *remembered)
        assert_allclose(result.state.W, x, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("attack", ["sign-flip", "arbitrary", "alie"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_equals_its_oracle(name, attack):
    check_system(name, attack)


@pytest.mark.parametrize("attack", ["sign-flip", "foe"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_equals_its_oracle_with_two_attackers(name, attack):
    """Eleven workers are enough for all."""
    check_system(name, attack, 3, (1, 4), [*ROWS, 5, 7, 4, 6])


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
    own = W[4] - mu(4, 1) * MODEL.gradient(W[4], s.X[4][batch[4]], s.y[4][batch[4]])
    if name != "byrdie":  # whose gradient moves with the coordinates
        assert_allclose(result.state.W[4], own, rtol=1e-9)
    honest = run(name, 1, s._replace(attack="none"))
    for lie, truth in zip(result.sent, honest.sent):
        if truth.shape == W.shape:
            assert_allclose(lie[4], -truth[4], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in SYSTEMS if SAME_TO_ALL not in SYSTEMS[name].requirements])
def test_a_worker_combines_what_it_was_sent_and_not_what_another_was(name):
    """As if everybody had been sent what that worker was: near the mean, so that Krum takes it."""
    lie = lambda honest, place: (1 + place / 50) * honest.mean(axis=0)
    s = setting(graph=graph_for(name), attackers=[1], attack="hostile")
    with sends(lie, knows=("honest", "place"), per_receiver=True):
        result = run(name, 1, s)
    for k in s.normal:
        with sends(partial(lie, place=k), knows=("honest",)):
            assert_array_equal(result.state.W[k], run(name, 1, s).state.W[k])


# --- States and types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_state_is_all_that_a_run_needs_to_go_on(name, optimizer):
    s = setting(graph=graph_for(name), attackers=[1], attack="sign-flip", optimizer=optimizer, step_size=0.01)
    rows = batches(s, 4)
    state, step = algorithm.start(s, initial()), related.engine(name)(s).step
    for batch in rows:
        state = step(state, batch).state
    again = algorithm.start(s, initial())
    for batch in rows:
        kept = again.W.copy(), again.memory.copy()
        following = related.engine(name)(s).step(again, batch).state  # a new engine for every round
        assert_array_equal(again.W, kept[0])  # inputs are never written to
        assert_array_equal(again.memory, kept[1])
        again = following
    assert_array_equal(again.W, state.W)
    assert_array_equal(again.memory, state.memory)
    assert again.t == 4


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_an_optimiser_remembers_is_not_taken_for_what_a_system_does(name):
    """Plain descent that remembers two vectors which nobody needs."""
    s = setting(graph=graph_for(name), attackers=[1], attack="sign-flip", step_size=mu)
    forgetful = OPTIMIZERS["sgd"]._replace(step=lambda w, g, memory, mu, t: (w - mu * g, memory + t), slots=2)
    with mock.patch.dict(OPTIMIZERS, forgetful=forgetful):
        result = run(name, 3, s._replace(optimizer="forgetful"))
    assert_array_equal(result.state.W, run(name, 3, s).state.W)
    assert_array_equal(result.state.memory[:2], 6)
    kept = run(name, 3, s).state.memory
    assert_array_equal(result.state.memory[2 : 2 + len(kept)], kept)


@pytest.mark.parametrize(("share", "counts"), [(None, {2, 3}), (0.5, {2}), (0.01, {1}), (1.0, {4, 5})])
def test_the_share_of_neighbours_that_mozi_looks_at(share, counts):
    """Rounded down, but one at least; without a share, all but as many as there are attackers."""
    looked, graph = set(), BAND.copy()
    graph[0, 3] = graph[3, 0] = True
    s = setting(graph=graph, attackers=[1, 5], attack="sign-flip")
    rule = lambda W, own, risks, count, *rest: looked.add(count) or W[own]
    with mock.patch.object(rules, "mozi", rule):
        run("mozi", 1, s, share=share)
    assert looked == counts


@pytest.mark.parametrize("name", SYSTEMS)
def test_float32_stays_float32(name):
    s = setting(graph=graph_for(name), attackers=[1], attack="sign-flip")
    single = cast(s, "float32")
    result = run(name, 2, single, initial().astype("float32"))
    assert result.state.W.dtype == result.state.memory.dtype == np.float32
    assert_allclose(result.state.W, run(name, 2, s).state.W, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.slow
def test_a_system_on_another_array_module(name, xp):
    s = setting(graph=graph_for(name), attackers=[1], attack="alie", optimizer="adam", step_size=mu, l2=0.01)
    count = 1 if name == "byrdie" else 2  # whose rounds are d rounds
    there = s._replace(X=[xp.asarray(X) for X in s.X], y=[xp.asarray(y) for y in s.y])
    result = run(name, count, there, xp.asarray(initial()))
    assert module_of(result.state.W) is module_of(result.state.memory) is xp
    assert_allclose(result.state.W.get(), run(name, count, s).state.W, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_run_under_train(name):
    s = setting(graph=graph_for(name), attackers=[1], attack="alie", rule="local")
    result = train.run(s, held_out(local_data()), initial(), 0, 2, related.engine(name))
    assert len(result.history["mean_own"]) == 2
    assert bool(result.weights_at) == (name in WEIGHS)


def test_the_averages_of_multi_task_fit_any_number_of_parameters():
    """Seven averages a worker in slots of three numbers."""
    s = setting(attackers=[])._replace(model=Quadratic())
    result = run("multi-task", 2, s, np.random.default_rng(0).normal(size=(7, 3)), nu=0.5)
    assert result.state.memory.shape == (3, 7, 3)
    L = result.state.memory.swapaxes(0, 1).reshape(7, 9)
    assert (L[:, :7] > 0.25).all()  # a quarter of the 1 they began with is left
    assert not L[:, 7:].any()


@pytest.mark.parametrize("graph", [graphs.complete(7), BAND], ids=["complete", "band"])
def test_a_system_cannot_write_to_what_others_hear(graph):
    def greedy(h):
        h.models[h.others] = 0
        return h.models[h.own]

    s = setting(graph=graph)
    with pytest.raises(ValueError, match="read-only"):
        rounds.step_then_mix(s, algorithm.start(s, initial()), batches(s, 1)[0], None, greedy)
