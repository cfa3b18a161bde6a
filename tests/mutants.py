"""Mutants: plausible mistakes, and the tests that must fail when they are patched in. Run by test_mutants.py.

A mutant is (what it does wrong, where it is patched in, as what, a function from the right thing to the wrong
one, the tests that kill it). Only public names and entries of tables are patched. To add one: write the mistake
and name the tests that should notice it; if there are none, write one.
"""

import numpy as np
from problems import diminishing

from refimpl import aggregate, algorithm, attacks, layers, models, optim, released, train
from refimpl.aggregate import RULES
from refimpl.arrays import quiet


def killer(module):
    """test("name", **parameters) for the tests of one file."""
    return lambda test, /, **parameters: (f"test_{module}", f"test_{test}", parameters)


weights, rules, attack, layer, model, step, rounds, runs, smoothed = map(
    killer,
    ("weights", "aggregate", "attacks", "layers", "models", "optim", "algorithm", "train", "released"),
)


def scalar(graph="complete", **parameters):
    """Rounds against the scalar Algorithm 1."""
    where = "on_the_complete_graph" if graph == "complete" else "on_sparse_graphs"
    if graph != "complete":
        parameters["graph"] = graph
    return rounds(f"rounds_equal_the_scalar_algorithm_{where}", **parameters)


def with_options(**changes):
    """The same with every option set, some of them to these."""
    options = {"rule": "adaptive", "risk": "local", "step_size": diminishing, "l2": 0.1, "optimizer": "adam"}
    return rounds("rounds_equal_the_scalar_algorithm_with_every_option", **options | changes)


def entry(field, mutate):
    """Of an entry of a table, this field."""
    return lambda right: right._replace(**{field: mutate(getattr(right, field))})


def own_of(risks, own):
    return np.take_along_axis(risks, np.asarray(own)[..., None], axis=-1)


def ascending(W):
    return np.sort(np.where(np.isnan(W), np.inf, W), axis=-2)


def nearest(W, D, skip, count):
    """The model whose `count` smallest distances after the first `skip` (itself) have the least sum."""
    best = np.sort(D, axis=-1)[..., skip : skip + count].sum(axis=-1).argmin(axis=-1)
    return np.take_along_axis(W, best[..., None, None], axis=-2)[..., 0, :]


def last_tie(rule):
    """The rule on the models in reverse order: of equal ones it takes the last."""
    return lambda W, *f: rule(W[..., ::-1, :], *f)


def overflowing_cross_entropy(z, y):
    picked = np.take_along_axis(z, np.broadcast_to(y, z.shape[:-1])[..., None], axis=-1)[..., 0]
    return np.where(y >= 0, np.log(np.exp(z).sum(axis=-1)) - picked, 0)


def negated_bias(backward):
    def mutant(dy, x, W, b):
        dx, dW, db = backward(dy, x, W, b)
        return dx, dW, -db

    return mutant


def kernel_not_rotated(backward):
    def mutant(dy, x, K, b):
        return layers.conv2d(dy, K.swapaxes(-1, -2), np.zeros(K.shape[2])), *backward(dy, x, K, b)[1:]

    return mutant


def shared_maxima(dy, x):
    """To every maximum of a window."""
    y, dx = layers.maxpool2d(x), np.zeros_like(x)
    for part, d_part in zip(layers.windows(x), layers.windows(dx)):
        d_part[...] = dy * (part == y)
    return (dx,)


def last_maximum(backward):
    """On the even part rotated by 180 degrees, the first of a window is the last."""

    def mutant(dy, x):
        H, W = 2 * dy.shape[1], 2 * dy.shape[2]
        dx = np.zeros_like(x)
        dx[:, :H, :W] = backward(dy[:, ::-1, ::-1], x[:, :H, :W][:, ::-1, ::-1])[0][:, ::-1, ::-1]
        return (dx,)

    return mutant


def adam(corrected, inside):
    """Adam without its bias correction, or with eps inside of the root."""

    def mutant(w, g, memory, mu, t):
        m, v = 0.9 * memory[0] + 0.1 * g, 0.999 * memory[1] + 0.001 * g * g
        m_hat, v_hat = (m / (1 - 0.9**t), v / (1 - 0.999**t)) if corrected else (m, v)
        return w - mu * m_hat / (np.sqrt(v_hat + 1e-8) if inside else np.sqrt(v_hat) + 1e-8), np.stack([m, v])

    return mutant


def own_left_out(rule):
    def mutant(W, risks, own, f):
        c = rule(W, risks, own, f)
        c[own] = 0
        return aggregate.or_own(c / np.maximum(c.sum(), 1e-300), own)

    return mutant


def first_infinity(scores, W):
    """Models with an infinite score are all alike."""
    return np.take_along_axis(W, scores.sum(axis=-1).argmin(axis=-1)[..., None, None], axis=-2)[..., 0, :]


# --- Of a whole round ---------------------------------------------------------------------------------------


def with_setting(change):
    """Rounds of another setting: `change` gives the fields that differ."""
    return lambda round_: lambda s, *args: round_(s._replace(**change(s)), *args)


def aggregating_again(workers, data):
    """These workers aggregate, or do so once more, on these data."""

    def mutate(round_):
        def mutant(s, state, batch, signals=None):
            result = round_(s, state, batch, signals)
            for k in workers(s):
                near = np.flatnonzero(s.graph[k])
                heard, own = result.sent[near], near.tolist().index(k)
                result.state.W[k], r, _ = algorithm.aggregation_step(
                    s.model, RULES[s.rule], heard, own, *data(s, k, batch[k]), len(s.attackers), s.l2
                )
                result.risks[k, near] = np.nan if r is None else r
            return result

        return mutant

    return mutate


def overwritten_by_their_message(round_):
    """What the released code does with attackers."""

    def mutant(s, *args):
        result = round_(s, *args)
        result.state.W[s.attackers] = result.sent[s.attackers]
        return result

    return mutant


def attack_on_everyone(messages):
    def mutant(s, W_hat, signals):
        sent = W_hat.copy()
        sent[s.attackers] = attacks.ATTACKS[s.attack].send(W_hat[s.attackers], W_hat, signals)
        return sent

    return mutant


def without(difference):
    """The round without one of the released code's differences."""
    return lambda f: (
        lambda s, state, batch, signals, on, *rest: f(
            s, state, batch, signals, [name for name in on if name != difference], *rest
        )
    )


def of_another(shift_k, shift_t):
    """The step size of another worker or round."""

    def change(s):
        mu = s.step_size
        return {"step_size": (lambda k, t: mu(k + shift_k, t + shift_t)) if callable(mu) else mu}

    return with_setting(change)


A, K, L, M, G, T = aggregate, attacks, layers, models, algorithm, train
MUTANTS = [
    # --- Eq. (5), (6), (3)
    ("weights proportional to the risk", A, "inverse_risk_weights",
     lambda f: lambda r: r / r.sum(axis=-1, keepdims=True),
     weights("weights_by_hand"), weights("a_smaller_risk_never_has_a_smaller_weight")),
    ("weights by softmax of minus the risk", A, "inverse_risk_weights",
     lambda f: lambda r: f(np.exp(np.minimum(r, 700))),
     weights("weights_do_not_depend_on_the_scale_of_the_risks")),
    ("weights that are not normalised", A, "inverse_risk_weights",
     lambda f: lambda r: f(r) / f(r).max(initial=1e-9),
     weights("weights_are_on_the_simplex")),
    ("1 / r without care for zero", A, "inverse_risk_weights",
     lambda f: quiet(lambda r: (1 / r) / (1 / r).sum(axis=-1, keepdims=True)),
     weights("weights_equal_the_oracle")),
    ("filter with <", A, "adaptive_weights",
     lambda f: lambda r, own: f(np.where((r == own_of(r, own)) & (np.arange(len(r)) != own), np.inf, r), own),
     weights("weights_by_hand"), weights("weights_are_positive_exactly_where_the_filter_lets_through")),
    ("no filter: Eq. (5) for Eq. (6)", A, "adaptive_weights",
     lambda f: lambda r, own: A.or_own(A.inverse_risk_weights(r), own),
     weights("weights_are_positive_exactly_where_the_filter_lets_through")),
    ("filter by the first worker's risk", A, "adaptive_weights", lambda f: lambda r, own: f(r, 0),
     weights("weights_move_with_the_neighbours"), weights("weights_by_hand")),
    ("one receiver's position for all", A, "adaptive_weights",
     lambda f: lambda r, own: f(r, np.full_like(own, np.asarray(own).flat[0])),
     weights("batched_weights_equal_one_at_a_time")),
    ("a lost own risk keeps the own model", A, "adaptive_weights",
     lambda f: lambda r, own: np.where(np.isfinite(own_of(r, own)), f(r, own), np.arange(len(r)) == own),
     weights("a_receiver_whose_own_risk_is_lost_takes_every_finite_neighbour")),
    ("weights in float64", A, "inverse_risk_weights", lambda f: lambda r: f(r).astype(float),
     weights("weights_and_combine_keep_dtype", dtype=np.float32)),
    ("combine lets 0 * NaN through", A, "combine", lambda f: quiet(lambda c, W: c @ W),
     weights("combine_ignores_a_lost_model_of_weight_zero_and_only_that", bad=np.nan),
     weights("combine_equals_the_oracle")),
    ("combine takes NaN for 0", A, "combine", lambda f: lambda c, W: f(c, np.where(np.isfinite(W), W, 0)),
     weights("combine_ignores_a_lost_model_of_weight_zero_and_only_that", bad=np.inf)),
    ("combine in the wrong order", A, "combine", lambda f: lambda c, W: f(c[..., ::-1], W),
     weights("a_combination_stays_in_the_hull_and_moves_with_a_translation"), weights("combine_by_hand")),
    ("one receiver's weights for all", A, "combine",
     lambda f: lambda c, W: f(c if c.ndim == 1 else c * 0 + c[..., :1, :], W),
     weights("combine_for_many_receivers_equals_one_at_a_time")),
    # --- Baselines
    ("lower median", A, "coordinate_median", lambda f: lambda W: ascending(W)[..., (W.shape[-2] - 1) // 2, :],
     rules("even_median_is_the_mean_of_the_middle_two"), rules("rules_equal_the_oracle", name="median")),
    ("median that NaN takes down", A, "coordinate_median", lambda f: quiet(lambda W: np.median(W, axis=-2)),
     rules("few_attackers_cannot_leave_the_honest_hull", name="median")),
    ("trimmed mean trims f - 1", A, "trimmed_mean", lambda f: lambda W, k: f(W, max(k - 1, 0)),
     rules("few_attackers_cannot_leave_the_honest_hull", name="trimmed-mean"),
     rules("rules_that_a_table_of_round_numbers_cannot_tell_apart")),
    ("trimmed mean trims one side", A, "trimmed_mean",
     lambda f: quiet(lambda W, k: ascending(W)[..., : W.shape[-2] - k, :].mean(axis=-2)),
     rules("few_attackers_cannot_leave_the_honest_hull", name="trimmed-mean")),
    ("trimmed mean without attackers trims nothing", A, "trim", lambda f: lambda n, k: k,
     rules("trimmed_mean_by_name_trims_a_tenth_without_attackers")),
    ("Krum with n - f - 1", A, "krum",
     lambda f: lambda W, k: nearest(W, A.squared_distances(W), 1, W.shape[-2] - k - 1),
     rules("krum_counts_n_minus_f_minus_2_squared_distances"), rules("rules_equal_the_oracle", name="krum")),
    ("Krum counts itself", A, "krum",
     lambda f: lambda W, k: nearest(W, A.squared_distances(W), 0, W.shape[-2] - k - 2),
     rules("rules_equal_the_oracle", name="krum")),
    ("Krum with unsquared distances", A, "krum",
     lambda f: lambda W, k: nearest(W, np.sqrt(A.squared_distances(W)), 1, W.shape[-2] - k - 2),
     rules("krum_counts_n_minus_f_minus_2_squared_distances"), rules("rules_equal_the_oracle", name="krum")),
    ("Krum's ties to the last", A, "krum", last_tie, rules("ties_go_to_the_lowest_index"),
     rules("among_exact_ties_the_lowest_index_is_chosen", name="krum")),
    ("Krum allows n = 2f + 2", A, "require_krum", lambda f: lambda n, k: f(n + 1, k),
     rules("too_few_models_are_refused", call=lambda: A.krum(np.ones((6, 2)), 2), message="krum")),
    ("medoid of squared distances", A, "medoid",
     lambda f: lambda W: nearest(W, A.squared_distances(W), 0, W.shape[-2]),
     rules("medoid_does_not_square_its_distances"), rules("rules_equal_the_oracle", name="medoid")),
    ("medoid's ties to the last", A, "medoid", last_tie, rules("ties_go_to_the_lowest_index"),
     rules("among_exact_ties_the_lowest_index_is_chosen", name="medoid")),
    ("distance 0 to a lost model", A, "squared_distances",
     lambda f: lambda W: np.where(np.isinf(f(W)), 0, f(W)),
     rules("few_attackers_far_away_are_not_chosen", name="krum"),
     rules("few_attackers_far_away_are_not_chosen", name="medoid")),
    ("distances by the plain Gram identity", A, "squared_distances",
     lambda f: quiet(lambda W: np.abs((W**2).sum(1)[:, None] + (W**2).sum(1) - 2 * W @ W.T)),
     rules("distances_between_models_that_agree_to_ten_digits_far_from_the_origin"),
     rules("squared_distances_equal_the_oracle")),
    ("a few infinite distances hide the others", A, "row_of_least", lambda f: first_infinity,
     rules("rules_equal_the_oracle", name="krum"),
     rules("few_attackers_far_away_are_not_chosen", name="medoid")),
    ("distances of directions", A, "squared_distances",
     lambda f: lambda W: f(W / np.sqrt((W**2).sum(-1, keepdims=True) + 1)),
     rules("rules_move_with_a_translation", name="medoid")),
    ("average weighted by position", A, "average",
     lambda f: lambda W: np.average(W, axis=-2, weights=np.arange(1, W.shape[-2] + 1)),
     rules("rules_do_not_depend_on_the_order_of_the_models", name="average")),
    ("average over the first axis", A, "average", lambda f: quiet(lambda W: W.mean(axis=0)),
     rules("one_neighbourhood_is_a_batch_of_one", name="average")),
    ("average in float64", A, "average", lambda f: lambda W: f(W.astype(float)),
     rules("rules_keep_dtype_and_inputs_and_batch_over_leading_axes", name="average", dtype="float32", form=0)),
    ("one choice for all neighbourhoods", A, "medoid",
     lambda f: lambda W: f(W) if W.ndim == 2 else np.broadcast_to(f(W)[:1, :1], f(W).shape),
     rules("rules_keep_dtype_and_inputs_and_batch_over_leading_axes", name="medoid", dtype=np.float64, form=0)),
    # --- Attacks
    ("sign flip that ignores sigma", K, "sign_flip", lambda f: lambda W, sigma=1.0: -W,
     attack("sign_flip_and_arbitrary_by_hand"), attack("attackers_own_models_equal_the_oracle")),
    ("one signal per model", K, "arbitrary", lambda f: lambda W, signals: signals[:, :1] * W,
     attack("attackers_own_models_equal_the_oracle")),
    ("FoE with plus", K, "fall_of_empires",
     lambda f: lambda h, e=1.0: -f(h, e), attack("mean_based_attacks_equal_the_oracle")),
    ("FoE over all workers", K.ATTACKS, "foe",
     entry("send", lambda f: lambda own, h, s: K.fall_of_empires(np.concatenate([own, h]))),
     attack("named_attacks_equal_the_oracle_and_keep_dtype_and_inputs", name="foe", dtype=np.float64, form=0)),
    ("ALIE with plus", K, "a_little_is_enough", lambda f: lambda h, z: f(h, -z),
     attack("mean_based_attacks_equal_the_oracle"), attack("alie_subtracts_the_population_deviation"),
     attack("alie_is_below_the_mean_by_no_more_than_the_honest_spread")),
    ("ALIE with ddof 1", K, "a_little_is_enough",
     lambda f: lambda h, z: h.mean(axis=0) - z * h.std(axis=0, ddof=min(1, len(h) - 1)),
     attack("alie_subtracts_the_population_deviation"), attack("mean_based_attacks_equal_the_oracle"),
     attack("alie_is_below_the_mean_by_no_more_than_the_honest_spread")),
    ("ALIE without the mean", K, "a_little_is_enough", lambda f: lambda h, z: h.std(axis=0),
     attack("alie_moves_with_a_translation_and_not_with_the_order")),
    ("z by (n - s) / n", K, "alie_z",
     lambda f: lambda n, k: float(K.ndtri((n - (n // 2 + 1 - k)) / n)) if 2 * k < n else 0.0,
     attack("alie_z_at_the_papers_sizes", n=10, f=3, z=0.18), attack("alie_z_by_the_normal_distribution"),
     attack("alie_z_is_the_formula_where_it_has_a_value_and_finite_everywhere")),
    # --- Layers, networks, optimisers
    ("relu_backward with >=", L, "relu_backward", lambda f: lambda dy, x: (dy * (x >= 0),),
     layer("relu_and_its_kink"), layer("relu_is_its_definition")),
    ("no ReLU", L, "relu", lambda f: lambda x: x, layer("relu_is_its_definition"),
     model("risk_and_gradient_are_their_definition", name="mlp"),
     model("risk_and_gradient_are_their_definition", name="cnn")),
    ("no ReLU on the way back", L, "relu_backward", lambda f: lambda dy, x: (dy,),
     model("gradient_of_every_tensor", name="mlp"), model("gradient_of_every_tensor", name="cnn")),
    ("sign of the gradient of the bias", L, "affine_backward", negated_bias, layer("affine_is_its_definition"),
     layer("affine_gradients"), model("gradient_of_every_tensor", name="mlp"),
     model("risk_and_gradient_are_their_definition", name="mlp")),
    ("sign of the gradient of a convolution's bias", L, "conv2d_backward", negated_bias,
     layer("conv2d_is_its_definition"), layer("conv2d_gradients", C=2),
     model("risk_and_gradient_are_their_definition", name="cnn"),
     model("gradient_of_every_tensor", name="flat")),
    ("convolution with a flipped kernel", L, "conv2d", lambda f: lambda x, K, b: f(x, K[::-1, ::-1], b),
     layer("conv2d_is_not_flipped"), layer("conv2d_is_its_definition"),
     model("risk_and_gradient_are_their_definition", name="cnn")),
    ("the way back through a kernel that is not rotated", L, "conv2d_backward", kernel_not_rotated,
     layer("conv2d_is_its_definition"), layer("conv2d_gradients", C=1),
     model("gradient_of_every_tensor", name="cnn")),
    ("images that go on beyond their border", L, "shifted",
     lambda f: lambda x, s, t: np.roll(x, (1 - s, 1 - t), axis=(1, 2)),
     layer("shifts_are_the_surroundings_in_kernel_order", C=1), layer("conv2d_is_its_definition")),
    ("max-pool ties to the last", L, "maxpool2d_backward", last_maximum,
     layer("maxpool2d_ties_go_to_the_first"), layer("maxpool2d_is_its_definition")),
    ("max-pool ties to all", L, "maxpool2d_backward", lambda f: shared_maxima,
     layer("maxpool2d_ties_go_to_the_first"), layer("maxpool2d_is_its_definition")),
    ("features by channel, row, column", L, "flatten",
     lambda f: lambda x: x.transpose(0, 3, 1, 2).reshape(len(x), -1),
     layer("flatten_is_row_column_channel_and_back"), model("flattening_is_row_column_channel"),
     model("risk_and_gradient_are_their_definition", name="flat")),
    ("cross-entropy that overflows", L, "softmax_cross_entropy", lambda f: quiet(overflowing_cross_entropy),
     layer("softmax_cross_entropy_is_its_definition"), layer("softmax_cross_entropy_of_huge_logits")),
    ("padding counts as the last class", L, "softmax_cross_entropy",
     lambda f: lambda z, y: f(z, y % z.shape[-1]),
     model("padding_rows_do_not_count", name="mlp"), layer("softmax_cross_entropy_is_its_definition")),
    ("gradient of the sum instead of the mean", M.Network, "gradient",
     lambda f: lambda self, w, X, y: f(self, w, X, y) * (y >= 0).sum(),
     model("gradient_against_differences", name="mlp"),
     model("risk_and_gradient_are_their_definition", name="mlp")),
    ("mean over padding too", M.Network, "risk",
     lambda f: lambda self, w, X, y: f(self, w, X, y) * (y >= 0).mean(),
     model("padding_rows_do_not_count", name="mlp"), rounds("a_round_shows_each_step")),
    ("prediction's ties to the highest label", M.Network, "predict",
     lambda f: lambda self, w, X: (lambda z: z.shape[-1] - 1 - z[..., ::-1].argmax(axis=-1))(self.logits(w, X)),
     model("predict_ties_go_to_the_lowest_label_and_nan_to_minus_one")),
    ("SGD uphill", optim, "sgd", lambda f: lambda w, g, memory, mu, t: f(w, g, memory, -mu, t),
     step("sgd_by_hand")),
    ("Adam without bias correction", optim, "adam", lambda f: adam(False, False),
     step("adams_first_step_is_the_step_size")),
    ("Adam with eps inside of the root", optim.OPTIMIZERS, "adam", entry("step", lambda f: adam(True, True)),
     step("steps_equal_the_book", name="adam")),
    ("Adam that forgets", optim, "adam",
     lambda f: lambda w, g, memory, mu, t: (f(w, g, memory, mu, t)[0], memory),
     step("adam_remembers_both_moments")),
    # --- Algorithm 1
    ("attackers that aggregate", G, "round_",
     aggregating_again(lambda s: s.attackers, lambda s, k, rows: (s.X[k], s.y[k])),
     rounds("a_round_shows_each_step"), scalar(rule="adaptive", attack="sign-flip"),
     rounds("risks_and_weights_are_matrices_over_the_workers", rule="adaptive", name="ring")),
    ("attackers overwritten by their message", G, "round_", overwritten_by_their_message,
     rounds("a_round_shows_each_step"), scalar(rule="adaptive", attack="sign-flip")),
    ("attackers that take no local step", G, "messages",
     lambda f: lambda s, W_hat, signals: f(s, np.where(np.isin(np.arange(len(W_hat)), s.attackers)[:, None],
                                                       0, W_hat), signals),
     rounds("a_round_shows_each_step"), scalar(rule="average", attack="sign-flip")),
    ("risk on another worker's data", G, "round_",
     aggregating_again(lambda s: s.normal, lambda s, k, rows: (s.X[k - 1], s.y[k - 1])),
     rounds("a_round_shows_each_step"), scalar(rule="adaptive", attack="none"),
     rounds("a_worker_alone_takes_the_aggregation_step_of_the_round", rule="adaptive")),
    ("batch risk on all local data", G, "round_", with_setting(lambda s: {"risk": "local"}),
     rounds("batch_risk_is_on_the_rounds_own_batch"), with_options(risk="batch")),
    ("local risk on the round's batch", G, "round_", with_setting(lambda s: {"risk": "batch"}),
     rounds("a_round_shows_each_step"), with_options(risk="local")),
    ("own model left out of N_k", RULES, "adaptive", entry("compute", own_left_out),
     scalar(rule="adaptive", attack="none"),
     rounds("risks_and_weights_are_matrices_over_the_workers", rule="adaptive", name="complete")),
    ("the receiver is the first of its neighbourhood", G, "aggregation_step",
     lambda f: lambda model, rule, W, own, *rest: f(model, rule, W, 0, *rest),
     rounds("a_round_shows_each_step"), scalar(rule="adaptive", graph="ring")),
    ("the graph is ignored", G, "round_", with_setting(lambda s: {"graph": np.ones_like(s.graph)}),
     scalar(rule="median", graph="ring"), rounds("a_worker_depends_on_its_neighbourhood_alone", rule="average"),
     rounds("risks_and_weights_are_matrices_over_the_workers", rule="adaptive", name="ring")),
    ("attacks see all workers' models", G, "messages", attack_on_everyone,
     scalar(rule="average", attack="foe")),
    ("an infinite entry is trusted", G, "risk",
     lambda f: lambda model, w, X, y, l2=0.0: model.risk(w, X, y) + 0 * f(model, np.zeros_like(w), X, y, l2),
     rounds("a_model_with_an_infinite_but_unused_entry_is_not_trusted", l2=0.0)),
    ("Krum is told of no attackers", RULES, "krum",
     entry("compute", lambda f: lambda W, risks, own, k: f(W, risks, own, 0)),
     scalar(rule="krum", attack="sign-flip")),
    ("attackers are evaluated", G.Setting, "normal", lambda f: property(lambda s: np.arange(len(s.graph))),
     runs("evaluation_by_hand", engine=T.plain)),
    ("L2 left out of the gradient", G, "local_step", lambda f: lambda *args: f(*args[:8]),
     rounds("the_local_step_follows_the_gradient_of_the_regularised_risk", l2=0.5), with_options()),
    ("L2 left out of the risk", G, "risk", lambda f: lambda *args: f(*args[:4]),
     rounds("the_regularised_risk_by_hand"), with_options(),
     rounds("the_local_step_follows_the_gradient_of_the_regularised_risk", l2=0.5)),
    ("L2 without its half", G, "risk",
     lambda f: lambda model, w, X, y, l2=0.0: f(model, w, X, y, 2 * l2),
     rounds("the_regularised_risk_by_hand"), with_options()),
    ("the step size of another worker", G, "round_", of_another(1, 0),
     rounds("step_sizes_may_differ_by_worker_and_round"), with_options(),
     rounds("a_worker_alone_takes_the_local_step_of_the_round", optimizer="sgd")),
    ("the step size of round t - 1", G, "round_", of_another(0, -1),
     rounds("step_sizes_may_differ_by_worker_and_round"), with_options()),
    ("Adam's steps counted from 2", G, "local_step",
     lambda f: lambda *args: f(*args[:7], args[7] + 1, *args[8:]), with_options()),
    ("rounds that are not counted", G, "round_",
     lambda f: lambda s, state, *rest: f(s, state._replace(t=0), *rest),
     rounds("the_first_state_and_those_after_it"), with_options()),
    ("another worker's memory", G, "round_",
     lambda f: lambda s, state, *rest: f(s, state._replace(memory=np.roll(state.memory, 1, axis=1)), *rest),
     rounds("adams_memory_is_of_the_workers_own_gradients"), with_options()),
    # --- Hostile input
    ("whole numbers squared in their own type", A, "wide", lambda f: lambda W: W,
     killer("distances")("narrow_numbers_are_taken_as_float64", products=False, dtype="int8")),
    ("labels that nobody looks at", T, "check_labels", lambda f: lambda s: None,
     runs("labels_that_are_no_classes_are_refused", worker=2, label=-2, message="labels must be")),
    # --- The released code
    ("smoothing with swapped shares", released, "smooth",
     lambda f: lambda before, r, share: f(before, r, 1 - share), smoothed("smoothing_by_hand"),
     smoothed("weights_come_from_a_running_average_that_starts_at_one"),
     smoothed("rounds_equal_the_scalar_algorithm_with_smoothing",
              rule="adaptive", risk="batch", optimizer="sgd")),
    ("an average that is lost stays lost", released, "smooth",
     lambda f: lambda before, r, share: (1 - share) * before + share * r,
     smoothed("an_average_that_is_lost_starts_again")),
    ("attackers scored by what they send", released, "round_", without("previous-message"),
     smoothed("attackers_are_scored_by_their_previous_message_while_the_weight_goes_to_the_new_one"),
     smoothed("attackers_that_train_are_scored_by_their_message_after_a_local_step")),
    ("attackers that train", released, "round_", without("idle-attackers"),
     smoothed("attackers_that_do_not_train_flip_the_sign_of_their_last_message"),
     smoothed("idle_attackers_remember_no_gradients")),
    ("the upper median", released, "ascending", lambda f: lambda W: f(W)[::-1], smoothed("the_lower_median")),
    ("squared distances after all", released, "squared_distances", lambda f: lambda W: f(W) ** 2,
     smoothed("krum_with_distances_that_are_not_squared")),
]  # fmt: skip
