"""Mutants for the vectors: what a wrong port may do, and the cases that notice.

The mistakes are those with which a second port passed all first cases, or their like. They are made in refimpl
here. Each case of tests/vectors/later_*_cases.py has to notice one.
"""

import json

import numpy as np

from mutants.common import entry, variant
from mutants.related import strictly
from mutants.specification import forward_with, negated_bias
from refimpl import aggregate, algorithm, attacks, draws, graphs, layers, models, optim, released, train
from refimpl.aggregate import RULES
from refimpl.arrays import quiet
from refimpl.related import rules, screening, systems
from refimpl.related.mixing import uniform_weights
from refimpl.related.rounds import SystemRound, gradients, heard, steps
from refimpl.related.systems import SYSTEMS
from refimpl.vectors import FOLDER

FILES = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]
CASES = {f"{file['name']}/{case['id']}": case for file in FILES for case in [*file["cases"], *file["errors"]]}


def case(name):
    """The test of one case, by its family and id."""
    test = "refuses_with_the_facts" if "error" in CASES[name] else "gives_the_expected_numbers"
    return "test_vectors", f"test_refimpl_{test}", {"case": CASES[name]}


# --- Draws --------------------------------------------------------------------------------------------------


def rest_dropped(batches):
    """Only whole batches of an order are read."""

    def mutant(sizes, batch_size, rounds, rng):
        need, read = rounds * batch_size, []
        for n in sizes:
            orders = [rng.permutation(n) for _ in range(-(-need // n))]
            whole = max(n // batch_size * batch_size, 1)
            read.append(np.resize(np.concatenate([order[:whole] for order in orders]), (rounds, batch_size)))
        return np.stack(read, axis=1)

    return mutant


def short_batches(batches):
    return lambda sizes, batch_size, *rest: batches(sizes, min(batch_size, *sizes), *rest)


def ceil(x):
    return int(np.ceil(x))


# --- Rules --------------------------------------------------------------------------------------------------


def of_infinities_only(c, W):
    """combine that looks for infinities, not for NaN."""
    infinite = np.isinf(W).any(axis=-1)
    w = np.where(c > 0, c, 0) @ np.where(c[:, None] > 0, W, 0)
    return np.where((c[infinite] > 0).any(), np.nan, w)


def with_threshold(combine):
    return lambda c, W: combine(np.where(c > 1e-6, c, 0), W)


def threshold_for_lost(combine):
    """A tiny weight counts, but not on a model that is not finite."""
    return lambda c, W: combine(np.where((c > 1e-6) | np.isfinite(W).all(axis=-1), c, 0), W)


def nothing_finite(instead):
    """Of models none of which is finite."""
    return lambda rule: lambda W, *f: rule(W, *f) if np.isfinite(W).all(axis=-1).any() else instead(W)


def scaled_norms(medoid):
    def mutant(W):
        differences = np.abs(W[:, None] - W)
        largest = np.maximum(differences.max(axis=-1), 1e-300)
        norms = largest * np.sqrt(((differences / largest[..., None]) ** 2).sum(axis=-1))
        return W[norms.sum(axis=1).argmin()] if np.isfinite(W).all() else medoid(W)

    return mutant


def in_edges(change):
    return lambda from_edges: lambda n, edges: from_edges(n, [change(n, *edge) for edge in edges])


# --- Networks -----------------------------------------------------------------------------------------------


def ties_of_the_last_two(backward):
    """>= in the last of three comparisons."""

    def mutant(dy, x):
        dx = backward(dy, x)[0]
        a, b, c, d = layers.windows(x)
        wrong = (c == d) & (c > a) & (c > b)
        into = layers.windows(dx)
        into[2][wrong], into[3][wrong] = 0, dy[wrong]
        return (dx,)

    return mutant


def from_a_softmax(predict):
    @quiet
    def mutant(self, w, X):
        z = self.logits(w, X)
        p = np.exp(z - z.max(axis=-1, keepdims=True))
        return np.where(np.isnan(p).any(axis=-1), -1, p.argmax(axis=-1))

    return mutant


def finite_labels(predict):
    return lambda self, w, X: np.where(np.isfinite(self.logits(w, X)).all(axis=-1), predict(self, w, X), -1)


def of_losses(change):
    """The risk of the multilayer perceptron by other losses: change(right losses, logits, labels)."""

    def mutant(self, w, X, y):
        z = self.logits(w, X)
        return change(layers.softmax_cross_entropy(z, y), z, y).sum() / (y >= 0).sum()

    return lambda risk: mutant


def of_images(change):
    """The gradient, changed for images alone."""

    def mutate(gradient):
        return lambda self, w, X, y: gradient(self, w, X, y) * (change(y) if X.ndim == 3 else 1)

    return mutate


def without_layer(index, least):
    """A network of at least so many layers lacks one of them."""

    def mutate(build):
        def mutant(*args, **options):
            made = build(*args, **options)
            made = models.as_layers(made) if isinstance(made, models.MLP) else made
            kept = made.layers[:index] + made.layers[index + 1 :]
            return made._replace(layers=kept if len(made.layers) >= least else made.layers)

        return mutant

    return mutate


def affine_layers_from(first):
    """The names of the affine layers, whatever the depth: W{first}, b{first}, ..."""

    def mutate(cnn):
        def mutant(side, channels, hidden, classes):
            made = cnn(side, channels, hidden, classes)
            names = [f"{letter}{first + i}" for i in (0, 1) for letter in "Wb"]
            dense = [field._replace(name=name) for field, name in zip(made.layout.fields[-4:], names)]
            return made._replace(layout=made.layout._replace(fields=(*made.layout.fields[:-4], *dense)))

        return mutant

    return mutate


def refusing(least):
    def mutate(cnn):
        def mutant(side, channels, hidden, classes):
            if side < least(len(channels)):
                raise ValueError(f"cnn needs a larger side, got {side}")
            return cnn(side, channels, hidden, classes)

        return mutant

    return mutate


# --- Rounds and their checks --------------------------------------------------------------------------------


def checking(change):
    """The check of another setting: `change` gives the fields that differ."""
    return lambda check: lambda s: check(s._replace(**change(s)))


def attackers_too(check):
    def mutant(s):
        check(s)
        for row in s.graph:
            RULES[s.rule].require(int(row.sum()), len(s.attackers))

    return mutant


def risk_of(change):
    return lambda risk: lambda *args: change(risk(*args))


def restarting(lost):
    """Running averages that start again where they are lost in this sense only."""
    return lambda smooth: (
        lambda before, r, share: np.where(
            lost(before), r, (1 - share) * before + share * np.where(np.isnan(r), np.inf, r)
        )
    )


# --- Related systems ----------------------------------------------------------------------------------------


def related_case(id_):
    return case(f"related/{id_}")


def overlooking(option):
    """A round that knows its option by the default alone."""

    def mutate(round_):
        return lambda *args, **given: round_(*args, **{key: given[key] for key in given if key != option})

    return entry("round", mutate)


def with_signs(sign):
    """The TV penalty with another sign of NaN."""

    @quiet
    def mutant(s, state, batch, signals=None, penalty=0.005):
        sent, G = algorithm.messages(s, state.W, signals), gradients(s, state.W, batch)
        for k in s.normal:
            differences = state.W[k] - heard(s, sent, uniform_weights(s.graph), batch, k).models
            G[k] += penalty * np.where(np.isnan(differences), sign, np.sign(differences)).sum(axis=0)
        W, memory = steps(s, state.W, G, state)
        return SystemRound((sent,), algorithm.State(W, memory, state.t + 1))

    return entry("round", lambda f: mutant)


def on_graph(of_round):
    """Round t on the graph of another round."""
    return lambda engine: (
        lambda name, schedule=None, **options: engine(
            name, schedule and (lambda t: schedule(of_round(t))), **options
        )
    )


def once(check):
    """Checks no graph after the first one of a schedule."""
    schedules = []

    def mutant(name, s, schedule=None, rounds=1):
        if not schedules:
            check(name, s, schedule)
        schedules.extend([schedule] if schedule else [])

    return mutant


def closeness(of):
    """The geometric median with another weight of a distance."""

    def mutate(median):
        @quiet
        def mutant(W, steps=80, tolerance=1e-5, nu=1e-5):
            W = W[np.isfinite(W).all(axis=-1)]
            z = W.mean(axis=0)
            for _ in range(steps):
                c = 1 / of(np.sqrt(((W - z) ** 2).sum(axis=-1)), nu)
                before, z = z, c @ W / c.sum()
                if np.linalg.norm(z - before) <= tolerance:
                    break
            return z

        return mutant

    return mutate


def nan_as(value):
    """mozi with another number for a risk that is NaN: value(risks, own)."""
    return lambda mozi: (
        lambda W, own, r, *rest, **given: mozi(W, own, np.where(np.isnan(r), value(r, own), r), *rest, **given)
    )


A, D, L, M, G = aggregate, draws, layers, models, graphs
EVERYONE = lambda s: {"graph": np.ones_like(s.graph)}
MUTANTS = [
    # --- combine
    ("combine overlooks NaN", A, "combine", lambda f: quiet(of_infinities_only),
     case("combine/combine-nan-in-one-coordinate-is-nan-in-all")),
    ("combine divides by the sum of the weights, if it is 0", A, "combine",
     lambda f: lambda c, W: f(c, W) if c.any() else np.full(W.shape[-1], np.nan),
     case("combine/combine-of-nothing-is-zero")),
    ("combine of nothing is the first model", A, "combine", lambda f: lambda c, W: f(c, W) if c.any() else W[0],
     case("combine/combine-of-nothing-is-zero")),
    ("combine takes a small weight for 0", A, "combine", with_threshold,
     case("combine/combine-a-tiny-weight-counts"),
     case("combine/combine-a-tiny-weight-on-a-model-not-finite-is-nan")),
    ("combine lets a lost model of small weight pass", A, "combine", threshold_for_lost,
     case("combine/combine-a-tiny-weight-on-a-model-not-finite-is-nan")),
    # --- Rules
    ("trimmed mean refuses n = 2f + 1", A, "require_trimmable", lambda f: lambda n, k: f(n - 1, k),
     case("rules/trimmed-mean-of-2f-and-one-is-the-median"), case("round/trimmed-mean-of-2f-and-one-models")),
    ("Krum refuses n = 2f + 3", A, "require_krum", lambda f: lambda n, k: f(n - 1, k),
     case("rules/krum-of-2f-and-three")),
    ("Krum of nothing finite is the last", A, "krum", nothing_finite(lambda W: W[-1]),
     case("rules/krum-of-no-finite-model-is-the-first")),
    ("Krum of nothing finite is NaN", A, "krum", nothing_finite(lambda W: W[0] + np.nan),
     case("rules/krum-of-no-finite-model-is-the-first")),
    ("medoid of nothing finite is the last", A, "medoid", nothing_finite(lambda W: W[-1]),
     case("rules/medoid-of-no-finite-model-is-the-first")),
    ("medoid of nothing finite is NaN", A, "medoid", nothing_finite(lambda W: W[0] + np.nan),
     case("rules/medoid-of-no-finite-model-is-the-first")),
    ("medoid with norms that do not overflow", A, "medoid", scaled_norms,
     case("rules/medoid-distances-that-overflow-are-infinite")),
    ("medoid with infinite sums", A, "medoid",
     lambda f: quiet(variant("medoid", "a few infinite distances hide the others")),
     case("rules/medoid-distances-that-overflow-are-infinite")),
    ("one is trimmed from n = 10 on", A, "trim_count", lambda f: lambda n, k: k or min(n // 10, 1),
     case("rules/trimmed-mean-rule-trims-two-of-twenty")),
    ("n / 10 is rounded to the nearest", A, "trim_count", lambda f: lambda n, k: k or round(n / 10),
     case("rules/trimmed-mean-rule-trims-one-of-nineteen")),
    # --- Attacks and graphs
    ("alie_z checks f < n alone", attacks, "alie_z", lambda f: lambda n, k: f(n, max(k, 0)),
     case("attacks/alie-z-of-a-negative-number-of-attackers")),
    ("an edge where the uniform is p", G, "erdos_renyi", lambda f: lambda n, p, r: f(n, np.nextafter(p, 1), r),
     case("graphs/erdos-renyi-a-uniform-equal-to-p-is-no-edge")),
    ("the first worker of an edge is not checked", G, "from_edges", in_edges(lambda n, i, j: (i % n, j)),
     case("graphs/from-edges-unknown-first-worker"), case("graphs/from-edges-negative-first-worker")),
    ("workers from the end", G, "from_edges",
     in_edges(lambda n, i, j: (i % n if i < 0 else i, j % n if j < 0 else j)),
     case("graphs/from-edges-negative-worker"), case("graphs/from-edges-negative-first-worker")),
    ("a degree of n is n - 1", G, "random_regular", lambda f: lambda n, k, rng: f(n, min(k, n - 1), rng),
     case("graphs/random-regular-of-more-than-all-others")),
    ("a negative degree is 0", G, "random_regular", lambda f: lambda n, k, rng: f(n, max(k, 0), rng),
     case("graphs/random-regular-of-a-negative-degree")),
    # --- Networks
    ("ties of the last two to the last", L, "maxpool2d_backward", ties_of_the_last_two,
     case("maxpool2d/maxpool-gradient-tie-of-any-two-goes-to-the-first")),
    ("pooling drops NaN", L, "maxpool2d", lambda f: lambda x: np.fmax.reduce(L.windows(x)),
     case("maxpool2d/maxpool-of-nan-is-nan"), case("cnn/cnn-predict-of-nan-in-one-pixel")),
    ("pooling and ReLU drop NaN", L, "maxpool2d", lambda f: lambda x: f(np.nan_to_num(x, nan=-1e300)),
     case("cnn/cnn-logits-of-nan-in-a-kernel")),
    ("ReLU drops NaN", L, "relu", lambda f: lambda x: np.where(x > 0, x, 0),
     case("cnn/cnn-logits-of-nan-in-a-kernel")),
    ("ReLU of the perceptron drops NaN", M.MLP, "logits", forward_with(lambda x: np.where(x > 0, x, 0)),
     case("mlp/mlp-logits-of-nan-in-a-hidden-layer"), case("mlp/mlp-risk-of-nan-in-a-hidden-layer"),
     case("mlp/mlp-predict-of-nan-in-a-hidden-layer")),
    ("labels from a softmax", M.MLP, "predict", from_a_softmax,
     case("mlp/mlp-predict-an-infinite-logit-wins")),
    ("no label where a logit is infinite", M.MLP, "predict", finite_labels,
     case("mlp/mlp-predict-an-infinite-logit-wins"), case("mlp/mlp-predict-minus-infinity-never-wins")),
    ("a loss that is cut off", M.MLP, "risk", of_losses(lambda losses, z, y: np.minimum(losses, 690.0)),
     case("mlp/mlp-risk-of-a-right-label-at-minus-infinity-is-infinite")),
    ("a loss of 0 for one that is NaN", M.MLP, "risk",
     of_losses(lambda losses, z, y: np.nan_to_num(losses, nan=0.0, posinf=np.inf)),
     case("mlp/mlp-risk-of-a-logit-of-infinity-is-nan")),
    ("no loss where a logit is infinite", M.MLP, "risk",
     of_losses(lambda losses, z, y: np.where(np.isinf(z).any(axis=-1), np.inf, losses)),
     case("mlp/mlp-risk-of-a-wrong-label-at-minus-infinity-is-finite"),
     case("mlp/mlp-risk-of-a-logit-of-infinity-is-nan")),
    ("padding times 0", M.MLP, "risk",
     of_losses(lambda losses, z, y: layers.softmax_cross_entropy(z, np.maximum(y, 0)) * (y >= 0)),
     case("mlp/mlp-risk-of-padding-that-overflows-is-zero")),
    ("affine layers are W3 and W4", M, "cnn", affine_layers_from(3), case("cnn/cnn-layout-of-depth-one")),
    ("affine layers are W4 and W5", M, "cnn", affine_layers_from(4), case("cnn/cnn-layout-of-depth-one")),
    ("the third stage has no ReLU", M, "cnn", without_layer(8, 14), case("cnn/cnn-gradient-of-depth-three")),
    ("a CNN refuses a side of 2^D", M, "cnn", refusing(lambda depth: 2**depth + 1),
     case("cnn/cnn-of-a-side-of-two-to-the-depth")),
    ("a CNN without a stage", M, "cnn",
     lambda f: lambda channels, **options: f(channels=channels or [1], **options),
     case("cnn/cnn-needs-a-stage")),
    ("mean over padded images", M.Network, "gradient", of_images(lambda y: (y >= 0).mean()),
     case("cnn/cnn-gradient-leaves-padding-out")),
    ("kernels' bias uphill", L, "conv2d_backward", negated_bias, case("cnn/cnn-gradient-of-depth-one"),
     case("cnn/cnn-gradient-of-depth-three"), case("round/adaptive-of-a-cnn")),
    ("mean of the images' risk over padding", M.Network, "risk",
     lambda f: lambda self, w, X, y: f(self, w, X, y) * ((y >= 0).mean() if X.ndim == 3 else 1),
     case("cnn/cnn-risk-leaves-padding-out")),
    ("the second hidden layer has no ReLU", M, "mlp", without_layer(3, 5),
     case("trajectory/deeper-mlp-adaptive-alie")),
    ("the learning rate of the other trajectories", optim.OPTIMIZERS, "sgd",
     entry("step", lambda f: lambda w, g, memory, mu, t: f(w, g, memory, 0.3, t)),
     case("trajectory/deeper-mlp-adaptive-alie")),
    # --- Draws
    ("the rest of an order is dropped", D, "batches", rest_dropped, case("round/batches-span-two-orders")),
    ("batches as short as the data", D, "batches", short_batches,
     case("round/batches-of-more-rows-than-there-are")),
    ("rounds: floor + 1", D, "rounds_per_epoch", lambda f: lambda n, b: sum(n) // (len(n) * b) + 1,
     case("round/rounds-per-epoch-without-a-rest")),
    ("rounds: the mean of the workers' ceils", D, "rounds_per_epoch",
     lambda f: lambda n, b: ceil(np.mean([ceil(m / b) for m in n])),
     case("round/rounds-per-epoch-is-no-mean-of-rounds")),
    ("rounds: of the mean size rounded down", D, "rounds_per_epoch",
     lambda f: lambda n, b: ceil(sum(n) // len(n) / b), case("round/rounds-per-epoch-rounds-once")),
    ("rounds: rounded to the nearest", D, "rounds_per_epoch", lambda f: lambda n, b: round(np.mean(n) / b),
     case("round/rounds-per-epoch-of-few-rows"), case("round/rounds-per-epoch-rounds-once")),
    # --- Rounds
    ("the requirement is of all workers", train, "check", checking(EVERYONE),
     case("round/trimmed-mean-in-too-small-a-neighbourhood")),
    ("the requirement is of attackers, too", train, "check", attackers_too,
     case("round/trimmed-mean-in-an-attackers-small-neighbourhood")),
    ("a receiver trusts its own lost model", algorithm, "round_",
     lambda f: variant("round", "an infinite entry is trusted"),
     case("round/adaptive-a-lost-receiver-takes-its-neighbours")),
    ("a lost receiver keeps its own model", A, "adaptive_weights",
     lambda f: variant("adaptive-weights", "a lost own risk keeps the own model"),
     case("round/adaptive-a-lost-receiver-takes-its-neighbours")),
    ("a risk of 0 for one that is NaN", algorithm, "risk", risk_of(lambda r: np.where(np.isnan(r), 0, r)),
     case("round/adaptive-messages-whose-loss-overflows"),
     case("round/inverse-risk-messages-whose-loss-overflows")),
    ("a risk of 1e308 for one that is infinite", algorithm, "risk", risk_of(lambda r: np.minimum(r, 1e308)),
     case("round/adaptive-messages-whose-loss-overflows")),
    ("averages restart after infinity alone", released, "smooth", restarting(np.isinf),
     case("round/adaptive-smoothing-is-lost-and-starts-again")),
    ("averages restart after NaN alone", released, "smooth", restarting(np.isnan),
     case("round/adaptive-smoothing-is-lost-and-starts-again")),
    ("averages forget a risk that is infinite", released, "smooth",
     lambda f: lambda before, r, share: np.where(np.isinf(r), before, f(before, r, share)),
     case("round/adaptive-smoothing-is-lost-and-starts-again")),
    # --- Refusals
    ("smoothing below 0 is none", released, "smooth",
     lambda f: lambda before, r, share: f(before, r, 1 if share < 0 else share),
     case("round/smoothing-below-zero")),
    ("the risk's name is checked where one is needed", train, "check",
     checking(lambda s: {} if RULES[s.rule].scores else {"risk": "local"}),
     case("round/unknown-risk-under-average")),
    ("the attack's name is checked where somebody attacks", train, "check",
     checking(lambda s: {} if len(s.attackers) else {"attack": "none"}),
     case("round/unknown-attack-without-attackers")),
    ("smoothing is checked where it is below 1", released, "smooth",
     lambda f: lambda before, r, share: f(before, r, min(share, 1)),
     case("round/smoothing-above-one-under-median")),
    ("the graph is checked where somebody listens", train, "check",
     checking(lambda s: EVERYONE(s) if s.rule == "local" else {}),
     case("round/graph-not-connected-under-local")),
    # --- Related systems
    ("LEARN agrees t - 1 times", screening, "agreement_rounds", lambda f: lambda t: t - 1,
     related_case("icwtm-agrees-more-and-more-often")),
    ("LEARN agrees floor(log2 t) times", screening, "agreement_rounds", lambda f: lambda t: t.bit_length() - 1,
     related_case("icwtm-agrees-more-and-more-often")),
    ("LEARN never agrees more than once", screening, "agreement_rounds", lambda f: lambda t: min(f(t), 1),
     related_case("icwtm-agrees-more-and-more-often")),
    ("NaN has a sign, +1", SYSTEMS, "tv-penalty", with_signs(1), related_case("tv-penalty-nan-has-no-sign")),
    ("NaN has a sign, -1", SYSTEMS, "tv-penalty", with_signs(-1), related_case("tv-penalty-nan-has-no-sign")),
    ("the sign of NaN is NaN", SYSTEMS, "tv-penalty", with_signs(np.nan),
     related_case("tv-penalty-nan-has-no-sign")),
    ("multi-task averages never start again", screening, "running_average",
     lambda f: lambda before, r, share: (1 - share) * before + share * r,
     related_case("multi-task-average-is-lost-and-starts-again")),
    ("multi-task averages start again at 1", screening, "running_average",
     lambda f: lambda before, r, share: f(np.where(np.isfinite(before), before, 1), r, share),
     related_case("multi-task-average-is-lost-and-starts-again")),
    ("multi-task averages forget a risk that is infinite", screening, "running_average",
     lambda f: lambda before, r, share: np.where(np.isinf(r), before, f(before, r, share)),
     related_case("multi-task-average-is-lost-and-starts-again")),
    ("BRIDGE overlooks at", SYSTEMS, "bridge-t", overlooking("at"),
     related_case("bridge-t-with-the-gradient-at-the-screened-model")),
    ("ByRDiE overlooks at", SYSTEMS, "byrdie", overlooking("at"),
     related_case("byrdie-with-the-gradient-at-the-screened-value")),
    ("ClippedGossip overlooks its momentum", SYSTEMS, "clipped-gossip", overlooking("momentum"),
     related_case("clipped-gossip-with-half-the-momentum")),
    ("all rounds on the first graph", systems, "engine", on_graph(lambda t: 1),
     related_case("sgp-on-graphs-that-change"), related_case("tv-penalty-on-graphs-that-change")),
    ("all rounds on the last graph", systems, "engine", on_graph(lambda t: 0),
     related_case("sgp-on-graphs-that-change"), related_case("tv-penalty-on-graphs-that-change")),
    ("a round on the graph of the round before", systems, "engine", on_graph(lambda t: max(t - 1, 1)),
     related_case("sgp-on-graphs-that-change"), related_case("tv-penalty-on-graphs-that-change")),
    ("CHOCO on graphs that change", SYSTEMS, "choco",
     lambda system: system._replace(requirements=system.requirements[:1]),
     related_case("choco-on-graphs-that-change")),
    ("the first graph alone is checked", systems, "check", once,
     related_case("bridge-t-with-too-few-neighbours-in-a-later-round")),
    ("the geometric median without nu", rules, "geometric_median", closeness(lambda away, nu: away),
     related_case("geometric-median-nu-is-the-least-distance"),
     related_case("geometric-median-that-is-one-of-the-models")),
    ("the geometric median adds nu", rules, "geometric_median", closeness(lambda away, nu: away + nu),
     related_case("geometric-median-nu-is-the-least-distance")),
    ("the geometric median adds the square of nu", rules, "geometric_median",
     closeness(lambda away, nu: np.sqrt(away**2 + nu**2)),
     related_case("geometric-median-nu-is-the-least-distance")),
    ("NaN is the lowest in sorts", rules, "ascending",
     lambda f: lambda W: np.sort(np.where(np.isnan(W), -np.inf, W), axis=-2),
     related_case("own-trimmed-mean-nan-is-the-highest"),
     related_case("bulyan-of-more-lost-models-than-attackers")),
    ("an own value of NaN is infinite", rules, "own_trimmed_mean",
     lambda f: lambda W, own, k: f(np.where(np.isnan(W), np.inf, W), own, k),
     related_case("own-trimmed-mean-an-own-nan-stays-nan")),
    ("an oracle that is lost with an honest model", rules, "oracle_radius",
     lambda f: lambda W, own, c, honest: f(W, own, c, honest) if np.isfinite(W[honest]).all() else np.inf,
     related_case("oracle-radius-with-a-lost-honest-model")),
    ("a lost receiver is as far from itself as from others", rules, "adaptive_radius",
     lambda f: lambda W, own, c, k: f(W, own, c, k) if np.isfinite(W[own]).all() else np.inf,
     related_case("adaptive-radius-of-a-lost-receiver")),
    ("MOZI wants a lower risk than its own", rules, "mozi", strictly,
     related_case("mozi-accepts-an-equal-risk")),
    ("NaN is the lowest risk", rules, "mozi", nan_as(lambda r, own: np.nextafter(r[own], np.inf)),
     related_case("mozi-lowest-risk-is-not-nan")),
    ("MOZI accepts all if its own risk is NaN", rules, "mozi", nan_as(lambda r, own: np.inf),
     related_case("mozi-of-an-own-risk-of-nan")),
]  # fmt: skip
