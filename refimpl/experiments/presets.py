"""The figures of the paper and its supplement, and the authors' protocol, as defaults of the command line."""

import argparse
from typing import Any, NamedTuple

from refimpl import released

ACCURACY, LOSS = "worst_own", "highest_loss"  # columns of a run's history


class PaperFigure(NamedTuple):
    """What a figure of the paper shows, and of which runs."""

    shows: tuple[str, ...]
    options: dict[str, Any]  # of the command line


def figure(shows: tuple[str, ...], attackers: int, **options: Any) -> PaperFigure:
    """The paper's six rules under its four attacks, or under none if there are no attackers."""
    rules = ["adaptive", "average", "medoid", "trimmed-mean", "median", "krum"]
    attacks = ["sign-flip", "arbitrary", "foe", "alie"] if attackers else ["none"]
    more = {"attackers": attackers} if attackers else {}
    return PaperFigure(shows, {"rules": rules, "attacks": attacks, **more, **options})


FIGURES = {
    "har": {
        "1": figure((ACCURACY,), attackers=13, epochs=100),
        "D1": figure((LOSS,), attackers=13, epochs=100),
        "D4": figure((LOSS,), attackers=6, epochs=100),
        "D5": figure((ACCURACY,), attackers=6, epochs=100),
        "D6": figure((LOSS, ACCURACY), attackers=0, epochs=100),
    },
    "mnist": {
        "2": figure((ACCURACY,), attackers=3, epochs=100, lr=0.02),
        "D2": figure((LOSS,), attackers=3, epochs=100, lr=0.02),
        "D6": figure((LOSS, ACCURACY), attackers=0, epochs=100, lr=0.02),
    },
    "spambase": {
        "3": figure((ACCURACY,), attackers=3, epochs=200),
        "D3": figure((LOSS,), attackers=3, epochs=200),
        "D6": figure((LOSS, ACCURACY), attackers=0, epochs=200),
    },
}
"""By task. What is not given here is among the task's own defaults."""


def presets(task: str, args: argparse.Namespace) -> dict[str, Any]:
    """The defaults that --figure, --protocol, --released and --repeats stand for; what is typed counts more."""
    defaults = dict(FIGURES[task][args.figure].options) if args.figure else {}
    names = args.released
    if args.protocol == "released":
        defaults.pop("lr", None)  # MNIST's: the released code has the task's own
        names = defaults["released"] = released.differences_of(task)
    defaults |= released.combined(names).options
    if args.repeats:
        defaults["seeds"] = list(range(args.repeats))
    return defaults
