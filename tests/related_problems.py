"""Small settings for the tests of refimpl.related, beside those of problems.py."""

import itertools

from numpy.testing import assert_allclose
from problems import MODEL, after, setting

from refimpl import draws, graphs, related, train
from refimpl.models import layout

D = MODEL.layout.size
DENSE = graphs.complete(7)
DENSE[0, 3] = DENSE[3, 0] = DENSE[2, 6] = DENSE[6, 2] = False  # degrees 5 and 6, so weights differ
BAND = graphs.from_edges(7, [(k, (k + j) % 7) for k in range(7) for j in (1, 2)])
WHOLE = ("bulyan", "icwtm", "mda")  # need all seven


def graph_for(name):
    return graphs.complete(7) if name in WHOLE else DENSE


def mu(k, t):
    """A step size of each worker's own in every round."""
    return 0.4 * (1 + k) / (7 + t)


def run(name, count, s, W=None, schedule=None, **options):
    """The last of `count` rounds."""
    return after(s, count, W, engine=related.engine(name, schedule, **options))


def batches(s, count, seed=0):
    sizes, rng = train.sizes(s), draws.stream(seed, "batches")
    per_epoch = draws.rounds_per_epoch(sizes, s.batch_size)
    epochs = (draws.batches(sizes, s.batch_size, per_epoch, rng) for _ in itertools.count())
    return list(itertools.islice(itertools.chain.from_iterable(epochs), count))


def peaceful(graph=DENSE, **options):
    return setting(graph=graph, attackers=[], step_size=mu, **options)


def assert_same(a, b, rtol=1e-9):
    assert_allclose(a.state.W, b.state.W, rtol=rtol, atol=1e-12)


class Quadratic:
    """Its risk is the mean of |w - x|^2 / 2: separable."""

    layout = layout([("w", (3,), 1)])

    def risk(self, w, X, y):
        return (((w - X) ** 2).sum(axis=-1) / 2).mean()

    def gradient(self, w, X, y):
        return (w - X).mean(axis=0)

    def predict(self, w, X):
        return (X @ w > 0).astype(int)
