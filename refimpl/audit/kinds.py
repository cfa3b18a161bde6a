"""What can be judged: the table KINDS, whose names `--as` takes. `cases_of` gives a kind's cases."""

import functools
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from refimpl import aggregate, algorithm, attacks, layers, optim
from refimpl.arrays import quiet
from refimpl.audit import arithmetic, cases, rounds, small_inputs
from refimpl.audit.cases import HOSTILE, Case, Drawn, Inputs, Relation, in_double, tolerances
from refimpl.audit.small_inputs import Small
from refimpl.related.mixing import metropolis_weights


class Kind(NamedTuple):
    """An entry of KINDS."""

    arguments: tuple[str, ...]
    returns: str
    define: Callable[..., Any]
    about: str
    reference: str
    draw: Callable[[], Drawn]
    small: Callable[[Small], Inputs] | None = None  # draws small inputs, to look for the smallest
    arithmetic: Callable[..., str] | None = None
    """(*inputs) -> the line of arithmetic that leads to the definition's answer"""
    vectors: Callable[[tuple[str, ...]], Iterator[Case]] = lambda arguments: iter(())
    """(names of the arguments) -> the cases among the shipped vectors"""
    relations: tuple[Relation, ...] = ()
    selects: bool = False  # is the answer one of the models?
    optional: bool = False  # may the last argument be left out? It is 1 by default.
    steps: Callable[[Any], dict[str, Any]] | None = None  # of a round: what was returned -> its steps by name

    @property
    def call(self) -> str:
        """How it is called and what it returns."""
        return f"({', '.join(self.arguments)}) -> {self.returns}"

    @quiet
    def answer(self, inputs: Inputs) -> Any:
        """The definition's answer, in double precision."""
        returned = self.define(*in_double(inputs))
        return self.steps(returned) if self.steps else returned


def _vectors(
    family: str, function: str, output: str, group: Callable[..., str] = lambda *inputs: ""
) -> Callable[..., Iterator[Case]]:
    """A function of the arguments' names that gives the vectors of one function; see cases.from_vectors."""
    return lambda arguments: cases.from_vectors(family, function, output, arguments, group)


# --- Definitions that take another form here ----------------------------------------------------------------


def adam(w: np.ndarray, gradients: np.ndarray, mu: float) -> np.ndarray:
    """The parameters after a step for each of the gradients (T, d), from a fresh start."""
    memory = np.zeros((2, *w.shape), w.dtype)
    for t, g in enumerate(gradients, start=1):
        w, memory = optim.adam(w, g, memory, mu, t)
    return w


def sgd_vectors(arguments: tuple[str, ...]) -> Iterator[Case]:
    """The vectors of SGD, whose models are matrices, with one worker's rows made flat."""
    for case in _vectors("sgd", "sgd", "W")(("W", "G", "lr")):
        W, G, mu = case.inputs
        yield case._replace(inputs=(W.ravel(), G.ravel(), mu), expected=case.expected.ravel())


def adam_vectors(arguments: tuple[str, ...]) -> Iterator[Case]:
    """The vectors of Adam with its usual constants, made flat; of the whole path the end is expected."""
    for case in _vectors("adam", "adam", "W")(("W", "gradients", "lr", "beta1", "beta2", "eps")):
        W, G, mu, *constants = case.inputs
        if constants == [0.9, 0.999, 1e-8]:
            inputs = W.ravel(), G.reshape(len(G), -1), mu
            yield case._replace(inputs=inputs, expected=case.expected[-1].ravel())


# --- The table ----------------------------------------------------------------------------------------------

KINDS: dict[str, Kind] = {
    "adaptive-weights": Kind(
        ("risks", "own"),
        "(n,)",
        aggregate.adaptive_weights,
        "c_l proportional to 1 / r_l over the models with r_l <= r_own, 0 elsewhere",
        "the paper's Eq. (6)",
        cases.risks,
        small_inputs.risks_and_own,
        arithmetic.adaptive_weights,
        _vectors("weights", "adaptive_weights", "weights"),
        cases.OF_RISKS,
    ),
    "inverse-risk-weights": Kind(
        ("risks",),
        "(n,)",
        aggregate.inverse_risk_weights,
        "c_l proportional to 1 / r_l",
        "the paper's Eq. (5)",
        lambda: ((group, (r,)) for group, (r, own) in cases.risks()),
        small_inputs.risks,
        arithmetic.inverse_risk_weights,
        _vectors("weights", "inverse_risk_weights", "weights"),
        cases.OF_RISKS,
    ),
    "combine": Kind(
        ("weights", "W"),
        "(d,)",
        aggregate.combine,
        "sum_l c_l w_l; a model of weight 0 contributes nothing, whatever it holds",
        "the paper's Eq. (3)",
        cases.weighted,
        small_inputs.weighted,
        arithmetic.combine,
        _vectors("combine", "combine", "w"),
        cases.OF_WEIGHTED_MODELS,
    ),
    "average": Kind(
        ("W",),
        "(d,)",
        aggregate.average,
        "the mean of the models",
        "the paper's Sec. 5",
        lambda: cases.models(lambda n: 1),
        small_inputs.models,
        arithmetic.average,
        _vectors("rules", "average", "w"),
        cases.OF_MODELS,
    ),
    "medoid": Kind(
        ("W",),
        "(d,)",
        aggregate.medoid,
        "the model with the smallest sum of Euclidean distances to the others; ties to the first",
        "the paper's Sec. 5",
        lambda: cases.models(lambda n: (n - 1) // 2, grid=1),
        small_inputs.models,
        arithmetic.medoid,
        _vectors("rules", "medoid", "w"),
        cases.OF_MODELS,
        selects=True,
    ),
    "median": Kind(
        ("W",),
        "(d,)",
        aggregate.coordinate_median,
        "the median of each coordinate, the mean of the middle two if n is even; NaN counts as +infinity",
        "BRIDGE-M, Fang et al. 2022",
        lambda: cases.models(lambda n: (n - 1) // 2),
        small_inputs.models,
        arithmetic.median,
        _vectors("rules", "coordinate_median", "w"),
        cases.OF_MODELS,
    ),
    "trimmed-mean": Kind(
        ("W", "f"),
        "(d,)",
        aggregate.trimmed_mean,
        "the mean of each coordinate without its f lowest and f highest values; NaN counts as +infinity",
        "BRIDGE-T, Fang et al. 2022",
        lambda: cases.neighbourhoods(lambda f: 2 * f + 1),
        small_inputs.neighbourhood,
        arithmetic.trimmed_mean,
        _vectors("rules", "trimmed_mean", "w"),
        cases.OF_MODELS,
    ),
    "krum": Kind(
        ("W", "f"),
        "(d,)",
        aggregate.krum,
        "the model with the least sum of squared distances to its n - f - 2 nearest others; ties to the first",
        "Blanchard et al. 2017",
        lambda: cases.neighbourhoods(lambda f: 2 * f + 3),
        small_inputs.neighbourhood,
        arithmetic.krum,
        _vectors("rules", "krum", "w"),
        cases.OF_MODELS,
        selects=True,
    ),
    "sign-flip": Kind(
        ("W", "sigma"),
        "(f, d)",
        attacks.sign_flip,
        "-sigma times each attacker's own model",
        "the paper's Sec. 2.2",
        lambda: cases.honest((1.0, 0.5, 3.0)),
        small_inputs.models_and_factor,
        arithmetic.sign_flip,
        _vectors("attacks", "sign_flip", "sent"),
        cases.OF_ROWS,
        optional=True,
    ),
    "arbitrary": Kind(
        ("W", "signals"),
        "(f, d)",
        attacks.arbitrary,
        "each attacker's own model times random signals, entry by entry",
        "the paper's Sec. 5",
        cases.signalled,
        small_inputs.models_and_signals,
        arithmetic.arbitrary,
        _vectors("attacks", "arbitrary", "sent"),
        cases.OF_TWO_ROWS,
    ),
    "fall-of-empires": Kind(
        ("honest", "epsilon"),
        "(d,)",
        attacks.fall_of_empires,
        "-epsilon times the mean of the honest models",
        "Xie et al. 2020",
        lambda: cases.honest((1.0, 0.1, 1.1, 2.0)),
        small_inputs.models_and_factor,
        arithmetic.fall_of_empires,
        _vectors("attacks", "fall_of_empires", "sent"),
        (cases.ORDER_OF_MODELS,),
        optional=True,
    ),
    "alie": Kind(
        ("honest", "z"),
        "(d,)",
        attacks.a_little_is_enough,
        "mean - z standard deviations of the honest models, by coordinate, with divisor h (ddof 0)",
        "Baruch et al. 2019",
        lambda: cases.honest((0.18, 0.929, 1.5, 0.3)),
        small_inputs.models_and_factor,
        arithmetic.alie,
        _vectors("attacks", "a_little_is_enough", "sent"),
        cases.OF_MODELS,
    ),
    "alie-z": Kind(
        ("n", "f"),
        "a number",
        attacks.alie_z,
        "Phi^-1((h - s) / h) with h = n - f honest workers, s = floor(n / 2 + 1) - f supporters",
        "Baruch et al. 2019",
        cases.counts,
        small_inputs.counts,
        arithmetic.alie_z,
        _vectors("attacks", "alie_z", "z", cases.outnumbered),
    ),
    "softmax-cross-entropy": Kind(
        ("z", "y"),
        "(n,)",
        layers.softmax_cross_entropy,
        "log(sum_j exp z_j) - z_y of each row; a row with label -1 is padding and has loss 0",
        "the paper's supplement C",
        cases.logits,
        small_inputs.logits,
        arithmetic.softmax_cross_entropy,
        _vectors("softmax_cross_entropy", "softmax_cross_entropy", "losses", cases.padded),
        cases.OF_LOGITS,
    ),
    "sgd": Kind(
        ("w", "g", "mu"),
        "(d,)",
        lambda w, g, mu: optim.sgd(w, g, None, mu, 1)[0],
        "w - mu g",
        "the paper's Eq. (2)",
        cases.steps,
        small_inputs.step,
        arithmetic.sgd,
        sgd_vectors,
        cases.OF_PARAMETERS,
    ),
    "adam": Kind(
        ("w", "gradients", "mu"),
        "(d,) after a step for each row of gradients (T, d), from a fresh start; beta 0.9, 0.999, eps 1e-8",
        adam,
        "w - mu m_hat / (sqrt(v_hat) + eps), with both moments corrected for their start at 0",
        "Kingma and Ba 2015",
        cases.paths,
        small_inputs.path,
        arithmetic.adam,
        adam_vectors,
        cases.OF_PARAMETERS,
    ),
    "metropolis-weights": Kind(
        ("graph",),
        "(N, N), of a boolean matrix that is True on its diagonal",
        metropolis_weights,
        "W_ij = 1 / (1 + max(d_i, d_j)) on edges, d without the worker itself; W_ii = 1 - the rest of the row",
        "Xiao and Boyd 2004",
        cases.networks,
        small_inputs.network,
        arithmetic.metropolis_weights,
        relations=cases.OF_WORKERS,
    ),
    "round": Kind(
        ("setting", "state", "batch", "signals"),
        "W (N, d), or a dictionary or named tuple with it and any of gradient, local, sent, risks, weights; "
        "refimpl.algorithm says what these are",
        algorithm.round_,
        "one round of the paper's Algorithm 1, given what is drawn at random",
        "the paper's Algorithm 1",
        rounds.draw,
        vectors=lambda arguments: rounds.from_vectors(),
        steps=rounds.steps,
    ),
}


# --- Cases --------------------------------------------------------------------------------------------------


@functools.cache
def cases_of(name: str) -> tuple[Case, ...]:
    """All cases of a kind. The groups take turns, the ordinary ones first, so that a slow function is asked
    something of each; inputs that the definition refuses come last."""
    kind = KINDS[name]
    found = [*kind.vectors(kind.arguments), *_drawn(kind)]
    groups: dict[str, list[Case]] = {}
    for case in found:
        groups.setdefault(case.group, []).append(case)
    turns = [case for turn in zip_longest(*groups.values()) for case in turn if case]
    return tuple(sorted(turns, key=lambda case: (case.expected is None, case.apart)))


def _drawn(kind: Kind) -> Iterator[Case]:
    """The drawn cases, without choices among models that rounding could turn."""
    count: dict[str, int] = {}
    for group, inputs in kind.draw():
        if kind.selects and group not in ("ties", HOSTILE) and not decided(kind, inputs):
            continue
        count[group] = count.get(group, 0) + 1
        yield Case(f"{group} {count[group]}", group, inputs, kind.answer(inputs), *tolerances(group))


def decided(kind: Kind, inputs: Inputs) -> bool:
    """Whether the choice among the models is so clear that neither rounding nor their order can turn it."""
    W, *rest = inputs
    rng, size = np.random.default_rng(0), np.ptp(W)
    row = kind.answer(inputs)
    nudged = [W + 1e-5 * size * rng.uniform(-1, 1, W.shape) for _ in range(10)]
    others = [kind.answer((other, *rest)) for other in (W[::-1], *nudged)]
    return all((abs(row - other) <= 2e-5 * size).all() for other in others)
