"""Systems of other papers, and four of ours, runnable beside the paper's own rule: the table SYSTEMS.

    systems.py       the table SYSTEMS, and engines of `train` that compute its rounds
    averaging.py     systems that average what they hear
    screening.py     systems that screen what they hear
    talking.py       systems that look for a reason to listen: not of other papers, but trials of this project
    rounds.py        parts that the systems share, and the two orders of a round
    rules.py         rules for the models of a neighbourhood
    mixing.py        mixing matrices, and a compressor
    schedules.py     graphs that change from round to round: the table SCHEDULES
    requirements.py  what systems require of a run
    costs.py         bytes that they send
    attacks.py       the attacks of other papers: more of the table ATTACKS
    knowledge.py     what attackers may know besides models: more of the table KNOWLEDGE
    tailored.py      attacks that know Eq. (6): more of the table ATTACKS

Each system is a round in the form of `algorithm.round_`, worker by worker and from one snapshot: (setting,
state, batch, signals) -> SystemRound with the next `state`, the `weights` if it weighs, and all that is `sent`.
`engine(name)` makes an engine of it, for `train.run`, with a schedule of graphs if need be. It uses all of a
setting but the rule and, except in talking.py, the risk. What a system keeps besides the models is in slots of
`State.memory` after the optimiser's, so a checkpoint is arrays only. Docstrings say which definition was taken
where sources differ, and what is from memory, unverified: the text of most papers was not available (only
abstracts and, for many, the authors' code).

**Attackers** take part in all systems. They send what ATTACKS makes of what normal workers would send: of
models, as everywhere; of momenta (dmsgd), biased models (sgp; their push-sum weight stays 1), compressed
differences (choco), one coordinate after the other (byrdie), gradients, agreed gradients and models in turn
(icwtm, mda). An attack that draws uses one draw for all that is sent in a round. Attackers aggregate nothing:
they go on from their own local step.

**Orders.** "Mix-and-step": everyone sends its model, combines what it hears, and steps from the result.
"Step-then-mix": everyone steps, sends the result, and combines what it hears (so does Algorithm 1).
"""

from refimpl.related import attacks, knowledge, schedules, tailored
from refimpl.related.mixing import metropolis_weights, push_weights, uniform_weights
from refimpl.related.rounds import SystemRound
from refimpl.related.schedules import Rounds, Schedule
from refimpl.related.screening import diminishing
from refimpl.related.systems import SYSTEMS, System, bytes_per_round, check, engine

__all__ = [
    "SYSTEMS",
    "Rounds",
    "Schedule",
    "System",
    "SystemRound",
    "attacks",
    "bytes_per_round",
    "check",
    "diminishing",
    "engine",
    "knowledge",
    "metropolis_weights",
    "push_weights",
    "schedules",
    "tailored",
    "uniform_weights",
]
