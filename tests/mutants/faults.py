"""Mutants of rounds in a network that fails, and of peers in one."""

import numpy as np

from mutants.common import killer
from refimpl import algorithm, draws, faults, peers

faulty, by_processes = killer("faults"), killer("peers")
along, crashed = (
    "messages_arrive_along_the_graph_and_at_most_once",
    "a_crashed_worker_keeps_its_model_and_comes_back_with_it",
)
late = "if_all_are_late_a_worker_hears_what_was_sent_in_the_round_before"
stops = "so_many_normal_workers_stop_once_and_come_back_within_the_run"
shares = "the_shares_are_the_probabilities"
peers_fail = by_processes(
    "faults_between_processes_are_those_in_one", rule="median", processes=7, per_receiver=False
)


def with_down(change):
    """A function of the faults, with other times of the crashes."""
    return lambda f: lambda found, *rest: f(found._replace(down=change(found.down)), *rest)


def old_first(arrivals):
    """An old message in place of a newer one."""

    def mutant(found, graph, t):
        fresh, old = arrivals(found, graph, t)
        if t > 1:
            before = faults.sent(found, graph, t - 1)[1] & faults.up(found, t)[:, None]
            old = before & ~np.eye(len(graph), dtype=bool)
        return faults.Arrivals(fresh & ~old, old)

    return mutant


def keeps_its_own_unless_all_arrive(step):
    return lambda s, k, senders, *rest: step(s, k, senders, *rest) if len(senders) == s.graph[k].sum() else None


MUTANTS = [
    ("an old message in place of a newer one", faults, "arrivals", old_first, faulty(along)),
    ("what is late is lost", faults, "arrivals",
     lambda f: lambda *a: f(*a)._replace(old=np.zeros_like(f(*a).old)),
     faulty(along), faulty(late, rule="average", per_receiver=False)),
    ("late is late by two rounds", faults, "arrivals",
     lambda f: lambda found, graph, t: f(found, graph, t)._replace(old=f(found, graph, max(t - 1, 1)).old),
     faulty(along), faulty(late, rule="average", per_receiver=False)),
    ("a crashed worker still sends", faults, "sent", with_down(lambda down: 0 * down),
     faulty(along), faulty(crashed)),
    ("one's own model can be lost", faults, "arrivals",
     lambda f: lambda found, graph, t: f(found, graph, t)._replace(fresh=faults.sent(found, graph, t)[0]),
     faulty(along)),
    ("attackers crash", faults, "draw",
     lambda f: lambda s, *rest: f(s._replace(attackers=s.attackers[:0]), *rest), faulty(stops, rounds=50)),
    ("a worker that has crashed stays away", faults, "draw",
     lambda f: lambda *a: f(*a)._replace(down=f(*a).down * np.array([1, 1000])), faulty(stops, rounds=50)),
    ("lost with probability 1 - P", faults, "sent",
     lambda f: lambda found, *rest: f(found._replace(loss=1 - found.loss), *rest), faulty(shares),
     faulty("if_all_is_lost_every_rule_is_local",
            options={"rule": "average", "graph": np.ones((7, 7), bool), "attack": "alie"})),
    ("late with probability 1 - P", faults, "sent",
     lambda f: lambda found, *rest: f(found._replace(late=1 - found.late), *rest), faulty(shares)),
    ("the same losses in every round", faults, "sent",
     lambda f: lambda found, graph, t: f(found, graph, 1), faulty(shares)),
    ("faults of seed 0", draws, "stream",
     lambda f: lambda seed, purpose, *more: f(0 if purpose == "faults" else seed, purpose, *more),
     faulty("another_seed_loses_other_messages_and_stops_other_workers")),
    ("too few are all that is not everybody", faults, "aggregation_step", keeps_its_own_unless_all_arrive,
     faulty("too_few_for_a_rule_are_counted_round_by_round"), faulty("a_receiver_combines_what_arrived")),
    ("the own model is taken for the first", faults, "aggregation_step",
     lambda f: lambda s, k, senders, W, rows: algorithm.aggregation_step(s, 0, W, rows),
     faulty("without_faults_it_is_the_specification",
            options={"rule": "adaptive", "graph": np.ones((7, 7), bool), "attack": "alie"})),
    ("what is late was for worker 0", faults, "to",
     lambda f: lambda k, sent: sent if sent.ndim == 2 else sent[0],
     faulty(late, rule="average", per_receiver=True)),
    ("losses between peers are the other way round", peers, "arrivals",
     lambda f: lambda *a: f(*a)._replace(fresh=f(*a).fresh.T), peers_fail),
    ("what is late between peers is lost", peers, "arrivals",
     lambda f: lambda *a: f(*a)._replace(old=np.zeros_like(f(*a).old)), peers_fail),
    ("a peer that has crashed works on", peers, "round_", lambda f: lambda *a: f(*a[:8]), peers_fail),
    ("all receivers are sent the first one's lie", peers, "parcels",
     lambda f: lambda channel, here, there, each=False: f(channel, here, there),
     by_processes("an_attack_may_send_every_receiver_something_else",
                  graph="complete", processes=3, one_message=False)),
]  # fmt: skip
