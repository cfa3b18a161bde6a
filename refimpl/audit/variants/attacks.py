"""Variants of the attacks."""

import numpy as np
from scipy.special import ndtri

from refimpl.arrays import Array
from refimpl.attacks import alie_z

# --- Sign flip ----------------------------------------------------------------------------------------------


def flip_without_sigma(W: Array, sigma: float = 1.0) -> Array:
    """sign flip that ignores sigma: -w, whatever sigma is [He et al. 2022 (bit flip)]"""
    return -W


def flip_times_4(W: Array, sigma: float = 1.0) -> Array:
    """sign flip times 4: -4 w, whatever sigma is [Peng et al. 2021]"""
    return -4 * W


def flipped_mean(W: Array, sigma: float = 1.0) -> Array:
    """minus the mean of the models: -sigma times the mean, the same for all: Fall of Empires
    [ByzFL's SignFlipping, IOS, MoNNA (of the honest models, with sigma 1)]"""
    return np.tile(-sigma * W.mean(axis=0), (len(W), 1))


def no_flip(W: Array, sigma: float = 1.0) -> Array:
    """no flip: sigma w"""
    return sigma * W


# --- Arbitrary ----------------------------------------------------------------------------------------------


def one_signal_per_model(W: Array, signals: Array) -> Array:
    """one signal per model: each model times its first signal
    [the released code has one per tensor; Li et al. 2020 likewise]"""
    return signals[:, :1] * W


def one_signal_for_all(W: Array, signals: Array) -> Array:
    """one signal for all: all models times the first signal"""
    return signals[0, 0] * W


def signals_added(W: Array, signals: Array) -> Array:
    """signals added: w + signals"""
    return W + signals


def signals_alone(W: Array, signals: Array) -> Array:
    """the signals alone: without the model"""
    return signals + 0 * W


def relative_error(W: Array, signals: Array) -> Array:
    """(1 + signals) times the model: a relative error"""
    return W + signals * W


# --- Fall of Empires ----------------------------------------------------------------------------------------


def foe_plus(honest: Array, epsilon: float = 1.0) -> Array:
    """FoE with plus: epsilon times the mean"""
    return epsilon * honest.mean(axis=0)


def foe_one_minus(honest: Array, epsilon: float = 1.0) -> Array:
    """FoE as (1 - epsilon) times the mean: (1 - epsilon) mean, which is -0.1 mean at 1.1
    [ByzantineMomentum, nicehiro]"""
    return (1 - epsilon) * honest.mean(axis=0)


def foe_without_epsilon(honest: Array, epsilon: float = 1.0) -> Array:
    """FoE that ignores epsilon: minus the mean [the released code, ByzFL's SignFlipping]"""
    return -honest.mean(axis=0)


def foe_of_the_sum(honest: Array, epsilon: float = 1.0) -> Array:
    """FoE of the sum: -epsilon times the sum"""
    return -epsilon * honest.sum(axis=0)


# --- A Little Is Enough -------------------------------------------------------------------------------------


def alie_plus(honest: Array, z: float) -> Array:
    """ALIE with plus: mean + z std [IOS, ByzPy, FLPoison]"""
    return honest.mean(axis=0) + z * honest.std(axis=0)


def alie_ddof_1(honest: Array, z: float) -> Array:
    """ALIE with ddof 1: mean - z std with divisor h - 1, or 0 for a single model
    [He et al. 2022, FL-Byzantine-Library]"""
    return honest.mean(axis=0) - z * honest.std(axis=0, ddof=min(1, len(honest) - 1))


def alie_plus_ddof_1(honest: Array, z: float) -> Array:
    """ALIE with plus and ddof 1: mean + z std with divisor h - 1, NaN for a single model
    [ByzFL's ALittleIsEnough(tau = z), whose text has divisor h; Blades]"""
    return honest.mean(axis=0) + z * honest.std(axis=0, ddof=1)


def alie_without_mean(honest: Array, z: float) -> Array:
    """ALIE without the mean: the standard deviation alone"""
    return honest.std(axis=0)


def alie_without_mean_ddof_1(honest: Array, z: float) -> Array:
    """ALIE without the mean, ddof 1: the standard deviation alone, with divisor h - 1, NaN for a single model
    [the released code (over all workers)]"""
    return honest.std(axis=0, ddof=1)


def alie_plus_variance(honest: Array, z: float) -> Array:
    """ALIE with the variance: mean + z variance [BRAVO (z = 2)]"""
    return honest.mean(axis=0) + z * honest.var(axis=0)


def alie_minus_variance(honest: Array, z: float) -> Array:
    """ALIE with minus the variance: mean - z variance"""
    return honest.mean(axis=0) - z * honest.var(axis=0)


def alie_fixed_z(honest: Array, z: float) -> Array:
    """ALIE with z = 1.5: mean - 1.5 std, whatever z is [Baruch et al. 2019 (the authors' code)]"""
    return honest.mean(axis=0) - 1.5 * honest.std(axis=0)


def alie_plus_fixed_z(honest: Array, z: float) -> Array:
    """ALIE with plus, ddof 1 and z = 1.5: mean + 1.5 std with divisor h - 1, whatever z is
    [ByzFL's ALittleIsEnough() by default]"""
    return alie_plus_ddof_1(honest, 1.5)


def alie_by_squares(honest: Array, z: float) -> Array:
    """ALIE by the mean of the squares: std as sqrt(mean(x^2) - mean(x)^2), which cancels far from the origin"""
    mean = honest.mean(axis=0)
    return mean - z * np.sqrt(np.maximum((honest**2).mean(axis=0) - mean**2, 0))


# --- ALIE's z -----------------------------------------------------------------------------------------------


def quantile(p: float) -> float:
    """Phi^-1(p), or 0 where that is infinite."""
    return float(ndtri(p)) if 0 < p < 1 else 0.0


def z_over_n(n: int, f: int) -> float:
    """z by (n - s) / n: Phi^-1((n - s) / n) [ByzPy]"""
    return quantile((n - (n // 2 + 1 - f)) / n) if 2 * f < n else 0.0


def z_over_n_half(n: int, f: int) -> float:
    """z by (n - s) / n, s = floor((n + 1) / 2) - f: Phi^-1((n - s) / n)
    [IOS, n being the number of neighbours]"""
    return quantile((n - max((n + 1) // 2 - f, 1)) / n)


def z_with_attackers(n: int, f: int) -> float:
    """s with the attackers in it: s = floor(n / 2 + 1)"""
    return quantile((n - f - (n // 2 + 1)) / (n - f))


def minus_z(n: int, f: int) -> float:
    """minus z: Phi^-1(s / h)"""
    return -alie_z(n, f)


def z_of_half(n: int, f: int) -> float:
    """s = ceil(n / 2) - f: half instead of a majority, for even n"""
    return quantile((n - f - max(-(-n // 2) - f, 1)) / (n - f))


def z_1_5(n: int, f: int) -> float:
    """z = 1.5: fixed [Baruch et al. 2019 (the authors' code), ByzFL, ByzantineMomentum]"""
    return 1.5


def z_10(n: int, f: int) -> float:
    """z = 10: fixed [He et al. 2022, on MNIST]"""
    return 10.0


TABLE = {
    "sign-flip": (flip_without_sigma, flip_times_4, flipped_mean, no_flip),
    "arbitrary": (one_signal_per_model, one_signal_for_all, signals_added, signals_alone, relative_error),
    "fall-of-empires": (foe_plus, foe_one_minus, foe_without_epsilon, foe_of_the_sum),
    "alie": (
        alie_plus, alie_ddof_1, alie_plus_ddof_1, alie_without_mean, alie_without_mean_ddof_1,
        alie_plus_variance, alie_minus_variance, alie_fixed_z, alie_plus_fixed_z, alie_by_squares,
    ),
    "alie-z": (z_over_n, z_over_n_half, z_with_attackers, minus_z, z_of_half, z_1_5, z_10),
}  # fmt: skip
