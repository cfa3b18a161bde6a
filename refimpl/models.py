"""Models: what Algorithm 1 asks of one, and the paper's networks (supplement C), layer by layer.

w is (d,), X is (n, *sample), y is (n,). A row with label -1 is padding: it counts neither in the risk nor in
the gradient.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from refimpl import layers
from refimpl.arrays import Array, module_of
from refimpl.layout import Layout, layout


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


class Layer(NamedTuple):
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

    def logits(self, w: Array, X: Array) -> Array:
        """The forward pass: -> (n, classes)."""
        tensors, x = self.layout.views(w), X
        for layer in self.layers:
            x = layer.forward(x, *(tensors[name] for name in layer.tensors))
        return x

    def risk(self, w: Array, X: Array, y: Array) -> Array:
        """r(w), the mean cross-entropy over the rows (below Eq. 1), a number."""
        return layers.softmax_cross_entropy(self.logits(w, X), y).sum() / (y >= 0).sum().astype(w.dtype)

    def gradient(self, w: Array, X: Array, y: Array) -> Array:
        """The gradient of the risk with respect to w, by backpropagation: -> (d,)."""
        dw, inputs, x = module_of(w).empty_like(w), [], X
        t, dt = self.layout.views(w), self.layout.views(dw)
        for layer in self.layers:
            inputs.append(x)
            x = layer.forward(x, *(t[name] for name in layer.tensors))
        dx = layers.softmax_cross_entropy_backward(x, y) / (y >= 0).sum().astype(w.dtype)
        for layer, x in zip(reversed(self.layers), reversed(inputs), strict=True):
            dx, *derivatives = layer.backward(dx, x, *(t[name] for name in layer.tensors))
            for name, derivative in zip(layer.tensors, derivatives, strict=True):
                dt[name][...] = derivative
        return dw

    def predict(self, w: Array, X: Array) -> Array:
        """The most likely label of each row, ties to the lowest; -1 where a logit is NaN: -> (n,)."""
        xp = module_of(w)
        z = self.logits(w, X)
        return xp.where(xp.isnan(z).any(axis=-1), -1, z.argmax(axis=-1))


def mlp(sizes: Sequence[int]) -> Network:
    """Affine layers of the given widths with ReLU between them: supplement C.

    mlp([57, 20, 2]) is the Spambase network: tensors W1 (57, 20), b1 (20,), W2 (20, 2), b2 (2,).
    """
    if len(sizes) < 2:
        raise ValueError(f"mlp needs at least an input and an output width, got {list(sizes)}")
    tensors, stack = _dense(1, sizes)
    return Network(layout(tensors), tuple(stack), (sizes[0],))


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


def _dense(first: int, sizes: Sequence[int]) -> tuple[list[tuple[str, tuple[int, ...], int]], list[Layer]]:
    """Affine layers, numbered from `first`, with ReLU between them: tensors for `layout`, and the layers."""
    tensors: list[tuple[str, tuple[int, ...], int]] = []
    stack: list[Layer] = []
    for i, (p, h) in enumerate(pairwise(sizes), start=first):
        tensors += [(f"W{i}", (p, h), p), (f"b{i}", (h,), p)]
        stack += [Layer(layers.affine, layers.affine_backward, (f"W{i}", f"b{i}"))]
        stack += [Layer(layers.relu, layers.relu_backward)]
    return tensors, stack[:-1]
