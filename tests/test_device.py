"""The same code on another array module: the strict stand-in always, CuPy where there is one (`pytest -m gpu`).

Everything is compared with numpy, float64 to rtol 1e-10 / atol 1e-13 and float32 to rtol 1e-4 / atol 1e-5.
"""

import dataclasses
import functools
import os
import subprocess
import sys

import launches
import numpy as np
import pytest
from on_device import TOLERANCES, moved
from problems import PAPERS, sent_by

from data_loaders import Dataset
from refimpl import aggregate, algorithm, arrays, attacks, draws, graphs, layers, models, optim, released, train
from refimpl.aggregate import RULES
from refimpl.engine import Engine
from refimpl.experiments import cli, grid, tasks
from refimpl.experiments.options import parser
from refimpl.experiments.results import load
from refimpl.fast import engine, networks, rules
from refimpl.fast import released as fast_released
from refimpl.fast.conv_pool import conv_pool

dtypes = pytest.mark.parametrize("dtype", ["float64", "float32"])

# --- Every rule, attack, layer, model and optimiser ---------------------------------------------------------


def leaves(value):
    """The arrays in a result."""
    if not isinstance(value, (tuple, list)):
        return [value]
    return [leaf for part in value for leaf in leaves(part)]


def assert_same(xp, function, *inputs):
    """`function` of device arrays is on the device and equals that of numpy arrays, dtype and shape too."""
    expected = leaves(arrays.quiet(function)(*inputs))
    for array, host in zip(leaves(function(*moved(inputs, xp))), expected, strict=True):
        if isinstance(host, (int, type(None))):
            assert array == host
            continue
        assert arrays.module_of(array) is xp
        assert (array.dtype, array.shape) == (host.dtype, host.shape)
        np.testing.assert_allclose(array.get(), host, **TOLERANCES.get(str(host.dtype), {"rtol": 0}))


def normal(*shape, dtype="float64", seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def poisoned(W):
    """Some models as attackers send them: NaN, infinite, and so large that squares overflow."""
    W = W.copy()
    W[..., 1, :], W[..., 4, 2], W[..., 6, :] = np.nan, -np.inf, np.finfo(W.dtype).max
    return W


GIVE_MODELS = [name for name, rule in RULES.items() if not rule.scores]
WEIGH = [name for name, rule in RULES.items() if rule.weighs]


@dtypes
@pytest.mark.parametrize("name", GIVE_MODELS)
def test_rules(name, dtype, xp):
    for W in (normal(11, 40, dtype=dtype), poisoned(normal(11, 40, dtype=dtype))):
        assert_same(xp, lambda W: RULES[name].compute(W, None, 3, 4), W)


@dtypes
@pytest.mark.parametrize("name", [name for name in GIVE_MODELS if name != "local"])
def test_rules_for_many_neighbourhoods(name, dtype, xp):
    twin, W = rules.TWINS[RULES[name].compute], normal(6, 11, 40, dtype=dtype)
    for models_ in (W, poisoned(W)):
        assert_same(xp, lambda W: twin.models(W, 4), models_)


def some_risks(dtype):
    risks = np.abs(normal(6, 5, dtype=dtype))
    risks[1, 2:], risks[2], risks[3, 0], risks[4, 3] = np.inf, np.nan, 0, np.nan
    return risks, np.array([0, 4, 1, 2, 3, 0])


@dtypes
@pytest.mark.parametrize("name", WEIGH)
def test_weights(name, dtype, xp):
    risks, own = some_risks(dtype)
    for r, k in zip(risks, own, strict=True):
        assert_same(xp, lambda r, k=int(k): RULES[name].compute(None, r, k, 0), r)
    twin = rules.TWINS[RULES[name].compute]
    assert_same(xp, twin.weights, risks, own)
    weights, W = twin.weights(risks, own), poisoned(normal(7, 40, dtype=dtype))[:5]

    def combined(weights, M):
        xp = arrays.module_of(M)
        W = xp.zeros((6, 40), M.dtype)
        rules.combine_into(weights[None], M[None], rules.all_finite(M), W, xp.arange(6)[None], slice(0, 6))
        return W

    for combine, some in ((aggregate.combine, weights[0]), (combined, weights)):
        assert_same(xp, combine, some, W)
        assert_same(xp, combine, some, normal(5, 40, dtype=dtype))


@dtypes
@pytest.mark.parametrize("name", PAPERS)
def test_attacks(name, dtype, xp):
    own, honest, signals = (normal(n, 40, dtype=dtype, seed=i) for i, n in enumerate((3, 7, 3)))
    assert_same(xp, functools.partial(sent_by, attacks.ATTACKS[name]), own, honest, signals)


@pytest.mark.parametrize("name", [name for name in attacks.ATTACKS if name not in PAPERS])
def test_attacks_of_other_papers_and_ours(name, xp):
    """What two normal workers are sent in round 301, when patience has ended, of all that there is to know."""
    model, draw = models.mlp([4, 3, 2]), attacks.ATTACKS[name].draw

    def sent(X, y, before, W, batch, signals):
        s = algorithm.Setting(model, X, y, graphs.complete(3), np.array([1]), attack=name)
        return algorithm.messages(s, W, signals, algorithm.State(before, before[None][:0], 300), batch)

    before, W = (normal(3, model.layout.size, seed=seed) for seed in (0, 1))
    signals = draw(1, model.layout.size, np.random.default_rng(0)) if draw else None
    y, batch = np.arange(15).reshape(3, 5) % 2, np.arange(6).reshape(3, 2) % 5
    assert_same(xp, sent, normal(3, 5, 4), y, before, W, batch, signals)


LAYERS = {
    "affine": (layers.affine, (4, 3), (3, 5), (5,)),
    "affine_backward": (layers.affine_backward, (4, 5), (4, 3), (3, 5), (5,)),
    "relu": (layers.relu, (4, 3)),
    "relu_backward": (layers.relu_backward, (4, 3), (4, 3)),
    "add_channel": (layers.add_channel, (3, 5, 4)),
    "add_channel_backward": (layers.add_channel_backward, (3, 5, 4, 1), (3, 5, 4)),
    "conv2d": (layers.conv2d, (3, 5, 4, 3), (3, 3, 3, 2), (2,)),
    "conv2d_backward": (layers.conv2d_backward, (3, 5, 4, 2), (3, 5, 4, 3), (3, 3, 3, 2), (2,)),
    "maxpool2d": (layers.maxpool2d, (3, 5, 4, 2)),
    "flatten": (layers.flatten, (3, 5, 4, 2)),
    "flatten_backward": (layers.flatten_backward, (3, 40), (3, 5, 4, 2)),
    "conv_pool": (conv_pool, (2, 5, 4, 3, 2), (2, 3, 3, 2, 4)),
    "conv_pool of an image": (functools.partial(conv_pool, image=True), (2, 5, 4, 3, 1), (2, 3, 3, 1, 4)),
}


@dtypes
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, dtype, xp):
    layer, *shapes = LAYERS[name]
    assert_same(xp, layer, *[normal(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)])


@dtypes
def test_pooling_back_and_losses(dtype, xp):
    x = np.round(normal(3, 5, 4, 2, dtype=dtype))  # ties
    assert_same(xp, layers.maxpool2d_backward, normal(3, 2, 2, 2, dtype=dtype), x)
    z, y = 50 * normal(5, 3, dtype=dtype), np.array([0, 2, -1, 1, 1])
    for loss in (layers.softmax_cross_entropy, layers.softmax_cross_entropy_backward):
        assert_same(xp, loss, z, y)
    for loss in (networks.cross_entropy, networks.cross_entropy_backward):
        assert_same(xp, lambda z, y, loss=loss: loss(z.T.copy(), y), z, y)


MODELS = {"mlp": models.mlp([5, 4, 3]), "cnn": models.cnn(9, (3, 2), 4, 3)}


def inputs(method, model, dtype):
    """For three models at once."""
    w, X = normal(3, model.layout.size, dtype=dtype), normal(3, 6, *model.sample, dtype=dtype)
    y = np.random.default_rng(0).integers(-1, 3, (3, 6))
    return (w, X) if method in ("logits", "predict") else (w, X, y)


@dtypes
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", ["logits", "risk", "gradient", "predict"])
def test_models(method, name, dtype, xp):
    for given in zip(*inputs(method, MODELS[name], dtype), strict=True):
        assert_same(xp, getattr(MODELS[name], method), *given)


@dtypes
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", ["logits", "losses", "risk", "gradient", "predict"])
def test_networks(method, name, dtype, xp, monkeypatch):
    network = networks.batched(MODELS[name])
    given = inputs(method, MODELS[name], dtype)
    if method == "logits":
        given = (given[0], network.prepared(given[1]))
    assert_same(xp, getattr(network, method), *given)
    monkeypatch.setattr(networks, "FLOATS", 4 * network.floats)
    monkeypatch.setattr(
        networks, "device_factor", lambda _: 1
    )  # few rows at a time, as if there were many more
    assert_same(xp, getattr(network, method), *given)


@dtypes
@pytest.mark.parametrize("name", optim.OPTIMIZERS)
def test_optimizers(name, dtype, xp):
    step, slots, *_ = optim.OPTIMIZERS[name]

    def three_steps(W, G, memory):
        for t, scale in enumerate((1, -2, 3), start=1):
            W, memory = step(W, scale * G, memory, 0.1, t)
        return W, memory

    W, G = normal(3, 8, dtype=dtype), normal(3, 8, dtype=dtype, seed=1)
    assert_same(xp, three_steps, W, G, np.zeros((slots, 3, 8), dtype))


DIFFERENCES = ["smoothed-risk", "previous-message", "idle-attackers", "lower-median", "unsquared-krum"]
ENGINES = {
    "plain": train.plain,
    "fast": engine.engine,
    "released": functools.partial(released.engine, differences=DIFFERENCES),
    "fast released": functools.partial(fast_released.engine, differences=DIFFERENCES),
}
OPTIONS = {
    "as it is": {},
    "every option": {
        "risk": "batch",
        "rule": "inverse-risk",
        "optimizer": "adam",
        "l2": 0.1,
        "step_size": lambda k, t: 0.1 / (k + t),
    },
    "one message": {"attack": "alie"},
    "a model": {"rule": "krum", "attackers": np.array([], dtype=int)},
}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("graph", [graphs.complete(8), graphs.ring(8)], ids=["complete", "ring"])
@pytest.mark.parametrize("options", OPTIONS)
def test_rounds(options, graph, name, xp):
    """All that a round says, on ragged data."""

    def third_round(X, y, W):
        given = {"attackers": np.array([2, 5]), "attack": "arbitrary", "batch_size": 3} | OPTIONS[options]
        s = algorithm.Setting(models.mlp([5, 4, 3]), X, y, graph, **given)
        rounds = train.rounds(s, W, seed=0, engine=ENGINES[name])
        made = [next(rounds) for _ in range(3)][-1]
        return made.state if name == "fast" else made

    y = np.random.default_rng(0).integers(0, 3, (8, 9))
    y[1::2, 6:] = -1
    assert_same(xp, third_round, normal(8, 9, 5), y, normal(8, models.mlp([5, 4, 3]).layout.size))


# --- Whole runs ---------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    """HAR with 30 people of 8 rows, MNIST with 40 + 10 images."""
    rng, labels = np.random.default_rng(0), np.arange(240) % 6
    har = Dataset(rng.uniform(-1, 1, (240, 561)), labels, np.repeat(np.arange(30), 8))
    images, digits = rng.random((50, 28, 28)).astype(np.float32), np.arange(50) % 10
    mnist = Dataset(images[:40], digits[:40], X_test=images[40:], y_test=digits[40:])
    for task, data in (("har", har), ("mnist", mnist)):
        loaded = tasks.TASKS[task]._replace(load=lambda _, data=data: data)
        monkeypatch.setitem(tasks.TASKS, task, loaded)
    yield
    tasks._load.cache_clear()
    tasks.build_data.cache_clear()


EXAMPLES = {
    "spambase": "--attacks arbitrary --batch-size 100",
    "har": "--rules adaptive trimmed-mean multi-krum --attacks alie --batch-size 3",
    "mnist": "--rules adaptive average mozi --attacks foe --workers 5 --attackers 1 --batch-size 4",
}
FEW = {  # for the specification, which takes its time
    "spambase": "--rules adaptive median --attacks arbitrary --workers 4 --attackers 1 --batch-size 400",
    "har": "--rules adaptive --attacks alie --workers 4 --attackers 1 --batch-size 30 --partition iid",
    "mnist": "--rules adaptive --attacks foe --workers 3 --attackers 1 --batch-size 7 --partition iid",
}


@dtypes
@pytest.mark.parametrize("task", EXAMPLES)
@pytest.mark.parametrize("plain", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["fast", "plain"])
@pytest.mark.slow
def test_examples(plain, task, dtype, xp, small, tmp_path):
    """The command of each example with --gpu gives the numbers that it gives without."""
    command = f"{FEW[task]} --plain" if plain else EXAMPLES[task]
    found = {}
    for where, options in (("host", ""), ("device", "--gpu --device 0")):
        tasks._load.cache_clear()
        tasks.build_data.cache_clear()
        argv = f"{command} --epochs 1 --dtype {dtype} --jobs 1 --out {tmp_path / where} {options}"
        assert cli.main(task, argv.split()) == 0
        results = map(load, (tmp_path / where).glob("*.json"))
        found[where] = {result.config.rule: result for result in results}
    assert found["host"].keys() == found["device"].keys()
    accuracy = TOLERANCES[dtype] if dtype == "float64" else {"atol": 0.1}  # float32 may turn a close call
    for rule, host in found["host"].items():
        device = found["device"][rule]
        assert xp.__name__ in device.versions
        for name, column in host.history.items():
            tolerance = TOLERANCES[dtype] if "loss" in name else accuracy
            np.testing.assert_allclose(device.history[name], column, **tolerance)
        for epoch, weights in host.weights_at.items():
            np.testing.assert_allclose(device.weights_at[epoch], weights, **TOLERANCES[dtype])


@dtypes
def test_a_device_sees_the_same_draws_bit_for_bit(dtype, xp):
    """Partition, initial values, batches and signals, over more than an epoch."""
    argv = f"--attacks arbitrary --batch-size 200 --dtype {dtype}".split()
    config = cli.configs("spambase", parser("spambase").parse_args(argv))[0]
    seen = {}
    for module in (np, xp):
        s, test, W = tasks.build(config, xp=module)
        drawn = [*s.X, *s.y, *test[:3], W, s.attackers]

        def spy(s, drawn=drawn):
            step, model = engine.engine(s)
            return Engine(lambda *args: drawn.extend(args[1:]) or step(*args), model)

        train.run(s, test, W, seed=3, epochs=2, engine=spy)
        seen[module] = [arrays.to_host(array).copy() for array in drawn]
    assert len(seen[np]) == 25 + 2 * 2 * draws.rounds_per_epoch(train.sizes(s), 200)
    for host, device in zip(seen[np], seen[xp], strict=True):
        assert host.dtype == device.dtype
        np.testing.assert_array_equal(device, host)


@pytest.mark.parametrize("attackers", [[1, 1], [-1], [7]])
def test_attackers_that_a_device_would_not_notice_are_refused(attackers):
    """CuPy wraps an index out of bounds round, and of repeated ones any may win."""
    setting, _ = launches.problem(np, 7, attackers=np.array(attackers))
    with pytest.raises(ValueError, match="attackers must be different workers of 0 to 6, got "):
        train.check(setting)


# --- Costs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_launches_and_copies_do_not_grow_with_the_workers(rule, xp):
    if launches.counts(xp) is None:
        pytest.skip("a real GPU does not count its launches")
    few = launches.per_round(xp, 10, rule=rule)
    assert launches.per_round(xp, 17, rule=rule) == few
    assert launches.per_round(xp, 10, rule=rule, rows=300) == few
    assert few[1:] == (0, 0)


def test_batches_move_once_an_epoch_and_metrics_come_back_once(xp):
    if launches.counts(xp) is None:
        pytest.skip("a real GPU does not count its copies")
    assert launches.per_epoch(xp, 10, rule="average")[1:] == (2, 1)  # the batches, and whom to evaluate
    assert launches.per_epoch(xp, 10)[1:] == (2, 4)  # the weights of the last round, too
    assert launches.per_epoch(xp, 10, rule="average", attack="arbitrary")[1:] == (
        2 + 5,
        1,
    )  # signals are drawn for every round


@pytest.mark.gpu
def test_processes_share_the_device(cupy, tmp_path):
    """Each of joblib's processes asks for the device itself."""
    options = "--gpu --device 0 --jobs 2 --rules average krum --attacks foe --epochs 1 --out"
    assert cli.main("spambase", [*options.split(), str(tmp_path)]) == 0
    for path in tmp_path.glob("*.json"):
        result = load(path)
        assert "cupy" in result.versions
        host = grid.run(dataclasses.replace(result.config, gpu=False))
        np.testing.assert_allclose(result.history["mean_loss"], host.history["mean_loss"], rtol=1e-10)


@pytest.mark.gpu
def test_tf32_stays_off(cupy):
    program = """
from refimpl import arrays
xp = arrays.gpu()
a = xp.ones((2, 2), 'float32') @ xp.ones((2, 2), 'float32')
from cupy._core import _routines_linalg as linalg
print(linalg.compute_type_to_str(linalg.get_compute_type(a.dtype)))
"""
    env = {**os.environ, "CUPY_TF32": "1"}
    said = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["COMPUTE_TYPE_DEFAULT"]
