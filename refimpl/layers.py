"""Layers by hand, forward and backward, for one model on one batch.

Rows are samples: x is (n, p), or (n, H, W, C) for images, channels last. A backward function takes `dy`, the
derivative of the loss with respect to the layer's output, then the inputs of the forward function, and returns
the derivatives with respect to these. It blocks a derivative by multiplying it by 0, so NaN still passes.
"""

import math

from refimpl.arrays import Array, module_of


def affine(x: Array, W: Array, b: Array) -> Array:
    """y = x W + b: (n, p), (p, h), (h,) -> (n, h)."""
    return x @ W + b


def affine_backward(dy: Array, x: Array, W: Array, b: Array) -> tuple[Array, Array, Array]:
    """dx = dy W^T, dW = x^T dy, db = the sum of dy over the rows."""
    return dy @ W.T, x.T @ dy, dy.sum(axis=0)


def relu(x: Array) -> Array:
    """max(x, 0); NaN stays NaN."""
    return module_of(x).maximum(x, 0)


def relu_backward(dy: Array, x: Array) -> tuple[Array]:
    """dx = dy where x > 0, else 0, also at the kink.

    x may also be the layer's output, which is positive at the same places.
    """
    return (dy * (x > 0),)


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x), by tanh, which does not overflow. Not in the paper: see `released`."""
    return 0.5 * (module_of(x).tanh(x / 2) + 1)


def sigmoid_backward(dy: Array, x: Array) -> tuple[Array]:
    """dx = dy y (1 - y), y being the output."""
    y = sigmoid(x)
    return (dy * y * (1 - y),)


def add_channel(x: Array) -> Array:
    """Grey images (n, H, W) as images of one channel: -> (n, H, W, 1)."""
    return x[..., None]


def add_channel_backward(dy: Array, x: Array) -> tuple[Array]:
    """dx = dy without its last axis."""
    return (dy[..., 0],)


def conv2d(x: Array, K: Array, b: Array) -> Array:
    """y[n, i, j, o] = b[o] + sum_{s, t, c} x[n, i + s - 1, j + t - 1, c] K[s, t, c, o], x being 0 outside.

    3x3 kernel, stride 1, padding 1: (n, H, W, C), (3, 3, C, O), (O,) -> (n, H, W, O).
    """
    xp = module_of(x)
    return b + sum(xp.tensordot(shifted(x, s, t), K[s, t], axes=1) for s in range(3) for t in range(3))


def conv2d_backward(dy: Array, x: Array, K: Array, b: Array) -> tuple[Array, Array, Array]:
    """dx is conv2d of dy with K rotated by 180 degrees, its channel axes exchanged; db is the sum of dy.

    dK[s, t, c, o] = sum_{n, i, j} x[n, i + s - 1, j + t - 1, c] dy[n, i, j, o].
    """
    xp = module_of(x)
    dx = conv2d(dy, K[::-1, ::-1].swapaxes(-1, -2), xp.zeros(K.shape[2], dy.dtype))
    dK = xp.empty_like(K)
    for s in range(3):
        for t in range(3):
            dK[s, t] = xp.tensordot(shifted(x, s, t), dy, axes=([0, 1, 2], [0, 1, 2]))
    return dx, dK, dy.sum(axis=(0, 1, 2))


def shifted(x: Array, s: int, t: int) -> Array:
    """x[n, i + s - 1, j + t - 1, c] for all n, i, j, c, and 0 outside of the image: the shape of x."""
    n, H, W, C = x.shape
    padded = module_of(x).zeros((n, H + 2, W + 2, C), x.dtype)
    padded[:, 1 : H + 1, 1 : W + 1] = x
    return padded[:, s : s + H, t : t + W]


def maxpool2d(x: Array) -> Array:
    """The maximum of each 2x2 window; an odd last row or column is dropped; NaN stays NaN.

    (n, H, W, C) -> (n, H // 2, W // 2, C).
    """
    xp = module_of(x)
    a, b, c, d = windows(x)
    return xp.maximum(xp.maximum(a, b), xp.maximum(c, d))


def maxpool2d_backward(dy: Array, x: Array) -> tuple[Array]:
    """dx = dy at the first maximum of each window, in row-major order, else 0."""
    xp = module_of(x)
    y = maxpool2d(x)
    dx, taken = xp.zeros_like(x), xp.zeros(y.shape, bool)
    for part, d_part in zip(windows(x), windows(dx), strict=True):
        first = (part == y) & ~taken
        taken |= first
        d_part[...] = dy * first
    return (dx,)


def windows(x: Array) -> list[Array]:
    """The four pixels of all 2x2 windows in row-major order, as views: each (n, H // 2, W // 2, C)."""
    H, W = x.shape[1] // 2 * 2, x.shape[2] // 2 * 2
    return [x[:, i:H:2, j:W:2] for i in (0, 1) for j in (0, 1)]


def flatten(x: Array) -> Array:
    """(n, H, W, C) -> (n, H W C), in C order."""
    return x.reshape(len(x), math.prod(x.shape[1:]))


def flatten_backward(dy: Array, x: Array) -> tuple[Array]:
    """dx = dy in the shape of x."""
    return (dy.reshape(x.shape),)


def softmax_cross_entropy(z: Array, y: Array) -> Array:
    """Per row log(sum_j exp z_j) - z_y, without overflow: (n, c), (n,) int -> (n,).

    A row with label -1 has loss 0.
    """
    xp = module_of(z)
    z = z - z.max(axis=-1, keepdims=True)
    z_y = xp.take_along_axis(z, y[..., None], axis=-1)[..., 0]
    return xp.where(y >= 0, xp.log(xp.exp(z).sum(axis=-1)) - z_y, 0)


def softmax_cross_entropy_backward(z: Array, y: Array) -> Array:
    """dz = softmax(z) - onehot(y) per row, 0 if the label is -1: (n, c), (n,) int -> (n, c)."""
    xp = module_of(z)
    p = xp.exp(z - z.max(axis=-1, keepdims=True))
    p = p / p.sum(axis=-1, keepdims=True)
    onehot = y[..., None] == xp.arange(z.shape[-1])
    return xp.where(y[..., None] >= 0, p - onehot, 0)
