"""Mutants of refimpl/fast: the mistakes of an engine for all workers at once."""

import contextlib
import contextvars
from unittest import mock

import numpy as np
from problems import sent_by

from mutants.common import entry, killer
from refimpl import attacks, layers, models
from refimpl.aggregate import RULES
from refimpl.arrays import quiet
from refimpl.audit.variants.rules import by_gram
from refimpl.fast import (
    conv_pool,
    distances,
    engine,
    networks,
    parallel,
    plan,
    ranked_rows,
    released,
    risks,
    rules,
)

whole, many, near, pooled, twin = map(killer, ("engine", "networks", "distances", "conv_pool", "fast_rules"))
theirs, staged, carry, ranked, large, cut = map(
    killer, ("fast_released", "risks", "reused_products", "ranked_rows", "engine_shapes", "parallel")
)


def same(rule, attack="sign-flip"):
    return whole("every_rule_and_attack_on_a_small_problem", rule=rule, attack=attack)


def proof(rule):
    """On random problems, where a mistake is in what the small one leaves out."""
    return whole("the_engine_is_the_specification", rule=rule)


def har(rule, attack, dtype, seed):
    """At the size of HAR."""
    return large("har_with_carried_products", rule=rule, attack=attack, dtype=dtype, seed=seed)


def in_groups(**changes):
    """Fields of each group of a plan, changed by functions of the group."""

    def mutate(plan):
        def mutant(s):
            made = plan(s)
            changed = [g._replace(**{key: f(g) for key, f in changes.items()}) for g in made.groups]
            return made._replace(groups=changed)

        return mutant

    return mutate


def rolled(group):
    """Along the receivers that share a neighbourhood."""
    return np.roll(group.receivers, 1, axis=1)


def other_rows(change):
    """The rows that receivers score models on, changed."""
    return in_groups(local=lambda g: [change(rows) for rows in g.local])


def next_row_first(rows):
    return rows._replace(X=np.roll(rows.X, 1, axis=2), y=np.roll(rows.y, 1, axis=2))


def split_a_row_early(rows):
    starts = rows.starts
    return rows._replace(
        starts=starts if isinstance(starts, int) else np.maximum(starts - 1, np.arange(len(starts)))
    )


def padded_to_one_length(local_rows):
    def mutant(s, *rest):
        X, y = plan.padded(s, np.arange(len(s.y))[None], 0, max(map(len, s.y)))
        return local_rows(s._replace(X=list(X[0]), y=list(y[0])), *rest)

    return mutant


def without_l2(function):
    return lambda p, *args: function(p._replace(setting=p.setting._replace(l2=0.0)), *args)


def of_the_next_worker(local_steps):
    def mutant(p, *args):
        mu = p.setting.step_size
        shifted = (lambda k, t: mu(k + 1, t)) if callable(mu) else mu
        return local_steps(p._replace(setting=p.setting._replace(step_size=shifted)), *args)

    return mutant


def of_the_last_round(local_steps):
    return lambda p, state, X, y, t, *rest: local_steps(p, state, X, y, t - 1, *rest)


def last_message_for_all(attack):
    """All attackers send what the last of them does."""

    def mutant(p, sent, *args):
        attack(p, sent, *args)
        for _, lies in p.lies if len(p.attackers) else ():
            sent[lies] = sent[lies][-1:]

    return mutant


def message_of_the_first(attack):
    """All receivers are sent what the first one is."""

    def mutant(p, sent, *args):
        attack(p, sent, *args)
        for _, lies in p.lies:
            sent[lies] = sent[p.lies[0][1]]

    return mutant


def nobody_lies(attack):
    """Also not with one message: it is an attacker's own model."""

    def mutant(p, sent, W, *args):
        for _, lies in p.lies if len(p.attackers) else ():
            sent[lies] = W[p.attackers[: len(sent[lies])]]

    return mutant


def mean_with_padding(neighbour_risks):
    def mutant(network, M, rows, count):
        return neighbour_risks(network, M, rows, count * 0 + count.max())

    return mutant


def as_if_finite(function):
    """`finite` is the last but two of the arguments of `risks`, and the third of `combine_into`."""
    return lambda *args: function(*(True if isinstance(a, bool) else a for a in args))


def negated_bias(backward):
    def mutant(convolutions, saved, dy, dw):
        backward(convolutions, saved, dy, dw)
        networks.tensor(dw, convolutions[0][1])[...] *= -1

    return mutant


def carried_with(**methods):
    """A class like ReusedProducts with these of its methods changed."""
    return lambda f: type("Mutant", (f,), {name: change(getattr(f, name)) for name, change in methods.items()})


def carried_rounds(rule, attack):
    return carry("carried_rounds_are_the_specifications", model="mlp", rule=rule, attack=attack)


def rows_of_the_data(groups):
    """A mean over as many rows as workers have, though the batch has more."""

    def mutant(s, *args):
        most = max(map(len, s.y))
        return groups(s._replace(batch_size=min(s.batch_size, most)), *args)

    return mutant


def sent_by_nobody(attack):
    """The last message is the attackers', even if there are none."""

    def mutant(p, sent, W, signals, *more):
        attack(p, sent, W, signals, *more)
        lie = attacks.ATTACKS[p.setting.attack]
        if lie.one_message and not len(p.attackers):
            sent[-1] = sent_by(lie, sent[:1], sent.copy(), signals)

    return mutant


def lost_where_copied(local_steps):
    """The derivatives that are to be carried of workers that are no slice."""

    def mutant(p, state, X, y, t, delta=None):
        made = local_steps(p, state, X, y, t, delta)
        for chunk in p.chunks:
            if delta is not None and not isinstance(chunk.workers, slice):
                delta[chunk.workers] = 0
        return made

    return mutant


def rounded(local_steps):
    """The derivatives that are to be carried, in single precision."""

    def mutant(p, state, X, y, t, delta=None):
        made = local_steps(p, state, X, y, t, delta)
        if delta is not None:
            delta[...] = delta.astype("float32")
        return made

    return mutant


def of_the_first_part(step):
    """The derivatives that are to be carried of the rows that are computed first."""

    def mutant(self, w, rows, y, mu, delta=None):
        made = step(self, w, rows, y, mu, delta)
        for part in self._parts(y.shape, np):
            if delta is not None and part[-1].start:
                delta[part] = 0
        return made

    return mutant


def without(*names):
    """A function of `plan` that takes the answers of others to be no."""

    def mutate(function):
        def mutant(*args):
            with mock.patch.multiple(plan, **dict.fromkeys(names, lambda *args: False)):
                return function(*args)

        return mutant

    return mutate


def a_users_rule_as_a_twin(plan):
    """A rule of one's own is called as ours are, on any thread."""

    def mutant(s):
        compute = RULES[s.rule].compute
        as_ours = rules.Twin(lambda M, f: np.stack([compute(W, None, 0, f) for W in M]))
        return plan(s)._replace(twin=rules.TWINS.get(compute, as_ours))

    return mutant


def by_forward_alone(batched):
    """A layer is known by what it computes, whatever its derivatives."""

    def usual(layer):
        name = f"{layer.forward.__name__}_backward"
        return layer._replace(backward=getattr(layers, name, layer.backward))

    def mutant(model):
        if isinstance(model, models.Network):
            model = model._replace(layers=tuple(map(usual, model.layers)))
        return batched(model)

    return mutant


def ordinary_if_one_is(weights):
    """The shortcut for all receivers if one of them has a risk that allows it."""

    @quiet
    def mutant(r, own, senders=None):
        mine = np.take_along_axis(r, own[..., None], axis=-1)
        ordinary = r.min() > 1e-30 and mine.min() < 1e30
        return rules.shares((r <= mine) / r, senders) if ordinary else weights(r, own, senders)

    return mutant


def ties(among):
    """`smallest` with other rivals: (rivals, sums, the least) -> rivals."""

    def mutate(smallest):
        def mutant(R):
            best, rivals = smallest(R)
            infinite = np.isinf(R)
            far, sums = infinite.sum(axis=-1), np.where(infinite, 0, R).sum(axis=-1)
            sums = np.where(far == far.min(axis=-1, keepdims=True), sums, np.inf)
            return best, among(rivals, sums, sums.min(axis=-1, keepdims=True))

        return mutant

    return mutate


E, D, C, N, R = engine, distances, conv_pool, networks, rules
rivals = near("sums_that_products_cannot_tell_apart_are_rivals")
MUTANTS = [
    # --- The released code's rounds
    ("scored by what the next worker sent", released, "risks",
     lambda f: lambda p, group, M, *rest: f(p, group, np.roll(M, 1, axis=1), *rest),
     theirs("all_differences_together", rule="adaptive", attack="sign-flip", graph="complete"),
     theirs("one_difference_at_a_time", name="previous-message", attack="sign-flip")),
    ("the paper's rule in place of the released code's", released, "shared_by_receivers",
     lambda f: lambda s, p, M, changes: f(s, p, M, released.combined([])),
     theirs("all_differences_together", rule="median", attack="foe", graph="a star and a path")),
    ("averages that start anew in every round", released, "round_",
     lambda f: lambda s, p, state, *rest: f(s, p, state._replace(averages=np.ones_like(state.averages)), *rest),
     theirs("one_difference_at_a_time", name="smoothed-risk", attack="foe")),
    ("only risks that may pass are smoothed", released, "risks", lambda f: lambda *args: f(*args, True),
     theirs("every_risk_is_smoothed_where_most_need_not_be_computed")),
    # --- The engine
    ("derivatives that were copied are lost", E, "local_steps", lost_where_copied,
     har("adaptive", "alie", "float64", 0), har("inverse-risk", "arbitrary", "float64", 1)),
    ("derivatives in single precision", E, "local_steps", rounded, har("adaptive", "alie", "float64", 0)),
    ("carried products, and risks in stages", plan, "in_stages", without("carries", "ranks"),
     har("adaptive", "sign-flip", "float32", 1)),
    ("a user's rule on any thread", E, "plan", a_users_rule_as_a_twin,
     whole("what_is_not_ours_is_called_on_the_callers_thread", what="rule")),
    ("a receiver's rows shifted", E, "plan", other_rows(next_row_first), same("adaptive"), proof("adaptive")),
    ("a receiver scores the last row of another", E, "plan", other_rows(split_a_row_early), same("adaptive")),
    ("a group's own message off by one", E, "plan",
     in_groups(own=lambda g: (g.own + 1) % g.numbers.shape[1]), same("adaptive"), proof("gives")),
    ("receivers in another order than their data", E, "plan", in_groups(receivers=rolled),
     whole("neighbourhoods_run_out_of_rows_at_different_times", rows=[100, 10, 90, 80, 5])),
    ("the other receivers of one neighbourhood", E, "plan",
     in_groups(receiver_slice=lambda g: g.receivers[0][::-1]), same("adaptive", "foe")),
    ("messages heard off by one", E, "plan",
     in_groups(heard=lambda g: None if g.heard is None else g.heard - 1), same("average"), same("median")),
    ("a multiplicity forgotten", E, "plan", in_groups(senders=lambda g: None),
     same("inverse-risk", "alie"), proof("inverse-risk"),
     whole("a_message_of_several_is_scored_once_and_counts_for_all", attack="foe", name="complete",
           attackers=[1, 4], rule="inverse-risk")),
    ("the last slice of rows dropped", E, "plan", in_groups(local=lambda g: g.local[:-1] or g.local),
     whole("neighbourhoods_run_out_of_rows_at_different_times", rows=[100, 10, 90, 80, 5])),
    ("every receiver in every slice", plan, "local_rows",
     lambda f: lambda s, network, k, sizes, stages: f(s, network, k, sizes * 0 + sizes.max(), stages),
     whole("hardly_any_padding_is_scored")),
    ("receivers of one neighbourhood are padded", plan, "local_rows", padded_to_one_length,
     whole("receivers_of_one_neighbourhood_are_scored_without_padding")),
    ("a mean over padding too", risks, "neighbour_risks", mean_with_padding, same("inverse-risk")),
    ("risks on all data in place of the batch", E, "plan",
     lambda f: lambda s: f(s._replace(risk="local")), proof("inverse-risk"), proof("adaptive")),
    ("an infinite entry is trusted", E, "risks", as_if_finite,
     whole("a_model_that_is_not_finite_is_not_trusted_even_if_its_risk_is", one_message=True)),
    ("L2 forgotten in the gradient", E, "gradients", without_l2, same("local"), same("average")),
    ("L2 forgotten in the risk", E, "risks", without_l2, same("inverse-risk"), same("weighs")),
    ("the step size of the next worker", E, "local_steps", of_the_next_worker, same("local")),
    ("the step size of the last round", E, "local_steps", of_the_last_round, same("local")),
    ("one message for all attackers", E, "attack", last_message_for_all, same("average")),
    ("two senders' weights swapped in the matrix", E, "plan",
     lambda f: lambda s: f(s)._replace(message=f(s).message[:, [1, 0, *range(2, len(s.graph))]]),
     same("adaptive")),
    ("every receiver gets the first one's message", E, "attack", message_of_the_first,
     whole("a_message_per_receiver", rule="median", graph="complete", one_message=False)),
    ("messages per receiver numbered in another order", plan, "numbered",
     lambda f: lambda s, twin: (f(s, twin)[0][::-1], *f(s, twin)[1:]),
     whole("a_message_per_receiver", rule="adaptive", graph="ring", one_message=True)),
    ("nobody attacks", E, "attack", nobody_lies, same("average"), same("inverse-risk", "foe")),
    ("a rule is told of no attackers", E, "aggregated",
     lambda f: lambda p, *a: f(p._replace(attackers=p.attackers[:0]), *a), same("krum"), same("weighs")),
    ("a batch scored on as many rows as there are", plan, "groups", rows_of_the_data,
     whole("a_batch_larger_than_a_slice_and_than_the_workers_data", rule="weighs")),
    ("a message sent by nobody", E, "attack", sent_by_nobody,
     *(whole("a_message_that_nobody_sends_reaches_nobody", attack="foe", rule=rule)
       for rule in ("inverse-risk", "average"))),
    # --- Risks in stages
    ("out with half of one's own loss", risks, "passing_risks",
     lambda f: lambda network, M, stages, count, own: f(network, M, stages, count / 2, own),
     staged("whoever_passes_has_its_risk_and_no_other_is_trusted")),
    ("the last stage is not looked at", risks, "passing_risks",
     lambda f: lambda network, M, stages, count, own: f(network, M, stages[:-1], count, own),
     staged("whoever_passes_has_its_risk_and_no_other_is_trusted")),
    ("the bound of the next receiver", risks, "passing_risks",
     lambda f: lambda network, M, stages, count, own: f(network, M, stages, count, np.roll(own, 1)),
     staged("whoever_passes_has_its_risk_and_no_other_is_trusted"),
     staged("rounds_in_stages_are_the_specifications", model="mlp", risk="local", attack="foe")),
    ("a sum goes to the next receiver", risks, "sums_of_losses",
     lambda f: lambda *args: np.roll(f(*args), 1, axis=0),
     staged("whoever_passes_has_its_risk_and_no_other_is_trusted")),
    # --- Rows ranked by losses
    ("a model is out with half of one's own loss, by ranked rows", ranked_rows, "loss_bound",
     lambda f: lambda own, count, *dtype: f(own, count) / 2,
     ranked("whoever_passes_has_its_risk_and_no_other_is_trusted")),
    ("the least telling rows first", np, "argsort", lambda f: lambda x, **how: f(-x, **how),
     ranked("the_rows_that_tell_most_come_first")),
    ("float32 decides whatever it rounded", ranked_rows.RankedRows, "rounding",
     lambda f: lambda self, M: np.ones(len(M)),
     ranked("a_model_that_only_float64_can_judge_is_judged_by_it")),
    ("a run may go on after any round, whatever ranked its rows", E, "from_scratch", lambda f: lambda t: True,
     ranked("a_run_that_was_stopped_goes_on_to_the_same_bytes", attack="alie")),
    ("a ranking from any state", ranked_rows.RankedRows, "risks",
     lambda f: lambda self, M, state: f(self, M, state if self.W is None else state._replace(W=self.W)),
     ranked("a_ranking_is_used_only_in_the_rounds_that_follow")),
    # --- Products carried from round to round
    ("the weights of the next receiver", E, "ReusedProducts", carried_with(
        keep=lambda f: lambda self, W, c: f(self, W, None if c is None else np.roll(c, 1, axis=0))),
     carried_rounds("adaptive", "none"), carried_rounds("inverse-risk", "alie")),
    ("the rows of a batch in another order", E, "ReusedProducts", carried_with(
        risks=lambda f: lambda self, M, state, batch, delta: f(self, M, state, batch[:, ::-1], delta)),
     carried_rounds("inverse-risk", "none")),
    ("no step", E, "ReusedProducts", carried_with(
        risks=lambda f: lambda self, M, state, batch, delta: f(self, M, state, batch, 0 * delta)),
     carried_rounds("inverse-risk", "sign-flip")),
    ("carried over from any state", E, "ReusedProducts", carried_with(
        risks=lambda f: lambda self, M, state, batch, delta:
            f(self, M, state if self.W is None else state._replace(W=self.W), batch, delta)),
     carry("products_are_carried_only_from_the_round_before")),
    ("no lie may pass", E, "ReusedProducts", carried_with(
        score=lambda f: lambda self, M, carried, bound=None:
            f(self, M, carried, None if bound is None else 0 * bound)),
     carried_rounds("adaptive", "alie")),
    ("out with half of one's own loss, of lies", E, "ReusedProducts", carried_with(
        score=lambda f: lambda self, M, carried, bound=None:
            f(self, M, carried, None if bound is None else bound / 2)),
     carried_rounds("adaptive", "alie")),
    ("what is not finite is carried", E, "all_finite", lambda f: lambda W: True,
     carry("nothing_is_carried_over_from_what_is_not_finite", rule="inverse-risk", value=-1e308, entry=3),
     carry("nothing_is_carried_over_from_what_is_not_finite", rule="adaptive", value=-np.inf, entry=20)),
    ("a run may go on after any round", E, "from_scratch", lambda f: lambda t: True,
     carry("a_run_that_was_stopped_goes_on_to_the_same_bytes", attack="alie")),
    # --- Rules
    ("combine lets 0 * NaN through", E, "combine_into", as_if_finite, same("adaptive", "each its own NaN")),
    ("the shortcut of combine for everything", R, "combine_into", as_if_finite,
     twin("combine_is_that_of_the_specification", u=1, lost=True, receivers=[0, 1, 2], columns=7)),
    ("every model is finite", R, "all_finite", lambda f: lambda W: True,
     twin("combine_is_that_of_the_specification", u=1, lost=True, receivers=[0, 1, 2], columns=7)),
    ("NaN before everything", R, "ascending",
     lambda f: lambda W, *places: f(np.where(np.isnan(W), -np.inf, W), *places),
     twin("a_few_coordinates_at_a_time_change_nothing",
          name="median", floats=0, dtype="float64")),
    ("trimmed by one place more", R, "ascending", lambda f: lambda W, a, b: f(W, a + (b > a + 1), b),
     twin("a_rule_for_many_neighbourhoods_is_the_rule_for_each", name="trimmed-mean"), same("trimmed-mean")),
    ("one receiver's position for all", R.TWINS, RULES["adaptive"].compute,
     entry("weights", lambda f: lambda risks, own, *more: f(risks, np.full_like(own, own.flat[0]), *more)),
     twin("weights_for_many_receivers_are_those_of_each", name="adaptive"),
     twin("weights_of_any_risks_are_those_of_each", name="adaptive")),
    ("one receiver's weights for all", R, "combine", lambda f: lambda c, M: f(c * 0 + c[..., :1, :], M),
     twin("combine_for_many_receivers_equals_one_at_a_time")),
    ("average over the first axis", R.TWINS, RULES["average"].compute,
     entry("models", lambda f: lambda W, count: W.mean(axis=0)),
     twin("a_rule_for_many_neighbourhoods_is_the_rule_for_each", name="average")),
    ("one choice for all neighbourhoods", D, "medoid",
     lambda f: lambda W: np.broadcast_to(f(W)[:1], f(W).shape),
     twin("a_rule_for_many_neighbourhoods_is_the_rule_for_each", name="medoid")),
    ("one ordinary risk is enough for the shortcut", R.TWINS, RULES["adaptive"].compute,
     entry("weights", ordinary_if_one_is),
     twin("weights_for_many_receivers_are_those_of_each", name="adaptive")),
    # --- Parts and threads
    ("BLAS has as many threads as it likes", parallel, "threadpool_limits",
     lambda f: lambda count: contextlib.nullcontext(),
     cut("blas_has_one_thread_within_and_as_many_as_before_after")),
    ("helpers have settings of their own", parallel, "copy_context", lambda f: contextvars.Context,
     cut("helpers_ignore_what_the_caller_ignores_and_nothing_else", overflow="ignore")),
    # --- Distances
    ("distances to four digits are good enough", D, "PRECISION", lambda f: 1e-4,
     near("distances_by_products_are_those_by_differences", what="pairs", d=600, dtype="float64")),
    ("a tie is of three", D, "smallest",
     ties(lambda rivals, sums, least: rivals & (rivals.sum(axis=-1, keepdims=True) > 2)), rivals,
     near("mirrored_models_among_others_are_a_tie", products=True)),
    ("a tie is exact", D, "smallest", ties(lambda rivals, sums, least: sums == least), rivals),
    ("a tie but for the last digits", D, "smallest",
     ties(lambda rivals, sums, least: sums <= (1 + 8 * np.finfo(sums.dtype).eps) * least), rivals),
    ("rounding decides ties", D, "smallest", lambda f: lambda R: (f(R)[0], np.zeros(R.shape[:-1], bool)),
     near("rounding_decides_no_tie", products=True)),
    ("no pair is close", D, "linked", lambda f: lambda close: np.arange(len(close)),
     near("distances_by_products_are_those_by_differences", what="clusters", d=600, dtype="float64")),
    ("equal rows by their first entries", D, "different",
     lambda f: lambda V: f(V[:, :16]), near("distances_of_models_that_begin_alike")),
    ("distances by the plain Gram identity", D, "by_products", lambda f: quiet(by_gram),
     near("distances_between_models_that_agree_to_ten_digits_far_from_the_origin", products=True)),
    ("products that float64 can still square", D, "between",
     lambda f: lambda V: f(V.astype("float64")),
     near("float32_overflows_as_in_the_specification", products=True)),
    ("distance 0 to a lost model", D, "or_infinite", lambda f: lambda A: np.where(np.isinf(f(A)), 0, f(A)),
     near("choices_are_those_of_the_specification", products=True)),
    # --- Networks
    ("a layer by its forward function alone", N, "batched", by_forward_alone,
     many("a_network_that_is_not_known_is_not_guessed", name="a derivative of one's own")),
    ("derivatives of the first rows alone", N.Batched, "step", of_the_first_part,
     large("a_batch_that_is_cut_with_its_products_carried")),
    ("padding counts as the last class", N, "cross_entropy", lambda f: lambda z, y: f(z, y % z.shape[-1]),
     many("padding_rows_do_not_count", model=models.mlp([5, 4, 3]))),
    ("a bias of the other sign", N, "convolve_backward", negated_bias, proof("local")),
    ("rows of padding in the mean", N, "count", lambda f: lambda y, dtype: f(y * 0, dtype),
     many("many_equal_one_at_a_time", model=models.mlp([5, 4, 3]), dtype=float, lead=(2, 3))),
    # --- Convolution and pooling
    ("pooled ties to the last", C, "first_maximum",
     lambda f: lambda Y, y: f(Y[..., ::-1, :, :, :], y)[..., ::-1, :, :, :],
     pooled("ties_of_a_background_are_exact_and_go_to_the_first", image=False)),
    ("pooled ties to all", C, "first_maximum", lambda f: lambda Y, y: y[..., None, :, :, :] == Y,
     pooled("ties_of_a_background_are_exact_and_go_to_the_first", image=True)),
    ("tiles that do not overlap", C, "windows_of_four",
     lambda f: lambda x, axis: np.take(f(x, axis), [0, 1, 1, 2], axis=axis),
     pooled("float32_loses_no_more_than_the_plain_form_times_ten")),
]  # fmt: skip
