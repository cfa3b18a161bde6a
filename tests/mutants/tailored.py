"""Mutants of refimpl/related/tailored.py: at least two mistakes for each attack."""

import numpy as np

from mutants.common import entry, killer
from refimpl.attacks import ATTACKS, KNOWLEDGE
from refimpl.related import attacks, knowledge, tailored

test = killer("tailored")


def oracle(attack, risk="local"):
    """The attack against its oracle."""
    return test("an_attack_equals_its_oracle", attack=attack, risk=risk)


def without(field):
    """`turned`, but for the tensor at this place among the last four."""

    def mutate(right):
        def mutant(w, layout, places):
            made, name = right(w, layout, places), layout.fields[-4:][field].name
            layout.views(made)[name][...] = layout.views(w)[name]
            return made

        return mutant

    return mutate


def waits(rounds):
    """`patient`, but for as many rounds more."""
    return lambda right: lambda attack, last: right(attack, last + rounds)


def poisons(right):
    """`patient` attackers that train on poison from the start."""
    return lambda attack, last: right(attack._replace(poison=None), last)._replace(poison=attack.poison)


def worst_risk(view):
    risks = [knowledge.risk_on(view, knowledge.data_of(view, int(a))) for a in view.s.attackers]
    return lambda w: max(risk(w) for risk in risks)


HONEST_FIRST = test("patient_attackers_are_honest_first", attack="sign-flip")
LIES_THEN = test("after_that_they_lie_as_they_would_have_at_once", attack="echo")
FORMULA = test("on_a_bowl_the_boundary_is_where_the_formula_puts_it")
MEAN = test("attackers_judge_by_the_mean_of_their_risks")
KEEPS_OFF = test(
    "judged_by_a_batch_the_boundary_keeps_a_receiver_from_its_optimum",
    attack="boundary-fitted",
    rows=[[5.0, 3.0], [5.0, -3.0]],
)
FARTHEST = test("what_they_send_is_the_farthest_that_this_allows")
LITTLE = test("attackers_turn_by_different_places_and_lower_the_risk_by_little")
ECHO = test("an_echo_has_all_weight_but_one_part_where_nobody_else_passes")
BACKDOOR = test("a_captors_backdoor_gets_in_and_nothing_shows", risk="local")
REFUSED = test("a_backdoor_that_the_receiver_would_refuse_goes_as_far_as_it_lets_it")

MUTANTS = [
    (
        "an echo with its signs flipped",
        ATTACKS,
        "echo",
        entry("send", lambda right: np.negative),
        ECHO,
        oracle("echo"),
    ),
    (
        "an echo that is a little off",
        ATTACKS,
        "echo",
        entry("send", lambda right: lambda receiver: 1.001 * receiver),
        test("an_echo_takes_weight_from_honest_models"),
    ),
    (
        "a boundary that never leaves",
        tailored,
        "farthest",
        lambda right: lambda w, goal, risk, limit: w,
        FORMULA,
        FARTHEST,
        oracle("boundary"),
        oracle("boundary-own", "batch"),
    ),
    (
        "a boundary at twice the risk",
        tailored,
        "farthest",
        lambda right: lambda w, goal, risk, limit: right(w, goal, risk, 2 * limit),
        FORMULA,
        test("lies_pass_in_both_engines", attack="boundary", dtype="float64"),
    ),
    (
        "bisection by halves of what is left below",
        tailored,
        "TRIES",
        lambda right: 2,
        FORMULA,
    ),
    (
        "a bisection of nine steps",
        tailored,
        "TRIES",
        lambda right: 9,
        oracle("boundary-own", "batch"),
        oracle("boundary-fitted"),
        oracle("capture"),
    ),
    (
        "a descent of nineteen steps",
        tailored,
        "STEPS",
        lambda right: 19,
        oracle("capture", "batch"),
        oracle("capture-backdoor"),
    ),
    (
        "the attackers' data for the receiver's",
        ATTACKS,
        "boundary",
        entry("knows", lambda right: ("receiver", "own_risk")),
        test("attackers_with_the_receivers_data_need_not_know_them"),
    ),
    (
        "the receiver's data for the attackers'",
        ATTACKS,
        "boundary-own",
        entry("knows", lambda right: ("receiver", "risk")),
        test("attackers_with_the_receivers_data_need_not_know_them"),
    ),
    (
        "boundary-own judged by the first attacker's data",
        KNOWLEDGE,
        "own_risk",
        entry("of", lambda right: lambda view: knowledge.risk_on(view, knowledge.data_of(view, 1))),
        MEAN,
    ),
    (
        "boundary-own judged by the attacker who is worst off",
        KNOWLEDGE,
        "own_risk",
        entry("of", lambda right: worst_risk),
        MEAN,
        oracle("boundary-own"),
    ),
    (
        "boundary-fitted without the fit",
        ATTACKS,
        "boundary-fitted",
        entry("send", lambda right: lambda w, risk, gradient: tailored.boundary(w, risk)),
        KEEPS_OFF,
    ),
    (
        "boundary-fitted with nothing but the fit",
        ATTACKS,
        "boundary-fitted",
        entry(
            "send", lambda right: lambda w, risk, gradient: tailored.descended(w, risk, gradient, risk(w) / 2)
        ),
        KEEPS_OFF,
    ),
    (
        "no descent",
        tailored,
        "descended",
        lambda right: lambda w, *rest: w,
        FARTHEST,
        LITTLE,
        test("three_captors_get_nearly_all_the_weight"),
    ),
    (
        "a descent that keeps what climbs",
        tailored,
        "descended",
        lambda right: lambda w, risk, gradient, limit, share=1.0: w - 3 * share * gradient(w),
        test("a_descent_stops_at_its_limit_and_never_climbs"),
    ),
    (
        "a capture that is content with half",
        ATTACKS,
        "capture",
        entry("send", lambda right: lambda *known: tailored.fitted(*known, 1 / 2)),
        test("three_captors_get_nearly_all_the_weight"),
    ),
    (
        "a capture that gives its room away",
        tailored,
        "fitted",
        lambda right: (
            lambda w, risk, gradient, share: tailored.descended(w, risk, gradient, share * risk(w) / 2)
        ),
        FARTHEST,
    ),
    (
        "a fit that ignores the share",
        tailored,
        "fitted",
        lambda right: lambda w, risk, gradient, share: right(w, risk, gradient, 1.0),
        FARTHEST,
        test("three_captors_get_nearly_all_the_weight"),
    ),
    (
        "a backdoor that is not trained in",
        ATTACKS,
        "capture-backdoor",
        entry("send", lambda right: lambda *known: tailored.capture(*known[:3])),
        BACKDOOR,
        oracle("capture-backdoor"),
    ),
    (
        "a backdoor alone, whatever becomes of the receiver's rows",
        ATTACKS,
        "capture-backdoor",
        entry("send", lambda right: lambda w, r, g, *triggered: right(w, *triggered, *triggered)),
        BACKDOOR,
    ),
    (
        "a backdoor that does not ask whether it passes",
        tailored,
        "farthest",
        lambda right: lambda w, goal, risk, limit: goal,
        REFUSED,
        oracle("capture-backdoor", "batch"),
    ),
    (
        "every other row with the trigger, as `poison` has it",
        knowledge,
        "triggered",
        lambda right: lambda view: attacks.backdoored(*knowledge.data_of(view, view.receiver), 2),
        test("the_same_rows_with_the_trigger_are_what_the_backdoor_is_trained_on"),
    ),
    (
        "a backdoor whose success nobody counts",
        ATTACKS,
        "capture-backdoor",
        entry("poison", lambda right: None),
        test("a_run_counts_its_success"),
    ),
    (
        "no margin",
        tailored,
        "below",
        lambda right: lambda risk, dtype: risk,
        LITTLE,
        oracle("permuted"),
    ),
    (
        "hidden units without their biases",
        tailored,
        "turned",
        without(1),
        test("a_turn_by_hand"),
        oracle("permuted"),
        test("a_turned_network_is_the_same_network", name="one hidden layer"),
    ),
    (
        "hidden units without what they lead to",
        tailored,
        "turned",
        without(2),
        test("a_turn_by_hand"),
        test("a_turned_network_is_the_same_network", name="cnn"),
    ),
    (
        "all attackers turn alike",
        tailored,
        "turned",
        lambda right: lambda w, layout, places: right(w, layout, min(places, 1)),
        LITTLE,
        oracle("permuted", "batch"),
    ),
    (
        "a turn by all places",
        tailored,
        "hidden",
        lambda right: lambda layout: right(layout) + 1,
        test("attackers_that_outnumber_the_units_begin_again_and_send_no_echo"),
        oracle("patient-permuted"),
    ),
    (
        "poison from round 1",
        tailored,
        "patient",
        poisons,
        test("patient_attackers_do_not_poison", attack="label-flip"),
    ),
    ("a round too long", tailored, "patient", waits(1), HONEST_FIRST, LIES_THEN),
    ("a round too short", tailored, "patient", waits(-1), HONEST_FIRST, LIES_THEN),
]
