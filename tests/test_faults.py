"""Rounds in a network that fails: what is lost, late or stopped, what a rule then sees, and what is counted."""

import io
import itertools

import numpy as np
import pytest
import some_results
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from problems import GRAPHS, after, held_out, initial, local_data, sends, setting

from refimpl import algorithm, faults, methods, train
from refimpl.aggregate import RULES
from refimpl.experiments import checkpoints, tables, tasks
from refimpl.experiments.config import Config
from refimpl.experiments.run import compute, prepare
from refimpl.faults import Faults

ROUNDS = 6
probability = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
NEVER = np.zeros((7, 2), int)


def failing(s, loss=0.0, late=0.0, crash=0, rounds=ROUNDS, seed=0):
    """A function that builds the engine."""
    found = faults.draw(s, loss, late, crash, rounds, seed)
    return lambda s: faults.engine(s, found)


def rounds_of(s, engine, count=ROUNDS, W=None):
    """The first rounds of an engine."""
    return list(itertools.islice(train.rounds(s, initial() if W is None else W, 0, engine), count))


def assert_same(found, expected):
    """Two rounds end alike, to the last bit."""
    assert_array_equal(found.state.W, expected.state.W)
    assert_array_equal(found.state.memory, expected.state.memory)


# --- What goes wrong ----------------------------------------------------------------------------------------


@given(probability, probability, st.integers(0, 5), st.integers(0, 10**6), st.sampled_from(list(GRAPHS)))
def test_messages_arrive_along_the_graph_and_at_most_once(loss, late, crash, seed, graph):
    """None from or to a crashed worker, but what it sent late before; an old one only if no fresh one does."""
    graph = GRAPHS[graph]
    found = faults.draw(setting(graph=graph), loss, late, crash, ROUNDS, seed)
    others = ~np.eye(7, dtype=bool)
    before = np.zeros((7, 7), bool)  # late in the round before
    for t in range(1, ROUNDS + 1):
        fresh, old = faults.arrivals(found, graph, t)
        running = faults.up(found, t)
        assert fresh.diagonal().all()
        assert_array_equal(fresh & others, faults.sent(found, graph, t)[0] & others & running[:, None])
        assert not (fresh & old).any()
        assert not ((fresh | old) & ~graph).any()
        assert not (fresh & others)[~running].any()
        assert not (fresh & others)[:, ~running].any()
        assert not old[~running].any()
        assert not (old & ~before).any()
        assert_array_equal(old, before & ~fresh & running[:, None])
        before = faults.sent(found, graph, t)[1] & others


@given(st.integers(0, 10**6), probability, probability, st.integers(0, 5), st.integers(0, 5))
def test_more_faults_are_those_of_before_and_others(seed, p, q, j, k):
    s, (p, q), (j, k) = setting(), sorted((p, q)), sorted((j, k))
    few, many = faults.draw(s, p, 0, j, ROUNDS, seed), faults.draw(s, q, 0, k, ROUNDS, seed)
    for t in range(1, ROUNDS + 1):
        assert not (faults.arrivals(many, s.graph, t).fresh & ~faults.arrivals(few, s.graph, t).fresh).any()
        assert not (faults.up(many, t) & ~faults.up(few, t)).any()


def test_another_seed_loses_other_messages_and_stops_other_workers():
    s = setting()
    one, other = (faults.draw(s, 0.5, 0, 2, 50, seed) for seed in (0, 1))
    assert not np.array_equal(one.down, other.down)
    assert not np.array_equal(faults.sent(one, s.graph, 1)[0], faults.sent(other, s.graph, 1)[0])


@pytest.mark.parametrize("rounds", [2, 3, 50])
def test_so_many_normal_workers_stop_once_and_come_back_within_the_run(rounds):
    s = setting(attackers=(1, 4))
    for seed in range(20):
        found = faults.draw(s, 0, 0, 3, rounds, seed)
        running = np.array([faults.up(found, t) for t in range(1, rounds + 1)])
        stops = (np.diff(running.astype(int), axis=0, prepend=1) == -1).sum(axis=0)
        assert stops.sum() == 3
        assert stops.max() == 1
        assert not stops[[1, 4]].any()
        assert running[-1].all()


def test_the_shares_are_the_probabilities():
    """Of 15 000 messages: the standard deviation of a share is 0.004."""
    found, graph = Faults(0.3, 0.4, np.zeros((50, 2), int), 0), np.ones((50, 50), bool)
    some = [faults.sent(found, graph, t) for t in range(1, 7)]
    assert np.mean([in_time for in_time, _ in some]) == pytest.approx(0.7 * 0.6, abs=0.02)
    assert np.mean([late for _, late in some]) == pytest.approx(0.7 * 0.4, abs=0.02)
    assert not np.array_equal(some[0], some[1])


@pytest.mark.parametrize(
    ("crash", "rounds", "message"), [(7, 9, "got 7 for 6"), (1, 1, "needs 2 rounds or more, got 1")]
)
def test_what_cannot_crash_and_come_back_is_refused(crash, rounds, message):
    with pytest.raises(ValueError, match=message):
        faults.draw(setting(), 0, 0, crash, rounds, 0)


# --- Rounds -------------------------------------------------------------------------------------------------

CASES = [
    {"rule": rule, "graph": GRAPHS[graph], "attack": attack, "attackers": (1,)}
    for rule, (graph, attack) in itertools.product(RULES, [("complete", "alie"), ("ring", "arbitrary")])
    if (rule, graph) != ("krum", "ring")
]


@pytest.mark.parametrize("options", CASES, ids=lambda o: f"{o['rule']} {o['attack']}")
def test_without_faults_it_is_the_specification(options):
    s = setting(optimizer="adam", **options)
    found, expected = (rounds_of(s, engine, 4) for engine in (failing(s), train.plain))
    for a, b in zip(found, expected, strict=True):
        assert_same(a, b)
        assert_array_equal(a.sent, b.sent)
        assert_array_equal(a.risks[s.normal], b.risks[s.normal])
        if b.weights is not None:
            assert_array_equal(a.weights[s.normal], b.weights[s.normal])
        assert a.counts == {"too_few": 0}


@pytest.mark.parametrize("options", CASES, ids=lambda o: f"{o['rule']} {o['attack']}")
def test_if_all_is_lost_every_rule_is_local(options):
    s = setting(**options)
    found = rounds_of(s, failing(s, loss=1.0), 3)
    assert_same(found[-1], after(s._replace(rule="local"), 3))
    needs_more = options["rule"] in ("krum", "trimmed-mean")
    assert found[-1].counts == {"too_few": 3 * 6 if needs_more else 0}
    if RULES[s.rule].weighs:
        assert_array_equal(found[-1].weights, np.eye(7))


@given(st.sampled_from(list(RULES)), probability, probability, st.integers(0, 6), st.integers(0, 10**6))
@example("krum", 0.1, 0.9, 0, 0)
def test_any_pattern_leaves_normal_parameters_finite_and_whoever_hears_nobody_local(
    rule, loss, late, crash, seed
):
    """Whatever attackers send, if the rule can stand it: losses may take the majority that some need."""
    worst = 1e3 if rule in ("average", "medoid", "median") else np.nan

    def lie(place, own):
        return np.where(place % 2, worst, 1e3) * own

    with sends(lie, knows=("place", "own"), per_receiver=True) as attack:
        s = setting(rule=rule, attack=attack)
        results = rounds_of(s, failing(s, loss, late, crash, seed=seed))
    for result in results:
        assert np.isfinite(result.state.W[s.normal]).all()
        alone = (result.arrived.fresh | result.arrived.old).sum(axis=1) == 1
        assert_array_equal(result.state.W[alone], result.local[alone])


def test_losses_can_take_the_majority_that_a_rule_needs():
    """Six of seven are honest; worker 5 hears the liar alone, whose message comes first of the two."""
    with sends(lambda own: np.nan * own, knows=("own",)) as attack:
        s = setting(rule="medoid", attack=attack)
        batch, _ = next(train.Draws(s, initial(), 0))
        W = initial()
        W[1] = np.nan
    assert np.isfinite(faults.aggregation_step(s, 5, [0, 1, 2, 5], W[[0, 1, 2, 5]], batch[5])[0]).all()
    assert np.isnan(faults.aggregation_step(s, 5, [1, 5], W[[1, 5]], batch[5])[0]).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("per_receiver", [False, True])
def test_if_all_are_late_a_worker_hears_what_was_sent_in_the_round_before(rule, per_receiver):
    """Beside its own model of this round; in the first round, nobody."""
    knows = ("place", "own") if per_receiver else ("own",)
    with sends(lambda *known: -(known[0] + 1) * known[-1], knows=knows, per_receiver=per_receiver) as attack:
        s = setting(rule=rule, attack=attack)
        first, *later = rounds_of(s, failing(s, late=1.0), 3)
        assert_same(first, after(s._replace(rule="local"), 1))
        before = first
        drawn = itertools.islice(train.Draws(s, initial(), 0), 1, None)
        for found, (batch, _) in zip(later, drawn):
            steps = algorithm.round_(s._replace(rule="local"), algorithm.State(*before.state[:3]), batch)
            for k in s.normal:
                heard = (before.sent[k] if per_receiver else before.sent).copy()
                heard[k] = steps.local[k]
                assert_array_equal(found.state.W[k], algorithm.aggregation_step(s, k, heard, batch[k])[0])
            before = found


def test_a_receiver_combines_what_arrived():
    """In ascending order, each from the round that it was sent in; computed here once more, by hand."""
    s = setting(rule="inverse-risk", attack="sign-flip", graph=GRAPHS["a star and a path"])
    results = rounds_of(s, failing(s, 0.4, 0.6, 2))
    seen = set()
    for before, result in itertools.pairwise(results):
        fresh, old = result.arrived
        for k in s.normal:
            heard = [
                result.sent[l] if fresh[k, l] else before.sent[l] for l in np.flatnonzero(fresh[k] | old[k])
            ]
            risks = [algorithm.risk(s, w, s.X[k], s.y[k]) for w in heard]
            expected = sum(w / r for w, r in zip(heard, risks)) / sum(1 / r for r in risks)
            seen.add((fresh[k].sum(), old[k].sum()))
            if len(heard) > 1:
                np.testing.assert_allclose(result.state.W[k], expected, rtol=1e-12)
    assert len(seen) > 4


def test_a_crashed_worker_keeps_its_model_and_comes_back_with_it():
    s = setting(rule="average", attack="none", attackers=(), optimizer="adam")
    down = NEVER.copy()
    down[3] = 2, 4
    results = rounds_of(s, lambda s: faults.engine(s, Faults(0, 0, down, 0)), 4)
    for result in results[1:3]:
        assert_array_equal(result.state.W[3], results[0].state.W[3])
        assert_array_equal(result.state.memory[:, 3], results[0].state.memory[:, 3])
        others = np.delete(result.local, 3, axis=0).mean(axis=0)
        np.testing.assert_allclose(result.state.W[0], others, rtol=1e-12)
    np.testing.assert_allclose(results[3].state.W[3], results[3].local.mean(axis=0), rtol=1e-12)


def test_too_few_for_a_rule_are_counted_round_by_round():
    s = setting(rule="krum", attack="alie")  # needs 5 of 7
    counted = 0
    for result in rounds_of(s, failing(s, loss=0.3)):
        few = [k for k in s.normal if result.arrived.fresh[k].sum() < 5]
        counted += len(few)
        assert result.counts == {"too_few": counted}
        assert_array_equal(result.state.W[few], result.local[few])
    assert 0 < counted < 6 * ROUNDS


# --- Runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_receiver", [False, True])
def test_a_run_goes_on_from_a_checkpoint_to_the_same_bytes(per_receiver):
    """With what was underway: the checkpoint is made between two rounds, and is arrays and numbers only."""
    with sends(lambda own: -own, knows=("own",), per_receiver=per_receiver) as attack:
        s, W = setting(rule="krum", attack=attack), initial()
        test, engine = held_out(local_data()), failing(s, 0.2, 0.5, 2)
        kept = []
        whole = train.run(s, test, W, 0, 3, engine, after_round=lambda p: kept.append(checkpoints.packed(p())))
        for saved in kept:
            with np.load(io.BytesIO(saved), allow_pickle=False) as file:
                since = checkpoints.unpacked({name: file[name] for name in file.files}, np)
            again = train.run(s, test, W, 0, 3, engine, since=since)
            assert_array_equal(again.W, whole.W)
            assert again.history == whole.history
    assert whole.history["too_few"][-1] > 0
    assert len(kept) > 2


def config(**changes):
    fixed = {"task": "spambase", "rule": "krum", "attack": "alie", "seed": 0, "graph": "complete"}
    return Config(**fixed | tasks.TASKS["spambase"].defaults | {"epochs": 1, "batch_size": 60} | changes)


@pytest.mark.parametrize("plain", [True, False])
def test_a_run_of_the_command_line_has_the_faults_that_it_asks_for(plain):
    run = prepare(config(loss=0.2, late=0.1, crash=2, plain=plain))
    s, test, c = run.setting, run.test, run.config
    found = faults.draw(s, 0.2, 0.1, 2, run.rounds, 0)
    model = run.method.engine(None, run.faults)(s).model
    assert (model is s.model) == plain
    expected = train.run(s._replace(model=model), test, run.W, c.seed, 1, lambda s: faults.engine(s, found))
    made = compute(run)
    assert_array_equal(made.W, expected.W)
    assert made.history["too_few"] == expected.history["too_few"] != [0]


def test_no_faults_are_no_option():
    assert config(loss=0.0, late=0.0, crash=0) == config()
    assert prepare(config()).faults is None
    assert methods.find("krum", plain=True).engine(None) is train.plain


def test_the_table_says_how_often_too_few_arrived():
    quiet, loud = (some_results.result(rule, "foe", 0, 0.5) for rule in ("median", "krum"))
    assert tables.too_few([quiet, loud]) == ""
    c = loud.config
    loud.history["too_few"] = [0.25 * loud.rounds_per_epoch * c.epochs * (c.workers - c.attackers)]
    assert tables.too_few([quiet, loud]).split()[-4:] == ["25", "%", "with", "krum."]
