"""Variants of a whole round: each is called as algorithm.round_ and returns a `Round` as that does."""

from collections.abc import Callable, Sequence

import numpy as np

from refimpl import aggregate
from refimpl.aggregate import RULES, combine
from refimpl.algorithm import Round, Setting, State, aggregation_step, messages, round_, start
from refimpl.arrays import Array
from refimpl.attacks import ATTACKS
from refimpl.audit.variants.weights import without_own


def with_aggregation(
    s: Setting,
    made: Round,
    batch: Array,
    *,
    W: Array | None = None,
    sent: Array | None = None,
    scored: Array | None = None,
    receivers: Sequence[int] | None = None,
    compute: Callable[..., Array] | None = None,
) -> Round:
    """The round with its aggregation step taken again, something changed.

    `W` are the models of workers that do not aggregate, `sent` the messages, `scored` the models that are
    scored in their place, `receivers` the workers that aggregate, `compute` that of the rule.
    """
    sent, rule = made.sent if sent is None else sent, RULES[s.rule]
    scored, compute = sent if scored is None else scored, compute or rule.compute
    result = (made.local if W is None else W).copy()
    R, C = np.full_like(made.risks, np.nan), np.zeros_like(made.risks)
    for k in s.normal if receivers is None else receivers:
        N_k, own = s.neighbourhood(k)
        _, risks, _ = aggregation_step(s, k, scored[N_k], batch[k])
        answer = compute(sent[N_k], risks, own, len(s.attackers))
        result[k] = combine(answer, sent[N_k]) if rule.weighs else answer
        if risks is not None:
            R[k, N_k] = risks
        if rule.weighs:
            C[k, N_k] = answer
    made = made._replace(sent=sent, risks=R, weights=C if rule.weighs else None)
    return made._replace(state=made.state._replace(W=result))


def with_rule(name: str, compute: Callable[..., Array], made: Round, s: Setting, batch: Array) -> Round:
    """The round with `compute` in place of that of one rule; the round itself under any other rule."""
    return with_aggregation(s, made, batch, compute=compute) if s.rule == name else made


# --- The local step -----------------------------------------------------------------------------------------


class OfTheNextWorker(Setting):
    def mu(self, k: int, t: int) -> float:
        return super().mu(k + 1, t)


class OfTheRoundBefore(Setting):
    def mu(self, k: int, t: int) -> float:
        return super().mu(k, t - 1)


def another_workers_step(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """the step size of another worker: mu_(k+1) for mu_k"""
    return round_(OfTheNextWorker(*s), state, batch, signals)


def last_rounds_step(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """the step size of round t - 1: t counts from 0"""
    return round_(OfTheRoundBefore(*s), state, batch, signals)


def counted_from_2(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """Adam's steps counted from 2: its corrections are a step ahead"""
    return round_(OfTheRoundBefore(*s), state._replace(t=state.t + 1), batch, signals)


def not_counted(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """rounds that are not counted: t is 1 in every round"""
    return round_(s, state._replace(t=0), batch, signals)


def another_workers_memory(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """another worker's memory: worker k goes on from the optimiser state of worker k - 1"""
    return round_(s, state._replace(memory=np.roll(state.memory, 1, axis=1)), batch, signals)


def starting_again(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """optimisers start again each round: Adam's step number is always 1 and its memory 0"""
    return round_(s, start(s, state.W), batch, signals)


# --- The regulariser ----------------------------------------------------------------------------------------


def no_l2(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """l2 is ignored: the risk without its regulariser, in the step and in the score"""
    return round_(s._replace(l2=0.0), state, batch, signals)


def no_l2_in_the_gradient(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """L2 left out of the gradient: only the risk has it"""
    return with_aggregation(s, no_l2(s, state, batch, signals), batch)


def no_l2_in_the_risk(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """L2 left out of the risk: only the gradient has it"""
    return with_aggregation(s._replace(l2=0.0), round_(s, state, batch, signals), batch)


def l2_without_half(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """L2 without its half: l2 |w|^2 in the risk, l2 w in the gradient"""
    return with_aggregation(s._replace(l2=2 * s.l2), round_(s, state, batch, signals), batch)


# --- Attackers ----------------------------------------------------------------------------------------------


def attackers_aggregate(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """attackers that aggregate: all workers aggregate"""
    return with_aggregation(s, round_(s, state, batch, signals), batch, receivers=range(len(s.graph)))


def attackers_overwritten(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """attackers overwritten by their message: an attacker goes on from what it sent
    [the released code on Spambase and MNIST]"""
    made = round_(s, state, batch, signals)
    made.state.W[s.attackers] = made.sent[s.attackers]
    return made


def attackers_untrained(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """attackers do not train: they lie about the model of the round before"""
    made = round_(s, state, batch, signals)
    local = made.local.copy()
    local[s.attackers] = state.W[s.attackers]
    return with_aggregation(s, made, batch, W=local, sent=messages(s, local, signals))


def attackers_empty(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """attackers that take no local step: they lie about a model of zeros"""
    made = round_(s, state, batch, signals)
    local = made.local.copy()
    local[s.attackers] = 0
    return with_aggregation(s, made, batch, sent=messages(s, local, signals))


def attackers_see_all(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """attacks see all workers' models: the mean and deviation of FoE and ALIE are taken over attackers too
    [the released code (with another ALIE)]"""
    made, attack = round_(s, state, batch, signals), ATTACKS[s.attack]
    sent = made.sent.copy()
    if len(s.attackers) and attack.one_message:
        sent[s.attackers] = attack.send(made.local[s.attackers], made.local, signals)
    return with_aggregation(s, made, batch, sent=sent)


# --- Who hears whom, and when -------------------------------------------------------------------------------


class FirstIsOwn(Setting):
    def neighbourhood(self, k: int) -> tuple[np.ndarray, int]:
        return super().neighbourhood(k)[0], 0


def first_is_own(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """the receiver is the first of its neighbourhood: position 0 is taken for its own"""
    return round_(FirstIsOwn(*s), state, batch, signals)


def no_graph(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """the graph is ignored: everyone hears everyone [the released code, which has no other graph]"""
    return round_(s._replace(graph=np.ones_like(s.graph)), state, batch, signals)


def one_after_the_other(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """workers updated one after the other: a worker hears what those before it have already aggregated"""
    made = round_(s, state, batch, signals)
    W, sent = made.local.copy(), made.sent.copy()
    for k in s.normal:
        W[k] = sent[k] = with_aggregation(s, made, batch, sent=sent, receivers=[k]).state.W[k]
    return made._replace(state=made.state._replace(W=W))


def mix_and_step(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """mix and step: models of the round before are combined, then the gradient step at the own model is added
    [D-PSGD as Lian et al. 2017; Peng et al. 2021, Balu's group]"""
    made = round_(s, state, batch, signals)
    mixed = with_aggregation(s, made, batch, W=state.W, sent=messages(s, state.W, signals))
    return mixed._replace(state=mixed.state._replace(W=mixed.state.W + made.local - state.W))


def screen_then_step(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """screen, then step: models of the round before are combined, then the step is taken from the result
    [BRIDGE's and ByRDiE's codes]"""
    made = round_(s, state, batch, signals)
    screened = with_aggregation(s, made, batch, W=state.W, sent=messages(s, state.W, signals)).state.W
    return round_(s._replace(rule="local"), state._replace(W=screened), batch, signals)


# --- Risks --------------------------------------------------------------------------------------------------


def another_workers_data(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """risk on another worker's data: worker k scores on the data of worker k - 1"""
    X, y = ([data[k - 1] for k in range(len(data))] for data in (s.X, s.y))
    made = round_(s, state, batch, signals)
    return with_aggregation(s._replace(X=X, y=y), made, np.roll(batch, 1, axis=0))


def risk_on_all_data(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """batch risk on all local data: risk="batch" is ignored"""
    return round_(s._replace(risk="local"), state, batch, signals)


def risk_on_the_batch(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """local risk on the round's batch: risk="local" is ignored: every risk is on the round's mini-batch
    [the paper's cost paragraph; the released code, which smooths it too]"""
    return round_(s._replace(risk="batch"), state, batch, signals)


def scored_before(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """models scored before their step: risks are those of the models of the round before"""
    return with_aggregation(s, round_(s, state, batch, signals), batch, scored=state.W)


def infinity_trusted(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """an infinite entry is trusted: a model that is not finite is scored by the network, which may not
    notice"""
    made = round_(s, state, batch, signals)
    scored = np.nan_to_num(made.sent, nan=0.0, posinf=1e300, neginf=-1e300)
    return with_aggregation(s, made, batch, scored=scored)


def smoothed(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """risks smoothed from 1 by a twentieth: L = 0.95 + 0.05 r in place of r
    [the first round of the released code; Li et al. 2020]"""
    made, rule = round_(s, state, batch, signals), RULES[s.rule]
    if not rule.scores:
        return made
    return with_aggregation(
        s, made, batch, compute=lambda W, r, own, f: rule.compute(W, 0.95 + 0.05 * r, own, f)
    )


# --- Rules --------------------------------------------------------------------------------------------------


def own_left_out(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """own model left out of N_k: weights over the others only, unless nobody else passes"""
    made = round_(s, state, batch, signals)
    return with_rule("adaptive", lambda W, r, own, f: without_own(r, own), made, s, batch)


def krum_without_attackers(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """Krum is told of no attackers: Krum gets f = 0"""
    made = round_(s, state, batch, signals)
    return with_rule("krum", lambda W, r, own, f: aggregate.krum(W, 0), made, s, batch)


def tenth_not_trimmed(s: Setting, state: State, batch: Array, signals: Array | None = None) -> Round:
    """trimmed mean without attackers trims nothing: f on each side by name too, where the paper trims a tenth
    if f = 0"""
    made = round_(s, state, batch, signals)
    return with_rule("trimmed-mean", lambda W, r, own, f: aggregate.trimmed_mean(W, f), made, s, batch)


TABLE = {
    "round": (
        attackers_aggregate, attackers_overwritten, attackers_untrained, another_workers_data, risk_on_all_data,
        risk_on_the_batch, own_left_out, no_graph, attackers_see_all, krum_without_attackers, infinity_trusted,
        scored_before, smoothed, one_after_the_other, mix_and_step, screen_then_step, attackers_empty,
        first_is_own, tenth_not_trimmed, no_l2_in_the_gradient, no_l2_in_the_risk, l2_without_half,
        another_workers_step, last_rounds_step, counted_from_2, not_counted, another_workers_memory, no_l2,
        starting_again,
    ),
}  # fmt: skip
