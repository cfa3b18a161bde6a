"""Variants of the attacks."""

import numpy as np
from scipy.special import ndtri

from refimpl import attacks
from refimpl.audit.variant import Variant


def std(honest: np.ndarray, ddof: int = 0) -> np.ndarray:
    return honest.std(axis=0, ddof=ddof)


def quantile(p: float) -> float:
    return float(ndtri(p)) if 0 < p < 1 else 0.0


def supporters(n: int, f: int) -> int:
    return max(n // 2 + 1 - f, 1)


VARIANTS = {
    "sign-flip": (
        Variant(
            "sign flip that ignores sigma",
            "-w, whatever sigma is",
            "He et al. 2022 (bit flip)",
            lambda W, sigma=1.0: -W,
            (([[-1]], 0.5), ([[0, 1]], 2)),
        ),
        Variant(
            "sign flip times 4",
            "-4 w, whatever sigma is",
            "Peng et al. 2021",
            lambda W, sigma=1.0: -4 * W,
            (([[1]], 1), ([[0, 1]], 1)),
        ),
        Variant(
            "minus the mean of the models",
            "-sigma times the mean, the same for all: Fall of Empires",
            "ByzFL's SignFlipping, IOS, MoNNA (of the honest models, with sigma 1)",
            lambda W, sigma=1.0: np.tile(-sigma * W.mean(axis=0), (len(W), 1)),
            (([[0], [1]], 1), ([[0], [0], [1]], 1)),
        ),
        Variant("no flip", "sigma w", "", lambda W, sigma=1.0: sigma * W, (([[1]], 1), ([[0, 1]], 1))),
    ),
    "arbitrary": (
        Variant(
            "one signal per model",
            "each model times its first signal",
            "the released code has one per tensor; Li et al. 2020 likewise",
            lambda W, signals: signals[:, :1] * W,
            (([[0, 1]], [[1, 0]]), ([[0, 1], [0, 0]], [[0, 1], [0, 0]])),
        ),
        Variant(
            "one signal for all",
            "all models times the first signal",
            "",
            lambda W, signals: signals[0, 0] * W,
            (([[0, 1]], [[1, 0]]), ([[0, 0, 1]], [[0, 0, 1]])),
        ),
        Variant(
            "signals added",
            "w + signals",
            "",
            lambda W, signals: W + signals,
            (([[0]], [[1]]), ([[0, 0]], [[0, 1]])),
        ),
        Variant(
            "the signals alone",
            "without the model",
            "",
            lambda W, signals: signals + 0 * W,
            (([[0]], [[1]]), ([[0, 0]], [[0, 1]])),
        ),
        Variant(
            "(1 + signals) times the model",
            "a relative error",
            "",
            lambda W, signals: W + signals * W,
            (([[1]], [[0]]), ([[1, 0]], [[0, 0]])),
        ),
    ),
    "fall-of-empires": (
        Variant(
            "FoE with plus",
            "epsilon times the mean",
            "",
            lambda h, e=1.0: e * h.mean(axis=0),
            (([[1]], 1), ([[0, 1]], 1)),
        ),
        Variant(
            "FoE as (1 - epsilon) times the mean",
            "(1 - epsilon) mean, which is -0.1 mean at 1.1",
            "ByzantineMomentum, nicehiro",
            lambda h, e=1.0: (1 - e) * h.mean(axis=0),
            (([[1]], 1), ([[0, 1]], 1)),
        ),
        Variant(
            "FoE that ignores epsilon",
            "minus the mean",
            "the released code, ByzFL's SignFlipping",
            lambda h, e=1.0: -h.mean(axis=0),
            (([[-1]], 0.5), ([[0, 1]], 2)),
        ),
        Variant(
            "FoE of the sum",
            "-epsilon times the sum",
            "",
            lambda h, e=1.0: -e * h.sum(axis=0),
            (([[0], [1]], 1), ([[0], [0], [1]], 1)),
        ),
        Variant(
            "FoE of the median",
            "-epsilon times the median",
            "",
            lambda h, e=1.0: -e * np.median(h, axis=0),
            (([[0], [0], [1]], 1), ([[0, 0], [0, 0], [0, 1]], 1)),
        ),
    ),
    "alie": (
        Variant(
            "ALIE with plus",
            "mean + z std",
            "IOS",
            lambda h, z: h.mean(axis=0) + z * std(h),
            (([[0], [1]], 1), ([[0], [0], [1]], 1)),
        ),
        Variant(
            "ALIE with ddof 1",
            "mean - z std with divisor h - 1, or 0 for a single model",
            "He et al. 2022",
            lambda h, z: h.mean(axis=0) - z * std(h, min(1, len(h) - 1)),
            (([[0], [1]], 1), ([[0], [0], [1]], 1)),
        ),
        Variant(
            "ALIE with plus and ddof 1",
            "mean + z std with divisor h - 1, NaN for a single model",
            "ByzFL's ALittleIsEnough(tau = z), whose text has divisor h",
            lambda h, z: h.mean(axis=0) + z * std(h, 1),
            (([[0], [1]], 1), ([[0], [0], [1]], 1)),
        ),
        Variant(
            "ALIE without the mean",
            "the standard deviation alone",
            "",
            lambda h, z: std(h),
            (([[1]], 1), ([[0, 1]], 1)),
        ),
        Variant(
            "ALIE without the mean, ddof 1",
            "the standard deviation alone, with divisor h - 1, NaN for a single model",
            "the released code (over all workers)",
            lambda h, z: std(h, 1),
            (([[0], [1]], 1), ([[0], [1], [5]], 2)),
        ),
        Variant(
            "ALIE with the variance",
            "mean + z variance",
            "BRAVO (z = 2)",
            lambda h, z: h.mean(axis=0) + z * h.var(axis=0),
            (([[0], [1]], 1), ([[0], [0], [1]], 1)),
        ),
        Variant(
            "ALIE with minus the variance",
            "mean - z variance",
            "",
            lambda h, z: h.mean(axis=0) - z * h.var(axis=0),
            (([[0], [1]], 1), ([[0], [0], [1]], 1)),
        ),
        Variant(
            "ALIE with z = 1.5",
            "mean - 1.5 std, whatever z is",
            "Baruch et al. 2019 (the authors' code)",
            lambda h, z: h.mean(axis=0) - 1.5 * std(h),
            (([[0], [1]], 1), ([[0], [0], [1]], 1)),
        ),
        Variant(
            "ALIE by the mean of the squares",
            "std as sqrt(mean(x^2) - mean(x)^2), which cancels far from the origin",
            "",
            lambda h, z: h.mean(axis=0) - z * np.sqrt(np.maximum((h**2).mean(axis=0) - h.mean(axis=0) ** 2, 0)),
            (
                ([[100000002], [100000003], [100000004], [100000005]], 1),
                ([[100000002], [100000003], [100000004], [100000005], [100000000]], 1),
            ),
        ),
    ),
    "alie-z": (
        Variant(
            "z by (n - s) / n",
            "Phi^-1((n - s) / n)",
            "",
            lambda n, f: quantile((n - (n // 2 + 1 - f)) / n) if 2 * f < n else 0.0,
            ((3, 1), (4, 1)),
        ),
        Variant(
            "z by (n - s) / n, s = floor((n + 1) / 2) - f",
            "Phi^-1((n - s) / n)",
            "IOS, n being the number of neighbours",
            lambda n, f: quantile((n - max((n + 1) // 2 - f, 1)) / n),
            ((4, 0), (6, 0)),
        ),
        Variant(
            "s with the attackers in it",
            "s = floor(n / 2 + 1)",
            "",
            lambda n, f: quantile((n - f - (n // 2 + 1)) / (n - f)),
            ((4, 1), (5, 1)),
        ),
        Variant("minus z", "Phi^-1(s / h)", "", lambda n, f: -attacks.alie_z(n, f), ((3, 0), (4, 0))),
        Variant(
            "s = ceil(n / 2) - f",
            "half instead of a majority, for even n",
            "",
            lambda n, f: quantile((n - f - max(-(-n // 2) - f, 1)) / (n - f)),
            ((4, 0), (6, 0)),
        ),
        Variant(
            "z = 1.5",
            "fixed",
            "Baruch et al. 2019 (the authors' code), ByzFL, ByzantineMomentum",
            lambda n, f: 1.5,
            ((1, 0), (2, 0)),
        ),
        Variant("z = 10", "fixed", "He et al. 2022, on MNIST", lambda n, f: 10.0, ((1, 0), (2, 0))),
    ),
}
