"""The smallest input on which a function leaves the definition."""

import builtins
import json

import numpy as np
import pytest
from strangers import byzfl_krum

from refimpl import aggregate
from refimpl.audit import counterexample, judge, small_inputs
from refimpl.audit.kinds import cases_of

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


def test_without_hypothesis_the_first_drawn_case_is_shown(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name == "hypothesis":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    assert counterexample.search(small_inputs.models, lambda inputs: True, False) is None
    said = judge(lambda W: W.sum(axis=0), "average")
    assert said.difference.case in [case.name for case in cases_of("average")]
    assert said.variant.name == "the sum"
