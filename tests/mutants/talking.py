"""Mutants of refimpl/related/talking.py."""

import math

import numpy as np

from mutants.related import attackers_know_the_setting, options, oracle, test, two
from refimpl.related import talking
from refimpl.related.systems import SYSTEMS


def unchecked(right):
    """Everyone that passes the bar is mixed in."""
    return lambda h, bar, risks: right(h._replace(risk=lambda w: 0.0), bar, risks)


def checked_at_the_end(right):
    """All that pass, or else one's own model."""

    def mutant(h, bar, risks):
        model, weights = unchecked(right)(h, bar, risks)
        return (model, weights) if h.risk(model) <= bar else (h.models[h.own], 1.0 * (risks == risks[h.own]))

    return mutant


def strictly(right):
    """Only what is below the bar is heard and kept."""
    return lambda h, bar, risks: right(h, bar - 1e-12, risks)


def keeps_nan(right):
    """A mixture whose risk is NaN is kept."""
    return lambda h, bar, risks: right(h._replace(risk=lambda w: np.nan_to_num(h.risk(w), nan=0.0)), bar, risks)


def unsorted(right):
    """Passing is all that counts of a risk."""
    return lambda h, bar, risks: right(h, bar, np.where(risks <= bar, risks[h.own], risks))


def everyone_holds_out(right):
    return lambda s: right(s._replace(attackers=np.array([], int)))


def nothing_held_out(right):
    return lambda s: (s, right(s)[1])


def other_slots(right):
    """What the one that never listens remembers is what the other one does."""

    def mutant(s, state, *rest, **given):
        result = right.round(s, state, *rest, **given)
        memory = result.state.memory.copy()
        if slots := (len(memory) - 2) // 2:
            memory[slots + 2 :] = 0
        return result._replace(state=result.state._replace(memory=memory))

    return right._replace(round=mutant)


def always(track):
    def mutate(right):
        def mutant(s, state, *rest, **given):
            result = right.round(s, state, *rest, **given)
            W = result.state.W.copy()
            W[s.normal] = result.state.memory[track][s.normal]
            return result._replace(state=result.state._replace(W=W))

        return right._replace(round=mutant)

    return mutate


def without_itself(right):
    """Its own model is no choice."""
    return lambda models, risk: 1 + right(models[1:], risk)


def last_of_equals(right):
    return lambda models, risk: len(models) - 1 - right(models[::-1], risk)


def nan_is_lowest(right):
    return lambda models, risk: right(models, lambda w: np.nan_to_num(risk(w), nan=-1.0))


def chosen_by_what_it_steps_on(right):
    """The rows held out are not stepped on, and nothing else."""

    def mutant(s, *rest, chooser=None, **given):
        return right(s, *rest, chooser=chooser and s, **given)

    return mutant


HELD_OUT = "whatever_is_sent_the_risk_on_rows_held_out_does_not_rise"
GUARANTEE = "whatever_is_sent_the_risk_is_not_above_the_bar"
TRACKS = "whatever_is_sent_two_tracks_are_no_worse_on_rows_held_out"
CHOSEN = "whatever_is_sent_the_chosen_model_is_within_the_widest_bar_and_no_worse_on_rows_held_out"
CHOICE = "workers_choose_their_own_model_or_a_mixture_of_any_margin"

MUTANTS = [
    ("the bar without the check", talking, "checked_mixture", unchecked, test(GUARANTEE), test(HELD_OUT),
     test("a_network_with_its_hidden_units_exchanged_is_not_mixed_in"),
     test("one_that_spoils_the_mixture_is_left_out_and_the_next_one_is_tried")),
    ("the check at the end", talking, "checked_mixture", checked_at_the_end,
     test("one_that_spoils_the_mixture_is_left_out_and_the_next_one_is_tried")),
    ("below the bar, not at it", talking, "checked_mixture", strictly,
     test("who_is_as_good_as_the_bar_passes")),
    ("in the order of the senders, equal weights", talking, "checked_mixture", unsorted,
     test("models_are_added_in_the_order_of_their_risk", values=[0, 2, -2]),
     test("weights_are_inverse_risks"), oracle("skill-bar"),
     test("with_a_convex_risk_a_margin_of_zero_is_the_papers_rule", attack="none", scored="batch")),
    ("a margin of one's own risk", talking, "skill", lambda f: lambda own, guess, m: own * (1 + m),
     test("the_bar"), oracle("skill-bar")),
    ("a bar that falls below one's own risk", talking, "skill",
     lambda f: lambda own, guess, m: own + m * (guess - own), test("the_bar")),
    ("the share that must be explained", talking, "skill", lambda f: lambda own, guess, m: f(own, guess, 1 - m),
     test("the_bar"), oracle("skill-bar")),
    ("entropy in bits", talking, "best_guess", lambda f: lambda y: f(y) / math.log(2),
     test("the_best_guess_is_the_entropy_of_the_labels"), oracle("skill-bar"),
     test("the_best_guess_is_the_risk_of_the_best_network_that_sees_nothing")),
    ("the chance of the commonest label", talking, "best_guess",
     lambda f: lambda y: -math.log(np.bincount(y).max() / len(y)),
     test("the_best_guess_is_the_entropy_of_the_labels")),
    ("scored on the batch, whatever the setting says", talking, "listen",
     lambda f: lambda s, *rest, judge: f(s, *rest, judge=judge._replace(risk="batch")), oracle("skill-bar")),
    ("another margin", SYSTEMS, "skill-bar", options(m=0.5), oracle("skill-bar", "alie")),
    ("attackers hold rows out", talking, "apart", everyone_holds_out, oracle("held-out-bar"),
     oracle("two-tracks"), test("every_row_that_is_not_held_out_is_stepped_on")),
    ("steps on rows held out", talking, "apart", nothing_held_out, oracle("held-out-bar"),
     test("nobody_steps_on_rows_held_out", name="two-tracks")),
    ("scores on rows that it steps on", talking, "apart", lambda f: lambda s: (f(s)[0], f(s)[0]),
     oracle("held-out-bar"), test(HELD_OUT)),
    ("attackers know rows that are stepped on", talking, "step_then_mix", attackers_know_the_setting,
     test("a_boundary_lie_passes_a_bar_on_rows_held_out", attack="boundary"),
     test("attackers_know_the_rows_on_which_a_receiver_scores", name="held-out-bar")),
    ("the last rows are left out of the batch", talking, "rows_of",
     lambda f: lambda rest, batch: np.minimum(batch, np.array([[len(y) - 1] for y in rest.y])),
     oracle("held-out-bar"), oracle("two-tracks")),
    ("margins without their own model", talking, "lowest", without_itself, oracle("chosen-bar"), test(CHOICE),
     test(CHOSEN), test("a_model_that_is_better_only_on_what_a_worker_steps_on_is_not_mixed_in")),
    ("the widest margin of equals", talking, "lowest", last_of_equals,
     test("of_equals_the_first_is_chosen_and_nan_is_above_all")),
    ("a margin whose risk is NaN", talking, "lowest", nan_is_lowest,
     test("of_equals_the_first_is_chosen_and_nan_is_above_all"),
     test("a_track_whose_risk_is_nan_is_not_used", risks=(math.nan, 1.0), used=1)),
    ("a margin chosen by rows that it steps on", talking, "listen", chosen_by_what_it_steps_on,
     oracle("chosen-bar"), test(CHOICE), test(CHOSEN)),
    ("the widest margin or nothing", SYSTEMS, "chosen-bar", options(margins=(0.8,)), two("chosen-bar")),
    ("the strictest margin or nothing", SYSTEMS, "chosen-bar", options(margins=(0.0,)), oracle("chosen-bar")),
    ("a wider margin than the widest", SYSTEMS, "chosen-bar", options(margins=(0.0, 0.1, 0.2, 0.4, 0.8, 1.0)),
     two("chosen-bar")),
    ("risks computed again for each margin", talking, "once", lambda f: lambda risk: risk,
     test("no_model_is_scored_twice_on_the_same_rows")),
    ("two tracks of which the second is used", SYSTEMS, "two-tracks", always(-1), oracle("two-tracks"),
     test(TRACKS)),
    ("two tracks of which the first is used", SYSTEMS, "two-tracks", always(-2), oracle("two-tracks"),
     test("who_uses_which_track_is_seen_on_rows_held_out")),
    ("two tracks and one optimiser", SYSTEMS, "two-tracks", other_slots,
     test("two_tracks_that_hear_nothing_of_use_are_one", optimizer="adam")),
]  # fmt: skip
