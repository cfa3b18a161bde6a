"""Whole rounds: right engines, and the step at which another one leaves the path."""

import numpy as np
import pytest

from refimpl import algorithm
from refimpl.audit import judge, report, rounds
from refimpl.audit.cases import Case
from refimpl.fast import engine as fast

pytestmark = pytest.mark.usefixtures("patient")


def test_the_fast_engine_is_right():
    said = judge(lambda s, *rest: fast.engine(s).step(*rest), "round")
    assert said.status == report.RIGHT, said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutate", "step"),
    [
        (
            lambda made: made._replace(gradient=2 * made.gradient, state=made.state._replace(W=made.local)),
            "gradient",
        ),
        (lambda made: made._replace(sent=-made.sent), "sent"),
        (lambda made: made._replace(risks=made.risks + 1), "risks"),
        (lambda made: made._replace(state=made.state._replace(W=made.state.W + 1)), "W"),
    ],
)
def test_the_first_step_that_leaves_the_path(mutate, step):
    said = judge(lambda *inputs: mutate(algorithm.round_(*inputs)), "round")
    assert (said.status, said.step) == (report.DIFFERENT, step)


def test_the_first_step_of_several_cases():
    """Of each case the first step that differs, and of all of these the first; W alone tells by its group."""
    right = {"sent": np.zeros(1), "risks": np.zeros(1), "W": np.zeros(1)}
    case = lambda group: Case("", group, (), right, 0, 0)
    late, early = right | {"risks": np.ones(1)}, right | {"sent": np.ones(1)}
    assert rounds.leaves_at([(case(rounds.RISK), late), (case(rounds.RISK), early)]) == "sent"
    alone = {"W": np.ones(1)}
    assert rounds.leaves_at([(case(rounds.RISK), alone), (case(rounds.ATTACK), alone)]) == rounds.ATTACK


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "step"),
    [
        ({"optimizer": "sgd"}, "local step"),
        ({"attack": "none"}, "what attackers send and keep"),
        ({"risk": "batch"}, "risks and weights"),
    ],
)
def test_the_first_step_from_the_parameters_alone(change, step):
    def round_(s, state, *rest):
        s = s._replace(**change)
        memory = state.memory if s.optimizer == "adam" else state.memory[:0]
        return algorithm.round_(s, state._replace(memory=memory), *rest).state.W

    assert judge(round_, "round").step == step
