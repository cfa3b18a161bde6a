"""What attackers may know besides the models of a round: more entries of `attacks.KNOWLEDGE`.

The paper's attacks know nothing of this. What is known of a receiver k is there for attacks that send every
receiver something else (`per_receiver`).
"""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

from refimpl import algorithm
from refimpl.arrays import Array, module_of
from refimpl.attacks import ATTACKS, KNOWLEDGE, Known, View
from refimpl.related.attacks import TARGET, with_trigger
from refimpl.related.rounds import once

Risk = Callable[[Array], Array]  # (d,) -> a number


def receiver_model(view: View) -> Array:
    """The model that the receiver has after its own local step, (d,)."""
    return view.honest[int(np.searchsorted(view.workers, view.receiver))]


def models_before(view: View) -> Array:
    """The models with which the normal workers began the round, (h, d)."""
    return view.before.W[module_of(view.before.W).asarray(view.workers)]


def heard(view: View) -> Array:
    """The honest models that the receiver hears, its own included, (m, d), in ascending order."""
    hears = view.s.graph[view.receiver][view.workers]
    return view.honest[module_of(view.honest).asarray(np.flatnonzero(hears))]


def liars(view: View) -> int:
    """The number of attackers that the receiver hears."""
    return int(view.s.graph[view.receiver][view.s.attackers].sum())


def data_of(view: View, k: int) -> tuple[Array, Array]:
    """The samples and labels on which worker k scores models in this round."""
    return view.s.scored_on(k, view.batch[k])  # type: ignore[index]


def receiver_data(view: View) -> tuple[Array, Array]:
    """The samples and labels on which the receiver scores models in this round."""
    return data_of(view, view.receiver)


def triggered(view: View) -> tuple[Array, Array]:
    """The samples on which the receiver scores, all with the trigger of a backdoor, and its class for all."""
    X, y = receiver_data(view)
    return with_trigger(X), module_of(y).full_like(y, TARGET)


def risk_on(view: View, data: tuple[Array, Array]) -> Risk:
    """The risk on these samples and labels; r_k if they are worker k's."""
    return lambda w: algorithm.risk(view.s, w, *data)


def gradient_on(view: View, data: tuple[Array, Array]) -> Callable[[Array], Array]:
    """The gradient of the risk on these samples and labels, (d,) -> (d,)."""
    s = view.s
    return lambda w: s.model.gradient(w, *data) + s.l2 * w


def own_risk(view: View) -> Risk:
    """The mean of the attackers' own risks, (d,) -> a number."""
    risks = [risk_on(view, data_of(view, int(a))) for a in view.s.attackers]
    return lambda w: sum(r(w) for r in risks) / len(risks)


def outcome(view: View) -> Callable[[Array], Array]:
    """What the receiver makes of a lie (d,) that all attackers send it: its next model, (d,)."""
    k, xp, scored = view.receiver, module_of(view.honest), receiver_data(view)
    risk = once(lambda w: view.s.model.risk(w, *scored))  # honest models are the same beside any lie
    s = view.s._replace(model=SimpleNamespace(risk=lambda w, X, y: risk(w)))
    N_k, _ = s.neighbourhood(k)
    place = np.searchsorted(view.workers, N_k).clip(max=len(view.workers) - 1)
    models, lying = view.honest[xp.asarray(place)], xp.asarray(np.isin(N_k, s.attackers))

    def made_of(lie: Array) -> Array:
        W = xp.where(lying[:, None], lie, models)
        return algorithm.aggregation_step(s, k, W, view.batch[k])[0]  # type: ignore[index]

    return made_of


KNOWLEDGE |= {
    "receiver": Known(receiver_model, "the receiver's model", True),
    "heard": Known(heard, "the honest models that the receiver hears", True),
    "liars": Known(liars, "", True),
    "risk": Known(lambda view: risk_on(view, receiver_data(view)), "the receiver's data", True),
    "gradient": Known(lambda view: gradient_on(view, receiver_data(view)), "the receiver's data", True),
    "triggered_risk": Known(lambda view: risk_on(view, triggered(view)), "the receiver's data", True),
    "triggered_gradient": Known(lambda view: gradient_on(view, triggered(view)), "the receiver's data", True),
    "own_risk": Known(own_risk, "all attackers' data"),
    "outcome": Known(outcome, "the rule, the receiver's data and what else it hears", True),
    "before": Known(models_before, "the models before the round"),
    "start": Known(lambda view: view.before.W[view.receiver], "the receiver's model before the round", True),
    "round": Known(lambda view: view.before.t + 1, ""),
    "place": Known(lambda view: view.receiver, "", True),
    "workers": Known(lambda view: view.workers, ""),
    "graph": Known(lambda view: view.s.graph, "who hears whom"),
    "layout": Known(lambda view: view.s.model.layout, ""),
    "zeros": Known(lambda view: module_of(view.own).zeros_like(view.own[0]), ""),
}
MODELS = {"own", "attackers", "honest", "signals", "counts", "zeros"}  # all that is made of models


TO_PEERS = MODELS | {"receiver", "heard", "liars", "round", "place", "workers", "graph", "layout"}
"""What an attacker that is a process of its own can know: it has neither the data nor the rule of others."""


def require_known_to_peers(attack: str) -> None:
    """Raises ValueError if the attack knows more than models, who hears whom and the round."""
    if strange := [name for name in ATTACKS[attack].knows if name not in TO_PEERS]:
        more = KNOWLEDGE[strange[0]].words or strange[0]
        raise ValueError(f"a peer knows models, who hears whom and the round, but {attack} knows {more}")


def require_models(attack: str) -> None:
    """Raises ValueError unless the attack sends all receivers the same, and makes it of models alone."""
    entry = ATTACKS[attack]
    if entry.per_receiver or not MODELS.issuperset(entry.knows):
        needs = "an attack that sends all the same, made of models alone"
        raise ValueError(f"needs {needs}, got {attack}")


def require_nothing_before(attack: str) -> None:
    """Raises ValueError if the attack knows the models before the round."""
    if not {"before", "start"}.isdisjoint(ATTACKS[attack].knows):
        sent = "the models before the round are what is sent"
        raise ValueError(f"{sent}: needs an attack that does not compare with them, got {attack}")
