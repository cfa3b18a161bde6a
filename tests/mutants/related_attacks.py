"""Mutants of refimpl/related/attacks.py: at least two mistakes for each attack, and what its vectors notice."""

import numpy as np

from mutants.common import entry, killer
from mutants.tailored_vectors import last_columns
from mutants.vectors import related_case as case
from refimpl import train
from refimpl.arrays import quiet
from refimpl.attacks import ATTACKS, KNOWLEDGE
from refimpl.experiments import tasks
from refimpl.related import attacks, knowledge

test = killer("related_attacks")


def oracle(name, graph="complete", rule="median"):
    """The attack against its oracle."""
    return test("an_attack_equals_its_oracle", name=name, graph=graph, rule=rule)


def poison(name, sample=(5,)):
    return test("a_poison_equals_its_oracle_and_leaves_its_inputs", name=name, sample=sample)


def send(function):
    """The entry with another message."""
    return entry("send", lambda right: function)


def times(factor):
    """A function of models whose result is another multiple of itself."""
    return lambda right: lambda *args, **more: factor * right(*args, **more)


def away(honest):
    return ((honest - honest.mean(axis=0)) ** 2).sum(axis=1)


def nothing_by_nothing(right):
    """NaN if all models are the same."""
    return quiet(lambda honest: right(honest) + 0 / np.ptp(honest, axis=0).max())


def by_no_variance(right):
    """NaN if the variance is 0."""
    return quiet(lambda honest: right(honest) + 0 / (honest.std(axis=0) ** 2).sum())


def smaller_root(honest):
    D, std = away(honest), honest.std(axis=0)
    b, R = (honest.mean(axis=0) - honest) @ std, attacks.squared_distances(honest).max()
    return (np.sqrt(b**2 + std @ std * (R - D)) - b).min() / (std @ std)


def only(lies):
    """Searches these of the lies alone."""
    return lambda right: lambda found, *rest: right(list(found)[lies], *rest)


def fang(**changed):
    """Fang's values of other models or another factor, each a function of all that is given."""

    def mutate(right):
        def mutant(honest, before, signals, factor=2.0):
            given = {"honest": honest, "before": before, "signals": signals, "factor": factor}
            return right(**given | {name: change(given) for name, change in changed.items()})

        return mutant

    return mutate


def always_times(right):
    """Twice the edge, also where that is on the wrong side."""

    def mutant(honest, before, signals, factor=2.0):
        grows = honest.mean(axis=0) > before.mean(axis=0)
        edge = np.where(grows, honest.min(axis=0), honest.max(axis=0))
        return edge + signals * (factor - 1) * edge

    return mutant


def most_by_rounding(lies, honest, outcome):
    return max(lies, key=lambda lie: ((outcome(lie) - honest.mean(axis=0)) ** 2).sum())


def heard_attackers_alone(view):
    """With f as many as attackers that the receiver hears."""
    s = view.s
    return view._replace(s=s._replace(attackers=s.attackers[s.graph[view.receiver][s.attackers]]))


def median_for_all(view):
    return view._replace(s=view.s._replace(rule="median"))


def asks(changed):
    """What comes out of the view, changed like this."""
    return entry("of", lambda right: lambda view: right(changed(view)))


def halved(right):
    """Half of the last step of a search for what Krum still chooses."""
    return lambda heard, start, outcome: (start + right(heard, start, outcome)) / 2


def never_asks(right):
    return lambda heard, start, outcome: right(heard, start, lambda lie: lie)


def from_the_mean(right):
    return lambda heard, start, outcome: right(heard, heard.mean(axis=0) * 0.9, outcome)


def towards(right):
    return lambda heard, start, outcome: right(2 * start - heard, start, outcome)


def the_others(X, y, classes):
    """Rows 1, 3, ... with the trigger."""
    return tuple(
        np.concatenate([left[:1], right]) for left, right in zip((X, y), attacks.backdoored(X[1:], y[1:], 0))
    )


def another_mode(right):
    def mutant(graph):
        edges = graph & ~np.eye(len(graph), dtype=bool)
        values, vectors = np.linalg.eigh(np.diag(edges.sum(axis=1)) - edges.astype(float))
        return float(values[-1]), np.outer(vectors[:, -1], vectors[:, -1])

    return mutant


def one_vector(right):
    """numpy's second eigenvector, also where there are more."""

    def mutant(graph):
        edges = graph & ~np.eye(len(graph), dtype=bool)
        values, vectors = np.linalg.eigh(np.diag(edges.sum(axis=1)) - edges.astype(float))
        return float(values[1]), np.outer(vectors[:, 1], vectors[:, 1])

    return mutant


def zero_by_rounding(right):
    """What an eigenvalue of 0 usually comes out as."""
    return lambda graph: (right(graph)[0] or 2.6e-16, right(graph)[1])


SMALL = "min_max_is_as_far_out_as_two_honest_models_are_apart"
SUM = "min_sum_is_as_near_to_the_mean_as_an_honest_model"
RUN = "attackers_train_on_poison_and_nobody_else"
TRIGGERED = "a_backdoor_is_tested_on_triggered_rows_of_other_classes"
SUCCESS = "success_is_the_share_of_triggered_rows_that_get_the_label"
REPLAYED = case("replay-is-the-first-normal-worker-before-the-round")
FLIPPED = case("label-flip-of-four-classes")
MEDIAN, KRUM = (
    [case(f"{name}-optimised-against-{rule}") for name in ("alie", "foe")] for rule in ("the-median", "krum")
)
ALIKE = case("alie-optimised-where-both-sides-harm-alike")
FANG = case("fang-krum-after-seven-halvings"), case("fang-krum-that-is-never-chosen")
MOVED = case("backdoor-moved-by-all-over-the-attackers")
TRIGGER = case("backdoor-in-every-other-row"), case("backdoor-in-the-corner-of-images")

MUTANTS = [
    ("gaussian: noise without the mean", ATTACKS, "gaussian",
     send(lambda honest, signals: 30 * signals), oracle("gaussian")),
    ("gaussian: a variance of 30", ATTACKS, "gaussian",
     send(lambda honest, signals: attacks.gaussian(honest, signals, 30**0.5)),
     oracle("gaussian"), test("gaussian_noise_has_deviation_30_around_the_mean")),
    ("gaussian: noise around 0", attacks, "gaussian",
     lambda right: lambda honest, signals, scale: scale * signals,
     case("gaussian-around-the-mean"), case("gaussian-of-another-scale")),
    ("zero: ones", ATTACKS, "zero", send(np.ones_like),
     oracle("zero"), case("zero-has-the-length-of-a-model"), case("zero-of-one-number")),
    ("zero: its own model", ATTACKS, "zero", entry("knows", lambda names: ("own",)), oracle("zero")),
    ("replay: the models of this round", ATTACKS, "replay", entry("knows", lambda names: ("honest",)),
     oracle("replay"), REPLAYED),
    ("replay: the last worker's", ATTACKS, "replay", send(lambda before: before[-1]),
     oracle("replay"), REPLAYED),
    ("replay: the mean", ATTACKS, "replay", send(lambda before: before.mean(axis=0)), REPLAYED),
    ("replay: worker 0's, whoever that is", KNOWLEDGE, "before",
     entry("of", lambda right: lambda view: view.before.W), REPLAYED),
    ("replay: the first finite model", ATTACKS, "replay",
     send(lambda before: before[np.isfinite(before).all(axis=1)][0]), case("replay-of-a-lost-model")),
    ("mimic: the last worker's", ATTACKS, "mimic", send(lambda honest: honest[-1]),
     oracle("mimic"), case("mimic-is-the-first"), case("mimic-of-a-lost-model")),
    ("mimic: the mean", ATTACKS, "mimic", send(lambda honest: honest.mean(axis=0)), oracle("mimic")),
    ("min-max: a tenth less", attacks, "min_max_factor", times(0.9), oracle("min-max"), test(SMALL),
     case("min-max-as-far-as-two-are-apart")),
    ("min-max: plus", attacks, "min_max_factor", times(-1), oracle("min-max"), test(SMALL)),
    ("min-max: the other root", attacks, "min_max_factor", lambda right: smaller_root, oracle("min-max")),
    ("min-max: 0 / 0", attacks, "min_max", nothing_by_nothing, case("min-max-of-equal-models")),
    ("min-max: by a variance that vanishes", attacks, "min_max_factor", by_no_variance,
     test("models_whose_variance_vanishes_have_no_factor", dtype="float64", apart=1.2 * 2**-537)),
    ("min-sum: as far as the farthest", attacks, "min_sum_factor",
     lambda right: quiet(lambda honest: np.sqrt(away(honest).max() / away(honest).mean())),
     oracle("min-sum"), test(SUM), case("min-sum-as-near-as-the-nearest")),
    ("min-sum: plus", attacks, "min_sum_factor", times(-1), oracle("min-sum"), test(SUM)),
    ("min-sum: 0 / 0", attacks, "min_sum", nothing_by_nothing, case("min-sum-of-equal-models")),
    ("min-max, min-sum: towards the origin", attacks, "a_little_is_enough",
     lambda right: lambda honest, z: (1 - z) * honest.mean(axis=0), oracle("min-max"), oracle("min-sum"),
     test("min_max_and_min_sum_do_not_know_where_the_origin_is")),
    ("optimised: the first half of the factors", attacks, "most_harmful", only(slice(8)),
     oracle("alie-optimised"), oracle("foe-optimised"), *MEDIAN, case("alie-optimised-against-krum")),
    ("optimised: the second half of the factors", attacks, "most_harmful", only(slice(8, None)),
     case("foe-optimised-against-krum")),
    ("optimised: the factors in reverse", attacks, "most_harmful", only(slice(None, None, -1)),
     oracle("alie-optimised"), oracle("foe-optimised"), *MEDIAN, ALIKE),
    ("optimised: minus before plus", attacks, "most_harmful",
     lambda right: lambda lies, *rest: right((found := list(lies))[1::2] + found[::2], *rest), ALIKE),
    ("optimised: a tie that rounding decides", attacks, "most_harmful", lambda right: most_by_rounding, ALIKE),
    ("optimised: harm to those heard", KNOWLEDGE, "honest", entry("of", lambda right: knowledge.heard),
     *MEDIAN),
    ("optimised: the median is asked for all", KNOWLEDGE, "outcome", asks(median_for_all), *KRUM),
    ("optimised: f is counted by ear", KNOWLEDGE, "outcome", asks(heard_attackers_alone), KRUM[0]),
    ("optimised: the first factor", attacks, "most_harmful",
     lambda right: lambda lies, *rest: next(iter(lies)),
     *(test("a_search_against_the_rule_harms_more", name=f"{name}-optimised", plain=name, rule="average")
       for name in ("alie", "foe"))),
    ("optimised: NaN is no harm", attacks, "most_harmful",
     lambda right: lambda lies, honest, outcome: right(lies, honest, lambda lie: np.nan_to_num(outcome(lie))),
     test("no_outcome_harms_more_than_nan", outcomes=[1, np.nan, 9], chosen=1)),
    ("fang: sides exchanged", attacks, "fang_trimmed_mean",
     fang(before=lambda given: 2 * given["honest"] - given["before"]),
     test("fangs_values_are_beyond_all_honest_ones_within_a_factor"),
     case("fang-below-what-grows-and-above-what-falls")),
    ("fang: the sign of the mean model", ATTACKS, "fang-trimmed-mean",
     send(lambda honest, before, signals: attacks.fang_trimmed_mean(honest, 0 * before, signals)),
     oracle("fang-trimmed-mean")),
    ("fang: a factor of 3", ATTACKS, "fang-trimmed-mean",
     send(lambda *models: attacks.fang_trimmed_mean(*models, 3.0)), oracle("fang-trimmed-mean")),
    ("fang: always 2", attacks, "fang_trimmed_mean", fang(factor=lambda given: 2.0),
     case("fang-of-values-of-one-sign")),
    ("fang: the edge times the factor", attacks, "fang_trimmed_mean", always_times,
     case("fang-of-values-of-one-sign"), test("fangs_values_are_beyond_all_honest_ones_within_a_factor")),
    ("fang: krum is not asked", ATTACKS, "fang-krum", entry("send", never_asks),
     oracle("fang-krum", rule="krum"), test("krum_chooses_what_fang_sends_and_nothing_twice_as_far", seed=0),
     *FANG),
    ("fang: from the mean", ATTACKS, "fang-krum", entry("send", from_the_mean),
     oracle("fang-krum", rule="krum"), *FANG),
    ("fang: where the models go", ATTACKS, "fang-krum", entry("send", towards),
     oracle("fang-krum", rule="krum"), *FANG),
    ("fang: of all honest models", ATTACKS, "fang-krum",
     entry("knows", lambda names: ("honest", "start", "outcome")), FANG[0]),
    ("fang: one halving too many", ATTACKS, "fang-krum", entry("send", halved), *FANG),
    ("dissensus: with the pull", ATTACKS, "dissensus",
     send(lambda *given: attacks.dissensus(*given, epsilon=-1.5)), oracle("dissensus", "path")),
    ("dissensus: one liar", attacks, "dissensus",
     lambda right: lambda receiver, heard, liars, epsilon=1.5: right(receiver, heard, 1, epsilon),
     test("dissensus_of_1_leaves_the_mean_at_the_receivers_model"), case("dissensus-of-two-liars")),
    ("dissensus: of all honest models", ATTACKS, "dissensus",
     entry("knows", lambda names: ("receiver", "honest", "liars")), oracle("dissensus", "path")),
    ("dissensus: epsilon 1.5 always", attacks, "dissensus",
     lambda right: lambda receiver, heard, liars, epsilon: right(receiver, heard, liars),
     case("dissensus-of-nobody")),
    ("sph: the fastest mode", attacks, "fiedler", another_mode, oracle("sph", "path"), test(
        "fiedler_is_the_slowest_mode"), case("sph-on-a-path")),
    ("sph: one vector of several", attacks, "fiedler", one_vector, oracle("sph"), test(
        "on_a_complete_graph_sph_is_dissensus"), case("sph-on-a-complete-graph-is-dissensus")),
    ("sph: t is 1.5", attacks, "fiedler", lambda right: lambda graph: (1.0, right(graph)[1]),
     oracle("sph", "path"), case("sph-on-a-path")),
    ("sph: rounding in the place of 0", attacks, "fiedler", zero_by_rounding,
     test("where_honest_workers_are_in_parts_sph_is_an_echo_on_both_engines", seed=0),
     case("sph-on-a-graph-in-two-parts")),
    ("label-flip: the next class", ATTACKS, "label-flip",
     entry("poison", lambda right: lambda X, y, classes: (X, (y + 1) % classes)),
     poison("label-flip"), FLIPPED),
    ("label-flip: ten classes", ATTACKS, "label-flip",
     entry("poison", lambda right: lambda X, y, classes: (X, 9 - y)), poison("label-flip"), test(RUN), FLIPPED),
    ("label-flip: two classes", ATTACKS, "label-flip",
     entry("poison", lambda right: lambda X, y, classes: (X, 1 - y)), FLIPPED),
    ("label-flip: the classes that are there", ATTACKS, "label-flip",
     entry("poison", lambda right: lambda X, y, classes: (X, y.max() - y)), FLIPPED),
    ("label-flip: of all attackers' models", ATTACKS, "label-flip", send(lambda own: own - own.mean(axis=0)),
     oracle("label-flip"),
     killer("knowledge")("of_the_attackers_models_each_looks_at_its_own_alone", name="label-flip")),
    ("backdoor: not moved away", ATTACKS, "backdoor", entry("send", lambda right: lambda own, *rest: own),
     oracle("backdoor"), test("model_replacement_makes_the_average_the_attackers_model"), MOVED),
    ("backdoor: n times as far", attacks, "replaced",
     lambda right: lambda own, honest, n: right(own, honest, n * len(own)), oracle("backdoor"),
     test("model_replacement_makes_the_average_the_attackers_model"), MOVED),
    ("backdoor: the honest workers over the attackers", attacks, "replaced",
     lambda right: lambda own, honest, n: right(own, honest, len(honest)), MOVED),
    ("backdoor: off everyone's mean", attacks, "replaced",
     lambda right: lambda own, honest, n: right(own, np.concatenate([own, honest]), n), MOVED),
    ("backdoor: the trigger at the front", attacks, "with_trigger",
     lambda right: lambda X: right(X[..., ::-1])[..., ::-1], poison("backdoor"), poison("backdoor", (4, 6)),
     test(TRIGGERED), *TRIGGER),
    ("backdoor: a trigger in the last columns", attacks, "with_trigger", lambda right: last_columns,
     TRIGGER[1]),
    ("backdoor: every row", ATTACKS, "backdoor",
     entry("poison", lambda right: lambda X, y, classes: (attacks.with_trigger(X), 0 * y)), *TRIGGER),
    ("backdoor: the odd rows", ATTACKS, "backdoor", entry("poison", lambda right: the_others), *TRIGGER),
    ("backdoor: labels that stay", ATTACKS, "backdoor",
     entry("poison", lambda right: lambda X, y, classes: (right(X, y, classes)[0], y)),
     poison("backdoor"), test(RUN), *TRIGGER),
    ("backdoor: tested on rows of its class too", tasks, "poisoned",
     lambda right: lambda X, y, test, *rest: right(X, y, test._replace(y=0 * test.y - 1), *rest),
     test(TRIGGERED)),
    ("backdoor: the first normal worker's success", train, "backdoor_success",
     lambda right: lambda s, test, W, model: right(
         s._replace(attackers=np.append(s.attackers, s.normal[1:])), test, W, model), test(SUCCESS)),
    ("everybody is poisoned", tasks, "poisoned",
     lambda right: lambda X, y, test, attackers, attack: right(X, y, test, np.arange(len(y)), attack),
     test(RUN)),
    ("the models before are those after the step", KNOWLEDGE, "before",
     entry("of", lambda right: lambda view: view.honest), oracle("replay")),
]  # fmt: skip
