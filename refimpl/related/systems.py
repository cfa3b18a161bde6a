"""The table SYSTEMS: what each system computes, sends, must know and requires; and engines that run them."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from refimpl.aggregate import require_krum
from refimpl.algorithm import Setting, State
from refimpl.arrays import Array, quiet
from refimpl.engine import Build, Engine
from refimpl.related import rules
from refimpl.related.averaging import choco, d_psgd, dmsgd, fedavg, sgp
from refimpl.related.costs import (
    a_model,
    gradients_and_model,
    largest_entries,
    model_and_momentum,
    model_and_number,
    to_a_server,
)
from refimpl.related.requirements import (
    COMPLETE,
    FEASIBLE,
    FIXED,
    NOTHING_BEFORE,
    SAME_TO_ALL,
    UNDIRECTED,
    Requirement,
    neighbours,
    of_every_neighbourhood,
)
from refimpl.related.rounds import SystemRound, shared_result, step_then_mix
from refimpl.related.schedules import Schedule
from refimpl.related.screening import (
    bridge,
    byrdie,
    clipped_gossip,
    ios,
    learn,
    mozi,
    multi_task,
    tv_penalty,
)
from refimpl.related.talking import TWO_ROWS, chosen_bar, held_out_bar, skill_bar, two_tracks


class System(NamedTuple):
    """An entry of SYSTEMS."""

    round: Callable[..., SystemRound]
    """(setting, state, batch, signals, **options) -> SystemRound: a round, in the form of `algorithm.round_`"""
    about: str
    reference: str
    needs: str  # what a worker must know besides its own data and what it hears
    bytes: Callable[[Setting, int], float] = a_model
    """(setting, round) -> bytes that a worker sends to all its neighbours, mean over the workers"""
    requirements: tuple[Requirement, ...] = ()  # of the graph, its neighbourhoods and the number of rounds

    @property
    def requires(self) -> str:
        """The requirements in words, "" if there are none."""
        return ", ".join(filter(None, (requirement.words for requirement in self.requirements)))


# --- From a name to an engine -------------------------------------------------------------------------------


def find(name: str) -> System:
    """The system of that name. Raises ValueError if there is none."""
    if name not in SYSTEMS:
        raise ValueError(f"unknown system {name!r}, choose from {', '.join(SYSTEMS)}")
    return SYSTEMS[name]


def check(name: str, s: Setting, schedule: Schedule | None = None, rounds: int = 1) -> None:
    """Raises ValueError, naming the worker, if that many rounds of the system cannot be computed."""
    for requirement in find(name).requirements:
        try:
            requirement.check(s, schedule, rounds)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None


def bytes_per_round(name: str, s: Setting, schedule: Schedule | None, rounds: int) -> float:
    """Bytes that a worker sends in a round to all its neighbours together: the mean over workers and rounds.

    With the options that the system has in SYSTEMS.
    """
    system, ts = find(name), range(1, rounds + 1)
    return sum(system.bytes(s._replace(graph=schedule(t)) if schedule else s, t) for t in ts) / rounds


def engine(name: str, schedule: Schedule | None = None, **options: Any) -> Build:
    """A function that builds an engine for the rounds of a system; options are those of its round.

    The graph of round t is schedule(t), if there is one, else that of the setting.
    """
    system = find(name)

    def build(s: Setting) -> Engine:
        check(name, s, schedule)

        def step(state: State, batch: Array, signals: Array | None = None) -> SystemRound:
            now = s
            if schedule:
                now = s._replace(graph=schedule(state.t + 1))
                check(name, now)
            return system.round(now, state, batch, signals, **options)

        return Engine(step, s.model)

    return build


# --- The table ----------------------------------------------------------------------------------------------


def by_rule(rule: Callable[[Array, int], Array]) -> Callable[..., SystemRound]:
    """A round that steps, then replaces each normal worker's model by a rule (models, f) -> (d,)."""

    @quiet
    def round_(s: Setting, state: State, batch: Array, signals: Array | None = None) -> SystemRound:
        return step_then_mix(s, state, batch, signals, shared_result(rule))

    return round_


COUNT, DEGREES = "the number of attackers", "the neighbours' degrees"
IN_TIME = of_every_neighbourhood("3f neighbours", rules.require_in_time)
FEW_SUBSETS = of_every_neighbourhood("few subsets", lambda n, f: rules.require_mda(n - f, f))

SYSTEMS = {
    "d-psgd": System(
        round=d_psgd,
        about="Metropolis mean of the models, and a gradient at one's own",
        reference="Lian et al. 2017, Xiao and Boyd 2004",
        needs=DEGREES,
        requirements=(NOTHING_BEFORE, UNDIRECTED),
    ),
    "d-sgd": System(
        round=partial(d_psgd, order="step-then-mix"),
        about="a step, then the Metropolis mean; on a schedule, local updates",
        reference="Koloskova et al. 2020",
        needs=DEGREES,
        requirements=(UNDIRECTED,),
    ),
    "dmsgd": System(
        round=dmsgd,
        about="D-PSGD with momentum, partly averaged over the neighbours",
        reference="Balu et al. 2021",
        needs=DEGREES,
        bytes=model_and_momentum,
        requirements=(SAME_TO_ALL, UNDIRECTED, FIXED),
    ),
    "sgp": System(
        round=sgp,
        about="push-sum: on directed graphs that change",
        reference="Assran et al. 2019",
        needs="to how many it sends",
        bytes=model_and_number,
        requirements=(SAME_TO_ALL,),
    ),
    "choco": System(
        round=choco,
        about="the largest 1 % of differences to public copies",
        reference="Koloskova et al. 2019",
        needs=DEGREES,
        bytes=largest_entries,
        requirements=(SAME_TO_ALL, UNDIRECTED, FIXED),
    ),
    "choco-identity": System(
        round=partial(choco, share=1.0, gamma=1.0),
        about="whole differences to public copies, gamma = 1",
        reference="Koloskova et al. 2019",
        needs=DEGREES,
        requirements=(SAME_TO_ALL, UNDIRECTED, FIXED),
    ),
    "bridge-t": System(
        round=partial(bridge, screen="T"),
        about="trimmed mean that keeps one's own value, then a step",
        reference="Fang et al. 2022",
        needs=COUNT,
        requirements=(NOTHING_BEFORE, neighbours("2f + 1", lambda f: 2 * f + 1)),
    ),
    "bridge-m": System(
        round=partial(bridge, screen="M"),
        about="median of each coordinate, then a step",
        reference="Fang et al. 2022",
        needs="that most are honest",
        requirements=(NOTHING_BEFORE, neighbours("2f + 1", lambda f: 2 * f + 1)),
    ),
    "bridge-k": System(
        round=partial(bridge, screen="K"),
        about="Krum, then a step",
        reference="Fang et al. 2022",
        needs=COUNT,
        requirements=(NOTHING_BEFORE, of_every_neighbourhood("2f + 2 neighbours", require_krum)),
    ),
    "bridge-b": System(
        round=partial(bridge, screen="B"),
        about="Krum again and again, trimmed mean, then a step",
        reference="Fang et al. 2022",
        needs=COUNT,
        requirements=(NOTHING_BEFORE, neighbours("max(4f, 3f + 2)", lambda f: max(4 * f, 3 * f + 2))),
    ),
    "byrdie": System(
        round=byrdie,
        about="BRIDGE-T coordinate by coordinate",
        reference="Yang and Bajwa 2019",
        needs=COUNT,
        requirements=(SAME_TO_ALL, neighbours("2f + 1", lambda f: 2 * f + 1), FEASIBLE),
    ),
    "mozi": System(
        round=mozi,
        about="near neighbours no worse than oneself; failing that, the nearest",
        reference="Guo et al. 2021",
        needs=COUNT,
        requirements=(NOTHING_BEFORE, neighbours("1 or more", lambda f: 1)),
    ),
    "ubar": System(
        round=partial(mozi, empty="lowest-risk"),
        about="near neighbours no worse than oneself; failing that, the lowest risk",
        reference="Guo et al. 2021",
        needs=COUNT,
        requirements=(NOTHING_BEFORE, neighbours("1 or more", lambda f: 1)),
    ),
    "clipped-gossip": System(
        round=clipped_gossip,
        about="momentum; differences to the neighbours clipped at 1",
        reference="He et al. 2022",
        needs=f"{DEGREES}, a radius",
        requirements=(UNDIRECTED,),
    ),
    "clipped-gossip-adaptive": System(
        round=partial(clipped_gossip, radius="adaptive"),
        about="momentum; differences clipped at what the nearest neighbours say",
        reference="He et al. 2022, Gaucher et al. 2025",
        needs=f"{DEGREES}, {COUNT}",
        requirements=(UNDIRECTED,),
    ),
    "clipped-gossip-oracle": System(
        round=partial(clipped_gossip, radius="oracle"),
        about="momentum; differences clipped at what the honest neighbours say",
        reference="He et al. 2022",
        needs=f"{DEGREES}, who the attackers are",
        requirements=(UNDIRECTED,),
    ),
    "icwtm": System(
        round=partial(learn, agreement="icwtm"),
        about="trimmed means of gradients, again and again, and of models",
        reference="El-Mhamdi et al. 2021",
        needs=f"{COUNT}, equal initial models",
        bytes=gradients_and_model,
        requirements=(SAME_TO_ALL, COMPLETE, FIXED, IN_TIME),
    ),
    "mda": System(
        round=partial(learn, agreement="mda"),
        about="means of the n - 2f nearest to each other, of n - f gradients or models in time",
        reference="El-Mhamdi et al. 2021",
        needs=f"{COUNT}, equal initial models",
        bytes=gradients_and_model,
        requirements=(SAME_TO_ALL, COMPLETE, FIXED, IN_TIME, FEW_SUBSETS),
    ),
    "tv-penalty": System(
        round=tv_penalty,
        about="a gradient, and the signs of the differences to the neighbours",
        reference="Peng et al. 2021",
        needs="a penalty",
        requirements=(SAME_TO_ALL,),
    ),
    "multi-task": System(
        round=multi_task,
        about="Eq. (6) with running averages of the risks",
        reference="Li et al. 2020",
        needs="nothing",
        requirements=(SAME_TO_ALL,),
    ),
    "ios": System(
        round=ios,
        about="the mean without the f neighbours farthest from it, one by one",
        reference="Wu et al. 2023",
        needs=f"{DEGREES}, {COUNT}",
        requirements=(UNDIRECTED, neighbours("f", lambda f: f)),
    ),
    "fedavg": System(
        round=fedavg,
        about="a server's mean of the models, for comparison",
        reference="McMahan et al. 2017",
        needs="a server that all trust",
        bytes=to_a_server,
        requirements=(SAME_TO_ALL,),
    ),
    "geometric-median": System(
        round=by_rule(lambda W, f: rules.geometric_median(W)),
        about="the point with the least sum of distances to the models",
        reference="Weiszfeld 1937, Pillutla et al. 2022",
        needs="that most are honest",
    ),
    "multi-krum": System(
        round=by_rule(lambda W, f: rules.multi_krum(W, f)),
        about="mean of the n - f - 2 models with the best Krum scores",
        reference="Blanchard et al. 2017",
        needs=COUNT,
        requirements=(of_every_neighbourhood("2f + 2 neighbours", require_krum),),
    ),
    "bulyan": System(
        round=by_rule(lambda W, f: rules.bulyan(W, f)),
        about="Krum again and again, then values near the median",
        reference="El-Mhamdi et al. 2018",
        needs=COUNT,
        requirements=(of_every_neighbourhood("4f + 2 neighbours", rules.require_bulyan),),
    ),
    "skill-bar": System(
        round=skill_bar,
        about="who explains 0.9 of what one does, 1 / risk; the mixture is checked",
        reference="ours",
        needs="nothing",
    ),
    "held-out-bar": System(
        round=held_out_bar,
        about="who is no worse on rows held out, 1 / risk; the mixture is checked",
        reference="ours",
        needs="nothing",
        requirements=(TWO_ROWS,),
    ),
    "chosen-bar": System(
        round=chosen_bar,
        about="a skill bar of 0 to 0.8, whichever is best on rows held out, or none at all",
        reference="ours",
        needs="nothing",
        requirements=(TWO_ROWS,),
    ),
    "two-tracks": System(
        round=two_tracks,
        about="local beside a skill bar of 0.2; the better on rows held out is used",
        reference="ours",
        needs="nothing",
        requirements=(TWO_ROWS,),
    ),
}
