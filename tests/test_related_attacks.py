"""The attacks of refimpl.related: against oracles, by what characterises each, and on both engines.

Honest workers of PATH form a path, whose Fiedler vector is unique; those of the complete graph have none.
"""

import itertools
from dataclasses import replace

import numpy as np
import oracle_attacks
import oracles
import pytest
import strategies
import test_engine
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from problems import PAPERS, after, cast, held_out, initial, local_data, sent_by, setting
from some_results import result
from test_tasks import config

from refimpl import algorithm, graphs, train
from refimpl.aggregate import RULES, squared_distances
from refimpl.attacks import ATTACKS, KNOWLEDGE, View
from refimpl.experiments import results, tasks
from refimpl.fast import engine as fast
from refimpl.related import attacks

OURS = list(oracle_attacks.SENDS)
PATH = graphs.from_edges(7, [(0, 3), (3, 1), (1, 6), (6, 2), *((a, k) for a in (4, 5) for k in range(7))])
WORLDS = {"complete": graphs.complete(7), "path": PATH}
LIARS = [4, 5]
ordinary = strategies.models(least=2)


def drawn(name, f, d, seed=0):
    draw = ATTACKS[name].draw
    return draw(f, d, np.random.default_rng(seed)) if draw else None


def a_round(name, graph, rule, seed=0, spread=1.0):
    """(setting, state before, batch, signals) of a third round, of workers that differ."""
    s = setting(graph=WORLDS[graph], attackers=LIARS, rule=rule, attack=name)
    rng = np.random.default_rng(seed)
    W = initial(seed=seed)[0] + spread * rng.normal(size=(7, s.model.layout.size))
    state = algorithm.start(s, W)._replace(t=2)
    batch = np.stack([rng.integers(0, len(y), s.batch_size) for y in s.y])
    return s, state, batch, drawn(name, len(LIARS), s.model.layout.size, seed)


# --- Against oracles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["median", "krum"])
@pytest.mark.parametrize("graph", WORLDS)
@pytest.mark.parametrize("name", OURS)
def test_an_attack_equals_its_oracle(name, graph, rule):
    """What every receiver is sent in a round, by the definition; no worker on the path has enough for Krum."""
    if (rule, graph) == ("krum", "path"):
        pytest.skip("too few neighbours")
    s, state, batch, signals = a_round(name, graph, rule)
    made = algorithm.round_(s, state, batch, signals)
    world = oracle_attacks.World(
        made.local.tolist(),
        state.W.tolist(),
        [np.flatnonzero(row).tolist() for row in s.graph],
        LIARS,
        {a: signals[i].tolist() for i, a in enumerate(LIARS)} if signals is not None else {},
        lambda rows: oracles.BASELINES[rule](rows, len(LIARS)),
    )
    for k, a in itertools.product(s.normal, LIARS):
        sent = made.sent if made.sent.ndim == 2 else made.sent[k]
        assert_allclose(sent[a], oracle_attacks.SENDS[name](world, k, a), rtol=1e-9, atol=1e-9)
        assert_array_equal(sent[k], made.local[k])


@pytest.mark.parametrize("sample", [(5,), (4, 6)], ids=["features", "pixels"])
@pytest.mark.parametrize("name", oracle_attacks.POISONS)
def test_a_poison_equals_its_oracle_and_leaves_its_inputs(name, sample):
    rng = np.random.default_rng(0)
    X = strategies.frozen(rng.normal(size=(5, *sample)))
    y = strategies.frozen(np.array([3, 0, 1, 2, 3]))
    found, labels = ATTACKS[name].poison(X, y, 4)
    expected = oracle_attacks.POISONS[name](X.tolist(), y.tolist(), 4)
    assert_array_equal(found, expected[0])
    assert_array_equal(labels, expected[1])
    assert labels.dtype == y.dtype


@pytest.mark.parametrize("name", OURS)
def test_the_oracles_are_of_all_standard_attacks(name):
    """Only by name, each in its place in the table."""
    assert name not in PAPERS
    assert not ATTACKS[name].by_default
    assert ATTACKS[name].lies


# --- What characterises them --------------------------------------------------------------------------------


def farthest(lie, W):
    return ((lie - W) ** 2).sum(axis=1).max()


def in_sum(lie, W):
    return ((lie - W) ** 2).sum()


@given(ordinary)
def test_min_max_is_as_far_out_as_two_honest_models_are_apart(W):
    """No farther from any, and with a larger factor it would be."""
    R, g = squared_distances(W).max(), attacks.min_max_factor(W)
    std = W.std(axis=0)
    assert farthest(attacks.min_max(W), W) <= R * (1 + 1e-9) + 1e-12
    if R > 0:
        assert g > 0
        assert farthest(W.mean(axis=0) - 1.001 * g * std, W) > R
    else:
        assert g == 0


@given(ordinary)
def test_min_sum_is_as_near_to_the_mean_as_an_honest_model(W):
    """By the definition, which is in sums of distances; a larger factor would break it."""
    R, g = squared_distances(W).sum(axis=1).min(), attacks.min_sum_factor(W)
    scale = squared_distances(W).sum()
    assert in_sum(attacks.min_sum(W), W) <= R + 1e-9 * scale + 1e-12
    assert 0 <= g <= 1 + 1e-9
    if scale > 0:
        assert in_sum(W.mean(axis=0) - 1.001 * (g + 1e-3) * W.std(axis=0), W) > R


@pytest.mark.parametrize(("dtype", "apart"), [("float64", 1.2 * 2**-537), ("float32", 1.2 * 2**-74.5)])
def test_models_whose_variance_vanishes_have_no_factor(dtype, apart):
    """The square of what they are apart is the least number there is; that of half of it is 0."""
    W = np.array([[0.0], [apart]], dtype)
    assert squared_distances(W).max() > 0
    assert W.var() == attacks.min_max_factor(W) == attacks.min_sum_factor(W) == 0
    assert_array_equal(attacks.min_max(W), W.mean(axis=0))


@given(strategies.models(strategies.whole, least=2), st.floats(-100, 100))
def test_min_max_and_min_sum_do_not_know_where_the_origin_is(W, shift):
    for attack in (attacks.min_max, attacks.min_sum):
        assert_allclose(attack(W + shift), attack(W) + shift, rtol=1e-6, atol=1e-6)


@given(strategies.models(strategies.finite, most=5), st.integers(1, 4), st.integers(0, 4))
def test_dissensus_of_1_leaves_the_mean_at_the_receivers_model(heard, liars, own):
    receiver = heard[own % len(heard)]
    lie = attacks.dissensus(receiver, heard, liars, epsilon=1.0)
    scale = 10 * abs(heard).max(initial=1)
    mean = (heard.sum(axis=0) + liars * lie) / (len(heard) + liars)
    assert_allclose(mean, receiver, rtol=1e-9, atol=1e-9 * scale)


@given(ordinary, st.integers(1, 4), st.integers(0, 8))
def test_on_a_complete_graph_sph_is_dissensus(W, liars, place):
    place %= len(W)
    lie = attacks.spectral(W, graphs.complete(len(W)), place, liars)
    assert_allclose(lie, attacks.dissensus(W[place], W, liars), rtol=1e-9, atol=1e-6)


@st.composite
def some_graphs(draw):
    n = draw(st.integers(1, 7))
    pairs = list(itertools.combinations(range(n), 2))
    return graphs.from_edges(n, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else [])


@given(some_graphs(), st.integers(0, 100))
def test_fiedler_is_the_slowest_mode(graph, seed):
    """Eigenvectors, orthogonal to the constant one, and nothing orthogonal to both is slower, or as slow."""
    n = len(graph)
    value, P = attacks.fiedler(graph)
    edges = graph & ~np.eye(n, dtype=bool)
    L = np.diag(edges.sum(axis=1)) - edges.astype(float)
    assert_allclose(P @ P, P, atol=1e-9)
    assert_allclose(P.sum(axis=0), 0, atol=1e-9)
    assert_allclose(L @ P, value * P, atol=1e-9)
    assert P.trace() > 0.5 or n == 1
    x = np.random.default_rng(seed).normal(size=n)
    x = x - x.mean() - P @ x
    assert x @ L @ x > value * (x @ x) or np.allclose(x, 0)


@pytest.mark.parametrize("seed", range(3))
def test_where_honest_workers_are_in_parts_sph_is_an_echo_on_both_engines(seed):
    """To the bit, lest rounding decides whether it passes Eq. (6); liars are heard by all."""
    parts, liars = ([0, 1, 2, 4], [5, 6, 8]), [3, 7]
    pairs = [pair for part in parts for pair in itertools.combinations(sorted(part + liars), 2)]
    s = test_engine.setting(
        [7, 4, 9, 5, 8, 4, 6, 3, 10], graphs.from_edges(9, pairs), attackers=np.array(liars), attack="sph"
    )
    W = test_engine.initial(s)
    assert test_engine.assert_same_rounds(s, W, seed) == 3
    made = after(s, 1, W)
    for k in s.normal:
        assert_array_equal(made.sent[k, liars], made.sent[k, [k, k]])


@given(strategies.models(strategies.ordinary), st.integers(0, 1000))
def test_fangs_values_are_beyond_all_honest_ones_within_a_factor(W, seed):
    """Below where the mean grows, above where it does not."""
    rng = np.random.default_rng(seed)
    before, u = W + rng.normal(size=W.shape), rng.random((2, W.shape[1]))
    sent = attacks.fang_trimmed_mean(W, before, u)
    grows = W.mean(axis=0) > before.mean(axis=0)
    edge = np.where(grows, W.min(axis=0), W.max(axis=0))
    assert (np.where(grows, sent <= edge, sent >= edge)).all()
    assert (abs(sent - edge) <= abs(edge)).all()
    assert (sent * edge >= 0).all()
    assert ((sent != edge) | (edge == 0) | (u == 0) | np.isclose(sent, edge)).all()


@pytest.mark.parametrize("seed", range(4))
def test_krum_chooses_what_fang_sends_and_nothing_twice_as_far(seed):
    """Of models that are so near to each other as after some rounds."""
    s, state, batch, _ = a_round("fang-krum", "complete", "krum", seed, spread=0.01)
    made = algorithm.round_(s, state, batch)
    for k in s.normal:
        lie, start = made.sent[k, 4], state.W[k]
        view = View(s, state, batch, made.local[LIARS], made.local[s.normal], s.normal, None, int(k))
        outcome = KNOWLEDGE["outcome"].of(view)
        assert_array_equal(made.state.W[k], lie)
        size = abs(lie - start).max()
        assert size == pytest.approx(1) or (outcome(2 * lie - start) != 2 * lie - start).any()


@pytest.mark.parametrize("rule", ["adaptive", "average", "median"])
@pytest.mark.parametrize(("name", "plain"), [("alie-optimised", "alie"), ("foe-optimised", "foe")])
def test_a_search_against_the_rule_harms_more(name, plain, rule):
    """FoE's factor 1 is among those searched; ALIE's z is not, but lies between two."""
    s, state, batch, _ = a_round(name, "complete", rule)
    made, other = (algorithm.round_(s._replace(attack=attack), state, batch) for attack in (name, plain))
    mean = made.local[s.normal].mean(axis=0)
    harm, usual = (((r.state.W[s.normal] - mean) ** 2).sum(axis=1) for r in (made, other))
    assert (harm >= usual - 1e-12).all()
    assert (harm > usual + 1e-12).any()


@pytest.mark.parametrize(
    ("outcomes", "chosen"), [([1, np.nan, 9], 1), ([5, np.inf, np.nan], 1), ([3, 4, 2], 1)]
)
def test_no_outcome_harms_more_than_nan(outcomes, chosen):
    lies = [np.full(2, float(i)) for i in range(3)]
    made = attacks.most_harmful(lies, np.zeros((3, 2)), lambda lie: np.full(2, outcomes[int(lie[0])]))
    assert_array_equal(made, lies[chosen])


@given(strategies.models(strategies.whole, least=2), st.integers(1, 3))
def test_model_replacement_makes_the_average_the_attackers_model(W, f):
    """Of attackers that agree, and an average over everybody."""
    own = np.tile(W[0], (f, 1))
    n = len(W) + f
    sent = sent_by(ATTACKS["backdoor"], own, W, None)
    assert_allclose(np.concatenate([W, sent]).mean(axis=0), W[0], atol=1e-9 * n * 50)


def test_gaussian_noise_has_deviation_30_around_the_mean():
    honest = np.random.default_rng(1).normal(size=(5, 20_000))
    f, d = 3, honest.shape[1]
    sent = sent_by(ATTACKS["gaussian"], np.zeros((f, d)), honest, drawn("gaussian", f, d))
    noise = sent - honest.mean(axis=0)
    assert_allclose(noise.std(axis=1), 30, rtol=0.02)
    assert_allclose(noise.mean(axis=1), 0, atol=1)
    assert abs(np.corrcoef(noise) - np.eye(f)).max() < 0.05


ASKED = [(name, "median") for name in OURS] + [
    (name, rule) for name in OURS for rule in ("krum", "adaptive") if "outcome" in ATTACKS[name].knows
]


@pytest.mark.parametrize(("name", "rule"), ASKED)
def test_the_type_of_models_is_kept(name, rule):
    """And float32 is the same but for rounding; the rule matters to attacks that ask it."""
    s, state, batch, signals = a_round(name, "complete", rule)
    double, single = (
        ATTACKS[name].made_from(
            View(
                cast(s, dtype),
                state._replace(W=state.W.astype(dtype)),
                batch,
                state.W[LIARS].astype(dtype),
                strategies.frozen(state.W[s.normal].astype(dtype)),
                s.normal,
                None if signals is None else signals.astype(dtype),
                receiver=0,
            )
        )
        for dtype in ("float64", "float32")
    )
    assert (double.dtype, single.dtype) == ("float64", "float32")
    assert_allclose(single, double, rtol=1e-4, atol=1e-4)


# --- On both engines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [*RULES])
@pytest.mark.parametrize("name", OURS)
def test_the_engine_is_the_specification(name, rule):
    """On a graph whose Fiedler vector is nowhere 0; for one of two draws no decision hangs on rounding."""
    missing = [(0, 8), (8, 1), (1, 6), (6, 2), (2, 5), (5, 4)]
    graph = ~graphs.from_edges(9, missing) | np.eye(9, dtype=bool)
    s = test_engine.setting(
        [7, 4, 9, 5, 8, 4, 6, 3, 10], graph, attackers=np.array([3, 7]), rule=rule, attack=name, l2=0.1
    )
    W = test_engine.initial(s)
    assert sum(test_engine.assert_same_rounds(s, W + seed, seed, count=1) for seed in range(2)) > 0


@pytest.mark.parametrize("attackers", [[1], [0, 1, 2, 4, 5, 6]], ids=["one", "all but one"])
@pytest.mark.parametrize("name", OURS)
def test_one_attacker_and_all_but_one(name, attackers):
    """What Eq. (6) makes of it is finite, and the honest learn."""
    s = setting(attack=name, attackers=attackers)
    trained = train.run(s, held_out(local_data()), initial(), 0, 3, fast.engine)
    loss = trained.history["highest_loss"]
    assert np.isfinite(loss).all()
    assert loss[-1] < loss[0]
    assert "backdoor_success" not in trained.history


# --- Poison in a run ----------------------------------------------------------------------------------------


def test_attackers_train_on_poison_and_nobody_else():
    honest, _, W = tasks.build(config(attack="foe"))
    for name, poison in oracle_attacks.POISONS.items():
        s, _, V = tasks.build(config(attack=name))
        assert_array_equal(V, W)
        assert_array_equal(s.attackers, honest.attackers)
        for k in range(len(s.y)):
            X, y = honest.X[k].tolist(), honest.y[k].tolist()
            X, y = poison(X, y, 2) if k in s.attackers else (X, y)
            assert_array_equal(s.X[k], X)
            assert_array_equal(s.y[k], y)


def test_a_backdoor_is_tested_on_triggered_rows_of_other_classes():
    """Labels flipped are no backdoor; and data that are kept for the next run stay as they are."""
    clean = tasks.build(config(attack="foe"))[1]
    assert clean.backdoor is None
    assert tasks.build(config(attack="label-flip"))[1].backdoor is None
    test = tasks.build(config(attack="backdoor"))[1]
    X, wanted = test.backdoor
    rows = [i for i in range(0, len(clean.y), 2) if clean.y[i] != 0]
    assert_array_equal(X[:, :-3], clean.X[rows][:, :-3])
    assert (X[:, -3:] == 3).all()
    assert not wanted.any()
    for field in ("X", "y", "own"):
        assert_array_equal(getattr(test, field), getattr(clean, field))


def test_a_poison_may_write_to_its_arguments_and_give_them_in_other_types(monkeypatch):
    """What it is given is a copy: the next run, of the same data, has them as they were."""

    def poison(X, y, classes):
        X[:], y[:] = 0, 1 - y
        return X.astype("int8"), y.astype("int8")

    clean, before, _ = tasks.build(config(attack="foe"))
    kept = [rows.copy() for rows in (*clean.X, *clean.y, before.X, before.y)]
    monkeypatch.setitem(ATTACKS, "mine", ATTACKS["label-flip"]._replace(poison=poison))
    s, test, _ = tasks.build(config(attack="mine"))
    k = s.attackers[0]
    assert not s.X[k].any()
    assert_array_equal(s.y[k], 1 - clean.y[k])
    assert {array.dtype for array in s.y} == {np.dtype(int)}
    assert_array_equal(test.X, before.X)
    again, after, _ = tasks.build(config(attack="foe"))
    for a, b in zip(kept, (*again.X, *again.y, after.X, after.y), strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("poison", "got"),
    [
        (lambda X, y, classes: (X[:3], y[:3]), r"float64 \(3, 57\) and int64 \(3,\)"),
        (lambda X, y, classes: (X, y / 2), r"float64 \(\d+, 57\) and float64 \(\d+,\)"),
        (lambda X, y, classes: (X * 1j, y), r"complex128 \(\d+, 57\) and int64 \(\d+,\)"),
        (lambda X, y, classes: (X, y[:, None]), r"float64 \(\d+, 57\) and int64 \(\d+, 1\)"),
        (lambda X, y, classes: (X.tolist(), y.tolist()), r"None \(\) and None \(\)"),
        (lambda X, y, classes: X, r"float64 \(\d+, 57\)"),
        (lambda X, y, classes: None, r"None \(\)"),
    ],
)
def test_a_poison_that_makes_something_else_is_refused(monkeypatch, poison, got):
    monkeypatch.setitem(ATTACKS, "mine", ATTACKS["label-flip"]._replace(poison=poison))
    with pytest.raises(ValueError, match=f"^attack mine needs to poison with .* of integer labels, got {got}$"):
        tasks.build(config(attack="mine"))


def test_success_is_the_share_of_triggered_rows_that_get_the_label():
    """Two normal workers, one that always says class 0, one that always says 1; three rows of four want 0."""
    s = setting(rows=[4, 4, 4], attackers=[1])
    W = np.zeros((3, s.model.layout.size))
    last = s.model.layout.fields[-1].offset
    W[0, last], W[2, last + 1] = 1, 1
    test = held_out(local_data([4, 4, 4]))
    assert "backdoor_success" not in train.evaluate(s, test, W, s.model)
    test = test._replace(backdoor=(np.ones((4, 3)), np.array([0, 0, 1, 0])))
    assert train.evaluate(s, test, W, s.model)["backdoor_success"] == (3 / 4 + 1 / 4) / 2
    assert len(train.run(s, test, initial(3), 0, 2).history["backdoor_success"]) == 2


def test_results_keep_the_success_and_older_files_have_none(tmp_path):
    with_it = result("adaptive", "backdoor", 0, 0.5)
    with_it = replace(with_it, history=with_it.history | {"backdoor_success": [0.25]})
    path = tmp_path / "runs.csv"
    path.write_text(results.as_csv([with_it]), encoding="utf-8")
    assert results.read(path)[0].last("backdoor_success") == 0.25
    row = {name: cell for name, cell in results.as_row(with_it).items() if name != "backdoor_success"}
    path.write_text(results.csv_text([row]), encoding="utf-8")
    assert "backdoor_success" not in results.read(path)[0].history
