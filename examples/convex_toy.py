"""Theorem 1, seen: ten workers look for points in the plane, and six of them lie.

    python examples/convex_toy.py

takes seconds, prints a table and draws a picture. This file says from top to bottom what they show. The same
is tested, with more care about chance, in tests/test_theory.py, test_theorem_1.py and test_convex_toy.py.
"""

import io
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from refimpl import algorithm, draws, graphs, models
from refimpl.attacks import ATTACKS
from refimpl.experiments.atomic import write
from refimpl.experiments.figures import style_of
from refimpl.experiments.options import HelpFormatter, Parser, folder, whole_number
from refimpl.process import ended

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# THE TASK. Worker k sees points x scattered about a place of its own, and wants the w nearest to them:
#
#     l(w; x) = (w - x)' A (w - x) / 2        r_k(w) = the mean of that over its own points
#
# The minimiser w_k* is the mean of the points. A says in which directions errors are expensive; its smallest
# and largest eigenvalues are the constants m and L of Assumptions 1 and 2.

A = np.array([[2.0, -0.8], [-0.8, 1.2]])
m, L = np.linalg.eigvalsh(A)


class Nearest:
    """The task, in the form that Algorithm 1 asks of a model: `models.Model`. w is (2,), X is (rows, 2)."""

    layout = models.layout([("w", (2,), 1)])

    def risk(self, w: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return cost(w - X).mean()

    def gradient(self, w: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return ((w - X) @ A).mean(axis=0)

    def predict(self, w: np.ndarray, X: np.ndarray) -> np.ndarray:
        return np.zeros(len(X), dtype=int)  # points have no labels, so all have the same


def cost(e: np.ndarray) -> np.ndarray:
    """e' A e / 2, (..., 2) -> (...)."""
    return (e @ A * e).sum(axis=-1) / 2


# THE WORKERS. Each has 20 points, and their places differ a little from worker to worker: the data are not
# iid, but there is something to learn from each other. Everybody hears four others, and starts far away.

N, POINTS = 10, 20


def problem(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The points X (N, POINTS, 2), the graph (N, N), and where the workers start, W (N, 2)."""
    angle = 2.4 * np.arange(N)  # about the golden angle: the first few of them point in all directions
    direction = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    scatter = draws.stream(seed, "partition").uniform(-1.0, 1.0, (N, POINTS, 2))
    X = np.array([3.0, 2.0]) + 0.6 * direction[:, None] + scatter
    W = np.array([2.0, 1.0]) - 4.0 * direction
    return X, graphs.random_regular(N, 4, draws.stream(seed, "graph")), W


# THE BOUND. A local step, Eq. (2), takes one point at random. Its gradient A (w - x) is the true one,
# A (w - w_k*), plus noise A (w_k* - x) that does not depend on w. So Assumption 4 holds with a = 1 and M the
# mean of |A (w_k* - x)|^2, and Theorem 1 promises for every step size mu <= 1 / L, whatever the adversarial
# neighbours send,
#
#     lim E[r_k(w_k) - r_k(w_k*)]  <=  mu L M / 2m.
#
# The difference on the left is the optimality gap. As r_k is quadratic, it is cost(w_k - w_k*).

MU = 0.5 / L


def bound(X: np.ndarray) -> float:
    """mu L M / 2m, M that of the worker with the most noise."""
    noise = (X - X.mean(axis=1, keepdims=True)) @ A
    return float(MU * L * (noise**2).sum(axis=-1).mean(axis=1).max() / (2 * m))


# THE GAME is Algorithm 1 as it stands in `algorithm.round_`; nothing in it is special to the toy. The points
# are drawn independently in each round, with replacement, so that the gradients are unbiased (Assumption 3);
# the experiments draw without replacement, and there they are not.


def play(rule: str, attack: str, attackers: int, seed: int, run: int) -> Iterator[algorithm.Round]:
    """Endless rounds; the last `attackers` of the workers are adversarial. Another `run`, other draws."""
    X, graph, W = problem(seed)
    y, liars = np.zeros(X.shape[:2], dtype=int), np.arange(N - attackers, N)
    setting = algorithm.Setting(Nearest(), list(X), list(y), graph, liars, rule, attack, step_size=MU)
    state, rng = algorithm.start(setting, W), np.random.default_rng([seed, run])
    while True:
        batch, signals = rng.integers(POINTS, size=(N, 1)), draws.signals(attackers, 2, rng)
        result = algorithm.round_(setting, state, batch, signals)
        state = result.state
        yield result


ROUNDS, RUNS = 100, 4
Gaps = dict[tuple[str, str], np.ndarray]  # by rule and attack


def gaps(rule: str, attack: str, attackers: int, seed: int) -> np.ndarray:
    """The normal workers' gaps by round, averaged over independent runs: (1 + ROUNDS, N - attackers)."""
    X, _, start = problem(seed)
    total = np.zeros((1 + ROUNDS, N))
    for run in range(RUNS):
        rounds = itertools.islice(play(rule, attack, attackers, seed, run), ROUNDS)
        total += cost(np.stack([start, *(result.state.W for result in rounds)]) - X.mean(axis=1))
    return total[:, : N - attackers] / RUNS


def settled(gap: np.ndarray) -> float:
    """The worst normal worker's gap, averaged over the second half of the rounds."""
    return float(gap[ROUNDS // 2 :].mean(axis=0).max())


# WHAT HAPPENS. `local` listens to nobody and keeps the bound: keeping it is no achievement by itself. The
# theorem says that `adaptive`, Eq. (6), may listen and still keeps it. What is gained by listening the theorem
# does not say; the table does. `average` is what one would do if nobody lied. `inverse-risk` is Eq. (5): it
# trusts bad models little, but leaves none out, and six times a little is enough.

RULES = ("adaptive", "inverse-risk", "average", "local")
SHOWN = [name for name, attack in ATTACKS.items() if attack.by_default]


def table(results: Gaps, limit: float) -> str:
    """Rules down, attacks across; a gap above the bound is marked."""
    lines = [f"{'rule':12}" + " ".join(f"{attack:>12}" for attack in SHOWN)]
    for rule in RULES:
        row = [settled(results[rule, attack]) for attack in SHOWN]
        lines.append(f"{rule:12}" + "".join(f"{gap:12.3f}{' *'[gap > limit]}" for gap in row).rstrip())
    return "\n".join([*lines, f"{'the bound':12}" + " ".join(f"{limit:12.3f}" for _ in SHOWN)])


# THE PICTURE. Left and middle: the plane, one run, the same draws under two rules. Right: the gaps by round.
# There the bound is drawn as the proof has it before the limit: B + (1 - mu m)^t (gap_0 - B).

DRAWN = ("adaptive", "average")
XLIM, YLIM = (-5.2, 6.2), (-4.2, 5.2)


def picture(results: Gaps, attack: str, attackers: int, seed: int, path: Path) -> None:
    """Writes a PNG. Needs matplotlib."""
    from matplotlib.figure import Figure

    limit = bound(problem(seed)[0])
    fig = Figure(figsize=(10.5, 4.4), layout="constrained")
    *planes, right = fig.subplots(1, 3)
    for ax, rule in zip(planes, DRAWN, strict=True):
        plane(ax, rule, attack, attackers, seed)
        gap = settled(results[rule, attack])
        side = "above" if gap > limit else "below"
        ax.set_title(f"{rule}: gap {gap:.2f}\n{side} the bound {limit:.2f}", color=style_of(rule).color)
    by_round(right, {rule: results[rule, attack] for rule in (*DRAWN, "local")}, limit)
    fig.legend(*planes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    liars = f"{attackers} of them lie ({attack})" if attackers and ATTACKS[attack].lies else "nobody lies"
    fig.suptitle(f"{N} workers look for their optima in the plane; {liars}", fontsize=13)
    buffer = io.BytesIO()
    fig.savefig(buffer, dpi=160, format="png")
    write(path, buffer.getvalue())


def plane(ax: "Axes", rule: str, attack: str, attackers: int, seed: int) -> None:
    """The normal workers' paths, what the others send, and the contours of worker 0's risk."""
    X, _, start = problem(seed)
    normal, optima, colour = N - attackers, X.mean(axis=1), style_of(rule).color
    rounds = list(itertools.islice(play(rule, attack, attackers, seed, run=0), ROUNDS))
    W = np.stack([start, *(result.state.W for result in rounds)])[:, :normal]
    sent = np.stack([result.sent for result in rounds])[:, normal:].reshape(-1, 2)
    x, y = np.meshgrid(np.linspace(*XLIM, 200), np.linspace(*YLIM, 200))
    away = np.sqrt(cost(np.stack([x, y], axis=-1) - optima[0]))  # the root: contours at equal distances
    ax.contour(x, y, away, 12, colors="0.85", linewidths=0.8)
    ax.plot([], [], color="0.85", label="contours of one worker's risk")
    ax.plot(*sent.T, "x", color="0.5", ms=4, mew=0.8, alpha=0.5, label="sent by adversarial workers")
    ax.plot(W[..., 0], W[..., 1], color=colour, lw=0.9, alpha=0.6)
    ax.plot([], [], color="black", lw=1, label="path of a normal worker")
    ax.plot(*W[0].T, "o", mfc="white", mec="black", ms=7, label="its start")
    ax.plot(*W[-1].T, "o", mfc=colour, mec="black", ms=6)
    ax.plot([], [], "o", mfc="0.5", mec="black", ms=6, label=f"its place after {ROUNDS} rounds")
    ax.plot(*optima[:normal].T, "*", mfc="black", mec="white", mew=0.5, ms=12, label="its optimum")
    ax.set(aspect="equal", xlim=XLIM, ylim=YLIM, xticks=[], yticks=[])


def by_round(ax: "Axes", results: dict[str, np.ndarray], limit: float) -> None:
    """The gap of each normal worker, thin, their mean, thick, and Theorem 1's bound."""
    t = np.arange(1 + ROUNDS)

    def name(text: str, height: float, up: float, color: str) -> None:
        ax.annotate(text, (ROUNDS, height), (8, up), textcoords="offset points", va="center", color=color)

    for up, (rule, gap) in zip((-6, 6, 6), results.items(), strict=True):  # apart, also where the gaps are not
        colour, dashes, *_ = style_of(rule)
        ax.semilogy(t, gap, dashes, color=colour, lw=0.8, alpha=0.35)
        ax.semilogy(t, gap.mean(axis=1), dashes, color=colour, lw=2)
        name(rule, gap[ROUNDS // 2 :].mean(), up, colour)
    start = max(gap[0].max() for gap in results.values())
    ax.semilogy(t, limit + (1 - MU * m) ** t * (start - limit), "k:", lw=2)
    name("bound of\nTheorem 1", limit, 0, "black")
    ax.set_box_aspect((YLIM[1] - YLIM[0]) / (XLIM[1] - XLIM[0]))
    ax.set(xlabel="round", ylabel="optimality gap", xlim=(0, ROUNDS), title=f"by round, mean of {RUNS} runs")
    ax.grid(alpha=0.3)


def main(argv: list[str] | None = None) -> int:
    """Draws the picture, then prints the table; the exit status."""
    p = Parser(
        prog="convex_toy.py",
        description="Theorem 1 on a toy: a table of optimality gaps, and a picture of how they come about.",
        formatter_class=HelpFormatter,
    )
    p.add_argument("--attackers", type=whole_number(0), default=6, help=f"how many of the {N} workers lie")
    p.add_argument("--attack", choices=SHOWN, default="sign-flip", help="the attack in the picture")
    p.add_argument("--seed", type=whole_number(0), default=0, help="of the points, the graph and the steps")
    p.add_argument("--out", type=folder, default=Path("results/convex_toy"), help="folder for the picture")
    args = p.parse_args(argv)
    if args.attackers >= N:
        p.error(f"at least one worker must be normal, got {args.attackers} attackers of {N} workers")
    p.need_folder(args.out)
    results = {(rule, a): gaps(rule, a, args.attackers, args.seed) for rule in RULES for a in SHOWN}
    limit = bound(problem(args.seed)[0])
    path, missing = args.out / "convex_toy.png", ""
    try:
        picture(results, args.attack, args.attackers, args.seed, path)
    except ImportError as error:
        missing = f"matplotlib does not import ({error})"
    print(f"{args.attackers} of {N} workers are adversarial. Optimality gap of the worst normal worker,")
    print(f"mean of {RUNS} runs and rounds {ROUNDS // 2} to {ROUNDS}; * is above the bound of Theorem 1.\n")
    print(table(results, limit))
    if not missing:
        print(f"\nThe picture is {path}")
    else:
        print(f"no picture: {missing}: pip install '.[examples]'", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
