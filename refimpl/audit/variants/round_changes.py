"""Rounds with something changed, from which `rounds` is made."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refimpl import algorithm
from refimpl.aggregate import RULES, Rule
from refimpl.algorithm import Round, Setting, State, aggregation_step, round_
from refimpl.attacks import ATTACKS


def aggregated(
    s: Setting,
    made: Round,
    batch: np.ndarray,
    W: np.ndarray | None = None,
    sent: np.ndarray | None = None,
    scored: np.ndarray | None = None,
    receivers: Sequence[int] | None = None,
    rule: Rule | None = None,
    position: int | None = None,
    neighbour: int = 0,
) -> np.ndarray:
    """The aggregation step of algorithm.round_ with something changed: the next parameters (N, d).

    `W` is what those keep who do not aggregate, `sent` are the messages, `scored` the models that are scored in
    their place, `receivers` those who aggregate, `rule` a rule in place of the setting's, `position` what a
    receiver takes for its own; worker k scores on the data of worker k + `neighbour`.
    """
    sent, rule = made.sent if sent is None else sent, rule or RULES[s.rule]
    result = (made.local if W is None else W).copy()
    for k in s.normal if receivers is None else receivers:
        N_k, l = np.flatnonzero(s.graph[k]), (k + neighbour) % len(s.graph)
        own = int(np.searchsorted(N_k, k)) if position is None else position
        X, y = (s.X[l], s.y[l]) if s.risk == "local" else (s.X[l, batch[l]], s.y[l, batch[l]])
        told = rule if scored is None else seeing(rule, s, scored[N_k], X, y)
        result[k], *_ = aggregation_step(s.model, told, sent[N_k], own, X, y, len(s.attackers), s.l2)
    return result


def seeing(rule: Rule, s: Setting, models: np.ndarray, X: np.ndarray, y: np.ndarray) -> Rule:
    """The rule with the risks of other models than those that it combines."""
    risks = np.stack([algorithm.risk(s.model, w, X, y, s.l2) for w in models])
    return rule._replace(compute=lambda W, r, own, f: rule.compute(W, risks, own, f))


def with_setting(**changes: Callable[[Setting], Any]) -> Callable[..., np.ndarray]:
    """Some of the setting ignored."""

    def compute(s: Setting, *rest: Any) -> np.ndarray:
        return round_(s._replace(**{key: value(s) for key, value in changes.items()}), *rest).state.W

    return compute


def again(**changed: Callable[[Setting, State, Round], Any]) -> Callable[..., np.ndarray]:
    """A round whose aggregation is done again with something changed."""

    def compute(s: Setting, state: State, batch: np.ndarray, signals: np.ndarray | None) -> np.ndarray:
        made = round_(s, state, batch, signals)
        return aggregated(s, made, batch, **{key: value(s, state, made) for key, value in changed.items()})

    return compute


def with_rule(name: str, compute: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A round with one of the rules changed; `compute` is called as that of RULES."""
    rules = RULES | {name: RULES[name]._replace(compute=compute)}
    return again(rule=lambda s, state, made: rules[s.rule])


def attack_on_everyone(s: Setting, state: State, made: Round) -> np.ndarray:
    """Attackers take everyone's models for the honest ones."""
    sent, attack = made.sent.copy(), ATTACKS[s.attack]
    if len(s.attackers) and attack.one_message:
        sent[s.attackers] = attack.send(made.local[s.attackers], made.local, None)
    return sent


def nothing_of_their_own(s: Setting, state: State, made: Round) -> np.ndarray:
    """Attackers lie about a model of zeros."""
    local = made.local.copy()
    local[s.attackers] = 0
    return algorithm.messages(s, local, np.zeros_like(local[s.attackers]))


def with_l2(step: float, risk: float) -> Callable[..., np.ndarray]:
    """So many times the regulariser in the local step and in the risk."""

    def compute(s: Setting, state: State, batch: np.ndarray, signals: Any) -> np.ndarray:
        made = round_(s._replace(l2=step * s.l2), state, batch, signals)
        return aggregated(s._replace(l2=risk * s.l2), made, batch)

    return compute


def step_sizes(worker: int, t: int) -> Callable[[Setting], Any]:
    """Those of another worker or round."""

    def shifted(s: Setting) -> Any:
        mu = s.step_size
        return (lambda k, now: mu(k + worker, now + t)) if callable(mu) else mu

    return shifted


def one_too_many(s: Setting, state: State, *rest: Any) -> np.ndarray:
    """Optimisers count from 2, step sizes do not."""
    later = state._replace(t=state.t + 1)
    return round_(s._replace(step_size=step_sizes(0, -1)(s)), later, *rest).state.W


def overwritten(*inputs: Any) -> np.ndarray:
    made, s = round_(*inputs), inputs[0]
    made.state.W[s.attackers] = made.sent[s.attackers]
    return made.state.W


def one_after_the_other(s: Setting, state: State, batch: np.ndarray, signals: Any) -> np.ndarray:
    """Each receiver's result is what the next ones hear."""
    made = round_(s, state, batch, signals)
    sent = made.sent.copy()
    for k in s.normal:
        sent[k] = aggregated(s, made, batch, sent=sent, receivers=[k])[k]
    sent[s.attackers] = made.local[s.attackers]
    return sent


def untrained_attackers(s: Setting, state: State, batch: np.ndarray, signals: Any) -> np.ndarray:
    """Attackers stay where they were, and lie about that."""
    made = round_(s, state, batch, signals)
    local = made.local.copy()
    local[s.attackers] = state.W[s.attackers]
    sent = algorithm.messages(s, local, signals)
    return aggregated(s, made, batch, W=local, sent=sent)


def mixed_then_stepped(s: Setting, state: State, batch: np.ndarray, signals: Any) -> np.ndarray:
    """Models of the last round are combined; then the step that was computed at the own one."""
    made = round_(s, state, batch, signals)
    sent = algorithm.messages(s, state.W, signals)
    return aggregated(s, made, batch, W=state.W, sent=sent) + made.local - state.W


def screened_then_stepped(s: Setting, state: State, batch: np.ndarray, signals: Any) -> np.ndarray:
    """Models of the last round are combined; then a step from the result."""
    made = round_(s, state, batch, signals)
    W = aggregated(s, made, batch, W=state.W, sent=algorithm.messages(s, state.W, signals))
    return round_(s._replace(rule="local"), state._replace(W=W), batch, signals).local


def smoothed(s: Setting, state: State, made: Round) -> Rule:
    """As the released code in its first round: from 1, a twentieth of the new risk."""
    rule = RULES[s.rule]
    if not rule.scores:
        return rule
    return rule._replace(compute=lambda W, r, own, f: rule.compute(W, 0.95 + 0.05 * r, own, f))


def trusted(s: Setting, state: State, made: Round) -> np.ndarray:
    """Entries that are not finite are scored as large finite numbers."""
    return np.nan_to_num(made.sent, nan=0.0, posinf=1e300, neginf=-1e300)
