"""Rounds of the systems that look for a reason to listen: bars of skill, rows held out, a choice, two tracks.

Five workers with seven rows each, but for worker 2, which has five; worker 3 lies. They start near each other.
"""

from unittest import mock

import later_tailored_cases  # noqa: F401
import numpy as np
from common import draw, error, family, unlike
from related_cases import MODEL, D, differs, run, steady

from refimpl import graphs
from refimpl.related import talking

N, ROWS = 5, 7
HELD_OUT = (1, 6)


def talk(system, **changes):
    """Three rounds against a sign flip, unless changed; the batches have rows that are held out."""
    rng = np.random.default_rng(390)
    y = np.stack([rng.permutation(np.arange(ROWS) % 2) for _ in range(N)])
    X = (rng.normal(size=(N, ROWS, 2)) + 1.2 * (2 * y[..., None] - 1)).round(2) + 0.0
    batches = np.array([[rng.permutation(5 if k == 2 else ROWS)[:3] for k in range(N)] for _ in range(3)])
    y[2, 5:] = -1
    W = draw(391, D) + draw(392, N, D, scale=0.2)
    given = {"system": system, "model": MODEL, "X": X, "y": y, "graph": graphs.complete(N)}
    given |= {"attackers": np.array([3]), "attack": "sign-flip", "step_size": 0.3, "W": W, "batches": batches}
    return given | changes


# --- What a case asserts of its rounds ----------------------------------------------------------------------


def unchecked(h, bar, risks):
    """`checked_mixture` that keeps whoever passes."""
    return kept(h._replace(risk=lambda w: -1.0), bar, risks)


kept = talking.checked_mixture


def by(name, instead):
    """With another function of `talking` it ends elsewhere."""

    def check(given, made):
        with mock.patch.object(talking, name, instead):
            unlike(made["W"], run(**given)["W"])

    return check


def in_order_of_number(h, bar, risks):
    """`checked_mixture` that adds models by their number: all risks are one to the sort."""
    with mock.patch.object(np, "argsort", lambda r, kind: np.arange(len(r))):
        return kept(h, bar, risks)


def both(*checks):
    return lambda given, made: [check(given, made) for check in checks]


def both_tracks(given, made):
    """In the last round some use the track that listens, and some the one that does not."""
    A, B = made["memory"][-2:] if given.get("optimizer") != "adam" else made["memory"][2:4]
    normal = np.setdiff1d(np.arange(N), given["attackers"])
    listens = (made["W"][-1] == B).all(axis=1)[normal]
    unlike(A[normal], B[normal])
    assert 0 < listens.sum() < len(normal)


def starts_with_the_best(given, made):
    """Worker 0's own model is not finite: no weight on it, and some on others."""
    assert made["weights"][0, 0] == 0
    assert made["weights"][0].sum() > 0.99
    assert np.isfinite(made["W"][-1][0]).all()


def nobody(given, made):
    """Worker 0 keeps its own model, though that is not finite: no risk is."""
    assert (made["weights"][0] == np.eye(N)[0]).all()


def batch_rows(given, made):
    """Rows held out are in the batches; taken as they are, or dropped, they give something else."""
    assert np.isin(given["batches"], HELD_OUT).any()
    by("rows_of", lambda rest, batch: np.minimum(batch, [[len(y) - 1] for y in rest.y]))(given, made)


def without_itself(models, risk):
    """`lowest` without one's own model among the choices."""
    return 1 + chosen(models[1:], risk)


def on_what_it_steps_on(s, *rest, chooser=None, **given):
    """`listen` that chooses by the rest."""
    return listen(s, *rest, chooser=chooser and s, **given)


chosen, listen = talking.lowest, talking.listen


def of_several(given, made):
    """In the last round somebody keeps its own model, and two others take different margins."""
    W = run(**given | {"batches": given["batches"][:-1]})["W"][-1]
    last = given | {"W": W, "batches": given["batches"][-1:]}
    rounds = [made["sent_1"], *(run(**last | {"margins": [m]})["W"][0] for m in talking.MARGINS)]
    taken = [next(i for i, x in enumerate(rounds) if (x[k] == made["W"][-1][k]).all()) for k in (0, 1, 2, 4)]
    assert 0 in taken
    assert len(set(taken)) > 2


def whatever_risk(given, made):
    assert (made["W"] == run(**given | {"risk": "local"})["W"]).all()


def lost(*workers):
    """Models with a bias of -Infinity at a hidden unit: their risks are infinite, their gradients are not."""
    W = talk("skill-bar")["W"].copy()
    W[list(workers), 6] = -np.inf
    return {"W": W, "batches": talk("skill-bar")["batches"][:1]}


ONE_CLASS = np.minimum(talk("skill-bar")["y"], 0)
NO_CHECK, ANY_ORDER = by("checked_mixture", unchecked), by("checked_mixture", in_order_of_number)
NOBODY = {"attackers": np.array([], dtype=int), "attack": "none"}
ADAM = {"optimizer": "adam", "step_size": 0.05}
ARBITRARY = {"attack": "arbitrary", "signals": draw(393, 3, 1, D)}
# id, what it catches, system, changes of the inputs, how that is asserted
ROUNDS = [
    ("skill-bar-of-a-tenth", "Eq. (6), another m, and risks on the batch.", "skill-bar", {},
     differs({"m": 0.0}, {"m": 0.3}, {"risk": "batch"})),
    ("skill-bar-checks-the-mixture", "a mixture of all who pass, and of these in the order of their numbers.",
     "skill-bar", {"m": 0.3}, both(NO_CHECK, ANY_ORDER)),
    ("skill-bar-on-the-batch", "risks, or the best guess, on all local data.", "skill-bar", {"risk": "batch"},
     both(differs({"risk": "local"}), NO_CHECK)),
    ("skill-bar-of-one-class", "a bar below the own risk, where the best guess has risk 0.", "skill-bar",
     {"y": ONE_CLASS, "m": 0.5}, by("skill", lambda own, guess, m: own + m * (guess - own))),
    ("skill-bar-with-l2", "risks without their L2 term.", "skill-bar", {"l2": 0.05},
     differs({"l2": 0.0})),
    ("skill-bar-of-a-lost-receiver", "an own model in the mixture that is not finite: the best heard is first.",
     "skill-bar", lost(0), starts_with_the_best),
    ("skill-bar-where-all-is-lost", "any other model than its own, where no risk is finite.", "skill-bar",
     lost(0, 1, 4) | {"graph": graphs.ring(N)}, nobody),
    ("skill-bar-with-adam", "moments that are mixed.", "skill-bar", ADAM, differs({"optimizer": "sgd"})),
    ("held-out-bar-on-rows-1-and-6", "steps on rows held out, risks on the others, and another m.",
     "held-out-bar", {}, both(differs({"system": "skill-bar", "m": 0.0}, {"m": 0.3}), batch_rows)),
    ("held-out-bar-scores-all-that-is-held-out", "risks on the batch: `risk` is about other systems.",
     "held-out-bar", ARBITRARY | {"m": 0.3, "risk": "batch"}, both(batch_rows, whatever_risk)),
    ("chosen-bar-of-five-margins",
     "one margin for all, margins without one's own model, and a choice by the rows that are stepped on.",
     "chosen-bar", {}, both(differs(*({"margins": [m]} for m in talking.MARGINS)), of_several,
     by("lowest", without_itself), by("listen", on_what_it_steps_on), batch_rows)),
    ("chosen-bar-up-to-eight-tenths",
     "the strictest margin that is better than one's own model, and another widest.", "chosen-bar", NOBODY,
     both(differs({"margins": [0.0, 0.1, 0.2, 0.4]}, {"margins": [0.0]}), of_several)),
    ("chosen-bar-of-one-margin", "margins that are not those given: one, which is taken or is not.",
     "chosen-bar", {"margins": np.array([0.3])},
     both(differs({"margins": talking.MARGINS}), by("lowest", without_itself))),
    ("chosen-bar-on-the-batch", "a choice by the batch, or risks on all of the rest.", "chosen-bar",
     {"risk": "batch"}, both(differs({"risk": "local"}), by("listen", on_what_it_steps_on))),
    ("two-tracks-side-by-side", "one track alone, another m, and a choice by the rows that are stepped on.",
     "two-tracks", {}, both(differs({"m": 0.0}, {"m": 0.3}), both_tracks, batch_rows)),
    ("two-tracks-on-the-batch", "a track that is scored on all rows.", "two-tracks", {"risk": "batch"},
     both(differs({"risk": "local"}), both_tracks)),
    ("two-tracks-with-adam", "moments that the tracks share, and another order of the memory.", "two-tracks",
     ADAM, both(differs({"optimizer": "sgd"}), both_tracks)),
]  # fmt: skip


@family("related")
def rounds():
    for id_, catches, system, changes, check in ROUNDS:
        given = talk(system, **changes)
        made = run(**given)
        check(given, made)
        steady(given, made)
        yield id_, f"Catches {catches}", "related_rounds", given


def a_single_row(system):
    given = talk(system)
    y = np.where((np.arange(N) == 1)[:, None] & (np.arange(ROWS) > 0), -1, given["y"])
    return given | {"y": y, "batches": np.zeros_like(given["batches"])}


@error("related")
def held_out_bar_of_a_single_row():
    """Catches a worker that holds out all that it has."""
    return "related_rounds", a_single_row("held-out-bar"), ["worker 1"]


@error("related")
def chosen_bar_of_a_single_row():
    """Catches a worker that holds out all that it has."""
    return "related_rounds", a_single_row("chosen-bar"), ["worker 1"]


@error("related")
def two_tracks_of_a_single_row():
    """Catches a worker that holds out all that it has."""
    return "related_rounds", a_single_row("two-tracks"), ["worker 1"]
