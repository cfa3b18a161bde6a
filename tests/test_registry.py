"""The tables that a configuration chooses from, in worker processes too."""

import pickle
from unittest import mock

import joblib
import numpy as np

from refimpl.aggregate import RULES, Rule
from refimpl.experiments import registry


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
