"""What the released code does differently from the paper, one difference at a time, by hand."""

import itertools
import math

import numpy as np
import oracle_layers
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from problems import GRAPHS, MODEL, SIZES, after, initial, oracle_rounds, setting

from refimpl import aggregate, algorithm, draws, layers, methods, released, train
from refimpl.engine import Engine
from refimpl.experiments import cli, grid, tasks
from refimpl.experiments.options import parse
from refimpl.experiments.results import protocol
from refimpl.fast import engine as fast

BATCH = np.arange(35).reshape(7, 5) % 4


def first_round(on, signals=None, **options):
    """A setting, and its first round with these differences."""
    s = setting(**{"attackers": [1, 4]} | options)
    return s, released.round_(s, algorithm.start(s, initial()), BATCH, signals, on)[0]


def second_round(on, **options):
    """A setting, the first round's state and the second round."""
    s, first = first_round(on, **options)
    return s, first, released.round_(s, first.state, BATCH, None, on)[0]


def averages(share):
    """An engine for `train` whose running averages start at the first risks, as the vectors have them."""

    def engine(s):
        before = None

        def step(state, batch, signals=None):
            nonlocal before
            made, before = released.round_(s, state, batch, signals, ["smoothed-risk"], before, share)
            return made

        return Engine(step, s.model)

    return engine


# --- Algorithm 1 with nothing switched on --------------------------------------------------------------------


@pytest.mark.parametrize("attack", ["none", "arbitrary", "alie"])
@pytest.mark.parametrize("rule", aggregate.RULES)
def test_without_differences_it_is_algorithm_1(rule, attack):
    s = setting(rule=rule, attack=attack, attackers=[1, 4])
    one, other = after(s, 3), after(s, 3, engine=released.engine)
    for name in ("gradient", "local", "sent", "risks"):
        assert_array_equal(getattr(other, name), getattr(one, name))
    assert_array_equal(other.state.W, one.state.W)
    assert (other.weights is None) == (one.weights is None)
    if one.weights is not None:
        assert_array_equal(other.weights, one.weights)


def test_nobody_lies_and_all_differences_that_are_about_attackers_change_nothing():
    s = setting(attackers=[])
    on = ["previous-message", "idle-attackers", "tensor-signals", "minus-the-mean", "deviation"]
    assert_array_equal(after(s, 3, engine=lambda s: released.engine(s, on)).state.W, after(s, 3).state.W)


# --- Smoothed risks ------------------------------------------------------------------------------------------


def test_smoothing_by_hand():
    assert_array_equal(released.smooth(np.array([4.0, 0.0]), np.array([8.0, 1.0]), 0.25), [5, 0.25])


def test_an_average_that_is_lost_starts_again():
    average = released.smooth(np.array([np.inf, np.nan, 1.0]), np.array([2.0, 3.0, np.inf]), 0.5)
    assert_array_equal(average, [2, 3, np.inf])


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, np.nan])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ValueError, match=r"smoothing must be in \(0, 1\]"):
        released.smooth(np.ones(2), np.ones(2), share)


def test_weights_come_from_a_running_average_that_starts_at_one():
    s = setting(attackers=[])
    rounds = train.rounds(s, initial(), 0, lambda s: released.engine(s, ["smoothed-risk"]))
    first, second = itertools.islice(rounds, 2)
    L = 0.95 + 0.05 * first.risks
    assert_allclose(first.weights, [aggregate.adaptive_weights(r, k) for k, r in enumerate(L)], rtol=1e-12)
    L = 0.95 * L + 0.05 * second.risks
    assert_allclose(second.weights, [aggregate.adaptive_weights(r, k) for k, r in enumerate(L)], rtol=1e-12)
    assert_allclose(second.state.W, second.weights @ second.sent, rtol=1e-12)


def test_a_round_returns_the_averages_that_the_next_one_starts_from():
    s = setting(attack="sign-flip", graph=GRAPHS["ring"])
    state, before = after(s, 1).state, np.full((7, 7), 2.0)
    result, L = released.round_(s, state, BATCH, None, ["smoothed-risk"], before, 0.25)
    heard = s.graph.copy()
    heard[s.attackers] = False
    assert_allclose(L[heard], 1.5 + 0.25 * result.risks[heard], rtol=1e-12)


@pytest.mark.parametrize("risk", ["local", "batch"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("rule", ["adaptive", "inverse-risk", "median"])
def test_rounds_equal_the_scalar_algorithm_with_smoothing(rule, risk, optimizer):
    options = {"rule": rule, "risk": risk, "optimizer": optimizer, "step_size": 0.05}
    s = setting(**options, graph=GRAPHS["a star and a path"], attack="sign-flip")
    expected = oracle_rounds(s, initial(), 4, oracle_layers.mlp_shapes(SIZES), smoothing=0.25)
    assert_allclose(after(s, 4, engine=averages(0.25)).state.W, expected, rtol=1e-9, atol=1e-12)


# --- Attackers ----------------------------------------------------------------------------------------------


def test_attackers_that_do_not_train_flip_the_sign_of_their_last_message():
    s, first, second = second_round(["idle-attackers"], attack="sign-flip")
    assert_array_equal(first.sent[s.attackers], -initial()[s.attackers])
    assert_array_equal(second.sent[s.attackers], initial()[s.attackers])
    assert_array_equal(second.local[s.normal], after_local(s, first.state)[s.normal])


def test_the_arbitrary_messages_of_idle_attackers_soon_are_nothing():
    """Each is the last one times less than a half."""
    on = ["idle-attackers", "tensor-signals"]
    s = setting(attackers=[1, 4], attack="arbitrary")
    last = after(s, 20, engine=lambda s: released.engine(s, on))
    assert abs(last.sent[s.attackers]).max() < 2**-20 * abs(initial()[s.attackers]).max()
    alone = after(s, 20, engine=lambda s: released.engine(s, ["tensor-signals"]))
    assert abs(alone.sent[s.attackers]).max() > 0.01


def after_local(s, state):
    """w_hat of all workers."""
    return algorithm.round_(s, state, BATCH).local


def test_idle_attackers_remember_no_gradients():
    s, _, second = second_round(["idle-attackers"], attack="sign-flip", optimizer="adam")
    assert (second.state.memory[:, s.attackers] == 0).all()
    assert (second.state.memory[:, s.normal] != 0).any(axis=(0, 2)).all()


def test_attackers_are_scored_by_their_previous_message_while_the_weight_goes_to_the_new_one():
    s, first, second = second_round(["previous-message", "idle-attackers"], attack="sign-flip")
    for k in s.normal:
        scored = [algorithm.risk(s, w, s.X[k], s.y[k]) for w in first.sent[s.attackers]]
        assert_array_equal(second.risks[k, s.attackers], scored)
        assert_allclose(second.state.W[k], second.weights[k] @ second.sent, rtol=1e-12)
    assert (second.sent[s.attackers] == -first.sent[s.attackers]).all()


def test_attackers_that_train_are_scored_by_their_message_after_a_local_step():
    s, first, second = second_round(["previous-message"], attack="sign-flip")
    assert_array_equal(first.state.W[s.attackers], first.sent[s.attackers])
    stored = after_local(s, first.state)[s.attackers]
    for k in s.normal:
        scored = [algorithm.risk(s, w, s.X[k], s.y[k]) for w in stored]
        assert_array_equal(second.risks[k, s.attackers], scored)


@pytest.mark.parametrize(("name", "high"), [("tensor-signals", 0.5), ("small-tensor-signals", 0.1)])
def test_the_arbitrary_attack_with_one_number_per_tensor(name, high):
    signals = draws.signals(2, MODEL.layout.size, np.random.default_rng(0))
    s, made = first_round([name], signals, attack="arbitrary")
    ratio = made.sent[s.attackers] / made.local[s.attackers]
    for of_one, drawn in zip(ratio, signals):
        for tensor, signal in zip(MODEL.layout.views(of_one).values(), MODEL.layout.views(drawn).values()):
            assert_allclose(tensor, high * (signal.flat[0] + 0.5), rtol=1e-12)
    assert 0 < ratio.min() < ratio.max() < high


def test_fall_of_empires_over_all_workers():
    s, made = first_round(["minus-the-mean"], attack="foe")
    for sent in made.sent[s.attackers]:
        assert_allclose(sent, [-math.fsum(column) / 7 for column in made.local.T], rtol=1e-12)


def test_a_little_is_enough_as_the_deviation_alone():
    s, made = first_round(["deviation"], attack="alie")
    for i, column in enumerate(made.local.T):
        mean = math.fsum(column) / 7
        deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in column) / 6)
        assert_allclose(made.sent[s.attackers, i], deviation, rtol=1e-12)


# --- Rules and the network ----------------------------------------------------------------------------------


def test_the_lower_median():
    W = np.array([[1.0, 4.0], [2.0, 9.0], [7.0, np.nan], [5.0, -1.0]])
    assert_array_equal(released.lower_median(W, None, 0, 0), [2, 4])
    assert_array_equal(released.lower_median(W[:3], None, 0, 0), [2, 9])
    _, made = first_round(["lower-median"], rule="median", attackers=[], graph=GRAPHS["a star and a path"])
    assert_array_equal(made.state.W[6], np.minimum(made.sent[5], made.sent[6]))


def test_krum_with_distances_that_are_not_squared():
    """The two nearest of the last are 1 and 3 away, of the fourth 2 and sqrt(5): 4 < 4.24, but 10 > 9."""
    W = np.array([[0.0, 0.0], [4.0, 0.0], [3.0, 4.0], [4.0, 2.0], [1.0, 0.0]])
    assert_array_equal(released.unsquared_krum(W, None, 0, 1), W[4])
    assert_array_equal(aggregate.krum(W, 1), W[3])
    with pytest.raises(ValueError, match="krum needs n >= 2f"):
        released.unsquared_krum(W, None, 0, 2)


def test_sigmoids_under_the_cross_entropy():
    model = released.sigmoid_outputs(MODEL)
    w, X, y = initial(1)[0], np.array([[1.0, -2.0, 0.5]]), np.array([1])
    a, b = (1 / (1 + math.exp(-z)) for z in MODEL.logits(w, X)[0])
    assert_allclose(model.risk(w, X, y), math.log(math.exp(a) + math.exp(b)) - b, rtol=1e-12)
    step = 1e-6 * np.eye(len(w))
    numeric = [(model.risk(w + e, X, y) - model.risk(w - e, X, y)) / 2e-6 for e in step]
    assert_allclose(model.gradient(w, X, y), numeric, rtol=1e-5, atol=1e-9)
    assert_array_equal(layers.sigmoid(np.array([-1e4, 0, 1e4])), [0, 0.5, 1])


# --- The command line ---------------------------------------------------------------------------------------


def config(task, options):
    return cli.configs(task, parse(task, options.split())[1])[0]


def test_the_protocol_is_all_differences_of_the_task():
    c = config("spambase", "--protocol released")
    assert (c.risk, c.optimizer, c.lr, c.features, c.partition) == (
        "batch",
        "adam",
        0.005,
        "raw",
        "label-shards",
    )
    assert set(released.DIFFERENCES) - set(c.released) == {"small-tensor-signals", "label-pairs"}
    har = config("har", "--protocol released")
    assert (har.risk, har.optimizer, har.lr, har.partition) == ("batch", "sgd", 0.01, "by-subject")
    assert "idle-attackers" not in har.released  # on HAR they train
    mnist = config("mnist", "--protocol released")
    assert (mnist.partition, mnist.lr, "idle-attackers" in mnist.released) == ("label-pairs", 0.001, True)


def test_single_differences_and_what_is_typed_besides_counts_more():
    c = config("spambase", "--released adam smoothed-risk --lr 0.1")  # whose order does not matter
    assert (c.released, c.optimizer, c.lr, c.risk) == (("smoothed-risk", "adam"), "adam", 0.1, "batch")
    assert c.features == "standardised"


@pytest.mark.parametrize("names", [("adam", "adam"), ("label-shards", "label-pairs"), ("adam", "eve")])
def test_differences_that_contradict_each_other_are_refused(names):
    """Not the first, not the last, and a network is not changed twice."""
    for ask in (released.combined, lambda names: methods.find("average", names)):
        with pytest.raises(
            ValueError, match=r"adam twice|contradict each other in partition|unknown difference 'eve'"
        ):
            ask(names)


def test_earlier_results_with_another_split_are_told_from_todays():
    """Files of 0.1 have the partition `shards` with `label-shards`: they are still read, and say so."""
    c = config("spambase", "--protocol released --partition shards")
    assert protocol(c) == "protocol released but partition shards"


def test_differences_reach_the_engine_and_the_network():
    engine_of = lambda options: tasks.method_of(config("spambase", options)).engine(None)
    assert engine_of("--released adam raw-features label-shards") is fast.engine
    assert engine_of("--released adam lower-median").keywords == {"differences": ("lower-median",)}
    setting, _, _ = tasks.build(config("spambase", "--released sigmoid-outputs"))
    assert setting.model.layers[-1].forward is layers.sigmoid


@pytest.mark.parametrize("name", released.differences_of("spambase"))
def test_every_difference_moves_some_run(name):
    """Alone, on one epoch, with the attack and the rule that it is about."""
    difference = released.DIFFERENCES[name]
    attack, rule = next(iter(difference.attacks), "sign-flip"), next(iter(difference.rules), "adaptive")
    options = f"--attacks {attack} --rules {rule} --epochs 1 --batch-size 100 --risk batch"
    paper, other = (grid.run(config("spambase", f"{options} {more}")) for more in ("", f"--released {name}"))
    assert paper.history != other.history
