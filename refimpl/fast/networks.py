"""Forward and backward passes of many models at once; test: test_networks.py.

Plain: `models.MLP` and `models.Network`.

Parameters are (..., d), samples (..., n, *sample), labels (..., n); leading axes broadcast, so that one call
serves N models on N batches, or n models on one batch. Large inputs are taken in parts that fit in a cache.

A layer's bias lies behind its weights in the flat vector, so the two are one matrix (p + 1, h), and a product
with rows that have a 1 behind them adds the bias, and on the way back sums up its derivative: a third of the
calls less. Logits are (..., classes, n), where reductions over few classes run over many rows side by side:
three times as fast. Convolution, ReLU and pooling are one step, in the order convolution, pooling, bias, ReLU:
the last two are increasing, so they may as well follow the pooling, on a quarter of the numbers.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from refimpl import layers
from refimpl.arrays import Array, module_of
from refimpl.fast.conv_pool import conv_pool, conv_pool_backward
from refimpl.fast.elementwise import count, cross_entropy, cross_entropy_backward, full, relu, with_one
from refimpl.fast.parallel import FLOATS, device_factor, parallel_for, tiles
from refimpl.models import MLP, Field, Layer, Layout, Model, Network, as_layers

STAGE = (layers.conv2d, layers.relu, layers.maxpool2d)
# Numbers of all models' first hidden layer at a time. Fewer cost more, as panels are packed anew; of more,
# Spambase's round would have but one part, and a second thread nothing to do.
STACK = FLOATS // 4
# Images at a time on a CPU, and models that see them. Above a million multiplications OpenBLAS takes up to
# twice the time for each; the convolutions of 16 images stay below. Several models make for longer calls, which
# threads need, and share what is read off the images.
IMAGES, SEE = 16, 4
broadcast_shapes = functools.lru_cache(np.broadcast_shapes)


class Dense(NamedTuple):
    """An affine layer: entries start ... stop - 1 of the vector are its weights (p, h), then its bias (h,)."""

    start: int
    stop: int
    p: int
    h: int

    def matrix(self, w: Array) -> Array:
        """Weights and bias as one matrix, a view: (..., d) -> (..., p + 1, h)."""
        return w[..., self.start : self.stop].reshape(*w.shape[:-1], self.p + 1, self.h)


class Batched(NamedTuple):
    """A network as this module computes it. X are samples as they are, `rows` as `prepared` makes them."""

    layout: Layout
    sample: tuple[int, ...]
    convolutions: tuple[tuple[Field, Field], ...]  # (kernel, bias) of each
    dense: tuple[Dense, ...]
    squash: bool  # the outputs are sigmoids, which no network of the paper has
    floats: int  # how many numbers per row the largest layer holds

    def prepared(self, X: Array) -> Array:
        """Samples that the other functions take: with a 1 behind each, unless they are images."""
        return X if self.convolutions else with_one(X)

    def logits(self, w: Array, rows: Array) -> Array:
        """The forward pass: -> (..., classes, n)."""
        xp, axes = module_of(w), rows.ndim - len(self.sample)
        *some, n = rows.shape[:axes]
        lead = broadcast_shapes(w.shape[:-1], tuple(some))
        parts = self._parts((*lead, n), xp)
        if len(parts) == 1:
            return self._forward(w, rows, None)
        w = xp.broadcast_to(w, (*lead, w.shape[-1]))
        rows = rows.reshape(*(1,) * (len(lead) - len(some)), *rows.shape)
        shared = tuple(length == 1 for length in rows.shape)
        z = xp.empty((*lead, self.dense[-1].h, n), w.dtype)

        def fill(part: tuple[slice, ...]) -> None:
            here = tuple(slice(None) if one else s for s, one in zip(part, shared, strict=False))
            z.swapaxes(-1, -2)[part] = self._forward(w[part[:-1]], rows[here], None).swapaxes(-1, -2)

        parallel_for(fill, parts)
        return z

    def _parts(self, shape: tuple[int, ...], xp: ModuleType) -> Sequence[tuple[slice, ...]]:
        """Parts of the models and rows (*lead, n), small enough that what each needs stays in the cache."""
        if not self.convolutions or xp is not np:
            return tiles(shape, FLOATS * device_factor(xp) // self.floats)
        models, images = tiles(shape[:-1], SEE), tiles(shape[-1:], IMAGES)
        return [(*some, *part) for part, some in itertools.product(images, models)]

    def losses_of_all(self, M: Array, rows: Array, y: Array) -> Array:
        """`losses` of n models on the same rows: (u, n, d), (u, 1, rows, ...), (u, 1, rows) -> (u, n, rows).

        With rows enough, all models' first layers are one product: 0.7 of the time of one each.
        """
        first = self.dense[0]
        (u, n, _), R = M.shape, rows.shape[2]
        if self.convolutions or len(self.dense) == 1 or first.p > 2 * R:
            return cross_entropy(self.logits(M, rows), y)
        xp = module_of(M)
        stacked = self.first_layers(M)
        most = max(1, STACK * device_factor(xp) // (u * n * first.h))
        losses = xp.empty((u, n, R), M.dtype)

        def fill(part: tuple[slice, ...]) -> None:
            H = stacked @ rows[:, 0, part[0]].swapaxes(1, 2)  # (u, n h, rows)
            z = self.upper_layers(M, relu(H).reshape(u, n, first.h, -1))
            losses[..., part[0]] = cross_entropy(z, y[..., part[0]])

        parallel_for(fill, tiles((R,), most))
        return losses

    def first_layers(self, M: Array) -> Array:
        """The first layers of n models as one matrix to multiply rows by: (..., n, d) -> (..., n h, p + 1)."""
        (*lead, n, _), first = M.shape, self.dense[0]
        return first.matrix(M).swapaxes(-3, -2).reshape(*lead, first.p + 1, n * first.h).swapaxes(-1, -2)

    def upper_layers(self, M: Array, H: Array) -> Array:
        """The logits, from first layers' outputs after ReLU: (..., h, rows) -> (..., classes, rows)."""
        for i, layer in enumerate(self.dense[1:], start=2):
            matrix = layer.matrix(M).swapaxes(-1, -2)
            H = matrix[..., :-1] @ H
            H += matrix[..., -1:]
            if i < len(self.dense):
                relu(H)
        return layers.sigmoid(H) if self.squash else H

    def losses(self, w: Array, X: Array, y: Array) -> Array:
        """The cross-entropy of every row: -> (..., n)."""
        return cross_entropy(self.logits(w, self.prepared(X)), y)

    def risk(self, w: Array, X: Array, y: Array) -> Array:
        """The mean loss over the rows: -> (...)."""
        return self.losses(w, X, y).sum(axis=-1) / count(y, w.dtype)

    def gradient(self, w: Array, X: Array, y: Array) -> Array:
        """The gradient of the risk with respect to w: -> (..., d)."""
        return self.step(w, self.prepared(X), y, 1)

    def step(self, w: Array, rows: Array, y: Array, mu: Any, delta: Array | None = None) -> Array:
        """mu times the gradient, mu a number or (..., 1); summed over parts of the rows.

        It multiplies the derivatives of the few logits, not of the many parameters. Those of the first layer's
        outputs before ReLU are written to `delta` (..., n, h), if it is given.
        """
        xp = module_of(w)
        padded = not full(y)
        scale = mu / (xp.maximum(count(y, w.dtype), 1)[..., None] if padded else y.shape[-1])
        dw = xp.empty(w.shape, w.dtype)
        for part in self._parts(y.shape, xp):
            workers = part[:-1]
            saved: list[Any] = []
            z = self._forward(w[workers], rows[part], saved)
            dz = cross_entropy_backward(z, y[part], padded)
            dz *= scale[workers][..., None] if hasattr(scale, "ndim") else scale
            first_rows = part[-1].start == 0
            summand = dw[workers] if first_rows else xp.empty_like(w[workers])
            first = self._backward(w[workers], saved, dz, summand)
            if delta is not None:
                delta[part] = first
            if not first_rows:
                dw[workers] += summand
        return dw

    def predict(self, w: Array, X: Array) -> Array:
        """The most likely label of each row, ties to the lowest; -1 where a logit is NaN: -> (..., n)."""
        xp, z = module_of(w), self.logits(w, self.prepared(X))
        return xp.where(xp.isnan(z).any(axis=-2), -1, z.argmax(axis=-2))

    def _forward(self, w: Array, rows: Array, saved: list | None) -> Array:
        x = convolve(w, self.convolutions, rows, saved) if self.convolutions else rows
        z = dense(w, self.dense, x, saved)
        if not self.squash:
            return z
        if saved is not None:
            saved.append(z)
        return layers.sigmoid(z)

    def _backward(self, w: Array, saved: list, dz: Array, dw: Array) -> Array:
        """Fills dw, popping what `_forward` saved; returns what `dense_backward` does."""
        if self.squash:
            (dz,) = layers.sigmoid_backward(dz, saved.pop())
        dx = dense_backward(w, self.dense, saved, dz, dw, to_input=bool(self.convolutions))
        if self.convolutions:
            convolve_backward(self.convolutions, saved, dx, dw)
        return dx


def batched(model: Model) -> Batched | None:
    """The network as this module computes it; None for a model that it does not know."""
    if type(model) is MLP:
        model = as_layers(model)
    if type(model) is not Network or not all(map(_ours, model.layers)):  # a subclass may compute anything
        return None
    stack, convolutions = list(model.layers), []
    if stack and stack[0].forward is layers.add_channel:
        del stack[0]
        while tuple(layer.forward for layer in stack[:3]) == STAGE:
            convolutions.append(stack[0].tensors)
            del stack[:3]
        if not convolutions or not stack or stack.pop(0).forward is not layers.flatten:
            return None
    squash = bool(stack) and stack[-1].forward is layers.sigmoid
    if squash:
        del stack[-1]
    affine = stack[0::2]
    known = all(layer.forward is layers.affine for layer in affine) and len(stack) % 2
    if not known or not all(layer.forward is layers.relu for layer in stack[1::2]):
        return None
    fields = {field.name: field for field in model.layout.fields}
    dense = [_dense(*(fields[name] for name in layer.tensors)) for layer in affine]
    kernels = tuple((fields[K], fields[b]) for K, b in convolutions)
    if None in dense:
        return None
    floats = _floats(model, affine)
    return Batched(model.layout, model.sample, kernels, tuple(filter(None, dense)), squash, floats)


def _ours(layer: Layer) -> bool:
    """Whether both of its functions are those of `layers`: a forward one may come with another backward one."""
    name = getattr(layer.forward, "__name__", "")
    return layer[:2] == (getattr(layers, name, None), getattr(layers, f"{name}_backward", None))


def _dense(W: Field, b: Field) -> Dense | None:
    """The affine layer of these two tensors; None if the bias does not lie behind the weights."""
    p, h = W.shape
    return Dense(W.offset, b.offset + h, p, h) if b.offset == W.offset + W.size else None


def _floats(model: Network, affine: list[Layer]) -> int:
    """How many numbers per row the largest layer holds."""
    shapes = {field.name: field.shape for field in model.layout.fields}
    widest = max(max(shapes[layer.tensors[0]]) for layer in affine)
    if len(model.sample) == 1:
        return widest
    # The 9 pixels that each pixel sees and its outputs, twice, for what follows; conv_pool cuts what is larger.
    channels = shapes[model.layers[1].tensors[1]][0]
    return max(widest, 2 * math.prod(model.sample) * (9 + channels))


def dense(w: Array, stack: tuple[Dense, ...], x: Array, saved: list | None) -> Array:
    """Affine layers with ReLU between them, of rows with a 1 behind; saves the input of each."""
    xp = module_of(x)
    for layer in stack:
        if saved is not None:
            saved.append(x)
        matrix = layer.matrix(w)
        if layer is stack[-1]:
            return matrix.swapaxes(-1, -2) @ x.swapaxes(-1, -2)
        lead = broadcast_shapes(w.shape[:-1], x.shape[:-2])
        H = xp.empty((*lead, x.shape[-2], layer.h + 1), w.dtype)
        xp.matmul(x, matrix, out=H[..., :-1])
        H[..., -1] = 1
        x = relu(H)
    raise ValueError("no layers")


def dense_backward(
    w: Array, stack: tuple[Dense, ...], saved: list, dz: Array, dw: Array, to_input: bool
) -> Array:
    """Fills dw; returns the derivative with respect to the first layer's input if wanted, else its output."""
    xp, dy = module_of(w), dz.swapaxes(-1, -2)
    for layer in reversed(stack):
        x = saved.pop()
        xp.matmul(x.swapaxes(-1, -2), dy, out=layer.matrix(dw))
        if layer is not stack[0] or to_input:
            dy = dy @ layer.matrix(w)[..., :-1, :].swapaxes(-1, -2)
        if layer is not stack[0]:
            dy *= x[..., :-1] > 0
    return dy


def convolve(w: Array, convolutions: tuple[tuple[Field, Field], ...], x: Array, saved: list | None) -> Array:
    """Convolution, max-pooling, bias, ReLU for each; a 1 behind: (..., n, H, W) -> (..., n, H' W' C + 1)."""
    x = x.swapaxes(-3, -2).swapaxes(-2, -1)[..., None]  # samples inside: (..., H, W, n, 1)
    for K, b in convolutions:
        x = conv_pool(x, tensor(w, K), saved, image=K is convolutions[0][0])
        x += tensor(w, b)[..., None, None, None, :]
        relu(x)
        if saved is not None:
            saved.append(x)
    *lead, H, W, n, C = x.shape
    return with_one(x.reshape(*lead, H * W, n, C).swapaxes(-3, -2).reshape(*lead, n, H * W * C))


def convolve_backward(convolutions: tuple[tuple[Field, Field], ...], saved: list, dy: Array, dw: Array) -> None:
    """Fills dw; dy is the derivative with respect to the output."""
    *lead, H, W, n, C = saved[-1].shape
    dy = dy.reshape(*lead, n, H * W, C).swapaxes(-3, -2).reshape(*lead, H, W, n, C)
    for K, b in reversed(convolutions):
        dy = dy * (saved.pop() > 0)
        tensor(dw, b)[...] = dy.sum(axis=(-4, -3)).sum(axis=-2)
        tensor(dw, K)[...], dy = conv_pool_backward(dy, saved.pop())


def tensor(w: Array, field: Field) -> Array:
    """The view of one tensor: (..., d) -> (..., *shape)."""
    return w[..., field.offset : field.offset + field.size].reshape(*w.shape[:-1], *field.shape)
