"""Rounds of Algorithm 1 in PyTorch, as a competent user would write them, and as fast as we could make them.

Both take the initial parameters, the data and the batches from a `rounds.Case` and yield, after each round, a
function that gives all workers' parameters in refimpl's order: `rounds.py` compares these before it times
anything. Neither guards against models that are not finite, which refimpl does.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, cross_entropy, max_pool2d, relu_

Parameters = Callable[[], np.ndarray]


# --- As a competent user would write it: a module per worker, autograd, loops -------------------------------


def module(case: Any) -> nn.Sequential:
    """The task's network."""
    layers: list[nn.Module] = []
    for field in case.model.layout.fields:
        if field.name[0] == "K":
            C, O = field.shape[2:]
            layers += [nn.Conv2d(C, O, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        if field.name[0] == "W":
            if layers and isinstance(layers[-1], nn.MaxPool2d):
                layers.append(nn.Flatten())
            layers += [nn.Linear(*field.shape), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def plain(case: Any) -> Iterator[Parameters]:
    """Endless rounds of Algorithm 1."""
    X, y, order = images(case), torch.from_numpy(case.y), torch_order(case)
    models = [module(case).to(X.dtype) for _ in range(case.N)]
    received = [module(case).to(X.dtype).requires_grad_(False) for _ in range(case.N)]
    for model, w in zip(models, case.W, strict=True):
        nn.utils.vector_to_parameters(torch.from_numpy(w[order]), model.parameters())
    step = torch.optim.Adam if case.optimizer == "adam" else torch.optim.SGD
    optimizers = [step(model.parameters(), lr=case.lr) for model in models]
    honest = range(case.F, case.N)
    for rows, _ in case.draws():
        batches = [(X[k, row], y[k, row]) for k, row in enumerate(torch.from_numpy(rows))]
        for model, optimizer, (X_k, y_k) in zip(models, optimizers, batches, strict=True):
            optimizer.zero_grad()
            cross_entropy(model(X_k), y_k).backward()
            optimizer.step()
        with torch.no_grad():
            sent = [nn.utils.parameters_to_vector(model.parameters()) for model in models]
            good = torch.stack(sent[case.F :])
            sent[: case.F] = [good.mean(0) - case.z * good.std(0, correction=0)] * case.F
            for model, w in zip(received, sent, strict=True):
                nn.utils.vector_to_parameters(w, model.parameters())
            for k in honest:
                X_k, y_k = batches[k]
                risks = torch.stack([cross_entropy(model(X_k), y_k) for model in received])
                accepted = (risks <= risks[k]).nonzero().flatten().tolist()
                c = 1 / risks[accepted]
                c /= c.sum()
                w = torch.stack([sent[l] for l in accepted]).T @ c
                nn.utils.vector_to_parameters(w, models[k].parameters())

        def parameters() -> np.ndarray:
            W = np.empty_like(case.W)
            W[:, order] = [nn.utils.parameters_to_vector(m.parameters()).detach().numpy() for m in models]
            return W

        yield parameters


def images(case: Any) -> Tensor:
    """The data, with an axis for the one channel if they are images."""
    X = torch.from_numpy(case.X)
    return X[:, :, None] if X.ndim == 4 else X


def torch_order(case: Any) -> np.ndarray:
    """The order of refimpl's flat vector in that of `module`: (d,)."""
    parts: list[np.ndarray] = []
    side, channels = case.model.sample[0], 0
    for name, T in case.model.layout.views(np.arange(case.W.shape[1])).items():
        if name[0] == "K":
            T, side, channels = T.transpose(3, 2, 0, 1), side // 2, T.shape[-1]
        elif name[0] == "W":
            T = T.T
            if channels:  # refimpl flattens (row, column, channel), torch (channel, row, column)
                T, channels = T.reshape(-1, side, side, channels).transpose(0, 3, 1, 2), 0
        parts.append(T.ravel())
    return np.concatenate(parts)


# --- As fast as we could make it: all workers in one call, no autograd where nothing is learned --------------


def fast(case: Any) -> Iterator[Parameters]:
    """Endless rounds of Algorithm 1 on one matrix W (N, d), under any of the paper's attacks.

    A message that all attackers send is scored once.
    """
    X, y = torch.from_numpy(case.X), torch.from_numpy(case.y)
    fields = case.model.layout.fields
    convolutional = fields[0].name[0] == "K"
    W, order = torch.from_numpy(case.W.copy()), np.arange(case.W.shape[1])
    if convolutional:
        order = channels_last_order(case)
        W = W[:, order]
    G = torch.empty_like(W)
    optimizer = torch.optim.Adam([W], lr=case.lr, fused=True) if case.optimizer == "adam" else None
    losses = conv_losses if convolutional else dense_losses
    f, workers, own = case.F, torch.arange(case.N)[:, None], torch.arange(case.N - case.F)
    lies = 1 if case.attack in ("foe", "alie") else f  # how many messages attackers send; they come first
    sent = torch.empty(case.N - f + lies, W.shape[1], dtype=W.dtype)
    rows_of_all = [X[f:].flatten(0, 1), y[f:].flatten()]
    for rows, signals in case.draws():
        with torch.no_grad():
            row = torch.from_numpy(rows)
            X_batch, y_batch = X[workers, row], y[workers, row]
            if optimizer:
                conv_gradient(fields, W, X_batch, y_batch, G)
                W.grad = G
                optimizer.step()
            else:
                dense_step(fields, W, X_batch, y_batch, case.lr)
            honest = W[f:]
            lie(case, W, sent[:lies], signals)
            sent[lies:] = honest
            on = rows_of_all if case.risk == "local" else [X_batch[f:].flatten(0, 1), y_batch[f:].flatten()]
            r = losses(fields, sent, *on).view(len(sent), case.N - f, -1).mean(2).T  # (receivers, models)
            c = (r <= r[own, own + lies][:, None]) / r
            if lies < f:
                c[:, 0] *= f
            c /= c.sum(1, keepdim=True)
            torch.mm(c, sent, out=W[f:])

        def parameters() -> np.ndarray:
            back = np.empty_like(case.W)
            back[:, order] = W.numpy()
            return back

        yield parameters


def lie(case: Any, W: Tensor, lies: Tensor, signals: np.ndarray | None) -> None:
    """Writes what the attackers send, (1, d) or (f, d)."""
    honest = W[case.F :]
    if case.attack == "sign-flip":
        torch.neg(W[: case.F], out=lies)
    elif case.attack == "arbitrary":
        torch.mul(W[: case.F], torch.from_numpy(signals), out=lies)
    elif case.attack == "foe":
        torch.mean(honest, 0, out=lies[0]).neg_()
    elif case.attack == "alie":
        mean = torch.mean(honest, 0, out=lies[0])
        std = (honest - mean).square_().mean(0).sqrt_()  # std_mean is ten times slower
        lies[0].sub_(std, alpha=case.z)


def views(fields: Any, W: Tensor) -> list[Tensor]:
    """The named tensors of W, (..., d), in their order."""
    parts = W.split([field.size for field in fields], dim=-1)
    return [part.unflatten(-1, field.shape) for part, field in zip(parts, fields, strict=True)]


def dense_step(fields: Any, W: Tensor, X: Tensor, y: Tensor, lr: float) -> None:
    """All workers' local steps, in place: by hand, as autograd is slower and needs a gradient's memory."""
    tensors = views(fields, W)
    inputs, z = [X], X
    for A, b in zip(tensors[0:-2:2], tensors[1:-2:2], strict=True):
        z = torch.baddbmm(b[:, None], z, A).relu_()
        inputs.append(z)
    A, b = tensors[-2:]
    dz = torch.baddbmm(b[:, None], z, A).softmax(-1)
    dz.scatter_add_(-1, y[..., None], dz.new_full((1, 1, 1), -1.0).expand(*y.shape, 1))
    dz *= lr / y.shape[1]
    for A, b, x in zip(tensors[-2::-2], tensors[::-2], reversed(inputs), strict=True):
        dx = torch.bmm(dz, A.mT).mul_(x > 0) if x is not X else dz
        A.baddbmm_(x.mT, dz, alpha=-1)
        b.sub_(dz.sum(1))
        dz = dx


def dense_losses(fields: Any, sent: Tensor, rows: Tensor, y: Tensor) -> Tensor:
    """The loss of every model on all receivers' rows: (models, rows)."""
    tensors, n = views(fields, sent), len(sent)
    layers = list(zip(tensors[0::2], tensors[1::2], strict=True))
    (A, b), (_, p, h) = layers[0], tensors[0].shape
    if len(rows) < p:  # a product per layer and model, with all receivers' rows
        z = rows.expand(n, *rows.shape)
        for i, (A, b) in enumerate(layers):
            z = torch.baddbmm(b[:, None], z if i == 0 else z.relu_(), A)
        return cross_entropy(z.flatten(0, 1), y.repeat(n), reduction="none").view(n, -1)
    # With so many rows it pays to copy all models' first layers together, for one product.
    z = torch.addmm(b.reshape(-1, 1), A.permute(1, 0, 2).reshape(p, n * h).T, rows.T).view(n, h, -1)
    for A, b in layers[1:]:
        z = torch.baddbmm(b[:, :, None], A.mT, z.relu_())
    return cross_entropy(z, y.expand(n, -1), reduction="none")


def channels_last_order(case: Any) -> np.ndarray:
    """`torch_order`, but kernels are (O, 3, 3, C), as conv2d reads them fastest; the rest is refimpl's."""
    tensors = case.model.layout.views(np.arange(case.W.shape[1]))
    return np.concatenate([(T.transpose(3, 0, 1, 2) if T.ndim == 4 else T).ravel() for T in tensors.values()])


def network(tensors: list[Tensor], x: Tensor, pool: Callable[[Tensor], Tensor]) -> Tensor:
    """Logits of one model; ReLU after the pooling, on a quarter of the numbers."""
    kernels = [T for T in tensors if T.ndim == 4]
    for K, b in zip(kernels, tensors[1::2], strict=False):
        O, C = K.shape[-1], K.shape[-2]
        x = conv2d(x, K.reshape(O, 3, 3, C).permute(0, 3, 1, 2), b, padding=1)
        x = relu_(pool(x))
    x = x.permute(0, 2, 3, 1).flatten(1)
    A, b, B, a = tensors[2 * len(kernels) :]
    return torch.addmm(a, torch.addmm(b, x, A).relu_(), B)


def conv_gradient(fields: Any, W: Tensor, X: Tensor, y: Tensor, G: Tensor) -> None:
    """Worker by worker: a convolution in groups, one per worker, is several times slower on a CPU."""
    for k in range(len(W)):
        tensors = [T.detach().requires_grad_() for T in views(fields, W[k])]
        x = X[k, :, None].contiguous(memory_format=torch.channels_last)
        with torch.enable_grad():
            loss = cross_entropy(network(tensors, x, lambda x: max_pool2d(x, 2)), y[k])
        torch.cat([g.flatten() for g in torch.autograd.grad(loss, tensors)], out=G[k])


def conv_losses(fields: Any, sent: Tensor, rows: Tensor, y: Tensor) -> Tensor:
    """`dense_losses` model by model, few images at a time, so that a layer's output stays in the cache."""
    x = rows[:, None].contiguous(memory_format=torch.channels_last)
    losses = []
    for w in sent:
        tensors = views(fields, w)
        z = torch.cat([network(tensors, part, halve) for part in x.split(IMAGES)])
        losses.append(cross_entropy(z, y, reduction="none"))
    return torch.stack(losses)


def halve(x: Tensor) -> Tensor:
    """2x2 max-pooling by two maxima: on a CPU faster than max_pool2d, which also finds where they are."""
    H = x.shape[-1] // 2 * 2
    x = torch.maximum(x[:, :, 0:H:2, :H], x[:, :, 1:H:2, :H])
    return torch.maximum(x[..., 0::2], x[..., 1::2])


IMAGES = 16
