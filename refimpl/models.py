"""Models: what Algorithm 1 asks of one, and the paper's networks (supplement C).

A model's parameters are one flat vector w (d,); its layout says which slice of w is which tensor, in C order.
X is (n, *sample), y is (n,). A row with label -1 is padding: it counts neither in the risk nor in the gradient.
No run has such rows; the vectors for ports do. xp is numpy, or cupy for arrays on a GPU.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from refimpl import layers
from refimpl.arrays import Array, module_of


class Field(NamedTuple):
    """One tensor: entries offset ... offset + size - 1 of the vector, reshaped to `shape`."""

    name: str
    offset: int
    size: int
    shape: tuple[int, ...]
    fan_in: int  # how many inputs each output of its layer sums; scales the initial values


class Layout(NamedTuple):
    """The named tensors that a vector w consists of."""

    fields: tuple[Field, ...]
    size: int  # d, the length of w

    def views(self, w: Array) -> dict[str, Array]:
        """The named tensors of w, (d,) -> {name: shape}, as views: writing to one writes to w."""
        return {field.name: w[field.offset :][: field.size].reshape(field.shape) for field in self.fields}


def layout(tensors: list[tuple[str, tuple[int, ...], int]]) -> Layout:
    """The layout of tensors, given as (name, shape, fan_in), one after the other."""
    fields: list[Field] = []
    d = 0
    for name, shape, fan_in in tensors:
        fields.append(Field(name, d, math.prod(shape), shape, fan_in))
        d += fields[-1].size
    return Layout(tuple(fields), d)


class Model(Protocol):
    """What Algorithm 1 asks of a model, for one worker's parameters w."""

    @property
    def layout(self) -> Layout:
        """The named tensors that w consists of."""

    def risk(self, w: Array, X: Array, y: Array) -> Array:
        """r(w), the mean loss over the rows (below Eq. 1), a number."""

    def gradient(self, w: Array, X: Array, y: Array) -> Array:
        """The gradient of the risk with respect to w: -> (d,)."""

    def predict(self, w: Array, X: Array) -> Array:
        """The label of each row: -> (n,)."""


# --- The multilayer perceptron, by hand ---------------------------------------------------------------------


class MLP(NamedTuple):
    """Affine layers with ReLU between them; the loss is the cross-entropy of a softmax at the end.

    Written out: nothing here comes from `layers`.
    """

    layout: Layout  # W1, b1, W2, b2, ...
    sizes: tuple[int, ...]  # the widths: input, hidden ..., classes

    @property
    def sample(self) -> tuple[int, ...]:
        """The shape of one row of X."""
        return self.sizes[:1]

    def logits(self, w: Array, X: Array, inputs: list[Array] | None = None) -> Array:
        """The forward pass: -> (n, classes). Appends the input of each affine layer to `inputs`, if given."""
        t, x = [*self.layout.views(w).values()], X
        for i, (W, b) in enumerate(zip(t[::2], t[1::2], strict=True)):
            if i > 0:
                x = module_of(x).maximum(x, 0)  # ReLU; NaN stays NaN
            if inputs is not None:
                inputs.append(x)
            x = x @ W + b
        return x

    def risk(self, w: Array, X: Array, y: Array) -> Array:
        """r(w), the mean over the rows of log(sum_j exp z_j) - z_y, z being the logits (below Eq. 1)."""
        xp, z = module_of(w), self.logits(w, X)
        z = z - z.max(axis=1, keepdims=True)  # so that exp does not overflow
        z_y = xp.take_along_axis(z, y[:, None], axis=1)[:, 0]
        losses, real = xp.log(xp.exp(z).sum(axis=1)) - z_y, y >= 0
        return xp.where(real, losses, 0).sum() / real.sum().astype(w.dtype)

    def gradient(self, w: Array, X: Array, y: Array) -> Array:
        """The gradient of the risk with respect to w, by backpropagation: -> (d,)."""
        xp, inputs = module_of(w), list[Array]()
        z, dw = self.logits(w, X, inputs), xp.empty_like(w)
        t, dt = ([*self.layout.views(v).values()] for v in (w, dw))
        p = xp.exp(z - z.max(axis=1, keepdims=True))
        dz, real = p / p.sum(axis=1, keepdims=True) - (y[:, None] == xp.arange(z.shape[1])), y >= 0
        dz = xp.where(real[:, None], dz, 0) / real.sum().astype(w.dtype)  # (softmax - onehot) / n
        for i in reversed(range(len(inputs))):  # z = x W + b
            x, W, dW, db = inputs[i], t[2 * i], dt[2 * i], dt[2 * i + 1]
            dW[...], db[...] = x.T @ dz, dz.sum(axis=0)
            if i > 0:
                dz = (dz @ W.T) * (x > 0)  # x = max(z of the layer before, 0)
        return dw

    def predict(self, w: Array, X: Array) -> Array:
        """The most likely label of each row, ties to the lowest; -1 where a logit is NaN: -> (n,)."""
        xp, z = module_of(w), self.logits(w, X)
        return xp.where(xp.isnan(z).any(axis=1), -1, z.argmax(axis=1))


def mlp(sizes: Sequence[int]) -> MLP:
    """The multilayer perceptron of the given widths: supplement C.

    mlp([57, 20, 2]) is the Spambase network: tensors W1 (57, 20), b1 (20,), W2 (20, 2), b2 (2,).
    """
    if len(sizes) < 2:
        raise ValueError(f"mlp needs at least an input and an output width, got {list(sizes)}")
    tensors: list[tuple[str, tuple[int, ...], int]] = []
    for i, (p, h) in enumerate(pairwise(sizes), start=1):
        tensors += [(f"W{i}", (p, h), p), (f"b{i}", (h,), p)]
    return MLP(layout(tensors), tuple(sizes))


# --- Networks of any layers, and the paper's CNN ------------------------------------------------------------


class Layer(NamedTuple):
    """A layer of a `Network`, as two functions of `layers` or of one's own."""

    forward: Callable[..., Array]
    """(x, *tensors) -> y"""
    backward: Callable[..., tuple[Array, ...]]
    """(dy, x, *tensors) -> derivatives with respect to x and each tensor"""
    tensors: tuple[str, ...] = ()  # by name


class Network(NamedTuple):
    """Layers one after the other, the last of them giving the logits of a softmax; cross-entropy loss."""

    layout: Layout
    layers: tuple[Layer, ...]
    sample: tuple[int, ...]  # the shape of one row of X

    def logits(self, w: Array, X: Array, inputs: list[Array] | None = None) -> Array:
        """The forward pass: -> (n, classes). Appends the input of each layer to `inputs`, if given."""
        t, x = self.layout.views(w), X
        for layer in self.layers:
            if inputs is not None:
                inputs.append(x)
            x = layer.forward(x, *(t[name] for name in layer.tensors))
        return x

    def risk(self, w: Array, X: Array, y: Array) -> Array:
        """r(w), the mean cross-entropy over the rows (below Eq. 1), a number."""
        return layers.softmax_cross_entropy(self.logits(w, X), y).sum() / (y >= 0).sum().astype(w.dtype)

    def gradient(self, w: Array, X: Array, y: Array) -> Array:
        """The gradient of the risk with respect to w, by backpropagation: -> (d,)."""
        xp, inputs = module_of(w), list[Array]()
        z, dw = self.logits(w, X, inputs), xp.empty_like(w)
        t, dt = self.layout.views(w), self.layout.views(dw)
        dx = layers.softmax_cross_entropy_backward(z, y) / (y >= 0).sum().astype(w.dtype)
        for layer, x in zip(reversed(self.layers), reversed(inputs), strict=True):
            dx, *derivatives = layer.backward(dx, x, *(t[name] for name in layer.tensors))
            for name, derivative in zip(layer.tensors, derivatives, strict=True):
                dt[name][...] = derivative
        return dw

    def predict(self, w: Array, X: Array) -> Array:
        """The most likely label of each row, ties to the lowest; -1 where a logit is NaN: -> (n,)."""
        xp, z = module_of(w), self.logits(w, X)
        return xp.where(xp.isnan(z).any(axis=-1), -1, z.argmax(axis=-1))


def cnn(
    side: int = 28, channels: Sequence[int] = (32, 64, 64), hidden: int = 128, classes: int = 10
) -> Network:
    """3x3 convolutions, each with ReLU and 2x2 max-pooling, then two affine layers: supplement C.

    X is (n, side, side). The padding of 1, which the paper does not mention, keeps the side. cnn() is the MNIST
    network: tensors K1 (3, 3, 1, 32), b1 (32,), K2, b2, K3, b3, W4 (576, 128), b4 (128,), W5 (128, 10),
    b5 (10,); the 576 are (row, column, channel) in C order.
    """
    depth = len(channels)
    if depth < 1 or side < 2**depth:
        raise ValueError(f"cnn needs channels, and a side of at least 2^{depth}, got {list(channels)}, {side}")
    tensors: list[tuple[str, tuple[int, ...], int]] = []
    stack = [Layer(layers.add_channel, layers.add_channel_backward)]
    for i, (C, O) in enumerate(zip((1, *channels), channels, strict=False), start=1):
        tensors += [(f"K{i}", (3, 3, C, O), 9 * C), (f"b{i}", (O,), 9 * C)]
        stack += [
            Layer(layers.conv2d, layers.conv2d_backward, (f"K{i}", f"b{i}")),
            Layer(layers.relu, layers.relu_backward),
            Layer(layers.maxpool2d, layers.maxpool2d_backward),
        ]
    stack.append(Layer(layers.flatten, layers.flatten_backward))
    pixels = (side >> depth) ** 2
    dense_tensors, dense_stack = _dense(depth + 1, (pixels * channels[-1], hidden, classes))
    return Network(layout(tensors + dense_tensors), (*stack, *dense_stack), (side, side))


def as_layers(model: MLP) -> Network:
    """The multilayer perceptron as a `Network`, to which layers of other kinds can be added."""
    return Network(model.layout, tuple(_dense(1, model.sizes)[1]), model.sample)


def _dense(first: int, sizes: Sequence[int]) -> tuple[list[tuple[str, tuple[int, ...], int]], list[Layer]]:
    """The tensors of affine layers, numbered from `first`, and these layers with ReLU between them."""
    tensors: list[tuple[str, tuple[int, ...], int]] = []
    stack: list[Layer] = []
    for i, (p, h) in enumerate(pairwise(sizes), start=first):
        tensors += [(f"W{i}", (p, h), p), (f"b{i}", (h,), p)]
        stack += [Layer(layers.affine, layers.affine_backward, (f"W{i}", f"b{i}"))]
        stack += [Layer(layers.relu, layers.relu_backward)]
    return tensors, stack[:-1]
