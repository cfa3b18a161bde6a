"""Mutants for the vectors of related, continued: what a third port did, or might have done, and passed."""

from unittest import mock

import numpy as np

from mutants.common import entry
from mutants.related import afterwards
from mutants.vectors import once, overlooking
from mutants.vectors import related_case as case
from refimpl import algorithm, attacks
from refimpl.algorithm import State
from refimpl.arrays import quiet
from refimpl.attacks import ATTACKS
from refimpl.optim import OPTIMIZERS
from refimpl.related import averaging, mixing, requirements, rounds, rules, screening, systems
from refimpl.related.requirements import FIXED, neighbours
from refimpl.related.rounds import SystemRound, gradients, heard, steps
from refimpl.related.systems import SYSTEMS

SMALLEST = (
    "bridge-t-of-2f-and-one-others bridge-m-of-2f-and-one-others byrdie-of-2f-and-one-others "
    "bridge-k-of-2f-and-three multi-krum-of-2f-and-three-heard bridge-b-of-3f-and-two-others "
    "bridge-b-of-4f-others bulyan-of-4f-and-three mozi-of-one-other ubar-of-one-other ios-of-f-others "
    "ios-of-two-others-and-two-attackers icwtm-of-3f-and-one mda-of-3f-and-one"
)
TOO_SMALL = (
    "bridge-k-of-2f-and-two multi-krum-of-2f-and-two bridge-b-of-4-others "
    "bulyan-of-4f-and-two mozi-alone ubar-alone ios-of-fewer-than-f-others icwtm-of-3f mda-of-3f"
)
HEARD = "bridge-t bridge-k byrdie mozi ios multi-krum clipped-gossip-adaptive bulyan bridge-b"
FOUR = "bridge-t mozi ios multi-krum clipped-gossip-adaptive"
WITH_ADAM = "d-psgd bridge-t sgp byrdie clipped-gossip tv-penalty dmsgd choco icwtm multi-task"


def cases(ids, form="{}"):
    return [case(form.format(id_)) for id_ in ids.split()]


# --- Rules --------------------------------------------------------------------------------------------------


def one_degree(metropolis):
    """The largest degree for all."""

    def mutant(graph):
        edges = graph & ~np.eye(len(graph), dtype=bool)
        M = edges / graph.sum(axis=1).max()
        return M + np.diag(1 - M.sum(axis=1))

    return mutant


def nan_first(top_k):
    def mutant(x, k):
        kept = np.argsort(-np.nan_to_num(abs(x), nan=np.inf, posinf=np.inf), kind="stable")[:k]
        return np.where(np.isin(np.arange(len(x)), kept), x, 0)

    return mutant


def finite_rows(instead):
    """A rule of another answer where no row is finite."""
    return lambda rule: lambda W, *rest: rule(W, *rest) if np.isfinite(W).all(axis=1).any() else instead(W)


def overflow_counts(rule):
    """Only what is not finite is dropped, not what overflows when squared."""

    def mutant(W, *rest):
        return np.where(abs(W).max() > 1e150, np.nan, rule(W, *rest))

    return mutant


def last_of_ties(order):
    return lambda D, f: len(D) - 1 - order(D[::-1, ::-1], f)


def backwards(rule):
    """The last of a tie: rows are read from the end."""
    return lambda W, *rest: rule(W[::-1], *rest)


def own_backwards(rule):
    def mutant(W, own, by_row, *rest, **given):
        return rule(W[::-1], len(W) - 1 - own, by_row[::-1], *rest, **given)

    return mutant


def bulyan_by(median, key):
    """Bulyan with another median, or another order of the distances: key(|x - median|)."""

    @quiet
    def mutant(W, f):
        picked = rules.ascending(rules.repeated_krum(W, f))
        nearest = np.argsort(key(abs(picked - median(picked))), axis=0, kind="stable")[: len(picked) - 2 * f]
        return np.take_along_axis(picked, nearest, axis=0).mean(axis=0)

    return lambda bulyan: mutant


def middle(s):
    return (s[(len(s) - 1) // 2] + s[len(s) // 2]) / 2


def of_finite_rows(rule):
    return lambda W, f: W[np.isfinite(W).all(axis=1)].mean(axis=0)


def lost_are_dropped(mean):
    return lambda W, c, left: mean(W, c, left & np.isfinite(W).all(axis=1))


@quiet
def unguarded(W, own, weights, tau):
    """Clips at tau / |z| without asking whether |z| is 0."""
    z = W - W[own]
    return W[own] + weights @ (np.minimum(1, tau / np.sqrt((z**2).sum(axis=1, keepdims=True))) * z)


def at_own(radius):
    """A lost neighbour is as near as oneself."""
    return lambda W, own, c, f: radius(np.where(np.isfinite(W).all(axis=1)[:, None], W, W[own]), own, c, f)


def not_infinite(radius):
    return lambda *args: 0.0 if np.isinf(radius(*args)) else radius(*args)


def mean_of_nothing(mozi):
    def mutant(W, own, *rest, **given):
        lost = ~np.isfinite(((W - W[own]) ** 2).sum(axis=1))
        return W[own] + np.nan if np.delete(lost, own).all() else mozi(W, own, *rest, **given)

    return lambda *args, **given: quiet(mutant)(*args, **given)


def with_risks(change):
    return lambda mozi: lambda W, own, r, *rest, **given: mozi(W, own, change(r), *rest, **given)


# --- Rounds -------------------------------------------------------------------------------------------------


def in_the_neighbourhood(heard):
    """f is the number of attackers that a worker hears."""

    def mutant(*args):
        h = heard(*args)
        return h._replace(f=int((~h.honest).sum()))

    return mutant


def checked(change):
    """A requirement of other numbers: change(n, f) -> n, f."""
    return lambda check: lambda s, require: check(s, lambda n, f: require(*change(n, f)))


def near_attackers(check):
    """A requirement with the attackers that a worker hears in the place of all."""

    def mutant(s, require):
        for k in s.normal:
            require(int(s.graph[k].sum()), int(s.graph[k, s.attackers].sum()))

    return mutant


def everyone_is_checked(check):
    """Attackers' neighbourhoods too."""

    def mutant(s, require):
        check(s, require)
        for row in s.graph:
            require(int(row.sum()), len(s.attackers))

    return mutant


def given_otherwise(change):
    """A round with other options than it is given."""
    return entry("round", lambda round_: lambda *args, **given: round_(*args, **given | change(given)))


def by_default(**wrong):
    """A round with another default."""
    return entry("round", lambda round_: lambda *args, **given: round_(*args, **wrong | given))


def transposed(round_):
    return lambda s, *args, **given: round_(s._replace(graph=s.graph.T), *args, **given)


def with_signals(change):
    return entry(
        "round",
        lambda round_: lambda s, state, batch, signals, **given: round_(s, state, batch, change(signals)),
    )


def attacked_once(messages):
    """Of the messages of a round only the first is attacked."""
    rounds = []

    def mutant(s, W, signals):
        rounds.append(id(signals))
        return messages(s, W, signals) if rounds.count(id(signals)) == 1 else W.copy()

    return mutant


def lies_about_u(combined):
    def mutant(s, W, sent, *rest):
        if sent is W:
            sent = W.copy()
            sent[s.attackers] *= -1
        return combined(s, W, sent, *rest)

    return mutant


def cut_off(s, state, result):
    result.state.memory[-1] = 1


def attackers_mix(s, state, result):
    result.state.W[s.attackers] = result.state.W[s.normal].mean(axis=0)


def mixed_moments(s, state, result):
    result.state.memory[:2] = result.state.memory[:2].mean(axis=1, keepdims=True)


def moments_last(s, state, result):
    result.state.memory[:] = np.roll(result.state.memory, -2, axis=0)


def from_own_model(steps):
    return lambda s, base, G, state: steps(s, state.W, G, state)


def along_the_way(steps):
    """Adam is given the whole way from the own model, momentum included."""
    return lambda s, base, G, state: steps(s, state.W, G + state.W - base, state)


def counts_coordinates(steps):
    calls = []

    def mutant(s, base, G, state):
        calls.append(base)
        return steps(s, base, G, state._replace(t=len(calls) - 1))

    return mutant


def of_the_gradient(step_then_mix):
    """Without the direction that the system gives."""
    return lambda *args: step_then_mix(*args[:6])


@quiet
def penalty_beside_adam(s, state, batch, signals=None, penalty=0.005):
    sent = algorithm.messages(s, state.W, signals)
    W, memory = steps(s, state.W, gradients(s, state.W, batch), state)
    for k in s.normal:
        models = heard(s, sent, mixing.uniform_weights(s.graph), batch, k).models
        W[k] -= s.mu(k, state.t + 1) * penalty * np.sign(state.W[k] - models).sum(axis=0)
    return SystemRound((sent,), State(W, memory, state.t + 1))


def own_gradient(round_):
    """LEARN whose optimiser is given the worker's own gradient."""

    def mutant(s, state, batch, *args, **given):
        G = gradients(s, state.W, batch)
        with mock.patch.object(screening, "steps", lambda s, base, _, state: steps(s, base, G, state)):
            return round_(s, state, batch, *args, **given)

    return mutant


def without_fixed(system):
    return system._replace(requirements=tuple(r for r in system.requirements if r is not FIXED))


L2 = {"l2": 0.0}
MUTANTS = [
    # --- Weights and a compressor
    ("Metropolis weights with the largest degree", mixing, "metropolis_weights", one_degree,
     case("metropolis-of-twelve")),
    ("Metropolis weights of nobody are NaN", mixing, "metropolis_weights",
     lambda f: lambda A: f(A) * np.where(A.sum(axis=1) > 1, 1, np.nan)[:, None],
     case("metropolis-of-a-worker-that-hears-nobody")),
    ("NaN is the largest entry", mixing, "top_k", nan_first, case("top-k-nan-is-the-smallest")),
    ("NaN is the largest entry of a lie", averaging, "top_k", nan_first, case("choco-arbitrary-with-nan")),
    ("k - 1 entries", mixing, "top_k", lambda f: lambda x, k: f(x, k - 1), case("top-k-of-all-entries"),
     case("top-k-nan-is-the-smallest")),
    ("NaN is never kept", mixing, "top_k", lambda f: lambda x, k: np.nan_to_num(f(x, k)),
     case("top-k-of-all-entries")),
    # --- Rules that see all models alike
    ("80 steps of Weiszfeld", rules, "geometric_median", lambda f: lambda W, steps, *rest: f(W, 80, *rest),
     case("geometric-median-after-three-steps")),
    ("Weiszfeld's tolerance is 1e-5", rules, "geometric_median",
     lambda f: lambda W, steps, tolerance, nu: f(W, steps, 1e-5, nu),
     case("geometric-median-takes-the-step-that-is-small-enough")),
    ("a geometric median with what overflows", rules, "geometric_median", overflow_counts,
     case("geometric-median-drops-what-overflows")),
    ("the geometric median of nothing is NaN", rules, "geometric_median",
     finite_rows(lambda W: W[0] + np.nan), case("geometric-median-of-lost-models-is-the-first")),
    ("Krum's last of a tie", rules, "krum_order", last_of_ties, case("multi-krum-of-2f-and-three-with-a-tie")),
    ("multi-Krum refuses n = 2f + 3", rules, "require_krum", lambda f: lambda n, k: f(n - 1, k),
     case("multi-krum-of-2f-and-three-with-a-tie")),
    ("multi-Krum of n = 2f + 2", rules, "require_krum", lambda f: lambda n, k: f(n + 1, k),
     case("multi-krum-of-too-few")),
    ("Bulyan with the lower of two middle values", rules, "bulyan",
     bulyan_by(lambda s: s[(len(s) - 1) // 2], np.asarray), case("bulyan-of-eight")),
    ("Bulyan's Krum looks at the nearest alone", rules, "krum_order", lambda f: lambda D, k: f(D, len(D) - 3),
     case("bulyan-of-nine")),
    ("Bulyan picks n - 2f - 2", rules, "repeated_krum", lambda f: lambda W, k: f(W, k)[:-2],
     case("bulyan-of-nine")),
    ("Bulyan takes the higher of two equally near", rules, "bulyan",
     bulyan_by(middle, lambda away: away - 1e-9 * np.arange(len(away))[:, None]),
     case("bulyan-of-two-equally-near")),
    ("Infinity - Infinity is 0", rules, "bulyan",
     bulyan_by(middle, lambda away: np.nan_to_num(away, nan=0.0, posinf=np.inf)),
     case("bulyan-of-a-median-that-is-infinite")),
    ("MDA refuses n = 2f + 1", rules, "require_mda", lambda f: lambda n, k: f(n - 1, k),
     case("mda-of-three-with-one")),
    ("MDA of n = 2f", rules, "require_mda", lambda f: lambda n, k: f(n + 1, k), case("mda-of-four-with-two")),
    ("MDA's last of a tie", rules, "minimum_diameter_average", backwards,
     case("mda-tie-goes-to-the-first-subset")),
    ("MDA of what is finite", rules, "minimum_diameter_average", of_finite_rows,
     case("mda-of-more-lost-models-than-attackers")),
    # --- Rules that know which model is their own
    ("the mean of nobody", rules, "own_trimmed_mean",
     lambda f: lambda W, own, k: f(W, own, k) if len(W) - 1 > 2 * k else W[own] + np.nan,
     case("own-trimmed-mean-of-2f-others")),
    ("IOS without what is lost", rules, "weighted_mean", lost_are_dropped,
     case("scissor-of-more-lost-models-than-f"), case("scissor-of-a-lost-receiver")),
    ("IOS with what overflows", rules, "iterative_outlier_scissor", overflow_counts,
     case("scissor-of-a-model-that-overflows")),
    ("IOS drops the last of a tie", rules, "iterative_outlier_scissor", own_backwards,
     case("scissor-tie-goes-to-the-lowest-index")),
    ("IOS drops all others and then its own", rules, "iterative_outlier_scissor",
     lambda f: lambda W, own, c, k: f(W, own, c, k) if k < len(W) else 0 * W[own],
     case("scissor-of-more-than-all-others")),
    ("clipping divides by 0", rules, "clipped_gossip", lambda f: unguarded, case("clipped-gossip-at-radius-0"),
     case("clipped-gossip-of-a-lost-receiver")),
    ("an oracle's radius of 0 without attackers", rules, "oracle_radius", not_infinite,
     case("oracle-radius-without-attackers"), case("oracle-radius-without-attackers-or-differences")),
    ("an adaptive radius of 0 without attackers", rules, "adaptive_radius", not_infinite,
     case("adaptive-radius-without-attackers")),
    ("a lost neighbour is the nearest", rules, "adaptive_radius", at_own,
     case("adaptive-radius-of-a-lost-neighbour")),
    ("MOZI exchanges alpha and 1 - alpha", rules, "mozi",
     lambda f: lambda W, own, r, n, alpha=0.5, empty="nearest": f(W, own, r, n, 1 - alpha, empty),
     case("mozi-alpha-is-the-own-share"), case("mozi-keeps-three-quarters"), case("ubar-keeps-three-quarters")),
    ("the lowest index of equal risks", rules, "mozi", with_risks(lambda r: r + 1e-9 * np.arange(len(r))),
     case("mozi-lowest-risk-tie-goes-to-the-nearest")),
    ("the last of equally near models", rules, "mozi", own_backwards, case("mozi-of-equally-near-models")),
    ("MOZI takes the mean of nothing", rules, "mozi", mean_of_nothing,
     case("mozi-of-nobody-at-a-finite-distance"), case("mozi-of-a-lost-receiver")),
    ("a second stage of two at least", rules, "mozi",
     lambda f: lambda W, own, r, n, *rest: f(W, own, r, max(n, 2), *rest),
     case("mozi-of-two-others-and-two-attackers"), case("mozi-with-a-share-of-less-than-one")),
    ("a second stage of nobody", rules, "mozi",
     lambda f: lambda W, own, r, n, *rest: f(W, own, r, n, *rest) if n > 1 else W[own],
     case("mozi-with-a-share-of-less-than-one")),
    # --- Who is heard
    ("f is counted in the neighbourhood", rounds, "heard", in_the_neighbourhood,
     *cases(HEARD, "{}-f-is-of-the-network"), *cases(FOUR, "{}-of-four-f-is-of-the-network")),
    ("one neighbour more is needed", requirements, "check_neighbourhoods", checked(lambda n, f: (n - 1, f)),
     *cases(SMALLEST)),
    ("one neighbour fewer is enough", requirements, "check_neighbourhoods", checked(lambda n, f: (n + 1, f)),
     *cases(TOO_SMALL)),
    ("requirements of an attacker", requirements, "check_neighbourhoods", everyone_is_checked,
     *cases("bridge-t multi-krum mozi", "{}-in-an-attackers-small-neighbourhood")),
    ("requirements with the attackers that are heard", requirements, "check_neighbourhoods", near_attackers,
     *cases("bridge-t bridge-m byrdie", "{}-counts-all-attackers")),
    ("BRIDGE-B needs 3f + 2", SYSTEMS, "bridge-b",
     lambda system: SYSTEMS["bridge-m"]._replace(requirements=(neighbours("3f + 2", lambda f: 3 * f + 2),)),
     case("bridge-b-of-11-others")),  # BRIDGE-M's round, as the mean of nothing would be a warning
    ("BRIDGE-B needs 4f", SYSTEMS, "bridge-b",
     lambda system: system._replace(requirements=(neighbours("4f", lambda f: 4 * f),)),
     case("bridge-b-of-4-others")),
    *((f"{name} on graphs that change", SYSTEMS, name, without_fixed, case(f"{name}-on-graphs"))
      for name in ("dmsgd", "choco-identity", "icwtm", "mda")),
    ("the first graph alone is checked for directions", systems, "check", once,
     case("d-sgd-on-a-directed-graph-in-a-later-round")),
    *((f"{name} hears whom it sends to", SYSTEMS, name, entry("round", transposed),
       case(f"{name}-on-a-directed-graph")) for name in ("multi-task", "geometric-median")),
    # --- Options
    ("DMSGD exchanges omega and 1 - omega", SYSTEMS, "dmsgd",
     given_otherwise(lambda given: {"omega": 1 - given.get("omega", 0.5)}),
     case("dmsgd-shares-a-quarter-of-its-momentum")),
    *((f"{system} overlooks {option}", SYSTEMS, system, overlooking(option), case(id_))
      for system, option, id_ in (
          ("dmsgd", "beta", "dmsgd-with-half-the-momentum"),
          ("choco-identity", "copies", "choco-with-copies-of-the-models"),
          ("clipped-gossip", "radius", "clipped-gossip-at-a-fifth"),
          ("clipped-gossip-adaptive", "radius", "clipped-gossip-adaptive-at-a-fifth"),
          ("mozi", "alpha", "mozi-keeps-three-quarters"),
          ("ubar", "alpha", "ubar-keeps-three-quarters"),
          ("multi-task", "nu", "multi-task-forgets-by-half"))),
    ("another gamma of CHOCO", SYSTEMS, "choco", by_default(gamma=0.05), case("choco-with-its-defaults")),
    ("another share of CHOCO", SYSTEMS, "choco", by_default(share=0.3), case("choco-with-its-defaults")),
    ("CHOCO sends 0.5 %", SYSTEMS, "choco", by_default(share=0.005), case("choco-sends-one-percent")),
    ("CHOCO sends 2 %", SYSTEMS, "choco", by_default(share=0.02), case("choco-sends-one-percent")),
    ("Weiszfeld's tolerance is 2e-5", rules, "geometric_median",
     lambda f: lambda W, steps=80, tolerance=2e-5, nu=1e-5: f(W, steps, tolerance, nu),
     case("geometric-median-with-its-tolerance")),
    ("another penalty", SYSTEMS, "tv-penalty", by_default(penalty=0.0055), case("tv-penalty-with-its-default")),
    ("the loss of a model that is not finite", algorithm, "risk",
     lambda f: lambda s, w, X, y: s.model.risk(w, X, y), case("multi-task-an-infinite-bias-behind-relu")),
    ("averages beyond d are cut off", SYSTEMS, "multi-task", afterwards(cut_off),
     case("multi-task-with-more-workers-than-parameters")),
    ("no L2 term in a system's risk", algorithm, "risk",
     lambda f: lambda s, *args: f(s._replace(**L2), *args), case("mozi-with-l2"), case("multi-task-with-l2")),
    ("no L2 term in a system's gradient", rounds, "gradients",
     lambda f: lambda s, *args: f(s._replace(**L2), *args), case("mozi-with-l2")),
    ("no L2 term in the gradient of multi-task", screening, "gradients",
     lambda f: lambda s, *args: f(s._replace(**L2), *args), case("multi-task-with-l2")),
    *((f"a system's step size is that of {which}", algorithm.Setting, "mu", mutate,
       case("tv-penalty-with-steps-that-shrink"), case("byrdie-with-steps-that-shrink"))
      for which, mutate in (("the first worker", lambda f: lambda self, k, t: f(self, 0, t)),
                            ("the first round", lambda f: lambda self, k, t: f(self, k, 1)))),
    # --- Lies
    ("DMSGD's momentum is not attacked", averaging, "messages", attacked_once, case("dmsgd-arbitrary")),
    ("DMSGD's attackers mix", SYSTEMS, "dmsgd", afterwards(attackers_mix), case("dmsgd-arbitrary")),
    ("CHOCO's attackers mix", SYSTEMS, "choco", afterwards(attackers_mix), case("choco-arbitrary-with-nan")),
    ("ByRDiE's attackers screen", SYSTEMS, "byrdie", afterwards(attackers_mix), case("byrdie-arbitrary")),
    ("the first coordinate's signal for all", SYSTEMS, "byrdie",
     with_signals(lambda signals: signals[:, [0] * signals.shape[1]]), case("byrdie-arbitrary")),
    ("LEARN's gradients alone are attacked", screening, "messages", attacked_once, case("icwtm-arbitrary")),
    ("signals in the order of the last attacker", SYSTEMS, "icwtm",
     with_signals(lambda signals: signals[::-1]), case("icwtm-arbitrary")),
    ("u is attacked", averaging, "combined_rows", lies_about_u, case("sgp-arbitrary")),
    ("ALIE with z = 0", attacks, "alie_z", lambda f: lambda n, k: 0.0,
     *cases("dmsgd-alie icwtm-alie d-psgd-alie-corrupted")),
    ("the corrupted know the normal workers' models", ATTACKS, "alie-corrupted",
     lambda attack: ATTACKS["alie"], case("d-psgd-alie-corrupted")),
    # --- Adam
    ("Adam forgets", OPTIMIZERS, "adam",
     entry("step", lambda f: lambda w, g, memory, mu, t: f(w, g, 0 * memory, mu, t)),
     *cases(WITH_ADAM, "{}-with-adam")),
    ("a system's step from the own model", rounds, "steps", from_own_model, case("d-psgd-with-adam"),
     case("bridge-t-with-adam")),
    ("SGP's step of z", averaging, "steps", from_own_model, case("sgp-with-adam")),
    *((f"the moments of {name} are mixed", SYSTEMS, name, afterwards(mixed_moments), case(id_))
      for name, id_ in (("d-psgd", "d-psgd-with-adam"), ("choco-identity", "choco-with-adam"))),
    ("Adam is given DMSGD's momentum", averaging, "steps", along_the_way, case("dmsgd-with-adam")),
    ("ByRDiE's bias correction counts coordinates", screening, "steps", counts_coordinates,
     case("byrdie-with-adam")),
    ("Adam is not given ClippedGossip's momentum", screening, "step_then_mix", of_the_gradient,
     case("clipped-gossip-with-adam")),
    ("a penalty beside Adam", SYSTEMS, "tv-penalty", entry("round", lambda f: penalty_beside_adam),
     case("tv-penalty-with-adam")),
    ("Adam is given LEARN's own gradient", SYSTEMS, "icwtm", entry("round", own_gradient),
     case("icwtm-with-adam")),
    ("the averages come before the moments", SYSTEMS, "multi-task", afterwards(moments_last),
     case("multi-task-with-adam")),
]  # fmt: skip
