"""Functions as a stranger may write them, for the tests of the audit."""

import time

import numpy as np


def byzfl_krum(W, f):
    """Krum over the n - f - 1 nearest others."""
    D = np.sort(((W[:, None] - W) ** 2).sum(-1), axis=1)[:, 1 : len(W) - f]
    return W[D.sum(axis=1).argmin()]


def hangs(W):
    while True:
        time.sleep(0.01)


def hangs_on_nan(W):
    return hangs(W) if np.isnan(W).any() else W.mean(axis=0)
