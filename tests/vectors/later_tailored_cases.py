"""The attacks that know Eq. (6): what they send a receiver, whose small network and rows a case carries.

Each asserts that a touch of the receiver's model, 1e-9, turns no decision of a bisection or a descent.
"""

from unittest import mock

import later_attack_cases  # noqa: F401
import numpy as np
from common import Spec, add, draw, unlike
from functions import FUNCTIONS

from refimpl.related import tailored

MODEL, WIDE, DEEP, LINEAR = (
    Spec({"kind": "mlp", "sizes": sizes}) for sizes in ([3, 3, 2], [4, 3, 2], [2, 2, 3, 2], [3, 2])
)
IMAGES = Spec({"kind": "cnn", "side": 4, "channels": [2], "hidden": 3, "classes": 2})
X, Y = draw(370, 6, 3), np.array([0, 1, 1, 0, 1, 0])
run = FUNCTIONS["tailored"]


def lie(**given):
    return run(**given)["sent"]


def risk(given, w):
    """The risk of a model on the rows of a case."""
    return given["model"].model.risk(w, given["X"], given["y"]) + given.get("l2", 0.0) / 2 * w @ w


def to(seed, model=MODEL, rows=6, **changes):
    """A receiver whose model is drawn from the seed, with the first rows; a boundary unless changed."""
    given = {"attack": "boundary", "model": model, "receiver": draw(seed, model.model.layout.size)}
    return given | {"X": X[:rows], "y": Y[:rows]} | changes


def steady(given, sent):
    """Asserts that no decision hangs on the ninth digit."""
    for seed in range(3):
        touch = 1 + 1e-9 * np.random.default_rng(seed).normal(size=given["receiver"].shape)
        assert np.allclose(lie(**given | {"receiver": given["receiver"] * touch}), sent, 1e-5, 1e-6)


# --- What a case asserts of its lie -------------------------------------------------------------------------


def differs(*wrong, **constants):
    """It is not that of other inputs, nor that of another number of steps or tries."""

    def check(given, sent):
        for changes in wrong:
            unlike(sent, lie(**given | changes))
        for name, value in constants.items():
            with mock.patch.object(tailored, name, value):
                unlike(sent, lie(**given))

    return check


def same_as(share, what):
    """It is `share` times the receiver's model, to the bit; asserts what is meant by that."""

    def check(given, sent):
        assert (sent == share * given["receiver"]).all()
        assert what(risk(given, -given["receiver"]), risk(given, given["receiver"]))

    return check


def eight(given, sent):
    """Both the eighth half and the ninth are on the way."""
    for tries in (7, 9):
        differs(TRIES=tries)(given, sent)


def taken_back(given, sent):
    """Some step of its descent does not lower the risk: without taking it back the lie is another one."""

    def stubborn(w, r, g, limit, share=1.0):
        for _ in range(tailored.STEPS):
            if r(w) > limit:
                w = w - share * r(w) / (g(w) @ g(w)) * g(w)
        return w

    with mock.patch.object(tailored, "descended", stubborn):
        unlike(sent, lie(**given))


def not_reached(given, sent):
    """After all its steps it is not within a hundredth, and goes nowhere from there."""
    assert risk(given, sent) > risk(given, given["receiver"]) / 50
    differs(STEPS=19)(given, sent)


def reached(given, sent):
    """It is just within a hundredth, towards minus the receiver's model and not minus its own."""
    share = risk(given, sent) / risk(given, given["receiver"])
    assert 0.009 < share < 0.01
    differs({"attack": "boundary-fitted"}, TRIES=6)(given, sent)


def held_back(given, sent):
    """Fitted to both, the receiver would refuse it: what is sent lies on the way there."""
    assert 0.9 < risk(given, sent) / risk(given, given["receiver"]) < 1
    differs({"attack": "capture"}, TRIES=6)(given, sent)


def turned(given, sent):
    """Another turn for each attacker, after a step that is far above the tolerance, and hardly a step."""
    moved = [
        tailored.turned(w, given["model"].model.layout, -1 - i) - given["receiver"] for i, w in enumerate(sent)
    ]
    assert 1e-9 < abs(np.array(moved)).max() < 1e-6


def begun_again(given, sent):
    """Four attackers and three units: the third turns as the first does, and nobody by all three places."""
    assert (sent[2:] == sent[:2]).all()
    turned(given, sent[:2])


def untouched(given, sent):
    """Nothing is hidden, so nothing is turned; the step is there."""
    assert (sent[0] == sent[1]).all()
    turned(given, sent)


def models_of(model):
    """The models of two attackers."""
    return {"own": draw(372, 2, model.model.layout.size)}


def honest(given, sent):
    assert (sent == given["own"]).all()


def as_permuted(given, sent):
    """A round later than `honest`, and not the attackers' own models."""
    assert (sent == lie(**given | {"attack": "permuted"})).all()


# --- The cases ----------------------------------------------------------------------------------------------

LOW, HIGH = (lambda there, here, sign=sign: sign * (there - here) > 0 for sign in (-1, 1))
FAR = draw(373, 4, 4)
FITTED = (1.5 * lie(**to(371, WIDE, 4, attack="capture", X=FAR))).round(2)
TWO = {"own": draw(375, 2, MODEL.model.layout.size)}
BEFORE, AFTER = ({"attack": "patient-permuted", "round": t} | TWO for t in (300, 301))
THEIRS = {"X": np.stack([X[:3], X[3:]]), "y": np.stack([Y[:3], Y[3:]])}
# id, what it catches, inputs, how that is asserted
LIES = [
    ("echo-is-the-receivers-model", "minus that model, and the attacker's own.", to(371, attack="echo", **TWO),
     same_as(1, HIGH)),
    ("boundary-after-eight-halvings", "seven or nine of them, and the point above the limit.", to(380),
     eight),
    ("boundary-goes-all-the-way", "a bisection where the end passes.", to(372), same_as(-1, LOW)),
    ("boundary-that-never-leaves", "a first try that is sent although it does not pass.", to(376),
     same_as(1, HIGH)),
    ("boundary-with-l2", "a risk without its L2 term.", to(371, l2=0.1), differs({"l2": 0.0})),
    ("boundary-by-the-attackers-rows", "the rows of one attacker for those of both.",
     to(371, attack="boundary-own", **THEIRS, **TWO),
     differs({key: rows[[0, 0]] for key, rows in THEIRS.items()})),
    ("fitted-makes-room", "a boundary without the fit, and one towards minus the fitted model.",
     to(371, attack="boundary-fitted"), differs({"attack": "boundary"}, {"attack": "capture"})),
    ("capture-of-a-hundredth", "a tenth, a fit that stops at a hundredth, and minus the fitted model.",
     to(373, rows=2, attack="capture"), reached),
    ("capture-takes-steps-back", "steps that are kept although the risk rises.",
     to(375, attack="capture"), taken_back),
    ("capture-that-twenty-steps-do-not-reach", "nineteen steps, and a bisection from what is too high.",
     to(376, attack="capture"), not_reached),
    ("capture-with-l2", "a gradient without its L2 term.", to(371, rows=2, attack="capture", l2=0.05),
     differs({"l2": 0.0})),
    ("capture-backdoor-on-four-features", "the trigger in all features, in one, and on every other row.",
     to(382, WIDE, X=FAR, y=Y[:4], attack="capture-backdoor"), differs({"attack": "capture"}, STEPS=19)),
    ("capture-backdoor-held-back", "a backdoor that the receiver refuses.",
     to(374, WIDE, receiver=FITTED, X=FAR, y=Y[:4], attack="capture-backdoor"), held_back),
    ("capture-backdoor-in-a-corner", "a trigger in the last columns of an image: it is 3 x 3 pixels.",
     to(378, IMAGES, X=draw(379, 3, 4, 4), y=Y[:3], attack="capture-backdoor"), differs({"attack": "capture"})),
    ("permuted-by-one-and-two-places", "the same turn from all, the other way round, and no step before.",
     to(371, attack="permuted", **TWO), turned),
    ("permuted-in-the-last-hidden-layer", "units of the first hidden layer, and biases that stay.",
     to(371, DEEP, X=X[:, :2], attack="permuted", **models_of(DEEP)), turned),
    ("permuted-of-a-cnn", "channels in the place of hidden units.",
     to(378, IMAGES, X=draw(379, 3, 4, 4), y=Y[:3], attack="permuted", **models_of(IMAGES)), turned),
    ("permuted-by-more-attackers-than-units", "the third attacker's turn by three places, which is none.",
     to(371, attack="permuted", own=draw(376, 4, MODEL.model.layout.size)), begun_again),
    ("permuted-without-hidden-units", "classes in the place of hidden units.",
     to(371, LINEAR, attack="permuted", **models_of(LINEAR)), untouched),
    ("patient-in-round-300", "an attack in round 300.", to(371, **BEFORE), honest),
    ("patient-in-round-301", "an honest round 301.", to(371, **AFTER), as_permuted),
]  # fmt: skip
for id_, catches, given, check in LIES:
    sent = lie(**given)
    check(given, sent)
    steady(given, sent)
    # The step of `permuted` is as long as the precision says.
    add("related", id_, f"Catches {catches}", "tailored", given, precise="permuted" not in given["attack"])
