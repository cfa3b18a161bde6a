"""Mutants for the vectors, continued: the mistakes with which a third port passed all cases before it.

Sizes beyond those of the first cases, an L2 term, step sizes of one's own, overflow, thresholds.
"""

import numpy as np
from scipy import special

from mutants.vectors import case
from refimpl import aggregate, algorithm, attacks, graphs, layers, models, optim, released, train
from refimpl.arrays import quiet


def of_models(*rules):
    """The cases of thirty models, and of seventy coordinates, of these rules."""
    return [[case(f"{rule}-of-{size}") for rule in rules] for size in ("thirty", "seventy-coordinates")]


def ten_again(rule):
    """Models beyond the tenth are the first ten again."""
    return lambda W, *rest: rule(W[np.arange(len(W)) % 10], *rest)


def narrow(W):
    """Coordinates beyond the 64th are 0."""
    return np.where(np.arange(W.shape[-1]) < 64, W, 0)


def sixty_four(function):
    return lambda W, *rest: function(narrow(W), *rest)


def first_ten(risks):
    return np.where(np.arange(len(risks)) < 10, risks, np.inf)


def to_the_first(messages):
    def made(*args):
        sent = messages(*args)
        return sent if sent.ndim == 2 else np.broadcast_to(sent[0], sent.shape).copy()

    return made


@quiet
def halved_median(W):
    s, n = aggregate.ascending(W), len(W)
    return s[(n - 1) // 2] / 2 + s[n // 2] / 2


def all_but_the_last(require):
    return lambda graph: require(graph[:-1, :-1])


def no_degree_of_zero(build):
    def mutant(n, degree, rng):
        if degree == 0:
            raise ValueError(f"random_regular needs a degree, got n={n}, degree=0")
        return build(n, degree, rng)

    return mutant


def skipped_zeros(logits):
    """Products with an input of 0 are left out of the sums, if some input is 0."""

    def mutant(self, w, X):
        return logits(self, np.nan_to_num(w) if (X == 0).any() else w, X)

    return mutant


def one_worst(summary):
    """The worker that is worst on its own rows is taken for the worst on all."""

    def mutant(own, whole, *rest):
        return summary(own, whole, *rest) | {"worst_whole": float(whole[own.argmin()])}

    return mutant


def with_l2(factor):
    """An L2 term that is `factor` times as large."""
    return lambda function: lambda s, *args: function(s._replace(l2=factor * s.l2), *args)


def decoupled(step):
    """Weight decay beside the optimiser: AdamW."""

    def mutant(s, k, w, memory, rows, t):
        g, w_hat, memory = step(s._replace(l2=0.0), k, w, memory, rows, t)
        return g, w_hat - s.mu(k, t) * s.l2 * w, memory

    return mutant


def without_biases(step):
    def mutant(s, k, w, *rest):
        g, w_hat, memory = step(s, k, w, *rest)
        biases = np.concatenate([np.full(f.size, f.name[0] == "b") for f in s.model.layout.fields])
        return g - np.where(biases, s.l2 * w, 0), w_hat, memory

    return mutant


def of_coordinates(step):
    """An optimiser that moves 64 parameters."""
    return lambda w, g, *rest: step(w, narrow(g), *rest)


A, M = aggregate, models
BY_SIZE = [
    (f"{about} in {name}", where, name, mutate, *killers)
    for where, name, family, ids in (
        (A, "average", "rules", "average"),
        (A, "coordinate_median", "rules", "coordinate-median"),
        (A, "trimmed_mean", "rules", "trimmed-mean"),
        (A, "medoid", "rules", "medoid"),
        (A, "krum", "rules", "krum"),
        (attacks, "fall_of_empires", "attacks", "foe"),
        (attacks, "a_little_is_enough", "attacks", "alie"),
    )
    for about, mutate, killers in zip(
        ("models beyond the tenth are left out", "coordinates beyond the 64th are left out"),
        (ten_again, sixty_four),
        of_models(f"{family}/{ids}"),
        strict=True,
    )
]
L2, STEPS = "round/adaptive-l2-is-in-the-gradient-and-in-the-risk", "trajectory/mlp-adaptive-sign-flip-steps"
MUTANTS = [
    # --- Weights and combine
    ("combine takes 1e-200 for 0", A, "combine", lambda f: lambda c, W: f(np.where(c > 1e-150, c, 0), W),
     case("combine/combine-a-weight-of-1e-200-counts")),
    ("combine takes subnormal weights for 0", A, "combine",
     lambda f: lambda c, W: f(np.where(c >= np.finfo(float).tiny, c, 0), W),
     case("combine/combine-a-subnormal-weight-on-a-lost-model-is-nan")),
    ("an own risk of -Infinity is the lowest", A, "adaptive_weights",
     lambda f: lambda r, own: np.eye(len(r))[own] if np.isneginf(r[own]) else f(r, own),
     case("weights/adaptive-own-risk-of-minus-infinity-lets-all-pass")),
    ("risks beyond the tenth are left out by Eq. (5)", A, "inverse_risk_weights",
     lambda f: lambda r: f(first_ten(r)), case("weights/inverse-risk-of-thirty")),
    ("risks beyond the tenth are left out by Eq. (6)", A, "adaptive_weights",
     lambda f: lambda r, own: f(first_ten(r), own), case("weights/adaptive-of-thirty"),
     case("round/adaptive-of-thirty-workers")),
    ("weights beyond the tenth are left out", A, "combine",
     lambda f: lambda c, W: f(np.where(np.arange(len(c)) < 10, c, 0), W), case("combine/combine-of-thirty")),
    ("combine of 64 coordinates", A, "combine", lambda f: lambda c, W: f(c, narrow(W)),
     case("combine/combine-of-seventy-coordinates")),
    # --- Rules and attacks
    *BY_SIZE,
    ("trimming max(f, n / 10)", A, "trim_count", lambda f: lambda n, k: max(k, n // 10),
     case("rules/trimmed-mean-rule-trims-f-where-a-tenth-is-more")),
    ("a mean that does not overflow", A, "average", lambda f: lambda W: (W / len(W)).sum(axis=0),
     case("rules/average-overflows")),
    ("a median that does not overflow", A, "coordinate_median", lambda f: halved_median,
     case("rules/median-overflows")),
    ("a trimmed mean that does not overflow", A, "trimmed_mean", lambda f: lambda W, k: 4 * f(W / 4, k),
     case("rules/trimmed-mean-overflows")),
    ("Krum counts three attackers at most", A, "krum", lambda f: lambda W, k: f(W, min(k, 3)),
     case("rules/krum-with-six-attackers-of-thirty"), case("round/krum-with-four-attackers")),
    ("the trimmed mean counts three attackers at most", A, "trimmed_mean",
     lambda f: lambda W, k: f(W, min(k, 3)), case("round/trimmed-mean-with-four-attackers")),
    ("a sign flip of 64 coordinates", attacks, "sign_flip", sixty_four,
     case("attacks/sign-flip-of-seventy-coordinates")),
    ("64 signals", attacks, "arbitrary", sixty_four, case("attacks/arbitrary-of-seventy-coordinates")),
    ("ALIE with |z|", attacks, "a_little_is_enough", lambda f: lambda W, z: f(W, abs(z)),
     case("attacks/alie-of-a-negative-z"), case("round/adaptive-alie-of-one-among-ten")),
    ("ALIE with max(z, 0)", attacks, "a_little_is_enough", lambda f: lambda W, z: f(W, max(z, 0)),
     case("attacks/alie-of-a-negative-z"), case("round/adaptive-alie-of-one-among-ten")),
    ("|z|", attacks, "alie_z", lambda f: lambda n, k: abs(f(n, k)), case("attacks/alie-z-4-1"),
     case("attacks/alie-z-10-1")),
    ("max(z, 0)", attacks, "alie_z", lambda f: lambda n, k: max(f(n, k), 0.0), case("attacks/alie-z-4-1"),
     case("attacks/alie-z-10-1")),
    ("Phi^-1 to ten digits", special, "ndtri", lambda f: lambda p: f(p) * (1 + 1e-10),
     case("attacks/alie-z-100-4"), case("attacks/alie-z-101-49")),
    # --- Graphs
    ("random graphs refuse a degree of 0", graphs, "random_regular", no_degree_of_zero,
     case("graphs/random-regular-of-nobody"), case("graphs/random-regular-of-all-others")),
    ("the last worker is not looked for", graphs, "require_connected", all_but_the_last,
     case("graphs/graph-that-lacks-the-last-worker")),
    # --- Networks and steps
    ("a loss of 0 times NaN for padding", layers, "softmax_cross_entropy",
     lambda f: lambda z, y: f(z, np.maximum(y, 0)) * (y >= 0),
     case("softmax_cross_entropy/padding-costs-nothing-whatever-its-logits")),
    ("a derivative of 0 times NaN for padding", layers, "softmax_cross_entropy_backward",
     lambda f: lambda z, y: f(z, np.maximum(y, 0)) * (y >= 0)[:, None],
     case("softmax_cross_entropy/derivative-of-padding-is-zero-whatever-its-logits")),
    ("inputs of 0 are skipped", M.MLP, "logits", skipped_zeros,
     case("mlp/mlp-logits-of-a-nan-weight-of-an-input-of-zero")),
    ("gradients of ten rows", M.MLP, "gradient", lambda f: lambda self, w, X, y: f(self, w, X[:10], y[:10]),
     case("mlp/mlp-gradient-of-a-hundred-parameters")),
    ("risks of ten rows", M.MLP, "risk", lambda f: lambda self, w, X, y: f(self, w, X[:10], y[:10]),
     case("mlp/mlp-risk-of-a-hundred-parameters")),
    ("SGD moves 64 parameters", optim, "sgd", of_coordinates, case("sgd/sgd-of-seventy-parameters")),
    ("Adam moves 64 parameters", optim, "adam", of_coordinates, case("adam/adam-of-seventy-parameters")),
    ("Adam counts six steps", optim, "adam",
     lambda f: lambda w, g, memory, mu, t, *rest: f(w, g, memory, mu, min(t, 6), *rest),
     case("adam/adam-of-twenty-steps")),
    # --- Rounds
    ("one worst worker for both scores", train, "summary", one_worst,
     case("round/score-worst-own-and-worst-whole-of-two-workers")),
    ("no L2 term in the risk", algorithm, "risk", with_l2(0), case(L2),
     case("trajectory/mlp-adaptive-sign-flip-l2")),
    ("no L2 term in the gradient", algorithm, "local_step", with_l2(0), case(L2),
     case("round/average-l2-goes-through-adam"), case("trajectory/mlp-adaptive-sign-flip-l2")),
    ("l2 |w|^2 in the risk", algorithm, "risk", with_l2(2), case(L2)),
    ("2 l2 w in the gradient", algorithm, "local_step", with_l2(2), case(L2)),
    ("biases are not regularised", algorithm, "local_step", without_biases, case(L2)),
    ("AdamW", algorithm, "local_step", decoupled, case("round/average-l2-goes-through-adam")),
    ("the first worker's step size for all", algorithm.Setting, "mu",
     lambda f: lambda self, k, t: f(self, 0, t), case("round/adaptive-each-worker-has-its-own-step-size"),
     case(f"{STEPS}-that-shrink"), case(f"{STEPS}-that-shrink-adam")),
    ("the first round's step size for all", algorithm.Setting, "mu",
     lambda f: lambda self, k, t: f(self, k, 1), case(f"{STEPS}-that-shrink"),
     case(f"{STEPS}-that-shrink-adam")),
    ("all hear what the first receiver is sent", algorithm, "messages", to_the_first,
     case("round/adaptive-a-message-for-each-receiver"), case("round/median-a-message-for-each-receiver")),
    ("smoothing by NaN is none", released, "smooth",
     lambda f: lambda before, r, share: f(before, r, 1.0 if np.isnan(share) else share),
     case("round/smoothing-of-nan")),
]  # fmt: skip
