"""The same rounds in PyTorch, twice: as a competent user would write them, and as fast as we could make them.

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
    for rows in case.batches():
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
    """Which entry of refimpl's flat vector comes where in that of `module`: (d,)."""
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
    """Endless rounds of Algorithm 1 on one matrix W (N, d). The attackers' one message is scored once."""
    X, y = torch.from_numpy(case.X), torch.from_numpy(case.y)
    fields = case.model.layout.fields
    convolutional = fields[0].name[0] == "K"
    W, order = torch.from_numpy(case.W.copy()), np.arange(case.W.shape[1])
    if convolutional:
        order = channels_last_order(case)
        W = W[:, order]
    G = torch.empty_like(W)
    optimizer = torch.optim.Adam([W], lr=case.lr, fused=True) if case.optimizer == "adam" else None
    gradient, losses = (conv_gradient, conv_losses) if convolutional else (dense_gradient, dense_losses)
    workers, (N, f) = torch.arange(case.N)[:, None], (case.N, case.F)
    for rows in case.batches():
        row = torch.from_numpy(rows)
        X_batch, y_batch = X[workers, row], y[workers, row]
        gradient(fields, W, X_batch, y_batch, G)
        with torch.no_grad():
            if optimizer:
                W.grad = G
                optimizer.step()
            else:
                W.sub_(G, alpha=case.lr)
            honest = W[f:]
            mean = honest.mean(0)
            std = (honest - mean).square_().mean(0).sqrt_()  # std_mean is ten times slower
            message = torch.sub(mean, std, alpha=case.z)
            sent = torch.cat([message[None], honest])  # the attackers' one message, then the others'
            r = losses(fields, sent, X_batch[f:], y_batch[f:])  # (receivers, models)
            own = torch.arange(N - f)
            c = (r <= r[own, own + 1][:, None]) / r
            c[:, 0] *= f
            c /= c.sum(1, keepdim=True)
            torch.mm(c, sent, out=W[f:])

        def parameters() -> np.ndarray:
            back = np.empty_like(case.W)
            back[:, order] = W.numpy()
            return back

        yield parameters


def views(fields: Any, W: Tensor) -> list[Tensor]:
    """The named tensors of W, (..., d), in their order."""
    parts = W.split([field.size for field in fields], dim=-1)
    return [part.unflatten(-1, field.shape) for part, field in zip(parts, fields, strict=True)]


def dense_gradient(fields: Any, W: Tensor, X: Tensor, y: Tensor, G: Tensor) -> None:
    """All workers' gradients into G, by autograd through batched products."""
    tensors = [T.detach().requires_grad_() for T in views(fields, W)]
    z = X
    for A, b in zip(tensors[0::2], tensors[1::2], strict=True):
        z = torch.baddbmm(b[:, None], z if z is X else z.relu(), A)
    loss = cross_entropy(z.flatten(0, 1), y.flatten(), reduction="sum") / y.shape[1]
    grads = torch.autograd.grad(loss, tensors)
    torch.cat([g.flatten(1) for g in grads], dim=1, out=G)


def dense_losses(fields: Any, sent: Tensor, X: Tensor, y: Tensor) -> Tensor:
    """r_k(w_l), (receivers, models): a product per layer and model, with all receivers' rows."""
    tensors = views(fields, sent)
    rows, n = X.flatten(0, 1), len(sent)
    z = rows.expand(n, *rows.shape)
    for i, (A, b) in enumerate(zip(tensors[0::2], tensors[1::2], strict=True)):
        z = torch.baddbmm(b[:, None], z if i == 0 else z.relu_(), A)
    losses = cross_entropy(z.flatten(0, 1), y.flatten().repeat(n), reduction="none")
    return losses.view(n, *y.shape).mean(2).T


def channels_last_order(case: Any) -> np.ndarray:
    """As `torch_order`, but kernels are (O, 3, 3, C), as conv2d reads them fastest; the rest is refimpl's."""
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
        loss = cross_entropy(network(tensors, x, lambda x: max_pool2d(x, 2)), y[k])
        torch.cat([g.flatten() for g in torch.autograd.grad(loss, tensors)], out=G[k])


def conv_losses(fields: Any, sent: Tensor, X: Tensor, y: Tensor) -> Tensor:
    """Model by model, few images at a time, so that a layer's output stays in the cache."""
    x = X.flatten(0, 1)[:, None].contiguous(memory_format=torch.channels_last)
    labels, losses = y.flatten(), []
    for w in sent:
        tensors = views(fields, w)
        z = torch.cat([network(tensors, part, halve) for part in x.split(IMAGES)])
        losses.append(cross_entropy(z, labels, reduction="none").view(y.shape).mean(1))
    return torch.stack(losses, dim=1)


def halve(x: Tensor) -> Tensor:
    """2x2 max-pooling by two maxima: on a CPU faster than max_pool2d, which also finds where they are."""
    H = x.shape[-1] // 2 * 2
    x = torch.maximum(x[:, :, 0:H:2, :H], x[:, :, 1:H:2, :H])
    return torch.maximum(x[..., 0::2], x[..., 1::2])


IMAGES = 16
