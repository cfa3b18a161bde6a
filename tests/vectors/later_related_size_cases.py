"""The smallest neighbourhood that each system of related accepts, and the largest that it refuses."""

import later_related_round_cases  # noqa: F401
import numpy as np
from common import draw, error, family
from later_related_round_cases import small, without
from related_cases import DIRECTED, run, steady

from refimpl import graphs


def heard_by_0(*others, N=7):
    """The complete graph, but worker 0 hears these alone."""
    return {"N": N, "graph": without(N, *((0, k) for k in range(1, N) if k not in others))}


def with_attackers(*attackers):
    return {"attackers": np.array(attackers)}


# id, system, changes of the inputs; worker 0 has the smallest neighbourhood, unless all have the same
SMALLEST = [
    ("bridge-t-of-2f-and-one-others", "bridge-t", heard_by_0(4, 5, 6)),
    ("bridge-m-of-2f-and-one-others", "bridge-m", heard_by_0(4, 5, 6)),
    ("byrdie-of-2f-and-one-others", "byrdie", heard_by_0(4, 5, 6)),
    ("bridge-k-of-2f-and-three", "bridge-k", heard_by_0(3, 4, 5, 6) | {"attack": "alie"}),
    ("multi-krum-of-2f-and-three-heard", "multi-krum", heard_by_0(3, 4, 5, 6)),
    ("bridge-b-of-3f-and-two-others", "bridge-b", heard_by_0(2, 3, 4, 5, 6)),
    ("bridge-b-of-4f-others", "bridge-b", {"N": 13, **with_attackers(2, 5, 9), "graph": graphs.complete(13)}),
    ("bulyan-of-4f-and-three", "bulyan", heard_by_0(2, 3, 4, 5, 6, 7, N=8)),
    ("mozi-of-one-other", "mozi", heard_by_0(1) | {"attack": "foe"}),
    ("mozi-of-two-others-and-two-attackers", "mozi",
     heard_by_0(1, 4) | with_attackers(1, 4) | {"W": draw(352, 7, 6)}),
    ("ubar-of-one-other", "ubar", heard_by_0(1) | {"attack": "foe"}),
    ("ios-of-f-others", "ios", heard_by_0(1)),
    ("ios-of-two-others-and-two-attackers", "ios", heard_by_0(1, 4) | with_attackers(1, 4)),
    ("icwtm-of-3f-and-one", "icwtm", {"N": 4, "graph": graphs.complete(4), **with_attackers(1)}),
    ("mda-of-3f-and-one", "mda", {"N": 4, "graph": graphs.complete(4), **with_attackers(1)}),
]  # fmt: skip
ALONE, DEAF = without(7, *((4, k) for k in (0, 1, 2, 3, 5))), graphs.complete(7)
DEAF[4, np.arange(7) != 4] = False  # attacker 4 hears nobody and is heard by all; in ALONE it hears 6 alone


@family("related")
def smallest():
    for id_, system, changes in SMALLEST:
        given = small(system, **changes)
        steady(given, run(**given))
        yield id_, "Catches a refusal of the fewest that are allowed.", "related_rounds", given
    for system, graph in (("bridge-t", ALONE), ("multi-krum", ALONE), ("mozi", DEAF)):
        given = small(system, graph=graph)
        steady(given, run(**given))
        comment = "Catches a refusal where only an attacker hears too few: it never mixes."
        yield f"{system}-in-an-attackers-small-neighbourhood", comment, "related_rounds", given


# id, what it catches, system, changes of the inputs, facts
TOO_SMALL = [
    ("bridge-k-of-2f-and-two", "n >= 2f + 2", "bridge-k", heard_by_0(1, 2, 3), ["worker 0", "n=4", "f=1"]),
    ("multi-krum-of-2f-and-two", "n >= 2f + 2", "multi-krum", heard_by_0(1, 2, 3), ["worker 0", "n=4", "f=1"]),
    ("bridge-b-of-4-others", "4f others where it needs 3f + 2", "bridge-b", heard_by_0(1, 2, 3, 4),
     ["bridge-b", "worker 0", "4"]),
    ("bridge-b-of-11-others", "3f + 2 others where it needs 4f", "bridge-b",
     {"N": 12, "graph": graphs.complete(12), **with_attackers(2, 5, 9)}, ["bridge-b", "worker 0", "11", "f=3"]),
    ("bulyan-of-4f-and-two", "n >= 4f + 2", "bulyan", heard_by_0(1, 2, 3, 4, 5), ["worker 0", "n=6", "f=1"]),
    ("mozi-alone", "a worker that hears nobody", "mozi", heard_by_0(), ["mozi", "worker 0"]),
    ("ubar-alone", "a worker that hears nobody", "ubar", heard_by_0(), ["ubar", "worker 0"]),
    ("ios-of-fewer-than-f-others", "a check that one is heard where it needs f", "ios",
     heard_by_0(1) | with_attackers(1, 4), ["ios", "worker 0", "f=2"]),
    ("icwtm-of-3f", "n >= 3f: four of six in time, two off each side", "icwtm",
     {"N": 6, "graph": graphs.complete(6), **with_attackers(1, 4)}, ["worker 0", "n=4", "f=2"]),
    ("mda-of-3f", "n >= 3f: four of six in time", "mda",
     {"N": 6, "graph": graphs.complete(6), **with_attackers(1, 4)}, ["worker 0", "n=4", "f=2"]),
    *((f"{system}-counts-all-attackers", "f counted in the neighbourhood: worker 0 hears two, none a liar",
       system, heard_by_0(5, 6), [system, "worker 0", "2", "f=1"])
      for system in ("bridge-t", "bridge-m", "byrdie")),
]  # fmt: skip


def refused(id_, comment, given, facts):
    """An error case without a function of its own."""

    def make():
        return "related_rounds", given, facts

    make.__name__, make.__doc__ = id_.replace("-", "_"), f"Catches {comment}."
    error("related")(make)


for id_, comment, system, changes, facts in TOO_SMALL:
    refused(id_, comment, small(system, **changes), facts)


def on(made, system):
    """Two rounds on graphs of their own."""
    given = small(system, graphs=np.stack(made))
    del given["graph"]
    return given


for system in ("dmsgd", "choco-identity", "icwtm", "mda"):
    comment = "a graph that may change, even if it does not: the system needs one that stays the same"
    refused(f"{system}-on-graphs", comment, on([graphs.complete(7)] * 2, system), [system, "the same"])

refused(
    "d-sgd-on-a-directed-graph-in-a-later-round",
    "a check of the first graph alone, and Metropolis weights on a directed one",
    on([graphs.complete(7), DIRECTED], "d-sgd"),
    ["round 2", "undirected"],
)
