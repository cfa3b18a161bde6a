"""A round in processes that hold some of the workers each: threads here, ranks in test_mpi_peers.py."""

import itertools
import threading

import numpy as np
import pytest
from problems import GRAPHS, PAPERS, after, cast, diminishing, initial, setting

from refimpl import algorithm, graphs, peers, train
from refimpl.aggregate import RULES

ROWS = [7, 4, 9, 5, 8, 4, 6, 5, 7, 6]  # of ten workers


def cases():
    """(name, options of a setting): every rule against every attack, on the complete graph and a sparse one."""
    sparse = graphs.random_regular(10, 4, np.random.default_rng(1))
    for (where, graph), rule, attack in itertools.product(
        {"complete": graphs.complete(10), "sparse": sparse}.items(), RULES, PAPERS
    ):
        liars = [2, 7, 8] if where == "complete" else [2]
        options = {"graph": graph, "attackers": liars, "rule": rule, "attack": attack}
        yield f"{rule} {attack} {where}", options


def share(s, W, workers):
    """A process's setting and state, and the draws that all processes have in common."""
    state = algorithm.start(s, W)
    X, y = ([rows if k in workers else rows[:0] for k, rows in enumerate(of_all)] for of_all in (s.X, s.y))
    own = s._replace(X=X, y=y)
    state = state._replace(W=W[workers], memory=state.memory[:, workers])
    return own, state, train.Draws(own, W, 0, train.sizes(s))


def in_one_process(s, W, count):
    train.check(s)
    return after(s, count, W).state.W


# --- A thread per process, which holds what a process would -------------------------------------------------


class Post:
    """Delivers between threads what a channel lets through."""

    def __init__(self, sends, parts):
        self.sends, self.parts = sends, parts
        self.barrier, self.boxes = threading.Barrier(len(parts)), [None] * len(parts)
        self.carried = 0  # models

    def of(self, p):
        return lambda models: self.exchange(p, models)

    def exchange(self, p, models):
        self.boxes[p] = models
        self.barrier.wait(timeout=60)
        others = [q for q in range(len(self.parts)) if q != p]
        heard = {
            k: self.boxes[q][k].copy()
            for q in others
            for k in peers.to_send(self.sends, self.parts[q], self.parts[p])
        }
        self.barrier.wait(timeout=60)
        self.carried += len(heard)
        return heard


def by_threads(s, W, count, processes, hear="all"):
    """W after `count` rounds, and the two posts."""
    parts, hears = peers.deal(len(W), processes), peers.channels(s, hear)
    posts, final = [Post(sends, parts) for sends in hears], [None] * processes

    def work(p):
        own, state, drawn = share(s, W, parts[p])
        for batch, signals in itertools.islice(drawn, count):
            state = peers.round_(own, parts[p], state, batch, signals, hears, *(post.of(p) for post in posts))
        final[p] = state.W

    threads = [threading.Thread(target=work, args=(p,)) for p in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return np.concatenate(final), posts


@pytest.mark.parametrize("processes", [10, 4])
@pytest.mark.parametrize("attack", PAPERS)
@pytest.mark.slow
def test_processes_compute_what_one_does(attack, processes):
    for name, options in cases():
        if options["attack"] == attack and (RULES[options["rule"]].scores or processes == 10):
            s, W = setting(ROWS, **options), initial(10)
            np.testing.assert_array_equal(by_threads(s, W, 2, processes)[0], in_one_process(s, W, 2), name)


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "adam", "step_size": diminishing},
        {"risk": "batch", "l2": 0.1},
        {"graph": GRAPHS["a star and a path"], "attackers": (), "attack": "none"},
        {"attack": "arbitrary"},
        {"graph": graphs.ring(7), "attack": "arbitrary"},
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_option_of_a_round_reaches_the_processes(options, dtype):
    """The attackers are not neighbours: on the ring each knows its own signals and not the other's."""
    s = cast(setting(**{"attackers": (1, 4), "attack": "alie"} | options), dtype)
    W = initial().astype(dtype)
    made = by_threads(s, W, 4, 7)[0]
    assert made.dtype == dtype
    np.testing.assert_array_equal(made, in_one_process(s, W, 4))


def test_a_worker_sends_each_neighbour_one_model_a_round():
    graph = GRAPHS["a star and a path"]
    s = setting(graph=graph, attackers=(2, 5), attack="sign-flip")
    _, posts = by_threads(s, initial(), 3, 7)
    assert sum(post.carried for post in posts) == 3 * (graph.sum() - 7)


def test_only_attacks_that_know_all_models_listen_beyond_the_graph():
    for attack, hear, beyond in (("sign-flip", "all", 0), ("foe", "graph", 0), ("foe", "all", 5)):
        s = setting(graph=graphs.ring(7), attackers=(2, 3), attack=attack)
        models, lies = peers.channels(s, hear)
        spied = models & ~s.graph
        assert spied[:, 2].sum() + spied[:, 3].sum() == spied.sum() == (8 if beyond else 0)
        assert lies[2].nonzero()[0].tolist() == [1]  # not to the other attacker, who does not aggregate


def test_attackers_that_hear_their_neighbours_lie_about_those():
    """On the complete graph that is everybody; on a ring the attack is made of two models."""
    s, W = setting(attackers=(1, 4), attack="alie"), initial()
    np.testing.assert_array_equal(by_threads(s, W, 2, 7, "graph")[0], in_one_process(s, W, 2))
    s = setting(graph=graphs.ring(7), attackers=(3,), attack="foe")
    models = {k: W[k] for k in (2, 3, 4)}
    lie = peers.lie(s, 3, peers.channels(s, "graph").models, models, None)
    np.testing.assert_array_equal(lie, -(W[2] + W[4]) / 2)


def test_an_attacker_without_a_normal_neighbour_is_refused():
    s = setting(graph=graphs.from_edges(7, [(k, k + 1) for k in range(6)]), attackers=(0, 1), attack="foe")
    with pytest.raises(ValueError, match="attacker 0 hears no normal worker"):
        peers.channels(s, "graph")
    assert peers.channels(s, "all").models[2:, 0].all()


def test_workers_are_dealt_evenly_and_every_process_has_one():
    assert [len(part) for part in peers.deal(10, 4)] == [3, 3, 2, 2]
    with pytest.raises(ValueError, match="got 11 processes for 10 workers"):
        peers.deal(10, 11)
