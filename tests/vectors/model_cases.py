"""The families mlp and cnn: whole models, their risk, gradient and predictions."""

import numpy as np
from common import MARGIN, Spec, case, draw, error, file, unlike
from layer_cases import conv2d, slopes

from refimpl import layers


def mlp(*sizes):
    return Spec({"kind": "mlp", "sizes": list(sizes)})


def cnn(side, channels, hidden, classes):
    return Spec({"kind": "cnn", "side": side, "channels": list(channels), "hidden": hidden, "classes": classes})


def clear(spec, w, X, labels=True):
    """Asserts that no ReLU, no max-pooling window and no predicted label hangs on rounding."""
    t, rows, numbers = spec.model.layout.views(w), len(X), range(1, 1 + len(spec.model.layout.fields) // 2)
    x = X[..., None] if "channels" in spec.description else X
    for i in numbers:
        if f"K{i}" in t:
            z = conv2d(x, t[f"K{i}"])
            y = layers.maxpool2d(z) + t[f"b{i}"]
            h, w_ = y.shape[1:3]
            windows = (
                z[:, : 2 * h, : 2 * w_]
                .reshape(rows, h, 2, w_, 2, -1)
                .swapaxes(2, 3)
                .reshape(*y.shape[:3], 4, -1)
            )
            top = np.sort(windows, axis=3)
            assert (top[..., 3, :] - top[..., 2, :])[y > 0].min(initial=1) > MARGIN
        else:
            y = layers.affine(x.reshape(rows, -1), t[f"W{i}"], t[f"b{i}"])
        if i < numbers[-1]:
            assert abs(y).min() > MARGIN
            x = layers.relu(y)
    top = np.sort(y, axis=1)
    assert not labels or (top[:, -1] - top[:, -2]).min() > MARGIN


def gradient_is_right(spec, w, X, y):
    """Asserts clear decisions and that central differences of the risk give the gradient."""
    clear(spec, w, X)
    right = spec.model.gradient(w, X, y)
    assert np.allclose(slopes(lambda w: spec.model.risk(w, X, y), w, 1.0), right, rtol=1e-6, atol=1e-8)
    return right


def fortran(spec, w):
    """The same numbers read as if every tensor were stored column by column."""
    return np.concatenate([view.ravel(order="F") for view in spec.model.layout.views(w).values()])


file(
    "mlp",
    "supplement C: affine layers with ReLU between them, softmax cross-entropy",
    ["w is the flat parameter vector; model.layout says where each tensor lies in it, in C order."],
)
SMALL, X, Y = mlp(3, 4, 2), draw(111, 5, 3), np.array([1, 0, 0, 1, 1])
W = draw(110, SMALL.model.layout.size)


def loss(w, X, y):
    """The sum that the risk is a mean of."""
    return layers.softmax_cross_entropy(SMALL.model.logits(w, X), y).sum()


@case("mlp")
def mlp_layout_of_spambase():
    """Catches another order of the tensors: W1, b1, W2, b2."""
    return "layout", {"model": mlp(57, 20, 2)}


@case("mlp")
def mlp_initial_values_scale_with_fan_in():
    """Catches a bias scaled by its own length: it takes the fan-in of its layer, as its weights do."""
    uniforms = np.random.default_rng(112).uniform(-1, 1, (2, SMALL.model.layout.size)).round(3)
    return "initial", {"model": SMALL, "uniforms": uniforms}


@case("mlp")
def mlp_logits():
    """Catches tensors read in Fortran order, and a ReLU after the last layer."""
    logits = SMALL.model.logits(W, X)
    clear(SMALL, W, X)
    unlike(logits, SMALL.model.logits(fortran(SMALL, W), X), np.maximum(logits, 0))
    return "logits", {"model": SMALL, "w": W, "X": X}


@case("mlp")
def mlp_risk_is_a_mean():
    """Catches a sum over the rows, and 0/1 loss."""
    assert SMALL.model.risk(W, X, Y) < loss(W, X, Y) / 2
    return "risk", {"model": SMALL, "w": W, "X": X, "y": Y}


@case("mlp")
def mlp_risk_leaves_padding_out():
    """Catches dividing by all rows: two of five have label -1."""
    y = np.array([1, -1, 0, 1, -1])
    unlike(SMALL.model.risk(W, X, y), loss(W, X, y) / 5)
    return "risk", {"model": SMALL, "w": W, "X": X, "y": y}


@case("mlp")
def mlp_risk_of_a_confident_mistake():
    """Catches log(0): logits in the hundreds."""
    return "risk", {"model": SMALL, "w": W * 30, "X": X, "y": Y}


@case("mlp")
def mlp_gradient():
    """Catches a sum for a mean, a missing ReLU mask, and tensors in the wrong order."""
    unlike(gradient_is_right(SMALL, W, X, Y), 5 * SMALL.model.gradient(W, X, Y))
    return "gradient", {"model": SMALL, "w": W, "X": X, "y": Y}


@case("mlp")
def mlp_gradient_leaves_padding_out():
    """Catches padding that pulls the parameters, and a mean over all rows."""
    y = np.array([-1, 0, 1, -1, 1])
    gradient_is_right(SMALL, W, X, y)
    return "gradient", {"model": SMALL, "w": W, "X": X, "y": y}


@case("mlp")
def mlp_gradient_without_hidden_layer():
    """Catches code that expects a hidden layer."""
    model, w = mlp(3, 3), draw(113, 12)
    gradient_is_right(model, w, X, Y)
    return "gradient", {"model": model, "w": w, "X": X, "y": Y}


@case("mlp")
def mlp_gradient_with_two_hidden_layers():
    """Catches a ReLU mask taken from the wrong layer."""
    model = mlp(3, 4, 4, 3)
    w = draw(114, model.model.layout.size)
    gradient_is_right(model, w, X, np.array([2, 0, 1, 1, 2]))
    return "gradient", {"model": model, "w": w, "X": X, "y": np.array([2, 0, 1, 1, 2])}


@case("mlp")
def mlp_predict():
    """Catches labels that count from 1, and the lowest logit instead of the highest."""
    model = mlp(3, 4, 3)
    w = draw(115, model.model.layout.size)
    clear(model, w, X)
    return "predict", {"model": model, "w": w, "X": X}


@case("mlp")
def mlp_predict_tie_goes_to_the_lowest_label():
    """Catches the last of equals: all parameters are 0."""
    return "predict", {"model": SMALL, "w": np.zeros(SMALL.model.layout.size), "X": X[:2]}


@case("mlp")
def mlp_predict_nan_is_no_label():
    """Catches a lost model that scores by always saying class 0: its label is -1, never right."""
    w = W.copy()
    w[-1] = np.nan
    return "predict", {"model": SMALL, "w": w, "X": X[:2]}


@error("mlp")
def mlp_needs_two_widths():
    """Catches a model without a layer."""
    return "layout", {"model": mlp(3)}, ["mlp", "3"]


file(
    "cnn",
    "supplement C: 3x3 convolutions, each with ReLU and 2x2 max-pooling, then two affine layers",
    [
        "X is (n, side, side), one channel. Each stage: conv2d, maxpool2d, + bias, ReLU. Then the pixels and",
        "channels of a sample, (row, column, channel) in C order, feed affine, ReLU, affine.",
    ],
)
NARROW, IMAGES, LABELS = cnn(8, (2, 3), 5, 3), draw(121, 4, 8, 8), np.array([2, 0, 1, 1])
V = draw(134, NARROW.model.layout.size, scale=0.5)


@case("cnn")
def cnn_layout_of_mnist():
    """Catches kernels stored (out, in, 3, 3), and a flattened size other than 576."""
    return "layout", {"model": cnn(28, (32, 64, 64), 128, 10)}


@case("cnn")
def cnn_initial_values_scale_with_fan_in():
    """Catches a fan-in of 9 for a kernel with several input channels: it is 9 C, also for the bias."""
    uniforms = np.random.default_rng(122).uniform(-1, 1, (1, NARROW.model.layout.size)).round(3)
    return "initial", {"model": NARROW, "uniforms": uniforms}


@case("cnn")
def cnn_logits():
    """Catches flattening as (channel, row, column), kernels in another order, and a bias left out."""
    clear(NARROW, V, IMAGES)
    right = NARROW.model.logits(V, IMAGES)
    t = NARROW.model.layout.views(V)
    w = V.copy()
    NARROW.model.layout.views(w)["W3"][...] = t["W3"].reshape(3, 4, 5).swapaxes(0, 1).reshape(12, 5)
    unbiased = V.copy()
    NARROW.model.layout.views(unbiased)["b2"][...] = 0
    transposed = V.copy()
    NARROW.model.layout.views(transposed)["K2"][...] = t["K2"].swapaxes(0, 1)
    unlike(right, *(NARROW.model.logits(wrong, IMAGES) for wrong in (w, unbiased, transposed)))
    return "logits", {"model": NARROW, "w": V, "X": IMAGES}


@case("cnn")
def cnn_of_an_odd_side():
    """Catches padding 7 pixels to 8, or 3 to 4: the last row and column are dropped at each pooling."""
    model = cnn(7, (2, 3), 4, 2)
    w, X = draw(123, model.model.layout.size, scale=0.5), draw(124, 2, 7, 7)
    clear(model, w, X)
    return "logits", {"model": model, "w": w, "X": X}


@case("cnn")
def cnn_risk_leaves_padding_out():
    """Catches a mean over all rows."""
    return "risk", {"model": NARROW, "w": V, "X": IMAGES, "y": np.array([2, -1, 1, 0])}


@case("cnn")
def cnn_gradient():
    """Catches each mistake of the layers' families once more, here in their interplay."""
    gradient_is_right(NARROW, V, IMAGES, LABELS)
    return "gradient", {"model": NARROW, "w": V, "X": IMAGES, "y": LABELS}


@case("cnn")
def cnn_gradient_of_an_odd_side():
    """Catches a gradient written into dropped pixels, and one lost on the way to x's odd row."""
    model = cnn(7, (2, 3), 4, 2)
    w, X, y = draw(123, model.model.layout.size, scale=0.5), draw(124, 2, 7, 7), np.array([1, 0])
    gradient_is_right(model, w, X, y)
    return "gradient", {"model": model, "w": w, "X": X, "y": y}


@case("cnn")
def cnn_predict():
    """Catches labels that count from 1."""
    clear(NARROW, V, IMAGES)
    assert len(set(NARROW.model.predict(V, IMAGES).tolist())) > 1
    return "predict", {"model": NARROW, "w": V, "X": IMAGES}


@error("cnn")
def cnn_needs_pixels_left():
    """Catches pooling an image away: 7 pixels halve twice, not three times."""
    return "layout", {"model": cnn(7, (2, 2, 2), 4, 2)}, ["cnn", "7"]
