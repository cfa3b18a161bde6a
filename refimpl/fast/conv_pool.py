"""Convolution and 2x2 max-pooling in one step. Plain: `layers.conv2d` and `maxpool2d`; test: test_conv_pool.py.

A pooling window is 2x2 pixels of the convolution, which see 4x4 pixels of its input, a tile. For a tile
Winograd's F(2x2, 3x3) (Lavin and Gray 2016, Sec. 4.1) needs 16 products per input and output channel instead of
36. With d the 4x4 input pixels and g the 3x3 kernel, the 2x2 outputs are

    A^T [(G g G^T) * (B^T d B)] A,

the product in brackets entry by entry; summed over input channels it is 16 matrix products. Pooling is the
maximum over the outputs. The terms that A adds up are larger than the result: a model whose numbers overflow on
the way may have a NaN where the plain convolution has an infinity.

Images are (..., H, W, n, C) here, samples inside, so that whatever is computed for a pixel runs over n C
numbers that lie side by side. T x U are the windows; an odd last row or column of pixels has none. A few rows
of windows are taken at a time, so that what a tile needs on the way stays in the cache.
"""

import functools
from types import ModuleType
from typing import NamedTuple

import numpy as np

from refimpl.arrays import Array, module_of
from refimpl.fast.parallel import FLOATS, device_factor

# Of one axis of a tile: A (4, 2), B (4, 4), G (4, 3).
TRANSFORMS = tuple(
    np.array(rows)
    for rows in (
        [[1, 0], [1, 1], [1, -1], [0, -1]],
        [[1, 0, 0, 0], [0, 1, -1, 1], [-1, 1, 1, 0], [0, 0, 0, -1]],
        [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]],
    )
)


class Saved(NamedTuple):
    """What `conv_pool_backward` needs from the forward pass."""

    shape: tuple[int, ...]  # of the input
    image: bool
    kernel: Array  # (..., 1, 16, C, O) G g G^T; of an image (..., 1, 9, O), g itself
    steps: list[tuple[slice, Array, Array]]  # t rows of windows at a time, V as in `conv_pool`, and `first`


def conv_pool(x: Array, K: Array, saved: list | None = None, image: bool = False) -> Array:
    """maxpool2d(conv2d(x, K)) without a bias: (..., H, W, n, C), (..., 3, 3, C, O) -> (..., T, U, n, O).

    Equal to rounding; pixels that are equal, as in a background, stay equal, so the gradient flows to the same
    one of them. `image` says that x has one channel and that its derivative is not needed: with no channels to
    sum over, the transform would save nothing, and is left out. Otherwise up to four pixels are added first: at
    infinities, and near the largest float, the result is NaN where `layers` has a number or an infinity.
    """
    if image and x.shape[-1] != 1:
        raise ValueError(f"an image has one channel, got {x.shape[-1]}")
    xp = module_of(x)
    x = x.astype(xp.result_type(x, K), copy=False)
    *outer, H, W, n, C = x.shape
    *lead, _, _, _, O = K.shape
    T, U = H // 2, W // 2
    y = xp.empty((*(lead if lead == outer else np.broadcast_shapes(outer, lead)), T, U, n, O), x.dtype)
    _, _, G, A_T, B_T = _transforms(x)
    kernel = K.reshape(*lead, 1, 9, C * O)
    if not image:
        kernel = (G @ kernel).reshape(*lead, 1, 16, C, O)
    seen = windows_of_four(_padded(x), -4)  # (..., T, 4, 2 U + 2, n, C)
    numbers = 36 + 4 * O if image else 25 * C + 20 * O  # in memory for a window
    # On a CPU an eighth would do as well for one thread; several would spend their time handing the interpreter
    # lock back and forth.
    step = max(1, FLOATS * device_factor(xp) * T * O // max(1, y.size * numbers))
    steps = []
    for start in range(0, T, step):
        rows = slice(start, min(start + step, T))
        d = seen[..., rows, :, :, :, :]
        if image:
            V = _around(windows_of_four(d, -3))  # (..., t, 9, 4 U n)
            Y = V.swapaxes(-1, -2) @ kernel
        else:
            V = _transformed(d, B_T)  # (..., t, 16, U n, C)
            M = V @ kernel  # (..., t, 16, U n, O)
            Y = A_T @ M.reshape(*M.shape[:-2], U * n * O)
        Y = Y.reshape(*y.shape[:-4], rows.stop - start, 4, U, n, O)
        largest = Y.max(axis=-4, out=y[..., rows, :, :, :])
        if saved is not None:
            steps.append((rows, V, first_maximum(Y, largest)))
    if saved is not None:
        saved.append(Saved(x.shape, image, kernel, steps))
    return y


def conv_pool_backward(dy: Array, saved: Saved) -> tuple[Array, Array]:
    """dK (..., 3, 3, C, O), and dx, None for an image. Every line is the transpose of one of `conv_pool`.

    Tiles are transformed back along both axes at once, as they overlap and have to be added up.
    The leading axes of x and K must have been the same.
    """
    (*_, H, W, _, C), image, kernel, steps = saved
    xp = module_of(dy)
    *lead, T, U, n, O = dy.shape
    A, B, G, *_ = _transforms(dy)
    dkernel = xp.zeros_like(kernel)
    kernel_T = xp.ascontiguousarray(kernel.swapaxes(-1, -2))  # products with it are twice as fast
    dpadded = xp.zeros((*lead, T + 1, 2, 2, U + 1, n, C), dy.dtype)  # pixel (2 t + i, 2 u + j) at [t, i, j, u]
    for rows, V, chosen in steps:
        t = rows.stop - rows.start
        dY = dy[..., rows, None, :, :, :] * chosen
        if image:
            dkernel += (V @ dY.reshape(*lead, t, 4 * U * n, O)).sum(axis=-3, keepdims=True)
            continue
        dM = (A @ dY.reshape(*lead, t, 4, U * n * O)).reshape(*lead, t, 16, U * n, O)
        dkernel += (V.swapaxes(-1, -2) @ dM).sum(axis=-4, keepdims=True)
        dV = dM @ kernel_T
        dd = (B @ dV.reshape(*lead, t, 16, U * n * C)).reshape(*lead, t, 4, 4, U, n, C)
        for i, j in (0, 0), (0, 1), (1, 0), (1, 1):  # the pixels that a tile shares with the next ones
            here = dpadded[..., rows.start + i : rows.stop + i, :, :, j : j + U, :, :]
            xp.add(here, dd[..., 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :, :, :], out=here)
    if image:
        return dkernel.reshape(*lead, 3, 3, C, O), None
    dK = G.T @ dkernel.reshape(*lead, 16, C * O)
    dx = dpadded.swapaxes(-4, -3).reshape(*lead, 2 * T + 2, 2 * U + 2, n, C)
    return dK.reshape(*lead, 3, 3, C, O), dx[..., 1 : H + 1, 1 : W + 1, :, :]


def _transformed(d: Array, B_T: Array) -> Array:
    """B^T d B of tiles, down and then to the right: (..., t, 4, 2 U + 2, n, C) -> (..., t, 16, U n, C).

    One after the other, as a product can read overlapping rows where they are, but not overlapping tiles: half
    the time of a copy of the tiles and one product with the matrix for both axes.
    """
    xp = module_of(d)
    *lead, _, W, n, C = d.shape
    U = W // 2 - 1
    down = (B_T @ d.reshape(*lead, 4, W * n * C)).reshape(*lead, 4, W, n * C)
    V = xp.empty((*lead, 4, 4, U, n * C), d.dtype)
    xp.matmul(B_T, windows_of_four(down, -2), out=V.swapaxes(-3, -2))
    return V.reshape(*lead, 16, U * n, C)


def _around(d: Array) -> Array:
    """The 3x3 pixels around each of a window's four: (..., t, 4, U, 4, n, 1) -> (..., t, 9, 4 U n)."""
    *lead, _, U, _, n, _ = d.shape
    *outer, down, window, right, sample, _ = d.strides
    shape, strides = (*lead, 3, 3, 2, 2, U, n), (*outer, down, right, down, right, window, sample)
    return module_of(d).lib.stride_tricks.as_strided(d, shape, strides).reshape(*lead, 9, 4 * U * n)


def first_maximum(Y: Array, y: Array) -> Array:
    """True where Y first is its maximum y: (..., t, 4, U, n, O), (..., t, U, n, O) -> the shape of Y."""
    chosen = y[..., None, :, :, :] == Y
    taken = chosen[..., 0, :, :, :].copy()
    for place in 1, 2, 3:
        here = chosen[..., place, :, :, :]
        here &= ~taken
        taken |= here
    return chosen


def _transforms(x: Array) -> tuple[Array, ...]:
    """A, B, G and A^T for both axes of a tile, flattened in C order, and B^T for one; of the dtype of x."""
    return _moved(module_of(x), str(x.device), x.dtype.str)


@functools.cache
def _moved(xp: ModuleType, device: str, dtype: str) -> tuple[Array, ...]:
    A, B, G = (np.kron(one_axis, one_axis) for one_axis in TRANSFORMS)
    matrices = A, B, G, A.T, TRANSFORMS[1].T  # copied: a product with a view takes up to twice the time
    return tuple(xp.asarray(np.ascontiguousarray(matrix, dtype)) for matrix in matrices)


def _padded(x: Array) -> Array:
    """The pixels that the tiles see, 0 outside the image: -> (..., 2 T + 2, 2 U + 2, n, C)."""
    *lead, H, W, n, C = x.shape
    padded = module_of(x).zeros((*lead, H // 2 * 2 + 2, W // 2 * 2 + 2, n, C), x.dtype)
    padded[..., 1 : H + 1, 1 : W + 1, :, :] = x
    return padded


def windows_of_four(x: Array, axis: int) -> Array:
    """What each window sees along an axis (< 0), as a view: (..., 2 T + 2, ...) -> (..., T, 4, ...)."""
    (*before, length), after = x.shape[: x.ndim + axis + 1], x.shape[x.ndim + axis + 1 :]
    (*over, pixel), inside = x.strides[: x.ndim + axis + 1], x.strides[x.ndim + axis + 1 :]
    shape, strides = (*before, length // 2 - 1, 4, *after), (*over, 2 * pixel, pixel, *inside)
    return module_of(x).lib.stride_tricks.as_strided(x, shape, strides)
