"""Algorithm 1 step by step, hostile messages, and against the scalar loops of oracles.py, on Spambase too."""

import functools
import itertools

import numpy as np
import oracle_layers
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import (
    GRAPHS,
    MODEL,
    PAPERS,
    SIZES,
    after,
    cast,
    diminishing,
    initial,
    oracle_rounds,
    run,
    sends,
    setting,
)

from refimpl import aggregate, algorithm, draws, models, train
from refimpl.aggregate import RULES
from refimpl.experiments import cli, tasks
from refimpl.experiments.options import parser
from refimpl.optim import OPTIMIZERS


def first_batch(s, seed=0):
    sizes = train.sizes(s)
    per_epoch = draws.rounds_per_epoch(sizes, s.batch_size)
    return draws.batches(sizes, s.batch_size, per_epoch, draws.stream(seed, "batches"))[0]


# --- One round, step by step --------------------------------------------------------------------------------


def test_a_round_shows_each_step():
    s = setting(attack="sign-flip", attackers=[2])
    W, rows = initial(), first_batch(s)
    result = after(s, 1, W)
    for k in range(7):
        assert_allclose(result.gradient[k], MODEL.gradient(W[k], s.X[k][rows[k]], s.y[k][rows[k]]), rtol=1e-12)
    assert_allclose(result.local, W - 0.3 * result.gradient, rtol=1e-15)
    assert_array_equal(result.sent[2], -result.local[2])
    assert_array_equal(np.delete(result.sent, 2, 0), np.delete(result.local, 2, 0))
    assert_array_equal(result.state.W[2], result.local[2])  # an attacker goes on from its own local step
    for k in (0, 1, 3, 4, 5, 6):
        X, y = s.X[k], s.y[k]
        assert_allclose(result.risks[k], [MODEL.risk(w, X, y) for w in result.sent], rtol=1e-12)
        assert_array_equal(result.weights[k], aggregate.adaptive_weights(result.risks[k], k))
        assert_allclose(result.state.W[k], result.weights[k] @ result.sent, rtol=1e-12)


def test_batch_risk_is_on_the_rounds_own_batch():
    s = setting(risk="batch", attackers=[])
    result, rows = after(s, 1), first_batch(s)
    for k in range(7):
        expected = [MODEL.risk(w, s.X[k][rows[k]], s.y[k][rows[k]]) for w in result.sent]
        assert_allclose(result.risks[k], expected, rtol=1e-12)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("rule", RULES)
def test_risks_and_weights_are_matrices_over_the_workers(rule, name):
    """What worker k has not scored is NaN, what it has not weighed is 0; attackers do neither."""
    s = setting(rule=rule, attackers=[3], attack="sign-flip", graph=GRAPHS[name], l2=0.01)
    if rule in ("trimmed-mean", "krum"):
        s = s._replace(attackers=s.attackers[:0], graph=GRAPHS["complete"])
    result = after(s, 2)
    hears = s.graph.copy()
    hears[s.attackers] = False
    assert_array_equal(np.isfinite(result.risks), hears if RULES[rule].scores else np.zeros((7, 7), bool))
    assert (result.weights is not None) == RULES[rule].weighs
    if RULES[rule].weighs:
        assert not result.weights[~hears].any()
        assert_allclose(result.weights.sum(axis=1), hears.any(axis=1), rtol=1e-14)
        assert (np.diag(result.weights)[s.normal] > 0).all()  # a receiver always passes its own filter


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_all_that_a_round_shows_is_of_the_models_type(dtype):
    s = cast(setting(attack="arbitrary", attackers=[2], optimizer="adam", l2=0.1), dtype)
    *shown, state = after(s, 2, initial().astype(dtype))
    assert {str(array.dtype) for array in (*shown, state.W, state.memory)} == {dtype}


def test_the_first_state_and_those_after_it():
    W = initial()
    for name, optimizer in OPTIMIZERS.items():
        s = setting(optimizer=name)
        state = algorithm.start(s, W)
        assert_array_equal(state.W, W)
        assert_array_equal(state.memory, np.zeros((optimizer.slots, *W.shape)))
        assert state.t == 0
        rounds = itertools.islice(train.rounds(s, W, 0, train.plain), 3)
        assert [result.state.t for result in rounds] == [1, 2, 3]


def test_a_round_writes_to_nothing_that_it_was_given():
    s = setting(optimizer="adam", attack="arbitrary", attackers=[1, 4])
    state = after(s, 2).state
    batch, signals = first_batch(s), np.full((2, MODEL.layout.size), 0.25)
    given = (state.W, state.memory, *s.X, *s.y, s.graph, s.attackers, batch, signals)
    for array in given:
        array.flags.writeable = False
    result = algorithm.round_(s, state, batch, signals)
    assert_array_equal(result.sent[[1, 4]], result.local[[1, 4]] / 4)


# --- What one worker sees -----------------------------------------------------------------------------------


def alone(s, k):
    """The setting with worker k's data and nobody else's: a look at these would raise."""
    mine = lambda data: [own if l == k else None for l, own in enumerate(data)]
    return s._replace(X=mine(s.X), y=mine(s.y))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_worker_alone_takes_the_local_step_of_the_round(optimizer):
    """From its own data."""
    s = setting(optimizer=optimizer, step_size=diminishing, l2=0.1, attack="sign-flip")
    before, result = after(s, 1).state, after(s, 2)
    rows = draws.batches(train.sizes(s), 5, 2, draws.stream(0, "batches"))[1]
    for k in range(7):
        g, w_hat, memory = algorithm.local_step(alone(s, k), k, before.W[k], before.memory[:, k], rows[k], 2)
        assert_array_equal(g, result.gradient[k])
        assert_array_equal(w_hat, result.local[k])
        assert_array_equal(memory, result.state.memory[:, k])


@pytest.mark.parametrize("rule", RULES)
def test_a_worker_alone_takes_the_aggregation_step_of_the_round(rule):
    """From its own data and the messages of its neighbours."""
    s = setting(rule=rule, attack="alie", attackers=[2, 5], l2=0.1)
    graph = s.graph.copy()
    graph[0, 6] = graph[6, 0] = rule == "krum"  # which needs all seven
    s = s._replace(graph=graph)
    result, rows = after(s, 1), first_batch(s)
    for k in s.normal:
        near = np.flatnonzero(graph[k])
        w, r, c = algorithm.aggregation_step(alone(s, k), k, result.sent[near], rows[k])
        assert_array_equal(w, result.state.W[k])
        assert (r is not None, c is not None) == (RULES[rule].scores, RULES[rule].weighs)
        if r is not None:
            assert_array_equal(r, result.risks[k, near])
        if c is not None:
            assert_array_equal(c, result.weights[k, near])


@pytest.mark.parametrize("rule", ["adaptive", "inverse-risk", "average", "medoid", "median", "local"])
def test_a_worker_depends_on_its_neighbourhood_alone(rule):
    """On a ring, whatever becomes of the workers beyond its neighbours, worker 3 computes the same bits."""
    s, W = setting(rule=rule, graph=GRAPHS["ring"], attackers=[], optimizer="adam"), initial()
    expected = after(s, 1, W).state
    X = [own.copy() for own in s.X]
    for far in (0, 1, 5, 6):
        W[far], X[far][:] = np.nan, 1e9
    result = after(s._replace(X=X), 1, W).state
    assert_array_equal(result.W[3], expected.W[3])
    assert_array_equal(result.memory[:, 3], expected.memory[:, 3])
    if rule != "local":
        W[4] += 1
        assert (after(s, 1, W).state.W[3] != expected.W[3]).any()


def test_adams_memory_is_of_the_workers_own_gradients():
    """Aggregation and messages leave it alone; attackers have one too."""
    s = setting(optimizer="adam", step_size=0.01, attack="sign-flip", attackers=[1, 4])
    m = v = 0
    for result in itertools.islice(train.rounds(s, initial(), 0, train.plain), 3):
        m, v = 0.9 * m + 0.1 * result.gradient, 0.999 * v + 0.001 * result.gradient**2
        assert_allclose(result.state.memory, [m, v], rtol=1e-12, atol=1e-18)


# --- Step sizes and regularisation --------------------------------------------------------------------------


def test_step_sizes_may_differ_by_worker_and_round():
    W = initial()
    rounds = train.rounds(setting(step_size=diminishing), W, 0, train.plain)
    for t, result in enumerate(itertools.islice(rounds, 3), start=1):
        for k in range(7):
            assert_allclose(result.local[k], W[k] - diminishing(k, t) * result.gradient[k], rtol=1e-14)
        W = result.state.W


def test_a_constant_function_is_a_number():
    one, other = (after(setting(step_size=mu), 3).state.W for mu in (0.05, lambda k, t: 0.05))
    assert_array_equal(one, other)


def test_the_regularised_risk_by_hand():
    s, w = setting(), initial()[0]
    X, y = s.X[0], s.y[0]
    extra = algorithm.risk(s._replace(l2=0.5), w, X, y) - algorithm.risk(s, w, X, y)
    assert extra == pytest.approx(0.25 * np.sum(w**2), rel=1e-12)
    assert algorithm.risk(s, w, X, y) == MODEL.risk(w, X, y)


@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_the_local_step_follows_the_gradient_of_the_regularised_risk(l2):
    s, rng = setting(l2=l2), np.random.default_rng(1)
    w, X, y, nothing = initial()[0], s.X[0], s.y[0], np.zeros((0, MODEL.layout.size))
    g, w_hat, _ = algorithm.local_step(s, 0, w, nothing, np.arange(len(y)), 1)
    assert_allclose(w_hat, w - 0.3 * g, rtol=1e-14)
    for _ in range(5):
        v = rng.normal(size=w.shape)
        along_v = oracle_layers.slope(lambda w: algorithm.risk(s, w, X, y), w, v, h=1e-4)
        assert along_v == pytest.approx(g @ v, rel=1e-7)


# --- Attackers that send what they like ---------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e300])
@pytest.mark.parametrize("rule", ["adaptive", "median", "krum", "medoid", "trimmed-mean", "inverse-risk"])
def test_hostile_numbers_do_not_take_down_an_honest_worker(rule, value):
    def attack(own, honest, signals):
        sent = own.copy()
        sent[0] = value  # a whole model
        sent[1, -1] = value  # one bias: a model whose risk may well be finite
        return sent

    with sends(attack) as name:
        result = run(setting(rows=[6] * 9, rule=rule, attack=name, attackers=[0, 5]), epochs=3)
    assert np.isfinite(result.W).all()
    assert result.history["not_finite"] == [0, 0, 0]


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_a_model_with_an_infinite_but_unused_entry_is_not_trusted(l2):
    """Its risk is finite: the bias -inf only silences a hidden unit. Combining it would spread the -inf."""

    def attack(own, honest, signals):
        sent = honest[:1].copy()
        MODEL.layout.views(sent[0])["b1"][0] = -np.inf
        return sent

    with sends(attack) as name:
        result = after(setting(attack=name, attackers=[0], l2=l2), 1)
    assert np.isinf(result.risks[1:, 0]).all()
    assert np.isfinite(result.state.W).all()


def test_attackers_may_all_send_one_message():
    with sends(lambda own, honest, signals: 0 * own[0]) as name:
        result = after(setting(attack=name, attackers=[2, 3]), 1)
    assert not result.sent[[2, 3]].any()
    assert result.sent[[0, 1, 4, 5, 6]].all()


@pytest.mark.parametrize("one_message", [False, True])
def test_an_attack_may_send_every_receiver_something_else(one_message):
    """Each normal worker aggregates what was sent to it: as in a round in which all are sent that."""
    honest = [0, 1, 4, 5, 6]

    def lie(k, own):
        return (k + 1.0) * (own[0] if one_message else own)

    options = {"graph": GRAPHS["a star and a path"], "attackers": [2, 3], "rule": "inverse-risk"}
    with sends(lambda place, own: lie(place, own), knows=("place", "own"), per_receiver=True) as name:
        result = after(setting(attack=name, **options), 1)
    assert result.sent.shape == (7, 7, MODEL.layout.size)
    for k in honest:
        with sends(lambda own, k=k: lie(k, own), knows=("own",)) as name:
            shared = after(setting(attack=name, **options), 1)
        assert_array_equal(result.sent[k], shared.sent)
        assert_array_equal(result.state.W[k], shared.state.W[k])
        assert_array_equal(result.risks[k], shared.risks[k])
        assert_array_equal(result.weights[k], shared.weights[k])


# --- Against the scalar algorithm ---------------------------------------------------------------------------


def check_small(**options):
    s = setting(**options)
    expected = oracle_rounds(s, initial(), 4, oracle_layers.mlp_shapes(SIZES))
    assert_allclose(after(s, 4).state.W, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("attack", PAPERS)
@pytest.mark.parametrize("rule", RULES)
def test_rounds_equal_the_scalar_algorithm_on_the_complete_graph(rule, attack):
    check_small(rule=rule, attack=attack, attackers=[1, 4])


@pytest.mark.parametrize("graph", ["ring", "a star and a path"])
@pytest.mark.parametrize("rule", ["adaptive", "inverse-risk", "median", "medoid", "average"])
def test_rounds_equal_the_scalar_algorithm_on_sparse_graphs(rule, graph):
    check_small(rule=rule, attack="sign-flip", graph=GRAPHS[graph])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("step_size", [0.05, diminishing], ids=["constant", "diminishing"])
@pytest.mark.parametrize("risk", ["local", "batch"])
@pytest.mark.parametrize("rule", ["adaptive", "inverse-risk"])
def test_rounds_equal_the_scalar_algorithm_with_every_option(rule, risk, step_size, l2, optimizer):
    options = {"rule": rule, "risk": risk, "step_size": step_size, "l2": l2, "optimizer": optimizer}
    check_small(**options, graph=GRAPHS["a star and a path"], attack="sign-flip")


# --- Spambase -----------------------------------------------------------------------------------------------

ROWS, HIDDEN = 12, 4  # of each worker's data, and of the network: loops in Python take their time


@functools.cache
def spambase_setting():
    """The example's own setting: 10 workers, non-uniform data, 3 attackers, SGD 0.01, cut to 12 rows a worker
    and to 4 hidden units. All 57 features. The full size is compared with torch, in test_torch.py."""
    arguments = parser("spambase").parse_args(["--rules", "adaptive", "--attacks", "alie"])
    s, _, _ = tasks.build(cli.configs("spambase", arguments)[0])
    model = models.mlp([57, HIDDEN, 2])
    W = draws.initial(model.layout, 10, draws.stream(0, "init"))
    return s._replace(X=[X[:ROWS] for X in s.X], y=[y[:ROWS] for y in s.y], model=model, batch_size=5), W


@pytest.mark.slow
@pytest.mark.parametrize("attack", PAPERS)
@pytest.mark.parametrize("rule", RULES)
def test_twenty_rounds_of_spambase_equal_the_scalar_algorithm(rule, attack):
    s, W = spambase_setting()
    s = s._replace(rule=rule, attack=attack, attackers=s.attackers if attack != "none" else s.attackers[:0])
    expected = oracle_rounds(s, W, 20, oracle_layers.mlp_shapes([57, HIDDEN, 2]))
    assert_allclose(after(s, 20, W).state.W, expected, rtol=1e-9, atol=1e-9)
