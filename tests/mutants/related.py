"""Mutants of refimpl/related: at least two mistakes for each system."""

import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np

from mutants.common import known, variant
from refimpl import aggregate, algorithm, related
from refimpl.algorithm import messages
from refimpl.related import averaging, costs, mixing, requirements, rounds, rules, schedules, screening
from refimpl.related.rounds import mix_and_step, step_then_mix
from refimpl.related.screening import SCREENS
from refimpl.related.systems import SYSTEMS

FILES = {
    name: path.stem
    for path in Path(__file__).parents[1].glob("test_related*.py")
    for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}


def test(name, /, **parameters):
    return FILES[f"test_{name}"], f"test_{name}", parameters


def oracle(system, attack="sign-flip"):
    """The system against its oracle."""
    return test("a_system_equals_its_oracle", name=system, attack=attack)


def two(system, attack="sign-flip"):
    """The same with two attackers."""
    return test("a_system_equals_its_oracle_with_two_attackers", name=system, attack=attack)


def options(**changed):
    return lambda system: system._replace(round=partial(system.round, **changed))


def instead(round_):
    return lambda system: system._replace(round=round_)


def afterwards(change):
    """A change of what a round has made, in place: change(setting, state before, result)."""

    def mutate(system):
        def mutant(s, state, batch, signals=None, **given):
            result = system.round(s, state, batch, signals, **given)
            change(s, state, result)
            return result

        return system._replace(round=mutant)

    return mutate


def attackers_know_the_setting(round_):
    """Attackers know its data, whatever models are scored on."""

    def mutant(s, *rest, **given):
        with mock.patch.object(algorithm, "messages", lambda judge, *more: messages(s, *more)):
            return round_(s, *rest, **given)

    return mutant


def shows_biased(s, state, result):
    result.state.W[:] = result.state.memory[-2]


def forgets(s, state, result):
    result.state.memory[-1] = 0


def no_weights(s, state, result):
    result.state.W[s.normal] = result.sent[0].mean(axis=0)


def everyone_gets_it(s, state, result):
    result.state.W[s.attackers] = result.state.W[s.normal[0]]


def attackers_mix(s, state, result):
    result.state.W[s.attackers] = result.sent[-1].mean(axis=0)


def first_slot(system):
    """What the optimiser remembers first is taken for what the system does."""

    def mutant(s, state, *rest, **given):
        later = state._replace(memory=np.roll(state.memory, -1, axis=0))
        return system.round(s, later if state.t else state, *rest, **given)

    return system._replace(round=mutant)


def smallest(top_k):
    return lambda x, k: x - top_k(x, len(x) - k)


def trims_one_side(rule):
    def mutant(W, own, f):
        others = aggregate.ascending(np.delete(W, own, axis=0))
        return (W[own] + others[: len(others) - 2 * f].sum(axis=0)) / (len(others) - 2 * f + 1)

    return mutant


def screened_by(kind, name):
    """A screen that is a variant which the audit knows."""
    compute = variant(kind, name)
    return lambda right: lambda: lambda h: compute(h.models, *([h.f] if kind == "krum" else []))


def same_for_all(shared_result):
    """Shares a result among workers that hear different models."""

    def mutant(rule):
        made = []

        def combine(h):
            made.append(rule(h.models, h.f))
            return made[0]

        return combine

    return mutant


def strictly(mozi):
    """Accepts only a lower risk."""

    def mutant(W, own, risks, *rest, **given):
        is_own = np.arange(len(W)) == own
        return mozi(W, own, np.where(is_own, risks * (1 - 1e-12), risks), *rest, **given)

    return mutant


def clips_the_sum(clip):
    def mutant(W, own, weights, tau):
        step = weights @ (W - W[own])
        return W[own] + step * min(1, tau / np.linalg.norm(step))

    return mutant


def clips_coordinates(clip):
    return lambda W, own, weights, tau: W[own] + weights @ np.clip(W - W[own], -tau, tau)


def one_more(radius):
    """Takes the model too with which the weight reaches 1 - delta."""

    def mutant(W, own, c, f):
        delta = np.sort(np.delete(c, own))[::-1][:f].sum()
        squares = ((W - W[own]) ** 2).sum(axis=-1)
        order = np.argsort(squares, kind="stable")
        taken = order[: 1 + int((np.cumsum(c[order]) < 1 - delta - 1e-6).sum())]
        return float(np.sqrt((c[taken] * squares[taken]).sum() / delta)) if delta else np.inf

    return mutant


def all_at_once(scissor):
    def mutant(W, own, c, f):
        away = ((W - c @ W / c.sum()) ** 2).sum(axis=-1)
        away[own] = -1
        left = np.sort(np.argsort(-away, kind="stable")[f:])
        return c[left] @ W[left] / c[left].sum()

    return mutant


def by_the_sum(mda):
    """The subset with the smallest sum of distances."""

    def mutant(W, f):
        order = np.argsort(aggregate.squared_distances(W).sum(axis=1), kind="stable")
        return W[np.sort(order[: len(W) - f])].mean(axis=0)

    return mutant


def round_of_gradients(s, state, batch, signals=None):
    """LEARN without the exchange of models."""
    from refimpl.algorithm import State
    from refimpl.related.rounds import SystemRound, gradients, steps

    own = gradients(s, state.W, batch)
    sent = messages(s, own, signals)
    G = own.copy()
    G[s.normal] = aggregate.trimmed_mean(sent, len(s.attackers))
    W, memory = steps(s, state.W, G, state)
    return SystemRound((sent,), State(W, memory, state.t + 1))


def bridge_t_at_once(s, state, batch, signals=None, at="own"):
    return mix_and_step(s, state, batch, signals, SCREENS["T"](), at=at)


def screened_after_the_step(s, state, batch, signals=None):
    return step_then_mix(s, state, batch, signals, SCREENS["T"]())


MUTANTS = [
    # --- Weights
    known("metropolis-weights", "Metropolis weights without the + 1", related, "metropolis_weights",
     test("metropolis_weights_on_a_path_and_an_even_ring"),
     test("metropolis_weights_are_symmetric_and_doubly_stochastic")),
    known("metropolis-weights", "the mean of the neighbourhood", related, "metropolis_weights",
     test("metropolis_weights_are_symmetric_and_doubly_stochastic")),
    ("push weights by rows", related, "push_weights", lambda f: mixing.uniform_weights,
     test("push_weights_share_out_what_is_sent")),
    # --- D-PSGD, D-SGD
    ("D-PSGD with plain means", averaging, "metropolis_weights", lambda f: mixing.uniform_weights,
     oracle("d-psgd"), oracle("d-sgd", "alie"), oracle("dmsgd"), oracle("choco-identity")),
    ("D-PSGD in the other order", SYSTEMS, "d-psgd", options(order="step-then-mix"),
     oracle("d-psgd"), test("choco_without_compression_is_d_psgd", order="mix-and-step", equal="d-psgd")),
    ("D-PSGD with the gradient at the mean", SYSTEMS, "d-psgd",
     instead(lambda s, st, b, sig=None: mix_and_step(
         s, st, b, sig, averaging.weighted, mixing.metropolis_weights, at="mixed")),
     oracle("d-psgd"), test("dmsgd_without_momentum_is_d_psgd")),
    ("D-SGD in the other order", SYSTEMS, "d-sgd", options(order="mix-and-step"),
     oracle("d-sgd"), test("a_mean_every_third_round_is_local_sgd")),
    ("D-SGD in which attackers mix", SYSTEMS, "d-sgd", afterwards(attackers_mix),
     oracle("d-sgd"), test("attackers_lie_about_everything_they_send_and_aggregate_nothing", name="d-sgd")),
    # --- DMSGD
    ("DMSGD that averages all momentum", SYSTEMS, "dmsgd", options(omega=1.0), oracle("dmsgd")),
    ("DMSGD that forgets its momentum", SYSTEMS, "dmsgd", afterwards(forgets),
     oracle("dmsgd"), test("dmsgd_without_neighbours_is_heavy_ball")),
    # --- SGP
    ("SGP that shows x for z", SYSTEMS, "sgp", afterwards(shows_biased),
     oracle("sgp"), test("push_sum_finds_the_mean_on_directed_graphs", name="one-way:0.5")),
    ("SGP with weights by rows", averaging, "push_weights", lambda f: mixing.uniform_weights,
     oracle("sgp"), test("push_sum_finds_the_mean_on_directed_graphs", name="one-way:0.5")),
    # --- CHOCO
    ("CHOCO keeps the smallest entries", averaging, "top_k", smallest, oracle("choco")),
    ("CHOCO's copies stay as they were", SYSTEMS, "choco", afterwards(forgets), oracle("choco")),
    ("CHOCO in the other order", SYSTEMS, "choco-identity", options(order="step-then-mix"),
     oracle("choco-identity")),
    ("CHOCO's lies are longer than a message", averaging, "top_k",
     lambda f: lambda x, k: f(x, k) if np.count_nonzero(x) == len(x) else x, two("choco", "foe")),
    ("top-k by a sort that is not stable", mixing, "top_k",
     lambda f: lambda x, k: np.where(np.isin(np.arange(len(x)), np.argsort(-abs(x))[:k]), x, 0),
     test("top_k_by_hand")),
    ("top-k of signed entries", mixing, "top_k",
     lambda f: lambda x, k: np.where(np.isin(np.arange(len(x)), np.argsort(-x, kind="stable")[:k]), x, 0),
     test("top_k_by_hand")),
    # --- TV penalty, FedAvg
    ("the penalty pushes away", SYSTEMS, "tv-penalty", options(penalty=-0.005), oracle("tv-penalty")),
    ("the penalty is averaged", SYSTEMS, "tv-penalty", options(penalty=0.005 / 6), oracle("tv-penalty")),
    ("FedAvg without n_k", SYSTEMS, "fedavg", afterwards(no_weights), oracle("fedavg")),
    ("FedAvg serves attackers", SYSTEMS, "fedavg", afterwards(everyone_gets_it), oracle("fedavg"),
     test("attackers_lie_about_everything_they_send_and_aggregate_nothing", name="fedavg")),
    # --- BRIDGE, ByRDiE
    ("BRIDGE-T trims its own value too", rules, "own_trimmed_mean",
     lambda f: lambda W, own, k: aggregate.trimmed_mean(W, k), oracle("bridge-t"), oracle("byrdie")),
    ("BRIDGE-T trims one side", rules, "own_trimmed_mean", trims_one_side,
     oracle("bridge-t"), test("the_trimmed_mean_that_keeps_its_own_stays_in_the_honest_hull")),
    ("BRIDGE steps first", SYSTEMS, "bridge-t", instead(screened_after_the_step), oracle("bridge-t")),
    ("BRIDGE-M takes the mean", SCREENS, "M", lambda f: lambda: lambda h: aggregate.average(h.models),
     oracle("bridge-m")),
    ("BRIDGE-M takes the lower middle", SCREENS, "M", screened_by("median", "lower median"),
     oracle("bridge-m")),
    ("BRIDGE-K with the medoid", SCREENS, "K", lambda f: lambda: lambda h: aggregate.medoid(h.models),
     oracle("bridge-k", "alie")),
    ("BRIDGE-K with the authors' distances", SCREENS, "K", screened_by("krum", "Krum counts itself, unsquared"),
     oracle("bridge-k", "alie")),
    ("BRIDGE-M of what another worker hears", screening, "shared_result", same_for_all, oracle("bridge-m"),
     test("a_worker_combines_what_it_was_sent_and_not_what_another_was", name="bridge-m")),
    ("lies to one worker are heard by all", rounds, "heard",
     lambda f: lambda *args: f(*args)._replace(same_to_all=True),
     *(test("a_worker_combines_what_it_was_sent_and_not_what_another_was", name=name)
       for name in ("bridge-k", "geometric-median", "multi-krum", "bulyan"))),
    ("BRIDGE-B does not trim", SCREENS, "B",
     lambda f: lambda: lambda h: rules.repeated_krum(h.models, h.f).mean(axis=0), oracle("bridge-b")),
    ("BRIDGE-B is BRIDGE-T", SCREENS, "B", lambda f: SCREENS["T"], oracle("bridge-b")),
    ("BRIDGE-B trims one value a side", SCREENS, "B",
     lambda f: lambda: lambda h: aggregate.ascending(rules.repeated_krum(h.models, h.f))[1:-1].mean(axis=0),
     two("bridge-b")),
    ("BRIDGE-B asks for fewer neighbours", SYSTEMS, "bridge-b",
     lambda system: system._replace(
         requirements=(requirements.neighbours("max(4f, 3f + 2)", lambda f: 3 * f + 2),)),
     test("what_a_system_requires_is_what_it_refuses", name="bridge-b")),
    ("ByRDiE with all coordinates at once", SYSTEMS, "byrdie", instead(bridge_t_at_once), oracle("byrdie")),
    ("ByRDiE with the gradient at the mean", SYSTEMS, "byrdie", options(at="mixed"), oracle("byrdie")),
    ("ByRDiE's optimiser forgets", screening, "steps",
     lambda f: lambda s, base, G, state: (f(s, base, G, state)[0], state.memory),
     test("byrdie_of_a_separable_risk_is_bridge_t", at="own", optimizer="adam")),
    # --- MOZI
    ("MOZI wants a lower risk", rules, "mozi", strictly, test("mozi_by_hand")),
    ("MOZI turns alpha around", rules, "mozi",
     lambda f: lambda W, own, r, n, alpha=0.5, empty="nearest": f(W, own, r, n, 1 - alpha, empty),
     test("mozi_by_hand")),
    ("MOZI's second stage sees everyone", rules, "mozi",
     lambda f: lambda W, own, r, n, *rest, **given: f(W, own, r, len(W), *rest, **given),
     test("mozi_by_hand"), oracle("mozi")),
    ("MOZI's ties to the last", rules, "mozi",
     lambda f: lambda W, own, r, *rest, **given: f(W[::-1], len(W) - 1 - own, r[::-1], *rest, **given),
     test("ties_among_many_go_to_the_lower_value_or_index")),
    ("MOZI falls back on the lowest risk", SYSTEMS, "mozi", options(empty="lowest-risk"),
     oracle("mozi")),
    ("UBAR falls back on the nearest", SYSTEMS, "ubar", options(empty="nearest"), oracle("ubar")),
    *(("attackers know all data where models are scored on the batch", screening, "mix_and_step",
       attackers_know_the_setting, test("attackers_know_the_rows_on_which_a_receiver_scores", name=name))
      for name in ("mozi", "ubar")),
    ("attackers know a batch of their own data", rounds, "on_the_batch",
     lambda f: lambda s, batch: s._replace(risk="batch"),
     test("attackers_know_the_rows_on_which_a_receiver_scores", name="mozi")),
    # --- ClippedGossip
    ("clips the sum of the differences", rules, "clipped_gossip", clips_the_sum, test("clip_by_hand"),
     oracle("clipped-gossip")),
    ("clips each coordinate", rules, "clipped_gossip", clips_coordinates, test("clip_by_hand"),
     oracle("clipped-gossip-oracle")),
    ("half of the momentum", SYSTEMS, "clipped-gossip", options(momentum=0.5),
     oracle("clipped-gossip")),
    ("the optimiser's memory for the momentum", SYSTEMS, "clipped-gossip", first_slot,
     test("what_an_optimiser_remembers_is_not_taken_for_what_a_system_does", name="clipped-gossip")),
    ("an oracle that counts the attackers' distances", rules, "oracle_radius",
     lambda f: lambda W, own, c, honest: float(
         np.sqrt(c @ ((W - W[own]) ** 2).sum(axis=-1) / c[~honest].sum())) if (~honest).any() else np.inf,
     test("radii_by_hand"), oracle("clipped-gossip-oracle")),
    ("a radius with one model more", rules, "adaptive_radius", one_more, test("radii_by_hand"),
     oracle("clipped-gossip-adaptive")),
    ("a radius that is not a root", rules, "adaptive_radius", lambda f: lambda *a: f(*a) ** 2,
     oracle("clipped-gossip-adaptive")),
    # --- LEARN
    ("LEARN agrees once", screening, "agreement_rounds", lambda f: lambda t: 0, oracle("icwtm"),
     test("agreement_takes_more_and_more_rounds")),
    ("LEARN without models", SYSTEMS, "icwtm", instead(round_of_gradients), oracle("icwtm"),
     test("learning_without_attackers_averages_gradients_and_models", name="icwtm")),
    ("LEARN never misses more than one", screening, "in_time",
     lambda f: lambda s, k, turn: np.union1d(f(s, k, turn), f(s, k, turn + 1)),
     two("icwtm"), two("mda")),
    ("MDA over any number of subsets", SYSTEMS, "mda",
     lambda system: system._replace(requirements=system.requirements[:-1]),
     test("too_much_work_is_refused")),
    ("MDA with any number of neighbours", SYSTEMS, "mda",
     lambda system: system._replace(
         requirements=(*system.requirements[:2], requirements.neighbours("3f", lambda f: 0))),
     test("what_a_system_requires_is_what_it_refuses", name="mda")),
    ("MDA by the sum of distances", screening.AGREEMENTS, "mda", by_the_sum, oracle("mda", "alie")),
    ("MDA keeps everyone", screening.AGREEMENTS, "mda", lambda f: lambda W, k: f(W, 0), oracle("mda")),
    ("MDA takes the last of equal subsets", rules, "minimum_diameter_average",
     lambda f: lambda W, k: f(W[::-1], k), test("mda_takes_the_first_of_equal_subsets")),
    # --- IOS, multi-task
    ("IOS drops all at once", rules, "iterative_outlier_scissor", all_at_once, test("scissor_by_hand")),
    ("IOS may drop its own", rules, "iterative_outlier_scissor",
     lambda f: lambda W, own, c, k: f(W, 0 if own else 1, c, k), test("scissor_by_hand")),
    ("IOS drops its own with the last", rules, "iterative_outlier_scissor",
     lambda f: lambda W, own, c, k: f(W, own, c, k) if k < len(W) else W[own] * np.nan,
     test("scissor_by_hand")),
    ("IOS with equal weights", screening, "metropolis_weights", lambda f: mixing.uniform_weights,
     oracle("ios"), oracle("clipped-gossip")),
    ("multi-task without memory", SYSTEMS, "multi-task", options(nu=1.0), oracle("multi-task")),
    ("multi-task without a filter", screening, "adaptive_weights",
     lambda f: lambda r, own: aggregate.inverse_risk_weights(r), oracle("multi-task"),
     test("multi_task_without_memory_is_the_papers_rule")),
    # --- Rules
    ("the mean for the geometric median", rules, "geometric_median", lambda f: lambda W, **o: W.mean(axis=0),
     test("rules_equal_the_oracle"), test("the_geometric_median_in_one_dimension_is_the_median"),
     test("no_point_is_nearer_to_all_than_the_geometric_median")),
    ("the geometric median of what is not finite", rules, "geometric_median",
     lambda f: lambda W, **o: f(np.where(np.isfinite(W), W, 0), **o),
     test("the_geometric_median_drops_what_is_not_finite", bad=np.nan)),
    known("krum", "Multi-Krum of n - f", rules, "multi_krum",
     test("multi_krum_and_bulyan_equal_the_oracle"), oracle("multi-krum")),
    ("Multi-Krum is Krum", rules, "multi_krum", lambda f: aggregate.krum, oracle("multi-krum")),
    ("Bulyan with a trimmed mean", rules, "bulyan", lambda f: rules.bridge_b,
     test("multi_krum_and_bulyan_equal_the_oracle"), test("bulyan_takes_the_lower_of_two_as_near")),
    ("Bulyan by one ranking", rules, "repeated_krum",
     lambda f: lambda W, k: W[rules.krum_order(aggregate.squared_distances(W), k)[: len(W) - 2 * k]],
     test("multi_krum_and_bulyan_equal_the_oracle")),
    # --- Options
    ("what the table says goes before what a caller asks for", related, "engine",
     lambda f: lambda name, schedule=None, **options:
         f(name, schedule, **options | getattr(SYSTEMS[name].round, "keywords", {})),
     test("what_a_caller_asks_for_goes_before_what_the_table_says")),
    # --- Schedules, costs
    ("all seeds share their graphs", schedules, "draws",
     lambda draws: SimpleNamespace(stream=lambda seed, *rest: draws.stream(0, *rest)),
     *(test("another_seed_draws_other_graphs_from_the_first_round_on", name=name)
       for name in ("thinned", "one-way", "matching"))),
    ("exponential graphs the other way", schedules, "exponential", lambda f: lambda *a: f(*a).T,
     test("exponential_graphs_by_hand")),
    ("exponential graphs that come back to the sender", schedules, "exponential",
     lambda f: lambda n, peers, t: f(n + 1, peers, t)[:n, :n], test("exponential_graphs_by_hand")),
    ("a graph in every round but the tau-th", schedules, "every",
     lambda f: lambda graph, tau, t: f(graph, tau, t + 1), test("schedules_are_what_they_say"),
     test("a_mean_every_third_round_is_local_sgd")),
    ("thinned both ways apart", schedules, "thinned", lambda f: schedules.one_way,
     test("schedules_are_what_they_say")),
    ("bytes for a broadcast", costs, "bytes_to_neighbours",
     lambda f: lambda s, count, itemsize=None: count * (itemsize or 8.0), test("bytes_by_hand")),
]  # fmt: skip
