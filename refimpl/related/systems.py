"""The table SYSTEMS: what each system computes, costs, must know and refuses; `engines` runs them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from refimpl.aggregate import require_krum
from refimpl.algorithm import Setting, State
from refimpl.arrays import Array, quiet
from refimpl.related import rules
from refimpl.related.common import Result, alike, step_then_mix
from refimpl.related.costs import (
    a_model,
    complete,
    gradients_and_model,
    largest_entries,
    model_and_momentum,
    model_and_number,
    small,
    to_a_server,
    undirected,
)
from refimpl.related.gossip import choco, d_psgd, dmsgd, fedavg, sgp, tv_penalty
from refimpl.related.resilient import bridge, byrdie, clipped_gossip, ios, learn, mozi, multi_task
from refimpl.related.rules import require_neighbours


class System(NamedTuple):
    """An entry of SYSTEMS."""

    round: Callable[..., Result]
    """(setting, state, batch, signals, **options) -> Result: one round, in the form of `algorithm.round_`"""
    about: str
    reference: str
    label: str  # its name in a figure
    needs: str  # what a worker must know besides its own data and what it hears
    bytes: Callable[[Setting, int], float]
    """(setting, round) -> bytes that a worker sends to all its neighbours, mean over the workers"""
    requires: str = ""  # of a neighbourhood and of the graph, in words
    require: Callable[[int, int], None] = lambda n, f: None
    """raises ValueError if it is not defined for a neighbourhood of n models with f attackers"""
    suits: Callable[[Setting, int], None] = lambda s, rounds: None
    """raises ValueError if it is not made for the graph or the size of the setting"""
    fixed: bool = False  # must the graph stay the same?
    options: Mapping[str, Any] = {}  # of its round, where other systems share the function


@quiet
def by_rule(s: Setting, state: State, batch: Array, signals: Array | None = None, *, rule: str) -> Result:
    """A round of Algorithm 1 with a rule of `rules.RULES`."""
    compute = rules.RULES[rule].compute
    return step_then_mix(s, state, batch, signals, alike(lambda W, f: compute(W, None, 0, f)))


# --- The table ----------------------------------------------------------------------------------------------

COUNT, DEGREES = "the number of attackers", "the neighbours' degrees"
UNDIRECTED = "an undirected graph"

SYSTEMS = {
    "d-psgd": System(
        d_psgd,
        "Metropolis mean of the models, and a gradient at one's own",
        "Lian et al. 2017, Xiao and Boyd 2004",
        "D-PSGD",
        DEGREES,
        a_model,
        UNDIRECTED,
        suits=undirected,
    ),
    "d-sgd": System(
        d_psgd,
        "a step, then the Metropolis mean; on a schedule, local updates",
        "Koloskova et al. 2020",
        "D-SGD",
        DEGREES,
        a_model,
        UNDIRECTED,
        suits=undirected,
        options={"order": "step-then-mix"},
    ),
    "dmsgd": System(
        dmsgd,
        "D-PSGD with momentum, partly averaged over the neighbours",
        "Balu et al. 2021",
        "DMSGD",
        DEGREES,
        model_and_momentum,
        f"{UNDIRECTED} that stays the same",
        suits=undirected,
        fixed=True,
    ),
    "sgp": System(
        sgp,
        "push-sum: on directed graphs that change",
        "Assran et al. 2019",
        "SGP",
        "to how many it sends",
        model_and_number,
    ),
    "choco": System(
        choco,
        "the largest 1 % of differences to public copies",
        "Koloskova et al. 2019",
        "CHOCO",
        DEGREES,
        largest_entries,
        f"{UNDIRECTED} that stays the same",
        suits=undirected,
        fixed=True,
    ),
    "choco-identity": System(
        choco,
        "the same without compression, gamma = 1",
        "Koloskova et al. 2019",
        "CHOCO (all)",
        DEGREES,
        a_model,
        f"{UNDIRECTED} that stays the same",
        suits=undirected,
        fixed=True,
        options={"share": 1.0, "gamma": 1.0},
    ),
    "bridge-t": System(
        bridge,
        "trimmed mean that keeps one's own value, then a step",
        "Fang et al. 2022",
        "BRIDGE-T",
        COUNT,
        a_model,
        "2f + 1 neighbours",
        lambda n, f: require_neighbours("bridge-t", n, f, 2 * f + 1, "2f + 1"),
        options={"screen": "T"},
    ),
    "bridge-m": System(
        bridge,
        "median of each coordinate, then a step",
        "Fang et al. 2022",
        "BRIDGE-M",
        "that most are honest",
        a_model,
        "2f + 1 neighbours",
        lambda n, f: require_neighbours("bridge-m", n, f, 2 * f + 1, "2f + 1"),
        options={"screen": "M"},
    ),
    "bridge-k": System(
        bridge,
        "Krum, then a step",
        "Fang et al. 2022",
        "BRIDGE-K",
        COUNT,
        a_model,
        "2f + 2 neighbours",
        require_krum,
        options={"screen": "K"},
    ),
    "bridge-b": System(
        bridge,
        "Krum again and again, trimmed mean, then a step",
        "Fang et al. 2022",
        "BRIDGE-B",
        COUNT,
        a_model,
        "max(4f, 3f + 2) neighbours",
        lambda n, f: require_neighbours("bridge-b", n, f, max(4 * f, 3 * f + 2), "max(4f, 3f + 2)"),
        options={"screen": "B"},
    ),
    "byrdie": System(
        byrdie,
        "BRIDGE-T coordinate by coordinate",
        "Yang and Bajwa 2019",
        "ByRDiE",
        COUNT,
        a_model,
        "2f + 1 neighbours, few parameters",
        lambda n, f: require_neighbours("byrdie", n, f, 2 * f + 1, "2f + 1"),
        small,
    ),
    "mozi": System(
        mozi,
        "near neighbours no worse than oneself; failing that, the nearest",
        "Guo et al. 2021",
        "MOZI",
        COUNT,
        a_model,
        "1 neighbour",
        lambda n, f: require_neighbours("mozi", n, f, 1, "1 or more"),
    ),
    "ubar": System(
        mozi,
        "the same; failing that, the one with the lowest risk",
        "Guo et al. 2021",
        "UBAR",
        COUNT,
        a_model,
        "1 neighbour",
        lambda n, f: require_neighbours("ubar", n, f, 1, "1 or more"),
        options={"empty": "lowest-risk"},
    ),
    "clipped-gossip": System(
        clipped_gossip,
        "momentum; differences to the neighbours clipped at 1",
        "He et al. 2022",
        "ClippedGossip",
        f"{DEGREES}, a radius",
        a_model,
        UNDIRECTED,
        suits=undirected,
    ),
    "clipped-gossip-adaptive": System(
        clipped_gossip,
        "the same, clipped at what the nearest neighbours say",
        "He et al. 2022, Gaucher et al. 2025",
        "ClippedGossip (adaptive)",
        f"{DEGREES}, {COUNT}",
        a_model,
        UNDIRECTED,
        suits=undirected,
        options={"radius": "adaptive"},
    ),
    "clipped-gossip-oracle": System(
        clipped_gossip,
        "the same, clipped at what the honest neighbours say",
        "He et al. 2022",
        "ClippedGossip (oracle)",
        f"{DEGREES}, who the attackers are",
        a_model,
        UNDIRECTED,
        suits=undirected,
        options={"radius": "oracle"},
    ),
    "icwtm": System(
        learn,
        "trimmed means of gradients, again and again, and of models",
        "El-Mhamdi et al. 2021",
        "LEARN (ICwTM)",
        f"{COUNT}, equal initial models",
        gradients_and_model,
        "3f neighbours, a complete graph that stays the same",
        lambda n, f: rules.require_learn("icwtm", n, f),
        complete,
        fixed=True,
        options={"agreement": "icwtm"},
    ),
    "mda": System(
        learn,
        "the same with the mean of the n - 2f nearest to each other, of n - f that come in time",
        "El-Mhamdi et al. 2021",
        "LEARN (MDA)",
        f"{COUNT}, equal initial models",
        gradients_and_model,
        "3f neighbours, a complete graph that stays the same, few subsets",
        lambda n, f: rules.require_learn("mda", n, f),
        complete,
        fixed=True,
        options={"agreement": "mda"},
    ),
    "tv-penalty": System(
        tv_penalty,
        "a gradient, and the signs of the differences to the neighbours",
        "Peng et al. 2021",
        "TV penalty",
        "a penalty",
        a_model,
    ),
    "multi-task": System(
        multi_task,
        "Eq. (6) with running averages of the risks",
        "Li et al. 2020",
        "multi-task",
        "nothing",
        a_model,
    ),
    "ios": System(
        ios,
        "the mean without the f neighbours farthest from it, one by one",
        "Wu et al. 2023",
        "IOS",
        f"{DEGREES}, {COUNT}",
        a_model,
        f"f neighbours, {UNDIRECTED}",
        lambda n, f: require_neighbours("ios", n, f, f, "f"),
        undirected,
    ),
    "fedavg": System(
        fedavg,
        "a server's mean of the models, for comparison",
        "McMahan et al. 2017",
        "FedAvg",
        "a server that all trust",
        to_a_server,
    ),
} | {
    name: System(by_rule, *rules.RULES[name][1:4], *words, rules.RULES[name].require, options={"rule": name})
    for name, words in {
        "geometric-median": ("that most are honest", a_model, ""),
        "multi-krum": (COUNT, a_model, "2f + 2 neighbours"),
        "bulyan": (COUNT, a_model, "4f + 2 neighbours"),
    }.items()
}
