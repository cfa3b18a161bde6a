"""Whole runs on the specification: draws, evaluation, refusals. Single rounds are in test_algorithm.py."""

import copy
import itertools
import json
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import (
    GRAPHS,
    MODEL,
    PAPERS,
    after,
    apart,
    cast,
    held_out,
    initial,
    local_data,
    run,
    sends,
    setting,
)

from refimpl import aggregate, draws, graphs, released, train
from refimpl.fast import engine as fast
from refimpl.fast import released as fast_released

# --- Runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rule", aggregate.RULES)
def test_a_run_keeps_dtype_and_its_inputs(rule, dtype):
    s = setting(rule=rule, optimizer="adam", step_size=lambda k, t: np.float64(0.01) / t, l2=0.1)
    test = held_out(local_data())
    s, test, W = cast(s, dtype), test._replace(X=test.X.astype(dtype)), initial().astype(dtype)
    for array in (*s.X, *s.y, s.graph, s.attackers, test.X, test.y, test.own, W):
        array.flags.writeable = False
    result = train.run(s, test, W, seed=0, epochs=2, engine=train.plain)
    assert result.W.dtype == dtype
    assert {len(column) for column in result.history.values()} == {2}


def test_the_same_seed_gives_the_same_run_and_another_gives_another():
    s = setting(attack="arbitrary")
    one, same, other = (run(s, 2, seed).W for seed in (0, 0, 1))
    assert_array_equal(one, same)
    assert (one != other).any()


def test_an_attack_changes_neither_batches_nor_initial_values():
    """Under `local` no message matters, so every attack leaves all workers where they were."""
    W = {attack: after(setting(rule="local", attack=attack), 5).state.W for attack in PAPERS}
    for attack in PAPERS:
        assert_array_equal(W[attack], W["none"])


@pytest.mark.parametrize("engine", [train.plain, fast.engine], ids=["plain", "fast"])
def test_evaluation_by_hand(engine):
    """Two normal workers; a model that always says class 0, and one that always says class 1."""
    s = setting(rows=[4, 4, 4], attackers=[1])
    test = held_out(local_data([4, 4, 4]))._replace(y=np.array([0, 0, 1, 1, 1, 1, 0, 1, 1]))
    W = np.zeros((3, MODEL.layout.size))
    MODEL.layout.views(W[0])["b2"][0] = MODEL.layout.views(W[2])["b2"][1] = 5.0
    numbers = train.evaluate(s, test, W, engine(s).model)
    assert numbers["worst_own"] == pytest.approx(2 / 3)
    assert numbers["mean_own"] == pytest.approx(2 / 3)
    assert numbers["worst_whole"] == pytest.approx(3 / 9)
    assert numbers["mean_whole"] == pytest.approx((3 / 9 + 6 / 9) / 2)
    loss = [np.mean(np.log1p(np.exp(-5.0)) + 5.0 * (s.y[k] == wrong)) for k, wrong in ((0, 1), (2, 0))]
    assert numbers["highest_loss"] == pytest.approx(max(loss))
    assert numbers["mean_loss"] == pytest.approx(np.mean(loss))
    assert numbers["not_finite"] == 0


@pytest.mark.parametrize("engine", [train.plain, fast.engine], ids=["plain", "fast"])
def test_history_is_the_evaluation_of_the_states_at_the_ends_of_epochs(engine):
    """After aggregation. Two rounds are an epoch, so that neither the first nor every round is one's end."""
    s, test, W = setting(rule="average", attack="foe", batch_size=4), held_out(local_data()), initial()
    assert draws.rounds_per_epoch(train.sizes(s), s.batch_size) == 2
    states = [result.state.W.copy() for result in itertools.islice(train.rounds(s, W, 3, engine), 6)]
    result = train.run(s, test, W, seed=3, epochs=3, engine=engine)
    expected = [train.evaluate(s, test, states[i], engine(s).model) for i in (1, 3, 5)]
    for name, column in result.history.items():
        assert column == [numbers[name] for numbers in expected], name
    assert len(set(result.history["mean_loss"])) == 3
    assert_array_equal(result.W, states[5])


@pytest.mark.parametrize("graph", GRAPHS)
def test_final_weights_are_a_matrix_over_the_workers(graph):
    s = setting(graph=GRAPHS[graph], attackers=[3])
    C = run(s, 1).weights_at[1]
    assert_allclose(np.delete(C, 3, 0).sum(axis=1), 1)
    assert_array_equal(C[3], 0)
    assert not C[~s.graph].any()
    assert (np.delete(C.diagonal(), 3) > 0).all()  # a receiver always passes its own filter


def test_average_goes_on_and_reports_what_it_lost():
    with sends(lambda own, honest, signals: own * np.nan) as attack:
        result = run(setting(rule="average", attack=attack), 2)
    assert result.history["not_finite"] == [6, 6]
    assert result.history["worst_own"] == [0, 0]
    assert np.isnan(result.history["mean_loss"]).all()


@pytest.mark.parametrize("attack", PAPERS)
def test_all_but_one_may_be_attackers(attack):
    loss = run(setting(attack=attack, attackers=[0, 1, 2, 4, 5, 6]), 3).history["highest_loss"]
    assert np.isfinite(loss).all()
    assert loss[-1] < loss[0]


def test_cooperation_helps_on_this_problem():
    """A sanity check with room to spare: same data for all, no attackers, few rows each."""
    rng = np.random.default_rng(5)
    direction = np.array([1.0, -1.0, 0.5])
    data = []
    for _ in range(7):
        X = rng.normal(size=(6, 3))
        data.append((X, (X @ direction > 0).astype(int)))
    X, y = apart(data)
    X_test = rng.normal(size=(500, 3))
    test = train.HeldOut(X_test, (X_test @ direction > 0).astype(int), np.ones((7, 500), dtype=bool))
    s = setting(attackers=[])._replace(X=X, y=y)
    accuracy = {}
    for rule in ("average", "adaptive", "local"):
        result = train.run(s._replace(rule=rule), test, initial(), seed=0, epochs=40, engine=train.plain)
        accuracy[rule] = result.history["mean_own"][-1]
    assert accuracy["average"] > accuracy["local"] + 0.03
    assert accuracy["adaptive"] > accuracy["local"]


# --- Settings that cannot be trained ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "kruml"}, "unknown rule 'kruml', choose from adaptive, "),
        ({"attack": "alien"}, "unknown attack 'alien', choose from none, "),
        ({"risk": "lokal"}, "unknown risk 'lokal', choose from local, batch"),
        ({"optimizer": "sdg"}, "unknown optimizer 'sdg'"),
        ({"attackers": range(7)}, "at least one worker must be normal, got 7 attackers of 7 workers"),
        ({"attackers": [1, 1]}, r"attackers must be different workers of 0 to 6, got \[1, 1\]"),
        ({"attackers": [-1]}, r"attackers must be different workers of 0 to 6, got \[-1\]"),
        ({"rule": "krum", "attackers": [1, 2, 3]}, r"worker 0, with 6 neighbours: krum needs n >= 2f \+ 3"),
        (
            {"rule": "trimmed-mean", "graph": GRAPHS["a star and a path"]},
            r"worker 2, with 1 neighbours: trimmed_mean needs n >= 2f \+ 1 models, got n=2, f=1",
        ),
        ({"graph": graphs.from_edges(7, [(0, 1)])}, "no path leads from worker 0 to worker 2"),
        ({"risk": None}, "unknown risk None, choose from local, batch"),
        ({"graph": ~np.eye(7, dtype=bool)}, "the graph must be symmetric, and every worker its own neighbour"),
        ({"graph": np.triu(graphs.complete(7))}, "the graph must be symmetric"),
    ],
)
def test_a_setting_that_cannot_be_trained_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        run(setting(**options), 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("secret", "attack hostile knows 'secret', choose from own, attackers, "),
        ("place", "attack hostile knows 'place' of a receiver: needs per_receiver=True"),
    ],
)
def test_what_an_attack_cannot_know_is_refused(name, message):
    with sends(lambda known: known, knows=(name,)) as attack, pytest.raises(ValueError, match=message):
        run(setting(attack=attack), 1)


@pytest.mark.parametrize(
    ("worker", "label", "message"),
    [
        (2, 2, "labels must be 0 to 1, got 0 to 2"),
        (2, -1, "labels must be 0 to 1, got -1 to 1"),
    ],
)
def test_labels_that_are_no_classes_are_refused(worker, label, message):
    s = setting()
    y = [np.where((own == 1) & (k == worker), label, own) for k, own in enumerate(s.y)]
    test = held_out(local_data())
    with pytest.raises(ValueError, match=message):
        train.run(s._replace(y=y), test, initial(), seed=0, epochs=1)


@pytest.mark.parametrize(
    ("X_3", "y_3", "message"),
    [
        (slice(0), slice(0), "every worker needs a row to train on, got none for worker 3"),
        (slice(4), slice(5), "each of the 7 workers needs samples and as many labels"),
    ],
)
def test_every_worker_needs_rows_and_a_label_for_each(X_3, y_3, message):
    s = setting()
    X, y = [*s.X[:3], s.X[3][X_3], *s.X[4:]], [*s.y[:3], s.y[3][y_3], *s.y[4:]]
    with pytest.raises(ValueError, match=message):
        train.run(s._replace(X=X, y=y), held_out(local_data()), initial(), seed=0, epochs=1)


def test_data_of_too_few_workers_is_refused():
    s = setting()
    with pytest.raises(ValueError, match="each of the 7 workers needs samples and as many labels"):
        train.run(s._replace(X=s.X[:6], y=s.y[:6]), held_out(local_data()), initial(), seed=0, epochs=1)


@pytest.mark.parametrize("epochs", [0, -1, 0.5, 1.0, "1", None])
def test_epochs_are_a_whole_number(epochs):
    """Half an epoch would never end."""
    with pytest.raises(ValueError, match=f"needs a whole number of epochs, 1 or more, got {epochs!r}"):
        run(setting(), epochs)
    assert len(run(setting(), np.int64(1)).history["worst_own"]) == 1


def test_a_neighbourhood_is_who_is_heard_not_who_hears():
    """On a path in one direction everyone hears one other, but the first, and is heard by one, but the last."""
    s = setting(graph=np.eye(7, dtype=bool) | np.eye(7, k=-1, dtype=bool))

    def require(n, f):
        if n < 2:
            raise ValueError("nobody is heard")

    with pytest.raises(ValueError, match="worker 0, with 0 neighbours: nobody is heard"):
        train.check_neighbourhoods(s, require)
    train.check_neighbourhoods(s._replace(attackers=np.array([0])), require)


def test_every_worker_needs_a_row_to_be_tested_on():
    test = held_out(local_data())
    test.own[3] = False
    with pytest.raises(ValueError, match="every worker needs a row of its own to be tested on"):
        train.run(setting(), test, initial(), seed=0, epochs=1)


def test_whom_the_normal_workers_listen_to():
    s = setting(rows=[4, 4, 4], attackers=[1])
    C = np.array([[0.5, 0.25, 0.25], [0, 0, 0], [0, 0, 1.0]])
    assert train.trust_summary(s, C) == {"attacker_weight": 0.125, "passing": 1.0}
    alone = np.array([[0, 0.5, 0.5], [0, 0, 0], [0, 0, 1.0]])  # one that does not pass its own filter
    assert train.trust_summary(s, alone) == {"attacker_weight": 0.25, "passing": 1.0}


def test_weights_are_kept_after_some_epochs():
    result = run(setting(), 9)
    assert list(result.weights_at) == [1, 2, 4, 9]
    assert len(result.history["passing"]) == 9
    assert run(setting(rule="median"), 2).weights_at == {}


def test_a_run_may_be_evaluated_less_often():
    s, test, W = setting(), held_out(local_data()), initial()
    often, seldom = (train.run(s, test, W, 0, 9, every=every) for every in (1, 4))
    assert train.evaluation_epochs(9, 4) == [4, 8, 9]
    assert train.evaluation_epochs(8, 4) == [4, 8]
    assert train.evaluation_epochs(1, 4) == [1]
    for name, column in often.history.items():
        assert seldom.history[name] == [column[3], column[7], column[8]]
    assert list(seldom.weights_at) == list(often.weights_at)  # also after epochs that are not evaluated
    assert seldom.accuracy == often.accuracy


def test_the_number_of_epochs_costs_no_memory():
    """Not even a number for each: a billion of them would be tens of gigabytes before the first round."""
    s, test, W = setting(), held_out(local_data()), initial()

    def stop(progress):
        raise InterruptedError

    tracemalloc.start()
    try:
        with pytest.raises(InterruptedError):
            train.run(s, test, W, 0, 10**6, after_round=stop)
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()


# --- Going on after a stop ------------------------------------------------------------------------------------


def places(s, epochs, engine):
    """The result of a run, and where it was after each round but the last, copied."""
    found = []
    args = (s, held_out(local_data()), initial(), 0, epochs, engine)
    result = train.run(*args, after_round=lambda progress: found.append(copy.deepcopy(progress())))
    return result, found, args


@pytest.mark.parametrize("attack", ["arbitrary", "alie"])
@pytest.mark.parametrize("name", ["plain", "fast", "released", "fast released"])
def test_a_run_goes_on_from_any_round_to_the_same_bytes(name, attack):
    on = ["smoothed-risk", "previous-message", "idle-attackers"]
    engines = {"plain": train.plain, "fast": fast.engine, "released": lambda s: released.engine(s, on)}
    engine = (engines | {"fast released": lambda s: fast_released.engine(s, on)})[name]
    result, found, args = places(setting(attack=attack, optimizer="adam"), 4, engine)
    assert len(found) == 4 * 2 - 1
    for progress in found:
        place = json.loads(json.dumps(progress.position))  # as a file would hold it
        again = train.run(*args, since=copy.deepcopy(progress)._replace(position=place))
        assert_array_equal(again.W, result.W)
        assert again.history == result.history
        assert list(again.weights_at) == list(result.weights_at)
        assert_array_equal(list(again.weights_at.values()), list(result.weights_at.values()))
        assert again.accuracy == result.accuracy
