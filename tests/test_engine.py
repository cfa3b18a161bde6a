"""The fast engine equals the specification, whatever the setting and however large problems are cut."""

import contextlib
import itertools
import threading
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import PAPERS

from refimpl import aggregate, algorithm, draws, graphs, layers, models, optim, train
from refimpl.aggregate import RULES, Rule
from refimpl.arrays import module_of, quiet
from refimpl.attacks import ATTACKS, Attack
from refimpl.fast import conv_pool, distances, engine, networks, plan, risks, rules
from refimpl.fast.parallel import threads
from refimpl.models import layout
from refimpl.related import knowledge  # noqa: F401  (the place of a receiver)

CLASSES = 3
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}

# --- What the package does not have: a model, two rules, Adam for a test, hostile attacks -------------------


class Quadratic:
    """Its risk is the mean of |w - x|^2 / 2: a model that is no network."""

    layout, sample = layout([("w", (4,), 1)]), (4,)

    def risk(self, w, X, y):
        return (((w - X) ** 2).sum(axis=-1) / 2 * (y >= 0)).sum() / (y >= 0).sum()

    def gradient(self, w, X, y):
        return ((w - X) * (y >= 0)[:, None]).sum(axis=0) / (y >= 0).sum()

    def predict(self, w, X):
        return (X @ w > 0).astype(int)


def straight_through():
    """An MLP whose ReLU lets every derivative pass: its forward pass is one that the engine knows."""
    network = models.as_layers(models.mlp([4, 5, CLASSES]))
    relu = models.Layer(layers.relu, lambda dy, x: (dy,))
    return network._replace(layers=(network.layers[0], relu, network.layers[2]))


MODELS = {
    "mlp": models.mlp([4, 5, CLASSES]),
    "linear": models.mlp([4, CLASSES]),
    "cnn": models.cnn(side=5, channels=(2,), hidden=3, classes=CLASSES),
    "deep cnn": models.cnn(side=6, channels=(2, 3), hidden=3, classes=CLASSES),
    "quadratic": Quadratic(),
    "straight through": straight_through(),
}


def weighs_all_it_sees(W, risks, own, f):
    xp = module_of(W)
    c = 1 / (1 + aggregate.squared_distances(W)[own] + f) / (1 + xp.where(xp.isfinite(risks), risks, xp.inf))
    c[own] += 1
    return c / c.sum()


def gives_a_model(W, risks, own, f):
    return W[own] / (1 + risks[own] + f) + aggregate.coordinate_median(W) / 2


OWN_RULES = {
    "weighs": Rule(weighs_all_it_sees, "weighs", "-", scores=True, weighs=True),
    "gives": Rule(gives_a_model, "gives a model", "-", scores=True),
}


def gentle_adam(*args):
    """With eps = 0.01, as 1e-8 would make a step of a gradient that is nothing but rounding."""
    return optim.adam(*args, eps=0.01)


def hostile(value, entry, one_message):
    """Sends `value` as a whole model (entry None) or as one entry of an honest or of its own one."""

    def send(own, honest, signals):
        sent = honest.mean(axis=0) if one_message else own.copy()
        sent[... if entry is None else (..., entry)] = value
        return sent

    return Attack(send, "hostile", "-", one_message=one_message)


# --- Settings -----------------------------------------------------------------------------------------------


@st.composite
def graph_of_twins(draw):
    """A random connected graph of which each node is a clique of 1 to 3 workers, who hear the same.

    One node makes it complete, single workers on a ring make it a ring.
    """
    nodes = draw(st.integers(1, 5))
    edges = [(draw(st.integers(0, i - 1)), i) for i in range(1, nodes)]
    if draw(st.booleans()):
        edges = [(i, (i + 1) % nodes) for i in range(nodes)]
    pairs = list(itertools.combinations(range(nodes), 2))
    edges += draw(st.lists(st.sampled_from(pairs), max_size=4)) if pairs else []
    base = graphs.from_edges(nodes, edges)
    most = 9 if nodes == 1 else 3
    node = np.repeat(np.arange(nodes), [draw(st.integers(1, most)) for _ in range(nodes)])
    node = np.array(draw(st.permutations(node.tolist())))
    return base[np.ix_(node, node)]


def data(rows, sample, seed, dtype):
    """Ragged data; in half of all images, part of the picture is empty."""
    rng = np.random.default_rng(seed)
    N, n = len(rows), max(rows)
    y = rng.integers(0, CLASSES, (N, n))
    X = rng.normal(size=(N, n, *sample)) + y.reshape(N, n, *[1] * len(sample))
    if len(sample) == 2 and rng.random() < 0.5:
        X[:, :, : rng.integers(2, sample[0])] = 0
    return [X[k, :m].astype(dtype) for k, m in enumerate(rows)], [y[k, :m] for k, m in enumerate(rows)]


schedules = st.sampled_from([0.3, lambda k, t: 0.5 / (1 + k + 2 * t)])
values = st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -1e300])


def largest(value, dtype):
    """1e300 is no number of float32."""
    return value if dtype == "float64" or not np.isfinite(value) else value / 1e270


@st.composite
def problems(draw, rule):
    """(Setting, W, an attack to call "hostile", a seed for batches and signals)."""
    graph, dtype = draw(graph_of_twins()), draw(st.sampled_from(["float64", "float64", "float32"]))
    N, model = len(graph), MODELS[draw(st.sampled_from([*MODELS, "mlp", "mlp"]))]
    rows = draw(st.lists(st.integers(1, 12), min_size=N, max_size=N))
    seed = draw(st.integers(0, 10**6))
    entry = draw(st.none() | st.integers(0, model.layout.size - 1))
    attack = hostile(largest(draw(values), dtype), entry, draw(st.booleans()))
    s = algorithm.Setting(
        model,
        *data(rows, model.sample, seed, dtype),
        graph,
        np.array(sorted(draw(st.sets(st.integers(0, N - 1), max_size=N - 1))), dtype=int),
        rule,
        draw(st.sampled_from([*PAPERS, "hostile", "hostile", "hostile"])),
        draw(st.sampled_from(["local", "batch"])),
        draw(st.sampled_from(["sgd", "gentle adam"])),
        draw(schedules),
        draw(st.sampled_from([0.0, 0.1])),
        draw(st.integers(1, 6)),
    )
    W = draws.initial(model.layout, N, np.random.default_rng(seed)).astype(dtype)
    return trainable(s), W, attack, seed


def trainable(s):
    """With as many of the attackers as the rule allows; on the complete graph if it allows none."""
    smallest = s.graph.sum(axis=1).min()
    for F in reversed(range(len(s.attackers) + 1)):
        try:
            RULES[s.rule].require(smallest, F)
            return s._replace(attackers=s.attackers[:F])
        except ValueError:
            pass
    assume(len(s.graph) >= 3)
    return s._replace(graph=graphs.complete(len(s.graph)), attackers=s.attackers[:0])


@contextlib.contextmanager
def parts(floats=2**20, rows=64, products=False):
    """Small problems cut into parts as if they were large, and distances by products or not."""
    with contextlib.ExitStack() as stack:
        for module in (plan, networks, rules, distances):
            stack.enter_context(mock.patch.object(module, "FLOATS", floats))
            stack.enter_context(mock.patch.object(module, "device_factor", return_value=1))
        stack.enter_context(mock.patch.object(engine, "device_factor", return_value=1))
        stack.enter_context(mock.patch.object(plan, "SLICE", rows))
        stack.enter_context(mock.patch.object(plan, "CHUNK", floats // 2))
        stack.enter_context(mock.patch.object(networks, "STACK", 4 * floats))
        stack.enter_context(mock.patch.object(networks, "IMAGES", 1 + floats // 1000))
        for module, name in ((engine, "COORDINATES"), (rules, "COLUMNS")):
            stack.enter_context(mock.patch.object(module, name, max(1, floats // 64)))
        stack.enter_context(mock.patch.object(conv_pool, "FLOATS", floats // 2))
        stack.enter_context(mock.patch.object(distances, "PRODUCTS", 0 if products else np.inf))
        yield


cuts = st.fixed_dictionaries(
    {
        "floats": st.sampled_from([0, 100, 3000, 2**20]),
        "rows": st.sampled_from([1, 2, 5, 64]),
        "products": st.booleans(),
    }
)

# --- Decisions that hang on rounding ------------------------------------------------------------------------


def clear(s, before, batch, made, tolerance=None):
    """No decision of the round `made` hangs on rounding: of ReLU, pooling, the filter, Krum and the medoid."""
    tolerance = tolerance or TOLERANCE[str(before.W.dtype)]
    kinks = all(clear_of_kinks(s.model, before.W[k], s.X[k][batch[k]], tolerance) for k in range(len(s.graph)))
    return kinks and not may_overflow(s, made) and all(clear_choice(s, k, made, tolerance) for k in s.normal)


def may_overflow(s, made):
    """Convolutions by tiles add up what the plain ones do not: where they overflow, see fast/conv_pool.py."""
    convolves = isinstance(s.model, models.Network) and s.model.layers[0].forward is layers.add_channel
    large = np.isfinite(made.sent).all(axis=-1) & (abs(made.sent).max(axis=-1) > 1e30)
    return convolves and RULES[s.rule].scores and large.any()


@quiet
def clear_of_kinks(model, w, X, tolerance):
    """No ReLU is at 0 and no two pixels of a window are nearly the largest, unless they are equal."""
    model = models.as_layers(model) if isinstance(model, models.MLP) else model
    if not isinstance(model, models.Network) or not np.isfinite(w).all():
        return True
    tensors, x = model.layout.views(w), X
    for layer in model.layers:
        least = 10 * tolerance * abs(x).max()
        if layer.forward is layers.relu and ((abs(x) <= least) & (x != 0)).any():
            return False
        if layer.forward is layers.maxpool2d:
            gaps = np.diff(np.sort(np.stack(layers.windows(x)), axis=0)[-2:], axis=0)
            if ((gaps <= least) & (gaps > 0)).any():
                return False
        x = layer.forward(x, *(tensors[name] for name in layer.tensors))
    return True


@quiet
def clear_choice(s, k, made, tolerance):
    to_k = made.sent if made.sent.ndim == 2 else made.sent[k]
    sent = to_k[s.graph[k]]
    if RULES[s.rule].scores:
        r = made.risks[k, s.graph[k]]
        # Where the loss is nearly 0, the rounding of logits is much of it.
        if ((r > 0) & (r < 1e-5 if r.dtype == np.float64 else r < 0.1)).any():
            return False
        r_own = made.risks[k, k]
        close = abs(r - r_own) <= 10 * tolerance * abs(r_own)
        equal = (sent == to_k[k]).all(axis=-1)
        return s.rule != "adaptive" or not (close & ~equal & (np.flatnonzero(s.graph[k]) != k)).any()
    if s.rule not in ("krum", "medoid"):
        return True
    D = aggregate.squared_distances(sent)
    if s.rule == "krum":
        D = np.sort(np.where(np.eye(len(D), dtype=bool), np.inf, D))[:, : len(D) - len(s.attackers) - 2]
    scores = np.where(np.isinf(D), 0, D if s.rule == "krum" else np.sqrt(D)).sum(axis=-1)
    scores = scores[np.isinf(D).sum(axis=-1) == np.isinf(D).sum(axis=-1).min()]
    best = scores.min()
    return not ((scores > best) & (scores <= best * (1 + 10 * tolerance))).any()


# --- The proof ----------------------------------------------------------------------------------------------


def draws_of(s, W, seed, count):
    """(batch, signals) of each round."""
    rng = np.random.default_rng(seed)
    sizes = train.sizes(s)
    for _ in range(count):
        batch = np.stack([rng.integers(0, n, s.batch_size) for n in sizes])
        yield batch, rng.uniform(-0.5, 0.5, (len(s.attackers), W.shape[1])).astype(W.dtype)


def frozen(state):
    """Read-only, so that an engine that writes to what it is given fails."""
    for array in (state.W, state.memory):
        array.flags.writeable = False
    return state


def assert_same_round(s, before, made, fast):
    """The state and the weights that two engines make of the same state."""
    tolerance = TOLERANCE[str(before.W.dtype)]
    assert (fast.state.W.dtype, fast.state.t) == (made.state.W.dtype, made.state.t)
    finite = np.isfinite(made.state.W).all(axis=-1)
    assert_array_equal(np.isfinite(fast.state.W).all(axis=-1), finite)
    for k in np.flatnonzero(finite):
        heard = np.setdiff1d(np.flatnonzero(s.graph[k]), s.attackers)
        scale = max(1.0, *(abs(np.nan_to_num(W[[k, *heard]])).max() for W in (before.W, made.local)))
        assert_allclose(fast.state.W[k], made.state.W[k], rtol=tolerance, atol=tolerance * scale)
    for slot, expected in zip(fast.state.memory, made.state.memory, strict=True):
        known = np.isfinite(expected).all(axis=-1)
        scale = abs(expected[known]).max(initial=1.0)
        assert_allclose(slot[known], expected[known], rtol=tolerance, atol=tolerance * scale)
    if made.weights is None:
        assert fast.weights is None
    else:
        assert_allclose(fast.weights, made.weights, rtol=0, atol=10 * tolerance)


def assert_same_rounds(s, W, seed, count=3):
    """Each round of the engine from where the specification is, as far as no decision hangs on rounding.

    Returns how many rounds were compared.
    """
    step, state = engine.engine(s).step, frozen(algorithm.start(s, W.copy()))
    for t, (batch, signals) in enumerate(draws_of(s, W, seed, count)):
        made = algorithm.round_(s, state, batch, signals)
        if not clear(s, state, batch, made):
            return t
        assert_same_round(s, state, made, step(state, batch, signals))
        state = frozen(made.state)
    return count


def assert_same_runs(s, W, seed, count, tolerance, clear_by=None):
    """Each engine from where it was itself, as far as no decision hangs on rounding: -> how many rounds."""
    step = engine.engine(s).step
    plain = fast = frozen(algorithm.start(s, W))
    for t, (batch, signals) in enumerate(draws_of(s, W, seed, count)):
        made = algorithm.round_(s, plain, batch, signals)
        if not clear(s, plain, batch, made, clear_by):
            return t
        result = step(fast, batch, signals)
        assert_allclose(result.state.W, made.state.W, rtol=tolerance, atol=tolerance)
        assert (result.weights is None) == (made.weights is None)
        if made.weights is not None:
            assert_allclose(result.weights, made.weights, rtol=0, atol=10 * tolerance)
        plain, fast = frozen(made.state), frozen(result.state)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("rule", [*RULES, *OWN_RULES])
@given(st.data())
def test_the_engine_is_the_specification(rule, data):
    """Round by round, from the same state: models, weights, and what the optimiser remembers.

    To rounding, which is 1e-9 of the largest number of the honest models in a neighbourhood for float64, and
    1e-4 for float32: sums of some hundred terms in another order, and Winograd's in place of plain products.
    Where a ReLU, a pooling window, the filter of Eq. (6), Krum or the medoid decides within ten times that, the
    two may part, and the comparison ends. What is not finite in one must not be in the other.
    """
    adam = {"gentle adam": optim.Optimizer(gentle_adam, 2, "", "")}
    with mock.patch.dict(RULES, OWN_RULES), mock.patch.dict(optim.OPTIMIZERS, adam):
        s, W, attack, seed = data.draw(problems(rule))
        with mock.patch.dict(ATTACKS, {"hostile": attack}), parts(**data.draw(cuts)):
            assume(assert_same_rounds(s, W, seed))


@pytest.mark.parametrize("attack", [*PAPERS, "each its own NaN", "one NaN"])
@pytest.mark.parametrize("rule", [*RULES, *OWN_RULES])
def test_every_rule_and_attack_on_a_small_problem(rule, attack):
    """Five of nine workers hear all, the others all but one; with "none" there are no attackers."""
    graph = ~graphs.from_edges(9, [(0, 8), (1, 7)]) | np.eye(9, dtype=bool)
    s = setting(
        [7, 4, 9, 5, 8, 4, 6, 3, 10],
        graph,
        attackers=np.array([3, 7] if ATTACKS.get(attack, ATTACKS["foe"]).lies else [], dtype=int),
        rule=rule,
        attack=attack,
        step_size=lambda k, t: 0.5 / (1 + k + t),
        l2=0.1,
    )
    nan = {name: hostile(np.nan, 3, name == "one NaN") for name in ("each its own NaN", "one NaN")}
    with mock.patch.dict(RULES, OWN_RULES), mock.patch.dict(ATTACKS, nan), parts(floats=0, rows=2):
        assert assert_same_rounds(s, initial(s), seed=0, count=2) == 2


@pytest.mark.parametrize("one_message", [False, True])
def test_a_model_that_is_not_finite_is_not_trusted_even_if_its_risk_is(one_message):
    """A bias of -infinity is hidden by the ReLU behind it."""
    s = setting([7, 4, 9, 5], graphs.complete(4), rule="inverse-risk", attack="hostile")
    bias = s.model.layout.fields[1].offset
    with mock.patch.dict(ATTACKS, {"hostile": hostile(-np.inf, bias, one_message)}):
        made = after(s, 1)
    assert np.isfinite(made.state.W).all()
    assert_array_equal(made.weights[[0, 2, 3], 1], 0)


# --- Runs ---------------------------------------------------------------------------------------------------


def setting(rows, graph, **options):
    """An MLP on ragged data."""
    options = {"attackers": np.array([1]), "step_size": 0.3, "batch_size": 5} | options
    return algorithm.Setting(MODELS["mlp"], *data(rows, (4,), 0, "float64"), graph, **options)


def initial(s):
    return draws.initial(s.model.layout, len(s.graph), draws.stream(0, "init"))


def after(s, count):
    """The last of `count` rounds of the engine."""
    return next(itertools.islice(train.rounds(s, initial(s), 0, engine.engine), count - 1, None))


ROWS = [7, 4, 9, 5, 8, 4, 6]
GRAPHS = {
    "complete": graphs.complete(7),
    "ring": graphs.ring(7),
    "a star and a path": graphs.from_edges(7, [(0, k) for k in range(1, 5)] + [(4, 5), (5, 6)]),
}


@pytest.mark.parametrize("model", ["mlp", "cnn", "quadratic", "straight through"])
@pytest.mark.parametrize("rule", ["adaptive", "trimmed-mean"])
def test_a_run_and_its_evaluation_are_the_same_on_either_engine(rule, model):
    """Thirty rounds, each engine from where it was. Errors grow as the rounds go on: to 1e-7."""
    model = MODELS[model]
    X, y = data(ROWS, model.sample, 0, "float64")
    s = algorithm.Setting(
        model, X, y, GRAPHS["complete"], np.array([2]), rule, "alie", step_size=0.05, batch_size=3
    )
    first = np.concatenate([own[:3] for own in X]), np.concatenate([own[:3] for own in y])
    test = train.HeldOut(*first, np.eye(7, dtype=bool).repeat(3, 1))
    plain, fast = (train.run(s, test, initial(s), 0, 15, build) for build in (train.plain, engine.engine))
    assert_allclose(fast.W, plain.W, rtol=1e-7, atol=1e-9)
    for name, column in plain.history.items():
        assert_allclose(fast.history[name], column, rtol=1e-7, err_msg=name)
    if rule == "adaptive":
        assert_allclose(fast.weights_at[15], plain.weights_at[15], rtol=1e-6)


# --- Threads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", ["complete", "ring"])
@pytest.mark.parametrize("model", ["mlp", "deep cnn", "quadratic"])
@pytest.mark.parametrize("rule", ["adaptive", "median", "krum"])
def test_any_number_of_threads_gives_the_same_bytes(rule, model, graph):
    """Whatever is cut is cut by its size, and every part has a place of its own."""
    model = MODELS[model]
    X, y = data([7, 4, 9, 5, 8, 4, 6], model.sample, 0, "float32")
    attackers = np.array([2, 5] if graph == "complete" else [], dtype=int)
    s = algorithm.Setting(model, X, y, GRAPHS[graph], attackers, rule, "alie", step_size=0.05, batch_size=3)
    test = train.HeldOut(
        np.stack([own[0] for own in X]), np.array([own[0] for own in y]), np.eye(7, dtype=bool)
    )
    W = draws.initial(model.layout, 7, draws.stream(0, "init")).astype("float32")
    runs = []
    for count in (1, 2, 5):
        with threads(count), parts(floats=1000, rows=2, products=True):
            runs.append(train.run(s, test, W, 0, 3, engine.engine))
    for other in runs[1:]:
        assert_array_equal(other.W, runs[0].W)
        if rule == "adaptive":
            assert_array_equal(other.weights_at[3], runs[0].weights_at[3])
        assert other.history == runs[0].history


@pytest.mark.parametrize("what", ["rule", "attack", "model"])
def test_what_is_not_ours_is_called_on_the_callers_thread(what):
    """It may not expect others."""
    seen = set()

    def noted(function):
        return lambda *args: seen.add(threading.current_thread()) or function(*args)

    class Noted(Quadratic):
        risk, gradient = noted(Quadratic.risk), noted(Quadratic.gradient)

    def by_a_helper(function, todo):
        """All parts, if there are several."""
        todo = list(todo)
        if len(todo) == 1:
            return function(*todo)
        helper = threading.Thread(target=lambda: [function(part) for part in todo])
        helper.start()
        helper.join()

    s = {
        "rule": setting(ROWS, GRAPHS["ring"], rule="mine"),
        "attack": setting(ROWS, GRAPHS["ring"], attack="mine"),
        "model": setting(ROWS, GRAPHS["ring"])._replace(model=Noted()),
    }[what]
    rule = RULES["average"]._replace(compute=noted(RULES["average"].compute))
    attack = ATTACKS["foe"]._replace(send=noted(ATTACKS["foe"].send))
    with (
        mock.patch.dict(RULES, mine=rule),
        mock.patch.dict(ATTACKS, mine=attack),
        mock.patch.object(engine, "parallel_for", by_a_helper),
        parts(floats=0),
    ):
        next(train.rounds(s, initial(s), 0, engine.engine))
    assert seen == {threading.current_thread()}


# --- Parts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [[100, 10, 90, 80, 5], [10, 100, 80, 90, 5], [70, 66, 130, 3, 200]], ids=str)
def test_neighbourhoods_run_out_of_rows_at_different_times(rows):
    """Workers 0 and 1 share one neighbourhood, 2 and 3 another, as large; slices of 64 rows."""
    links = [(0, 1), (2, 3), (0, 4), (1, 4), (2, 4), (3, 4)]
    s = setting(rows, graphs.from_edges(5, links), rule="inverse-risk", attackers=np.array([4]))
    assert {tuple(group.receivers.shape) for group in engine.plan(s).groups} == {(2, 2)}
    with parts(rows=64):
        assert assert_same_rounds(s, initial(s), seed=0, count=2) == 2


@pytest.mark.parametrize("rule", ["inverse-risk", "adaptive", "weighs"])
def test_a_batch_larger_than_a_slice_and_than_the_workers_data(rule):
    """Models are scored on all 150 rows of the batch, in slices of 64, though no worker has more than 7."""
    s = setting([5, 4, 6, 3, 7], graphs.complete(5), rule=rule, risk="batch", batch_size=150)
    with mock.patch.dict(RULES, OWN_RULES), parts(rows=64):
        assert assert_same_rounds(s, initial(s), seed=0, count=2) == 2


@pytest.mark.parametrize("rule", ["adaptive", "inverse-risk", "average", "krum"])
@pytest.mark.parametrize("attack", [name for name in PAPERS if ATTACKS[name].one_message])
def test_a_message_that_nobody_sends_reaches_nobody(attack, rule):
    """A colluding attack without attackers is no attack, on either engine."""
    s = setting(ROWS, GRAPHS["complete"], rule=rule, attack=attack, attackers=np.array([], dtype=int))
    assert assert_same_rounds(s, initial(s), seed=0, count=2) == 2
    assert_array_equal(after(s, 2).state.W, after(s._replace(attack="none"), 2).state.W)


def spy(thing, name, note):
    """Calls thing.name as ever, and note(*args) before."""
    call = getattr(thing, name)
    return mock.patch.object(thing, name, lambda *args: note(*args) or call(*args))


def scored_rows(s):
    """How many rows each product of a round scores, padding included."""
    found = []
    with parts(rows=10), spy(networks.Batched, "losses_of_all", lambda self, M, X, y: found.append(y.size)):
        after(s, 1)
    return found


@pytest.mark.parametrize("floats", [0, 200, 400, 2**20])
def test_every_workers_local_step_is_computed_once(floats):
    s = setting(ROWS, GRAPHS["complete"], attackers=np.array([1, 4]))
    with parts(floats=floats):
        found = [np.arange(7)[chunk.workers] for chunk in engine.plan(s).chunks]
    assert sorted(np.concatenate(found).tolist()) == list(range(7))


def test_receivers_of_one_neighbourhood_are_scored_without_padding():
    rows = [10, 100, *[10] * 6]
    assert sum(scored_rows(setting(rows, graphs.complete(8), attackers=np.array([], dtype=int)))) == sum(rows)


def test_hardly_any_padding_is_scored():
    """In slices of 10 rows, the worker with 100 rows is alone after the first."""
    links = [(0, 1), (2, 3), (0, 4), (1, 4), (2, 4), (3, 4)]
    s = setting([10, 100, 10, 10, 5], graphs.from_edges(5, links), attackers=np.array([4]))
    assert scored_rows(s) == [40, *[10] * 9]


@pytest.mark.parametrize("name", GRAPHS)
def test_neighbourhoods_beyond_what_fits_in_memory_are_taken_in_turn(name):
    s = setting(ROWS, GRAPHS[name], attack="alie", attackers=np.array([1, 4]))
    whole, count = after(s, 2), len(engine.plan(s).groups)
    with parts(floats=0):
        found = engine.plan(s).groups
        assert len(found) > count or name == "complete"
        assert all(len(group.receivers) == 1 for group in found)
        assert_allclose(after(s, 2).state.W, whole.state.W, rtol=1e-12)


@pytest.mark.parametrize("rule", ["adaptive", "inverse-risk", "average", "median", "medoid"])
@pytest.mark.parametrize("attackers", [[0], [1, 4], [3, 5, 6], [0, 1, 2, 3, 4, 6]], ids=str)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("attack", [name for name in PAPERS if ATTACKS[name].one_message])
def test_a_message_of_several_is_scored_once_and_counts_for_all(attack, name, attackers, rule):
    """The same as if every attacker sent a message of its own, which happened to be the same."""
    s = setting(ROWS, GRAPHS[name], rule=rule, attack=attack, attackers=np.array(attackers), risk="batch")
    scored, own_messages = [], {"each": ATTACKS[attack]._replace(one_message=False)}
    with (
        mock.patch.dict(ATTACKS, own_messages),
        spy(risks, "neighbour_risks", lambda network, M, *rest: scored.append(M.shape[1])),
    ):
        once, each = after(s, 2), after(s._replace(attack="each"), 2)
    assert_allclose(once.state.W, each.state.W, rtol=1e-12, atol=1e-15)
    if RULES[rule].weighs:
        assert_allclose(once.weights, each.weights, rtol=1e-12)
        if name == "complete":
            assert scored == [8 - len(attackers)] * 2 + [7, 7]


def test_a_rule_of_ones_own_hears_every_sender(monkeypatch):
    """Also those of one message: it may count them, or look at its own position among them."""
    seen = []

    def count(W, risks, own, f):
        seen.append((len(W), own, f))
        return W[own]

    monkeypatch.setitem(RULES, "mine", Rule(count, "counts", "-"))
    after(setting(ROWS, GRAPHS["ring"], rule="mine", attack="foe", attackers=np.array([0, 1])), 1)
    assert sorted(seen) == [(3, 1, 2)] * 4 + [(3, 2, 2)]


def overwrites(give):
    """A rule that writes to its models, and to its risks, before it gives `give`."""

    def compute(W, risks, own, f):
        W[:] = W[::-1].copy() * 2
        risks[:] = risks[::-1].copy()
        return give(W, risks, own, f)

    return compute


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", OWN_RULES)
def test_a_rule_that_writes_to_what_it_is_given_changes_nobody_elses(name, graph, monkeypatch):
    rule = OWN_RULES[name]
    monkeypatch.setitem(RULES, "mine", rule._replace(compute=overwrites(rule.compute)))
    s = setting(ROWS, GRAPHS[graph], rule="mine", attack="foe")
    assert assert_same_rounds(s, initial(s), seed=0, count=2) == 2


@pytest.mark.parametrize("one_message", [False, True])
@pytest.mark.parametrize("rule", ["adaptive", "average"])
def test_an_attack_that_writes_to_what_it_is_given_changes_nobody_elses(rule, one_message, monkeypatch):
    """The attacker comes last, so that the honest messages are adjacent and need no copy."""

    def send(own, honest, signals):
        own *= 3
        honest *= 2
        return -honest.mean(axis=0) if one_message else own

    monkeypatch.setitem(ATTACKS, "mine", Attack(send, "overwrites", "-", one_message=one_message))
    s = setting(ROWS, GRAPHS["complete"], rule=rule, attack="mine", attackers=np.array([6]))
    assert assert_same_rounds(s, initial(s), seed=0, count=2) == 2


@pytest.mark.parametrize("one_message", [False, True])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("rule", ["adaptive", "inverse-risk", "median", "local", "mine"])
def test_a_message_per_receiver(rule, graph, one_message):
    """Small enough to pass the filter of some receivers, and another one for each."""

    def send(place, own, receiver):
        near = receiver + 0.01 * (place + 1) * (own.mean(axis=0) if one_message else own)
        return near if place % 2 else receiver - 0.3 * own[0] if one_message else receiver - 0.3 * own

    entry = Attack(send, "to each", "-", ("place", "own", "receiver"), None, one_message, True)
    s = setting(ROWS, GRAPHS[graph], rule=rule, attack="mine", attackers=np.array([1, 4]))
    own_rule = next(iter(OWN_RULES.values()))
    with mock.patch.dict(ATTACKS, mine=entry), mock.patch.dict(RULES, mine=own_rule):
        assert assert_same_rounds(s, initial(s), seed=0, count=3) == 3


@pytest.mark.parametrize("rule", RULES)
def test_who_sends_all_the_same_pays_for_no_message_per_receiver(rule):
    """Four normal workers and three liars: the messages that a round makes room for, and looks at."""
    counts = {(False, False): 7, (False, True): 7, (True, False): 4 + 4 * 3, (True, True): 4 + 4 * 3}
    if RULES[rule].weighs:  # one message of several is scored once
        counts |= {(False, True): 4 + 1, (True, True): 4 + 4}
    for name, entry in ATTACKS.items():
        s = setting(ROWS, GRAPHS["complete"], rule=rule, attack=name, attackers=np.array([1, 2, 4]))
        made = engine.plan(s)
        per_receiver = entry.per_receiver and rule != "local"
        assert made.messages == (7 if rule == "local" else counts[entry.per_receiver, entry.one_message])
        assert (made.message.strides[0] > 0) == per_receiver  # else all have the same row
        assert len(made.lies) == (4 if per_receiver else 1)


def test_attackers_in_any_order_send_their_own_lies():
    s = setting(
        ROWS, GRAPHS["complete"], rule="inverse-risk", attack="arbitrary", attackers=np.array([5, 1, 3])
    )
    assert assert_same_rounds(s, initial(s), seed=0, count=2) == 2


@pytest.mark.parametrize("row", [-1, 9])
def test_a_row_that_nobody_has_is_refused(row):
    """In one array of all data it would be another worker's."""
    s = setting(ROWS, GRAPHS["complete"])
    batch = np.zeros((7, 5), int)
    batch[2, 1] = row
    with pytest.raises(IndexError, match=f"0 to 8, got {min(row, 0)} to {max(row, 0)}"):
        engine.engine(s).step(algorithm.start(s, initial(s)), batch)
