"""Variants of the loss, the local steps, the mixing weights and the compressor."""

from collections.abc import Callable
from functools import partial, wraps

import numpy as np

from refimpl.arrays import Array
from refimpl.audit.kinds import steps_along
from refimpl.layers import softmax_cross_entropy as cross_entropy
from refimpl.optim import adam, sgd
from refimpl.related.mixing import metropolis_weights, push_weights, top_k, uniform_weights

# --- Softmax cross-entropy ----------------------------------------------------------------------------------


def overflowing(z: Array, y: Array) -> Array:
    """cross-entropy that overflows: log(sum exp z) without subtracting the maximum"""
    return np.where(y >= 0, np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y], 0)


def padding_as_last_class(z: Array, y: Array) -> Array:
    """padding counts as the last class: label -1 picks the last column, as Python's indices do
    [numpy indexing]"""
    return cross_entropy(z, y % z.shape[1])


def of_the_sigmoid(z: Array, y: Array) -> Array:
    """cross-entropy of the sigmoid: the softmax cross-entropy of 1 / (1 + exp(-z))
    [the released code on Spambase]"""
    return cross_entropy(1 / (1 + np.exp(-z)), y)


def of_the_softmax(z: Array, y: Array) -> Array:
    """cross-entropy of the softmax: the softmax is taken twice: of z, and inside the loss
    [torch's CrossEntropyLoss on probabilities]"""
    below_top = z - z.max(axis=1, keepdims=True)
    return cross_entropy(np.exp(below_top - np.log(np.exp(below_top).sum(axis=1, keepdims=True))), y)


def in_bits(z: Array, y: Array) -> Array:
    """in bits: the logarithm to base 2"""
    return cross_entropy(z, y) / np.log(2)


def guarded_log(z: Array, y: Array) -> Array:
    """-log(p + 1e-8): the probability plus a guard against log(0) [a common guard]"""
    p = np.exp(-cross_entropy(z, np.maximum(y, 0)))
    return np.where(y >= 0, -np.log(p + 1e-8), 0)


def probability(z: Array, y: Array) -> Array:
    """the probability: p_y without the logarithm"""
    return np.where(y >= 0, np.exp(-cross_entropy(z, y)), 0)


def divided_by_rows(z: Array, y: Array) -> Array:
    """divided by the number of rows: so that the sum is the mean"""
    return cross_entropy(z, y) / len(y)


# --- SGD ----------------------------------------------------------------------------------------------------


def uphill(w: Array, g: Array, mu: float) -> Array:
    """SGD uphill: w + mu g"""
    return w + mu * g


def normalised_gradient(w: Array, g: Array, mu: float) -> Array:
    """a step of mu along g / |g|: the gradient is normalised"""
    return w - mu * g / max(np.sqrt((g * g).sum()), 1e-12)


def signs(w: Array, g: Array, mu: float) -> Array:
    """the signs of the gradient: w - mu sign(g) [signSGD]"""
    return w - mu * np.sign(g)


def step_alone(w: Array, g: Array, mu: float) -> Array:
    """the step alone: -mu g"""
    return -mu * g + 0 * w


# --- Adam ---------------------------------------------------------------------------------------------------


def path(step: Callable[..., tuple[Array, Array]]) -> Callable[[Array, Array, float], Array]:
    """A variant's steps along gradients (T, d), with its docstring."""
    return wraps(step)(partial(steps_along, step))


def adam_uncorrected(w: Array, g: Array, memory: Array, mu: float, t: int) -> tuple[Array, Array]:
    """Adam without bias correction: w - mu m / (sqrt(v) + eps)"""
    m, v = memory = adam(w, g, memory, mu, t)[1]
    return w - mu * m / (np.sqrt(v) + 1e-8), memory


def adam_eps_inside(w: Array, g: Array, memory: Array, mu: float, t: int) -> tuple[Array, Array]:
    """Adam with eps inside of the root: w - mu m_hat / sqrt(v_hat + eps)"""
    m, v = memory = adam(w, g, memory, mu, t)[1]
    return w - mu * m / (1 - 0.9**t) / np.sqrt(v / (1 - 0.999**t) + 1e-8), memory


def adam_eps_uncorrected(w: Array, g: Array, memory: Array, mu: float, t: int) -> tuple[Array, Array]:
    """Adam with eps before the correction: the step size is corrected by sqrt(1 - beta2^t) / (1 - beta1^t), eps
    is not [Kingma and Ba's second form (epsilon hat); TensorFlow, Keras]"""
    m, v = memory = adam(w, g, memory, mu, t)[1]
    return w - mu * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-8), memory


def adam_from_2(w: Array, g: Array, memory: Array, mu: float, t: int) -> tuple[Array, Array]:
    """Adam that counts from 2: t is one too many in the correction"""
    return adam(w, g, memory, mu, t + 1)


def adam_beta2_0_99(w: Array, g: Array, memory: Array, mu: float, t: int) -> tuple[Array, Array]:
    """Adam with beta2 = 0.99: instead of 0.999"""
    return adam(w, g, memory, mu, t, beta2=0.99)


def adam_eps_1e_7(w: Array, g: Array, memory: Array, mu: float, t: int) -> tuple[Array, Array]:
    """Adam with eps 1e-7: instead of 1e-8"""
    return adam(w, g, memory, mu, t, eps=1e-7)


def adam_without_momentum(w: Array, g: Array, memory: Array, mu: float, t: int) -> tuple[Array, Array]:
    """Adam without momentum: RMSprop with bias correction: beta1 = 0"""
    return adam(w, g, memory, mu, t, beta1=0)


def adam_forgetful(w: Array, g: Array, memory: Array, mu: float, t: int) -> tuple[Array, Array]:
    """Adam that forgets: both moments start at 0 in every step"""
    return adam(w, g, 0 * memory, mu, t)


def sgd_for_adam(w: Array, g: Array, memory: Array, mu: float, t: int) -> tuple[Array, Array]:
    """SGD: the moments are not used"""
    return sgd(w, g, memory, mu, t)


# --- Metropolis weights -------------------------------------------------------------------------------------


def mixing(graph: Array, edge: Callable[[Array, Array], Array], itself: int = 0) -> Array:
    """Symmetric weights edge(d_i, d_j), and the rest on the diagonal; `itself` is added to the degrees."""
    edges = graph & ~np.eye(len(graph), dtype=bool)
    d = edges.sum(axis=1) + itself
    W = np.where(edges, edge(d[:, None], d), 0.0)
    return W + np.diag(1 - W.sum(axis=1))


def without_plus_1(graph: Array) -> Array:
    """Metropolis weights without the + 1: 1 / max(d_i, d_j), with which an even ring never averages
    [mh.m of CVX's examples (Boyd's group)]"""
    return mixing(graph, lambda i, j: 1 / np.maximum(np.maximum(i, j), 1))


def degrees_with_itself(graph: Array) -> Array:
    """degrees that count the worker itself: 1 / (2 + max(d_i, d_j)): row sums of a matrix with ones on its
    diagonal"""
    return mixing(graph, lambda i, j: 1 / (1 + np.maximum(i, j)), itself=1)


def neighbourhood_mean(graph: Array) -> Array:
    """the mean of the neighbourhood: 1 / (1 + d_i), whose columns need not sum to 1
    [Peng et al. 2021, BRIDGE's DGD]"""
    return graph / graph.sum(axis=1, keepdims=True)


def min_for_max(graph: Array) -> Array:
    """min for max: 1 / (1 + min(d_i, d_j))"""
    return mixing(graph, lambda i, j: 1 / (1 + np.minimum(i, j)))


def largest_degree(graph: Array) -> Array:
    """the largest degree of all: 1 / (1 + max_k d_k) on every edge"""
    return mixing(graph, lambda i, j: 1 / (1 + np.maximum(i, j).max()) + 0 * (i + j))


def lazy(graph: Array) -> Array:
    """lazy Metropolis weights: half of them, and half of the identity"""
    return (metropolis_weights(graph) + np.eye(len(graph))) / 2


def no_weight_for_itself(graph: Array) -> Array:
    """no weight for itself: a diagonal of 0"""
    return metropolis_weights(graph) * ~np.eye(len(graph), dtype=bool)


# --- Push-sum weights ---------------------------------------------------------------------------------------


def rows_sum_to_1(graph: Array) -> Array:
    """rows sum to 1: 1 / (1 + in-degree of k), the mean of what a worker hears"""
    return uniform_weights(graph)


def transposed(graph: Array) -> Array:
    """transposed: P_lk for P_kl, [k, l] = k sends to l"""
    return push_weights(graph).T


def degrees_the_wrong_way(graph: Array) -> Array:
    """in-degrees of the sender: 1 / (1 + in-degree of l)"""
    return graph / graph.sum(axis=1)


def nothing_kept(graph: Array) -> Array:
    """nothing is kept: 1 / out-degree of l, and 0 for itself"""
    edges = graph & ~np.eye(len(graph), dtype=bool)
    return edges / np.maximum(edges.sum(axis=0), 1)


def half_kept(graph: Array) -> Array:
    """half is kept: 1 / 2 for itself, the rest in equal parts; all of it without anyone to send to"""
    sent = nothing_kept(graph) / 2
    return sent + np.diag(1 - sent.sum(axis=0))


# --- Top-k --------------------------------------------------------------------------------------------------


def by_value(x: Array, k: int) -> Array:
    """the largest by value: not by magnitude"""
    return np.where(top_k(x - x.min() + 1, k) != 0, x, 0)


def smallest(x: Array, k: int) -> Array:
    """the smallest: the k of least magnitude"""
    return x - top_k(x, len(x) - k)


def all_but_k(x: Array, k: int) -> Array:
    """the k largest are dropped: and the others kept"""
    return x - top_k(x, k)


def above_the_kth(x: Array, k: int) -> Array:
    """only above the k-th: entries larger than the k-th largest magnitude, which are k - 1"""
    return top_k(x, k - 1)


def rescaled(x: Array, k: int) -> Array:
    """rescaled: times d / k, as a compressor that draws at random would be to be unbiased"""
    return top_k(x, k) * len(x) / k


TABLE = {
    "softmax-cross-entropy": (
        overflowing, padding_as_last_class, of_the_sigmoid, of_the_softmax, in_bits, guarded_log, probability,
        divided_by_rows,
    ),
    "sgd": (uphill, normalised_gradient, signs, step_alone),
    "adam": tuple(map(path, (
        adam_uncorrected, adam_eps_inside, adam_eps_uncorrected, adam_from_2, adam_beta2_0_99, adam_eps_1e_7,
        adam_without_momentum, adam_forgetful, sgd_for_adam,
    ))),
    "metropolis-weights": (
        without_plus_1, degrees_with_itself, neighbourhood_mean, min_for_max, largest_degree, lazy,
        no_weight_for_itself,
    ),
    "push-weights": (rows_sum_to_1, transposed, degrees_the_wrong_way, nothing_kept, half_kept),
    "top-k": (by_value, smallest, all_but_k, above_the_kth, rescaled),
}  # fmt: skip
