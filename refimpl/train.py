"""Algorithm 1: peer-to-peer learning with adaptive model aggregation.

A *round* is one pass of the algorithm's outer loop. An *epoch* is as many rounds as it takes the workers to
read, on average, their local data once. All workers' parameters are the rows of one matrix W (N, d), so the
algorithm's "for all agents" are batched array expressions.
"""

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from refimpl import aggregate, draws, graphs
from refimpl.arrays import FLOATS, Array, beside, grain, keep_memory, module_of, quiet, to_host
from refimpl.attacks import ATTACKS, COLLUDING
from refimpl.models import Model, rows
from refimpl.optim import OPTIMIZERS

RISKS = ("local", "batch")
SLICE = 64  # rows scored at a time on a CPU: see `arrays.grain`


class Data(NamedTuple):
    """What the N workers hold. Their rows are padded to one length; a padded row has label -1."""

    X: Array  # (N, n, ...) training samples
    y: Array  # (N, n) labels
    X_test: Array  # (M, ...) the whole test set
    y_test: Array  # (M,)
    own_test: Array  # (N, M) bool: which of it is worker k's own test split

    def to(self, xp: ModuleType, dtype: str) -> "Data":
        """The same data on the device of `xp`, the samples as `dtype`."""
        X, X_test = (xp.asarray(x.astype(dtype, copy=False)) for x in (self.X, self.X_test))
        return Data(X, xp.asarray(self.y), X_test, xp.asarray(self.y_test), xp.asarray(self.own_test))

    def sizes(self) -> list[int]:
        """How many training rows each worker has."""
        return to_host((self.y >= 0).sum(axis=1)).tolist()


class Setting(NamedTuple):
    """Everything that stays fixed during a run."""

    model: Model
    data: Data
    graph: np.ndarray  # (N, N) as in `graphs`
    attackers: np.ndarray  # (F,) worker numbers
    rule: str = "adaptive"
    attack: str | Callable = "none"  # a name in ATTACKS, or a function of that form
    risk: str = "local"  # r_k over all local data (Sec. 2.1), or over the round's batch (Sec. 3)
    smoothing: float = 1.0
    optimizer: str = "sgd"
    lr: float = 0.01
    batch_size: int = 20

    @property
    def honest(self) -> np.ndarray:
        """The normal workers' numbers, V_c."""
        return _normal(len(self.graph), tuple(self.attackers.tolist()))

    @property
    def colluding(self) -> bool:
        """Do all attackers send one and the same message?"""
        return isinstance(self.attack, str) and self.attack in COLLUDING and len(self.attackers) > 0

    @property
    def message(self) -> np.ndarray:
        """(N,) the number of the message that each worker sends: its own number, as each sends its own.

        If the attackers collude, the normal workers' messages come first, in order, then the attackers' one.
        """
        return _messages(len(self.graph), tuple(self.attackers.tolist()), self.colluding)[0]

    @property
    def sender(self) -> np.ndarray:
        """(M,) who sends each message; of several the first."""
        return _messages(len(self.graph), tuple(self.attackers.tolist()), self.colluding)[1]


@functools.lru_cache(maxsize=8)
def _normal(N: int, attackers: tuple[int, ...]) -> np.ndarray:
    return _fixed(np.setdiff1d(np.arange(N), attackers))


@functools.lru_cache(maxsize=8)
def _messages(N: int, attackers: tuple[int, ...], colluding: bool) -> tuple[np.ndarray, np.ndarray]:
    if not colluding:
        return _fixed(np.arange(N)), _fixed(np.arange(N))
    honest = _normal(N, attackers)
    number = np.full(N, len(honest))
    number[honest] = np.arange(len(honest))
    return _fixed(number), _fixed(np.append(honest, attackers[0]))


def _fixed(shared: np.ndarray) -> np.ndarray:
    """Read-only: the next caller gets the same array."""
    shared.flags.writeable = False
    return shared


class State(NamedTuple):
    """What one round hands to the next."""

    W: Array  # (N, d)
    optimizer: Any = None  # the optimiser's own
    smoothed: list[Array] | None = None  # running risks, one array per group


class Round(NamedTuple):
    """One round with all that it computed on the way."""

    gradient: Array  # (N, d)
    local: Array  # (N, d): w_hat, Eq. (2)
    messages: Array  # (M, d): the honest send w_hat, attackers what they like, a message of several only once
    message: Array  # (N,) which of these each worker sends
    risks: list[Array]  # r_k(w_hat_l), one (u, m, n) per group; empty for rules that do not look at risks
    weights: list[Array]  # c(l, k), likewise
    state: State

    @property
    def sent(self) -> Array:
        """What each worker sends, (N, d)."""
        return self.messages[self.message]


def check(setting: Setting) -> None:
    """Raises ValueError, naming the worker, if the setting cannot be trained."""
    N, F, attackers = len(setting.graph), len(setting.attackers), setting.attackers.tolist()
    known: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
        ("rule", setting.rule, aggregate.NAMES),
        ("attack", setting.attack, tuple(ATTACKS)),
        ("risk", setting.risk, RISKS),
        ("optimizer", setting.optimizer, tuple(OPTIMIZERS)),
    )
    for what, value, names in known:
        if isinstance(value, str) and value not in names:
            raise ValueError(f"unknown {what} {value!r}, choose from {', '.join(names)}")
    if F >= N:
        raise ValueError(f"one worker must be normal, got {F} attackers of {N} workers")
    if len(set(attackers) & set(range(N))) < F:
        raise ValueError(f"attackers must be different workers of 0 to {N - 1}, got {attackers}")
    if not 0 < setting.smoothing <= 1:
        raise ValueError(f"smoothing must be in (0, 1], 1 for none, got {setting.smoothing}")
    graphs.require_connected(setting.graph)
    if setting.rule in aggregate.REQUIREMENTS:
        for k in setting.honest:
            n = int(setting.graph[k].sum())
            try:
                aggregate.REQUIREMENTS[setting.rule](n, F)
            except ValueError as error:
                raise ValueError(f"worker {k}, with {n - 1} neighbours: {error}") from None


class Group(NamedTuple):
    """Receivers whose neighbourhoods have one shape (a `graphs.Block`), and the rows they score models on."""

    receivers: Array  # (u, m) worker numbers
    members: Array  # (u, n) their neighbourhoods
    own: Array  # (u, m) the receivers' positions in these
    messages: Array | None  # (u, n) the numbers of the members' messages; None for all there are, in order
    heard: Array | None  # (u, s) these, each once, ascending; likewise
    place: Array | None  # (u, n) where among the heard ones each member's is; None if messages equal heard
    X: Array  # (u, m, rows, ...) local data; None if the round's batch is used
    y: Array  # (u, m, rows)
    active: list[tuple[int, int]]  # see `neighbour_risks`


def groups(setting: Setting) -> list[Group]:
    """The normal workers, sorted into groups that can be aggregated in one batched call each."""
    xp = module_of(setting.data.y)
    sizes = np.array(setting.data.sizes())
    if setting.risk == "batch":
        sizes[:] = setting.batch_size
    longest_first = setting.honest[np.argsort(-sizes[setting.honest], kind="stable")]
    result = []
    for block in graphs.blocks(setting.graph, longest_first):
        n = block.members.shape[1]
        most = max(1, FLOATS * grain(xp) // (n * setting.model.layout.size))  # neighbourhoods at a time
        for start in range(0, len(block.members), most):
            part = graphs.Block(*(of_block[start : start + most] for of_block in block))
            result.append(_group(setting, part, sizes))
    return result


def _group(setting: Setting, block: graphs.Block, sizes: np.ndarray) -> Group:
    """The receivers of a block, which score models on the first `sizes` (N,) rows of their data."""
    data, xp = setting.data, module_of(setting.data.y)
    rows = sizes[block.receivers]  # (u, m), descending along both axes
    starts = range(0, rows.max(), SLICE * grain(xp))
    active = [(int((rows[:, 0] > start).sum()), int((rows[0] > start).sum())) for start in starts]
    receivers, members, own = map(xp.asarray, block)
    messages = setting.message[block.members]
    heard, place = graphs.distinct(messages)
    everything = np.arange(len(setting.sender))[None]
    local = setting.risk == "local" and setting.rule in aggregate.WEIGHTS
    X, y = (data.X[receivers], data.y[receivers]) if local else (None, None)
    return Group(
        receivers,
        members,
        own,
        None if np.array_equal(messages, everything) else xp.asarray(messages),
        None if np.array_equal(heard, everything) else xp.asarray(heard),
        None if np.array_equal(messages, heard) else xp.asarray(place),
        X,
        y,
        active,
    )


@quiet
def round_(
    setting: Setting, groups: list[Group], state: State, batch: Array, signals: Array | None = None
) -> Round:
    """One round of Algorithm 1, given its draws: `batch` (N, B) row numbers, `signals` (F, d) if needed.

    `groups` are those of `groups(setting)`.
    """
    s, xp = setting, module_of(state.W)
    workers = xp.arange(len(s.graph))[:, None]
    X, y = s.data.X[workers, batch], s.data.y[workers, batch]

    # for all agents: local learning step
    G = s.model.gradient(state.W, X, y)
    W_hat, optimizer = OPTIMIZERS[s.optimizer](state.W, G, state.optimizer, s.lr)  # Eq. (2)
    sent = messages(s, W_hat, signals)
    W = W_hat.copy()  # attackers do not aggregate: they go on from their own local step

    # for all normal agents: model aggregation step
    risks: list[Array] = []
    weights: list[Array] = []
    smoothed: list[Array] = []
    for i, group in enumerate(groups):
        if s.rule == "local":
            continue
        if s.rule in aggregate.RULES:
            M = models_of(sent, group.messages)  # (u, n, d)
            W[group.receivers] = aggregate.RULES[s.rule](M, len(s.attackers))[:, None]
            continue
        M = models_of(sent, group.heard)  # (u, s, d)
        data = (group.X, group.y) if s.risk == "local" else (X[group.receivers], y[group.receivers])
        r = of_members(neighbour_risks(s.model, M, *data, group.active), group.place)
        L = r if state.smoothed is None or s.smoothing == 1 else smooth(state.smoothed[i], r, s.smoothing)
        c = aggregate.WEIGHTS[s.rule](L, group.own)  # Eq. (6), or (5)
        W[group.receivers] = aggregate.combine(of_heard(c, group.place, M.shape[1]), M)  # Eq. (3)
        risks.append(r)
        smoothed.append(L)
        weights.append(c)
    return Round(G, W_hat, sent, beside(W, s.message), risks, weights, State(W, optimizer, smoothed or None))


def messages(setting: Setting, W_hat: Array, signals: Array | None) -> Array:
    """What the workers send to all their neighbours, (M, d), numbered as in `Setting.message`."""
    attackers, honest = setting.attackers, setting.honest
    if not len(attackers):
        return W_hat
    if setting.colluding:
        sent = W_hat[beside(W_hat, setting.sender)]
        sent[-1] = COLLUDING[str(setting.attack)](sent[:-1], len(attackers))
        return sent
    attack = ATTACKS[setting.attack] if isinstance(setting.attack, str) else setting.attack
    sent, attackers = W_hat.copy(), beside(W_hat, attackers)
    sent[attackers] = attack(W_hat[attackers], W_hat[beside(W_hat, honest)], signals)
    return sent


def models_of(sent: Array, messages: Array | None) -> Array:
    """(M, d), (u, n) message numbers -> (u, n, d); None for all in order, which need no copy: -> (1, M, d)."""
    return sent[None] if messages is None else sent[messages]


# A message that several members send is scored once and combined once, with the sum of their weights.


def of_members(r: Array, place: Array | None) -> Array:
    """From the risks of what is heard those of the members: (u, m, s), (u, n) -> (u, m, n)."""
    if place is None:
        return r
    xp = module_of(r)
    u, m = r.shape[:2]
    return r[xp.arange(u)[:, None, None], xp.arange(m)[:, None], place[:, None]]


def of_heard(c: Array, place: Array | None, s: int) -> Array:
    """From the members' weights those of what is heard: (u, m, n), (u, n) -> (u, m, s)."""
    if place is None:
        return c
    sends = place[..., None] == module_of(c).arange(s)  # (u, n, s)
    return c @ sends.astype(c.dtype)


def neighbour_risks(model: Model, M: Array, X: Array, y: Array, active: list[tuple[int, int]]) -> Array:
    """r_k(w_hat_l), by the receivers' own data; infinite for a model that is not finite.

    (u, n, d) models, (u, m, rows, ...) samples, (u, m, rows) labels -> (u, m, n).
    The rows are taken in slices. Receivers are sorted by their number of rows, so in slice i only the first
    active[i] = (U, m) along the two axes have any left, and hardly any padding is scored.
    """
    xp = module_of(M)
    n, step = M.shape[1], SLICE * grain(xp)
    r = xp.zeros((*y.shape[:2], n), M.dtype)
    for i, (U, m) in enumerate(active):
        part = slice(i * step, (i + 1) * step)
        X_part, y_part = X[:U, :m, part], y[:U, :m, part]
        # The receivers' rows one behind the other: n large matrix products instead of m n small ones.
        X_all = X_part.reshape(U, 1, -1, *model.sample)
        losses = model.losses(M[:U], X_all, y_part.reshape(U, 1, -1))  # (U, n, m * rows)
        r[:U, :m] += losses.reshape(U, n, m, -1).sum(axis=-1).swapaxes(-1, -2)
    r /= rows(y, r.dtype)[..., None]
    return xp.where(xp.isfinite(M).all(axis=-1)[:, None], r, xp.inf)


def smooth(previous: Array, r: Array, share: float) -> Array:
    """(1 - share) previous + share r; an average that is not finite starts again at r."""
    xp = module_of(r)
    return xp.where(xp.isfinite(previous), (1 - share) * previous + share * r, r)


def rounds(setting: Setting, W: Array, seed: int) -> Iterator[Round]:
    """Endless rounds from the initial parameters W (N, d); every draw comes from the seed's streams."""
    xp = module_of(W)
    keep_memory()
    sizes = setting.data.sizes()
    per_epoch = draws.rounds_per_epoch(sizes, setting.batch_size)
    receivers = groups(setting)
    batch_rng, attack_rng = draws.stream(seed, "batches"), draws.stream(seed, "attack")
    state = State(W)
    while True:
        for batch in xp.asarray(draws.batches(sizes, setting.batch_size, per_epoch, batch_rng)):
            signals = None
            if setting.attack == "arbitrary":
                host = draws.signals(len(setting.attackers), W.shape[-1], attack_rng)
                signals = xp.asarray(host.astype(W.dtype))
            result = round_(setting, receivers, state, batch, signals)
            state = result.state
            yield result
            del result  # its memory serves the next round


@quiet
def evaluate(setting: Setting, W: Array) -> dict[str, float]:
    """Test accuracy and training loss of the normal workers, worst and mean.

    "own" is each worker on its own test split, which has the distribution that it trains for; "whole" is
    each worker on all workers' test data, which asks whether it learned from the others.
    """
    xp = module_of(W)
    data, honest = setting.data, beside(W, setting.honest)
    correct = setting.model.predict(W[honest], data.X_test[None]) == data.y_test
    own = data.own_test[honest]
    accuracy_own = (correct & own).sum(axis=-1) / own.sum(axis=-1)
    accuracy_whole = correct.mean(axis=-1)
    loss = setting.model.risk(W[honest], data.X[honest], data.y[honest])
    finite = xp.isfinite(W[honest]).all(axis=-1)
    numbers = {
        "worst_own": accuracy_own.min(),
        "mean_own": accuracy_own.mean(),
        "worst_whole": accuracy_whole.min(),
        "mean_whole": accuracy_whole.mean(),
        "highest_loss": loss.max(),
        "mean_loss": loss.mean(),
        "not_finite": (~finite).sum(),
    }
    values = to_host(xp.stack([xp.asarray(v, dtype="float64") for v in numbers.values()]))
    return dict(zip(numbers, values.tolist(), strict=True))


class Result(NamedTuple):
    W: Array  # (N, d), the final parameters
    history: dict[str, list[float]]  # a column per number of `evaluate`, an entry per epoch
    weights: np.ndarray | None  # (N, N) c(l, k) at [k, l] in the last round; None for rules without weights


def run(setting: Setting, W: Array, seed: int, epochs: int) -> Result:
    """Trains from the initial parameters W (N, d) and evaluates after every epoch."""
    check(setting)
    history: dict[str, list[float]] = {}
    per_epoch = draws.rounds_per_epoch(setting.data.sizes(), setting.batch_size)
    for t, result in enumerate(rounds(setting, W, seed), start=1):
        if t % per_epoch == 0:
            for name, value in evaluate(setting, result.state.W).items():
                history.setdefault(name, []).append(value)
        if t == epochs * per_epoch:
            break
    return Result(result.state.W, history, weight_matrix(setting, result.weights))


def weight_matrix(setting: Setting, weights: list[Array]) -> np.ndarray | None:
    """The groups' weights as one (N, N) matrix on the host, row k the receiver; attackers' rows are 0."""
    if not weights:
        return None
    C = np.zeros((len(setting.graph), len(setting.graph)))
    for group, c in zip(groups(setting), weights, strict=True):
        C[to_host(group.receivers)[..., None], to_host(group.members)[:, None, :]] = to_host(c)
    return C
