"""Layers by hand, forward and backward, on any leading axes.

Rows are samples: x is (..., n, p), or (..., n, H, W, C) for images, channels last. Parameters carry the
same leading axes, one entry per worker, and broadcast, so one call serves one model on one batch and N
models on N batches alike. A backward function takes `dy`, the derivative of the loss by the layer's output,
and what the forward pass saw. It multiplies by 0 where nothing flows back, so that NaN is not lost.
"""

from refimpl.arrays import Array, module_of


def affine(x: Array, W: Array, b: Array) -> Array:
    """y = x W + b: (..., n, p), (..., p, h), (..., h) -> (..., n, h)."""
    y = x @ W
    y += b[..., None, :]
    return y


def affine_backward_input(dy: Array, W: Array) -> Array:
    """dx = dy W^T: (..., n, h), (..., p, h) -> (..., n, p)."""
    return dy @ W.swapaxes(-1, -2)


def affine_backward_parameters(
    dy: Array, x: Array, out: tuple[Array, Array] = (None, None)
) -> tuple[Array, Array]:
    """dW = x^T dy and db = sum of dy over the rows, into `out` if given: -> (..., p, h), (..., h)."""
    dW, db = out
    return module_of(x).matmul(x.swapaxes(-1, -2), dy, out=dW), dy.sum(axis=-2, out=db)


def relu(x: Array, out: Array = None) -> Array:
    """max(x, 0), into `out` if given; NaN stays NaN."""
    return module_of(x).maximum(x, 0, out=out)


def relu_backward(dy: Array, y: Array) -> Array:
    """dx = dy where the output y was positive, else 0 (also at the kink)."""
    return dy * (y > 0)


def conv2d(x: Array, K: Array, size: tuple[int, int] | None = None) -> Array:
    """y[i, j, o] = sum_{s, t, c} x[i + s - 1, j + t - 1, c] K[s, t, c, o], x being 0 outside; no bias.

    3x3 kernel, stride 1, padding 1: (..., n, H, W, C), (..., 3, 3, C, O) -> (..., n, H, W, O), or as many
    rows i and columns j as `size` says. The plain form: networks take it together with pooling, in conv_pool.
    """
    size = size or x.shape[-3:-1]
    y = columns(x, *size) @ K.reshape(*K.shape[:-4], -1, K.shape[-1])
    return y.reshape(*y.shape[:-2], x.shape[-4], *size, K.shape[-1])


def conv2d_backward_input(dy: Array, K: Array, size: tuple[int, int]) -> Array:
    """dx = conv2d(dy, K turned by 180 degrees), `size` being that of x: -> (..., n, H, W, C)."""
    return conv2d(dy, K[..., ::-1, ::-1, :, :].swapaxes(-1, -2), size)


def conv2d_backward_kernel(dy: Array, x: Array) -> Array:
    """dK[s, t, c, o] = sum_{n, i, j} x[n, i + s - 1, j + t - 1, c] dy[n, i, j, o]: -> (..., 3, 3, C, O)."""
    dK = columns(x, *dy.shape[-3:-1]).swapaxes(-1, -2) @ dy.reshape(*dy.shape[:-4], -1, dy.shape[-1])
    return dK.reshape(*dK.shape[:-2], 3, 3, x.shape[-1], dy.shape[-1])


def columns(x: Array, H: int, W: int) -> Array:
    """The 3x3 surroundings of pixels (0, 0) ... (H - 1, W - 1), x being 0 outside: -> (..., n H W, 9 C).

    Nine times the memory of x.
    """
    xp = module_of(x)
    x = x[..., : H + 1, : W + 1, :]
    *lead, n, h, w, C = x.shape
    padded = xp.zeros((*lead, n, H + 2, W + 2, C), x.dtype)
    padded[..., 1 : h + 1, 1 : w + 1, :] = x
    *outer, to_sample, down, right, to_channel = padded.strides
    shape, strides = (*lead, n, H, W, 3, 3 * C), (*outer, to_sample, down, right, down, to_channel)
    return xp.lib.stride_tricks.as_strided(padded, shape, strides).reshape(*lead, n * H * W, 9 * C)


def maxpool2d(x: Array) -> Array:
    """The maximum of each 2x2 window; an odd last row or column is dropped; NaN stays NaN.

    (..., n, H, W, C) -> (..., n, H // 2, W // 2, C).
    """
    xp = module_of(x)
    H, W = x.shape[-3] // 2 * 2, x.shape[-2] // 2 * 2
    y = xp.maximum(x[..., 0:H:2, :W, :], x[..., 1:H:2, :W, :])
    return xp.maximum(y[..., 0::2, :], y[..., 1::2, :])


def maxpool2d_backward(dy: Array, x: Array, y: Array) -> Array:
    """dx = dy at the first maximum y of each window of x, in row-major order, else 0: -> the shape of x."""
    xp = module_of(x)
    h, w = y.shape[-3:-1]
    dx = xp.zeros_like(x)
    taken = xp.zeros(y.shape, bool)
    for i, j in (0, 0), (0, 1), (1, 0), (1, 1):
        here = (..., slice(i, 2 * h, 2), slice(j, 2 * w, 2), slice(None))
        first = (x[here] == y) & ~taken
        taken |= first
        xp.multiply(dy, first, out=dx[here])
    return dx


def softmax_cross_entropy(z: Array, y: Array) -> Array:
    """Per-row loss log(sum_j exp z_j) - z_y, without overflow: (..., n, c), (..., n) int -> (..., n).

    A row with label -1 is padding and has loss 0.
    """
    xp = module_of(z)
    z = z.swapaxes(-1, -2).copy()  # (..., c, n): three times as fast as reducing over a short last axis
    z -= z.max(axis=-2, keepdims=True)
    is_label = y[..., None, :] == xp.arange(z.shape[-2])[:, None]
    z_y = xp.where(is_label, z, 0).sum(axis=-2)
    return xp.where(y >= 0, xp.log(xp.exp(z).sum(axis=-2)) - z_y, 0)


def softmax_cross_entropy_backward(z: Array, y: Array) -> Array:
    """dz = softmax(z) - onehot(y) per row, 0 for padding: (..., n, c), (..., n) int -> (..., n, c)."""
    xp = module_of(z)
    p = xp.exp(z - z.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return xp.where(y[..., None] >= 0, p - (y[..., None] == xp.arange(z.shape[-1])), 0)
