"""What a run of the engine computes once; test: test_engine.py. Plain: nothing, `algorithm.round_` looks it up.

Who hears whom, in groups that one batched call can serve, and the data that each receiver scores models on. A
message that several attackers send is scored once, and its weight multiplied by their number.
"""

from types import ModuleType
from typing import NamedTuple

import numpy as np

from refimpl.aggregate import RULES
from refimpl.algorithm import Setting
from refimpl.arrays import Array, module_of
from refimpl.attacks import ATTACKS, EVERYBODY
from refimpl.fast.networks import Batched, batched
from refimpl.fast.parallel import FLOATS, device_factor, tiles
from refimpl.fast.rules import COORDINATEWISE, TWINS, Twin, all_finite
from refimpl.optim import OPTIMIZERS, sgd

CHUNK = FLOATS // 2  # numbers of the workers whose local steps are computed together
SLICE = 64  # rows of a receiver scored at a time on a CPU, where several neighbourhoods are
WHOLE = (slice(None),)
WORTH = 8  # carrying pays if a sum from scratch has this many times as many terms
CARRIED = 2**26  # the most numbers in the carried products, in X X^T, or in what is taken of it
STAGES = (slice(0, None, 8), slice(4, None, 8), slice(2, None, 4), slice(1, None, 2))
RANKED = 2**17  # rows times parameters from which it pays to rank rows (`ranked_rows.RankedRows`)
STAGED = 2**22  # rows times parameters from which it pays to score models in stages (`risks.passing_risks`)


class Chunk(NamedTuple):
    """Workers whose local steps are computed together."""

    workers: Array | slice  # ascending
    normal: tuple[Array | slice, Array | slice] | None  # normal ones: places among these, messages
    attackers: tuple[Array | slice, Array | slice] | None  # attackers: places among these, numbers


class Rows(NamedTuple):
    """Some rows of the first U neighbourhoods of a group: of the first m receivers, one after the other."""

    X: Array  # (U, 1, rows, ...) as `Batched.prepared` makes them
    y: Array  # (U, 1, rows)
    starts: np.ndarray | int  # (m,) where each receiver's begin; m if all have as many


class Group(NamedTuple):
    """u neighbourhoods that hear n messages each, and the m receivers that share each neighbourhood.

    On the complete graph all receivers share one neighbourhood (u = 1); on a ring each has its own (m = 1).
    """

    receivers: Array  # (u, m) worker numbers; of several neighbourhoods those with most data first
    receiver_slice: Array | slice  # receivers[0], as a slice if contiguous
    numbers: np.ndarray  # (u, n) the numbers of the messages that they hear, ascending
    heard: Array | None  # the same on the device; None for all there are, which need no copy
    own: Array  # (u, m) where each receiver's own message is among these
    senders: Array | None  # (u, 1, n) how many send each message; None if one does
    stages: tuple[slice, ...]  # of a receiver's rows: those that are scored together
    local: list[Rows]  # the data that they score models on; empty if these are the round's batch
    count: Array  # (u, m, 1) how many rows each scores on

    def models(self, sent: Array) -> Array:
        """The models that each neighbourhood hears, of all that are sent: (M, d) -> (u, n, d)."""
        return sent[None] if self.heard is None else sent[self.heard]


class Plan(NamedTuple):
    """What a run computes once."""

    setting: Setting
    known_setting: Setting  # the same with the network, for attacks that look into it
    normal: np.ndarray  # (h,)
    twin: Twin | None  # None: the rule is computed receiver by receiver
    network: Batched | None  # None: the model is computed worker by worker
    message: np.ndarray  # (N, N) at [k, l] the number of the message that worker l sends to worker k
    honest: Array | slice  # the numbers of the normal workers' messages
    lies: list[tuple[int, Array | slice]]  # to whom the attackers lie, by messages with which numbers
    messages: int  # how many there are
    attackers: Array  # (f,)
    X: Array  # (rows, ...) all data, one worker's after another's, as the network takes them
    y: Array  # (rows,)
    first: Array  # (N, 1) where each worker's rows begin
    sizes: np.ndarray  # (N, 1) how many rows each worker has
    chunks: list[Chunk]
    groups: list[Group]
    carries: bool  # first layers' products from round to round, as in reused_products.py
    ranks: bool  # rows by what models lose on them, as in ranked_rows.py


def plan(s: Setting) -> Plan:
    """Sorts the normal workers into groups and moves to the device what a round needs there."""
    xp, twin = module_of(s.X[0]), TWINS.get(RULES[s.rule].compute)
    sizes, network = np.array([len(y) for y in s.y]), batched(s.model)
    message, lies, count = numbered(s, twin)
    X = xp.concatenate(list(s.X))
    own = np.diagonal(message)
    return Plan(
        setting=s,
        known_setting=s._replace(model=network) if network else s,
        normal=s.normal,
        twin=twin,
        network=network,
        message=message,
        honest=numbers_of(own[s.normal], xp),
        lies=[(k, numbers_of(numbers, xp)) for k, numbers in lies],
        messages=count,
        attackers=xp.asarray(s.attackers),
        X=network.prepared(X) if network else X,
        y=xp.concatenate(list(s.y)),
        first=xp.asarray((np.cumsum(sizes) - sizes)[:, None]),
        sizes=sizes[:, None].astype(np.uint64),
        chunks=chunks(s, own, network),
        groups=[] if twin == Twin() else groups(s, message, count, network),
        carries=carries(s, network),
        ranks=ranks(s, network),
    )


def numbered(s: Setting, twin: Twin | None) -> tuple[np.ndarray, list[tuple[int, np.ndarray]], int]:
    """The numbers of all messages and of the attackers', as in `Plan`, and how many there are.

    For a rule that weighs, a message that all attackers send is one message. Numbers that do not depend on the
    receiver take no memory for each of them.
    """
    N, h, F, attack = len(s.graph), len(s.normal), len(s.attackers), ATTACKS[s.attack]
    one = bool(twin and twin.weights) and attack.one_message
    if not F or twin == Twin() or not (one or attack.per_receiver):
        return np.broadcast_to(np.arange(N), (N, N)), [(EVERYBODY, s.attackers)], N
    message, lies = np.empty(N, dtype=int), h + np.arange(1 if one else F)
    message[s.normal], message[s.attackers] = np.arange(h), lies
    if not attack.per_receiver:
        return np.broadcast_to(message, (N, N)), [(EVERYBODY, lies)], h + 1
    to = np.tile(message, (N, 1))
    to[np.ix_(s.normal, s.attackers)] += len(lies) * np.arange(h)[:, None]
    return to, [(int(k), lies + i * len(lies)) for i, k in enumerate(s.normal)], h + h * len(lies)


def carries(s: Setting, network: Batched | None) -> bool:
    """Whether it pays to carry products from round to round, and whether they can be.

    All must hear all, steps be SGD's, squares of the data finite, and attacks known, as one that copies a model
    must tie with it, to the bit. ALIE copies the model of a single normal worker. Normal workers that are alike
    to the bit, data and batches and all, may part by rounding.
    """
    twin = TWINS.get(RULES[s.rule].compute)
    can = twin and twin.weights and s.risk == "local" and OPTIMIZERS[s.optimizer].step is sgd and not s.l2
    if not can or not network or network.convolutions or len(network.dense) < 2 or module_of(s.X[0]) is not np:
        return False
    p, h, N, rows = network.dense[0].p, network.dense[0].h, len(s.graph), sum(len(s.y[k]) for k in s.normal)
    fits = rows * max(rows, N * max(h, s.batch_size)) <= CARRIED
    known = ATTACKS[s.attack].send in COORDINATEWISE and len(s.normal) > 1
    pays = p >= WORTH * (N + s.batch_size)
    floats = s.X[0].dtype.kind == "f" and all(map(all_finite, s.X))
    return bool(pays and fits and known and s.graph.all() and floats)


def ranks(s: Setting, network: Batched | None) -> bool:
    """Whether to rank rows: if all receivers hear the same, and score it on all they have, by dense layers."""
    if s.risk != "local" or not network or network.convolutions or len(network.dense) < 2:
        return False
    sizes = np.array([[len(s.y[k]) for k in s.normal]])
    one = len({s.graph[k].tobytes() for k in s.normal}) == 1 and not ATTACKS[s.attack].per_receiver
    return one and may_drop_early(s, sizes) and not carries(s, network) and enough(network, sizes, RANKED)


def numbers_of(numbers: np.ndarray, xp: ModuleType) -> Array | slice:
    """The numbers on the device; if each is one more than the last, as a slice, which needs no copy."""
    start = int(numbers[0]) if len(numbers) else 0
    run = slice(start, start + len(numbers))
    return run if (numbers == np.arange(run.start, run.stop)).all() else xp.asarray(numbers)


def chunks(s: Setting, message: np.ndarray, network: Batched | None) -> list[Chunk]:
    """All workers, in chunks that fit in a cache; in a single one if the model is a user's own.

    `message` (N,) are the numbers of the normal workers' messages.
    """
    xp, N = module_of(s.X[0]), len(s.graph)
    most = N
    if network:
        most = min(CHUNK // network.layout.size, FLOATS // (s.batch_size * network.floats)) * device_factor(xp)
    parts = [np.arange(N)]
    if most < N:  # then no chunk of both kinds, so that a chunk's place may be where it is computed
        kinds = s.normal, np.sort(s.attackers)
        parts = [kind[part] for kind in kinds if len(kind) for part in tiles(kind.shape, most)]

    def rows(k: np.ndarray, kind: np.ndarray, names: np.ndarray) -> tuple[Array | slice, Array | slice] | None:
        at = np.flatnonzero(np.isin(k, kind))
        return (numbers_of(at, xp), numbers_of(names[k[at]], xp)) if len(at) else None

    return [
        Chunk(numbers_of(k, xp), rows(k, s.normal, message), rows(k, s.attackers, np.arange(N))) for k in parts
    ]


def groups(s: Setting, message: np.ndarray, messages: int, network: Batched | None) -> list[Group]:
    """The normal workers in groups, by how many messages they hear and how many receivers share these."""
    sizes = np.array([len(y) if s.risk == "local" else s.batch_size for y in s.y])
    sharing: dict[tuple[bytes, int], list[int]] = {}
    alone = len(s.attackers) > 0 and ATTACKS[s.attack].per_receiver
    for k in sorted(s.normal, key=lambda k: -sizes[k]):
        sharing.setdefault((s.graph[k].tobytes(), k if alone else EVERYBODY), []).append(int(k))
    alike: dict[tuple[int, int], list[tuple]] = {}
    for receivers in sharing.values():
        k = receivers[0]
        numbers, count = np.unique(message[k, s.graph[k]], return_counts=True)
        alike.setdefault((len(numbers), len(receivers)), []).append((receivers, numbers, count))
    result = []
    for (n, _), found in alike.items():
        # As many neighbourhoods at a time as fit in memory.
        most = max(1, FLOATS * device_factor(module_of(s.X[0])) // (n * s.model.layout.size))
        for start in range(0, len(found), most):
            part = map(np.array, zip(*found[start : start + most], strict=True))
            result.append(_group(s, network, message, messages, sizes, *part))
    return result


def _group(
    s: Setting,
    network: Batched | None,
    message: np.ndarray,
    messages: int,
    sizes: np.ndarray,
    receivers: np.ndarray,
    numbers: np.ndarray,
    count: np.ndarray,
) -> Group:
    """The group of receivers (u, m) that hear messages `numbers` (u, n), sent by `count` (u, n) workers each.

    `sizes` (N,) are the rows that the workers score on.
    """
    xp = module_of(s.X[0])
    if len(receivers) == 1 and xp is np:
        receivers = np.sort(receivers)  # the order that comes out as a slice, if any does
    own = (numbers[:, None] == message[receivers, receivers][..., None]).argmax(axis=-1)
    everything = np.array_equal(numbers, np.arange(messages)[None])
    by_data = s.risk == "local" and RULES[s.rule].scores and network
    stages = STAGES if in_stages(s, network, sizes[receivers]) else WHOLE
    return Group(
        xp.asarray(receivers),
        numbers_of(receivers[0], xp),
        numbers,
        None if everything else xp.asarray(numbers),
        xp.asarray(own),
        None if (count == 1).all() else xp.asarray(count[:, None].astype(s.X[0].dtype)),
        stages,
        local_rows(s, network, receivers, sizes[receivers], stages) if by_data and network else [],
        xp.asarray(sizes[receivers][..., None].astype(s.X[0].dtype)),
    )


def in_stages(s: Setting, network: Batched | None, sizes: np.ndarray) -> bool:
    """Whether to score the models of receivers with `sizes` (u, m) rows in stages, in the order of the rows."""
    if not network or len(sizes) > 1 or carries(s, network) or ranks(s, network):
        return False
    return may_drop_early(s, sizes) and enough(network, sizes, STAGED)


def may_drop_early(s: Setting, sizes: np.ndarray) -> bool:
    """Whether a model may be dropped before it has seen all rows: if the rule filters, by losses alone.

    Not on a GPU, which would have to wait for the answer.
    """
    twin = TWINS.get(RULES[s.rule].compute)
    return bool(twin and twin.filters and not s.l2 and sizes.min() >= 8 and module_of(s.X[0]) is np)


def enough(network: Batched, sizes: np.ndarray, least: int) -> bool:
    """Whether there is so much to compute that not computing it pays: rows times parameters."""
    return bool(sizes.mean() * network.layout.size >= least)


def local_rows(
    s: Setting, network: Batched, k: np.ndarray, sizes: np.ndarray, stages: tuple[slice, ...]
) -> list[Rows]:
    """All data of the receivers k (u, m), which have `sizes` (u, m) rows, those with most first.

    Those of one neighbourhood by stages, without any padding; those of several in slices, in each of which only
    the first U along one axis and m along the other have any rows left, so hardly any padding is scored.
    """
    xp, found = module_of(s.X[0]), []
    if len(k) == 1 and xp is np:
        for stage in stages:
            X, y = [s.X[j][stage] for j in k[0]], [s.y[j][stage] for j in k[0]]
            length = np.array([len(own) for own in y])
            rows = network.prepared(np.concatenate(X))[None, None]
            found.append(Rows(rows, np.concatenate(y)[None, None], np.cumsum(length) - length))
        return found
    step, longest = SLICE * device_factor(xp), max(map(len, s.y))
    for start in range(0, int(sizes.max()), step):
        U, m = int((sizes[:, 0] > start).sum()), int((sizes > start).sum(axis=1).max())
        X, y = padded(s, k[:U, :m], start, min(start + step, longest))
        X = network.prepared(X.reshape(U, 1, -1, *network.sample))
        found.append(Rows(X, y.reshape(U, 1, -1), m))
    return found


def padded(s: Setting, k: np.ndarray, start: int, stop: int) -> tuple[Array, Array]:
    """The rows start ... stop - 1 of the receivers k (U, m), as X (U, m, rows, ...) and y (U, m, rows).

    X is 0 and y is -1 where a receiver has fewer rows.
    """
    xp, rows = module_of(s.X[0]), stop - start
    X = xp.zeros((*k.shape, rows, *s.X[0].shape[1:]), s.X[0].dtype)
    y = xp.full((*k.shape, rows), -1)
    for place, j in np.ndenumerate(k):
        some = len(s.y[j][start:stop])
        X[place][:some], y[place][:some] = s.X[j][start:stop], s.y[j][start:stop]
    return X, y
