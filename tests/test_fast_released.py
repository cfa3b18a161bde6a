"""`fast.released` computes what `released.round_` does."""

import numpy as np
import pytest
import test_engine_shapes
from numpy.testing import assert_allclose
from problems import GRAPHS, after, setting

from refimpl import aggregate, released
from refimpl.experiments import cli, tasks
from refimpl.experiments.options import parse
from refimpl.fast import plan
from refimpl.fast import released as fast
from refimpl.fast.networks import batched
from refimpl.models import as_layers

IN_THE_ROUND = [name for name, difference in released.DIFFERENCES.items() if difference.in_round]
TOGETHER = [name for name in IN_THE_ROUND if name != "small-tensor-signals"]  # which contradicts another


def engines(on):
    return [lambda s, engine=engine: engine(s, on) for engine in (released.engine, fast.engine)]


def assert_same(s, on, rounds=4, W=None):
    one, other = (after(s, rounds, W, engine=engine) for engine in engines(on))
    for mine, theirs in zip(other.state, one.state, strict=True):
        assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)
    assert (other.weights is None) == (one.weights is None)
    if one.weights is not None:
        assert_allclose(other.weights, one.weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("graph", ["complete", "ring", "a star and a path"])
@pytest.mark.parametrize("attack", ["none", "sign-flip", "arbitrary", "foe", "alie"])
@pytest.mark.parametrize("rule", ["adaptive", "inverse-risk", "average", "median", "medoid", "local"])
def test_all_differences_together(rule, attack, graph):
    s = setting(graph=GRAPHS[graph], rule=rule, attack=attack, attackers=[1, 4], risk="batch")
    assert_same(s, TOGETHER)


@pytest.mark.parametrize("rule", ["krum", "trimmed-mean"])
@pytest.mark.parametrize("on", [TOGETHER, []], ids=["all", "none"])
def test_rules_that_need_many_neighbours(rule, on):
    assert_same(setting(rule=rule, attack="sign-flip", attackers=[1, 4]), on)


@pytest.mark.parametrize("attack", ["sign-flip", "arbitrary", "foe", "alie"])
@pytest.mark.parametrize("name", IN_THE_ROUND)
def test_one_difference_at_a_time(name, attack):
    assert_same(setting(attack=attack, attackers=[1, 4], optimizer="adam", step_size=0.05), [name])


def test_every_risk_is_smoothed_where_most_need_not_be_computed():
    """At HAR's size, where a round of the paper scores on all rows only the models that may pass."""
    s = test_engine_shapes.har(attack="sign-flip", risk="batch", batch_size=80)
    (group,) = plan.plan(s).groups
    assert len(group.stages) > 1
    assert_same(s, ["smoothed-risk"], 2, test_engine_shapes.initial(s))


def test_a_message_that_is_not_finite():
    s = setting(attackers=[1, 4], attack="sign-flip", step_size=lambda k, t: 1e200 if k in (1, 4) else 0.3)
    assert_same(s, ["smoothed-risk", "previous-message"], 6)
    made = after(s, 6, engine=engines(["smoothed-risk", "previous-message"])[1])
    assert np.isfinite(made.state.W[s.normal]).all()
    assert not np.isfinite(made.state.W[s.attackers]).all()


def test_a_rule_of_ones_own(monkeypatch):
    own = aggregate.Rule(lambda W, risks, own, f: W[own] * (1 + own), "", "")
    monkeypatch.setitem(aggregate.RULES, "own", own)
    assert_same(setting(rule="own", attackers=[1]), ["previous-message"])


def test_sigmoid_outputs_are_batched():
    s = setting(attackers=[1, 4], attack="alie", optimizer="adam")
    s = s._replace(model=released.sigmoid_outputs(s.model))
    assert batched(s.model).squash
    assert_same(s, ["smoothed-risk"])
    assert_same(s._replace(risk="batch", rule="inverse-risk"), ["smoothed-risk"])


def test_a_sigmoid_elsewhere_is_not():
    model = as_layers(setting().model)
    inner = released.sigmoid_outputs(model)
    assert batched(inner._replace(layers=(*inner.layers, *model.layers))) is None


@pytest.mark.parametrize(("more", "module"), [("", fast), ("--plain", released)])
def test_the_command_line_takes_it_unless_asked_for_the_plain_form(more, module):
    options = f"--protocol released --rules adaptive --attacks alie {more}"
    (config,) = cli.configs("spambase", parse("spambase", options.split())[1])
    assert tasks.method_of(config).engine(None).func is module.engine
