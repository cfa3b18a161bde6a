"""A round in processes that hold some of the workers each: threads here, ranks in test_mpi_peers.py."""

import itertools
import threading

import numpy as np
import pytest
from problems import GRAPHS, after, cast, diminishing, initial, sends, setting

from refimpl import faults, graphs, peers, train
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.related.knowledge import TO_PEERS

ROWS = [7, 4, 9, 5, 8, 4, 6, 5, 7, 6]  # of ten workers
POSSIBLE = [name for name, attack in ATTACKS.items() if TO_PEERS.issuperset(attack.knows)]


def cases():
    """(name, options of a setting): every rule against every attack that peers can carry out, on two graphs."""
    sparse = graphs.random_regular(10, 4, np.random.default_rng(1))
    for (where, graph), rule, attack in itertools.product(
        {"complete": graphs.complete(10), "sparse": sparse}.items(), RULES, POSSIBLE
    ):
        liars = [2, 7, 8] if where == "complete" else [2]
        options = {"graph": graph, "attackers": liars, "rule": rule, "attack": attack}
        yield f"{rule} {attack} {where}", options


def share(s, W, workers):
    """A process's setting and state, and the draws that all processes have in common."""
    X, y = ([rows if k in workers else rows[:0] for k, rows in enumerate(of_all)] for of_all in (s.X, s.y))
    own = s._replace(X=X, y=y)
    return own, peers.start(s, W[workers]), train.Draws(own, W, 0, train.sizes(s))


def in_one_process(s, W, count):
    train.check(s)
    return after(s, count, W).state.W


# --- A thread per process, which holds what a process would -------------------------------------------------


class Post:
    """Delivers between threads what a channel lets through."""

    def __init__(self, sends, parts, each=False):
        self.parcels = [[peers.parcels(sends, here, there, each) for here in parts] for there in parts]
        self.barrier, self.boxes = threading.Barrier(len(parts)), [None] * len(parts)
        self.carried = 0  # models

    def of(self, p):
        return lambda mail: self.exchange(p, mail)

    def exchange(self, p, mail):
        self.boxes[p] = mail
        self.barrier.wait(timeout=60)
        heard = {}
        for q, parcels in enumerate(self.parcels[p]):
            heard |= {pair: self.boxes[q][parcel[0]].copy() for parcel in parcels for pair in parcel}
            self.carried += len(parcels) if q != p else 0
        self.barrier.wait(timeout=60)
        return heard


def by_threads(s, W, count, processes, hear="all", found=None):
    """After `count` rounds W, the two posts and `too_few`; `found` are the faults, if there are any."""
    parts, hears = peers.deal(len(W), processes), peers.channels(s, hear)
    posts = [Post(hears.models, parts), Post(hears.lies, parts, ATTACKS[s.attack].per_receiver)]
    final = [None] * processes

    def exchanges(p, t, held):
        all_of_it = [post.of(p) for post in posts]
        if found is None:
            return all_of_it
        late_or_lost = [peers.faulty(exchange, s, found, t, held) for exchange in all_of_it]
        return [*late_or_lost, faults.up(found, t)]

    def work(p):
        (own, state, drawn), held = share(s, W, parts[p]), {}
        for batch, signals in itertools.islice(drawn, count):
            more = exchanges(p, state.t + 1, held)
            state = peers.round_(own, parts[p], state, batch, signals, hears, *more)
        final[p] = state

    threads = [threading.Thread(target=work, args=(p,)) for p in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return np.concatenate([state.W for state in final]), posts, sum(state.too_few.sum() for state in final)


@pytest.mark.parametrize("processes", [10, 4])
@pytest.mark.parametrize("attack", POSSIBLE)
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
    _, posts, _ = by_threads(s, initial(), 3, 7)
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


# --- A message per receiver, and faults ---------------------------------------------------------------------


def away(own, place, turn, heard, liars, receiver, who, graph):
    """Something else for each receiver, from all that a peer can know beside models of all."""
    return heard.mean(axis=0) - (1 + place) * (own - receiver) / (turn + liars + len(who) + graph[place].sum())


KNOWN = ("own", "place", "round", "heard", "liars", "receiver", "workers", "graph")


@pytest.mark.parametrize("one_message", [False, True])
@pytest.mark.parametrize("processes", [7, 3])
@pytest.mark.parametrize("graph", GRAPHS)
def test_an_attack_may_send_every_receiver_something_else(graph, processes, one_message):
    with sends(
        lambda own, *known: away(own.mean(axis=0) if one_message else own, *known),
        knows=("attackers" if one_message else "own", *KNOWN[1:]),
        per_receiver=True,
        one_message=one_message,
    ) as attack:
        s, W = setting(graph=GRAPHS[graph], attackers=(1, 4), attack=attack, rule="average"), initial()
        made, posts, too_few = by_threads(s, W, 3, processes)
        np.testing.assert_array_equal(made, in_one_process(s, W, 3))
        assert too_few == 0
    assert processes < 7 or posts[1].carried == 3 * (s.graph[[1, 4]].sum() - 2 * (1 + s.graph[1, 4]))


@pytest.mark.parametrize("name", ["risk", "gradient", "own_risk", "outcome", "before"])
def test_an_attack_that_knows_what_no_peer_does_is_refused(name):
    with (
        sends(lambda known: 0, knows=(name,), per_receiver=True) as attack,
        pytest.raises(ValueError, match="a peer knows models, who hears whom and the round, but hostile knows"),
    ):
        peers.channels(setting(attack=attack))


@pytest.mark.parametrize("per_receiver", [False, True])
@pytest.mark.parametrize("processes", [7, 3])
@pytest.mark.parametrize("rule", ["adaptive", "krum", "median"])
def test_faults_between_processes_are_those_in_one(rule, processes, per_receiver):
    """Losses alone; late messages; all of it. Attackers know also those that are down, as in one process."""
    knows = ("honest", "place" if per_receiver else "counts")
    with sends(lambda honest, other: -honest.mean(axis=0), knows=knows, per_receiver=per_receiver) as attack:
        s, W = setting(rule=rule, attack=attack, optimizer="adam"), initial()
        for several in ((0.3, 0, 0), (0, 0.5, 0), (0.1, 0.4, 4)):
            found = faults.draw(s, *several, 6, 1)
            expected = after(s, 6, engine=lambda s, found=found: faults.engine(s, found))
            made, _, too_few = by_threads(s, W, 6, processes, found=found)
            np.testing.assert_array_equal(made, expected.state.W)
            assert too_few == expected.state.too_few
            assert (too_few > 0) == (rule == "krum")


def test_workers_are_dealt_evenly_and_every_process_has_one():
    assert [len(part) for part in peers.deal(10, 4)] == [3, 3, 2, 2]
    with pytest.raises(ValueError, match="got 11 processes for 10 workers"):
        peers.deal(10, 11)
