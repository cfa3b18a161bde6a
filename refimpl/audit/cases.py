"""What a function is judged on: the test vectors of its kind, and drawn inputs, the same every time.

Every generator yields (group, inputs). Groups in APART are counted apart from the ordinary ones: there the
definition takes a stand that its source leaves open, or rounding alone can make the difference.
A `Relation` moves inputs in such a way that the answer has to move with them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from refimpl import graphs, vectors

Inputs = tuple[Any, ...]
Drawn = Iterator[tuple[str, Inputs]]

MANY = (11, 12, 16, 23, 31)  # more models than a mistake with a small table or a fixed size can bear
WIDE = ((4, 65), (9, 130), (17, 300))  # (models, coordinates)
LARGE = "many coordinates"

HOSTILE, FAR, PADDING, MAJORITY = "hostile", "far from the origin", "padding", "majority of attackers"
APART = {  # what a definition's source leaves open, or rounding alone decides; and what is asked there
    HOSTILE: "NaN, infinite or huge inputs, on which the source is silent",
    FAR: "models near 1e6 that differ by 1e-6, where rounding tells",
    PADDING: "rows with label -1, a convention",
    MAJORITY: "half of the workers are attackers or more, on which the source is silent",
}
NUDGE = 1e-5  # of the inputs' spread: more than rounding in float32 can do
HUGE = 1e8  # a number of this size is an attacker's


class Case(NamedTuple):
    """One set of inputs with the definition's answer."""

    name: str
    group: str
    inputs: Inputs
    expected: Any  # an array; for a round, arrays by step
    rtol: float
    atol: float

    @property
    def apart(self) -> bool:
        """Whether it is counted apart."""
        return self.group in APART

    @property
    def telling(self) -> bool:
        """Whether it is ordinary and has several models of several coordinates, for a first look."""
        sizes = [np.shape(value) for value in self.inputs if isinstance(value, np.ndarray)]
        return not self.apart and self.expected is not None and all(min(s, default=0) >= 2 for s in sizes)


def agree(case: Case, expected: Any, value: Any) -> bool:
    """Whether two answers to a case are equal within its tolerances. NaN equals NaN, None equals None."""
    if expected is None or value is None:
        return expected is value
    if isinstance(expected, dict):
        return all(agree(case, expected[name], value[name]) for name in expected if name in value)
    expected, value = np.asarray(expected), np.asarray(value)
    if expected.shape != value.shape:
        return False
    single = value.dtype == np.float32 and case.group != FAR  # no more can be asked of it, whatever went in
    rtol, atol = (max(case.rtol, 1e-4), max(case.atol, 1e-5)) if single else (case.rtol, case.atol)
    with np.errstate(all="ignore"):
        return bool(np.allclose(value, expected, rtol=rtol, atol=atol, equal_nan=True))


def tolerances(group: str) -> tuple[float, float]:
    """rtol, atol of a drawn case. Far from the origin, at 1e6, 1e-8 is a hundred roundings."""
    return {"float32": (1e-4, 1e-5), FAR: (0.0, 1e-8)}.get(group, (1e-9, 1e-12))


def cast(inputs: Inputs, dtype: type) -> Inputs:
    """Inputs with their arrays of floats in this precision."""
    return tuple(v.astype(dtype) if isinstance(v, np.ndarray) and v.dtype.kind == "f" else v for v in inputs)


def nudges(inputs: Inputs, count: int = 30) -> Iterator[Inputs]:
    """The inputs with every float of their arrays moved a little, in ways of which some break any tie."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield tuple(
            v + NUDGE * np.ptp(v) * rng.uniform(-1, 1, v.shape)
            if isinstance(v, np.ndarray) and v.dtype.kind == "f"
            else v
            for v in inputs
        )


def rng_of(purpose: str) -> np.random.Generator:
    return np.random.default_rng(list(purpose.encode()))


# --- Models -------------------------------------------------------------------------------------------------


def spread(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Models around a centre, each off by its own amount, so that no two definitions agree by chance."""
    W = 2 * rng.normal(size=d) + rng.normal(size=(n, d)) * rng.uniform(0.2, 3, (n, 1))
    return W.round(3) + 0.0


def of_size(rng: np.random.Generator, n: int, f: int, grid: int, lost: int) -> Iterator[tuple[str, np.ndarray]]:
    """Groups of n models, for a rule that has to bear `lost` hostile ones.

    Its ties between models of whole numbers are exact in up to `grid` coordinates.
    """
    d = int(rng.integers(2, 6))
    W = spread(rng, n, d)
    yield "f = 0" if f == 0 else "n odd" if n % 2 else "n even", W
    yield "one coordinate", spread(rng, n, 1)
    yield "ties", rng.integers(-2, 3, (n, int(rng.integers(1, grid + 1)))).astype(float)
    yield "duplicates", spread(rng, max(n // 2, 1), d)[rng.integers(0, max(n // 2, 1), n)]
    yield "outliers", np.where(rng.permutation(n)[:, None] < max(f, 1), 20 * W, W)
    yield "float32", spread(rng, n, d).astype(np.float32)
    yield FAR, 1e6 + rng.integers(-99, 100, (n, d)) / 1e6
    if lost:
        yield HOSTILE, hostile(rng, W, lost)
        yield HOSTILE, hostile(rng, W, 1)


def neighbourhoods(least: Callable[[int], int], most: int = 49) -> Drawn:
    """(W, f) with least(f) <= n <= most, of which f may be hostile."""
    rng = rng_of("neighbourhoods")
    sizes = [(least(f) + extra, f) for f in range(4) for extra in range(4)]
    larger = [(least(f) + f % 3, f) for f in (4, 5, 6, 8, 10)]
    for n, f in [*sizes, *sizes, *larger, (12, 0), (25, 0), (30, 13), (49, 1), (47, 3), (31, 5)]:
        if least(f) <= n <= most:
            for group, W in of_size(rng, n, f, 2, f):
                yield group, (W, f)
    for n, d in WIDE:
        yield from ((LARGE, (spread(rng, n, d), f)) for f in range(n // 5 + 1) if least(f) <= n <= most)


def models(lost: Callable[[int], int], grid: int = 2) -> Drawn:
    """(W,) with 1 to 31 models, of which lost(n) may be hostile."""
    rng = rng_of("models")
    for n in [*[*range(1, 11)] * 3, *MANY]:
        for group, W in of_size(rng, n, -1, grid, lost(n)):
            yield group, (W,)
    for n, d in (*WIDE, (64, 3), (101, 2)):
        yield LARGE, (spread(rng, n, d),)


def hostile(rng: np.random.Generator, W: np.ndarray, count: int) -> np.ndarray:
    """Some models replaced by what attackers send to break arithmetic."""
    W = W.copy()
    for i in rng.permutation(len(W))[:count]:
        bad = rng.choice([np.nan, np.inf, -np.inf, 1e300, 1e9])
        W[i, :: rng.integers(1, 3)] = bad  # all entries, or every other one
    return W


def honest(factors: tuple[float, ...]) -> Drawn:
    """(honest models, a factor)."""
    rng = rng_of("honest")
    for h in [*[*range(1, 9), 17] * 3, *MANY]:
        factor, d = float(rng.choice(factors)), int(rng.integers(2, 6))
        yield "one model" if h == 1 else "spread", (spread(rng, h, d), factor)
        yield "one coordinate", (spread(rng, h, 1), factor)
        yield "duplicates", (spread(rng, h, d)[rng.integers(0, h, h)], factor)
        yield "float32", (spread(rng, h, d).astype(np.float32), factor)
        yield FAR, (1e6 + rng.integers(-99, 100, (h, d)) / 1e6, factor)
    for h, d in WIDE:
        yield LARGE, (spread(rng, h, d), float(rng.choice(factors)))


def signalled() -> Drawn:
    """(W, signals)."""
    rng = rng_of("signalled")
    for group, (W, _) in honest((1.0,)):
        if group != FAR:
            yield group, (W, rng.uniform(-0.5, 0.5, W.shape).round(3).astype(W.dtype))


# --- Models, one of which is the receiver's -------------------------------------------------------------------


def received(least: Callable[[int], int]) -> Drawn:
    """(W, own, f)."""
    rng = rng_of("received")
    for group, (W, f) in neighbourhoods(least, most=20):
        yield group, (W, int(rng.integers(len(W))), f)


def received_with_weights(least: Callable[[int], int]) -> Drawn:
    """(W, own, weights, f)."""
    rng = rng_of("received with weights")
    for group, (W, own, f) in received(least):
        yield group, (W, own, weights_of(rng, W), f)


def received_with_risks() -> Drawn:
    """(W, own, risks, count)."""
    rng = rng_of("received with risks")
    for group, (W, own, f) in received(lambda f: 2 * f + 2):
        risks = rng.choice([0.2, 0.4, 0.41, 0.8, 1.6], len(W)).astype(W.dtype)
        yield group, (W, own, risks, len(W) - 1 - f)


def received_with_radius() -> Drawn:
    """(W, own, weights, tau); of hostile models, those that can be told by their numbers alone."""
    rng = rng_of("received with radius")
    for group, (W, own, _) in received(lambda f: 2 * f + 2):
        tau = 5e-5 if group == FAR else float(rng.choice([0.1, 1.0, 3.0, 10.0]))
        if not (abs(W) == 1e9).any():
            yield group, (W, own, weights_of(rng, W), tau)


def weights_of(rng: np.random.Generator, W: np.ndarray) -> np.ndarray:
    """Positive weights that sum to 1, one per model."""
    c = rng.integers(1, 9, len(W))
    return (c / c.sum()).astype(W.dtype)


# --- Risks and weights --------------------------------------------------------------------------------------


def risks() -> Drawn:
    """(risks, own)."""
    rng = rng_of("risks")
    for n in [*[*range(1, 11)] * 3, *MANY, 64]:
        own, r = int(rng.integers(n)), rng.uniform(0.01, 3, n).round(3)
        yield "spread", (r, own)
        yield "ties", (rng.choice([0.5, 1.0, 2.0], n), own)
        yield "own is the best", (r, int(r.argmin()))
        yield "own is the worst", (r, int(r.argmax()))
        yield "float32", (r.astype(np.float32), own)
        yield "zero", (np.where(rng.random(n) < 0.4, 0.0, r), own)
        yield "tiny and huge", (r * rng.choice([1e-310, 1e-300, 1.0, 1e300], n), own)
        yield HOSTILE, (np.where(rng.random(n) < 0.4, rng.choice([np.nan, np.inf], n), r), own)
        yield HOSTILE, (np.where(np.arange(n) == own, rng.choice([np.nan, np.inf]), r), own)


def weighted() -> Drawn:
    """(weights, W)."""
    rng = rng_of("weighted")
    usual = [(n, int(rng.integers(1, 6))) for n in [*[*range(1, 9)] * 3, *MANY]]
    for n, d in (*usual, *WIDE):
        c = rng.integers(0, 4, n) + np.eye(n)[rng.integers(n)]
        c, W = c / c.sum(), spread(rng, n, d)
        yield "one coordinate" if d == 1 else "spread", (c, W)
        yield "all on one", (np.eye(n)[rng.integers(n)], W)
        yield "float32", (c.astype(np.float32), W.astype(np.float32))
        yield FAR, (c, 1e6 + rng.integers(-99, 100, W.shape) / 1e6)
        yield HOSTILE, (c, hostile(rng, W, 1))
        yield HOSTILE, (c, np.where((c == 0)[:, None], np.nan, W))


# --- Learning -----------------------------------------------------------------------------------------------


def logits() -> Drawn:
    """(z, y)."""
    rng = rng_of("logits")
    usual = [(n, int(rng.integers(2, 7))) for n in [*range(1, 7)] * 3]
    for n, c in (*usual, (9, 12), (31, 10), (70, 3), (4, 100)):
        z, y = (2 * rng.normal(size=(n, c))).round(3), rng.integers(0, c, n)
        yield "spread", (z, y)
        yield "ties", (rng.integers(0, 2, (n, c)).astype(float), y)
        yield "large", (1000 * z, y)
        yield "float32", (z.astype(np.float32), y)
        yield PADDING, (z, np.where(rng.random(n) < 0.5, -1, y))


def steps() -> Drawn:
    """(w, g, mu)."""
    rng = rng_of("steps")
    for group, (w, gradients, mu) in paths():
        yield group, (w, gradients[0] if group != "tiny gradients" else rng.normal(size=len(w)), mu)


def paths() -> Drawn:
    """(w, gradients (T, d), mu)."""
    rng = rng_of("paths")
    usual = [(T, int(rng.integers(1, 6))) for T in [*range(1, 7)] * 3]
    for T, d in (*usual, (7, 3), (8, 70), (12, 2), (31, 4), (250, 1), (2, 300)):
        mu = float(rng.choice([0.001, 0.02, 0.1]))
        w, g = rng.normal(size=d).round(3), rng.normal(size=(T, d)).round(3)
        yield "one step" if T == 1 else "several steps", (w, g, mu)
        yield "zero gradients", (w, g * (rng.random(d) < 0.5), mu)
        yield "tiny gradients", (w, g * 1e-7, mu)
        yield "float32", (w.astype(np.float32), g.astype(np.float32), mu)


def counts() -> Drawn:
    """(n, f)."""
    for n in [*range(1, 32), 50, 51, 100, 1000]:
        for f in range(n) if n <= 100 else (0, 1, 99, 400):
            yield outnumbered(n, f) or ("n odd" if n % 2 else "n even"), (n, f)


def networks() -> Drawn:
    """(graph,)."""
    rng = rng_of("networks")
    for n in [*range(1, 9), *MANY]:
        yield "complete", (graphs.complete(n),)
        yield "path", (graphs.from_edges(n, [(k, k + 1) for k in range(n - 1)]),)
        yield "star", (graphs.from_edges(n, [(0, k) for k in range(1, n)]),)
        if n > 2:
            yield "ring", (graphs.ring(n),)
        for p in (0.3, 0.6, 0.8):
            yield "at random", (graphs.erdos_renyi(n, p, rng),)


def directed() -> Drawn:
    """(graph,), some edges of which go one way only."""
    rng = rng_of("directed")
    for n in [*range(1, 9), *MANY]:
        yield "one-way ring", (np.eye(n, dtype=bool) | np.roll(np.eye(n, dtype=bool), 1, axis=0),)
        for p in (0.2, 0.5, 0.8):
            yield "at random", (np.eye(n, dtype=bool) | (rng.random((n, n)) < p),)


def entries() -> Drawn:
    """(x, k)."""
    rng = rng_of("entries")
    for d in [*[*range(1, 9)] * 4, *MANY, 300]:
        k, x = int(rng.integers(1, d + 1)), (2 * rng.normal(size=d)).round(3)
        yield "all" if k == d else "some", (x, k)
        yield "positive", (abs(x), k)
        yield "ties", (rng.integers(-2, 3, d).astype(float), k)
        yield "float32", (x.astype(np.float32), k)


# --- Vectors ----------------------------------------------------------------------------------------------


def vectors_of(family: str, group: Callable[..., str] = lambda *inputs: "") -> Callable[..., Iterator[Case]]:
    """(function, names of its arguments) -> its cases among the vectors of a family.

    The first output is the expected one; errors are cases that expect None. `group` says where inputs are
    counted if not by their size.
    """

    def cases(function: str, arguments: tuple[str, ...]) -> Iterator[Case]:
        content = vectors.shipped(family)
        for entry in [*content["cases"], *content["errors"]]:
            if entry["function"] != function:
                continue
            given = tuple(vectors.decode(entry["inputs"])[name] for name in arguments)
            if "error" in entry:
                yield Case(entry["id"], "refused", given, None, 0, 0)
                continue
            output, expected = next(iter(vectors.decode(entry["expected"]).items()))
            exact, tolerance = {"rtol": 0.0, "atol": 0.0}, entry["tolerances"][output]
            tolerance = exact if tolerance == "exact" else tolerance
            yield Case(entry["id"], group(*given) or by_size(given), given, expected, **tolerance)

    return cases


def by_size(inputs: Inputs) -> str:
    """The group of a vector by the size of its numbers."""
    numbers = np.concatenate([np.ravel(value).astype(float) for value in inputs])
    if not np.isfinite(numbers).all() or abs(numbers).max() > 1e100:
        return HOSTILE
    return FAR if abs(numbers).max() >= 1e6 else "vectors"


def padded(z: np.ndarray, y: np.ndarray) -> str:
    """The group of rows some of which are padding, "" if none is."""
    return PADDING if (y < 0).any() else ""


def outnumbered(n: int, f: int) -> str:
    """The group of (n, f) with a majority of attackers, "" without one."""
    return MAJORITY if n // 2 + 1 - f < 1 else ""  # no supporter is needed


# --- Moved inputs -------------------------------------------------------------------------------------------


class Relation(NamedTuple):
    """A way to move inputs of a kind, and how the answers have to move with them."""

    name: str
    inputs: Callable[..., Inputs]  # the inputs, moved
    answer: Callable[[np.ndarray], Any]  # the answer, moved with them


def translated(W: np.ndarray) -> np.ndarray:
    """W after an exact translation of numbers with three digits, by a power of two for each coordinate."""
    return W + 2.0 ** (np.arange(W.shape[-1]) % 3)


def order(seed: int, n: int) -> np.ndarray:
    """A permutation of n models: for seed 0 a reversal, which turns every tie of two, else without symmetry."""
    return np.random.default_rng(seed).permutation(n) if seed else np.arange(n)[::-1]


def shuffled(seed: int, array: np.ndarray) -> np.ndarray:
    return array[order(seed, len(array))]


def both_shuffled(seed: int, a: np.ndarray, b: np.ndarray) -> Inputs:
    return shuffled(seed, a), shuffled(seed, b)


def renumbered(seed: int, A: np.ndarray) -> np.ndarray:
    """A matrix of workers by workers, with both in another order."""
    p = order(seed, len(A))
    return A[p][:, p]


def unchanged(answer: np.ndarray) -> np.ndarray:
    return answer


ORDER = "independent of the order of the models"
TRANSLATION = "moves with a translation of the models"
ROWS = "rows independent of each other"


def in_orders(name: str, inputs: Callable[..., Inputs], answer: Callable[..., Any]) -> tuple[Relation, ...]:
    """The relation of this name for four orders; both functions take the seed of an order first."""
    return tuple(Relation(name, partial(inputs, seed), partial(answer, seed)) for seed in range(4))


ORDER_OF_MODELS = in_orders(ORDER, lambda s, W, *rest: (shuffled(s, W), *rest), lambda s, w: w)
OF_MODELS = (*ORDER_OF_MODELS, Relation(TRANSLATION, lambda W, *rest: (translated(W), *rest), translated))
OF_RECEIVED = (
    *in_orders(
        ORDER,
        lambda s, W, own, *rest: (
            shuffled(s, W),
            int(np.argsort(order(s, len(W)))[own]),
            *(shuffled(s, v) if np.ndim(v) else v for v in rest),
        ),
        lambda s, w: w,
    ),
    OF_MODELS[-1],
)
OF_WEIGHTED_MODELS = (
    *in_orders(ORDER, both_shuffled, lambda s, w: w),
    Relation(TRANSLATION, lambda c, W: (c, translated(W)), translated),
)
OF_RISKS = (
    *in_orders(
        "moves with the order of the neighbours",
        lambda s, r, *own: (shuffled(s, r), *(int(np.argsort(order(s, len(r)))[k]) for k in own)),
        shuffled,
    ),
    Relation("independent of the scale of the risks", lambda r, *own: (4 * r, *own), unchanged),
)
OF_ROWS = in_orders(ROWS, lambda s, W, *rest: (shuffled(s, W), *rest), shuffled)
OF_TWO_ROWS = in_orders(ROWS, both_shuffled, shuffled)
OF_LOGITS = (
    Relation("independent of a constant in the logits", lambda z, y: (z + 4, y), unchanged),
    *OF_TWO_ROWS,
)
OF_ENTRIES = (Relation("moves with the scale of the entries", lambda x, k: (-4 * x, k), lambda x: -4 * x),)
OF_PARAMETERS = (Relation("moves with the parameters", lambda w, *rest: (w + 2, *rest), lambda w: w + 2),)
OF_WORKERS = in_orders("moves with the workers' numbers", lambda s, A: (renumbered(s, A),), renumbered)
