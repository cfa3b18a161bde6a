"""The tables that a configuration chooses from, in worker processes too."""

import itertools
import re
import threading
from unittest import mock

import numpy as np
import pytest
from test_contents import sent
from test_grid import config

from refimpl import methods
from refimpl.aggregate import RULES, Rule
from refimpl.attacks import ATTACKS, KNOWLEDGE, Attack, Known, View
from refimpl.experiments import cli, registry
from refimpl.experiments.registry import TABLES, at_home, entries, installed
from refimpl.experiments.tasks import TASKS


def test_the_entries_that_runs_use_are_found_by_table_and_name():
    edges = tuple((k, k + 1) for k in range(9))
    found = entries([config(graph="regular:4"), config(rule="sgp", graph=edges, graph_schedule="every:2")])
    assert {kind: set(some) for kind, some in found.items()} == {
        "rule": {"adaptive"},
        "system": {"sgp"},
        "attack": {"sign-flip"},
        "graph": {"regular"},
        "graph_schedule": {"every"},
        "partition": {"nonuniform"},
        "features": {"standardised"},
        "optimizer": {"sgd"},
        "task": {"spambase"},
        "knowledge": {"own"},
    }
    assert all(TABLES[kind][name] is entry for kind, some in found.items() for name, entry in some.items())


def test_what_a_user_has_added_reaches_another_process_for_the_time_of_a_run():
    """And the package's own functions stay the objects that `fast` knows them by."""
    mine = Rule(lambda W, risks, own, f: W[own] + 1, "mine", "-")
    before = dict(RULES)
    with mock.patch.dict(RULES, {"mine": mine, "average": RULES["krum"]}):
        arrived = sent(entries([config(rule=rule) for rule in ("mine", "average", "median")]))
    with mock.patch.dict(RULES):
        with installed(at_home(arrived)):
            assert RULES["mine"].compute(np.ones((2, 3)), None, 0, 0).tolist() == [2, 2, 2]
            assert RULES["average"].about == before["krum"].about
            assert RULES["median"] is before["median"]
            assert list(RULES) == [*before, "mine"]
        assert before == RULES


def test_what_a_users_attack_knows_reaches_another_process_too():
    mine = KNOWLEDGE["own"]._replace(of=lambda view: 2 * view.own)
    attack = ATTACKS["sign-flip"]._replace(knows=("twice",))
    with mock.patch.dict(KNOWLEDGE, {"twice": mine}), mock.patch.dict(ATTACKS, {"mine": attack}):
        arrived = sent(entries([config(attack="mine")]))
    with installed(at_home(arrived)):
        view = View(None, None, None, np.ones((2, 3)), np.ones((1, 3)), np.array([2]), None)
        assert ATTACKS["mine"].made_from(view).tolist() == [[-2] * 3] * 2
    assert "twice" not in KNOWLEDGE


def test_an_entry_that_cannot_be_compared_is_the_one_that_was_sent(monkeypatch):
    odd = RULES["median"]._replace(compute=lambda *args, g=(x for x in ()): args[0][0])
    monkeypatch.setitem(RULES, "median", odd)
    assert at_home(entries([config(rule="median")]))["rule"]["median"] is odd


def test_runs_with_the_same_entries_overlap_and_others_wait():
    """Two clients of a Dask worker with two threads, one of which has another median."""
    median, krum = RULES["median"], RULES["krum"]
    first, other = ({"rule": {"median": rule}} for rule in (median, krum))
    both = threading.Barrier(2, timeout=20)
    seen, under_way = [], threading.Event()

    def run(some, wait):
        with installed(some):
            wait()
            seen.append(RULES["median"])

    def late():
        under_way.set()
        run(other, lambda: None)

    overlapping = [threading.Thread(target=run, args=[first, both.wait]) for _ in range(2)]
    with installed(first):
        waiting = threading.Thread(target=late)
        waiting.start()
        assert under_way.wait(20)
        waiting.join(0.2)
        assert waiting.is_alive()
        for thread in overlapping:
            thread.start()
        for thread in overlapping:
            thread.join(20)
        assert seen == [median, median]
    waiting.join(20)
    assert seen == [median, median, krum]
    assert RULES["median"] is median
    assert not registry.UNDER_WAY


def test_a_task_with_its_data_is_not_the_worker_s_own():
    own = TASKS["spambase"]
    there = at_home({"task": {"spambase": own._replace(load=lambda folder: None), "digits": TASKS["digits"]}})
    assert there["task"]["spambase"].load(None) is None
    assert there["task"]["digits"] is TASKS["digits"]


# --- Signatures ----------------------------------------------------------------------------------------------


def no_worse(W, f):
    """A rule that forgets the risks and its own place."""


@pytest.mark.parametrize(
    ("table", "entry", "message"),
    [
        (
            "rule",
            Rule(no_worse, "", "-"),
            r"^Rule.compute needs a function of 4 arguments, got no_worse\(W, f\)$",
        ),
        ("attack", Attack(lambda W: -W, "", "-"), r"^Attack.send needs a function of 3 arguments, got "),
        ("attack", ATTACKS["foe"]._replace(draw=lambda: 0), r"^Attack.draw needs a function of 3 arguments"),
        ("knowledge", Known(lambda: 0, ""), r"^Known.of needs a function of 1 arguments, got "),
    ],
)
def test_a_function_with_other_arguments_is_refused(monkeypatch, table, entry, message):
    monkeypatch.setitem(TABLES[table], "mine", entry)
    if table == "knowledge":
        table = "attack"
        monkeypatch.setitem(ATTACKS, "mine", ATTACKS["sign-flip"]._replace(knows=("mine",)))
    with pytest.raises(ValueError, match=message):
        registry.check(config(**{table: "mine"}))


@pytest.mark.parametrize("argv", [["--attacks", "mine"], ["--rules", "mine"], ["--list"], ["--dry-run"]])
@pytest.mark.parametrize("table", TABLES)
def test_a_function_in_the_place_of_an_entry_is_refused_in_a_line(monkeypatch, capsys, table, argv):
    monkeypatch.setitem(TABLES[table], "mine", no_worse)
    with pytest.raises(SystemExit, match="2"):
        cli.main("mine" if table == "task" else "spambase", argv)
    needs = "a table needs named tuples like those in it"
    assert re.fullmatch(rf"\S+: {needs}, got <function no_worse at \w+>\n", capsys.readouterr().err)


def test_functions_that_fit_are_accepted(monkeypatch):
    """Also with more arguments that have defaults, with any number, or of C, which do not tell."""
    for fits in (lambda W, risks, own, f, more=1: W[own], lambda *all: all[0][0], max, np.take):
        monkeypatch.setitem(RULES, "mine", Rule(fits, "mine", "-"))
        registry.check(config(rule="mine"))
    for rule, attack in itertools.product(methods.names(), ATTACKS):
        registry.check(config(rule=rule, attack=attack))
