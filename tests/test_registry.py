"""The tables that a configuration chooses from, in worker processes too."""

import itertools
import pickle
from unittest import mock

import joblib
import numpy as np
import pytest

from refimpl import methods
from refimpl.aggregate import RULES, Rule
from refimpl.attacks import ATTACKS, Attack
from refimpl.experiments import registry
from refimpl.experiments.config import Config
from refimpl.experiments.tasks import TASKS

SPAMBASE = {"task": "spambase", "seed": 0, "graph": "complete", **TASKS["spambase"].defaults}


def sent(thing):
    """What arrives in another process: joblib pickles by value what a script defines."""
    return pickle.loads(pickle.dumps(joblib.wrap_non_picklable_objects(thing, keep_wrapper=False)))


def test_what_a_user_has_added_reaches_another_process(monkeypatch):
    """And nothing else does: the package's own functions stay the objects that `fast` knows them by."""
    mine = Rule(lambda W, risks, own, f: W[own] + 1, "mine", "-", "mine")
    before = dict(RULES)
    monkeypatch.setitem(RULES, "mine", mine)
    monkeypatch.setitem(RULES, "average", RULES["krum"]._replace(label="another"))
    parcel = sent(registry.added())
    assert {kind: set(found) for kind, found in parcel.items() if found} == {"rule": {"mine", "average"}}
    monkeypatch.undo()
    with mock.patch.dict(RULES):
        registry.install(parcel)
        assert RULES["mine"].compute(np.ones((2, 3)), None, 0, 0).tolist() == [2, 2, 2]
        assert RULES["average"].label == "another"
        assert all(RULES[name] is before[name] for name in set(before) - {"average"})


def no_worse(W, f):
    """A rule that forgets the risks and its own place."""


@pytest.mark.parametrize(
    ("table", "entry", "message"),
    [
        (
            "rule",
            Rule(no_worse, "", "-", ""),
            r"^Rule.compute needs a function of 4 arguments, got no_worse\(W, f\)$",
        ),
        ("attack", Attack(lambda W: -W, "", "-", ""), r"^Attack.send needs a function of 3 arguments, got "),
        ("attack", ATTACKS["foe"]._replace(draw=lambda: 0), r"^Attack.draw needs a function of 3 arguments"),
    ],
)
def test_a_function_with_other_arguments_is_refused(monkeypatch, table, entry, message):
    config = Config(**{"rule": "krum", "attack": "foe", table: "mine"}, **SPAMBASE)
    monkeypatch.setitem(registry.TABLES[table], "mine", entry)
    with pytest.raises(ValueError, match=message):
        registry.check(config)


def test_functions_that_fit_are_accepted(monkeypatch):
    """Also with more arguments that have defaults, with any number, or of C, which do not tell."""
    for fits in (lambda W, risks, own, f, more=1: W[own], lambda *all: all[0][0], max, np.take):
        monkeypatch.setitem(RULES, "mine", Rule(fits, "mine", "-", "mine"))
        registry.check(Config(rule="mine", attack="none", **SPAMBASE))
    for rule, attack in itertools.product(methods.names(), ATTACKS):
        registry.check(Config(rule=rule, attack=attack, **SPAMBASE))
