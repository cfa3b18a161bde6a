"""What an attack knows: what it names and nothing else, and no more than the words of `--list` say."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal, assert_equal
from problems import GRAPHS, after, initial, sends, setting

from refimpl import algorithm
from refimpl.attacks import ATTACKS, KNOWLEDGE, View
from refimpl.related.knowledge import MODELS


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_an_attack_is_handed_what_it_knows_and_nothing_else(name):
    seen = []
    with sends(lambda *known: seen.append(known) or 0, knows=(name,), per_receiver=True) as attack:
        result = after(setting(attack=attack, attackers=[2, 3]), 1)
    assert {len(known) for known in seen} == {1}
    assert len(seen) == 5  # normal workers
    assert not result.sent[0, [2, 3]].any()


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_what_depends_on_the_receiver_is_for_attacks_that_have_one(name):
    """To all, the receiver is number -1: the last worker, if an array is asked for it."""
    s, looked = setting(attackers=[2, 3]), []

    class Watched(View):
        @property
        def receiver(self):
            looked.append(name)
            return 0

    W = initial()
    batch, state = np.zeros((7, 5), int), algorithm.start(s, W)
    KNOWLEDGE[name].of(Watched(s, state, batch, W[[2, 3]], W[s.normal], s.normal, W[[2, 3]]))
    assert bool(looked) == KNOWLEDGE[name].of_receiver


# --- By the words of --list ---------------------------------------------------------------------------------


class Unseen:
    """Something that must not be looked at."""

    def __getattribute__(self, name):
        raise AssertionError(f"looked at {name}")


LIARS, HEARD, NORMAL = {2, 3}, {0, 1, 4}, {0, 1, 4, 5, 6}  # worker 0 is the receiver, and hears both liars
EVERYBODY = LIARS | NORMAL
WHAT = ("sent", "before", "data", "neighbours", "rule")
CLAIMED = {  # by words: whose models as they are sent, models before, data and neighbours these are about
    "": {},
    "its own model": {"sent": LIARS},
    "all attackers' own models": {"sent": LIARS},
    "all honest models": {"sent": NORMAL},
    "the receiver's model": {"sent": {0}},
    "the honest models that the receiver hears": {"sent": HEARD},
    "the models before the round": {"before": NORMAL},
    "the receiver's model before the round": {"before": {0}},
    "the receiver's data": {"data": {0}},
    "all attackers' data": {"data": LIARS},
    "the rule, the receiver's data and what else it hears": {"rule": {0}, "data": {0}, "sent": HEARD},
    "who hears whom": {"neighbours": EVERYBODY},
}


def view_of(names, hides=True):
    """What is there for an attack on worker 0 that knows these names, with the rest of the round hidden.

    It breaks at a look, or is NaN in rows of a matrix. What nobody would keep secret is there for all that is
    not made of models alone: who lies, the network, the round, and whom the receiver hears.
    """
    claims = [CLAIMED[KNOWLEDGE[name].words] for name in names] if hides else [dict.fromkeys(WHAT, EVERYBODY)]
    whose = {what: set().union(*(claim.get(what, ()) for claim in claims)) for what in WHAT}
    s = setting(graph=GRAPHS["a star and a path"], attackers=sorted(LIARS), rule="median", risk="batch", l2=0.1)

    def only(what, values):
        return [value if k in whose[what] else Unseen() for k, value in enumerate(values)]

    def models(what, workers, W):
        if whose[what].isdisjoint(workers) and {"counts", "zeros"}.isdisjoint(names):  # which look at a shape
            return Unseen()
        return np.array([W[k] if k in whose[what] else np.nan * W[k] for k in sorted(workers)])

    whose["neighbours"] |= {0}
    fields = {name: getattr(s, name) for name in ("model", "attackers", "risk", "l2")} | {
        "X": only("data", s.X),
        "y": only("data", s.y),
        "graph": only("neighbours", s.graph) if whose["neighbours"] < EVERYBODY else s.graph,
        "rule": s.rule if whose["rule"] else Unseen(),
    }
    view = View(
        s=algorithm.Setting(**dict.fromkeys(algorithm.Setting._fields, Unseen()) | fields),
        before=algorithm.State(models("before", EVERYBODY, initial(seed=1)), Unseen(), 300),
        batch=only("data", np.arange(14).reshape(7, 2) % 4),
        own=models("sent", LIARS, initial()),
        honest=models("sent", NORMAL, initial()),
        workers=s.normal,
        signals=initial(2, seed=2) if "signals" in names else Unseen(),
        receiver=0,
    )
    if MODELS.issuperset(names):
        view = view._replace(**dict.fromkeys(("s", "before", "batch", "workers", "receiver"), Unseen()))
    return view


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_looks_at_nothing_that_it_does_not_say_it_knows(name):
    entry = ATTACKS[name]
    assert_array_equal(*(entry.made_from(view_of(entry.knows, hides)) for hides in (True, False)))


@pytest.mark.parametrize(
    "name", [n for n, a in ATTACKS.items() if "own" in a.knows and "attackers" not in a.knows]
)
def test_of_the_attackers_models_each_looks_at_its_own_alone(name):
    """It is handed all of them, and sends the same whatever the others' are."""
    entry = ATTACKS[name]
    view = view_of(entry.knows, hides=False)
    made = np.broadcast_to(entry.made_from(view), view.own.shape)
    for i, others in ((0, 1), (1, 0)):
        own = view.own.copy()
        own[others] = 7 - own[others]
        assert_array_equal(np.broadcast_to(entry.made_from(view._replace(own=own)), own.shape)[i], made[i])


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_an_entry_looks_at_nothing_that_its_words_do_not_claim(name):
    """A function is asked about a model."""
    found = (KNOWLEDGE[name].of(view_of([name], hides)) for hides in (True, False))
    assert_equal(*(made(initial()[5]) if callable(made) else made for made in found))
