"""Mutants: plausible mistakes, and the tests that must fail when they are patched in. Run by test_mutants.py.

A mutant is (what it does wrong, where it is patched in, as what, a function from the right thing to the wrong
one, the tests that kill it). To add one: write the mistake and name the tests that should notice it; if there
are none, write one.
"""

import numpy as np

from refimpl import aggregate, attacks, conv_pool, layers, models, optim, train
from refimpl.arrays import quiet


def killer(module):
    """test("name", **parameters) for the tests of one file."""
    return lambda test, /, **parameters: (f"test_{module}", f"test_{test}", parameters)


weights, rules, attack, layer, pooled, model, step, algorithm, rounds = map(
    killer, ("weights", "aggregate", "attacks", "layers", "conv_pool", "models", "optim", "algorithm", "train")
)


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
    def mutant(dy, x, out=(None, None)):
        dW, db = backward(dy, x, out)
        np.negative(db, out=db)
        return dW, db

    return mutant


def negated_cnn_bias(backward):
    def mutant(numbers, saved, dy, dt):
        backward(numbers, saved, dy, dt)
        dt["b1"] *= -1

    return mutant


def shared_maxima(dy, x, y):
    """To every maximum of a window."""
    dx = np.zeros_like(x)
    for i, j in (0, 0), (0, 1), (1, 0), (1, 1):
        here = (..., slice(i, 2 * y.shape[-3], 2), slice(j, 2 * y.shape[-2], 2), slice(None))
        dx[here] = dy * (x[here] == y)
    return dx


def last_maximum(backward):
    """On the even part turned by 180 degrees, the first of a window is the last."""

    def mutant(dy, x, y):
        H, W = 2 * y.shape[-3], 2 * y.shape[-2]
        dx = np.zeros_like(x)
        turn = (..., slice(None, None, -1), slice(None, None, -1), slice(None))
        dx[..., :H, :W, :] = backward(dy[turn], x[..., :H, :W, :][turn], y[turn])[turn]
        return dx

    return mutant


def adam(corrected, inside):
    """Adam without its bias correction, or with eps inside of the root."""

    def mutant(W, G, state, lr):
        t, m, v = (0, np.zeros_like(W), np.zeros_like(W)) if state is None else state
        t, m, v = t + 1, 0.9 * m + 0.1 * G, 0.999 * v + 0.001 * G * G
        m_hat, v_hat = (m / (1 - 0.9**t), v / (1 - 0.999**t)) if corrected else (m, v)
        return W - lr * m_hat / (np.sqrt(v_hat + 1e-8) if inside else np.sqrt(v_hat) + 1e-8), (t, m, v)

    return mutant


def everyone_aggregates(groups):
    return lambda s: groups(s._replace(attackers=s.attackers[:0]))


def another_workers_data(groups):
    return lambda s: [g._replace(X=np.roll(g.X, 1, axis=1), y=np.roll(g.y, 1, axis=1)) for g in groups(s)]


def own_left_out(rule):
    def mutant(risks, own):
        c = rule(risks, own)
        np.put_along_axis(c, np.asarray(own)[..., None], 0, axis=-1)
        return aggregate.or_own(c / np.maximum(c.sum(axis=-1, keepdims=True), 1e-300), own)

    return mutant


def overwritten_by_their_message(round_):
    """What the released code does with attackers."""

    def mutant(setting, *args):
        result = round_(setting, *args)
        result.state.W[setting.attackers] = result.sent[setting.attackers]
        return result

    return mutant


def with_setting(**changes):
    return lambda rounds: lambda s, W, seed: rounds(s._replace(**changes), W, seed)


def attack_on_everyone(messages):
    def mutant(s, W_hat, signals):
        sent = W_hat.copy()
        sent[s.attackers] = attacks.ATTACKS[s.attack](W_hat[s.attackers], W_hat, signals)
        return sent

    return mutant


A, K, L, C, T, M = aggregate, attacks, layers, conv_pool, train, models
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
    ("trimmed mean without attackers trims nothing", A, "_trim", lambda f: lambda n, k: k,
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
    ("distance 0 to a lost model", A, "_or_infinite",
     lambda f: lambda D: np.where(np.isinf(f(D)), 0, f(D)),
     rules("few_attackers_far_away_are_not_chosen", name="krum"),
     rules("few_attackers_far_away_are_not_chosen", name="medoid")),
    ("distances by the plain Gram identity", A, "squared_distances",
     lambda f: quiet(lambda W: np.abs((W**2).sum(1)[:, None] + (W**2).sum(1) - 2 * W @ W.T)),
     rules("distances_between_models_that_agree_to_ten_digits_far_from_the_origin", products=False),
     rules("squared_distances_equal_the_oracle", products=False)),
    ("rounding decides ties", A, "_smallest", lambda f: lambda R: (f(R)[0], np.zeros(R.shape[:-1], bool)),
     rules("products_decide_as_differences_do"),
     rules("seven_corners_as_far_apart_are_a_tie", products=True, dtype="float64")),
    ("no pair is close", A, "connected_components",
     lambda f: lambda close, directed: (1, np.arange(len(close))),
     *(rules("distances_by_products_are_those_by_differences", what=what, d=600, dtype="float64")
       for what in ("clusters", "nested"))),
    ("distances of directions", A, "_distances",
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
     lambda f: lambda own, h, s: K.fall_of_empires(np.concatenate([own, h])),
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
    ("relu_backward with >=", L, "relu_backward",
     lambda f: lambda dy, y: dy * (y >= 0), layer("relu_and_its_kink"),
     layer("relu_is_its_definition"), model("gradient_of_every_tensor", model=M.mlp([5, 4, 3]))),
    ("no ReLU", L, "relu",
     lambda f: lambda x, out=None: x, model("risk_and_gradient_are_their_definition", name="mlp")),
    ("sign of the gradient of the bias", L, "affine_backward_parameters",
     negated_bias, layer("affine_is_its_definition"),
     model("gradient_of_every_tensor", model=M.mlp([5, 4, 3])),
     model("risk_and_gradient_are_their_definition", name="mlp")),
    ("sign of the gradient of a convolution's bias", M, "convolve_backward", negated_cnn_bias,
     model("risk_and_gradient_are_their_definition", name="cnn"),
     model("gradient_of_every_tensor", model=M.cnn(5, (2,), 3, 4))),
    ("convolution with a flipped kernel", L, "conv2d",
     lambda f: lambda x, K, size=None: f(x, K[..., ::-1, ::-1, :, :], size),
     layer("conv2d_is_not_flipped"), layer("conv2d_is_its_definition")),
    ("max-pool ties to the last", L, "maxpool2d_backward",
     last_maximum, layer("maxpool2d_ties_go_to_the_first"),
     layer("maxpool2d_is_its_definition")),
    ("max-pool ties to all", L, "maxpool2d_backward",
     lambda f: shared_maxima, layer("maxpool2d_ties_go_to_the_first"),
     layer("maxpool2d_is_its_definition")),
    ("pooled ties to the last", C, "_first",
     lambda f: lambda Y, y: f(Y[..., ::-1, :, :, :], y)[..., ::-1, :, :, :],
     pooled("ties_of_a_background_are_exact_and_go_to_the_first", image=False)),
    ("pooled ties to all", C, "_first", lambda f: lambda Y, y: y[..., None, :, :, :] == Y,
     pooled("ties_of_a_background_are_exact_and_go_to_the_first", image=True)),
    ("tiles that do not overlap", C, "_tiles",
     lambda f: lambda padded: f(padded)[..., [0, 1, 1, 2], :, :, :, :],
     pooled("float32_loses_no_more_than_the_plain_form_times_ten")),
    ("cross-entropy that overflows", L, "softmax_cross_entropy", lambda f: quiet(overflowing_cross_entropy),
     layer("softmax_cross_entropy_is_its_definition"), layer("softmax_cross_entropy_of_huge_logits")),
    ("padding counts as the last class", L, "softmax_cross_entropy",
     lambda f: lambda z, y: f(z, y % z.shape[-1]),
     model("padding_rows_do_not_count", model=M.mlp([5, 4, 3])),
     layer("softmax_cross_entropy_is_its_definition")),
    ("gradient of the sum instead of the mean", M.Model, "gradient",
     lambda f: lambda self, w, X, y: f(self, w, X, y) * (y >= 0).sum(axis=-1)[..., None],
     model("gradient_against_differences", model=M.mlp([5, 4, 3])),
     model("risk_and_gradient_are_their_definition", name="mlp")),
    ("prediction's ties to the highest label", M.Model, "predict",
     lambda f: lambda self, w, X: (lambda z: z.shape[-1] - 1 - z[..., ::-1].argmax(axis=-1))(self.logits(w, X)),
     model("predict_ties_go_to_the_lowest_label_and_nan_to_minus_one")),
    ("SGD uphill", optim, "sgd", lambda f: lambda W, G, state, lr: f(W, G, state, -lr), step("sgd_by_hand")),
    ("Adam without bias correction", optim, "adam",
     lambda f: adam(False, False), step("adams_first_step_is_the_learning_rate")),
    ("Adam with eps inside of the root", optim.OPTIMIZERS, "adam",
     lambda f: adam(True, True), step("steps_equal_the_book", name="adam")),
    # --- Algorithm 1
    ("attackers that aggregate", T, "groups", everyone_aggregates, rounds("a_round_shows_each_step")),
    ("attackers overwritten by their message", T, "round_",
     overwritten_by_their_message, rounds("a_round_shows_each_step"),
     algorithm("rounds_equal_the_scalar_algorithm_on_the_complete_graph", rule="adaptive", attack="sign-flip")),
    ("risk on another worker's data", T, "groups", another_workers_data,
     algorithm("rounds_equal_the_scalar_algorithm_on_the_complete_graph", rule="adaptive", attack="none")),
    ("batch risk on all local data", T, "rounds",
     with_setting(risk="local"), rounds("batch_risk_is_on_the_rounds_own_batch")),
    ("own model left out of N_k", A.WEIGHTS, "adaptive", own_left_out,
     algorithm("rounds_equal_the_scalar_algorithm_on_the_complete_graph", rule="adaptive", attack="none")),
    ("the graph is ignored", T, "rounds", with_setting(graph=np.ones((7, 7), bool)),
     algorithm("rounds_equal_the_scalar_algorithm_on_sparse_graphs", rule="median", graph="ring")),
    ("smoothing with swapped shares", T, "smooth", lambda f: lambda before, r, share: f(before, r, 1 - share),
     rounds("smoothing_is_a_running_average_that_starts_at_the_first_risk"),
     algorithm("rounds_equal_the_scalar_algorithm_with_every_option",
               rule="adaptive", risk="batch", smoothing=0.25, optimizer="sgd")),
    ("a smoothed risk stays lost", T, "smooth",
     lambda f: lambda before, r, share: (1 - share) * before + share * r,
     rounds("a_smoothed_risk_that_is_lost_starts_again")),
    ("attacks see all workers' models", T, "messages", attack_on_everyone,
     algorithm("rounds_equal_the_scalar_algorithm_on_the_complete_graph", rule="average", attack="foe")),
    ("an infinite entry is trusted", T, "neighbour_risks",
     lambda f: lambda *a: np.where(np.isinf(f(*a)), 0.5, f(*a)),
     rounds("a_model_with_an_infinite_but_unused_entry_is_not_trusted")),
    ("Krum is told of no attackers", A.RULES, "krum", lambda f: lambda W, k: f(W, 0),
     algorithm("rounds_equal_the_scalar_algorithm_on_the_complete_graph", rule="krum", attack="sign-flip")),
    ("attackers are evaluated", T.Setting, "honest", lambda f: property(lambda s: np.arange(len(s.graph))),
     rounds("evaluation_by_hand")),
]  # fmt: skip
