"""The paper's four attacks (Sec. 2.2 and 5): what the adversarial workers send instead of their models.

Rows are models: W (f, d) are the attackers' own, `honest` (h, d) those of the normal workers. Results keep
the dtype and the array module of the input, and inputs are never written to.
"""

from collections.abc import Callable

from scipy.special import ndtri

from refimpl.arrays import Array, quiet


def sign_flip(W: Array, sigma: float = 1.0) -> Array:
    """-sigma w, of its own model: Sec. 2.2. (f, d) -> (f, d)."""
    return -sigma * W


def arbitrary(W: Array, signals: Array) -> Array:
    """Random signals times its own model, entry by entry: Sec. 5. (f, d), (f, d) -> (f, d).

    The paper draws the signals from (-0.5, 0.5): `draws.signals`.
    """
    return signals * W


@quiet
def fall_of_empires(honest: Array, epsilon: float = 1.0) -> Array:
    """-epsilon times the mean of the honest models (Xie et al. 2020, Sec. 3). (h, d) -> (d,)."""
    return -epsilon * honest.mean(axis=0)


@quiet
def a_little_is_enough(honest: Array, z: float) -> Array:
    """mean - z std of the honest models, per coordinate (Baruch et al. 2019, Algorithm 3). (h, d) -> (d,).

    The standard deviation divides by h (ddof 0).
    """
    mean = honest.mean(axis=0)
    deviation = honest - mean
    deviation *= deviation
    return mean - z * deviation.mean(axis=0) ** 0.5


def alie_z(n: int, f: int) -> float:
    """The largest shift that a majority still hides (Baruch et al. 2019, Sec. 3.1), for f attackers of n.

    s = floor(n / 2 + 1) - f supporters are needed among the h = n - f honest; z = Phi^-1((h - s) / h).
    With s < 1 the attackers are a majority by themselves and the formula has no finite value: we take
    s = 1, and z = 0 for a single honest worker (whose standard deviation is 0 anyway).
    """
    if not 0 <= f < n:
        raise ValueError(f"alie_z needs 0 <= f < n, got n={n}, f={f}")
    h = n - f
    s = max(n // 2 + 1 - f, 1)
    return float(ndtri((h - s) / h)) if h > s else 0.0


# By name, attacks in which all attackers send the same: (honest models, number of attackers) -> (d,).
COLLUDING: dict[str, Callable[[Array, int], Array]] = {
    "foe": lambda honest, f: fall_of_empires(honest),
    "alie": lambda honest, f: a_little_is_enough(honest, alie_z(len(honest) + f, f)),
}

# All by name: (attackers' models, honest models, signals) -> (f, d), or (d,) if all attackers send the same.
ATTACKS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "none": lambda own, honest, signals: own,
    "sign-flip": lambda own, honest, signals: sign_flip(own),
    "arbitrary": lambda own, honest, signals: arbitrary(own, signals),
    "foe": lambda own, honest, signals: COLLUDING["foe"](honest, len(own)),
    "alie": lambda own, honest, signals: COLLUDING["alie"](honest, len(own)),
}
