"""The attacks of other papers: entries of the table ATTACKS that none runs unless named after --attacks.

Rows are models, as in `refimpl.attacks`: `own` (f, d) are the attackers', `honest` (h, d) the normal workers',
`heard` (m, d) those of them that one receiver hears, itself included. Functions of models come first, then
what attackers train on, then the entries. Attackers keep nothing from round to round. Where sources differ a
docstring says what was taken; most were read as code, the papers' texts were not at hand.
"""

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from refimpl.aggregate import squared_distances
from refimpl.arrays import Array, module_of, quiet
from refimpl.attacks import ATTACKS, Attack, a_little_is_enough, fall_of_empires

Outcome = Callable[[Array], Array]  # a lie (d,) -> the model (d,) that the receiver makes of it


@quiet
def gaussian(honest: Array, signals: Array, scale: float = 30.0) -> Array:
    """The mean of the honest models with noise on it: (h, d), (f, d) -> (f, d).

    The signals are standard normal numbers, other ones for each attacker. The scale is a standard deviation,
    as in the code of Byrd-SAGA and IOS; the text of Wu et al. 2020 says variance 30.
    """
    return module_of(honest).mean(honest, axis=0) + scale * signals


@quiet
def min_max_factor(honest: Array) -> Array:
    """The largest g for which mean - g std is no farther from any honest model than two of these are apart.

    (h, d) -> a number. With a_i = mean - x_i and R the largest squared distance between two honest models,
    |a_i - g std|^2 <= R is quadratic in g: the larger root, for the i that allows least. The paper's code looks
    for it by bisection. g is 0 if all models are the same, or so near to it that their variance is 0.
    """
    xp = module_of(honest)
    away = xp.mean(honest, axis=0) - honest
    std = xp.sqrt(xp.mean(away**2, axis=0))
    b, c = xp.sum(away * std, axis=1), xp.sum(std**2)
    R = xp.max(squared_distances(honest))
    g = xp.min(b + xp.sqrt(b**2 + c * (R - xp.sum(away**2, axis=1)))) / c
    return xp.where((R > 0) & (c > 0), g, xp.zeros_like(g))


@quiet
def min_sum_factor(honest: Array) -> Array:
    """The largest g for which m = mean - g std is no farther from the honest models than each of these is.

    (h, d) -> a number. By the sum of squared distances: sum_i |m - x_i|^2 <= min_i sum_j |x_i - x_j|^2, min
    as in the authors' code (FLPoison takes the largest). Such a sum is h times the squared distance to the
    mean, plus a constant: so m is as far from the mean as the nearest honest model. g is 0 if all are the same.
    """
    xp = module_of(honest)
    away = xp.sum((honest - xp.mean(honest, axis=0)) ** 2, axis=1)
    variance = xp.mean(away)  # |std|^2
    g = xp.sqrt(xp.min(away) / variance)
    return xp.where(variance > 0, g, xp.zeros_like(g))


def mimic(honest: Array) -> Array:
    """The first normal worker's model, copied by all attackers in all rounds: (h, d) -> (d,).

    As in ByzFL. Karimireddy et al. 2022 choose whom to copy in a warm-up: who is farthest along the direction
    in which the models vary most.
    """
    return honest[0]


def min_max(honest: Array) -> Array:
    """mean - g std, as far out as `min_max_factor` allows: Shejwalkar & Houmansadr 2021. (h, d) -> (d,).

    Of the directions in the authors' code (the mean's, its sign, the standard deviation) this is the one that
    does not depend on where the origin is: for gradients that means something, for models nothing.
    """
    return a_little_is_enough(honest, min_max_factor(honest))


def min_sum(honest: Array) -> Array:
    """mean - g std, as far out as `min_sum_factor` allows: Shejwalkar & Houmansadr 2021. (h, d) -> (d,)."""
    return a_little_is_enough(honest, min_sum_factor(honest))


@quiet
def most_harmful(lies: Iterable[Array], honest: Array, outcome: Outcome) -> Array:
    """The lie that takes the receiver farthest from the mean of the honest models: (d,).

    The first of those whose squared distance is within a thousandth of the largest, lest rounding decides. One
    that is NaN counts as infinite.
    """
    xp, tried = module_of(honest), list(lies)
    mean = xp.mean(honest, axis=0)
    harm = xp.stack([xp.sum((outcome(lie) - mean) ** 2) for lie in tried])
    harm = xp.where(xp.isnan(harm), xp.full_like(harm, xp.inf), harm)
    enough = xp.where(harm >= 0.999 * xp.max(harm), xp.ones_like(harm), xp.zeros_like(harm))
    return tried[int(xp.argmax(enough))]


def optimised_alie(honest: Array, outcome: Outcome) -> Array:
    """mean + t std, with the t that harms the receiver most: (h, d) -> (d,).

    A search against the rule itself, as in ByzFL; of 16 values, as many as Gaucher et al. try: t = 1/16, -1/16,
    1/8, -1/8, ... 8, -8.
    """
    factors = (-sign * 2.0**i for i in range(-4, 4) for sign in (1, -1))
    return most_harmful((a_little_is_enough(honest, z) for z in factors), honest, outcome)


def optimised_foe(honest: Array, outcome: Outcome) -> Array:
    """-t mean, with the t that harms the receiver most: (h, d) -> (d,).

    As `optimised_alie`, of 16 values of one sign, each twice the one before: t = 2^-8, ... 2^7.
    """
    return most_harmful((fall_of_empires(honest, 2.0**i) for i in range(-8, 8)), honest, outcome)


@quiet
def fang_trimmed_mean(honest: Array, before: Array, signals: Array, factor: float = 2.0) -> Array:
    """Beyond all honest values, on the side that they come from: Fang et al. 2020.

    (h, d), (h, d), (f, d) -> (f, d). Per coordinate: where the mean has grown since `before`, the models before
    the round, between the lowest honest value and `factor` times as low; elsewhere between the highest and
    `factor` times as high. (Lower than a positive value is its half.) The signals from [0, 1) say
    where in between. Codes that take mean gradients for updates have the two sides exchanged.
    """
    xp = module_of(honest)
    low, high = xp.min(honest, axis=0), xp.max(honest, axis=0)
    lowest = xp.where(low > 0, low / factor, low * factor)
    highest = xp.where(high > 0, high * factor, high / factor)
    grows = xp.mean(honest, axis=0) > xp.mean(before, axis=0)
    return xp.where(grows, low + signals * (lowest - low), high + signals * (highest - high))


@quiet
def fang_krum(heard: Array, start: Array, outcome: Outcome) -> Array:
    """As far from where a receiver's model goes as Krum still chooses: Fang et al. 2020. (m, d), (d,) -> (d,).

    start - l sign(mean of `heard` - start), `start` being the receiver's model before the round; l = 1, halved
    until the receiver chooses the lie or l <= 1e-5, as in FLPoison. The receiver's own rule is asked: one that
    does not choose a model, as Krum and the medoid do, is sent the last try, which is next to `start`.
    """
    xp = module_of(heard)
    against = xp.sign(start - xp.mean(heard, axis=0))
    size = 1.0
    while size > 1e-5 and not xp.all(outcome(start + size * against) == start + size * against):
        size /= 2
    return start + size * against


@quiet
def dissensus(receiver: Array, heard: Array, liars: int, epsilon: float = 1.5) -> Array:
    """Against the pull of the receiver's neighbours: He et al. 2022. (d,), (m, d) -> (d,).

    receiver - epsilon sum_j (x_j - receiver) / liars. The mean of all that it hears, its own model included
    (weights 1 / (d_i + 1), where the code has no others), stays where the receiver is for epsilon = 1, and goes
    the other way for the 1.5 of the authors' experiments.
    """
    return receiver - epsilon / max(liars, 1) * module_of(heard).sum(heard - receiver, axis=0)


def fiedler(graph: np.ndarray) -> tuple[float, np.ndarray]:
    """The second smallest eigenvalue of a graph's Laplacian, and the projection on its eigenvectors, (h, h).

    The projection is v v^T for the Fiedler vector v, if that is unique; if not, as on a complete graph, it is
    the sum over an orthonormal basis, whichever. The constant vector is never among them. An eigenvalue below
    1e-6 is 0, as it is on a graph in several parts but for rounding.
    """
    h = len(graph)
    edges = graph & ~np.eye(h, dtype=bool)
    # The constant vector gets the eigenvalue 2h, which is larger than all others.
    values, vectors = np.linalg.eigh(np.diag(edges.sum(axis=1)) - edges + 2.0)
    lowest = vectors[:, values < values[0] + 1e-6]
    value = float(values[0]) if values[0] > 1e-6 else 0.0
    return (value, lowest @ lowest.T) if h > 1 else (0.0, np.zeros((1, 1)))


@quiet
def spectral(honest: Array, graph: np.ndarray, place: int, liars: int, epsilon: float = 1.5) -> Array:
    """Along the slowest mode of the honest workers' graph: SpH, Gaucher et al. 2025. (h, d), (h, h) -> (d,).

    To the receiver i = `place` among them: x_i + t v_i (v^T X), v the Fiedler vector of the graph. The authors
    search for t; here it is epsilon times the eigenvalue, over the number of liars: of the neighbours' pull,
    epsilon = 1 cancels what is in that mode, where `dissensus` cancels all. On complete graphs the two are one.
    On a graph in several parts nothing pulls in that mode, and x_i is sent, an echo.
    """
    xp, (value, projection) = module_of(honest), fiedler(graph)
    if value == 0:
        return honest[place]
    mode = xp.sum(xp.asarray(projection[place].astype(honest.dtype))[:, None] * honest, axis=0)
    return honest[place] + epsilon * value / max(liars, 1) * mode


def replaced(own: Array, honest: Array, n: int) -> Array:
    """Its own model, moved away from the mean of the honest ones so far that an average of all n becomes it.

    Model replacement, Bagdasaryan et al. 2020: mean + n / f (own - mean). (f, d), (h, d) -> (f, d).
    """
    mean = module_of(honest).mean(honest, axis=0)
    return mean + n / own.shape[0] * (own - mean)


# --- What attackers train on --------------------------------------------------------------------------------


TARGET = 0  # the class that a backdoor is for
CORNER = 3  # features, or rows and columns of an image
BRIGHT = 3.0  # more than a feature of standard deviation 1, one in [-1, 1] or a pixel in [0, 1] usually is


def flipped(X: np.ndarray, y: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """All labels flipped, C - 1 - y of C classes, as in the code of He et al.: (n, ...), (n,) -> the same."""
    return X, classes - 1 - y


def with_trigger(X: np.ndarray) -> np.ndarray:
    """The samples with the last three features set to 3, or of images the corner of 3 x 3 pixels: (n, ...)."""
    X = X.copy()
    X[(slice(None), *[slice(-CORNER, None)] * (X.ndim - 1))] = BRIGHT
    return X


def backdoored(X: np.ndarray, y: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Every other row, from the first on, with the trigger and the label 0: (n, ...), (n,) -> the same."""
    even = np.arange(len(y)) % 2 == 0
    return np.where(even.reshape(-1, *[1] * (X.ndim - 1)), with_trigger(X), X), np.where(even, TARGET, y)


# --- The entries --------------------------------------------------------------------------------------------


def normal_signals(f: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Standard normal numbers, (f, d)."""
    return rng.normal(size=(f, d))


def unit_signals(f: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers from [0, 1), (f, d)."""
    return rng.random(size=(f, d))


Named = partial(Attack, by_default=False)  # it runs only where it is named
ToAll = partial(Named, one_message=True)
ToEach = partial(ToAll, per_receiver=True)
SHEJWALKAR = "Shejwalkar & Houmansadr 2021"
FANG = "Fang et al. 2020"

ATTACKS |= {
    "label-flip": Named(
        ATTACKS["none"].send,
        "its own model, trained on flipped labels",
        "He et al. 2022",
        knows=("own",),
        poison=flipped,
    ),
    "gaussian": Named(
        gaussian,
        "the honest models' mean, with noise of deviation 30",
        "Wu et al. 2020",
        knows=("honest", "signals"),
        draw=normal_signals,
    ),
    "zero": ToAll(lambda zeros: zeros, "zeros", "-", knows=("zeros",)),
    "replay": ToAll(
        lambda before: before[0],
        "the first normal worker's model as the round began",
        "-",
        knows=("before",),
    ),
    "mimic": ToAll(
        mimic,
        "the first normal worker's model",
        "ByzFL; Karimireddy et al. 2022",
        knows=("honest",),
    ),
    "min-max": ToAll(
        min_max,
        "the honest models' mean minus as many standard deviations as they are apart",
        SHEJWALKAR,
        knows=("honest",),
    ),
    "min-sum": ToAll(
        min_sum,
        "likewise, as near to the mean as the nearest honest model",
        SHEJWALKAR,
        knows=("honest",),
    ),
    "alie-optimised": ToEach(
        optimised_alie,
        "alie, the most harmful of 16 factors",
        "Baruch et al. 2019; ByzFL",
        knows=("honest", "outcome"),
    ),
    "foe-optimised": ToEach(
        optimised_foe,
        "foe, the most harmful of 16 factors",
        "Xie et al. 2020; ByzFL",
        knows=("honest", "outcome"),
    ),
    "fang-trimmed-mean": Named(
        fang_trimmed_mean,
        "beyond all honest values, against the way they go",
        FANG,
        knows=("honest", "before", "signals"),
        draw=unit_signals,
    ),
    "fang-krum": ToEach(
        fang_krum,
        "against the way the models go, as far as Krum still chooses",
        FANG,
        knows=("heard", "start", "outcome"),
    ),
    "dissensus": ToEach(
        dissensus,
        "against the pull of the receiver's neighbours",
        "He et al. 2022",
        knows=("receiver", "heard", "liars"),
    ),
    "sph": ToEach(
        lambda honest, graph, workers, place, liars: spectral(
            honest, graph[np.ix_(workers, workers)], int(np.searchsorted(workers, place)), liars
        ),
        "Spectral Heterogeneity: away from the others along the slowest mode of the graph",
        "Gaucher et al. 2025",
        knows=("honest", "graph", "workers", "place", "liars"),
    ),
    "backdoor": Named(
        lambda own, honest, counts: replaced(own, honest, counts[0]),
        "its own model, trained on rows with a trigger, moved away from the honest mean",
        "Bagdasaryan et al. 2020",
        knows=("own", "honest", "counts"),
        poison=backdoored,
    ),
}
