"""Mutants for the vectors of attacks that know Eq. (6), and of the systems that look for a reason to listen."""

import math

import numpy as np

from mutants import tailored as lies
from mutants import talking as talks
from mutants.common import entry
from mutants.related_vectors import by_default
from mutants.vectors import related_case as case
from refimpl.attacks import ATTACKS, KNOWLEDGE
from refimpl.related import attacks, knowledge, tailored, talking
from refimpl.related.systems import SYSTEMS


def cases(form, *names):
    return [case(form.format(name)) for name in names]


def always_halves(farthest):
    """Bisects even where the goal passes."""
    return lambda w, goal, risk, limit: farthest(w, goal, lambda v: np.inf if v is goal else risk(v), limit)


def one_farther(farthest):
    """The point above the limit, not the one below."""

    def mutant(w, goal, risk, limit):
        made = farthest(w, goal, risk, limit)
        return made if made is goal else made + (goal - w) / 2**tailored.TRIES

    return mutant


def stubborn(descended):
    """Keeps steps that climb."""

    def mutant(w, risk, gradient, limit, share=1.0):
        for _ in range(tailored.STEPS):
            if risk(w) > limit:
                g = gradient(w)
                w = w - share * risk(w) / (g @ g) * g
        return w

    return mutant


def timid(descended):
    """Steps that were once halved stay short."""

    def mutant(w, risk, gradient, limit, share=1.0):
        for _ in range(tailored.STEPS):
            if risk(w) <= limit:
                break
            g = gradient(w)
            trial = w - share * risk(w) / (g @ g) * g
            w, share = (trial, share) if risk(trial) < risk(w) else (w, share / 2)
        return w

    return mutant


def without_l2(on):
    return lambda view, data: on(view._replace(s=view.s._replace(l2=0.0)), data)


def last_columns(X):
    X = X.copy()
    X[..., -3:] = 3
    return X


def first_hidden(turned):
    """Turns the first hidden layer, of the networks that have two."""

    def mutant(w, layout, places):
        fields = (*layout.fields[:3], layout.fields[3]) if len(layout.fields) >= 6 else layout.fields
        return turned(w, layout._replace(fields=fields), places)

    return mutant


def keeps_itself(checked_mixture):
    """Starts with its own model, finite or not."""

    def mutant(h, bar, risks):
        return checked_mixture(h, bar, np.where(np.arange(len(risks)) == h.own, 1e6, risks))

    return mutant


def scored_on_all_rows(listen):
    return lambda s, state, batch, signals, margins, judge, chooser=None: listen(
        s, state, batch, signals, margins, judge._replace(risk="local"), chooser
    )


def first_that_is_better(lowest):
    """The first model that is better than one's own, which comes first."""

    def mutant(models, risk):
        better = [i for i, w in enumerate(models) if risk(w) < risk(models[0])]
        return (better or [0])[0]

    return mutant


def waits_until(last):
    return lambda right: tailored.patient(ATTACKS["permuted"], last)


HALVINGS, FITTED = case("boundary-after-eight-halvings"), case("fitted-makes-room")
HUNDREDTH, FEATURES = case("capture-of-a-hundredth"), case("capture-backdoor-on-four-features")
PERMUTED = case("permuted-by-one-and-two-places")
HELD_OUT, TRACKS = case("held-out-bar-on-rows-1-and-6"), case("two-tracks-side-by-side")
FIVE = case("chosen-bar-of-five-margins")
MUTANTS = [
    ("seven halvings", tailored, "TRIES", lambda right: 7, HALVINGS),
    ("nine halvings", tailored, "TRIES", lambda right: 9, HALVINGS),
    ("a bisection where the end passes", tailored, "farthest", always_halves,
     case("boundary-goes-all-the-way")),
    ("the point above the limit", tailored, "farthest", one_farther, HALVINGS, HUNDREDTH,
     case("boundary-that-never-leaves")),
    ("minus the receiver's model for an echo", ATTACKS, "echo", entry("send", lambda right: np.negative),
     case("echo-is-the-receivers-model")),
    ("an attack's risk without its L2 term", knowledge, "risk_on", without_l2,
     *cases("{}-with-l2", "boundary", "capture")),
    ("an attack's gradient without its L2 term", knowledge, "gradient_on", without_l2, case("capture-with-l2")),
    ("the first attacker's rows alone", KNOWLEDGE, "own_risk",
     entry("of", lambda right: lambda view: knowledge.risk_on(view, knowledge.data_of(view, 1))),
     case("boundary-by-the-attackers-rows")),
    ("a fit that takes no step", tailored, "descended", lambda right: lambda w, *rest: w,
     FITTED, HUNDREDTH, FEATURES, PERMUTED),
    ("a fit that leaves no room", tailored, "descended",
     lambda right: lambda w, r, g, limit, *share: right(w, r, g, 2 * limit, *share),
     FITTED, HUNDREDTH),
    ("nineteen steps", tailored, "STEPS", lambda right: 19, case("capture-that-twenty-steps-do-not-reach")),
    ("away from the fitted model", tailored, "farthest",
     lambda right: lambda w, goal, risk, limit: right(w, -w, risk, limit), HUNDREDTH, FITTED),
    ("a tenth for a hundredth", ATTACKS, "capture",
     entry("send", lambda right: lambda *known: tailored.fitted(*known, 1 / 10)), HUNDREDTH),
    ("steps that climb are kept", tailored, "descended", stubborn, case("capture-takes-steps-back")),
    ("steps that stay short", tailored, "descended", timid, case("capture-takes-steps-back")),
    ("a trigger at the front", knowledge, "with_trigger",
     lambda right: lambda X: right(X[..., ::-1])[..., ::-1], FEATURES, case("capture-backdoor-in-a-corner")),
    ("a trigger in the last columns", knowledge, "with_trigger", lambda right: last_columns,
     case("capture-backdoor-in-a-corner")),
    ("a backdoor for class 1", knowledge, "TARGET", lambda right: 1, FEATURES),
    ("a backdoor in every other row", knowledge, "triggered",
     lambda right: lambda view: attacks.backdoored(*knowledge.data_of(view, view.receiver), 2), FEATURES),
    ("a backdoor whether it passes or not", tailored, "farthest",
     lambda right: lambda w, goal, risk, limit: goal, case("capture-backdoor-held-back")),
    ("all turn by one place", tailored, "turned", lambda right: lambda w, layout, places: right(w, layout, 1),
     PERMUTED),
    ("turned the other way round", tailored, "turned",
     lambda right: lambda w, layout, places: right(w, layout, -places), PERMUTED),
    ("biases that stay", tailored, "turned", lies.without(1), case("permuted-in-the-last-hidden-layer")),
    ("the first hidden layer", tailored, "turned", first_hidden, case("permuted-in-the-last-hidden-layer")),
    ("a turn by all places", tailored, "hidden", lambda right: lambda layout: right(layout) + 1,
     case("permuted-by-more-attackers-than-units")),
    ("patient until round 299", ATTACKS, "patient-permuted", waits_until(299), case("patient-in-round-300")),
    ("patient until round 301", ATTACKS, "patient-permuted", waits_until(301), case("patient-in-round-301")),
    # --- Systems that look for a reason to listen
    *((f"another m of {name}", SYSTEMS, name, by_default(m=m), case(id_))
      for name, m, id_ in (("skill-bar", 0.2, "skill-bar-of-a-tenth"),
                           ("held-out-bar", 0.3, "held-out-bar-on-rows-1-and-6"),
                           ("two-tracks", 0.3, "two-tracks-side-by-side"))),
    ("a mixture that nobody checks", talking, "checked_mixture", talks.unchecked,
     case("skill-bar-checks-the-mixture"), TRACKS),
    ("any order, equal weights", talking, "checked_mixture", talks.unsorted,
     case("skill-bar-checks-the-mixture")),
    ("its own model in the mixture, whatever it is", talking, "checked_mixture", keeps_itself,
     case("skill-bar-of-a-lost-receiver")),
    ("a bar below one's own risk", talking, "skill", lambda f: lambda own, guess, m: own + m * (guess - own),
     case("skill-bar-of-one-class")),
    ("a guess in bits", talking, "best_guess", lambda f: lambda y: f(y) / math.log(2),
     case("skill-bar-of-a-tenth")),
    ("scored on all rows, whatever the case says", talking, "listen",
     scored_on_all_rows,
     *cases("{}-on-the-batch", "skill-bar", "chosen-bar", "two-tracks")),
    ("every fourth row is held out", talking, "EVERY", lambda right: 4, HELD_OUT,
     TRACKS),
    ("attackers hold out too", talking, "apart", talks.everyone_holds_out, HELD_OUT),
    ("steps on what is held out", talking, "apart", talks.nothing_held_out,
     HELD_OUT, TRACKS),
    ("rows beyond the rest are its last", talking, "rows_of",
     lambda f: lambda rest, batch: np.minimum(batch, np.array([[len(y) - 1] for y in rest.y])),
     HELD_OUT, TRACKS),
    ("margins without their own model", talking, "lowest", talks.without_itself, FIVE),
    ("a margin chosen by rows that it steps on", talking, "listen", talks.chosen_by_what_it_steps_on, FIVE,
     case("chosen-bar-on-the-batch")),
    ("the strictest that is better", talking, "lowest", first_that_is_better,
     case("chosen-bar-up-to-eight-tenths")),
    ("margins that are always the same", SYSTEMS, "chosen-bar",
     entry("round", lambda right: lambda *known, margins=None: right(*known)),
     case("chosen-bar-of-one-margin")),
    ("margins up to a half", SYSTEMS, "chosen-bar", by_default(margins=(0.0, 0.1, 0.2, 0.5)),
     case("chosen-bar-up-to-eight-tenths")),
    ("the track that listens is used", SYSTEMS, "two-tracks", talks.always(-1), TRACKS),
    ("the track that does not is used", SYSTEMS, "two-tracks", talks.always(-2), TRACKS),
    ("tracks that share their moments", SYSTEMS, "two-tracks", talks.other_slots, case("two-tracks-with-adam")),
    *((f"{name} of a single row", SYSTEMS, name, entry("requirements", lambda right: ()),
       case(f"{name}-of-a-single-row")) for name in ("held-out-bar", "chosen-bar", "two-tracks")),
]  # fmt: skip
