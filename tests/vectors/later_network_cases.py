"""More of softmax_cross_entropy, maxpool2d, mlp and cnn: mistakes of later ports that the first cases let pass.

NaN inside of a network, logits that overflow, and CNNs of other depths.
"""

import numpy as np
from common import case, draw, error, unlike
from model_cases import IMAGES, NARROW, SMALL, V, W, X, clear, cnn, gradient_is_right, mlp

nan, inf = np.nan, np.inf


def windows(*values):
    """Windows side by side, each given as (0, 0), (0, 1), (1, 0), (1, 1): one sample of one channel."""
    parts = np.array(values).reshape(-1, 2, 2)
    return np.concatenate(parts, axis=1)[None, ..., None]


@case("maxpool2d")
def maxpool_of_nan_is_nan():
    """Catches a maximum by comparison, which drops NaN: it stays in each of the four places, but not in the row
    and the column that are dropped."""
    x = np.full((1, 3, 11, 1), nan)
    here = [nan, 1.0, 2.0, -1.0]
    x[:, :2, :10] = windows(here, here[1:] + here[:1], here[2:] + here[:2], here[3:] + here[:3], [1.0, 2, 3, 4])
    return "maxpool2d", {"x": x}


@case("maxpool2d")
def maxpool_gradient_tie_of_any_two_goes_to_the_first():
    """Catches the second of equals in any one comparison of the four, that of the last two included."""
    pairs = [[float(i in pair) for i in range(4)] for pair in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))]
    x = windows(*pairs)
    return "maxpool2d_backward", {"dy": np.arange(1.0, 7).reshape(1, 1, 6, 1), "x": x}


def with_nan(spec, w, tensor, *index):
    """The parameters with one NaN."""
    lost = w.copy()
    spec.model.layout.views(lost)[tensor][index] = nan
    return lost


@case("mlp")
def mlp_logits_of_nan_in_a_hidden_layer():
    """Catches a ReLU that hides a lost unit: its NaN reaches every logit."""
    w = with_nan(SMALL, W, "b1", 2)
    assert np.isnan(SMALL.model.logits(w, X)).all()
    return "logits", {"model": SMALL, "w": w, "X": X[:2]}


@case("mlp")
def mlp_risk_of_nan_in_a_hidden_layer():
    """Catches a ReLU that hides a lost unit, so that a lost model has a risk: it is NaN."""
    return "risk", {"model": SMALL, "w": with_nan(SMALL, W, "W1", 2, 3), "X": X[:2], "y": np.array([1, 0])}


@case("mlp")
def mlp_predict_of_nan_in_a_hidden_layer():
    """Catches a ReLU that hides a lost unit: no logit is a number, and there is no label."""
    return "predict", {"model": SMALL, "w": with_nan(SMALL, W, "W1", 0, 1), "X": X[:2]}


STEEP = mlp(1, 1, 3)  # one hidden unit h = relu(x), and logits h W2 + b2


def steep(*slopes):
    """Finite parameters with these slopes of the three logits."""
    return np.array([1.0, 0.0, *slopes, 0.5, 0.25, 0.0])


STEPS = np.array([[10.0], [-1.0], [0.5]])


@case("mlp", precise=False)
def mlp_predict_an_infinite_logit_wins():
    """Catches labels from a softmax, where Infinity - Infinity is NaN, and -1 for a logit that is infinite:
    only NaN is no label. At x = 10 the logits are 10, Infinity, Infinity: the lower of the two."""
    w = steep(1.0, 1e308, 1e308)
    with np.errstate(over="ignore"):
        assert STEEP.model.logits(w, STEPS)[0].tolist() == [10.5, inf, inf]
        assert STEEP.model.predict(w, STEPS).tolist() == [1, 0, 1]
    return "predict", {"model": STEEP, "w": w, "X": STEPS}


@case("mlp", precise=False)
def mlp_predict_minus_infinity_never_wins():
    """Catches -1 for a logit that is -Infinity, and its absolute value: at x = 10 the label is 2."""
    w = steep(-1e308, -1e308, 1.0)
    with np.errstate(over="ignore"):
        assert STEEP.model.predict(w, STEPS).tolist() == [2, 0, 2]
    return "predict", {"model": STEEP, "w": w, "X": STEPS}


@case("mlp", precise=False)
def mlp_risk_of_a_logit_of_infinity_is_nan():
    """Catches a risk of 0 for a model that overflows towards the right label: Infinity - Infinity is NaN."""
    with np.errstate(all="ignore"):
        assert np.isnan(STEEP.model.risk(steep(1e308, 0.0, 0.0), STEPS, np.array([0, 0, 1])))
    return "risk", {"model": STEEP, "w": steep(1e308, 0.0, 0.0), "X": STEPS, "y": np.array([0, 0, 1])}


@case("mlp", precise=False)
def mlp_risk_of_a_right_label_at_minus_infinity_is_infinite():
    """Catches a loss that is cut off at log(1e-308) or so, and NaN: exp(-Infinity) is 0, its log -Infinity."""
    with np.errstate(all="ignore"):
        assert np.isposinf(STEEP.model.risk(steep(-1e308, 0.0, 0.0), STEPS, np.array([0, 0, 1])))
    return "risk", {"model": STEEP, "w": steep(-1e308, 0.0, 0.0), "X": STEPS, "y": np.array([0, 0, 1])}


@case("mlp", precise=False)
def mlp_risk_of_a_wrong_label_at_minus_infinity_is_finite():
    """Catches giving a model up for one infinite logit: a class that it excludes, rightly, costs nothing."""
    with np.errstate(all="ignore"):
        assert STEEP.model.risk(steep(-1e308, 0.0, 0.0), STEPS, np.array([1, 0, 1])) < 2
    return "risk", {"model": STEEP, "w": steep(-1e308, 0.0, 0.0), "X": STEPS, "y": np.array([1, 0, 1])}


@case("mlp", precise=False)
def mlp_risk_of_padding_that_overflows_is_zero():
    """Catches 0 times the loss of a padded row: the logits of its sample overflow."""
    w, y = steep(1e308, 0.0, 0.0), np.array([-1, 0, 1])
    with np.errstate(all="ignore"):
        assert np.isnan(STEEP.model.risk(w, STEPS[:1], np.array([0])))
    return "risk", {"model": STEEP, "w": w, "X": np.array([[10.0], [-1.0], [-2.0]]), "y": y}


# --- CNNs ---------------------------------------------------------------------------------------------------

SHALLOW, DEEP, SMALLEST = cnn(5, (3,), 4, 2), cnn(9, (2, 3, 2), 4, 3), cnn(2, (2,), 3, 2)
ODD = cnn(7, (2, 3), 4, 2)


def alive(spec, w, X, y):
    """Asserts that the gradient is right and reaches every tensor."""
    dw = gradient_is_right(spec, w, X, y)
    assert all(np.any(view) for view in spec.model.layout.views(dw).values())
    return dw


@case("cnn")
def cnn_layout_of_depth_one():
    """Catches affine layers that are always W4 and W5, or W3 and W4: after one stage they are W2 and W3."""
    return "layout", {"model": SHALLOW}


@case("cnn")
def cnn_gradient_of_depth_one():
    """Catches code that expects a convolution after the first."""
    w, X, y = draw(151, SHALLOW.model.layout.size, scale=0.5), draw(152, 3, 5, 5), np.array([1, 0, 1])
    alive(SHALLOW, w, X, y)
    return "gradient", {"model": SHALLOW, "w": w, "X": X, "y": y}


@case("cnn")
def cnn_gradient_of_depth_three():
    """Catches a stage beyond the second without its ReLU or its pooling, and a side that is not dropped from 9
    to 4, to 2, to 1."""
    w, X, y = draw(161, DEEP.model.layout.size, scale=0.5), draw(155, 3, 9, 9), np.array([2, 0, 1])
    right = alive(DEEP, w, X, y)
    unlike(right, DEEP.model._replace(layers=DEEP.model.layers[:8] + DEEP.model.layers[9:]).gradient(w, X, y))
    return "gradient", {"model": DEEP, "w": w, "X": X, "y": y}


@case("cnn")
def cnn_of_a_side_of_two_to_the_depth():
    """Catches refusing side = 2^D, the least that is allowed: one pixel is left."""
    w, X = draw(156, SMALLEST.model.layout.size), draw(157, 2, 2, 2)
    clear(SMALLEST, w, X)
    return "logits", {"model": SMALLEST, "w": w, "X": X}


@case("cnn")
def cnn_gradient_leaves_padding_out():
    """Catches padding that pulls the kernels, and a mean over all rows: two of four have label -1."""
    y = np.array([2, -1, 1, -1])
    right = alive(NARROW, V, IMAGES, y)
    unlike(right, right / 2)
    return "gradient", {"model": NARROW, "w": V, "X": IMAGES, "y": y}


@case("cnn")
def cnn_logits_of_nan_in_a_kernel():
    """Catches a pooling or a ReLU that drops NaN: a lost kernel reaches every logit."""
    w = with_nan(NARROW, V, "K1", 1, 1, 0, 1)
    assert np.isnan(NARROW.model.logits(w, IMAGES[:1])).all()
    return "logits", {"model": NARROW, "w": w, "X": IMAGES[:1]}


@case("cnn")
def cnn_predict_of_nan_in_one_pixel():
    """Catches a pooling that drops NaN from a window that holds other numbers: a pixel in the last, odd row is
    lost in one image of two, and that one has no label."""
    w, X = draw(123, ODD.model.layout.size, scale=0.5), draw(124, 2, 7, 7)
    X[1, 6, 3] = nan
    clear(ODD, w, X[:1])
    assert ODD.model.predict(w, X)[1] == -1 != ODD.model.predict(w, X)[0]
    return "predict", {"model": ODD, "w": w, "X": X}


@error("cnn")
def cnn_needs_a_stage():
    """Catches a CNN without a convolution."""
    return "layout", {"model": cnn(8, (), 4, 2)}, ["cnn", "8"]


# --- Mistakes of a third port -------------------------------------------------------------------------------

LOST_LOGITS = {"z": np.array([[nan, 0.0], [inf, 0.0], [1.0, 2.0]]), "y": np.array([-1, -1, 0])}


@case("softmax_cross_entropy")
def padding_costs_nothing_whatever_its_logits():
    """Catches 0 times the loss of a padded row: NaN and Infinity are among its logits."""
    return "softmax_cross_entropy", LOST_LOGITS


@case("softmax_cross_entropy")
def derivative_of_padding_is_zero_whatever_its_logits():
    """Catches 0 times the derivative of a padded row: NaN and Infinity are among its logits."""
    return "softmax_cross_entropy_backward", LOST_LOGITS


@case("mlp")
def mlp_logits_of_a_nan_weight_of_an_input_of_zero():
    """Catches products that are skipped where the input is 0: 0 times NaN is NaN."""
    w = np.array([nan, 1.0, 1.0, 1.0, 0.0, 0.0])
    return "logits", {"model": mlp(2, 2), "w": w, "X": np.array([[0.0, 1.0]])}
