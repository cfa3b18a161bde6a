"""The families attacks, sgd, adam and graphs."""

import numpy as np
from common import case, draw, error, family, file, unlike

from refimpl.attacks import alie_z
from refimpl.graphs import random_regular

file(
    "attacks",
    "Sec. 2.2 and 5",
    ["W: the attackers' own models; honest: those of the normal workers; a row each."],
)


@case("attacks")
def sign_flip_scales_by_sigma():
    """Catches a flip without sigma."""
    return "sign_flip", {"W": draw(30, 2, 4), "sigma": 1.5}


@case("attacks")
def sign_flip_of_the_paper():
    """Catches flipping one model for all: each attacker flips its own."""
    return "sign_flip", {"W": draw(31, 2, 3), "sigma": 1.0}


@case("attacks")
def arbitrary_multiplies_entry_by_entry():
    """Catches one signal per model or per tensor, and signals added instead of multiplied."""
    W, signals = draw(32, 2, 4), np.random.default_rng(32).uniform(-0.5, 0.5, (2, 4)).round(3)
    unlike(signals * W, signals[:, :1] * W, signals + W)
    return "arbitrary", {"W": W, "signals": signals}


@case("attacks")
def foe_is_minus_the_mean():
    """Catches a missing minus, and a sum instead of a mean."""
    honest = draw(33, 5, 3)
    unlike(-honest.mean(axis=0), honest.mean(axis=0), -honest.sum(axis=0))
    return "fall_of_empires", {"honest": honest, "epsilon": 1.0}


@case("attacks")
def foe_scales_by_epsilon():
    """Catches a fixed strength, and mean - epsilon mean."""
    honest = draw(34, 4, 3)
    unlike(-0.25 * honest.mean(axis=0), -honest.mean(axis=0), 0.75 * honest.mean(axis=0))
    return "fall_of_empires", {"honest": honest, "epsilon": 0.25}


@case("attacks")
def alie_is_mean_minus_z_std():
    """Catches plus for minus, the standard deviation alone, ddof 1, the variance, and z times the mean."""
    honest, z = draw(35, 5, 3), 0.75
    mean, std = honest.mean(axis=0), honest.std(axis=0)
    wrong = mean + z * std, std, mean - z * honest.std(axis=0, ddof=1), mean - z * honest.var(axis=0)
    unlike(mean - z * std, *wrong, mean - std)
    return "a_little_is_enough", {"honest": honest, "z": z}


@case("attacks")
def alie_far_from_the_origin():
    """Catches E[x^2] - mean^2, which loses all digits here: subtract the mean first."""
    honest = 1e7 + draw(36, 4, 2)
    naive = np.sqrt(np.maximum((honest**2).mean(axis=0) - honest.mean(axis=0) ** 2, 0))
    assert (abs(naive - honest.std(axis=0)) > 1e-5).all()
    return "a_little_is_enough", {"honest": honest, "z": 1e3}


@case("attacks")
def alie_of_a_single_honest_worker():
    """Catches 0/0 with ddof 1: one model has standard deviation 0."""
    return "a_little_is_enough", {"honest": draw(37, 1, 3), "z": 0.5}


@family("attacks")
def alie_z_values():
    sizes = {
        (10, 3): "Catches (n - s) / n for the probability, and s without the attackers subtracted.",
        (30, 6): "Catches rounding n / 2 + 1 upwards, and the paper's larger network.",
        (30, 13): "Catches a fixed z: with more attackers it grows.",
        (11, 3): "Catches n / 2 without the floor: n is odd.",
        (9, 4): "Catches an off-by-one in s: here s = 1, the last value before a majority.",
        (10, 0): "Catches clamping at 0: without attackers s = 6 of 10, and z is negative.",
        (10, 7): "Catches Phi^-1 of 1 or more: with a majority of attackers, s = 1.",
        (4, 3): "Catches Phi^-1(0) = -infinity: one honest worker, z = 0.",
        (6, 2): "Catches a z that is not quite 0 at probability 1/2.",
    }
    for (n, f), comment in sizes.items():
        yield f"alie-z-{n}-{f}", comment, "alie_z", {"n": n, "f": f}


unlike(alie_z(30, 6), alie_z(30, 13), alie_z(31, 6))
assert alie_z(10, 0) < -0.1
assert abs(alie_z(6, 2)) < 1e-15


@error("attacks")
def alie_z_without_honest_workers():
    """Catches 0/0: somebody must be honest."""
    return "alie_z", {"n": 3, "f": 3}, ["alie_z", "3"]


file("sgd", "Sec. 3, Eq. (2)", ["W' = W - lr G, for one model or a row per worker."])


@case("sgd")
def sgd_steps_downhill():
    """Catches gradient ascent, and a step of G / lr."""
    W, G = draw(40, 2, 4), draw(41, 2, 4)
    unlike(W - 0.3 * G, W + 0.3 * G, W - G / 0.3)
    return "sgd", {"W": W, "G": G, "lr": 0.3}


file(
    "adam",
    "Kingma and Ba 2015, Algorithm 1 (the paper trains MNIST with it)",
    ["gradients[t] is the gradient of step t + 1; W[t] the parameters after it; m and v those after the last."],
)
DEFAULTS = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}


def adam_like(W, gradients, lr, correct=True, inside=False, start=1):
    """Adam with a mistake."""
    m = v = np.zeros_like(W)
    for t, g in enumerate(gradients, start=start):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        scale = (1 - 0.9**t, 1 - 0.999**t) if correct else (1, 1)
        root = np.sqrt(v / scale[1] + 1e-8) if inside else np.sqrt(v / scale[1]) + 1e-8
        W = W - lr * m / scale[0] / root
    return W


@case("adam")
def adam_corrects_the_bias():
    """Catches no bias correction, and t that counts from 2."""
    W, gradients = draw(42, 4), draw(43, 5, 4)
    right = adam_like(W, gradients, 0.1)
    unlike(right, adam_like(W, gradients, 0.1, correct=False), adam_like(W, gradients, 0.1, start=2))
    return "adam", {"W": W, "gradients": gradients, "lr": 0.1, **DEFAULTS}


@case("adam")
def adam_adds_eps_outside_the_root():
    """Catches sqrt(v + eps): with gradients of 1e-6 it shrinks the step a hundredfold."""
    W, gradients = draw(44, 3), draw(45, 2, 3) * 1e-6
    unlike(adam_like(W, gradients, 0.1), adam_like(W, gradients, 0.1, inside=True))
    return "adam", {"W": W, "gradients": gradients, "lr": 0.1, **DEFAULTS}


@case("adam")
def adam_stays_where_the_gradient_is_zero():
    """Catches 0/0 at a parameter that no sample touches."""
    gradients = draw(46, 3, 3)
    gradients[:, 1] = 0
    return "adam", {"W": draw(47, 3), "gradients": gradients, "lr": 0.02, **DEFAULTS}


@case("adam")
def adam_uses_each_beta_in_its_place():
    """Catches exchanged betas, with others than the defaults."""
    given = {"beta1": 0.5, "beta2": 0.75, "eps": 1e-4}
    return "adam", {"W": draw(48, 3), "gradients": draw(49, 3, 3), "lr": 0.05, **given}


@case("adam")
def adam_of_all_workers_is_elementwise():
    """Catches a step size shared by the workers: W is (2, 3), a row each."""
    return "adam", {"W": draw(50, 2, 3), "gradients": draw(51, 3, 2, 3), "lr": 0.02, **DEFAULTS}


file(
    "graphs",
    "Sec. 2.1: the communication graph; a worker is its own neighbour",
    [
        "graph[k][l] is true if l is in N_k: symmetric, and true on the diagonal.",
        "Random graphs come with the numbers drawn: see docs/PORTING.md for how they are used.",
    ],
)


@case("graphs")
def complete_includes_the_worker_itself():
    """Catches a diagonal of false."""
    return "complete", {"n": 4}


@case("graphs")
def ring_closes():
    """Catches a path: worker 0 hears worker n - 1."""
    return "ring", {"n": 5}


@case("graphs")
def ring_of_two():
    """Catches double edges."""
    return "ring", {"n": 2}


@case("graphs")
def from_edges_is_undirected():
    """Catches one-way edges, and trouble with an edge given twice or from a worker to itself."""
    return "from_edges", {"n": 5, "edges": np.array([[0, 3], [3, 1], [1, 3], [2, 2], [4, 0]])}


@case("graphs")
def erdos_renyi_reads_the_upper_triangle():
    """Catches reading the lower triangle, deciding each direction apart, and > p for < p."""
    u = np.random.default_rng(60).uniform(size=(6, 6)).round(3)
    A = u < 0.4
    right, lower = np.triu(A, 1), np.tril(A, -1)
    unlike(right | right.T, lower | lower.T, A | A.T, np.triu(~A, 1) | np.triu(~A, 1).T)
    return "erdos_renyi", {"n": 6, "p": 0.4, "uniforms": u}


class Recorder:
    """Keeps every shuffle of the stubs."""

    def __init__(self, seed):
        self.rng, self.draws = np.random.default_rng(seed), []

    def permutation(self, stubs):
        self.draws.append(self.rng.permutation(stubs))
        return self.draws[-1]


@case("graphs")
def random_regular_pairs_again_who_met_twice():
    """Catches starting over, or dropping the pair, when a worker meets itself or the same one twice."""
    recorder = Recorder(1)
    A = random_regular(9, 4, recorder)
    assert len(recorder.draws) > 2
    assert (A.sum(axis=1) == 5).all()
    return "random_regular", {"n": 9, "degree": 4, "shuffled": recorder.draws}


def stuck(recorder):
    """All stubs were shuffled more than once: the pairing started over."""
    return sum(len(draw) == 12 for draw in recorder.draws) > 1


@case("graphs")
def random_regular_starts_over_when_stuck():
    """Catches an endless loop: after ten shuffles without a new edge everything starts again."""
    recorder = next(r for r in map(Recorder, range(10000)) if random_regular(6, 2, r) is not None and stuck(r))
    return "random_regular", {"n": 6, "degree": 2, "shuffled": recorder.draws}


@case("graphs")
def random_regular_dense_is_a_complement():
    """Catches pairing stubs for a high degree: above (n - 1) / 2 the sparse complement is drawn."""
    recorder = Recorder(3)
    random_regular(7, 4, recorder)
    assert len(recorder.draws[0]) == 14
    return "random_regular", {"n": 7, "degree": 4, "shuffled": recorder.draws}


@case("graphs")
def random_regular_of_half_the_others_is_a_complement():
    """Catches floor(n / 2) for floor((n - 1) / 2): degree 3 of 6 is drawn as the complement of degree 2."""
    recorder = Recorder(4)
    A = random_regular(6, 3, recorder)
    assert len(recorder.draws[0]) == 12
    assert (A.sum(axis=1) == 4).all()
    return "random_regular", {"n": 6, "degree": 3, "shuffled": recorder.draws}


@error("graphs")
def from_edges_unknown_worker():
    """Catches writing outside the matrix."""
    return "from_edges", {"n": 3, "edges": np.array([[0, 1], [1, 3]])}, ["1", "3"]


@error("graphs")
def random_regular_odd_number_of_stubs():
    """Catches an endless search: n * degree must be even."""
    return "random_regular", {"n": 5, "degree": 3, "shuffled": []}, ["5", "3"]


@error("graphs")
def graph_in_two_parts():
    """Catches training on a graph that is not connected; 4 is the first that 0 cannot reach."""
    A = np.eye(6, dtype=bool)
    for i, j in (0, 2), (2, 1), (1, 3), (4, 5):
        A[i, j] = A[j, i] = True
    return "require_connected", {"graph": A}, ["connected", "4"]
