"""What the authors' released code does differently from the paper. The specification does not know of it.

Each difference is an entry of DIFFERENCES at the end, to be tried alone or with others: `round_` is
`algorithm.round_` with those that are switched on. The facts were read off github.com/cbhowmic/ResilientP2P;
its three tasks differ among themselves, see `differences_of`. These facts are not taken over, most of them
because they lie outside of a round:

- An epoch ends there when the worker with the fewest rows has read them once, here when all have read as many
  rows as they hold together: on HAR after 21 and 26 rounds. The workers before that one in the order of their
  numbers have then taken a local step more, and are evaluated without aggregating it (HAR and MNIST).
- The last batch of a pass is short: on Spambase 8 rows, after 18 batches of 20.
- A loss that is NaN skips the worker's step. A message with a NaN makes every receiver's model NaN, as 0 times
  NaN is NaN, and the running average of its risk stays NaN.
- The initial networks are the same in every run, as torch's seed is fixed.
- The losses that it plots are sums of the batches' means over the number of rows: about the mean loss, divided
  by the batch size.
- Without attackers and with fewer than ten workers its trimmed mean is NaN, as it takes the slice [0:-0].
- Its command line for MNIST has a learning rate of 0.02, the paper's, that nothing reads: it trains with 0.001.
- HAR and MNIST have an attack that flips labels, of which the paper reports nothing. Our `label-flip`
  (refimpl/related/attacks.py) is that of He et al., whose attackers train on the labels C - 1 - y; whether the
  released code's is the same is not known.

With `idle-attackers` the arbitrary attack vanishes, as it does there: its message is the one before,
multiplied again in every round, and soon is about 0.
"""

import itertools
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

from refimpl import algorithm, layers
from refimpl.aggregate import RULES, ascending, combine, require_krum, row_of_least, squared_distances
from refimpl.algorithm import Round, Setting, State
from refimpl.arrays import Array, module_of, quiet
from refimpl.engine import Engine
from refimpl.models import MLP, Layer, Layout, Network, as_layers

SHARE = 0.05  # of the new risk in a running average


def engine(s: Setting, differences: Collection[str] = ()) -> Engine:
    """An engine that computes rounds with the differences of these names."""

    def step(state: Any, batch: Array, signals: Array | None = None) -> Round:
        state = averaging(s, state)
        result, L = round_(s, state.as_state, batch, signals, differences, state.averages)
        return result._replace(state=Averaging(*result.state, L))  # type: ignore[arg-type]

    return Engine(step, s.model)


class Averaging(NamedTuple):
    """A `State`, and the running averages of the risks."""

    W: Array
    memory: Array
    t: int
    averages: Array  # (N, N)

    @property
    def as_state(self) -> State:
        """The state without the averages."""
        return State(self.W, self.memory, self.t)


def averaging(s: Setting, state: Any) -> Averaging:
    """The state with its averages; before the first round they are 1."""
    if isinstance(state, Averaging):
        return state
    ones = module_of(state.W).ones((len(s.graph),) * 2, state.W.dtype)
    return Averaging(state.W, state.memory, state.t, ones)


@quiet
def round_(
    s: Setting,
    state: State,
    batch: Array,
    signals: Array | None,
    differences: Collection[str],
    before: Array | None = None,
    share: float = SHARE,
) -> tuple[Round, Array]:
    """`algorithm.round_` with the differences of these names.

    `before` (N, N) are the running averages of the risks so far; None: they start at this round's.
    Returns the round and the risks that its rule saw.
    """
    xp, rule, changes = module_of(state.W), RULES[s.rule], combined(differences)
    before = before if changes.smooths else None
    first = algorithm.round_(s._replace(rule="local", attack="none"), state, batch)
    W_hat, memory = first.local, first.state.memory
    sent, scored = exchange(s, state, W_hat, memory, signals, changes)
    compute = changes.rules.get(s.rule, rule.compute)
    W, R, L = W_hat.copy(), first.risks, first.risks.copy()
    C = xp.zeros_like(R)
    for k in s.normal:
        neighbourhood, own = s.neighbourhood(k)
        N_k = xp.asarray(neighbourhood)
        if rule.scores:
            X, y = s.scored_on(k, batch[k])
            R[k, N_k] = xp.stack([algorithm.risk(s, w, X, y) for w in scored[N_k]])
            L[k, N_k] = R[k, N_k] if before is None else smooth(before[k, N_k], R[k, N_k], share)
        made = compute(sent[N_k], L[k, N_k], own, len(s.attackers))
        if rule.weighs:
            C[k, N_k] = made
        W[k] = combine(made, sent[N_k]) if rule.weighs else made
    overwrite(s, W, sent, changes)
    result = Round(first.gradient, W_hat, sent, R, C if rule.weighs else None, State(W, memory, first.state.t))
    return result, L


def exchange(
    s: Setting, state: State, W_hat: Array, memory: Array, signals: Array | None, changes: "Difference"
) -> tuple[Array, Array]:
    """What each worker sends, and the models by which it is scored, both (N, d), after the local steps.

    Where attackers do not train, their local steps are undone in W_hat and memory.
    """
    attackers = module_of(W_hat).asarray(s.attackers, dtype=int)
    if changes.idle:
        W_hat[attackers], memory[:, attackers] = state.W[attackers], state.memory[:, attackers]
    send = changes.attacks.get(s.attack)
    sent = W_hat.copy() if send else algorithm.messages(s, W_hat, signals)
    if send and len(attackers):
        sent[attackers] = send(W_hat, attackers, signals, s.model.layout)
    scored = sent.copy()
    if changes.scores_previous:  # it sent that last (`overwrite`), and has taken a local step unless it idles
        scored[attackers] = W_hat[attackers]
    return sent, scored


def overwrite(s: Setting, W: Array, sent: Array, changes: "Difference") -> None:
    """Overwrites the attackers' networks by their messages, if a difference says so."""
    if changes.scores_previous or changes.idle:
        attackers = module_of(W).asarray(s.attackers, dtype=int)
        W[attackers] = sent[attackers]


# --- The differences ----------------------------------------------------------------------------------------


def smooth(before: Array, r: Array, share: float) -> Array:
    """(1 - share) before + share r; an average that is not finite starts again at r."""
    if not 0 < share <= 1:
        raise ValueError(f"smoothing must be in (0, 1], 1 for none, got {share}")
    xp = module_of(r)
    return xp.where(xp.isfinite(before), (1 - share) * before + share * r, r)


def tensor_signals(W_hat: Array, attackers: Array, signals: Array, layout: Layout, high: float) -> Array:
    """The arbitrary attack with one number in (0, high) per tensor of the model, not one per parameter.

    Made of the paper's signals, which are in (-0.5, 0.5): the first one of each tensor.
    """
    sent = W_hat[attackers]  # a copy
    for field in layout.fields:
        first = signals[:, field.offset : field.offset + 1]
        sent[:, field.offset : field.offset + field.size] *= high * (first + 0.5)
    return sent


def minus_the_mean(W_hat: Array, attackers: Array, signals: Array, layout: Layout) -> Array:
    """Fall of Empires over all workers, the attackers included."""
    return -W_hat.mean(axis=0)


def deviation(W_hat: Array, attackers: Array, signals: Array, layout: Layout) -> Array:
    """A little is enough without the mean and z: the deviation alone (ddof 1), over all workers."""
    return W_hat.std(axis=0, ddof=1)


@quiet
def lower_median(W: Array, risks: Array, own: int, f: int) -> Array:
    """The lower of the two middle values when n is even, as torch has it. (n, d) -> (d,)."""
    return ascending(W)[(len(W) - 1) // 2]


@quiet
def unsquared_krum(W: Array, risks: Array, own: int, f: int) -> Array:
    """Krum with distances that are not squared. (n, d) -> (d,)."""
    xp, n = module_of(W), len(W)
    require_krum(n, f)
    to_others = xp.where(xp.eye(n, dtype=bool), xp.inf, xp.sqrt(squared_distances(W)))
    return row_of_least(xp.sort(to_others, axis=-1)[:, : n - f - 2], W)


def sigmoid_outputs(model: MLP | Network) -> Network:
    """The cross-entropy over sigmoids: for two classes the loss cannot fall below log(1 + 1/e) = 0.31."""
    model = as_layers(model) if isinstance(model, MLP) else model
    return model._replace(layers=(*model.layers, Layer(layers.sigmoid, layers.sigmoid_backward)))


NOTHING: dict[str, Any] = {}


class Difference(NamedTuple):
    """An entry of DIFFERENCES."""

    about: str
    tasks: tuple[str, ...] = ("spambase", "har", "mnist", "digits")  # where the released code has it
    options: dict[str, Any] = NOTHING  # of the command line, that it stands for
    rules: dict[str, Callable[[Array, Array, int, int], Array]] = NOTHING
    """by name, what is computed instead"""
    attacks: dict[str, Callable[[Array, Array, Array, Layout], Array]] = NOTHING
    """by name, what is sent instead: (w_hat of all (N, d), attackers, signals, layout) -> (F, d) or (d,)"""
    smooths: bool = False  # are risks running averages over the rounds?
    scores_previous: bool = False  # are attackers scored by their networks, not by what they send?
    idle: bool = False  # do attackers not train?
    model: Callable[[Any], Any] | None = None  # what it makes of the network
    reference: str = "-"

    @property
    def in_round(self) -> bool:
        """Does it change the round, and not only what a run starts from?"""
        return bool(self.rules or self.attacks or self.smooths or self.scores_previous or self.idle)


DIFFERENCES = {
    "smoothed-risk": Difference(
        "the risk is that on the batch, 0.95 L + 0.05 r over the rounds, from L = 1",
        options={"risk": "batch"},
        smooths=True,
    ),
    "previous-message": Difference(
        "an attacker is scored by its network, which its last message has overwritten", scores_previous=True
    ),
    "idle-attackers": Difference(
        "attackers do not train: their network is their last message",
        ("spambase", "mnist", "digits"),
        idle=True,
    ),
    "tensor-signals": Difference(
        "arbitrary: one number in (0, 0.5) per tensor",
        ("spambase",),
        attacks={"arbitrary": partial(tensor_signals, high=0.5)},
    ),
    "small-tensor-signals": Difference(
        "arbitrary: one number in (0, 0.1) per tensor",
        ("har", "mnist", "digits"),
        attacks={"arbitrary": partial(tensor_signals, high=0.1)},
    ),
    "minus-the-mean": Difference("foe: minus the mean of all workers", attacks={"foe": minus_the_mean}),
    "deviation": Difference("alie: the deviation alone, of all workers", attacks={"alie": deviation}),
    "lower-median": Difference("median: the lower of two middle values", rules={"median": lower_median}),
    "unsquared-krum": Difference("krum: distances are not squared", rules={"krum": unsquared_krum}),
    "sigmoid-outputs": Difference(
        "the cross-entropy is over sigmoids of the outputs",
        ("spambase",),
        model=sigmoid_outputs,
    ),
    "raw-features": Difference("features are not scaled", ("spambase",), {"features": "raw"}),
    "label-shards": Difference(
        "sorted by label, two fixed pieces each, training and test rows apart",
        ("spambase",),
        {"partition": "label-shards"},
    ),
    "adam": Difference("Adam, 0.005", ("spambase",), {"optimizer": "adam", "lr": 0.005}),
    "label-pairs": Difference(
        "ten fixed pairs of labels, rows shared",
        ("mnist", "digits"),
        {"partition": "label-pairs"},
    ),
}


def differences_of(task: str) -> list[str]:
    """The names of the differences of the released code for this task."""
    return [name for name, difference in DIFFERENCES.items() if task in difference.tasks]


def require_compatible(differences: Collection[str]) -> None:
    """Raises ValueError if a difference is unknown or named twice, or if two set one thing to two values."""
    if unknown := [name for name in differences if name not in DIFFERENCES]:
        raise ValueError(f"unknown difference {unknown[0]!r}, choose from {', '.join(DIFFERENCES)}")
    for one, other in itertools.combinations(differences, 2):
        if one == other:
            raise ValueError(f"a difference of the released code is on or off, got {one} twice")
        a, b = DIFFERENCES[one], DIFFERENCES[other]
        for mine, its in ((a.options, b.options), (a.rules, b.rules), (a.attacks, b.attacks)):
            if clash := [name for name in mine if its.get(name, mine[name]) != mine[name]]:
                raise ValueError(f"{one} and {other} contradict each other in {clash[0]}: needs one of them")


def combined(differences: Collection[str]) -> Difference:
    """The differences of these names as one, but for the network. Raises ValueError if they contradict."""
    require_compatible(differences)
    found = [DIFFERENCES[name] for name in differences]
    return Difference(
        ", ".join(difference.about for difference in found),
        options={name: value for difference in found for name, value in difference.options.items()},
        rules={name: rule for difference in found for name, rule in difference.rules.items()},
        attacks={name: send for difference in found for name, send in difference.attacks.items()},
        smooths=any(difference.smooths for difference in found),
        scores_previous=any(difference.scores_previous for difference in found),
        idle=any(difference.idle for difference in found),
    )
