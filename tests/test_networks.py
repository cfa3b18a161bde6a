"""Many models at once equal one model at a time, however the leading axes lie and however the work is cut."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import layers, models
from refimpl.arrays import quiet
from refimpl.fast import elementwise, networks
from refimpl.fast.networks import batched
from refimpl.models import Layer, as_layers, layout

MODELS = {
    "mlp": models.mlp([5, 4, 3]),
    "deep": models.mlp([3, 4, 5, 4]),
    "linear": models.mlp([3, 2]),
    "cnn": models.cnn(side=7, channels=(3, 2), hidden=4, classes=3),  # 7 -> 3 -> 1: a row is dropped twice
    "flat": models.cnn(side=5, channels=(2,), hidden=3, classes=4),
}
all_models = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def problem(model, *lead, n=6, dtype=float, seed=0):
    """w (*lead, d), X (*lead, n, ...), y (*lead, n) with a padding row; all read-only."""
    rng = np.random.default_rng([seed, n, *lead])
    w = rng.normal(size=(*lead, model.layout.size), scale=0.7).astype(dtype)
    X = rng.normal(size=(*lead, n, *model.sample)).astype(dtype)
    y = rng.integers(0, model.layout.fields[-1].size, (*lead, n))
    y[..., 2] = -1
    for array in (w, X, y):
        array.flags.writeable = False
    return w, X, y


def losses(model, w, X, y):
    """Of one model, by the specification."""
    return layers.softmax_cross_entropy(model.logits(w, X), y)


# --- The specification, one model at a time -----------------------------------------------------------------


@all_models
@pytest.mark.parametrize("lead", [(1,), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_equal_one_at_a_time(model, dtype, lead):
    network = batched(model)
    w, X, y = problem(model, *lead, dtype=dtype)
    g, r, labels = network.gradient(w, X, y), network.risk(w, X, y), network.predict(w, X)
    each = network.losses(w, X, y)
    assert g.dtype == r.dtype == each.dtype == dtype
    assert labels.dtype == np.int64
    eps = 200 * np.finfo(dtype).eps
    for k in np.ndindex(lead):
        assert_allclose(g[k], model.gradient(w[k], X[k], y[k]), rtol=eps, atol=eps)
        assert_allclose(r[k], model.risk(w[k], X[k], y[k]), rtol=eps)
        assert_allclose(each[k], losses(model, w[k], X[k], y[k]), rtol=eps, atol=eps)
        assert_array_equal(labels[k], model.predict(w[k], X[k]))


@all_models
def test_receivers_score_every_model(model):
    """The receivers' rows one after the other, as the engine asks for them."""
    u, m, n, rows = 2, 3, 4, 6
    w, _, _ = problem(model, u, n)
    _, X, y = problem(model, u, m, n=rows)
    folded = batched(model).losses(w, X.reshape(u, 1, m * rows, *model.sample), y.reshape(u, 1, m * rows))
    for i, j, l in np.ndindex(u, m, n):
        expected = losses(model, w[i, l], X[i, j], y[i, j])
        assert_allclose(folded.reshape(u, n, m, rows)[i, l, j], expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("rows", [1, 20])
@all_models
def test_models_scored_together_are_those_scored_apart(model, rows):
    """With few rows and with many."""
    network = batched(model)
    w, _, _ = problem(model, 2, 4)
    _, X, y = problem(model, 2, 1, n=rows + 2)
    made = network.losses_of_all(w, network.prepared(X), y)
    assert_allclose(made, network.losses(w, X, y), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("sizes", "models_of_each", "rows"), [([57, 100, 6], 30, 1500), ([57, 20, 2], 4, 1200)]
)
def test_models_scored_together_on_more_rows_than_at_a_time(sizes, models_of_each, rows):
    """Of HAR's width in several parts, of Spambase's in one with more than 1000 rows."""
    model = models.mlp(sizes)
    network = batched(model)
    w, _, _ = problem(model, 1, models_of_each)
    _, X, y = problem(model, 1, 1, n=rows)
    made = network.losses_of_all(w, network.prepared(X), y)
    for l in (0, 1, models_of_each - 1):
        assert_allclose(made[0, l], losses(model, w[0, l], X[0, 0], y[0, 0]), rtol=1e-11, atol=1e-13)


@quiet
@pytest.mark.parametrize(
    "logits", [(0, 0), (3, -2), (-800, 800), (1e300, -1e300), (np.inf, 0), (-np.inf, 0), (np.nan, 0)]
)
def test_the_cross_entropy_of_two_classes_also_where_a_logit_is_not_finite(logits):
    z = np.array([logits, logits[::-1]], float)
    y = np.array([0, 1])
    expected = layers.softmax_cross_entropy(z, y)
    made = elementwise.cross_entropy(z.T.copy(), y)
    assert_allclose(made, expected, rtol=1e-14, atol=1e-15)


@all_models
def test_the_step_size_is_a_factor_of_the_gradient(model):
    network = batched(model)
    w, X, y = problem(model, 3)
    mu = np.array([[0.1], [2.0], [0.5]])
    made = network.step(w, network.prepared(X), y, mu)
    assert_allclose(made, mu * network.gradient(w, X, y), rtol=1e-12, atol=1e-15)


@all_models
def test_one_data_set_serves_all_models(model):
    network = batched(model)
    w, _, _ = problem(model, 3)
    _, X, y = problem(model, 1)
    assert_allclose(network.risk(w, X, y), [model.risk(w_k, X[0], y[0]) for w_k in w], rtol=1e-12)
    assert_array_equal(network.predict(w, X), [model.predict(w_k, X[0]) for w_k in w])


@all_models
def test_padding_rows_do_not_count(model):
    """Whatever they hold."""
    network = batched(model)
    w, X, y = problem(model, 2)
    wild = X.copy()
    wild[:, 2] = 1e6
    assert_array_equal(network.losses(w, wild, y)[:, 2], 0)
    assert_allclose(network.risk(w, wild, y), network.risk(w, X, y), rtol=1e-13)
    assert_allclose(network.gradient(w, wild, y), network.gradient(w, X, y), rtol=1e-11, atol=1e-15)


@all_models
@quiet
def test_a_poisoned_model_does_not_touch_the_others(model):
    network = batched(model)
    w, X, y = problem(model, 4)
    bad = w.copy()
    bad[1], bad[2] = np.nan, 1e300
    g, r = network.gradient(bad, X, y), network.risk(bad, X, y)
    assert np.isnan(r[1])
    assert not np.isfinite(g[1]).any()
    assert_array_equal(network.predict(bad, X)[1], [-1] * 6)
    for k in (0, 3):
        assert_allclose(g[k], model.gradient(w[k], X[k], y[k]), rtol=1e-11, atol=1e-13)
        assert_allclose(r[k], model.risk(w[k], X[k], y[k]), rtol=1e-13)


# --- Parts and memory ---------------------------------------------------------------------------------------


@all_models
@pytest.mark.parametrize("rows_at_a_time", [0, 1, 4, 7, 13])
def test_parts_do_not_change_the_result(model, rows_at_a_time, monkeypatch):
    network = batched(model)
    w, X, y = problem(model, 2, 3)

    def results():
        scored = network.losses(w[:, None], X[:, :, None], y[:, :, None])
        return [network.gradient(w, X, y), network.losses(w, X, y), scored]

    whole = results()
    monkeypatch.setattr(networks, "FLOATS", rows_at_a_time * network.floats)
    monkeypatch.setattr(networks, "device_factor", lambda xp: 1)
    for a, b in zip(whole, results(), strict=True):
        assert_allclose(b, a, rtol=1e-12, atol=1e-14)
    single = problem(model, 2, dtype=np.float32)
    assert network.losses(*single).dtype == network.gradient(*single).dtype == np.float32


@pytest.mark.parametrize("workers", [1, 5])
def test_a_workers_gradient_does_not_depend_on_the_others(workers, monkeypatch):
    """Bit for bit, since large models are cut the same way however many workers there are."""
    network = batched(MODELS["cnn"])
    monkeypatch.setattr(networks, "FLOATS", 4 * network.floats)
    w, X, y = problem(MODELS["cnn"], 5)
    some = network.gradient(w[:workers], X[:workers], y[:workers])
    assert_array_equal(some[0], network.gradient(w[:2], X[:2], y[:2])[0])


@all_models
def test_no_rows_no_gradient(model):
    network = batched(model)
    w, X, y = problem(model, 2)
    assert_array_equal(network.gradient(w, X[:, :0], y[:, :0]), np.zeros(w.shape))
    assert network.losses(w, X[:, :0], y[:, :0]).shape == (2, 0)
    assert network.predict(w, X[:, :0]).shape == (2, 0)


@all_models
def test_strided_inputs(model):
    network = batched(model)
    w, X, y = problem(model, 3)
    expected = network.gradient(w, X, y), network.losses(w, X, y)
    w2, X2, y2 = (np.repeat(a, 2, axis=-1)[..., ::2] for a in (w, X, y))
    assert not w2.flags.c_contiguous
    assert_allclose(network.gradient(w2, X2, y2), expected[0], rtol=1e-12, atol=1e-15)
    assert_allclose(network.losses(np.asfortranarray(w), np.asfortranarray(X), y2), expected[1], rtol=1e-12)


def test_a_large_batch_of_images_fits_in_little_memory():
    """The risk matrix of MNIST, on 4 x 3 x 16 images: all columns at once would take 43 MB in float32."""
    network = batched(models.cnn())
    rng = np.random.default_rng(0)
    w = rng.normal(size=(1, 3, network.layout.size), scale=0.05).astype("float32")
    X = rng.random((4, 1, 16, 28, 28)).astype("float32")
    y = rng.integers(0, 10, (4, 1, 16))
    tracemalloc.start()
    made = network.losses(w, X, y)
    network.gradient(w[0, :1].repeat(2, axis=0), X[:2, 0], y[:2, 0])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert made.shape == (4, 3, 16)
    assert peak < 20e6


# --- Networks that it does not know -------------------------------------------------------------------------


def doubled(x):
    return 2 * x


class WithAnotherRisk(models.MLP):
    """It has its own `risk`, but is an MLP."""

    def risk(self, w, X, y):
        return 2 * super().risk(w, X, y)


def other_networks():
    """Each one layer away from a network that it knows."""
    mlp, cnn = as_layers(MODELS["mlp"]), MODELS["cnn"]
    double = Layer(doubled, lambda dy, x: (2 * dy,))
    straight = Layer(layers.relu, lambda dy, x: (dy,))
    return {
        "a layer of one's own": mlp._replace(layers=(*mlp.layers[:1], double, *mlp.layers[2:])),
        "a derivative of one's own": mlp._replace(layers=(*mlp.layers[:1], straight, *mlp.layers[2:])),
        "a risk of one's own": WithAnotherRisk(*MODELS["mlp"]),
        "ReLU at the end": mlp._replace(layers=(*mlp.layers, mlp.layers[1])),
        "no ReLU": mlp._replace(layers=mlp.layers[::2]),
        "nothing": mlp._replace(layers=()),
        "no pooling": cnn._replace(layers=cnn.layers[:3] + cnn.layers[4:]),
        "pooling first": cnn._replace(layers=(*cnn.layers[:2], cnn.layers[3], cnn.layers[2], *cnn.layers[4:])),
        "not flattened": cnn._replace(layers=tuple(l for l in cnn.layers if l.forward is not layers.flatten)),
        "no channel": cnn._replace(layers=cnn.layers[1:]),
        "biases first": mlp._replace(
            layout=layout([("b1", (4,), 5), ("W1", (5, 4), 5), ("W2", (4, 3), 4), ("b2", (3,), 4)])
        ),
    }


@pytest.mark.parametrize("name", other_networks())
def test_a_network_that_is_not_known_is_not_guessed(name):
    assert batched(other_networks()[name]) is None


def test_a_model_that_is_no_network_is_not_known():
    assert batched(object()) is None
