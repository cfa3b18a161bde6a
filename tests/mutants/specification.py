"""Mutants of the specification, of train and of the released code."""

import itertools

import numpy as np
from problems import diminishing

from mutants.common import adam_variant, entry, killer, known
from refimpl import aggregate, algorithm, attacks, draws, engine, layers, models, optim, peers, released, train
from refimpl.arrays import quiet
from refimpl.audit.variants import learning
from refimpl.audit.variants import rules as variants_of_rules
from refimpl.fast import engine as fast
from refimpl.graphs import ring

weights, rules, attack, layer, model, step, rounds, runs, smoothed = map(
    killer,
    ("weights", "aggregate", "attacks", "layers", "models", "optim", "algorithm", "train", "released"),
)
by_processes, theorem = killer("peers"), killer("theorem_1")


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


def forward_with(relu):
    """The forward pass of the multilayer perceptron with this in place of ReLU."""

    def mutant(self, w, X, inputs=None):
        *t, x = *self.layout.views(w).values(), X
        for i in range(0, len(t), 2):
            x = relu(x) if i else x
            if inputs is not None:
                inputs.append(x)
            x = x @ t[i] + t[i + 1]
        return x

    return lambda logits: mutant


def back_through_all(gradient):
    """The gradient of the multilayer perceptron without ReLU on the way back."""

    def mutant(self, w, X, y):
        network = models.as_layers(self)
        stack = [one if one.tensors else one._replace(backward=lambda dy, x: (dy,)) for one in network.layers]
        return network._replace(layers=tuple(stack)).gradient(w, X, y)

    return mutant


def of_directions(squared_distances):
    """Squared distances of w / sqrt(1 + |w|^2)."""
    return quiet(lambda W: squared_distances(W / np.sqrt((W**2).sum(axis=1, keepdims=True) + 1)))


def negated_biases(gradient):
    """The gradient of the multilayer perceptron with the sign of its biases turned."""

    def mutant(self, w, X, y):
        dw = gradient(self, w, X, y)
        for name, tensor in self.layout.views(dw).items():
            tensor *= -1 if name.startswith("b") else 1
        return dw

    return mutant


def last_label(predict):
    """Predictions with ties to the highest label."""
    return lambda self, w, X: (lambda z: z.shape[1] - 1 - z[:, ::-1].argmax(axis=1))(self.logits(w, X))


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


def without(difference):
    """The round without one of the released code's differences."""
    return lambda f: (
        lambda s, state, batch, signals, on, *rest: f(
            s, state, batch, signals, [name for name in on if name != difference], *rest
        )
    )


def history_of(states):
    """`run` with a history of other states: (results of the rounds, rounds per epoch) -> one per epoch."""

    def mutate(run):
        def mutant(s, test, W, seed, epochs, engine):
            per_epoch = draws.rounds_per_epoch(train.sizes(s), s.batch_size)
            rounds = list(itertools.islice(train.rounds(s, W, seed, engine), epochs * per_epoch))
            numbers = [train.evaluate(s, test, W, engine(s).model) for W in states(rounds, per_epoch)]
            columns = {name: [row[name] for row in numbers] for name in numbers[0]}
            return run(s, test, W, seed, epochs, engine)._replace(history=columns)

        return mutant

    return mutate


def tested_if_one_is(run):
    """Workers without a row of their own are tested on all, if somebody has one."""

    def mutant(s, test, *rest, **options):
        lacking = ~test.own.any(axis=1, keepdims=True) & test.own.any()
        return run(s, test._replace(own=test.own | lacking), *rest, **options)

    return mutant


def signals_of(dtype):
    """`Draws` whose signals are of this type, whatever the models are."""

    def mutate(right):
        class Mutant(right):
            def __init__(self, s, W, *rest):
                super().__init__(s, W.astype(dtype), *rest)

        return Mutant

    return mutate


A, K, L, M, G, E, T = aggregate, attacks, layers, models, algorithm, engine, train
MUTANTS = [
    # --- Eq. (5), (6), (3)
    known("inverse-risk-weights", "weights proportional to the risk", A, "inverse_risk_weights",
     weights("weights_by_hand"), weights("a_smaller_risk_never_has_a_smaller_weight")),
    known("inverse-risk-weights", "weights by softmax of minus the risk", A, "inverse_risk_weights",
     weights("weights_do_not_depend_on_the_scale_of_the_risks")),
    known("inverse-risk-weights", "weights that are not normalised", A, "inverse_risk_weights",
     weights("weights_are_on_the_simplex")),
    known("inverse-risk-weights", "1 / r without care for zero", A, "inverse_risk_weights",
     weights("weights_equal_the_oracle")),
    known("adaptive-weights", "filter with <", A, "adaptive_weights",
     weights("weights_by_hand"), weights("weights_are_positive_exactly_where_the_filter_lets_through")),
    known("adaptive-weights", "no filter, Eq. (5) for Eq. (6)", A, "adaptive_weights",
     weights("weights_are_positive_exactly_where_the_filter_lets_through"),
     theorem("the_bound_of_theorem_1_holds_in_every_round"),
     theorem("with_diminishing_steps_the_gap_is_at_most_nu_over_gamma_plus_t")),
    known("adaptive-weights", "filter by the first worker's risk", A, "adaptive_weights",
     weights("weights_move_with_the_neighbours"), weights("weights_by_hand")),
    known("adaptive-weights", "a lost own risk keeps the own model", A, "adaptive_weights",
     weights("a_receiver_whose_own_risk_is_lost_takes_every_finite_neighbour")),
    ("weights in float64", A, "inverse_risk_weights", lambda f: lambda r: f(r).astype(float),
     weights("weights_and_combine_keep_dtype", dtype=np.float32)),
    known("combine", "combine lets 0 * NaN through", A, "combine",
     weights("combine_ignores_a_lost_model_of_weight_zero_and_only_that", bad=np.nan),
     weights("combine_equals_the_oracle")),
    known("combine", "combine takes NaN for 0", A, "combine",
     weights("combine_ignores_a_lost_model_of_weight_zero_and_only_that", bad=np.inf)),
    known("combine", "combine in the wrong order", A, "combine",
     weights("a_combination_stays_in_the_hull_and_moves_with_a_translation"), weights("combine_by_hand")),
    # --- Baselines
    known("median", "lower median", A, "coordinate_median",
     rules("even_median_is_the_mean_of_the_middle_two"), rules("rules_equal_the_oracle", name="median")),
    known("median", "median that NaN takes down", A, "coordinate_median",
     rules("few_attackers_cannot_leave_the_honest_hull", name="median")),
    known("trimmed-mean", "trimmed mean trims f - 1", A, "trimmed_mean",
     rules("few_attackers_cannot_leave_the_honest_hull", name="trimmed-mean"),
     rules("rules_that_a_table_of_round_numbers_cannot_tell_apart")),
    known("trimmed-mean", "trimmed mean trims one side", A, "trimmed_mean",
     rules("few_attackers_cannot_leave_the_honest_hull", name="trimmed-mean")),
    ("trimmed mean without attackers trims nothing", A, "trim_count", lambda f: lambda n, k: k,
     rules("trimmed_mean_by_name_trims_a_tenth_without_attackers")),
    known("krum", "Krum with n - f - 1", A, "krum",
     rules("krum_counts_n_minus_f_minus_2_squared_distances"), rules("rules_equal_the_oracle", name="krum")),
    known("krum", "Krum counts itself", A, "krum",
     rules("rules_equal_the_oracle", name="krum")),
    known("krum", "Krum with unsquared distances", A, "krum",
     rules("krum_counts_n_minus_f_minus_2_squared_distances"), rules("rules_equal_the_oracle", name="krum")),
    known("krum", "Krum's ties to the last", A, "krum",
     rules("ties_go_to_the_lowest_index"),
     rules("among_exact_ties_the_lowest_index_is_chosen", name="krum")),
    ("Krum allows n = 2f + 2", A, "require_krum", lambda f: lambda n, k: f(n + 1, k),
     rules("too_few_models_are_refused", call=lambda: A.krum(np.ones((6, 2)), 2), message="krum")),
    known("medoid", "medoid of squared distances", A, "medoid",
     rules("medoid_does_not_square_its_distances"), rules("rules_equal_the_oracle", name="medoid")),
    known("medoid", "medoid's ties to the last", A, "medoid",
     rules("ties_go_to_the_lowest_index"),
     rules("among_exact_ties_the_lowest_index_is_chosen", name="medoid")),
    ("distance 0 to a lost model", A, "squared_distances",
     lambda f: variants_of_rules.lost_at_zero,
     rules("few_attackers_far_away_are_not_chosen", name="krum"),
     rules("few_attackers_far_away_are_not_chosen", name="medoid")),
    ("distances by the plain Gram identity", A, "squared_distances",
     lambda f: quiet(variants_of_rules.by_gram),
     rules("distances_between_models_that_agree_to_ten_digits_far_from_the_origin"),
     rules("squared_distances_equal_the_oracle")),
    ("a few infinite distances hide the others", A, "row_of_least", lambda f: variants_of_rules.argmin,
     rules("rules_equal_the_oracle", name="krum"),
     rules("few_attackers_far_away_are_not_chosen", name="medoid")),
    ("distances of directions", A, "squared_distances", of_directions,
     rules("rules_move_with_a_translation", name="medoid")),
    ("average weighted by position", A, "average",
     lambda f: lambda W: np.average(W, axis=0, weights=np.arange(1, len(W) + 1)),
     rules("rules_do_not_depend_on_the_order_of_the_models", name="average")),
    ("average in float64", A, "average", lambda f: lambda W: f(W.astype(float)),
     rules("rules_keep_dtype_and_inputs", name="average", dtype="float32", form=0)),
    # --- Attacks
    known("sign-flip", "sign flip that ignores sigma", K, "sign_flip",
     attack("sign_flip_and_arbitrary_by_hand"), attack("attackers_own_models_equal_the_oracle")),
    known("arbitrary", "one signal per model", K, "arbitrary",
     attack("attackers_own_models_equal_the_oracle")),
    known("fall-of-empires", "FoE with plus", K, "fall_of_empires",
     attack("mean_based_attacks_equal_the_oracle")),
    ("FoE over all workers", K.ATTACKS, "foe",
     lambda right: right._replace(
         knows=("honest", "attackers"), send=lambda honest, own: right.send(np.concatenate([own, honest]))),
     attack("named_attacks_equal_the_oracle_and_keep_dtype_and_inputs", name="foe", dtype=np.float64, form=0)),
    known("alie", "ALIE with plus", K, "a_little_is_enough",
     attack("mean_based_attacks_equal_the_oracle"), attack("alie_subtracts_the_population_deviation"),
     attack("alie_is_below_the_mean_by_no_more_than_the_honest_spread")),
    known("alie", "ALIE with ddof 1", K, "a_little_is_enough",
     attack("alie_subtracts_the_population_deviation"), attack("mean_based_attacks_equal_the_oracle"),
     attack("alie_is_below_the_mean_by_no_more_than_the_honest_spread")),
    known("alie", "ALIE without the mean", K, "a_little_is_enough",
     attack("alie_moves_with_a_translation_and_not_with_the_order")),
    known("alie-z", "z by (n - s) / n", K, "alie_z",
     attack("alie_z_at_the_papers_sizes", n=10, f=3, z=0.18), attack("alie_z_by_the_normal_distribution"),
     attack("alie_z_is_the_formula_where_it_has_a_value_and_finite_everywhere")),
    ("ALIE's corrupted workers know the honest models", K.ATTACKS, "alie-corrupted",
     entry("knows", lambda names: K.ATTACKS["alie"].knows),
     attack("alone_an_attacker_without_knowledge_of_others_sends_its_own_model", dtype=np.float64),
     attack("named_attacks_equal_the_oracle_and_keep_dtype_and_inputs",
            name="alie-corrupted", dtype=np.float64, form=0)),
    ("ALIE's z among the corrupted workers alone", K.ATTACKS, "alie-corrupted",
     entry("send", lambda f: lambda attackers, counts: f(attackers, (2 * counts[1], counts[1]))),
     attack("named_attacks_equal_the_oracle_and_keep_dtype_and_inputs",
            name="alie-corrupted", dtype=np.float64, form=0)),
    ("ALIE's deviation of a single attacker", K, "a_little_is_enough_corrupted",
     lambda f: lambda W, z: W.mean(axis=0) - z * ((W - W.mean(axis=0)) ** 2).sum(axis=0) ** 0.5 - z,
     attack("alone_an_attacker_without_knowledge_of_others_sends_its_own_model", dtype=np.float64),
     attack("the_two_readings_of_alie_are_one_formula_over_other_models")),
    ("ALIE on everybody, the attackers too", K.ATTACKS, "alie",
     lambda right: right._replace(
         knows=("honest", "attackers", "counts"),
         send=lambda honest, own, counts: right.send(np.concatenate([own, honest]), counts)),
     attack("named_attacks_equal_the_oracle_and_keep_dtype_and_inputs", name="alie", dtype=np.float64, form=0)),
    # --- Layers, networks, optimisers
    ("relu_backward with >=", L, "relu_backward", lambda f: lambda dy, x: (dy * (x >= 0),),
     layer("relu_and_its_kink"), layer("relu_is_its_definition")),
    ("no ReLU", L, "relu", lambda f: lambda x: x, layer("relu_is_its_definition"),
     model("risk_and_gradient_are_their_definition", name="layers"),
     model("risk_and_gradient_are_their_definition", name="cnn")),
    ("no ReLU on the way back", L, "relu_backward", lambda f: lambda dy, x: (dy,),
     model("gradient_of_every_tensor", name="layers"), model("gradient_of_every_tensor", name="cnn")),
    ("sign of the gradient of the bias", L, "affine_backward", negated_bias, layer("affine_is_its_definition"),
     layer("affine_gradients"), model("gradient_of_every_tensor", name="layers"),
     model("risk_and_gradient_are_their_definition", name="layers")),
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
    known("softmax-cross-entropy", "cross-entropy that overflows", L, "softmax_cross_entropy",
     layer("softmax_cross_entropy_is_its_definition"), layer("softmax_cross_entropy_of_huge_logits")),
    known("softmax-cross-entropy", "padding counts as the last class", L, "softmax_cross_entropy",
     model("padding_rows_do_not_count", name="layers"), layer("softmax_cross_entropy_is_its_definition")),
    *(
        row
        for network, name in ((M.MLP, "mlp"), (M.Network, "layers"))
        for row in (
            (f"gradient of the sum instead of the mean ({name})", network, "gradient",
             lambda f: lambda self, w, X, y: f(self, w, X, y) * (y >= 0).sum(),
             model("gradient_against_differences", name=name),
             model("risk_and_gradient_are_their_definition", name=name)),
            (f"mean over padding too ({name})", network, "risk",
             lambda f: lambda self, w, X, y: f(self, w, X, y) * (y >= 0).mean(),
             model("padding_rows_do_not_count", name=name)),
            (f"prediction's ties to the highest label ({name})", network, "predict", last_label,
             model("predict_ties_go_to_the_lowest_label_and_nan_to_minus_one", name=name)),
        )
    ),
    ("no ReLU in the perceptron", M.MLP, "logits", forward_with(lambda x: x),
     model("risk_and_gradient_are_their_definition", name="mlp")),
    ("no ReLU on the way back in the perceptron", M.MLP, "gradient", back_through_all,
     model("gradient_of_every_tensor", name="mlp"),
     model("risk_and_gradient_are_their_definition", name="deep")),
    ("sign of the gradient of the perceptron's biases", M.MLP, "gradient", negated_biases,
     model("gradient_of_every_tensor", name="mlp"),
     model("risk_and_gradient_are_their_definition", name="mlp")),
    ("SGD uphill", optim, "sgd", lambda f: lambda w, g, memory, mu, t: (learning.uphill(w, g, mu), memory),
     step("sgd_by_hand")),
    ("Adam without bias correction", optim, "adam", adam_variant("Adam without bias correction"),
     step("adams_first_step_is_the_step_size")),
    ("Adam with eps inside of the root", optim.OPTIMIZERS, "adam",
     entry("step", adam_variant("Adam with eps inside of the root")),
     step("steps_equal_the_book", name="adam")),
    ("Adam that forgets", optim, "adam",
     adam_variant("Adam that forgets"),
     step("adam_remembers_both_moments")),
    # --- Algorithm 1
    known("round", "attackers that aggregate", E, "round_",
     rounds("a_round_shows_each_step"), scalar(rule="adaptive", attack="sign-flip"),
     rounds("risks_and_weights_are_matrices_over_the_workers", rule="adaptive", name="ring")),
    known("round", "attackers overwritten by their message", E, "round_",
     rounds("a_round_shows_each_step"), scalar(rule="adaptive", attack="sign-flip")),
    known("round", "attackers that take no local step", E, "round_",
     rounds("a_round_shows_each_step"), scalar(rule="average", attack="sign-flip")),
    known("round", "risk on another worker's data", E, "round_",
     rounds("a_round_shows_each_step"), scalar(rule="adaptive", attack="none"),
     rounds("a_worker_alone_takes_the_aggregation_step_of_the_round", rule="adaptive")),
    known("round", "batch risk on all local data", E, "round_",
     rounds("batch_risk_is_on_the_rounds_own_batch"), with_options(risk="batch")),
    known("round", "local risk on the round's batch", E, "round_",
     rounds("a_round_shows_each_step"), with_options(risk="local")),
    ("risk on the batch, whatever the setting says", G.Setting, "scored_on",
     lambda f: lambda s, *rest: f(s._replace(risk="batch"), *rest),
     theorem("the_bound_of_theorem_1_holds_in_every_round"),
     theorem("with_diminishing_steps_the_gap_is_at_most_nu_over_gamma_plus_t")),
    known("round", "own model left out of N_k", E, "round_",
     scalar(rule="adaptive", attack="none"),
     rounds("risks_and_weights_are_matrices_over_the_workers", rule="adaptive", name="complete")),
    known("round", "the receiver is the first of its neighbourhood", E, "round_",
     rounds("a_round_shows_each_step"), scalar(rule="adaptive", graph="ring")),
    known("round", "the graph is ignored", E, "round_",
     scalar(rule="median", graph="ring"), rounds("a_worker_depends_on_its_neighbourhood_alone", rule="average"),
     rounds("risks_and_weights_are_matrices_over_the_workers", rule="adaptive", name="ring")),
    known("round", "attacks see all workers' models", E, "round_",
     scalar(rule="average", attack="foe")),
    known("round", "an infinite entry is trusted", E, "round_",
     rounds("a_model_with_an_infinite_but_unused_entry_is_not_trusted", l2=0.0)),
    known("round", "Krum is told of no attackers", E, "round_",
     scalar(rule="krum", attack="sign-flip")),
    ("attackers are evaluated", G.Setting, "normal", lambda f: property(lambda s: np.arange(len(s.graph))),
     runs("evaluation_by_hand", engine=T.plain)),
    known("round", "L2 left out of the gradient", E, "round_", with_options()),
    known("round", "L2 left out of the risk", E, "round_", with_options()),
    known("round", "L2 without its half", E, "round_", with_options()),
    ("L2 left out of the gradient", G, "local_step", lambda f: lambda s, *rest: f(s._replace(l2=0.0), *rest),
     rounds("the_local_step_follows_the_gradient_of_the_regularised_risk", l2=0.5)),
    ("L2 without its half", G, "risk", lambda f: lambda s, *rest: f(s._replace(l2=2 * s.l2), *rest),
     rounds("the_local_step_follows_the_gradient_of_the_regularised_risk", l2=0.5),
     rounds("the_regularised_risk_by_hand")),
    known("round", "the step size of another worker", E, "round_",
     rounds("step_sizes_may_differ_by_worker_and_round"), with_options(),
     rounds("a_worker_alone_takes_the_local_step_of_the_round", optimizer="sgd")),
    known("round", "the step size of round t - 1", E, "round_",
     rounds("step_sizes_may_differ_by_worker_and_round"), with_options()),
    known("round", "Adam's steps counted from 2", E, "round_",
     with_options()),
    known("round", "rounds that are not counted", E, "round_",
     rounds("the_first_state_and_those_after_it"), with_options()),
    ("another worker's memory", E, "round_",
     lambda f: lambda s, state, *rest: f(s, state._replace(memory=np.roll(state.memory, 1, axis=1)), *rest),
     rounds("adams_memory_is_of_the_workers_own_gradients"), with_options()),
    ("history before aggregation", T, "run",
     history_of(lambda rounds, n: [result.local for result in rounds[n - 1 :: n]]),
     runs("history_is_the_evaluation_of_the_states_at_the_ends_of_epochs", engine=E.plain)),
    ("history one round early", T, "run",
     history_of(lambda rounds, n: [result.state.W for result in rounds[n - 2 :: n]]),
     runs("history_is_the_evaluation_of_the_states_at_the_ends_of_epochs", engine=fast.engine)),
    ("one worker that can be tested is enough", T, "run", tested_if_one_is,
     runs("every_worker_needs_a_row_to_be_tested_on")),
    ("a neighbourhood is who hears a worker", T, "check_neighbourhoods",
     lambda f: lambda s, require: f(s._replace(graph=s.graph.T), require),
     runs("a_neighbourhood_is_who_is_heard_not_who_hears")),
    # --- Peers
    ("every attacker sends the first one's lie", peers, "lie",
     lambda f: lambda s, a, *rest: f(s, int(s.attackers[0]), *rest),
     by_processes("every_option_of_a_round_reaches_the_processes",
                  options={"attack": "arbitrary"}, dtype="float64")),
    ("the first attacker's signals for all", peers, "lie",
     lambda f: lambda s, a, models, heard, signals, *more:
         f(s, a, models, heard, None if signals is None else signals * 0 + signals[:1], *more),
     by_processes("every_option_of_a_round_reaches_the_processes",
                  options={"graph": ring(7), "attack": "arbitrary"}, dtype="float64")),
    ("signals as they are drawn", T, "Draws", signals_of("float64"),
     by_processes("every_option_of_a_round_reaches_the_processes",
                  options={"graph": ring(7), "attack": "arbitrary"}, dtype="float32")),
    # --- Hostile input
    ("whole numbers squared in their own type", A, "as_float", lambda f: lambda W: W,
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
