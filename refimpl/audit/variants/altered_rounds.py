"""Variants of a whole round: each is a function of what `algorithm.round_` is given, and returns a `Round`."""

from collections.abc import Callable, Sequence
from functools import cached_property, wraps
from typing import Any

import numpy as np

from refimpl import aggregate
from refimpl.aggregate import RULES, combine
from refimpl.algorithm import Round, Setting, State, aggregation_step, messages, round_, start
from refimpl.arrays import Array
from refimpl.attacks import ATTACKS, View
from refimpl.audit.variants.weights import without_own


class Given:
    """What a round is given, and the round as it should be."""

    def __init__(self, s: Setting, state: State, batch: Array, signals: Array | None = None) -> None:
        self.s, self.state, self.batch, self.signals = s, state, batch, signals

    @cached_property
    def right(self) -> Round:
        """The round by the definition."""
        return self.round()

    def round(self, state: State | None = None, **changes: Any) -> Round:
        """The round from another state, or with other fields of the setting."""
        return round_(self.s._replace(**changes), state or self.state, self.batch, self.signals)

    def sending(self, W: Array) -> Round:
        """The round in which the workers have and send these models after their local step."""
        return self.right._replace(local=W, sent=messages(self.s, W, self.signals, self.state, self.batch))

    def aggregated(
        self,
        made: Round | None = None,
        *,
        scored: Array | None = None,
        receivers: Sequence[int] | None = None,
        compute: Callable[..., Array] | None = None,
        **changes: Any,
    ) -> Round:
        """A round, the right one if none is given, with its aggregation step taken again.

        `scored` are the models that are scored in place of those sent, `receivers` the workers that aggregate,
        `compute` is that of the rule, `changes` are those of the setting.
        """
        s, made = self.s._replace(**changes), made or self.right
        rule, sent, result = RULES[s.rule], made.sent, made.local.copy()
        scored, compute = sent if scored is None else scored, compute or rule.compute
        R, C = np.full_like(made.risks, np.nan), np.zeros_like(made.risks)
        for k in s.normal if receivers is None else receivers:
            N_k, own = s.neighbourhood(k)
            _, risks, _ = aggregation_step(s, k, scored[N_k], self.batch[k])
            answer = compute(sent[N_k], risks, own, len(s.attackers))
            result[k] = combine(answer, sent[N_k]) if rule.weighs else answer
            if risks is not None:
                R[k, N_k] = risks
            if rule.weighs:
                C[k, N_k] = answer
        state = made.state._replace(W=result)
        return made._replace(risks=R, weights=C if rule.weighs else None, state=state)

    def with_rule(self, name: str, compute: Callable[..., Array]) -> Round:
        """The round with `compute` in place of that of one rule; the round itself under any other rule."""
        return self.aggregated(compute=compute) if self.s.rule == name else self.right


def of_inputs(variant: Callable[[Given], Round]) -> Callable[..., Round]:
    """The variant, called as algorithm.round_ is."""
    return wraps(variant)(lambda *inputs: variant(Given(*inputs)))


# --- The local step -----------------------------------------------------------------------------------------


def another_workers_step(given: Given) -> Round:
    """the step size of another worker: mu_(k+1) for mu_k"""
    return given.round(step_size=lambda k, t: given.s.mu(k + 1, t))


def last_rounds_step(given: Given) -> Round:
    """the step size of round t - 1: t counts from 0"""
    return given.round(step_size=lambda k, t: given.s.mu(k, t - 1))


def counted_from_2(given: Given) -> Round:
    """Adam's steps counted from 2: its corrections are a step ahead"""
    later = given.state._replace(t=given.state.t + 1)
    return given.round(later, step_size=lambda k, t: given.s.mu(k, t - 1))


def not_counted(given: Given) -> Round:
    """rounds that are not counted: t is 1 in every round"""
    return given.round(given.state._replace(t=0))


def starting_again(given: Given) -> Round:
    """optimisers start again each round: Adam's step number is always 1 and its memory 0"""
    return given.round(start(given.s, given.state.W))


# --- The regulariser ----------------------------------------------------------------------------------------


def no_l2(given: Given) -> Round:
    """l2 is ignored: the risk without its regulariser, in the step and in the score"""
    return given.round(l2=0.0)


def no_l2_in_the_gradient(given: Given) -> Round:
    """L2 left out of the gradient: only the risk has it"""
    return given.aggregated(given.round(l2=0.0))


def no_l2_in_the_risk(given: Given) -> Round:
    """L2 left out of the risk: only the gradient has it"""
    return given.aggregated(l2=0.0)


def l2_without_half(given: Given) -> Round:
    """L2 without its half: l2 |w|^2 in the risk, l2 w in the gradient"""
    return given.aggregated(l2=2 * given.s.l2)


# --- Attackers ----------------------------------------------------------------------------------------------


def attackers_aggregate(given: Given) -> Round:
    """attackers that aggregate: all workers aggregate"""
    return given.aggregated(receivers=range(len(given.s.graph)))


def attackers_overwritten(given: Given) -> Round:
    """attackers overwritten by their message: an attacker goes on from what it sent
    [the released code on Spambase and MNIST]"""
    given.right.state.W[given.s.attackers] = given.right.sent[given.s.attackers]
    return given.right


def attackers_untrained(given: Given) -> Round:
    """attackers do not train: they lie about the model of the round before"""
    local = given.right.local.copy()
    local[given.s.attackers] = given.state.W[given.s.attackers]
    return given.aggregated(given.sending(local))


def attackers_empty(given: Given) -> Round:
    """attackers that take no local step: they lie about a model of zeros"""
    local = given.right.local.copy()
    local[given.s.attackers] = 0
    return given.aggregated(given.right._replace(sent=given.sending(local).sent))


def attackers_see_all(given: Given) -> Round:
    """attacks see all workers' models: the mean and deviation of FoE and ALIE are taken over attackers too
    [the released code (with another ALIE)]"""
    s, local, sent, attack = given.s, given.right.local, given.right.sent.copy(), ATTACKS[given.s.attack]
    if len(s.attackers) and attack.one_message:
        everybody = np.arange(len(local))
        view = View(s, given.state, given.batch, local[s.attackers], local, everybody, given.signals)
        sent[s.attackers] = attack.made_from(view)
    return given.aggregated(given.right._replace(sent=sent))


# --- Who hears whom, and when -------------------------------------------------------------------------------


def first_is_own(given: Given) -> Round:
    """the receiver is the first of its neighbourhood: position 0 is taken for its own"""
    rule = RULES[given.s.rule]
    return given.aggregated(compute=lambda W, r, own, f: rule.compute(W, r, 0, f))


def no_graph(given: Given) -> Round:
    """the graph is ignored: everyone hears everyone [the released code, which has no other graph]"""
    return given.round(graph=np.ones_like(given.s.graph))


def one_after_the_other(given: Given) -> Round:
    """workers updated one after the other: a worker hears what those before it have already aggregated"""
    W, sent = given.right.local.copy(), given.right.sent.copy()
    for k in given.s.normal:
        W[k] = sent[k] = given.aggregated(given.right._replace(sent=sent), receivers=[k]).state.W[k]
    return given.right._replace(state=given.right.state._replace(W=W))


def mix_and_step(given: Given) -> Round:
    """mix and step: models of the round before are combined, then the gradient step at the own model is added
    [D-PSGD as Lian et al. 2017; Peng et al. 2021, Balu's group]"""
    mixed = given.aggregated(given.sending(given.state.W)).state.W
    state = given.right.state._replace(W=mixed + given.right.local - given.state.W)
    return given.right._replace(state=state)


def screen_then_step(given: Given) -> Round:
    """screen, then step: models of the round before are combined, then the step is taken from the result
    [BRIDGE's and ByRDiE's codes]"""
    screened = given.aggregated(given.sending(given.state.W)).state
    return given.round(given.state._replace(W=screened.W), rule="local")


# --- Risks --------------------------------------------------------------------------------------------------


def another_workers_data(given: Given) -> Round:
    """risk on another worker's data: worker k scores on the data of worker k - 1"""
    X, y = ([data[k - 1] for k in range(len(data))] for data in (given.s.X, given.s.y))
    moved = Given(given.s._replace(X=X, y=y), given.state, np.roll(given.batch, 1, axis=0))
    return moved.aggregated(given.right)


def risk_on_all_data(given: Given) -> Round:
    """batch risk on all local data: risk="batch" is ignored"""
    return given.round(risk="local")


def risk_on_the_batch(given: Given) -> Round:
    """local risk on the round's batch: risk="local" is ignored: every risk is on the round's mini-batch
    [the paper's cost paragraph; the released code, which smooths it too]"""
    return given.round(risk="batch")


def scored_before(given: Given) -> Round:
    """models scored before their step: risks are those of the models of the round before"""
    return given.aggregated(scored=given.state.W)


def infinity_trusted(given: Given) -> Round:
    """an infinite entry is trusted: a model that is not finite is scored by the network, which may not
    notice"""
    return given.aggregated(scored=np.nan_to_num(given.right.sent, nan=0.0, posinf=1e300, neginf=-1e300))


def smoothed(given: Given) -> Round:
    """risks smoothed from 1 by a twentieth: L = 0.95 + 0.05 r in place of r
    [the first round of the released code; Li et al. 2020]"""
    rule = RULES[given.s.rule]
    smooth = lambda W, r, own, f: rule.compute(W, 0.95 + 0.05 * r, own, f)
    return given.aggregated(compute=smooth) if rule.scores else given.right


# --- Rules --------------------------------------------------------------------------------------------------


def own_left_out(given: Given) -> Round:
    """own model left out of N_k: weights over the others only, unless nobody else passes"""
    return given.with_rule("adaptive", lambda W, r, own, f: without_own(r, own))


def krum_without_attackers(given: Given) -> Round:
    """Krum is told of no attackers: Krum gets f = 0"""
    return given.with_rule("krum", lambda W, r, own, f: aggregate.krum(W, 0))


def tenth_not_trimmed(given: Given) -> Round:
    """trimmed mean without attackers trims nothing: f on each side by name too, where the paper trims a tenth
    if f = 0"""
    return given.with_rule("trimmed-mean", lambda W, r, own, f: aggregate.trimmed_mean(W, f))


TABLE = {
    "round": tuple(map(of_inputs, (
        attackers_aggregate, attackers_overwritten, attackers_untrained, another_workers_data, risk_on_all_data,
        risk_on_the_batch, own_left_out, no_graph, attackers_see_all, krum_without_attackers, infinity_trusted,
        scored_before, smoothed, one_after_the_other, mix_and_step, screen_then_step, attackers_empty,
        first_is_own, tenth_not_trimmed, no_l2_in_the_gradient, no_l2_in_the_risk, l2_without_half,
        another_workers_step, last_rounds_step, counted_from_2, not_counted, no_l2, starting_again,
    ))),
}  # fmt: skip
