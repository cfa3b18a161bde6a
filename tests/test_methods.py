"""What a name after --rules means: its engine and network, what it refuses, sends and is found by."""

import ast
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from problems import MODEL, after, setting

import refimpl
from refimpl import layers, methods, related, released
from refimpl.aggregate import RULES, Rule
from refimpl.engine import plain
from refimpl.fast import engine as fast_engine
from refimpl.fast import released as fast_released
from refimpl.fast.networks import batched
from refimpl.related import SYSTEMS, schedules

RELEASED = ("smoothed-risk", "lower-median")


def test_every_name_is_a_method_and_rules_come_first():
    assert methods.names() == [*RULES, *SYSTEMS]
    for name, entry in (RULES | SYSTEMS).items():
        method = methods.find(name)
        assert method.entry == entry
    assert {methods.find(name).entry.needs for name in ("krum", "trimmed-mean")} == {"the number of attackers"}
    assert {methods.find(name).rule for name in SYSTEMS} == {""}
    assert [methods.find(name).rule for name in RULES] == list(RULES)


def test_a_name_that_is_none_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match=r"unknown rule 'nope', choose from adaptive, .*, d-psgd, "):
        methods.find("nope")


def test_the_tables_are_read_when_asked(monkeypatch):
    mine = Rule(lambda W, risks, own, f: W[own], "keeps its own", "-")
    monkeypatch.setitem(RULES, "mine", mine)
    assert methods.find("mine").entry is mine
    monkeypatch.setitem(RULES, "mine", mine._replace(listens=False))
    assert methods.find("mine").bytes_per_round(setting(), None, 1) == 0
    monkeypatch.delitem(RULES, "mine")
    monkeypatch.setitem(SYSTEMS, "mine", SYSTEMS["sgp"])
    assert methods.find("mine").entry is SYSTEMS["sgp"]


# --- Engines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["adaptive", "median"])
@pytest.mark.parametrize(
    ("plain", "differences", "engine"),
    [
        (True, (), plain),
        (False, (), fast_engine.engine),
        (True, RELEASED, lambda s: released.engine(s, RELEASED)),
        (False, RELEASED, lambda s: fast_released.engine(s, RELEASED)),
        (False, ("sigmoid-outputs", "adam"), fast_engine.engine),
    ],
)
def test_a_rule_is_computed_by_the_engine_that_is_asked_for(rule, plain, differences, engine):
    s, method = setting(rule=rule), methods.find(rule, differences, plain)
    found, expected = after(s, 3, engine=method.engine(None)), after(s, 3, engine=engine)
    assert type(found) is type(expected)
    assert_array_equal(found.state.W, expected.state.W)


@pytest.mark.parametrize("plain", [True, False])
def test_a_system_is_computed_by_its_own_rounds_on_the_graphs_of_its_schedule(plain):
    s = setting(rule="")
    schedule = schedules.build("matching", s.graph, 0)
    method, network = methods.find("d-sgd", plain=plain), MODEL if plain else batched(MODEL)
    assert (method.engine(None)(s).model is s.model) == plain
    for graphs in (None, schedule):
        found = after(s, 3, engine=method.engine(graphs))
        expected = after(s._replace(model=network), 3, engine=related.engine("d-sgd", graphs))
        assert_array_equal(found.state.W, expected.state.W)


def test_differences_of_the_network_reach_rules_and_systems():
    for name in ("adaptive", "d-sgd"):
        assert methods.find(name, plain=True).network(MODEL) is MODEL
        changed = methods.find(name, ["sigmoid-outputs"], plain=True).network(MODEL)
        assert changed.layers[-1].forward is layers.sigmoid


# --- What is refused, what is sent --------------------------------------------------------------------------


def test_a_rule_refuses_a_schedule():
    s = setting(rule="krum")
    methods.find("krum").check(s, None, 1)
    with pytest.raises(ValueError, match="rule krum needs a graph that stays the same, got a schedule"):
        methods.find("krum").check(s, lambda t: s.graph, 1)


def test_a_system_refuses_what_it_does_not_know_and_what_it_is_not_made_for():
    s = setting(rule="")
    methods.find("d-sgd", ["adam"]).check(s, None, 1)
    with pytest.raises(ValueError, match="system d-sgd knows no smoothed-risk: needs a rule of the paper"):
        methods.find("d-sgd", ["smoothed-risk"]).check(s, None, 1)
    with pytest.raises(ValueError, match=r"choco.* needs a graph that stays the same"):
        methods.find("choco").check(s, lambda t: s.graph, 1)
    with pytest.raises(ValueError, match=r"round 2: .*metropolis_weights needs an undirected graph"):
        methods.find("d-sgd").check(s, lambda t: s.graph if t < 2 else np.triu(s.graph), 2)


def test_a_worker_sends_its_model_to_each_neighbour_unless_nobody_listens():
    s = setting()
    whole = 6 * MODEL.layout.size * 8
    assert methods.find("adaptive").bytes_per_round(s, None, 1) == whole
    assert methods.find("local").bytes_per_round(s, None, 1) == 0
    assert methods.find("dmsgd").bytes_per_round(s, None, 1) == 2 * whole
    seldom = schedules.build("every:4", s.graph, 0)
    assert methods.find("d-sgd").bytes_per_round(s, seldom, 8) == whole / 4


def test_rules_that_score_are_of_one_kind_others_of_another_and_each_system_is_its_own():
    kinds = {name: methods.find(name).kind for name in methods.names()}
    assert kinds["adaptive"] == kinds["inverse-risk"] != kinds["krum"] == kinds["local"]
    assert len(set(kinds.values())) == 2 + len(SYSTEMS)


# --- Nobody else asks ---------------------------------------------------------------------------------------


def test_no_other_file_of_the_experiments_asks_which_table_a_name_is_in():
    folder = Path(refimpl.__file__).parent / "experiments"
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
                asked = {part.id for part in ast.walk(node.comparators[0]) if isinstance(part, ast.Name)}
                assert not asked & {"RULES", "SYSTEMS"}, f"{path}:{node.lineno}"
            if isinstance(node, ast.Subscript):
                looked_up = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
                assert not looked_up & {"RULES", "SYSTEMS"}, f"{path}:{node.lineno}"
