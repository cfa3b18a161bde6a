"""What can be judged: the table KINDS, whose names `--as` takes. `cases_of` gives a kind's cases.

A function is called with the arguments of its kind's definition; if the last of these has a default, that is 1,
and a function may lack it. A function of `arithmetic` with the definition's name explains its answers.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from refimpl import aggregate, attacks, layers, optim
from refimpl.arrays import quiet
from refimpl.audit import cases, rounds
from refimpl.audit.cases import (
    FAR,
    HOSTILE,
    NUDGE,
    Case,
    Drawn,
    Inputs,
    Relation,
    cast,
    nudges,
    tolerances,
    vectors_of,
)
from refimpl.related import rules
from refimpl.related.mixing import metropolis_weights, push_weights, top_k


class Kind(NamedTuple):
    """An entry of KINDS."""

    define: Callable[..., Any]
    about: str
    reference: str
    draw: Callable[[], Drawn]
    returns: str = "(d,)"
    vectors: Callable[[str, tuple[str, ...]], Iterator[Case]] = lambda function, arguments: iter(())
    """(the definition's name, its arguments' names) -> the cases among the shipped vectors"""
    relations: tuple[Relation, ...] = ()
    selects: bool = False  # is the answer one of the models?
    chooses: bool = False  # does it choose models or values, with ties for which its source has no rule?
    atol: float = 0.0  # the least that is asked, where that is more than of other kinds
    steps: Callable[[Any], dict[str, Any]] | None = None  # of a round: what was returned -> its steps by name

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.define).parameters)

    @property
    def optional(self) -> bool:
        """Whether the last argument may be left out."""
        return list(inspect.signature(self.define).parameters.values())[-1].default == 1

    @property
    def call(self) -> str:
        """A line on how a function of this kind is called and what it returns."""
        return f"({', '.join(self.arguments)}) -> {self.returns}"

    @quiet
    def answer(self, inputs: Inputs) -> Any:
        """The definition's answer, in double precision."""
        return self.define(*cast(inputs, float))


# --- Definitions that take another form here ----------------------------------------------------------------


def sgd(w: np.ndarray, g: np.ndarray, mu: float) -> np.ndarray:
    return optim.sgd(w, g, None, mu, 1)[0]


def adam(w: np.ndarray, gradients: np.ndarray, mu: float) -> np.ndarray:
    return steps_along(optim.adam, w, gradients, mu)


def steps_along(step: Callable, w: np.ndarray, gradients: np.ndarray, mu: float) -> np.ndarray:
    """The parameters after an optimiser's step for each of the gradients (T, d), from a fresh start."""
    memory = np.zeros((2, *w.shape), w.dtype)
    for t, g in enumerate(gradients, start=1):
        w, memory = step(w, g, memory, mu, t)
    return w


def geometric_median(W: np.ndarray) -> np.ndarray:
    return rules.geometric_median(W)


def mozi(W: np.ndarray, own: int, risks: np.ndarray, count: int) -> np.ndarray:
    return rules.mozi(W, own, risks, count)


def with_one_median() -> Drawn:
    """(W,) whose geometric median is a single point, which 80 of Weiszfeld's steps reach; none far away."""
    for group, (W,) in cases.models(lambda n: (n - 1) // 2):
        if group == HOSTILE or (group != FAR and one_median(W)):
            yield group, (W,)


def one_median(W: np.ndarray) -> bool:
    """Whether there is one, found in time. Between the middle two of a line, any point is as good."""
    after_1000 = rules.geometric_median(W, 1000, 1e-8)
    single = len(W) % 2 == 1 or np.linalg.matrix_rank(W - W[0]) > 1
    return bool(single and np.allclose(geometric_median(W), after_1000, rtol=0, atol=1e-4))


def sgd_vectors(function: str, arguments: tuple[str, ...]) -> Iterator[Case]:
    """The vectors of SGD, whose models are matrices, with one worker's rows made flat."""
    for case in vectors_of("sgd")(function, ("W", "G", "lr")):
        W, G, mu = case.inputs
        yield case._replace(inputs=(W.ravel(), G.ravel(), mu), expected=case.expected.ravel())


def adam_vectors(function: str, arguments: tuple[str, ...]) -> Iterator[Case]:
    """The vectors of Adam with its usual constants, made flat; of the whole path the end is expected."""
    for case in vectors_of("adam")(function, ("W", "gradients", "lr", "beta1", "beta2", "eps")):
        W, G, mu, *constants = case.inputs
        if constants == [0.9, 0.999, 1e-8]:
            inputs = W.ravel(), G.reshape(len(G), -1), mu
            yield case._replace(inputs=inputs, expected=case.expected[-1].ravel())


# --- The table ----------------------------------------------------------------------------------------------

_weights = functools.partial(Kind, returns="(n,)", vectors=vectors_of("weights"), relations=cases.OF_RISKS)
_rule = functools.partial(Kind, vectors=vectors_of("rules"), relations=cases.OF_MODELS)
_related = functools.partial(Kind, vectors=vectors_of("related"), relations=cases.OF_MODELS)
_received = functools.partial(Kind, vectors=vectors_of("related"), relations=cases.OF_RECEIVED)
_attack = functools.partial(Kind, vectors=vectors_of("attacks"))

KINDS: dict[str, Kind] = {
    "adaptive-weights": _weights(
        aggregate.adaptive_weights,
        about="c_l proportional to 1 / r_l over the models with r_l <= r_own, 0 elsewhere",
        reference="the paper's Eq. (6)",
        draw=cases.risks,
    ),
    "inverse-risk-weights": _weights(
        aggregate.inverse_risk_weights,
        about="c_l proportional to 1 / r_l",
        reference="the paper's Eq. (5)",
        draw=lambda: ((group, (r,)) for group, (r, own) in cases.risks()),
    ),
    "combine": Kind(
        aggregate.combine,
        about="sum_l c_l w_l; a model of weight 0 contributes nothing, whatever it holds",
        reference="the paper's Eq. (3)",
        draw=cases.weighted,
        vectors=vectors_of("combine"),
        relations=cases.OF_WEIGHTED_MODELS,
    ),
    "average": _rule(
        aggregate.average,
        about="the mean of the models",
        reference="the paper's Sec. 5",
        draw=lambda: cases.models(lambda n: 1),
    ),
    "medoid": _rule(
        aggregate.medoid,
        about="the model with the smallest sum of Euclidean distances to the others; ties to the first",
        reference="the paper's Sec. 5",
        draw=lambda: cases.models(lambda n: (n - 1) // 2, grid=1),
        selects=True,
    ),
    "median": _rule(
        aggregate.coordinate_median,
        about="the median of each coordinate, the mean of the middle two if n is even; NaN counts as +infinity",
        reference="BRIDGE-M, Fang et al. 2022",
        draw=lambda: cases.models(lambda n: (n - 1) // 2),
    ),
    "trimmed-mean": _rule(
        aggregate.trimmed_mean,
        about="the mean of each coordinate without its f lowest and f highest values; NaN counts as +infinity",
        reference="BRIDGE-T, Fang et al. 2022",
        draw=lambda: cases.neighbourhoods(lambda f: 2 * f + 1),
    ),
    "krum": _rule(
        aggregate.krum,
        about="the model with the least sum of squared distances to its n - f - 2 nearest others; "
        "ties to the first",
        reference="Blanchard et al. 2017",
        draw=lambda: cases.neighbourhoods(lambda f: 2 * f + 3),
        selects=True,
    ),
    "geometric-median": Kind(
        geometric_median,
        about="the point with the least sum of Euclidean distances to the models, to 1e-3",
        reference="Weiszfeld 1937",
        draw=with_one_median,
        relations=cases.OF_MODELS,
        atol=1e-3,  # no iteration ends at the point itself
    ),
    "multi-krum": _related(
        rules.multi_krum,
        about="the mean of the n - f - 2 models with the best scores of Krum",
        reference="Blanchard et al. 2017, with the largest m",
        draw=lambda: cases.neighbourhoods(lambda f: 2 * f + 3, most=25),
        chooses=True,
    ),
    "bulyan": _related(
        rules.bulyan,
        about="n - 2f models picked one by one by Krum among those left; of these, by coordinate, the mean of "
        "the n - 4f values nearest to the median",
        reference="El-Mhamdi et al. 2018",
        draw=lambda: cases.neighbourhoods(lambda f: 4 * f + 3, most=19),
        chooses=True,
    ),
    "mda": _related(
        rules.minimum_diameter_average,
        about="the mean of those n - f models whose largest distance from each other is the smallest",
        reference="El-Mhamdi et al. 2021",
        draw=lambda: cases.neighbourhoods(lambda f: 2 * f + 1, most=12),
        chooses=True,
    ),
    "own-trimmed-mean": _received(
        rules.own_trimmed_mean,
        about="the mean of one's own value and the others' without their f lowest and f highest, by coordinate",
        reference="BRIDGE-T, Fang et al. 2022",
        draw=lambda: cases.received(lambda f: 2 * f + 2),
    ),
    "ios": _received(
        rules.iterative_outlier_scissor,
        about="the weighted mean after f times dropping the neighbour that is farthest from it",
        reference="Wu, Chen and Ling 2023",
        draw=lambda: cases.received_with_weights(lambda f: 2 * f + 2),
        chooses=True,
    ),
    "clipped-gossip": _received(
        rules.clipped_gossip,
        about="w_own + sum_l c_l (w_l - w_own) min(1, tau / |w_l - w_own|)",
        reference="He et al. 2022",
        draw=cases.received_with_radius,
    ),
    "mozi": Kind(
        mozi,
        about="half one's own model, half the mean of those of the `count` nearest others whose risk is no "
        "higher than one's own, or the nearest if there are none",
        reference="Guo et al. 2021",
        draw=cases.received_with_risks,
        relations=cases.OF_RECEIVED,
        chooses=True,
    ),
    "sign-flip": _attack(
        attacks.sign_flip,
        about="-sigma times each attacker's own model",
        reference="the paper's Sec. 2.2",
        returns="(f, d)",
        draw=lambda: cases.honest((1.0, 0.5, 3.0)),
        relations=cases.OF_ROWS,
    ),
    "arbitrary": _attack(
        attacks.arbitrary,
        about="each attacker's own model times random signals, entry by entry",
        reference="the paper's Sec. 5",
        returns="(f, d)",
        draw=cases.signalled,
        relations=cases.OF_TWO_ROWS,
    ),
    "fall-of-empires": _attack(
        attacks.fall_of_empires,
        about="-epsilon times the mean of the honest models",
        reference="Xie et al. 2020",
        draw=lambda: cases.honest((1.0, 0.1, 1.1, 2.0)),
        relations=cases.ORDER_OF_MODELS,
    ),
    "alie": _attack(
        attacks.a_little_is_enough,
        about="mean - z standard deviations of the honest models, by coordinate, with divisor h (ddof 0)",
        reference="Baruch et al. 2019",
        draw=lambda: cases.honest((0.18, 0.929, 1.5, 0.3, -0.14)),
        relations=cases.OF_MODELS,
    ),
    "alie-z": Kind(
        attacks.alie_z,
        about="Phi^-1((h - s) / h) with h = n - f honest workers, s = floor(n / 2 + 1) - f supporters",
        reference="Baruch et al. 2019",
        returns="a number",
        draw=cases.counts,
        vectors=vectors_of("attacks", cases.outnumbered),
        atol=1e-7,  # a rational approximation of Phi^-1 will do
    ),
    "softmax-cross-entropy": Kind(
        layers.softmax_cross_entropy,
        about="log(sum_j exp z_j) - z_y of each row; a row with label -1 is padding and has loss 0",
        reference="the paper's supplement C",
        returns="(n,)",
        draw=cases.logits,
        vectors=vectors_of("softmax_cross_entropy", cases.padded),
        relations=cases.OF_LOGITS,
    ),
    "sgd": Kind(
        sgd,
        about="w - mu g",
        reference="the paper's Eq. (2)",
        draw=cases.steps,
        vectors=sgd_vectors,
        relations=cases.OF_PARAMETERS,
    ),
    "adam": Kind(
        adam,
        about="w - mu m_hat / (sqrt(v_hat) + eps), with both moments corrected for their start at 0",
        reference="Kingma and Ba 2015",
        returns="(d,) after a step for each row of gradients (T, d), from a fresh start; "
        "beta 0.9, 0.999, eps 1e-8",
        draw=cases.paths,
        vectors=adam_vectors,
        relations=cases.OF_PARAMETERS,
    ),
    "metropolis-weights": Kind(
        metropolis_weights,
        about="W_ij = 1 / (1 + max(d_i, d_j)) on edges, d without the worker itself; "
        "W_ii = 1 - the rest of the row",
        reference="Xiao and Boyd 2004",
        returns="(N, N), of a boolean matrix that is True on its diagonal",
        draw=cases.networks,
        relations=cases.OF_WORKERS,
    ),
    "push-weights": Kind(
        push_weights,
        about="P_kl = 1 / (1 + out-degree of l) where l sends to k, and for itself, so that columns sum to 1",
        reference="push-sum, Assran et al. 2019",
        returns="(N, N), of a boolean matrix, [k, l] = l sends to k, True on its diagonal",
        draw=cases.directed,
        vectors=vectors_of("related"),
        relations=cases.OF_WORKERS,
    ),
    "top-k": Kind(
        top_k,
        about="the k entries of largest magnitude; the others are 0",
        reference="CHOCO-SGD, Koloskova et al. 2019",
        draw=cases.entries,
        vectors=vectors_of("related"),
        relations=cases.OF_ENTRIES,
        chooses=True,
    ),
    "round": Kind(
        rounds.round_,
        about="one round of the paper's Algorithm 1, given what is drawn at random",
        reference="the paper's Algorithm 1",
        returns="W (N, d), or a dictionary or named tuple with it and any of gradient, local, sent, risks, "
        "weights; refimpl.algorithm says what these are",
        draw=rounds.draw,
        vectors=rounds.from_vectors,
        steps=rounds.steps,
    ),
}


# --- Cases --------------------------------------------------------------------------------------------------


@functools.cache
def cases_of(name: str) -> tuple[Case, ...]:
    """All cases of a kind.

    The groups take turns, the ordinary ones first, so that a slow function is asked something of each; inputs
    that the definition refuses come last.
    """
    kind = KINDS[name]
    found = [*kind.vectors(kind.define.__name__, kind.arguments), *_drawn(kind)]
    groups: dict[str, list[Case]] = {}
    for case in found:
        if clear(kind, case):
            case = case._replace(atol=max(case.atol, kind.atol))
            groups.setdefault(case.group, []).append(case)
    turns = [case for turn in zip_longest(*groups.values()) for case in turn if case]
    return tuple(sorted(turns, key=lambda case: (case.expected is None, case.apart)))


def _drawn(kind: Kind) -> Iterator[Case]:
    """The drawn cases."""
    count: dict[str, int] = {}
    for group, inputs in kind.draw():
        count[group] = count.get(group, 0) + 1
        name = f"{group} {count[group]}"
        yield Case(name, group, inputs, kind.answer(inputs), *tolerances(group))


def clear(kind: Kind, case: Case) -> bool:
    """Whether a case is fair: no choice hangs on rounding, or on ties for which the source has no rule."""
    if not (kind.selects or kind.chooses) or case.group in (HOSTILE, "refused"):
        return True
    return (kind.selects and case.group in ("ties", "vectors")) or decided(kind, case.inputs)


def decided(kind: Kind, inputs: Inputs) -> bool:
    """Whether the choice among the models is so clear that neither rounding nor their order can turn it."""
    answer, slack = kind.answer(inputs), 2 * NUDGE * np.ptp(inputs[0])
    moved = [relation.inputs(*inputs) for relation in kind.relations if relation.name == cases.ORDER]
    others = [kind.answer(other) for other in (*moved, *nudges(inputs, 10))]
    return all((abs(answer - other) <= slack).all() for other in others)
