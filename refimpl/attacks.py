"""The paper's four attacks (Sec. 2.2 and 5), one in two versions: what adversarial workers send as models.

Rows are models: W (f, d) are the attackers' own, `honest` (h, d) those of the normal workers. Results keep
the dtype and the array module of the input, which may be any of the Python array API standard; inputs are never
written to. At the end, the tables KNOWLEDGE, what an attacker may know, and ATTACKS.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from refimpl import draws
from refimpl.arrays import Array, module_of, quiet


def sign_flip(W: Array, sigma: float = 1.0) -> Array:
    """-sigma times its own model: Sec. 2.2. (f, d) -> (f, d)."""
    return -sigma * W


def arbitrary(W: Array, signals: Array) -> Array:
    """Random signals times its own model, entry by entry: Sec. 5. (f, d), (f, d) -> (f, d).

    The paper draws the signals from (-0.5, 0.5): `draws.signals`.
    """
    return signals * W


@quiet
def fall_of_empires(honest: Array, epsilon: float = 1.0) -> Array:
    """-epsilon times the mean of the honest models (Xie et al. 2020, Sec. 3). (h, d) -> (d,)."""
    return -epsilon * module_of(honest).mean(honest, axis=0)


@quiet
def a_little_is_enough(honest: Array, z: float) -> Array:
    """mean - z std of the honest models, per coordinate: Baruch et al. 2019. (h, d) -> (d,).

    The standard deviation divides by h (ddof 0). The attackers know all honest models, as in most
    implementations, which is more than Baruch et al. let them know: see `a_little_is_enough_corrupted`.
    """
    xp = module_of(honest)
    mean = xp.mean(honest, axis=0)
    std = xp.sqrt(xp.mean((honest - mean) ** 2, axis=0))
    return mean - z * std


def a_little_is_enough_corrupted(W: Array, z: float) -> Array:
    """mean - z std of the attackers' own models (Baruch et al. 2019, Algorithm 3). (f, d) -> (d,).

    The attackers know each other's models, which come from honest local steps, and none of the normal
    workers': non-omniscient, as the paper calls the attack (Sec. 2.2). The standard deviation divides by f.
    With a single attacker it is 0, and so this attacker sends its own model.
    """
    return a_little_is_enough(W, z)


def alie_z(n: int, f: int) -> float:
    """How many standard deviations ALIE shifts, for f attackers of n: Baruch et al. 2019, Sec. 3.1.

    As far as leaves enough honest models (supporters) farther out to make a majority with the attackers.
    s = floor(n / 2 + 1) - f supporters are needed among the h = n - f honest; z = Phi^-1((h - s) / h).
    With s < 1 the attackers are a majority by themselves and the formula has no finite value: we take
    s = 1, and z = 0 for a single honest worker (whose standard deviation is 0 anyway).
    """
    from scipy.special import ndtri  # Phi^-1; here, as it takes longer to import than all else

    if not 0 <= f < n:
        raise ValueError(f"alie_z needs 0 <= f < n, got n={n}, f={f}")
    h = n - f
    s = max(n // 2 + 1 - f, 1)
    return float(ndtri((h - s) / h)) if h > s else 0.0


EVERYBODY = -1  # the receiver of a message that all are sent


class View(NamedTuple):
    """All that there is to know in a round. An attack is handed what it names in `knows`, and nothing else."""

    s: Any  # the `algorithm.Setting`
    before: Any  # the `algorithm.State` that the round began with
    batch: Array | None  # (N, B) the row numbers of each worker's sample; both None where only models are known
    own: Array  # (f, d) the attackers' models, each from its own local step
    honest: Array  # (h, d) those of the normal workers
    workers: np.ndarray  # (h,) who these are, ascending
    signals: Array | None  # (f, d) what the attack has drawn
    receiver: int = EVERYBODY  # whom the message is for


class Known(NamedTuple):
    """An entry of KNOWLEDGE."""

    of: Callable[[View], Any]
    words: str  # for --list; "" for what nobody would keep secret
    of_receiver: bool = False  # is it there only for attacks that send every receiver something else?


KNOWLEDGE = {
    # (f, d): row i of what is sent is made of row i alone; an attack that looks at other rows names "attackers"
    "own": Known(attrgetter("own"), "its own model"),
    "attackers": Known(attrgetter("own"), "all attackers' own models"),  # (f, d)
    "honest": Known(attrgetter("honest"), "all honest models"),  # (h, d)
    "signals": Known(attrgetter("signals"), ""),  # (f, d)
    "counts": Known(lambda view: (view.own.shape[0] + view.honest.shape[0], view.own.shape[0]), ""),  # n, f
}


class Attack(NamedTuple):
    """An entry of ATTACKS."""

    send: Callable[..., Array]
    """(what it knows, in that order) -> (f, d), or (d,) if all attackers send the same"""
    about: str
    reference: str
    knows: tuple[str, ...] = ("own", "honest", "signals")  # names in KNOWLEDGE
    draw: Callable[[int, int, np.random.Generator], np.ndarray] | None = None
    """how the signals (f, d) of a round are drawn, if it needs any"""
    one_message: bool = False  # do all attackers send the same?
    per_receiver: bool = False  # do they send it to one receiver, and something else to the next?
    lies: bool = True
    by_default: bool = True  # does it run where --attacks is not given?
    poison: Callable[[np.ndarray, np.ndarray, int], tuple[np.ndarray, np.ndarray]] | None = None
    """(samples, labels, number of classes) -> as many that an attacker trains on in their place, if it does"""

    def made_from(self, view: View) -> Array:
        """What the attackers send, (f, d) or (d,). Raises ValueError for None, which NumPy takes for NaN."""
        made = self.send(*(KNOWLEDGE[name].of(view) for name in self.knows))
        if made is None:
            raise ValueError(f"attack {view.s.attack} needs to return what is sent, got None")
        return made


ATTACKS = {
    "none": Attack(lambda own: own, "nobody lies", "supplement D", knows=("own",), lies=False),
    "sign-flip": Attack(sign_flip, "minus its own model", "Sec. 2.2", knows=("own",)),
    "arbitrary": Attack(
        arbitrary,
        "its own model, each entry times a random number",
        "Sec. 5",
        knows=("own", "signals"),
        draw=draws.signals,
    ),
    "foe": Attack(
        fall_of_empires,
        "Fall of Empires: minus the mean of the honest models",
        "Xie et al. 2020",
        knows=("honest",),
        one_message=True,
    ),
    "alie": Attack(
        lambda honest, counts: a_little_is_enough(honest, alie_z(*counts)),
        "A Little Is Enough: the honest models' mean minus z standard deviations",
        "Baruch et al. 2019",
        knows=("honest", "counts"),
        one_message=True,
    ),
    "alie-corrupted": Attack(
        lambda attackers, counts: a_little_is_enough_corrupted(attackers, alie_z(*counts)),
        "the attackers' own models' mean minus z standard deviations",
        "Baruch et al. 2019, Algorithm 3",
        knows=("attackers", "counts"),
        one_message=True,
        by_default=False,
    ),
}
