"""The judge: the definitions come back right, and a mistake that nobody knows is described."""

import importlib
import json

import contrived
import numpy as np
import pytest
from strangers import byzfl_krum

from refimpl import aggregate
from refimpl.audit import KINDS, judge, report
from refimpl.audit.caller import Answer
from refimpl.audit.kinds import cases_of

pytestmark = pytest.mark.usefixtures("patient")
each_kind = pytest.mark.parametrize("kind", KINDS)


def lightly(first, names):
    """All of them, but only the first outside of the slow tests."""
    return [name if name == first else pytest.param(name, marks=pytest.mark.slow) for name in names]


@each_kind
def test_the_definition_is_right(kind):
    said = judge(KINDS[kind].define, kind)
    assert (said.status, said.verdict) == (report.RIGHT, "right"), said
    assert said.agreement.ordinary.of >= 50
    assert not [note for note in said.notes if "no, in" in note or "writes" in note or "changes" in note], said
    assert kind in ("alie-z", "metropolis-weights", "round") or said.groups["float32"].of > 0


def single(value):
    return value.astype(np.float32) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


@pytest.mark.parametrize("kind", lightly("krum", [kind for kind in KINDS if kind not in ("round", "alie-z")]))
def test_the_definition_in_single_precision_is_right(kind):
    said = judge(lambda *inputs: single(KINDS[kind].define(*map(single, inputs))), kind)
    assert said.status == report.RIGHT, said
    assert "changes dtype: float64 in, float32 out; it was asked in float32" in said.notes


def test_an_unknown_mistake_is_described_and_the_closest_variant_named():
    """Krum over the n - f - 1 nearest, wrong in another way for many models: not in the table."""
    said = judge(lambda W, f: byzfl_krum(W, f) if len(W) < 12 else W[0], "krum", shrinks=False)
    assert said.variant is None
    assert "n - f - 1" in said.closest.name
    assert said.groups["n odd"].agreed < said.groups["n odd"].of
    assert f"explains {said.closest.explains} differences" in " ".join(str(said).split())


def loops_median(models):
    """Right if n is odd; if it is even, the mean of three."""
    found, n = [], len(models)
    for j in range(len(models[0])):
        column = sorted(float(model[j]) for model in models)
        middle = column[n // 2 : n // 2 + 1] if n % 2 else column[n // 2 - 1 : n // 2 + 2]
        found.append(sum(middle) / len(middle))
    return found


def test_the_report_on_an_unknown_mistake_shows_where_to_look():
    said = judge(loops_median, "median")
    assert said.verdict == "different, and no variant that is known"
    assert (said.variant, said.closest) == (None, None)
    assert said.groups["n odd"].agreed == said.groups["n odd"].of
    assert "by group    n even 3 of 17, " in str(said)
    assert len(json.loads(said.difference.inputs["W"])) % 2 == 0
    assert "the middle two: (" in said.difference.why
    assert max(map(len, str(said).splitlines())) <= 80


def test_right_but_for_hostile_inputs_is_not_right():
    said = judge(lambda W: np.where(np.isnan(W).any(), 7.0, aggregate.average(W)), "average", shrinks=False)
    assert (said.status, said.verdict) == (report.DIFFERENT, "right on ordinary inputs, different on others")


def ordinary(kind):
    return [case for case in cases_of(kind) if case.expected is not None and not case.apart]


@pytest.mark.parametrize(("kind", "where"), contrived.WRONG_WHERE)
def test_the_cases_reach_beyond_the_sizes_of_a_blackboard(kind, where):
    assert [case for case in ordinary(kind) if where(*case.inputs)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "where"), contrived.WRONG_WHERE)
def test_a_mistake_at_some_sizes_only_is_not_right(kind, where):
    assert judge(contrived.wrong(kind, where), kind, shrinks=False).status == report.DIFFERENT


def test_what_agreed_before_a_hang_is_counted():
    case = ordinary("average")[0]
    late = Answer(problem="no answer within 1 s", late=True)
    pairs = [(case, Answer(case.expected)), (case, Answer(case.expected + 1)), (case, late)]
    hung = importlib.import_module("refimpl.audit.judge").hung
    assert hung(pairs) == f"no answer within 1 s to {case.name}; 1 of 2 agreed before"
    assert hung(pairs[:2]) == ""


def test_unknown_kind():
    with pytest.raises(ValueError, match=r"unknown kind 'kruml', choose from adaptive-weights, "):
        judge(byzfl_krum, "kruml")
