"""PyTorch as a second opinion: autograd for every layer and network, and Algorithm 1 at full size.

The torch version shares nothing with refimpl but the data and the draws: a module per worker, its gradient by
autograd, its step by torch.optim, loops over workers and neighbours, torch's own operations in every rule.
torch stores a weight as (out, in) and images channels first; refimpl (in, out) and channels last.
"""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import PAPERS

from refimpl import aggregate, draws, layers, models, train
from refimpl.experiments import cli, tasks
from refimpl.experiments.options import parser

torch = pytest.importorskip("torch", reason="torch is in the extra 'oracles'")
torch.set_num_threads(1)  # small products: more threads only wait for each other
F = torch.nn.functional


def leaf(array):
    """A float64 tensor whose gradient will be asked for."""
    return torch.tensor(np.asarray(array), dtype=torch.float64, requires_grad=True)


def same(computed, expected, rtol=1e-12):
    """Relative to the largest entry: the difference in the maximum norm."""
    expected = np.asarray(expected)
    assert computed.shape == expected.shape
    assert np.abs(computed - expected).max() <= rtol * np.abs(expected).max()


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


# --- Layers -------------------------------------------------------------------------------------------------


def test_affine():
    x, W, b, dy = normal(7, 5), normal(5, 3), normal(3), normal(7, 3, seed=1)
    tx, tW, tb = leaf(x), leaf(W), leaf(b)
    y = F.linear(tx, tW.T, tb)
    y.backward(torch.tensor(dy))
    same(layers.affine(x, W, b), y.detach())
    for computed, tensor in zip(layers.affine_backward(dy, x, W, b), (tx, tW, tb), strict=True):
        same(computed, tensor.grad)


def test_relu():
    x, dy = np.array([-1.0, -0.0, 0.0, 5e-324, 2.0]), normal(5)
    tx = leaf(x)
    y = F.relu(tx)
    y.backward(torch.tensor(dy))
    same(layers.relu(x), y.detach(), 0)
    same(layers.relu_backward(dy, x)[0], tx.grad, 0)  # at the kink too


@pytest.mark.parametrize(("H", "W", "C", "O"), [(5, 4, 1, 3), (6, 7, 3, 2), (1, 1, 2, 2)])
def test_conv2d(H, W, C, O):
    x, K, b, dy = normal(2, H, W, C), normal(3, 3, C, O), normal(O), normal(2, H, W, O, seed=1)
    tx, tK, tb = leaf(x), leaf(K), leaf(b)
    y = F.conv2d(tx.permute(0, 3, 1, 2), tK.permute(3, 2, 0, 1), tb, padding=1).permute(0, 2, 3, 1)
    y.backward(torch.tensor(dy))
    same(layers.conv2d(x, K, b), y.detach())
    for computed, tensor in zip(layers.conv2d_backward(dy, x, K, b), (tx, tK, tb), strict=True):
        same(computed, tensor.grad)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("H", "W"), [(4, 6), (5, 7)])
def test_maxpool2d(H, W, ties):
    x, dy = normal(2, H, W, 3), normal(2, H // 2, W // 2, 3, seed=1)
    x = np.round(x) if ties else x
    tx = leaf(x)
    y = F.max_pool2d(tx.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)
    y.backward(torch.tensor(dy))
    same(layers.maxpool2d(x), y.detach(), 0)
    same(layers.maxpool2d_backward(dy, x)[0], tx.grad, 0)


def test_softmax_cross_entropy():
    z, y = 5 * normal(6, 4), np.array([0, 3, -1, 2, 1, 1])
    tz = leaf(z)
    loss = F.cross_entropy(tz, torch.tensor(y), ignore_index=-1, reduction="none")
    loss.sum().backward()
    same(layers.softmax_cross_entropy(z, y), loss.detach())
    same(layers.softmax_cross_entropy_backward(z, y), tz.grad)


# --- Networks -----------------------------------------------------------------------------------------------


def network(model):
    """The torch modules of a refimpl model, by the names in its layout, as the paper's tables list them."""
    modules, last = [], model.layout.fields[-1].name[1:]
    for field in model.layout.fields:
        if field.name[0] == "K":
            modules += [torch.nn.Conv2d(*field.shape[2:], 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
        elif field.name[0] == "W":
            if modules and isinstance(modules[-1], torch.nn.MaxPool2d):
                modules.append(torch.nn.Flatten())
            modules += [torch.nn.Linear(*field.shape)] + [torch.nn.ReLU()] * (field.name[1:] != last)
    return torch.nn.Sequential(*modules).double()


def in_refimpls_order(model, tensors):
    """The network's tensors (or their gradients) as one flat vector of refimpl."""
    flat = []
    for field, t in zip(model.layout.fields, tensors):
        if field.name[0] == "K":
            t = t.permute(2, 3, 1, 0)  # (O, C, 3, 3) -> (3, 3, C, O)
        elif field.name[0] == "W" and follows_a_convolution(model, field):
            C, side = channels_and_side(model, field)
            t = t.reshape(-1, C, side, side).permute(2, 3, 1, 0)  # features: (C, i, j) -> (i, j, C)
        elif field.name[0] == "W":
            t = t.T
        flat.append(t.reshape(-1))
    return torch.cat(flat)


def follows_a_convolution(model, field):
    names = [f.name for f in model.layout.fields]
    return f"K{int(field.name[1:]) - 1}" in names


def channels_and_side(model, field):
    C = next(f.shape[-1] for f in model.layout.fields if f.name == f"K{int(field.name[1:]) - 1}")
    return C, round((field.shape[0] // C) ** 0.5)


NETWORKS = {
    "spambase": (models.mlp([57, 20, 2]), 8),
    "har": (models.mlp([561, 100, 6]), 4),
    "small cnn, odd sides": (models.cnn(side=15, channels=(3, 4), hidden=6, classes=5), 6),
    "mnist": (models.cnn(), 2),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_gradient_against_autograd(name):
    model, n = NETWORKS[name]
    torch.manual_seed(0)
    net = network(model)
    X, y = normal(n, *model.sample), np.arange(n) % model.layout.fields[-1].size
    logits = net(torch.tensor(X[:, None] if len(model.sample) == 2 else X))
    loss = F.cross_entropy(logits, torch.tensor(y))
    loss.backward()
    w = in_refimpls_order(model, [p.detach() for p in net.parameters()]).numpy()
    assert w.shape == (model.layout.size,)
    same(model.logits(w, X), logits.detach())
    assert model.risk(w, X, y) == pytest.approx(loss.item(), rel=1e-12)
    g, expected = model.gradient(w, X, y), in_refimpls_order(model, [p.grad for p in net.parameters()]).numpy()
    for field in model.layout.fields:  # each tensor by itself: a small one cannot hide behind a large one
        part = slice(field.offset, field.offset + field.size)
        same(g[part], expected[part], 1e-10)


# --- Algorithm 1 on Spambase, at full size ------------------------------------------------------------------


class Worker:
    """One peer: its network, its data, its optimiser."""

    def __init__(self, w, X, y, lr, optimizer, l2):
        self.net = torch.nn.Sequential(
            torch.nn.Linear(57, 20), torch.nn.ReLU(), torch.nn.Linear(20, 2)
        ).double()
        self.X, self.y = torch.tensor(X), torch.tensor(y)
        self.set(torch.tensor(w))
        step = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer]
        self.optimizer = step(self.net.parameters(), lr=lr)
        self.l2 = l2

    def set(self, w):
        with torch.no_grad():
            W1, b1, W2, b2 = torch.split(w, [57 * 20, 20, 40, 2])
            for p, value in zip(self.net.parameters(), (W1.reshape(57, 20).T, b1, W2.reshape(20, 2).T, b2)):
                p.copy_(value)

    def get(self):
        W1, b1, W2, b2 = (p.detach() for p in self.net.parameters())
        return torch.cat([W1.T.reshape(-1), b1, W2.T.reshape(-1), b2])

    def learn(self, rows):
        self.optimizer.zero_grad()
        self.loss(rows).backward()
        self.optimizer.step()

    def loss(self, rows):
        penalty = sum((p**2).sum() for p in self.net.parameters())
        return F.cross_entropy(self.net(self.X[rows]), self.y[rows]) + self.l2 / 2 * penalty

    def risk(self, w, rows):
        kept = self.get()
        self.set(w)
        with torch.no_grad():
            r = self.loss(rows).item()
        self.set(kept)
        return r


def torch_rule(rule, M, f):
    """The baselines on a stack of models (n, d)."""
    n = len(M)
    ordered = torch.sort(M, dim=0).values
    if rule == "average":
        return torch.mean(M, dim=0)
    if rule == "median":
        return torch.quantile(M, 0.5, dim=0, interpolation="midpoint")
    if rule == "trimmed-mean":
        trim = f or n // 10
        return torch.mean(ordered[trim : n - trim], dim=0)
    D = torch.cdist(M, M, compute_mode="donot_use_mm_for_euclid_dist")
    if rule == "krum":
        nearest = torch.topk(D**2, n - f - 1, dim=1, largest=False).values[:, 1:]  # without itself
        return M[torch.argmin(nearest.sum(dim=1))]
    return M[torch.argmin(D.sum(dim=1))]


def torch_message(attack, own, corrupted, honest, signals):
    n, f = len(corrupted) + len(honest), len(corrupted)
    if attack == "sign-flip":
        return -own
    if attack == "arbitrary":
        return own * torch.tensor(signals)
    if attack == "foe":
        return -honest.mean(dim=0)
    if attack in ("alie", "alie-corrupted"):
        share = (n - f - (n // 2 + 1 - f)) / (n - f)
        z = torch.distributions.Normal(0.0, 1.0).icdf(torch.tensor(share, dtype=torch.float64))
        seen = honest if attack == "alie" else corrupted
        return seen.mean(dim=0) - z * seen.std(dim=0, correction=0)
    return own


def torch_algorithm_1(s, W, count, seed):
    sizes, N, bad = train.sizes(s), len(W), s.attackers.tolist()
    options = s.step_size, s.optimizer, s.l2
    workers = [Worker(W[k], s.X[k], s.y[k], *options) for k, n in enumerate(sizes)]
    batch_rng, attack_rng = draws.stream(seed, "batches"), draws.stream(seed, "attack")
    per_epoch = draws.rounds_per_epoch(sizes, s.batch_size)
    epochs = (draws.batches(sizes, s.batch_size, per_epoch, batch_rng) for _ in itertools.count())
    for rows in itertools.islice(itertools.chain.from_iterable(epochs), count):
        signals = draws.signals(len(bad), W.shape[1], attack_rng) if s.attack == "arbitrary" else [None] * N
        for worker, own_rows in zip(workers, rows):
            worker.learn(own_rows)
        sent = [worker.get() for worker in workers]
        honest = torch.stack([sent[k] for k in range(N) if k not in bad])
        corrupted = torch.stack([sent[k] for k in bad]) if bad else honest[:0]
        for i, k in enumerate(bad):
            sent[k] = torch_message(s.attack, sent[k], corrupted, honest, signals[i])
        for k in range(N):
            if k in bad or s.rule == "local":
                continue
            near = [l for l in range(N) if s.graph[k, l]]
            if s.rule in ("adaptive", "inverse-risk"):
                r = {l: workers[k].risk(sent[l], rows[k] if s.risk == "batch" else slice(None)) for l in near}
                if s.rule == "adaptive":
                    r = {l: x for l, x in r.items() if x <= r[k]}
                total = sum(1 / x for x in r.values())
                workers[k].set(sum(sent[l] * (1 / x / total) for l, x in r.items()))
            else:
                workers[k].set(torch_rule(s.rule, torch.stack([sent[l] for l in near]), len(bad)))
    return torch.stack([worker.get() for worker in workers]).numpy()


def spambase(options):
    """What examples/spambase.py would run with these options: 10 workers, 57-20-2, all 3680 training rows."""
    config = cli.configs("spambase", parser("spambase").parse_args(options.split()))[0]
    s, _, W = tasks.build(config)
    return s, W


def check_twenty_rounds(options, **changes):
    s, W = spambase(options)
    s = s._replace(**changes)
    result = next(itertools.islice(train.rounds(s, W, 0, train.plain), 19, None)).state.W
    assert_allclose(result, torch_algorithm_1(s, W, 20, 0), rtol=1e-9, atol=1e-9)
    assert np.abs(result - W).max() > 0.01  # they did learn something


@pytest.mark.parametrize("attack", PAPERS)
@pytest.mark.parametrize("rule", aggregate.RULES)
def test_twenty_rounds_of_spambase(rule, attack):
    check_twenty_rounds(f"--rules {rule} --attacks {attack}")


@pytest.mark.parametrize(
    "options", ["--risk batch", "--optimizer adam --lr 0.005", "--graph ring", "--partition shards"]
)
def test_twenty_rounds_of_spambase_with_other_options(options):
    check_twenty_rounds(f"--rules adaptive --attacks sign-flip {options}")


@pytest.mark.parametrize("rule", ["adaptive", "inverse-risk", "median"])
def test_twenty_rounds_of_spambase_with_regularisation(rule):
    check_twenty_rounds(f"--rules {rule} --attacks sign-flip", l2=0.1)
