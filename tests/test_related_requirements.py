"""What the systems of refimpl.related require of a run, and what they refuse."""

import re
from contextlib import nullcontext

import numpy as np
import pytest
from problems import GRAPHS, initial, setting
from related_problems import BAND, DENSE, batches, peaceful, run

from refimpl import algorithm, graphs, models, related
from refimpl.related import SYSTEMS, rules, schedules
from refimpl.related.requirements import COMPLETE, FIXED, SAME_TO_ALL, UNDIRECTED

STAR = GRAPHS["a star and a path"]


@pytest.mark.parametrize(
    ("name", "graph", "message"),
    [
        ("bridge-t", "ring", "bridge-t: worker 0, with 2 neighbours: needs 2f . 1 neighbours, got 2, f=1"),
        ("bridge-m", "star", "bridge-m: worker 2, with 1 neighbours: needs"),
        ("bridge-k", "ring", "worker 0, with 2 neighbours: krum needs n >= 2f . 3"),
        (
            "bridge-b",
            "band",
            r"bridge-b: worker 0, with 4 neighbours: needs max\(4f, 3f . 2\) neighbours, got 4",
        ),
        ("byrdie", "ring", "byrdie: worker 0, with 2 neighbours: needs"),
        ("multi-krum", "ring", "worker 0, with 2 neighbours: krum needs"),
        ("bulyan", "dense", "worker 0, with 5 neighbours: bulyan needs n >= 4f . 3 models, got n=6, f=1"),
        ("icwtm", "dense", "icwtm: everyone must hear everyone, but worker 0 does not hear worker 3"),
        ("mda", "ring", "mda: everyone must hear everyone, but worker 0 does not hear worker 2"),
        ("icwtm", "crowd", "icwtm: worker 0, .* needs n >= 2f . 1 models in time, of 7 in all: got n=4, f=3"),
        ("mda", "crowd", "mda: worker 0, .* needs n >= 2f . 1 models in time, of 7 in all: got n=4, f=3"),
        ("mozi", "alone", "mozi: worker 0, with 0 neighbours: needs 1 or more"),
        ("ios", "alone", "ios: worker 0, with 0 neighbours: needs f neighbours"),
        (
            "d-psgd",
            "directed",
            "d-psgd: metropolis_weights needs an undirected graph, but worker 5 sends to worker 0 and not",
        ),
    ],
)
def test_what_cannot_work_is_refused_and_names_the_worker(name, graph, message):
    given_graphs = {
        "ring": graphs.ring(7),
        "star": STAR,
        "band": BAND,
        "dense": DENSE,
        "alone": np.eye(7, dtype=bool),
    }
    given_graphs["directed"] = schedules.exponential(7, 1, 2)
    given_graphs["crowd"] = graphs.complete(7)
    s = setting(graph=given_graphs[graph], attackers=[1, 2, 3] if graph == "crowd" else [1], attack="sign-flip")
    with pytest.raises(ValueError, match=message):
        related.engine(name)(s)


@pytest.mark.parametrize("name", SYSTEMS)
def test_who_sends_the_models_before_the_round_refuses_attacks_that_compare_with_them(name):
    """Fang's would see nothing grow, and a replay be a mimic. Some systems take only what is made of models."""
    s, W = setting(), initial()
    sent = run(name, 1, s._replace(attack="none"), W).sent
    unchanged = any(models.shape == W.shape and (models == W).all() for models in sent)
    refused = "the models before the round are what is sent: needs" if unchanged else ""
    refused = "made of models alone" if SAME_TO_ALL in SYSTEMS[name].requirements else refused
    for attack in ("replay", "fang-trimmed-mean"):
        with pytest.raises(ValueError, match=f"{refused}.*, got {attack}$") if refused else nullcontext():
            related.check(name, s._replace(attack=attack))


def least_neighbours(system, f):
    """The number of neighbours that the system requires, by the words of its requirements."""
    formulas = [
        re.fullmatch(r"(.+?)(?: or more)? neighbours", required.words) for required in system.requirements
    ]
    (formula,) = filter(None, formulas) if any(formulas) else [None]
    return eval(re.sub(r"(\d)f", r"\1 * f", formula[1]), {"f": f, "max": max}) if formula else 0


def with_neighbours(count, f, complete):
    """A setting in which worker 0 has so many neighbours; all others have as many, or 22 and more."""
    N = count + 1 if complete else 24
    graph = graphs.complete(N)
    graph[0, count + 1 :] = graph[count + 1 :, 0] = False
    return setting([4] * N, graph, np.arange(N - f, N))


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_a_system_requires_is_what_it_refuses(name):
    system = SYSTEMS[name]
    complete = COMPLETE in system.requirements
    for f in range(6):
        count = least_neighbours(system, f)
        related.check(name, with_neighbours(count, f, complete))
        if count:
            with pytest.raises(ValueError, match=f"{name}: worker 0, with {count - 1} neighbours: .*needs"):
                related.check(name, with_neighbours(count - 1, f, complete))
    one_edge_one_way = graphs.complete(7)
    one_edge_one_way[0, 5] = False
    s = setting(graph=one_edge_one_way, attackers=[])
    assert ("graph" in system.requires) == (complete or UNDIRECTED in system.requirements)
    if "graph" in system.requires:
        with pytest.raises(ValueError, match=f"{name}: .*worker 0"):
            related.check(name, s)
    else:
        related.check(name, s)
    assert ("the same in every round" in system.requires) == (FIXED in system.requirements)


def test_too_much_work_is_refused():
    """ByRDiE: 4732 numbers a round; on Spambase 200 epochs are possible, on HAR one round. MDA: few subsets."""
    s, most = setting(graph=DENSE), 21132713
    related.check("byrdie", s, rounds=most)
    with pytest.raises(
        ValueError, match=r"byrdie: 21132714 rounds compute 3.8e\+09 gradients of 26 numbers, .*1e\+11"
    ):
        related.check("byrdie", s, rounds=most + 1)
    related.check("byrdie", setting([4] * 10)._replace(model=models.mlp([57, 20, 2])), rounds=3800)
    har = setting([4] * 30)._replace(model=models.mlp([561, 100, 6]))
    related.check("byrdie", har, rounds=1)
    with pytest.raises(ValueError, match="byrdie: 2 rounds compute"):
        related.check("byrdie", har, rounds=2)
    with pytest.raises(ValueError, match="mda looks at all subsets of n - f models, 119759850 for n=30, f=13"):
        rules.require_mda(30, 13)
    with pytest.raises(ValueError, match=r"mda: worker 7, .* mda looks at all subsets .* 245157 for n=23, f=7"):
        related.check("mda", setting([4] * 30, attackers=range(7)))


def test_a_schedule_is_refused_by_who_needs_a_fixed_graph_and_checked_by_all_others():
    schedule = schedules.build("matching", DENSE, 0)
    s = setting(graph=DENSE, attackers=[1])
    with pytest.raises(ValueError, match="choco: needs a graph that stays the same"):
        related.engine("choco", schedule)(s)
    with pytest.raises(ValueError, match="bridge-t: round 1: worker 0, with 0 neighbours: needs"):
        related.engine("bridge-t", schedule)(s)


def test_a_schedule_is_checked_in_all_rounds():
    """In the third round worker 0 hears nobody."""
    s = setting(graph=DENSE, attackers=[1])
    schedule = {t: DENSE if t < 3 else np.eye(7, dtype=bool) for t in range(1, 5)}.__getitem__
    related.check("bridge-t", s, schedule, 2)
    with pytest.raises(ValueError, match="bridge-t: round 3: worker 0, with 0 neighbours: needs"):
        related.check("bridge-t", s, schedule, 4)
    step, state = related.engine("bridge-t", schedule)(s).step, algorithm.start(s, initial())
    for batch in batches(s, 2):
        state = step(state, batch).state
    with pytest.raises(ValueError, match="bridge-t: worker 0, with 0 neighbours: needs"):
        step(state, batch)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: related.engine("d-pgsd"), "unknown system 'd-pgsd', choose from d-psgd, "),
        (lambda: run("d-psgd", 1, peaceful(), order="mix"), "unknown order 'mix'"),
        (lambda: run("choco", 1, peaceful(), order="mix"), "unknown order 'mix'"),
        (lambda: run("choco", 1, peaceful(), copies="x"), "copies start at"),
        (lambda: run("choco", 1, peaceful(), share=0.0), "a compressor keeps a share"),
        (lambda: run("clipped-gossip", 1, peaceful(), radius="x"), "a radius is a number"),
        (lambda: run("clipped-gossip", 1, peaceful(), radius=-1.0), "a radius is a number, 0 or more"),
        (lambda: run("byrdie", 1, peaceful(), at="x"), "the gradient must be taken at"),
        (lambda: run("multi-task", 1, peaceful(), nu=0.0), "nu must be in"),
        (lambda: run("multi-task", 1, peaceful(), nu=1.1), "nu must be in"),
        (lambda: run("mozi", 1, peaceful(), empty="x"), "mozi without an accepted model"),
        (lambda: run("bridge-m", 1, peaceful(), at="x"), "the gradient must be taken at"),
        (lambda: rules.bulyan(np.ones((6, 2)), 1), "bulyan needs n >= 4f"),
        (lambda: rules.minimum_diameter_average(np.ones((4, 2)), 2), "mda needs n >= 2f"),
    ],
)
def test_wrong_words_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
