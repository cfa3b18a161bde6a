"""Forward and backward passes of many models at once. Plain: `models.Network`; test: test_networks.py.

Parameters are (..., d), samples (..., n, *sample), labels (..., n); leading axes broadcast, so that one call
serves N models on N batches, or n models on one batch. Large inputs are taken in parts that fit in a cache.

Convolution, ReLU and pooling are one step here, in the order convolution, pooling, bias, ReLU: the last two are
increasing, so they may as well follow the pooling, on a quarter of the numbers.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from refimpl import layers
from refimpl.arrays import Array, module_of
from refimpl.fast.conv_pool import conv_pool, conv_pool_backward
from refimpl.fast.parts import FLOATS, boxes, grain
from refimpl.layout import Layout
from refimpl.models import Layer, Model, Network

Tensors = dict[str, Array]
Names = tuple[str, ...]
STAGE = (layers.conv2d, layers.relu, layers.maxpool2d)


class Batched(NamedTuple):
    """A network as this module computes it."""

    layout: Layout
    sample: tuple[int, ...]
    convolutions: tuple[Names, ...]  # (kernel, bias) of each
    affine: tuple[Names, ...]  # (weights, bias) of each
    floats: int  # how many numbers per row the largest layer holds

    def logits(self, w: Array, X: Array) -> Array:
        """The forward pass: -> (..., n, classes)."""
        xp = module_of(w)
        most = FLOATS * grain(xp) // self.floats
        *lead, n = X.shape[: X.ndim - len(self.sample)]
        lead = np.broadcast_shapes(w.shape[:-1], tuple(lead))
        if math.prod(lead) * n <= most:
            return self._forward(self.layout.views(w), X, None)
        w = xp.broadcast_to(w, (*lead, w.shape[-1]))
        X = xp.broadcast_to(X, (*lead, n, *self.sample))
        classes = self.layout.views(w)[self.affine[-1][1]].shape[-1]
        z = xp.empty((*lead, n, classes), w.dtype)
        for part in boxes((*lead, n), most):
            z[part] = self._forward(self.layout.views(w[part[:-1]]), X[part], None)
        return z

    def losses(self, w: Array, X: Array, y: Array) -> Array:
        """The cross-entropy of every row: -> (..., n)."""
        return cross_entropy(self.logits(w, X), y)

    def risk(self, w: Array, X: Array, y: Array) -> Array:
        """The mean of these: -> (...)."""
        return self.losses(w, X, y).sum(axis=-1) / rows(y, w.dtype)

    def gradient(self, w: Array, X: Array, y: Array) -> Array:
        """The gradient of the risk with respect to w, summed over parts of the rows: -> (..., d)."""
        xp = module_of(w)
        n = rows(y, w.dtype)[..., None, None]
        dw = xp.empty(w.shape, w.dtype)
        for part in boxes(y.shape, FLOATS * grain(xp) // self.floats):
            workers = part[:-1]
            tensors = self.layout.views(w[workers])
            saved: list[Any] = []
            z = self._forward(tensors, X[part], saved)
            dz = layers.softmax_cross_entropy_backward(z, y[part])
            dz /= n[workers]
            first_rows = part[-1].start == 0
            summand = dw[workers] if first_rows else xp.empty_like(w[workers])
            self._backward(tensors, saved, dz, self.layout.views(summand))
            if not first_rows:
                dw[workers] += summand
        return dw

    def predict(self, w: Array, X: Array) -> Array:
        """The most likely label of each row, ties to the lowest; -1 where a logit is NaN: -> (..., n)."""
        xp = module_of(w)
        z = self.logits(w, X)
        return xp.where(xp.isnan(z).any(axis=-1), -1, z.argmax(axis=-1))

    def _forward(self, t: Tensors, x: Array, saved: list | None) -> Array:
        if self.convolutions:
            x = convolve(t, self.convolutions, x, saved)
        return dense(t, self.affine, x, saved)

    def _backward(self, t: Tensors, saved: list, dz: Array, dt: Tensors) -> None:
        """Fills dt, popping what `_forward` saved."""
        dx = dense_backward(t, self.affine, saved, dz, dt, to_input=bool(self.convolutions))
        if self.convolutions:
            convolve_backward(self.convolutions, saved, dx, dt)


def batched(model: Model) -> Batched | None:
    """The network as this module computes it; None for a model that it does not know."""
    if not isinstance(model, Network):
        return None
    stack, convolutions = list(model.layers), []
    if stack and stack[0].forward is layers.add_channel:
        del stack[0]
        while tuple(layer.forward for layer in stack[:3]) == STAGE:
            convolutions.append(stack[0].tensors)
            del stack[:3]
        if not convolutions or not stack or stack.pop(0).forward is not layers.flatten:
            return None
    affine = stack[0::2]
    known = all(layer.forward is layers.affine for layer in affine) and len(stack) % 2
    if not known or not all(layer.forward is layers.relu for layer in stack[1::2]):
        return None
    return Batched(
        model.layout,
        model.sample,
        tuple(convolutions),
        tuple(a.tensors for a in affine),
        _floats(model, affine),
    )


def _floats(model: Network, affine: list[Layer]) -> int:
    """How many numbers per row the largest layer holds."""
    shapes = {field.name: field.shape for field in model.layout.fields}
    widest = max(max(shapes[layer.tensors[0]]) for layer in affine)
    if len(model.sample) == 1:
        return widest
    # The 9 pixels that each pixel sees and its outputs, twice, for what follows; conv_pool cuts what is larger.
    channels = shapes[model.layers[1].tensors[1]][0]
    return max(widest, 2 * math.prod(model.sample) * (9 + channels))


def rows(y: Array, dtype: Any) -> Array:
    """How many rows of y are not padding, (..., n) -> (...)."""
    return (y >= 0).sum(axis=-1).astype(dtype)


def cross_entropy(z: Array, y: Array) -> Array:
    """`layers.softmax_cross_entropy` with the classes moved in front of the rows: three times as fast."""
    xp = module_of(z)
    z = z.swapaxes(-1, -2).copy()  # (..., c, n)
    z -= z.max(axis=-2, keepdims=True)
    is_label = y[..., None, :] == xp.arange(z.shape[-2])[:, None]
    z_y = xp.where(is_label, z, 0).sum(axis=-2)
    return xp.where(y >= 0, xp.log(xp.exp(z).sum(axis=-2)) - z_y, 0)


def dense(t: Tensors, affine: tuple[Names, ...], x: Array, saved: list | None) -> Array:
    """Affine layers with ReLU between them; saves the input of each."""
    for W, b in affine:
        if saved is not None:
            saved.append(x)
        x = x @ t[W]
        x += t[b][..., None, :]
        if (W, b) != affine[-1]:
            module_of(x).maximum(x, 0, out=x)
    return x


def dense_backward(
    t: Tensors, affine: tuple[Names, ...], saved: list, dy: Array, dt: Tensors, to_input: bool
) -> Array:
    """Fills dt; returns the derivative with respect to the first layer's input if it is wanted."""
    for W, b in reversed(affine):
        x = saved.pop()
        module_of(x).matmul(x.swapaxes(-1, -2), dy, out=dt[W])
        dy.sum(axis=-2, out=dt[b])
        if (W, b) != affine[0]:
            dy = dy @ t[W].swapaxes(-1, -2)
            dy *= x > 0
        elif to_input:
            dy = dy @ t[W].swapaxes(-1, -2)
    return dy


def convolve(t: Tensors, convolutions: tuple[Names, ...], x: Array, saved: list | None) -> Array:
    """Convolution, max-pooling, bias and ReLU, for each: (..., n, H, W) -> (..., n, H' W' C)."""
    x = x.swapaxes(-3, -2).swapaxes(-2, -1)[..., None]  # samples inside: (..., H, W, n, 1)
    for K, b in convolutions:
        x = conv_pool(x, t[K], saved, image=(K, b) == convolutions[0])
        x += t[b][..., None, None, None, :]
        module_of(x).maximum(x, 0, out=x)
        if saved is not None:
            saved.append(x)
    *lead, H, W, n, C = x.shape
    return x.reshape(*lead, H * W, n, C).swapaxes(-3, -2).reshape(*lead, n, H * W * C)


def convolve_backward(convolutions: tuple[Names, ...], saved: list, dy: Array, dt: Tensors) -> None:
    """Fills dt; dy is the derivative with respect to the output."""
    *lead, H, W, n, C = saved[-1].shape
    dy = dy.reshape(*lead, n, H * W, C).swapaxes(-3, -2).reshape(*lead, H, W, n, C)
    for K, b in reversed(convolutions):
        dy = dy * (saved.pop() > 0)
        dt[b][...] = dy.sum(axis=(-4, -3)).sum(axis=-2)
        dt[K][...], dy = conv_pool_backward(dy, saved.pop())
