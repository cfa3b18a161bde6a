"""The families affine, softmax_cross_entropy, conv2d and maxpool2d: layers, forward and backward."""

import numpy as np
from common import MARGIN, case, draw, file, unlike
from functions import FUNCTIONS

from refimpl import layers

nan = np.nan

file(
    "affine",
    "supplement C: fully connected layers and ReLU",
    ["y = x W + b: x (n, p), W (p, h), b (h). dy is the derivative of the loss by y. relu is here too."],
)


def slopes(f, x, dy, h=1e-6):
    """The derivative of sum(dy * f(x)) by x, by central differences."""
    g = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = h
        g[i] = ((f(x + step) - f(x - step)) * dy).sum() / (2 * h)
    return g


@case("affine")
def affine_forward():
    """Catches W transposed (p = h here, so the shapes do not tell) and a missing bias."""
    x, W, b = draw(70, 2, 3), draw(71, 3, 3), draw(72, 3)
    unlike(x @ W + b, x @ W.T + b, x @ W)
    return "affine", {"x": x, "W": W, "b": b}


@case("affine")
def affine_backward():
    """Catches W for its transpose in dx, dW transposed, and db averaged instead of summed over the rows."""
    dy, x, W = draw(73, 4, 3), draw(74, 4, 3), draw(75, 3, 3)
    assert np.allclose(slopes(lambda x: x @ W, x, dy), dy @ W.T)
    assert np.allclose(slopes(lambda W: x @ W, W, dy), x.T @ dy)
    unlike(dy @ W.T, dy @ W)
    unlike(x.T @ dy, dy.T @ x)
    unlike(dy.sum(axis=0), dy.mean(axis=0))
    return "affine_backward", {"dy": dy, "x": x, "W": W}


@case("affine")
def relu_keeps_nan():
    """Catches max(NaN, 0) = 0, which hides a lost model."""
    return "relu", {"x": np.array([[-1.5, 0.0, 2.0, nan]])}


@case("affine")
def relu_backward_is_zero_at_the_kink():
    """Catches >= for >: where the output y is exactly 0 nothing flows back."""
    y, dy = np.array([[0.0, 0.5, 2.0, 0.0]]), np.array([[3.0, -1.0, 0.25, -2.0]])
    unlike(dy * (y > 0), dy * (y >= 0))
    return "relu_backward", {"dy": dy, "y": y}


file(
    "softmax_cross_entropy",
    "supplement C: softmax output, cross-entropy loss",
    ["losses[i] = log(sum_j exp z[i][j]) - z[i][y[i]], per row and not averaged. y[i] = -1 is padding."],
)


@case("softmax_cross_entropy")
def loss_of_each_row():
    """Catches a mean over the rows, log2, and probabilities without the logarithm."""
    return "softmax_cross_entropy", {"z": draw(80, 4, 3), "y": np.array([2, 0, 1, 1])}


@case("softmax_cross_entropy")
def loss_does_not_overflow():
    """Catches exp(1000): subtract the row's maximum first."""
    z = np.array([[1000.0, 0.0], [0.0, 1000.0], [-1000.0, -999.0], [1e4, 1e4]])
    return "softmax_cross_entropy", {"z": z, "y": np.array([0, 0, 1, 1])}


@case("softmax_cross_entropy")
def loss_of_padding_is_zero():
    """Catches label -1 read as the last class."""
    z, y = draw(81, 3, 3), np.array([1, -1, 2])
    unlike(layers.softmax_cross_entropy(z, y)[1], layers.softmax_cross_entropy(z, np.array([1, 2, 2]))[1])
    return "softmax_cross_entropy", {"z": z, "y": y}


@case("softmax_cross_entropy")
def derivative_is_softmax_minus_onehot():
    """Catches the wrong sign and a division by the number of rows (that is the risk's, not this layer's)."""
    z, y = draw(82, 4, 3), np.array([0, 2, 1, 2])
    right = layers.softmax_cross_entropy_backward(z, y)
    ones = np.ones(4)
    assert np.allclose(slopes(lambda z: layers.softmax_cross_entropy(z, y), z, ones), right, atol=1e-8)
    unlike(right, -right, right / 4)
    return "softmax_cross_entropy_backward", {"z": z, "y": y}


@case("softmax_cross_entropy")
def derivative_does_not_overflow():
    """Catches exp(800) / exp(800) = NaN."""
    z = np.array([[800.0, -800.0, 799.0], [-2000.0, -2000.0, -2001.0]])
    return "softmax_cross_entropy_backward", {"z": z, "y": np.array([1, 0])}


@case("softmax_cross_entropy")
def derivative_of_padding_is_zero():
    """Catches a gradient from rows that are not there."""
    return "softmax_cross_entropy_backward", {"z": draw(83, 2, 3), "y": np.array([-1, 0])}


file(
    "conv2d",
    "supplement C: 3x3 convolution, stride 1, padding 1",
    [
        "y[n,i,j,o] = sum over s, t, c of x[n,i+s-1,j+t-1,c] K[s,t,c,o], x being 0 outside; channels last.",
        "There is no bias here: the CNN adds it after max-pooling (the cnn family shows the whole).",
    ],
)


def conv2d(x, K):
    """Without a bias."""
    return FUNCTIONS["conv2d"](x, K)["y"]


@case("conv2d")
def conv2d_does_not_turn_the_kernel():
    """Catches a convolution in the mathematical sense: an impulse at the centre shows the kernel turned."""
    x = np.zeros((1, 3, 3, 1))
    x[0, 1, 1, 0] = 1.0
    K = np.arange(1.0, 10).reshape(3, 3, 1, 1)
    right = conv2d(x, K)[0, :, :, 0]
    assert np.array_equal(right, K[::-1, ::-1, 0, 0])
    unlike(right, K[:, :, 0, 0], right.T)
    return "conv2d", {"x": x, "K": K}


@case("conv2d")
def conv2d_pads_with_zeros():
    """Catches a smaller output, and padding by repetition or mirroring."""
    x, K = draw(90, 1, 3, 4, 1), draw(91, 3, 3, 1, 1)
    edge = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    unlike(conv2d(x, K), conv2d(edge, K)[:, 1:-1, 1:-1])
    return "conv2d", {"x": x, "K": K}


@case("conv2d")
def conv2d_mixes_channels():
    """Catches exchanged axes: two samples, 3 x 4 pixels, 2 channels in, 3 out, all different."""
    return "conv2d", {"x": draw(92, 2, 3, 4, 2), "K": draw(93, 3, 3, 2, 3)}


@case("conv2d")
def conv2d_gradients():
    """Catches a kernel not turned in dx, its channels not exchanged, and dK averaged over pixels or samples."""
    x, K, dy = draw(94, 2, 4, 3, 2), draw(95, 3, 3, 2, 2), draw(96, 2, 4, 3, 2)
    dx, dK = FUNCTIONS["conv2d_backward"](dy, x, K).values()
    assert np.allclose(slopes(lambda x: conv2d(x, K), x, dy), dx, atol=1e-7)
    assert np.allclose(slopes(lambda K: conv2d(x, K), K, dy), dK, atol=1e-7)
    unlike(dx, conv2d(dy, K), conv2d(dy, K.swapaxes(-1, -2)), conv2d(dy, K[::-1, ::-1]))
    return "conv2d_backward", {"dy": dy, "x": x, "K": K}


file(
    "maxpool2d",
    "supplement C: 2x2 max-pooling, stride 2",
    ["y[n,i,j,c] = max of x[n,2i,2j,c], x[n,2i,2j+1,c], x[n,2i+1,2j,c], x[n,2i+1,2j+1,c]."],
)


@case("maxpool2d")
def maxpool_of_negative_numbers():
    """Catches a running maximum that starts at 0."""
    return "maxpool2d", {"x": -abs(draw(100, 2, 4, 4, 2)) - 0.01}


@case("maxpool2d")
def maxpool_drops_an_odd_last_row_and_column():
    """Catches padding to even: the largest numbers sit in the row and column that are dropped."""
    x = draw(101, 1, 5, 3, 2)
    x[:, 4], x[:, :, 2] = 7.0, 8.0
    return "maxpool2d", {"x": x}


@case("maxpool2d")
def maxpool_gradient_goes_to_the_maximum():
    """Catches sharing it among the window, and writing into the dropped row and column."""
    x, dy = draw(102, 1, 5, 5, 2), draw(103, 1, 2, 2, 2)
    windows = x[0, :4, :4].reshape(2, 2, 2, 2, 2).swapaxes(1, 2).reshape(4, 4, 2)
    top = np.sort(windows, axis=1)
    assert (top[:, -1] - top[:, -2] > MARGIN).all()
    return "maxpool2d_backward", {"dy": dy, "x": x}


@case("maxpool2d")
def maxpool_gradient_tie_goes_to_the_first():
    """Catches the last of equals, column-major order (2nd window), and giving it to all of them."""
    x = np.array([[1.0, 1.0, 0.0, 2.0, 3.0, 1.0], [1.0, 1.0, 2.0, 1.0, 0.0, 3.0]]).reshape(1, 2, 6, 1)
    return "maxpool2d_backward", {"dy": np.array([2.0, 3.0, 5.0]).reshape(1, 1, 3, 1), "x": x}
