"""Variants of the rules that choose one of the models: medoid and Krum."""

from collections.abc import Callable
from math import inf, nan

import numpy as np

from refimpl import aggregate
from refimpl.audit.variant import Variant

Distances = Callable[[np.ndarray], np.ndarray]


def squares(W: np.ndarray) -> np.ndarray:
    return aggregate.squared_distances(W)


def plain(W: np.ndarray) -> np.ndarray:
    return np.sqrt(squares(W))


def by_gram(W: np.ndarray) -> np.ndarray:
    """|a|^2 + |b|^2 - 2 a b, which cancels far from the origin."""
    s = (W**2).sum(axis=1)
    D = abs(s[:, None] + s - 2 * W @ W.T)
    return np.where(np.eye(len(W), dtype=bool), 0, np.where(np.isfinite(D), D, np.inf))


def lost_at_zero(W: np.ndarray) -> np.ndarray:
    return np.where(np.isinf(squares(W)), 0, squares(W))


def of_directions(W: np.ndarray) -> np.ndarray:
    return squares(W / np.sqrt((W**2).sum(axis=1, keepdims=True) + 1))


def manhattan(W: np.ndarray) -> np.ndarray:
    return abs(W[:, None] - W).sum(axis=-1)


def naive(W: np.ndarray) -> np.ndarray:
    """As numpy has it: a NaN, or infinity minus itself, stays NaN."""
    return ((W[:, None] - W) ** 2).sum(axis=-1)


def scores(D: np.ndarray, skip: int, count: int) -> np.ndarray:
    """Of each model, its `count` smallest distances after the first `skip`: (n, count)."""
    return np.sort(D, axis=1)[:, skip : skip + count]


def krum(others: int, distances: Distances = squares, skip: int = 1) -> Callable[[np.ndarray, int], np.ndarray]:
    """Krum over n - f - `others` distances."""
    return lambda W, f: aggregate.row_of_least(scores(distances(W), skip, len(W) - f - others), W)


def multi_krum(keep: Callable[[int, int], int], others: int) -> Callable[[np.ndarray, int], np.ndarray]:
    """The mean of the models with the best scores."""

    def compute(W: np.ndarray, f: int) -> np.ndarray:
        n = len(W)
        s = scores(squares(W), 1, n - f - others).sum(axis=1)
        return W[np.argsort(s, kind="stable")[: keep(n, f)]].mean(axis=0)

    return compute


def least(sums: np.ndarray, W: np.ndarray) -> np.ndarray:
    """numpy.argmin, for which NaN is the least of all."""
    return W[np.argmin(sums)]


VARIANTS = {
    "medoid": (
        Variant(
            "medoid of squared distances",
            "the smallest sum of squared distances, which is the model nearest to the mean",
            "",
            lambda W: aggregate.row_of_least(squares(W), W),
            (([[0], [0], [2], [1]],), ([[0, 0], [0, 0], [0, 1], [0, 2]],)),
        ),
        Variant(
            "medoid's ties to the last",
            "the last of equally good models",
            "",
            lambda W: aggregate.medoid(W[::-1]),
            (([[0], [1]],), ([[0, 0], [0, 1]],)),
        ),
        Variant(
            "medoid of Manhattan distances",
            "the smallest sum of |w_i - w_j|_1",
            "",
            lambda W: aggregate.row_of_least(manhattan(W), W),
            (([[0, -2, 0], [8, 0, 4], [0, 8, 8]],), ([[0, 1, 0], [1, 7, 0], [0, 0, 0], [0, 0, 0]],)),
        ),
        Variant(
            "the smallest of the largest distances",
            "the centre instead of the medoid",
            "",
            lambda W: W[np.argmin(plain(W).max(axis=1))],
            (([[1], [0], [0]],), ([[1], [0], [0], [0]],)),
        ),
        Variant(
            "distances by the plain Gram identity",
            "|a|^2 + |b|^2 - 2 a b, which cancels where models agree to many digits",
            "torch.cdist for more than 25 models; scikit-learn's euclidean_distances",
            lambda W: aggregate.row_of_least(np.sqrt(by_gram(W)), W),
            (
                ([[100000005], [100000004], [100000004], [100000004]],),
                ([[100000004], [100000005], [100000005], [100000003], [100000005]],),
            ),
        ),
        Variant(
            "distance 0 to a lost model",
            "a model that is not finite is at distance 0 from all",
            "numpy.nan_to_num of the distances",
            lambda W: aggregate.row_of_least(np.sqrt(lost_at_zero(W)), W),
            (([[0], [1], [nan]],), ([[0], [0], [1], [nan]],)),
        ),
        Variant(
            "a few infinite distances hide the others",
            "models with an infinite score are all alike, and the first of them wins if there is no other",
            "",
            lambda W: least(plain(W).sum(axis=1), W),
            (([[0], [1], [1], [nan]],), ([[0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, nan]],)),
        ),
        Variant(
            "distances of directions",
            "of w / sqrt(1 + |w|^2), as in a cosine similarity that is kept from dividing by 0",
            "",
            lambda W: aggregate.row_of_least(np.sqrt(of_directions(W)), W),
            (([[0, 1], [2, 0], [2, 2]],), ([[0, 0, 2], [0, 2, 1], [0, 0, 0]],)),
        ),
        Variant(
            "an attacker's NaN is chosen",
            "numpy.argmin of sums in which NaN is the least of all",
            "code that takes argmin of unchecked distances",
            lambda W: least(np.sqrt(naive(W)).sum(axis=1), W),
            (([[0], [inf]],), ([[0], [0], [inf]],)),
        ),
    ),
    "krum": (
        Variant(
            "Krum with n - f - 1",
            "squared distances to the n - f - 1 nearest others",
            "ByzFL's Krum(f), which is Blanchard's Krum(f + 1)",
            krum(1),
            (([[0], [1], [2]], 0), ([[0], [0], [1], [2]], 0)),
        ),
        Variant(
            "Krum with n - f - 1 unsquared distances",
            "plain distances to the n - f - 1 nearest others",
            "ByzantineMomentum, MoNNA",
            krum(1, plain),
            (([[0], [1], [0], [1], [2]], 0), ([[0], [0], [2], [2], [0], [1]], 0)),
        ),
        Variant(
            "Krum counts itself",
            "the n - f - 2 smallest squared distances with the 0 to itself, so n - f - 3 others",
            "",
            krum(2, skip=0),
            (([[0], [1], [1]], 0), ([[0], [0], [1], [2], [2]], 0)),
        ),
        Variant(
            "Krum counts itself, unsquared",
            "the n - f - 2 smallest plain distances with the 0 to itself",
            "BRIDGE-K's code",
            krum(2, plain, skip=0),
            (([[0], [1], [1]], 0), ([[0], [0], [1], [2], [2]], 0)),
        ),
        Variant(
            "Krum with unsquared distances",
            "plain distances to the n - f - 2 nearest others",
            "the released code",
            krum(2, plain),
            (([[0], [0], [1], [4], [2]], 0), ([[0], [0], [0], [1], [2], [2]], 0)),
        ),
        Variant(
            "Krum with distances squared twice",
            "|w_i - w_j|^4 to the n - f - 2 nearest others",
            "He et al. 2022, Karimireddy et al. 2022 (the authors' codes)",
            krum(2, lambda W: squares(W) ** 2),
            (([[0], [0], [0], [0], [2], [2], [1]], 0), ([[0], [0], [0], [0], [0], [2], [2], [1]], 0)),
        ),
        Variant(
            "Krum with n - f unsquared distances",
            "plain distances to the n - f nearest others",
            "Baruch et al. 2019 (the authors' code)",
            krum(0, plain),
            (([[2], [3], [1], [1]], 0), ([[0], [0], [2], [1], [1]], 0)),
        ),
        Variant(
            "Krum over all others",
            "squared distances to all others, f is ignored",
            "",
            lambda W, f: aggregate.row_of_least(squares(W), W),
            (([[0], [1], [2]], 0), ([[0], [0], [1], [2]], 0)),
        ),
        Variant(
            "Krum is told of no attackers",
            "n - 2 nearest others whatever f is",
            "",
            lambda W, f: krum(2)(W, 0),
            (([[0], [0], [1], [2], [2]], 1), ([[0], [0], [0], [1], [2], [2]], 1)),
        ),
        Variant(
            "Krum's ties to the last",
            "the last of equally good models",
            "",
            lambda W, f: aggregate.krum(W[::-1], f),
            (([[2], [1], [0]], 0), ([[1], [0], [4], [3]], 0)),
        ),
        Variant(
            "distances by the plain Gram identity",
            "|a|^2 + |b|^2 - 2 a b, which cancels where models agree to many digits",
            "torch.cdist for more than 25 models; scikit-learn's euclidean_distances",
            krum(2, by_gram),
            (
                ([[100000005], [100000003], [100000003], [100000001]], 0),
                ([[100000004], [100000000], [100000001], [100000001], [100000001]], 0),
            ),
        ),
        Variant(
            "distance 0 to a lost model",
            "a model that is not finite is at distance 0 from all",
            "numpy.nan_to_num of the distances",
            krum(2, lost_at_zero),
            (([[0], [0], [1], [1], [nan]], 0), ([[0], [0], [0], [1], [1], [nan]], 0)),
        ),
        Variant(
            "a few infinite distances hide the others",
            "models with an infinite score are all alike, and the first of them wins if there is no other",
            "",
            lambda W, f: least(scores(squares(W), 1, len(W) - f - 2).sum(axis=1), W),
            (([[1], [0], [0], [nan], [nan]], 0), ([[0], [2], [0], [1], [nan], [nan]], 0)),
        ),
        Variant(
            "distances of directions",
            "of w / sqrt(1 + |w|^2), as in a cosine similarity that is kept from dividing by 0",
            "",
            krum(2, of_directions),
            (([[0], [0], [0], [0], [1], [3], [3]], 0), ([[0], [0], [0], [2], [1], [1], [1], [1], [0]], 0)),
        ),
        Variant(
            "an attacker's NaN is chosen",
            "numpy.argmin of scores in which NaN is the least of all",
            "code that takes argmin of unchecked distances, such as Flower's aggregate_krum",
            lambda W, f: least(scores(naive(W), 1, len(W) - f - 2).sum(axis=1), W),
            (([[0], [0], [nan]], 0), ([[0], [0], [0], [nan]], 0)),
        ),
        Variant(
            "n - f - 1, and an attacker's NaN is chosen",
            "squared distances to the n - f - 1 nearest others, numpy.argmin",
            "ByzFL's Krum(f), which is Blanchard's Krum(f + 1)",
            lambda W, f: least(scores(naive(W), 1, len(W) - f - 1).sum(axis=1), W),
            (([[0], [1], [2]], 0), ([[0], [0], [1], [2]], 0)),
        ),
        Variant(
            "Multi-Krum of n - f",
            "the mean of the n - f models with the best scores over n - f - 1 others",
            "ByzFL's MultiKrum",
            multi_krum(lambda n, f: n - f, 1),
            (([[0], [0], [1]], 0), ([[0], [0], [0], [1]], 0)),
        ),
        Variant(
            "Multi-Krum of n - f - 2",
            "the mean of the n - f - 2 models with the best scores",
            "Blanchard et al. 2017 with its largest m",
            multi_krum(lambda n, f: n - f - 2, 2),
            (([[0], [0], [0], [1], [1], [1]], 0), ([[0], [0], [0], [0], [1], [1], [1]], 0)),
        ),
    ),
}
