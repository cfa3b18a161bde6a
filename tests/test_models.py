"""Both networks: layout, risk, gradient and prediction, against scalar loops and differences."""

import numpy as np
import oracle_layers
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import models
from refimpl.arrays import quiet

CNN = models.cnn(side=7, channels=(3, 2), hidden=4, classes=3)  # 7 -> 3 -> 1: a row is dropped twice
MODELS = {
    "mlp": models.mlp([5, 4, 3]),
    "deep": models.mlp([3, 4, 5, 4]),
    "linear": models.mlp([3, 2]),
    "layers": models.as_layers(models.mlp([5, 4, 3])),
    "cnn": CNN,
    "flat": models.cnn(side=5, channels=(2,), hidden=3, classes=4),
}


def problem(model, n=6, dtype=float, seed=0):
    """w (d,), X (n, ...), y (n,) with a padding row; all read-only."""
    rng = np.random.default_rng([seed, n])
    w = rng.normal(size=model.layout.size, scale=0.7).astype(dtype)
    X = rng.normal(size=(n, *model.sample)).astype(dtype)
    y = rng.integers(0, model.layout.fields[-1].size, n)
    y[2] = -1
    for array in (w, X, y):
        array.flags.writeable = False
    return w, X, y


SHAPES = {
    "mlp": oracle_layers.mlp_shapes([5, 4, 3]),
    "deep": oracle_layers.mlp_shapes([3, 4, 5, 4]),
    "linear": oracle_layers.mlp_shapes([3, 2]),
    "layers": oracle_layers.mlp_shapes([5, 4, 3]),
    "cnn": oracle_layers.cnn_shapes(7, (3, 2), 4, 3),
    "flat": oracle_layers.cnn_shapes(5, (2,), 3, 4),
}
every_model = pytest.mark.parametrize("name", MODELS)


# --- layouts ------------------------------------------------------------------------------------------------


def test_the_papers_networks_have_their_sizes():
    assert models.mlp([57, 20, 2]).layout.size == 1202
    assert models.mlp([561, 100, 6]).layout.size == 56806
    assert models.cnn().layout.size == 130890


def test_mlp_layout():
    fields = [tuple(field) for field in models.mlp([57, 20, 2]).layout.fields]
    assert fields == [
        ("W1", 0, 1140, (57, 20), 57),
        ("b1", 1140, 20, (20,), 57),
        ("W2", 1160, 40, (20, 2), 20),
        ("b2", 1200, 2, (2,), 20),
    ]


def test_cnn_layout():
    fields = models.cnn().layout.fields
    assert {f.name: f.shape for f in fields} == oracle_layers.cnn_shapes(28, (32, 64, 64), 128, 10)
    assert [f.name for f in fields] == ["K1", "b1", "K2", "b2", "K3", "b3", "W4", "b4", "W5", "b5"]
    assert [f.fan_in for f in fields] == [9, 9, 288, 288, 576, 576, 576, 576, 128, 128]


def test_the_cnns_layers_are_in_the_order_of_the_papers_table():
    convolution, dense = ["conv2d", "relu", "maxpool2d"], ["affine", "relu", "affine"]
    expected = ["add_channel", *3 * convolution, "flatten", *dense]
    assert [layer.forward.__name__ for layer in models.cnn().layers] == expected


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


@every_model
def test_layout_is_the_order_of_the_layers(name):
    fields = MODELS[name].layout.fields
    assert {field.name: field.shape for field in fields} == SHAPES[name]
    assert [field.name for field in fields] == list(SHAPES[name])


@every_model
def test_risk_and_gradient_are_their_definition(name):
    model = MODELS[name]
    for seed in range(3):
        w, X, y = problem(model, seed=seed)
        assert model.risk(w, X, y) == pytest.approx(oracle_layers.risk(w, X, y, SHAPES[name]), rel=1e-12)
        expected = oracle_layers.gradient(w, X, y, SHAPES[name])
        assert_allclose(model.gradient(w, X, y), expected, rtol=1e-10, atol=1e-13)


def slope(model, w, v, X, y, h=1e-4):
    """The risk's derivative along v, by differences too short to cross a kink of these problems."""
    return oracle_layers.slope(lambda w: model.risk(w, X, y), w, v, h)


@every_model
def test_gradient_against_differences(name):
    model = MODELS[name]
    w, X, y = problem(model)
    g = model.gradient(w, X, y)
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(12):
        v = rng.normal(size=w.shape)
        v /= np.linalg.norm(v)
        errors.append(abs(slope(model, w, v, X, y) - g @ v) / np.linalg.norm(g))
    assert max(errors) < 1e-7


@every_model
def test_gradient_of_every_tensor(name):
    """Each tensor on its own, so that a wrong small one does not hide behind a large one."""
    model = MODELS[name]
    w, X, y = problem(model, seed=3)
    g = model.gradient(w, X, y)
    rng = np.random.default_rng(2)
    for field in model.layout.fields:
        v = np.zeros(w.shape)
        v[field.offset : field.offset + field.size] = rng.normal(size=field.size)
        v /= np.linalg.norm(v)
        size = np.linalg.norm(g[v != 0])
        assert abs(slope(model, w, v, X, y, h=1e-5) - g @ v) < 1e-7 * size, field.name


@every_model
def test_padding_rows_do_not_count(name):
    model = MODELS[name]
    w, X, y = problem(model)
    real = y >= 0
    wild = X.copy()
    wild[~real] = 1e6
    assert_allclose(model.risk(w, wild, y), model.risk(w, X[real], y[real]), rtol=1e-13)
    assert_allclose(model.gradient(w, wild, y), model.gradient(w, X[real], y[real]), rtol=1e-11, atol=1e-15)


# --- dtypes, inputs -----------------------------------------------------------------------------------------


@every_model
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_models_keep_dtype(name, dtype):
    """float32 in gives float32 out, which is the float64 result up to its rounding."""
    model = MODELS[name]
    w, X, y = problem(model, dtype=dtype)
    g, r, labels = model.gradient(w, X, y), model.risk(w, X, y), model.predict(w, X)
    assert g.dtype == r.dtype == dtype
    assert labels.dtype == np.int64
    eps = 200 * np.finfo(dtype).eps
    assert_allclose(g, model.gradient(w.astype(float), X.astype(float), y), rtol=eps, atol=eps)
    assert_allclose(r, model.risk(w.astype(float), X.astype(float), y), rtol=eps)


@every_model
def test_no_rows_no_gradient(name):
    model = MODELS[name]
    w, X, y = problem(model)
    assert_array_equal(model.gradient(w, X[:0], y[:0]), np.zeros(w.shape))
    assert model.predict(w, X[:0]).shape == (0,)


@every_model
def test_strided_inputs(name):
    model = MODELS[name]
    w, X, y = problem(model)
    expected = model.gradient(w, X, y), model.risk(w, X, y)
    w2, X2, y2 = (np.repeat(a, 2, axis=-1)[..., ::2] for a in (w, X, y))
    assert not w2.flags.c_contiguous
    assert_allclose(model.gradient(w2, X2, y2), expected[0], rtol=1e-12, atol=1e-15)
    assert_allclose(model.risk(w2, np.asfortranarray(X), y2), expected[1], rtol=1e-12)


# --- prediction and poison ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mlp", "layers"])
def test_predict_ties_go_to_the_lowest_label_and_nan_to_minus_one(name):
    model = models.mlp([2, 3]) if name == "mlp" else models.as_layers(models.mlp([2, 3]))
    w = np.zeros(model.layout.size)
    X = np.array([[1.0, 2.0], [0.0, np.nan], [3.0, 0.0]])
    assert_array_equal(model.predict(w, X), [0, -1, 0])
    model.layout.views(w)["b1"][...] = [-1, 2, 2]
    assert_array_equal(model.predict(w, X), [1, -1, 1])


@every_model
def test_predict_is_the_largest_logit(name):
    w, X, _ = problem(MODELS[name])
    t = oracle_layers.unflatten(w, SHAPES[name])
    logits = [oracle_layers.forward(t, x)[0] for x in X]
    assert_allclose(MODELS[name].logits(w, X), logits, rtol=1e-11, atol=1e-13)
    assert_array_equal(MODELS[name].predict(w, X), [z.index(max(z)) for z in logits])


@every_model
@quiet
def test_a_lost_model_is_lost_in_every_way(name):
    model = MODELS[name]
    w, X, y = problem(model)
    w = np.full_like(w, np.nan)
    assert np.isnan(model.risk(w, X, y))
    assert not np.isfinite(model.gradient(w, X, y)).any()
    assert_array_equal(model.predict(w, X), [-1] * 6)


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
