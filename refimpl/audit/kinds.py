"""The table of what can be judged; `--as` takes its names."""

from collections.abc import Callable, Iterator

import numpy as np

from refimpl import aggregate, attacks, layers, optim
from refimpl.audit import cases, relations, rounds, small, why
from refimpl.audit.cases import Case
from refimpl.audit.kind import Kind
from refimpl.related.mixing import metropolis_weights


def _vectors(
    family: str, function: str, output: str, group: Callable[..., str] = lambda *inputs: ""
) -> Callable[..., Iterator[Case]]:
    """The vectors of one function; see cases.from_vectors."""
    return lambda arguments: cases.from_vectors(family, function, output, arguments, group)


# --- Definitions that take another form here ----------------------------------------------------------------


def adam(w: np.ndarray, gradients: np.ndarray, mu: float) -> np.ndarray:
    """The parameters after a step for each of the gradients (T, d), from a fresh start."""
    memory = np.zeros((2, *w.shape), w.dtype)
    for t, g in enumerate(gradients, start=1):
        w, memory = optim.adam(w, g, memory, mu, t)
    return w


def sgd_vectors(arguments: tuple[str, ...]) -> Iterator[Case]:
    """For one worker: theirs are matrices."""
    for case in _vectors("sgd", "sgd", "W")(("W", "G", "lr")):
        W, G, mu = case.inputs
        yield case._replace(inputs=(W.ravel(), G.ravel(), mu), expected=case.expected.ravel())


def adam_vectors(arguments: tuple[str, ...]) -> Iterator[Case]:
    """Those with Adam's usual constants, for one worker. The vectors hold the whole path."""
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
        small.risks_and_own,
        why.adaptive_weights,
        _vectors("weights", "adaptive_weights", "weights"),
        relations.OF_RISKS,
    ),
    "inverse-risk-weights": Kind(
        ("risks",),
        "(n,)",
        aggregate.inverse_risk_weights,
        "c_l proportional to 1 / r_l",
        "the paper's Eq. (5)",
        lambda: ((group, (r,)) for group, (r, own) in cases.risks()),
        small.risks,
        why.inverse_risk_weights,
        _vectors("weights", "inverse_risk_weights", "weights"),
        relations.OF_RISKS,
    ),
    "combine": Kind(
        ("weights", "W"),
        "(d,)",
        aggregate.combine,
        "sum_l c_l w_l; a model of weight 0 contributes nothing, whatever it holds",
        "the paper's Eq. (3)",
        cases.weighted,
        small.weighted,
        why.combine,
        _vectors("combine", "combine", "w"),
        relations.OF_WEIGHTED_MODELS,
    ),
    "average": Kind(
        ("W",),
        "(d,)",
        aggregate.average,
        "the mean of the models",
        "the paper's Sec. 5",
        lambda: cases.models(lambda n: 1),
        small.models,
        why.average,
        _vectors("rules", "average", "w"),
        relations.OF_MODELS,
    ),
    "medoid": Kind(
        ("W",),
        "(d,)",
        aggregate.medoid,
        "the model with the smallest sum of Euclidean distances to the others; ties to the first",
        "the paper's Sec. 5",
        lambda: cases.models(lambda n: (n - 1) // 2, grid=1),
        small.models,
        why.medoid,
        _vectors("rules", "medoid", "w"),
        relations.OF_MODELS,
        selects=True,
    ),
    "median": Kind(
        ("W",),
        "(d,)",
        aggregate.coordinate_median,
        "the median of each coordinate, the mean of the middle two if n is even; NaN counts as +infinity",
        "BRIDGE-M, Fang et al. 2022",
        lambda: cases.models(lambda n: (n - 1) // 2),
        small.models,
        why.median,
        _vectors("rules", "coordinate_median", "w"),
        relations.OF_MODELS,
    ),
    "trimmed-mean": Kind(
        ("W", "f"),
        "(d,)",
        aggregate.trimmed_mean,
        "the mean of each coordinate without its f lowest and f highest values; NaN counts as +infinity",
        "BRIDGE-T, Fang et al. 2022",
        lambda: cases.neighbourhoods(lambda f: 2 * f + 1),
        small.neighbourhood,
        why.trimmed_mean,
        _vectors("rules", "trimmed_mean", "w"),
        relations.OF_MODELS,
    ),
    "krum": Kind(
        ("W", "f"),
        "(d,)",
        aggregate.krum,
        "the model with the least sum of squared distances to its n - f - 2 nearest others; ties to the first",
        "Blanchard et al. 2017",
        lambda: cases.neighbourhoods(lambda f: 2 * f + 3),
        small.neighbourhood,
        why.krum,
        _vectors("rules", "krum", "w"),
        relations.OF_MODELS,
        selects=True,
    ),
    "sign-flip": Kind(
        ("W", "sigma"),
        "(f, d)",
        attacks.sign_flip,
        "-sigma times each attacker's own model",
        "the paper's Sec. 2.2",
        lambda: cases.honest((1.0, 0.5, 3.0)),
        small.models_and_factor,
        why.sign_flip,
        _vectors("attacks", "sign_flip", "sent"),
        relations.OF_ROWS,
        optional=True,
    ),
    "arbitrary": Kind(
        ("W", "signals"),
        "(f, d)",
        attacks.arbitrary,
        "each attacker's own model times random signals, entry by entry",
        "the paper's Sec. 5",
        cases.signalled,
        small.models_and_signals,
        why.arbitrary,
        _vectors("attacks", "arbitrary", "sent"),
        relations.OF_TWO_ROWS,
    ),
    "fall-of-empires": Kind(
        ("honest", "epsilon"),
        "(d,)",
        attacks.fall_of_empires,
        "-epsilon times the mean of the honest models",
        "Xie et al. 2020",
        lambda: cases.honest((1.0, 0.1, 1.1, 2.0)),
        small.models_and_factor,
        why.fall_of_empires,
        _vectors("attacks", "fall_of_empires", "sent"),
        (relations.ORDER_OF_MODELS,),
        optional=True,
    ),
    "alie": Kind(
        ("honest", "z"),
        "(d,)",
        attacks.a_little_is_enough,
        "mean - z standard deviations of the honest models, by coordinate, with divisor h (ddof 0)",
        "Baruch et al. 2019",
        lambda: cases.honest((0.18, 0.929, 1.5, 0.3)),
        small.models_and_factor,
        why.alie,
        _vectors("attacks", "a_little_is_enough", "sent"),
        relations.OF_MODELS,
    ),
    "alie-z": Kind(
        ("n", "f"),
        "a number",
        attacks.alie_z,
        "Phi^-1((h - s) / h) with h = n - f honest workers, s = floor(n / 2 + 1) - f supporters",
        "Baruch et al. 2019",
        cases.counts,
        small.counts,
        why.alie_z,
        _vectors("attacks", "alie_z", "z", cases.outnumbered),
    ),
    "softmax-cross-entropy": Kind(
        ("z", "y"),
        "(n,)",
        layers.softmax_cross_entropy,
        "log(sum_j exp z_j) - z_y of each row; a row with label -1 is padding and has loss 0",
        "the paper's supplement C",
        cases.logits,
        small.logits,
        why.softmax_cross_entropy,
        _vectors("softmax_cross_entropy", "softmax_cross_entropy", "losses", cases.padded),
        relations.OF_LOGITS,
    ),
    "sgd": Kind(
        ("w", "g", "mu"),
        "(d,)",
        lambda w, g, mu: optim.sgd(w, g, None, mu, 1)[0],
        "w - mu g",
        "the paper's Eq. (2)",
        cases.steps,
        small.step,
        why.sgd,
        sgd_vectors,
        relations.OF_PARAMETERS,
    ),
    "adam": Kind(
        ("w", "gradients", "mu"),
        "(d,) after a step for each row of gradients (T, d), from a fresh start; beta 0.9, 0.999, eps 1e-8",
        adam,
        "w - mu m_hat / (sqrt(v_hat) + eps), with both moments corrected for their start at 0",
        "Kingma and Ba 2015",
        cases.paths,
        small.path,
        why.adam,
        adam_vectors,
        relations.OF_PARAMETERS,
    ),
    "metropolis-weights": Kind(
        ("graph",),
        "(N, N), of a boolean matrix that is True on its diagonal",
        metropolis_weights,
        "W_ij = 1 / (1 + max(d_i, d_j)) on edges, d without the worker itself; W_ii = 1 - the rest of the row",
        "Xiao and Boyd 2004",
        cases.networks,
        small.network,
        why.metropolis_weights,
        relations=relations.OF_WORKERS,
    ),
    "round": Kind(
        ("setting", "state", "batch", "signals"),
        "W (N, d), or a dictionary or named tuple with it and any of gradient, local, sent, risks, weights; "
        "refimpl.algorithm says what these are",
        rounds.define,
        "one round of the paper's Algorithm 1, given what is drawn at random",
        "the paper's Algorithm 1",
        rounds.draw,
        vectors=lambda arguments: rounds.from_vectors(),
        read=rounds.read,
        difference=rounds.difference,
        leaves_at=rounds.leaves_at,
    ),
}
