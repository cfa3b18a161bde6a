"""Risks in stages: whoever passes the filter of Eq. (6) has the same risk as ever, and nobody else passes."""

import contextlib
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import PAPERS, cast
from test_engine import GRAPHS, MODELS, assert_same_rounds, data, hostile, initial, setting

from refimpl import algorithm, graphs
from refimpl.arrays import quiet
from refimpl.attacks import ATTACKS
from refimpl.fast import engine, plan, risks
from refimpl.fast.parallel import threads

ROWS = [23, 8, 40, 9, 17, 8, 31]


@contextlib.contextmanager
def surroundings():
    """Of every test here, however small its problem; test_mutants.py, which calls tests directly, enters it."""
    with mock.patch.object(plan, "STAGED", 0):
        yield


@pytest.fixture(autouse=True)
def _within():
    with surroundings():
        yield


@quiet
def scored(s, M):
    """The risks (m, n) of M (n, d) in stages, and all at once."""
    made = plan.plan(s)
    (group,) = made.groups
    assert len(group.local) == len(plan.STAGES)
    network = made.network
    r = risks.passing_risks(network, M, group.local, group.count[0], group.own[0])
    return r, risks.neighbour_risks(network, M[None], group.local, group.count)[0], group.own[0]


@given(st.integers(0, 2**32 - 1), st.sampled_from(["float32", "float64"]))
def test_whoever_passes_has_its_risk_and_no_other_is_trusted(seed, dtype):
    """Models near to each other and far away, some of them equal, or with entries that are not finite."""
    rng = np.random.default_rng(seed)
    s = setting(rng.integers(8, 40, 7).tolist(), GRAPHS["complete"], rule="adaptive", attackers=np.arange(0))
    s = cast(s, dtype)
    M = initial(s).astype(dtype) * rng.choice([0.01, 1, 30])
    M += M.std() * rng.choice([0, 1e-6, 0.1, 1, 100], (7, 1)) * rng.normal(size=M.shape)
    M[rng.integers(7)] = M[rng.integers(7)]
    if rng.random() < 0.2:
        M[rng.integers(7), rng.integers(M.shape[1])] = rng.choice([np.nan, np.inf])
    M = M.astype(dtype)
    r, expected, own = scored(s, M)
    mine, its_own = expected[np.arange(7), own][:, None], r[np.arange(7), own][:, None]
    close, clear = 20 * np.finfo(dtype).eps, abs(expected - mine) > 1e-4 * abs(mine) + 1e-6
    assert_allclose(its_own, mine, rtol=close, atol=close)
    assert_array_equal((r <= its_own)[clear], (expected <= mine)[clear])
    passing = expected <= mine
    assert_allclose(r[passing], expected[passing], rtol=close, atol=close)
    equal = (M[own][:, None] == M).all(axis=-1)  # a neighbour with one's own model passes, to the last bit
    assert (r == its_own)[equal & np.isfinite(mine)].all()


@pytest.mark.parametrize("attack", [*PAPERS, "NaN"])
@pytest.mark.parametrize("risk", ["local", "batch"])
@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_rounds_in_stages_are_the_specifications(model, risk, attack):
    network = MODELS[model]
    lies = ATTACKS[attack].lies if attack in ATTACKS else True
    s = algorithm.Setting(
        network, *data(ROWS, network.sample, 0, "float64"), GRAPHS["complete"],
        np.array([1, 4] if lies else [], int), "adaptive", attack, risk, step_size=0.3, batch_size=8,
    )  # fmt: skip
    with mock.patch.dict(ATTACKS, {"NaN": hostile(np.nan, 3, False)}):
        assert len(engine.plan(s).groups[0].stages) > 1
        assert assert_same_rounds(s, initial(s), seed=0, count=6) > 2


def test_a_model_that_is_out_sees_no_more_rows():
    s = setting(ROWS, GRAPHS["complete"], rule="adaptive", attackers=np.arange(0))
    M = initial(s)
    M[0], M[1:] = 0, 1e4 * M[1:]  # worker 0 says 1/3 to every class, the others are certain, and mostly wrong
    seen = []
    call = risks.sums_of_losses
    with mock.patch.object(risks, "sums_of_losses", lambda *args: seen.append(args[-1].copy()) or call(*args)):
        scored(s, M)
    first, *rest = seen
    assert first.all()
    assert len(rest) == len(plan.STAGES) - 1
    assert all(wanted[0].sum() == 1 for wanted in rest)  # worker 0 has nobody left but itself


@pytest.mark.parametrize(
    ("why", "options"),
    [
        ("other rules need every risk", {"rule": "inverse-risk"}),
        ("the L2 term is not a loss of rows", {"l2": 0.1}),
        ("a stage could be empty", {"risk": "batch", "batch_size": 7}),
        ("several neighbourhoods", {"graph": graphs.ring(7)}),
    ],
)
def test_where_risks_are_not_taken_in_stages(why, options):
    s = setting(ROWS, GRAPHS["complete"], rule="adaptive")._replace(**options)
    assert all(len(group.stages) == 1 for group in engine.plan(s).groups), why


def test_small_problems_are_scored_at_once():
    s = setting(ROWS, GRAPHS["complete"], rule="adaptive")
    with mock.patch.object(plan, "STAGED", 17 * s.model.layout.size):
        assert len(engine.plan(s).groups[0].stages) == len(plan.STAGES)
    with mock.patch.object(plan, "STAGED", 40 * s.model.layout.size):
        assert len(engine.plan(s).groups[0].stages) == 1


def test_every_row_is_in_one_stage():
    for n in (8, 9, 31, 64, 257):
        found = np.concatenate([np.arange(n)[stage] for stage in plan.STAGES])
        assert sorted(found.tolist()) == list(range(n))


def test_stages_share_the_threads():
    s = setting(ROWS, GRAPHS["complete"], rule="adaptive", attackers=np.arange(0))
    M = initial(s) * np.array([1, 1, 50, 1, 50, 50, 50])[:, None]
    alone, _, _ = scored(s, M)
    with threads(3):
        assert_array_equal(scored(s, M)[0], alone)
