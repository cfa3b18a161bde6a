"""Both networks: layout, risk, gradient and prediction, against scalar loops and differences."""

import numpy as np
import oracle_layers
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import models
from refimpl.arrays import quiet

CNN = models.cnn(side=7, channels=(3, 2), hidden=4, classes=3)  # 7 -> 3 -> 1: a row is dropped twice
MODELS = {
    "mlp": models.mlp([5, 4, 3]),
    "deep": models.mlp([3, 4, 5, 4]),
    "linear": models.mlp([3, 2]),
    "cnn": CNN,
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


SHAPES = {
    "mlp": oracle_layers.mlp_shapes([5, 4, 3]),
    "deep": oracle_layers.mlp_shapes([3, 4, 5, 4]),
    "linear": oracle_layers.mlp_shapes([3, 2]),
    "cnn": oracle_layers.cnn_shapes(7, (3, 2), 4, 3),
    "flat": oracle_layers.cnn_shapes(5, (2,), 3, 4),
}
by_name = pytest.mark.parametrize("name", MODELS)


# --- layouts ------------------------------------------------------------------------------------------------


def test_the_papers_networks_have_their_sizes():
    assert models.mlp([57, 20, 2]).layout.size == 1202
    assert models.mlp([561, 100, 6]).layout.size == 56806
    assert models.cnn().layout.size == 130890


def test_mlp_layout():
    fields = [tuple(field) for field in models.mlp([57, 20, 2]).layout.fields]
    assert fields == [
        ("W1", 0, (57, 20), 57),
        ("b1", 1140, (20,), 57),
        ("W2", 1160, (20, 2), 20),
        ("b2", 1200, (2,), 20),
    ]


def test_cnn_layout():
    fields = models.cnn().layout.fields
    assert {f.name: f.shape for f in fields} == oracle_layers.cnn_shapes(28, (32, 64, 64), 128, 10)
    assert [f.name for f in fields] == ["K1", "b1", "K2", "b2", "K3", "b3", "W4", "b4", "W5", "b5"]
    assert [f.fan_in for f in fields] == [9, 9, 288, 288, 576, 576, 576, 576, 128, 128]


@pytest.mark.parametrize("sizes", [[], [3]])
def test_mlp_needs_two_sizes(sizes):
    with pytest.raises(ValueError, match="mlp needs at least"):
        models.mlp(sizes)


@pytest.mark.parametrize(("side", "channels"), [(28, ()), (7, (2, 2, 2)), (1, (2,))])
def test_cnn_needs_a_pixel_to_be_left(side, channels):
    with pytest.raises(ValueError, match="cnn needs"):
        models.cnn(side, channels)


def test_smallest_cnn():
    model = models.cnn(side=8, channels=(1, 1, 1), hidden=1, classes=2)
    w, X, y = problem(model)
    shapes = oracle_layers.cnn_shapes(8, (1, 1, 1), 1, 2)
    assert model.risk(w, X, y) == pytest.approx(oracle_layers.risk(w, X, y, shapes), rel=1e-12)


# --- risk and gradient --------------------------------------------------------------------------------------


@by_name
def test_layout_is_the_order_of_the_layers(name):
    fields = MODELS[name].layout.fields
    assert {field.name: field.shape for field in fields} == SHAPES[name]
    assert [field.name for field in fields] == list(SHAPES[name])


@by_name
def test_risk_and_gradient_are_their_definition(name):
    model = MODELS[name]
    for seed in range(3):
        w, X, y = problem(model, seed=seed)
        assert model.risk(w, X, y) == pytest.approx(oracle_layers.risk(w, X, y, SHAPES[name]), rel=1e-12)
        expected = oracle_layers.gradient(w, X, y, SHAPES[name])
        assert_allclose(model.gradient(w, X, y), expected, rtol=1e-10, atol=1e-13)


def slope(model, w, v, X, y, h=1e-4):
    """The risk's derivative along v: sixth-order differences, too short to cross a kink of these problems."""
    at = [float(model.risk(w + i * h * v, X, y)) for i in (-3, -2, -1, 1, 2, 3)]
    return np.dot(at, [-1 / 60, 3 / 20, -3 / 4, 3 / 4, -3 / 20, 1 / 60]) / h


@all_models
def test_gradient_against_differences(model):
    w, X, y = problem(model)
    g = model.gradient(w, X, y)
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(12):
        v = rng.normal(size=w.shape)
        v /= np.linalg.norm(v)
        errors.append(abs(slope(model, w, v, X, y) - g @ v) / np.linalg.norm(g))
    assert max(errors) < 1e-7


@all_models
def test_gradient_of_every_tensor(model):
    """Each tensor on its own, so that a wrong small one does not hide behind a large one."""
    w, X, y = problem(model, seed=3)
    g = model.gradient(w, X, y)
    rng = np.random.default_rng(2)
    for field in model.layout.fields:
        v = np.zeros(w.shape)
        v[field.offset : field.offset + field.size] = rng.normal(size=field.size)
        v /= np.linalg.norm(v)
        size = np.linalg.norm(g[v != 0])
        assert abs(slope(model, w, v, X, y, h=1e-5) - g @ v) < 1e-7 * size, field.name


@all_models
def test_padding_rows_do_not_count(model):
    w, X, y = problem(model)
    real = y >= 0
    wild = X.copy()
    wild[~real] = 1e6
    assert_allclose(model.risk(w, wild, y), model.risk(w, X[real], y[real]), rtol=1e-13)
    assert_allclose(model.gradient(w, wild, y), model.gradient(w, X[real], y[real]), rtol=1e-11, atol=1e-15)
    assert model.losses(w, wild, y)[2] == 0


@all_models
def test_loss_is_the_sum_and_risk_the_mean(model):
    w, X, y = problem(model, 3)
    losses = model.losses(w, X, y)
    assert losses.shape == y.shape
    assert_array_equal(model.loss(w, X, y), losses.sum(axis=-1))
    assert_allclose(model.risk(w, X, y), losses.sum(axis=-1) / 5, rtol=1e-15)


# --- leading axes, slices, dtypes ---------------------------------------------------------------------------


@all_models
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batched_equals_looped(model, dtype):
    w, X, y = problem(model, 2, 3, dtype=dtype)
    g, r, labels = model.gradient(w, X, y), model.risk(w, X, y), model.predict(w, X)
    assert g.dtype == r.dtype == dtype
    assert labels.dtype == np.int64
    eps = 200 * np.finfo(dtype).eps
    for k in np.ndindex(2, 3):
        assert_allclose(g[k], model.gradient(w[k], X[k], y[k]), rtol=eps, atol=eps)
        assert_allclose(r[k], model.risk(w[k], X[k], y[k]), rtol=eps)
        assert_array_equal(labels[k], model.predict(w[k], X[k]))


@all_models
def test_one_worker_is_a_batch_of_one(model):
    w, X, y = problem(model)
    assert_array_equal(model.gradient(w[None], X[None], y[None])[0], model.gradient(w, X, y))
    assert_array_equal(model.risk(w[None], X[None], y[None])[0], model.risk(w, X, y))


@all_models
def test_receivers_score_every_model(model):
    """The forms in which the risk matrix can be asked for: all equal a loop."""
    u, m, n, rows = 2, 3, 4, 6
    w, _, _ = problem(model, u, n)
    _, X, y = problem(model, u, m, n=rows)
    expected = [[[model.loss(w[i, l], X[i, k], y[i, k]) for l in range(n)] for k in range(m)] for i in range(u)]
    plain = model.loss(w[:, None], X[:, :, None], y[:, :, None])
    assert_allclose(plain, expected, rtol=1e-12)
    folded = model.losses(w, X.reshape(u, 1, m * rows, *model.sample), y.reshape(u, 1, m * rows))
    assert_allclose(folded.reshape(u, n, m, rows).sum(axis=-1).swapaxes(1, 2), expected, rtol=1e-12)


@all_models
def test_one_data_set_serves_all_workers(model):
    w, _, _ = problem(model, 3)
    _, X, y = problem(model)
    for f in (model.risk, model.gradient, model.losses):
        assert_allclose(f(w, X, y), [f(w_k, X, y) for w_k in w], rtol=1e-12, atol=1e-15)
    assert_array_equal(model.predict(w, X), [model.predict(w_k, X) for w_k in w])


@all_models
@pytest.mark.parametrize("rows_at_a_time", [0, 1, 4, 7, 13])
def test_slices_do_not_change_the_result(model, rows_at_a_time, monkeypatch):
    w, X, y = problem(model, 2, 3)

    def results():
        scored = model.losses(w[:, None], X[:, :, None], y[:, :, None])
        return [model.gradient(w, X, y), model.losses(w, X, y), scored]

    whole = results()
    monkeypatch.setattr(models, "FLOATS", rows_at_a_time * model.floats)
    cut = results()
    for a, b in zip(whole, cut, strict=True):
        assert_allclose(b, a, rtol=1e-12, atol=1e-14)
    single = problem(model, 2, dtype=np.float32)
    assert model.losses(*single).dtype == model.gradient(*single).dtype == np.float32


@pytest.mark.parametrize("workers", [1, 5])
def test_a_workers_gradient_does_not_depend_on_the_others(workers, monkeypatch):
    """Bit for bit, since large models are cut the same way however many workers there are."""
    monkeypatch.setattr(models, "FLOATS", 4 * CNN.floats)
    w, X, y = problem(CNN, 5)
    assert_array_equal(CNN.gradient(w[:workers], X[:workers], y[:workers])[0], CNN.gradient(w[0], X[0], y[0]))


@given(st.lists(st.integers(0, 5), max_size=4).map(tuple), st.integers(0, 30))
def test_boxes_cover_every_entry_once(shape, most):
    count = np.zeros(shape, int)
    for box in models.boxes(shape, most):
        assert len(box) == len(shape)
        assert count[box].size <= max(1, most)
        count[box] += 1
    assert (count == 1).all()


@all_models
def test_no_rows_no_gradient(model):
    w, X, y = problem(model)
    assert_array_equal(model.gradient(w, X[:0], y[:0]), np.zeros(w.shape))
    assert model.losses(w, X[:0], y[:0]).shape == (0,)
    assert model.predict(w, X[:0]).shape == (0,)


@all_models
def test_strided_inputs(model):
    w, X, y = problem(model, 3)
    expected = model.gradient(w, X, y), model.losses(w, X, y)
    w2, X2, y2 = (np.repeat(a, 2, axis=-1)[..., ::2] for a in (w, X, y))
    assert not w2.flags.c_contiguous
    assert_allclose(model.gradient(w2, X2, y2), expected[0], rtol=1e-12, atol=1e-15)
    assert_allclose(model.losses(np.asfortranarray(w), np.asfortranarray(X), y2), expected[1], rtol=1e-12)


# --- prediction and poison ----------------------------------------------------------------------------------


def test_predict_ties_go_to_the_lowest_label_and_nan_to_minus_one():
    model = models.mlp([2, 3])
    w = np.zeros(model.layout.size)
    X = np.array([[1.0, 2.0], [0.0, np.nan], [3.0, 0.0]])
    assert_array_equal(model.predict(w, X), [0, -1, 0])
    model.layout.views(w)["b1"][...] = [-1, 2, 2]
    assert_array_equal(model.predict(w, X), [1, -1, 1])


@by_name
def test_predict_is_the_largest_logit(name):
    w, X, _ = problem(MODELS[name])
    t = oracle_layers.unflatten(w, SHAPES[name])
    logits = [oracle_layers.forward(t, x)[0] for x in X]
    assert_allclose(MODELS[name].logits(w, X), logits, rtol=1e-11, atol=1e-13)
    assert_array_equal(MODELS[name].predict(w, X), [z.index(max(z)) for z in logits])


@all_models
@quiet
def test_a_poisoned_model_does_not_touch_the_others(model):
    w, X, y = problem(model, 4)
    bad = w.copy()
    bad[1], bad[2] = np.nan, 1e300
    g, r = model.gradient(bad, X, y), model.risk(bad, X, y)
    assert np.isnan(r[1])
    assert not np.isfinite(g[1]).any()
    for k in (0, 3):
        assert_allclose(g[k], model.gradient(w[k], X[k], y[k]), rtol=1e-12, atol=1e-15)
        assert_allclose(r[k], model.risk(w[k], X[k], y[k]), rtol=1e-13)
    assert_array_equal(model.predict(bad, X)[1], [-1] * 6)


def test_flattening_is_row_column_channel():
    """Feature 2 of W2 is pixel (0, 1), channel 0, in a network with 2 channels and 2x2 pixels left."""
    model = models.cnn(side=4, channels=(2,), hidden=1, classes=2)
    w = np.zeros(model.layout.size)
    t = model.layout.views(w)
    t["K1"][1, 1, 0] = [1, 10]  # the pixel itself
    t["W2"][2, 0] = t["W3"][0, 1] = 1
    X = np.zeros((1, 4, 4))
    X[0, 1, 2], X[0, 3, 0] = 5, 7
    assert_array_equal(model.logits(w, X), [[0, 5]])


def test_a_large_batch_of_images_fits_in_little_memory():
    """The risk matrix of MNIST, on 4 x 3 x 16 images: all columns at once would take 43 MB in float32."""
    import tracemalloc

    model = models.cnn()
    rng = np.random.default_rng(0)
    w = rng.normal(size=(1, 3, model.layout.size), scale=0.05).astype("float32")
    X = rng.random((4, 1, 16, 28, 28)).astype("float32")
    y = rng.integers(0, 10, (4, 1, 16))
    tracemalloc.start()
    losses = model.losses(w, X, y)
    model.gradient(w[0, :1].repeat(2, axis=0), X[:2, 0], y[:2, 0])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert losses.shape == (4, 3, 16)
    assert peak < 20e6
