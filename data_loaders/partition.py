"""Who holds which rows: pure functions of the labels and a generator.

Each takes labels (rows,), the number of workers and a generator, and returns one array of row numbers per
worker. The arrays are disjoint and together hold every row; only `label_pairs` deals a row to several
workers, and only `label_shards` may leave rows over. `by_subject` takes the person of each row instead of its
label. The table PARTITIONS is at the end, and then how rows are kept for testing.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from data_loaders import Dataset

Rng = np.random.Generator
Parts = list[np.ndarray]


def iid(labels: np.ndarray, workers: int, rng: Rng) -> Parts:
    """Equal parts of a random order."""
    if len(labels) < workers:
        raise ValueError(f"iid needs at least one row per worker, got {len(labels)} rows for {workers} workers")
    return np.array_split(rng.permutation(len(labels)), workers)


def nonuniform(labels: np.ndarray, workers: int, rng: Rng, alpha: float = 1.0, minimum: int = 20) -> Parts:
    """Different shares of each class, and so different sizes, every worker holding all classes.

    Of each class, every worker gets `minimum` rows; the rest is dealt in shares drawn from a symmetric
    Dirichlet distribution with parameter `alpha`, for each class anew. The paper asks only for different
    distributions and both classes at every worker (supplement C); the way, alpha and minimum are ours.
    """
    parts: list[list[np.ndarray]] = [[] for _ in range(workers)]
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        rest = len(rows) - workers * minimum
        if rest < 0:
            raise ValueError(
                f"nonuniform needs {minimum} rows of each class per worker, "
                f"got {len(rows)} of class {label} for {workers} workers"
            )
        shares = rng.dirichlet(np.full(workers, alpha))
        # The minimum each, and the rounded share of the rest.
        ends = minimum * np.arange(1, workers) + np.round(np.cumsum(shares[:-1]) * rest).astype(int)
        for part, chunk in zip(parts, np.split(rows, ends), strict=True):
            part.append(chunk)
    return [rng.permutation(np.concatenate(part)) for part in parts]


def shards(labels: np.ndarray, workers: int, rng: Rng, per_worker: int = 2) -> Parts:
    """Rows sorted by label, cut into equal shards, `per_worker` of them to each worker at random.

    Most workers hold few classes, some only one (McMahan et al. 2017).
    """
    count = workers * per_worker
    if len(labels) < count:
        raise ValueError(f"shards needs at least one row per shard, got {len(labels)} rows for {count} shards")
    order = rng.permutation(len(labels))
    pieces = np.array_split(order[np.argsort(labels[order], kind="stable")], count)
    hands = rng.permutation(count).reshape(workers, per_worker)
    return [np.concatenate([pieces[i] for i in hand]) for hand in hands]


def two_labels(labels: np.ndarray, workers: int, rng: Rng) -> Parts:
    """Exactly two labels per worker: the paper's split of MNIST, as near as its numbers allow.

    The paper sorts by label, cuts 200 shards of 300 and deals 20 to each of 10 workers, two labels each. No
    label's count is a multiple of 300, so that cannot hold to the letter; what is kept is two labels per
    worker, no shared row and no unused row. Each label is held by as many workers as makes the pieces most
    equal (MNIST: by two of the ten), its rows in random order are cut into that many equal pieces, and who
    holds what is drawn at random. On MNIST a worker has two pieces of 2710 to 3371 rows, not 10 shards each.
    Raises ValueError with fewer than half as many workers as labels, when some label would be left over.
    """
    names, counts = np.unique(labels, return_counts=True)
    pairs = draw_pairs(_holders(counts, workers), workers, rng)
    parts: list[list[np.ndarray]] = [[] for _ in range(workers)]
    for i, label in enumerate(names):
        holders = np.flatnonzero((pairs == i).any(axis=1))
        pieces = np.array_split(rng.permutation(np.flatnonzero(labels == label)), len(holders))
        for k, piece in zip(holders, pieces, strict=True):
            parts[k].append(piece)
    return [np.concatenate(part) for part in parts]


def _holders(counts: np.ndarray, workers: int) -> np.ndarray:
    """How many workers hold each label, in all 2 * workers: each time one more for the largest pieces."""
    if not 2 <= len(counts) <= 2 * workers:
        raise ValueError(f"two-labels needs 2 to {2 * workers} labels for {workers} workers, got {len(counts)}")
    holders = np.ones(len(counts), int)
    for _ in range(2 * workers - len(counts)):
        sizes = np.where(holders < workers, counts / holders, 0)
        if sizes.max() <= 1:
            raise ValueError(
                f"two-labels needs more rows for {workers} workers, got {counts.tolist()} per label"
            )
        holders[np.argmax(sizes)] += 1
    return holders


def draw_pairs(holders: np.ndarray, workers: int, rng: Rng) -> np.ndarray:
    """Two different labels per worker (workers, 2), label i in holders[i] of the rows.

    A label that all workers still to come must hold goes first, so the deal never gets stuck; otherwise a label
    is drawn in proportion to the places it has left (of exponential waiting times, the two shortest).
    """
    places, pairs = holders.copy(), np.empty((workers, 2), int)
    for k in range(workers):
        wait = rng.exponential(size=len(places)) / np.where(places > 0, places, np.nan)  # NaN sorts last
        wait[places == workers - k] = -1
        pairs[k] = np.argsort(wait)[:2]
        places[pairs[k]] -= 1
    return pairs


PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (0, 2), (4, 6), (8, 0), (2, 4), (6, 8))


def label_pairs(labels: np.ndarray, workers: int, rng: Rng) -> Parts:
    """The released code's split of MNIST: ten fixed pairs, worker k holding all rows of the labels PAIRS[k].

    Workers share rows, so a row must not be split off as one worker's test row: another trains on it. Nothing
    is drawn from `rng`.
    """
    found = np.unique(labels).tolist()
    if workers != len(PAIRS) or found != list(range(10)):
        raise ValueError(f"label-pairs needs 10 workers and the labels 0 to 9, got {workers} and {found}")
    return [np.flatnonzero(np.isin(labels, pair)) for pair in PAIRS]


HANDS = ((1, 18), (4, 7), (6, 15), (8, 11), (5, 9), (13, 19), (0, 14), (12, 17), (3, 10), (2, 16))


def label_shards(labels: np.ndarray, workers: int, rng: Rng) -> Parts:
    """The released code's split of Spambase: rows sorted by label, cut into 20 shards, HANDS[k] to worker k.

    The hands are the same in every run; on Spambase the classes meet in shard 12, which is worker 7's. Shards
    are of equal size, and up to 19 rows at the end are left over. Nothing is drawn from `rng`: it is
    `deal_and_split` that shuffles. As that deals training rows and test rows apart, a worker may train on one
    class and be tested on both.
    """
    size = len(labels) // (2 * len(HANDS))
    if workers != len(HANDS) or not size:
        raise ValueError(f"label-shards needs 10 workers and 20 rows, got {workers} and {len(labels)}")
    order = np.argsort(labels[: 2 * len(HANDS) * size], kind="stable")
    return [np.concatenate([order[i * size : (i + 1) * size] for i in hand]) for hand in HANDS]


def by_subject(subject: np.ndarray, workers: int, rng: Rng) -> Parts:
    """One worker per person, in the order of the persons' numbers. Nothing is drawn from `rng`."""
    people = np.unique(subject)
    if len(people) != workers:
        raise ValueError(
            f"by-subject needs one worker per person, got {workers} workers for {len(people)} people"
        )
    return [np.flatnonzero(subject == person) for person in people]


class Partition(NamedTuple):
    """An entry of PARTITIONS."""

    deal: Callable[[np.ndarray, int, Rng], Parts]
    """(column of the data set, workers, generator) -> row numbers by worker"""
    about: str
    reference: str = "-"
    by: str = "y"  # the column of `Dataset` that it deals by
    shares: bool = False  # may several workers hold a row?
    splits_first: bool = False  # are training rows and test rows dealt apart?


PARTITIONS = {
    "nonuniform": Partition(
        nonuniform, "different shares of each class, all classes at every worker", "Sec. 5"
    ),
    "iid": Partition(iid, "equal parts of a random order"),
    "shards": Partition(shards, "sorted by label, two pieces for each worker", "McMahan et al. 2017"),
    "two-labels": Partition(two_labels, "two labels for each worker", "supplement C"),
    "label-pairs": Partition(
        label_pairs, "ten fixed pairs of labels, rows shared", "the authors' released code", shares=True
    ),
    "label-shards": Partition(
        label_shards,
        "sorted by label, two fixed pieces for each worker, training and test rows apart",
        "the authors' released code",
        splits_first=True,
    ),
    "by-subject": Partition(by_subject, "one worker per person", "Sec. 5", by="subject"),
}


def deal(partition: Partition, data: Dataset, workers: int, rng: Rng, rows: np.ndarray | None = None) -> Parts:
    """Some rows of the data set, all unless told which, by the column that the partition asks for."""
    column = getattr(data, partition.by)
    if column is None:
        raise ValueError(f"the partition deals rows by {partition.by}, but the data have none")
    rows = np.arange(len(column)) if rows is None else rows
    if workers > len(rows):
        raise ValueError(f"needs at least one row per worker, got {len(rows)} rows for {workers} workers")
    return [rows[part] for part in partition.deal(column[rows], workers, rng)]


def deal_and_split(
    partition: Partition, data: Dataset, workers: int, test_share: float, rng: Rng
) -> tuple[Parts, Parts]:
    """The training rows and the test rows of each worker."""
    if partition.splits_first:
        [train], [test] = split([np.arange(len(data.y))], test_share, rng)
        return deal(partition, data, workers, rng, train), deal(partition, data, workers, rng, test)
    parts = deal(partition, data, workers, rng)
    if partition.shares:
        raise ValueError("a partition that deals a row to several workers needs a test set of its own")
    return split(parts, test_share, rng)


def split(parts: Parts, test_share: float, rng: Rng) -> tuple[Parts, Parts]:
    """Splits each worker's rows at random into training rows and `test_share` of test rows, neither empty."""
    train, test = [], []
    for k, part in enumerate(parts):
        if len(part) < 2:
            raise ValueError(f"worker {k} needs a row to train on and one to test on, got {len(part)} rows")
        cut = min(max(1, round(test_share * len(part))), len(part) - 1)
        order = rng.permutation(part)
        test.append(order[:cut])
        train.append(order[cut:])
    return train, test
