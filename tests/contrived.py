"""Mistakes that show only at some sizes, for the tests of the audit: (kind, where the answer is wrong)."""

import numpy as np

from refimpl.audit import KINDS

WRONG_WHERE = [
    ("adaptive-weights", lambda r, own: len(r) > 10),
    ("adaptive-weights", lambda r, own: len(r) > 30),
    ("adaptive-weights", lambda r, own: own > 12),
    ("adaptive-weights", lambda r, own: (r <= r[own]).sum() > 12),
    ("inverse-risk-weights", lambda r: len(r) > 30),
    ("inverse-risk-weights", lambda r: len(r) % 16 == 0),
    ("combine", lambda c, W: len(W) > 30),
    ("combine", lambda c, W: W.shape[1] > 64),
    ("combine", lambda c, W: (c > 0).sum() > 16),
    ("average", lambda W: len(W) > 30),
    ("average", lambda W: W.shape[1] > 256),
    ("average", lambda W: len(W) > 64),
    ("medoid", lambda W: len(W) > 10),
    ("medoid", lambda W: len(W) > 30),
    ("medoid", lambda W: W.shape[1] > 64),
    ("median", lambda W: len(W) > 30),
    ("median", lambda W: len(W) > 10 and len(W) % 2 == 0),
    ("median", lambda W: len(W) > 10 and len(W) % 2),
    ("median", lambda W: W.shape[1] > 64),
    ("trimmed-mean", lambda W, f: 4 <= f < 10),
    ("trimmed-mean", lambda W, f: f >= 10),
    ("trimmed-mean", lambda W, f: f >= 1 and len(W) > 20),
    ("trimmed-mean", lambda W, f: f >= 1 and W.shape[1] > 64),
    ("trimmed-mean", lambda W, f: f >= 3 and W.shape[1] > 64),
    ("krum", lambda W, f: 4 <= f < 10),
    ("krum", lambda W, f: f >= 5 and len(W) > 2 * f + 4),
    ("krum", lambda W, f: f >= 1 and W.shape[1] > 64),
    ("krum", lambda W, f: len(W) > 30 and f > 3),
    ("krum", lambda W, f: f >= 4 and len(W) == 2 * f + 3),
    ("sign-flip", lambda W, sigma: len(W) > 20),
    ("sign-flip", lambda W, sigma: W.shape[1] > 64),
    ("arbitrary", lambda W, signals: len(W) > 20),
    ("arbitrary", lambda W, signals: W.shape[1] > 64),
    ("fall-of-empires", lambda honest, epsilon: len(honest) > 20),
    ("fall-of-empires", lambda honest, epsilon: honest.shape[1] > 64),
    ("alie", lambda honest, z: z < 0),
    ("alie", lambda honest, z: len(honest) > 17),
    ("alie", lambda honest, z: honest.shape[1] > 64),
    ("alie-z", lambda n, f: (n, f) == (10, 1)),
    ("alie-z", lambda n, f: 20 < n < 30),
    ("alie-z", lambda n, f: n > 100),
    ("softmax-cross-entropy", lambda z, y: len(z) > 64),
    ("softmax-cross-entropy", lambda z, y: z.shape[1] > 10),
    ("softmax-cross-entropy", lambda z, y: (y >= 10).any()),
    ("sgd", lambda w, g, mu: len(w) > 64),
    ("adam", lambda w, gradients, mu: len(gradients) > 6),
    ("adam", lambda w, gradients, mu: len(gradients) > 100),
    ("adam", lambda w, gradients, mu: len(w) > 64 and len(gradients) > 6),
    ("metropolis-weights", lambda graph: len(graph) > 8),
    ("metropolis-weights", lambda graph: len(graph) > 8 and graph.sum() < 4 * len(graph)),
    ("metropolis-weights", lambda graph: graph.sum(axis=1).max() > 20),
    ("round", lambda s, state, *rest: len(s.graph) > 10),
    ("round", lambda s, state, *rest: len(s.attackers) >= 4),
    ("round", lambda s, state, *rest: state.t > 6),
    ("round", lambda s, state, *rest: state.W.shape[1] > 64),
]


def wrong(kind, where):
    """The definition of a kind with a mistake where the condition holds."""
    right = KINDS[kind].define

    def function(*inputs):
        answer = right(*inputs)
        if not where(*inputs):
            return answer
        if kind == "round":
            return answer["W"] + 0.5
        if KINDS[kind].selects:
            return next((w for w in inputs[0] if not np.allclose(w, answer)), answer)
        return answer + 0.5

    return function
