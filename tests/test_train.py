"""Algorithm 1 step by step, hostile messages, whole runs, refusals. Against the oracle: test_algorithm.py."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import aggregate, attacks, draws, graphs, models, train

SIZES = (3, 4, 2)
ROWS = [7, 4, 9, 5, 8, 4, 6]  # ragged on purpose, and fewer than a batch
MODEL = models.mlp(SIZES)


def local_data(rows, seed=0):
    """One (X, y) per worker; the classes lie apart by a different direction for each."""
    rng = np.random.default_rng(seed)
    data = []
    for n in rows:
        y = rng.integers(0, 2, n)
        data.append((rng.normal(size=(n, 3)) + 2 * y[:, None] * rng.normal(size=3), y))
    return data


def stacked(data, test_rows=3):
    """train.Data of these; each worker's last `test_rows` rows are also its test split."""
    N, longest = len(data), max(len(y) for _, y in data)
    X, y = np.zeros((N, longest, 3)), np.full((N, longest), -1)
    for k, (Xk, yk) in enumerate(data):
        X[k, : len(yk)], y[k, : len(yk)] = Xk, yk
    X_test = np.concatenate([Xk[-test_rows:] for Xk, _ in data])
    y_test = np.concatenate([yk[-test_rows:] for _, yk in data])
    own = np.repeat(np.arange(N), test_rows) == np.arange(N)[:, None]
    return train.Data(X, y, X_test, y_test, own)


def setting(rows=ROWS, graph=None, attackers=(1,), **options):
    graph = graphs.complete(len(rows)) if graph is None else graph
    options = {"lr": 0.3, "batch_size": 5} | options
    return train.Setting(MODEL, stacked(local_data(rows)), graph, np.array(attackers, dtype=int), **options)


def initial(N=7, seed=0):
    return draws.initial(MODEL.layout, N, draws.stream(seed, "init"))


def after(s, count, W=None, seed=0):
    """The last of `count` rounds."""
    rounds = train.rounds(s, initial(len(s.graph)) if W is None else W, seed)
    return next(itertools.islice(rounds, count - 1, None))


GRAPHS = {
    "complete": graphs.complete(7),
    "ring": graphs.ring(7),
    "a star and a path": graphs.from_edges(7, [(0, k) for k in range(1, 5)] + [(4, 5), (5, 6)]),
}


def test_rows_beyond_one_slice_count(monkeypatch):
    """Scoring in slices of 2 rows, with receivers running out of rows at different times, changes nothing."""
    s = setting(rule="inverse-risk", graph=GRAPHS["a star and a path"])
    whole = after(s, 2)
    monkeypatch.setattr(train, "SLICE", 2)
    assert_allclose(after(s, 2).state.W, whole.state.W, rtol=1e-12)


@pytest.mark.parametrize("name", GRAPHS)
def test_neighbourhoods_beyond_what_fits_in_memory_are_taken_in_turn(name, monkeypatch):
    s = setting(graph=GRAPHS[name], attack="alie", attackers=[1, 4])
    whole, count = after(s, 2), len(train.groups(s))
    monkeypatch.setattr(train, "FLOATS", 0)
    assert len(train.groups(s)) > count or name == "complete"
    assert all(len(group.members) == 1 for group in train.groups(s))
    assert_allclose(after(s, 2).state.W, whole.state.W, rtol=1e-12)


@pytest.mark.parametrize("rule", ["adaptive", "inverse-risk", "average", "median", "medoid"])
@pytest.mark.parametrize("attackers", [[0], [1, 4], [3, 5, 6], [0, 1, 2, 3, 4, 6]], ids=str)
@pytest.mark.parametrize("name", [*GRAPHS, "as many messages as members"])
@pytest.mark.parametrize("attack", attacks.COLLUDING)
def test_a_message_of_several_is_scored_once_and_counts_for_all(attack, name, attackers, rule, monkeypatch):
    """The same as if every attacker sent a message of its own, which happened to be the same."""
    if name not in GRAPHS:  # 0 to 3 hear all but one of the honest, and the attackers
        monkeypatch.setattr(train, "FLOATS", 0)
    crowd = graphs.from_edges(7, [*itertools.combinations([0, 1, 2, 4, 5, 6], 2), (3, 5), (3, 6)])
    s = setting(graph=GRAPHS.get(name, crowd), rule=rule, attack=attack, attackers=attackers, risk="batch")
    one_each = s._replace(attack=lambda *given: np.stack([attacks.ATTACKS[attack](*given)] * len(attackers)))
    scored, neighbour_risks = [], train.neighbour_risks
    monkeypatch.setattr(
        train,
        "neighbour_risks",
        lambda model, M, *rest: scored.append(M.shape[1]) or neighbour_risks(model, M, *rest),
    )
    once, each = after(s, 2), after(one_each, 2)
    assert_array_equal(once.sent[attackers[0]], once.sent[attackers[-1]])
    for part in ("sent", "risks", "weights"):
        for a, b in zip(getattr(once, part), getattr(each, part), strict=True):
            assert_allclose(a, b, rtol=1e-12)
    assert_allclose(once.state.W, each.state.W, rtol=1e-12)
    if rule in aggregate.WEIGHTS and name == "complete":
        assert scored == [8 - len(attackers)] * 2 + [7, 7]


def test_what_is_kept_for_the_next_setting_cannot_be_written_to():
    s = setting(attack="alie", attackers=[1, 4])
    for kept in (s.honest, s.message, s.sender):
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 3


def test_an_attack_may_be_an_object_without_a_hash():
    class Zero:
        __hash__ = None

        def __call__(self, own, honest, signals):
            return 0 * own

    assert not after(setting(attack=Zero(), attackers=[2]), 1).sent[2].any()


# --- One round, step by step --------------------------------------------------------------------------------


def test_a_round_shows_each_step():
    s = setting(attack="sign-flip", attackers=[2])
    W = initial()
    result = after(s, 1, W)
    rows = next(iter(draws.batches(s.data.sizes(), 5, 2, draws.stream(0, "batches"))))
    for k in range(7):
        X, y = s.data.X[k, rows[k]], s.data.y[k, rows[k]]
        assert_allclose(result.gradient[k], MODEL.gradient(W[k], X, y), rtol=1e-12)
    assert_allclose(result.local, W - 0.3 * result.gradient, rtol=1e-15)
    assert_array_equal(result.sent[2], -result.local[2])
    assert_array_equal(np.delete(result.sent, 2, 0), np.delete(result.local, 2, 0))
    assert_array_equal(result.state.W[2], result.local[2])  # an attacker goes on from its own local step
    (group,), (r,), (c,) = train.groups(s), result.risks, result.weights
    for i, k in enumerate(group.receivers[0]):
        n = s.data.sizes()[k]
        expected = [MODEL.risk(w, s.data.X[k, :n], s.data.y[k, :n]) for w in result.sent]
        assert_allclose(r[0, i], expected, rtol=1e-12)
        assert_array_equal(c[0, i], aggregate.adaptive_weights(r[0, i], int(k)))
        assert_allclose(result.state.W[k], c[0, i] @ result.sent, rtol=1e-12)


def test_batch_risk_is_on_the_rounds_own_batch():
    s = setting(risk="batch", attackers=[])
    result = after(s, 1)
    rows = draws.batches(s.data.sizes(), 5, 2, draws.stream(0, "batches"))[0]
    (group,) = train.groups(s)
    for i, k in enumerate(group.receivers[0]):
        expected = [MODEL.risk(w, s.data.X[k, rows[k]], s.data.y[k, rows[k]]) for w in result.sent]
        assert_allclose(result.risks[0][0, i], expected, rtol=1e-12)


def test_smoothing_is_a_running_average_that_starts_at_the_first_risk():
    s = setting(smoothing=0.25)
    first, second = itertools.islice(train.rounds(s, initial(), 0), 2)
    expected = 0.75 * first.risks[0] + 0.25 * second.risks[0]
    assert_allclose(second.state.smoothed[0], expected, rtol=1e-14)
    own = train.groups(s)[0].own
    assert_array_equal(second.weights[0], aggregate.adaptive_weights(expected, own))
    assert_array_equal(first.state.smoothed[0], first.risks[0])


def test_a_smoothed_risk_that_is_lost_starts_again():
    smoothed = train.smooth(np.array([np.inf, np.nan, 1.0]), np.array([2.0, 3.0, np.inf]), 0.5)
    assert_array_equal(smoothed, [2, 3, np.inf])


# --- Attackers that send what they like ---------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e300])
@pytest.mark.parametrize("rule", ["adaptive", "median", "krum", "medoid", "trimmed-mean", "inverse-risk"])
def test_hostile_numbers_do_not_take_down_an_honest_worker(rule, value):
    def attack(own, honest, signals):
        sent = own.copy()
        sent[0] = value  # a whole model
        sent[1, -1] = value  # one bias: a model whose risk may well be finite
        return sent

    s = setting(rows=[6] * 9, rule=rule, attack=attack, attackers=[0, 5])
    result = train.run(s, initial(9), seed=0, epochs=3)
    assert np.isfinite(result.W).all()
    assert result.history["not_finite"] == [0, 0, 0]


def test_a_model_with_an_infinite_but_unused_entry_is_not_trusted():
    """Its risk is finite: the bias -inf only silences a hidden unit. Combining it would spread the -inf."""

    def attack(own, honest, signals):
        sent = honest[:1].copy()
        MODEL.layout.views(sent)["b1"][:, 0] = -np.inf
        return sent

    s = setting(attack=attack, attackers=[0])
    result = after(s, 1)
    assert np.isinf(result.risks[0][0, :, 0]).all()
    assert np.isfinite(result.state.W).all()


def test_average_goes_on_and_reports_what_it_lost():
    s = setting(rule="average", attack=lambda own, honest, signals: own * np.nan)
    result = train.run(s, initial(), seed=0, epochs=2)
    assert result.history["not_finite"] == [6, 6]
    assert result.history["worst_own"] == [0, 0]
    assert np.isnan(result.history["mean_loss"]).all()


@pytest.mark.parametrize("attack", attacks.ATTACKS)
def test_all_but_one_may_be_attackers(attack):
    s = setting(attack=attack, attackers=[0, 1, 2, 4, 5, 6])
    result = train.run(s, initial(), seed=0, epochs=3)
    loss = result.history["highest_loss"]
    assert np.isfinite(loss).all()
    assert loss[-1] < loss[0]


def test_an_attack_changes_neither_batches_nor_initial_values():
    """Under `local` no message matters, so every attack leaves all workers where they were."""
    W = {attack: after(setting(rule="local", attack=attack), 5).state.W for attack in attacks.ATTACKS}
    for attack in attacks.ATTACKS:
        assert_array_equal(W[attack], W["none"])


# --- Runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("rule", aggregate.NAMES)
def test_a_run_keeps_dtype_and_its_inputs(rule, dtype):
    s = setting(rule=rule, optimizer="adam", lr=0.01)
    s = s._replace(data=s.data.to(np, dtype))
    W = initial().astype(dtype)
    for array in (*s.data, W):
        array.flags.writeable = False
    result = train.run(s, W, seed=0, epochs=2)
    assert result.W.dtype == dtype
    assert {len(column) for column in result.history.values()} == {2}


def test_the_same_seed_gives_the_same_run_and_another_gives_another():
    s = setting(attack="arbitrary")
    one, same, other = (train.run(s, initial(), seed, epochs=2).W for seed in (0, 0, 1))
    assert_array_equal(one, same)
    assert (one != other).any()


def test_evaluation_by_hand():
    """Two normal workers; a model that always says class 0, and one that always says class 1."""
    s = setting(rows=[4, 4, 4], attackers=[1])
    data = s.data._replace(y_test=np.array([0, 0, 1, 1, 1, 1, 0, 1, 1]))
    W = np.zeros((3, MODEL.layout.size))
    MODEL.layout.views(W)["b2"][0, 0] = MODEL.layout.views(W)["b2"][2, 1] = 5.0
    numbers = train.evaluate(s._replace(data=data), W)
    assert numbers["worst_own"] == pytest.approx(2 / 3)
    assert numbers["mean_own"] == pytest.approx(2 / 3)
    assert numbers["worst_whole"] == pytest.approx(3 / 9)
    assert numbers["mean_whole"] == pytest.approx((3 / 9 + 6 / 9) / 2)
    loss = [np.mean(np.log1p(np.exp(-5.0)) + 5.0 * (data.y[k] == wrong)) for k, wrong in ((0, 1), (2, 0))]
    assert numbers["highest_loss"] == pytest.approx(max(loss))
    assert numbers["mean_loss"] == pytest.approx(np.mean(loss))
    assert numbers["not_finite"] == 0


@pytest.mark.parametrize("graph", GRAPHS)
def test_final_weights_are_a_matrix_over_the_workers(graph):
    s = setting(graph=GRAPHS[graph], attackers=[3])
    C = train.run(s, initial(), seed=0, epochs=1).weights
    assert_allclose(np.delete(C, 3, 0).sum(axis=1), 1)
    assert_array_equal(C[3], 0)
    assert not C[~s.graph].any()
    assert (np.delete(C.diagonal(), 3) > 0).all()  # a receiver always passes its own filter


def test_rules_without_weights_have_none():
    assert train.run(setting(rule="median"), initial(), seed=0, epochs=1).weights is None


def test_cooperation_helps_on_this_problem():
    """A sanity check with room to spare: same data for all, no attackers, few rows each."""
    rng = np.random.default_rng(5)
    direction = np.array([1.0, -1.0, 0.5])
    data = []
    for _ in range(7):
        X = rng.normal(size=(6, 3))
        data.append((X, (X @ direction > 0).astype(int)))
    X_test = rng.normal(size=(500, 3))
    whole = stacked(data)._replace(X_test=X_test, y_test=(X_test @ direction > 0).astype(int))
    whole = whole._replace(own_test=np.ones((7, 500), dtype=bool))
    s = setting(attackers=[])._replace(data=whole)
    accuracy = {
        rule: train.run(s._replace(rule=rule), initial(), seed=0, epochs=40).history["mean_own"][-1]
        for rule in ("average", "adaptive", "local")
    }
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
        ({"attackers": range(7)}, "one worker must be normal, got 7 attackers of 7 workers"),
        ({"attackers": [1, 1]}, r"attackers must be different workers of 0 to 6, got \[1, 1\]"),
        ({"attackers": [-1]}, r"attackers must be different workers of 0 to 6, got \[-1\]"),
        ({"smoothing": 0.0}, r"smoothing must be in \(0, 1\]"),
        ({"rule": "krum", "attackers": [1, 2, 3]}, r"worker 0, with 6 neighbours: krum needs n >= 2f \+ 3"),
        (
            {"rule": "trimmed-mean", "graph": GRAPHS["a star and a path"]},
            r"worker 2, with 1 neighbours: trimmed_mean needs n >= 2f \+ 1 models, got n=2, f=1",
        ),
        ({"graph": graphs.from_edges(7, [(0, 1)])}, "no path leads from worker 0 to worker 2"),
    ],
)
def test_a_setting_that_cannot_be_trained_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        train.run(setting(**options), initial(), seed=0, epochs=1)
