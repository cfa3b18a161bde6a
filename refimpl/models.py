"""Models: a layout, a forward and a backward pass, and from these the risk, its gradient and predictions.

w is (..., d), X is (..., n, *sample), y is (..., n); leading axes broadcast. Row i with y[i] = -1 is
padding: it counts neither in the risk nor in the gradient.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from refimpl import layers
from refimpl.arrays import FLOATS, Array, boxes, grain, module_of
from refimpl.conv_pool import conv_pool, conv_pool_backward
from refimpl.layout import Layout, layout

Tensors = dict[str, Array]


class Model(NamedTuple):
    layout: Layout
    sample: tuple[int, ...]
    """the shape of one row of X"""
    floats: int
    """how many numbers per row the largest layer holds"""
    forward: Callable[[Tensors, Array, list | None], Array]
    """(tensors, X, a stack for what `backward` will need, or None) -> logits (..., n, c)"""
    backward: Callable[[Tensors, list, Array, Tensors], None]
    """(tensors, that stack, derivative by the logits, gradient tensors to fill)"""

    def logits(self, w: Array, X: Array) -> Array:
        """The forward pass, at most FLOATS numbers at a time: -> (..., n, c)."""
        xp = module_of(w)
        most = FLOATS * grain(xp) // self.floats
        *lead, n = X.shape[: X.ndim - len(self.sample)]
        lead = np.broadcast_shapes(w.shape[:-1], tuple(lead))
        if math.prod(lead) * n <= most:
            return self.forward(self.layout.views(w), X, None)
        w = xp.broadcast_to(w, (*lead, w.shape[-1]))
        X = xp.broadcast_to(X, (*lead, n, *self.sample))
        z = xp.empty((*lead, n, self.layout.fields[-1].size), w.dtype)
        for part in boxes((*lead, n), most):
            z[part] = self.forward(self.layout.views(w[part[:-1]]), X[part], None)
        return z

    def losses(self, w: Array, X: Array, y: Array) -> Array:
        """The cross-entropy of every row: -> (..., n)."""
        return layers.softmax_cross_entropy(self.logits(w, X), y)

    def loss(self, w: Array, X: Array, y: Array) -> Array:
        """The cross-entropy, summed over the rows: -> (...)."""
        return self.losses(w, X, y).sum(axis=-1)

    def risk(self, w: Array, X: Array, y: Array) -> Array:
        """r(w), the mean cross-entropy over the rows (below Eq. 1): -> (...)."""
        return self.loss(w, X, y) / rows(y, w.dtype)

    def gradient(self, w: Array, X: Array, y: Array) -> Array:
        """The gradient of the risk by w, likewise, a sum over parts of the rows: -> (..., d)."""
        xp = module_of(w)
        shape = (*w.shape[:-1], y.shape[-1])
        if X.shape != (*shape, *self.sample) or y.shape != shape:
            X, y = xp.broadcast_to(X, (*shape, *self.sample)), xp.broadcast_to(y, shape)
        n = rows(y, w.dtype)[..., None, None]
        dw = xp.empty(w.shape, w.dtype)
        for part in boxes(y.shape, FLOATS * grain(xp) // self.floats):
            workers = part[:-1]
            tensors = self.layout.views(w[workers])
            saved: list[Any] = []
            z = self.forward(tensors, X[part], saved)
            dz = layers.softmax_cross_entropy_backward(z, y[part])
            dz /= n[workers]
            first_rows = part[-1].start == 0
            summand = dw[workers] if first_rows else xp.empty_like(w[workers])
            self.backward(tensors, saved, dz, self.layout.views(summand))
            if not first_rows:
                dw[workers] += summand
        return dw

    def predict(self, w: Array, X: Array) -> Array:
        """The most likely label of each row, ties to the lowest; -1 where a logit is NaN: -> (..., n)."""
        xp = module_of(w)
        z = self.logits(w, X)
        return xp.where(xp.isnan(z).any(axis=-1), -1, z.argmax(axis=-1))


def rows(y: Array, dtype: Any) -> Array:
    """How many rows of y count, (..., n) -> (...)."""
    return (y >= 0).sum(axis=-1).astype(dtype)


def mlp(sizes: Sequence[int]) -> Model:
    """Affine layers of the given widths, ReLU between them, softmax at the end: supplement C.

    mlp([57, 20, 2]) is the Spambase network: tensors W1 (57, 20), b1 (20,), W2 (20, 2), b2 (2,).
    """
    if len(sizes) < 2:
        raise ValueError(f"mlp needs at least an input and an output width, got {list(sizes)}")
    numbers = range(1, len(sizes))

    def forward(t: Tensors, X: Array, saved: list | None) -> Array:
        return dense(t, numbers, X, saved)

    def backward(t: Tensors, saved: list, dz: Array, dt: Tensors) -> None:
        dense_backward(t, numbers, saved, dz, dt)

    return Model(layout(dense_tensors(numbers, sizes)), (sizes[0],), max(sizes), forward, backward)


def cnn(side: int = 28, channels: Sequence[int] = (32, 64, 64), hidden: int = 128, classes: int = 10) -> Model:
    """3x3 convolutions, each with ReLU and 2x2 max-pooling, then two affine layers: supplement C.

    X is (..., n, side, side). cnn() is the MNIST network: tensors K1 (3, 3, 1, 32), b1 (32,), K2, b2, K3, b3,
    W4 (576, 128), b4 (128,), W5 (128, 10), b5 (10,); the 576 are (row, column, channel) in C order.
    """
    depth = len(channels)
    if depth < 1 or side < 2**depth:
        raise ValueError(f"cnn needs channels, and a side of at least 2^{depth}, got {list(channels)}, {side}")
    convolutions, affine = range(1, depth + 1), range(depth + 1, depth + 3)
    pooled = (side >> depth, side >> depth, channels[-1])
    tensors = [
        *convolution_tensors(convolutions, (1, *channels)),
        *dense_tensors(affine, (math.prod(pooled), hidden, classes)),
    ]
    # The 9 pixels that each pixel sees and its outputs, twice, for what follows; conv_pool cuts what is larger.
    widest = 2 * side**2 * (9 + channels[0])

    def forward(t: Tensors, X: Array, saved: list | None) -> Array:
        x = convolve(t, convolutions, X.swapaxes(-3, -2).swapaxes(-2, -1)[..., None], saved)  # samples inside
        *lead, side, _, n, C = x.shape
        x = x.reshape(*lead, side**2, n, C).swapaxes(-3, -2)
        return dense(t, affine, x.reshape(*lead, n, side**2 * C), saved)

    def backward(t: Tensors, saved: list, dz: Array, dt: Tensors) -> None:
        dx = dense_backward(t, affine, saved, dz, dt)
        *lead, n, _ = dx.shape
        side, _, C = pooled
        dx = dx.reshape(*lead, n, side**2, C).swapaxes(-3, -2)
        convolve_backward(convolutions, saved, dx.reshape(*lead, side, side, n, C), dt)

    return Model(layout(tensors), (side, side), widest, forward, backward)


def dense_tensors(numbers: range, sizes: Sequence[int]) -> list[tuple[str, tuple[int, ...], int]]:
    """For `layout`: W (p, h) and b (h,) of each affine layer."""
    tensors: list[tuple[str, tuple[int, ...], int]] = []
    for i, p, h in zip(numbers, sizes[:-1], sizes[1:], strict=True):
        tensors += [(f"W{i}", (p, h), p), (f"b{i}", (h,), p)]
    return tensors


def dense(t: Tensors, numbers: range, x: Array, saved: list | None) -> Array:
    """Affine layers with ReLU between them; saves the input of each."""
    for i in numbers:
        if saved is not None:
            saved.append(x)
        x = layers.affine(x, t[f"W{i}"], t[f"b{i}"])
        if i != numbers[-1]:
            layers.relu(x, out=x)
    return x


def dense_backward(t: Tensors, numbers: range, saved: list, dy: Array, dt: Tensors) -> Array:
    """Fills dt; returns the derivative by the input, before the ReLU that it came from."""
    for i in reversed(numbers):
        x = saved.pop()
        layers.affine_backward_parameters(dy, x, out=(dt[f"W{i}"], dt[f"b{i}"]))
        if i > 1:
            dy = layers.relu_backward(layers.affine_backward_input(dy, t[f"W{i}"]), x)
    return dy


def convolution_tensors(numbers: range, channels: Sequence[int]) -> list[tuple[str, tuple[int, ...], int]]:
    """For `layout`: K (3, 3, C, O) and b (O,) of each convolution."""
    tensors: list[tuple[str, tuple[int, ...], int]] = []
    for i, C, O in zip(numbers, channels[:-1], channels[1:], strict=True):
        tensors += [(f"K{i}", (3, 3, C, O), 9 * C), (f"b{i}", (O,), 9 * C)]
    return tensors


def convolve(t: Tensors, numbers: range, x: Array, saved: list | None) -> Array:
    """Convolution, max-pooling, bias, ReLU, for each number: (..., H, W, n, C) -> (..., T, U, n, O).

    Bias and ReLU are increasing, so they may as well follow the pooling, on a quarter of the numbers.
    """
    for i in numbers:
        x = conv_pool(x, t[f"K{i}"], saved, image=i == numbers[0])
        x += t[f"b{i}"][..., None, None, None, :]
        layers.relu(x, out=x)
        if saved is not None:
            saved.append(x)
    return x


def convolve_backward(numbers: range, saved: list, dy: Array, dt: Tensors) -> None:
    """Fills dt; dy is the derivative by the output."""
    for i in reversed(numbers):
        dy = layers.relu_backward(dy, saved.pop())
        dt[f"b{i}"][...] = dy.sum(axis=(-4, -3)).sum(axis=-2)
        dt[f"K{i}"][...], dy = conv_pool_backward(dy, saved.pop())
