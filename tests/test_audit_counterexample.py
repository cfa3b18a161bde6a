"""The smallest input on which a function leaves the definition."""

import json

import numpy as np
import pytest
from strangers import byzfl_krum

from refimpl import aggregate
from refimpl.audit import KINDS, arithmetic, judge
from refimpl.audit.kinds import cases_of
from refimpl.audit.variants import VARIANTS

pytestmark = pytest.mark.usefixtures("patient")


@pytest.mark.slow
def test_the_smallest_input_and_the_arithmetic():
    said = judge(byzfl_krum, "krum")
    small = said.difference
    assert small.case == "the smallest input found"
    W = np.array(json.loads(small.inputs["W"]))
    f = int(small.inputs["f"])
    assert W.size <= 6
    assert (json.loads(small.expected), json.loads(small.answer)) == (
        aggregate.krum(W, f).tolist(),
        byzfl_krum(W, f).tolist(),
    )
    assert f"n - f - 2 = {len(W) - f - 2} nearest others: model 0: " in small.why
    assert "n - f - 1" in said.variant.name
    assert f"agrees in {said.variant.ordinary}" in " ".join(str(said).split())


def read(text):
    return json.loads(text.replace("nan", "NaN").replace("inf", "Infinity"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (kind.chooses or name == "geometric-median"))
        for name, kind in KINDS.items()
        if name != "round"
    ],
)
def test_inputs_are_made_small_and_stay_possible(kind):
    said = judge(VARIANTS[kind][0].compute, kind, strict=True)
    assert said.difference.case == "the smallest input found"
    inputs = {name: read(value) for name, value in said.difference.inputs.items()}
    assert sum(np.size(value) for value in inputs.values()) <= 10
    assert said.difference.expected != said.difference.answer
    if kind == "metropolis-weights":
        assert inputs["graph"] == np.transpose(inputs["graph"]).tolist()
    if "weights" in inputs:
        assert sum(inputs["weights"]) == pytest.approx(1)
    if "risks" in inputs:
        assert min(inputs["risks"]) >= 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"), [("trimmed-mean", "trims one more above"), ("krum", "Krum over all others")]
)
def test_an_example_has_an_attacker_and_small_whole_numbers(kind, name):
    (compute,) = (variant.compute for variant in VARIANTS[kind] if variant.name == name)
    small = judge(compute, kind).difference
    W = np.array(json.loads(small.inputs["W"]))
    assert int(small.inputs["f"]) >= 1
    assert (W.round() == W).all()
    assert abs(W).max() <= 5
    assert np.isfinite(json.loads(small.answer)).all()


def test_every_line_of_arithmetic_belongs_to_a_definition():
    helpers = {"num", "total", "listed", "mean_of", "quiet"}
    functions = {name for name in vars(arithmetic) if callable(getattr(arithmetic, name)) and name[0] != "_"}
    assert functions - helpers < {kind.define.__name__ for kind in KINDS.values()}


def test_a_tie_is_no_example_of_another_choice():
    """Squared or not, one model of two is chosen by its place; the example needs more."""
    said = judge(lambda W: aggregate.row_of_least(aggregate.squared_distances(W), W), "medoid")
    W = np.array(json.loads(said.difference.inputs["W"]))
    assert aggregate.medoid(W) == pytest.approx(aggregate.medoid(W[::-1]))


def test_without_shrinking_a_drawn_case_is_shown():
    said = judge(lambda W: W.sum(axis=0), "average", shrinks=False)
    assert said.difference.case in [case.name for case in cases_of("average")]
    assert said.variant.name == "the sum"
