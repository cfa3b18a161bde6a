"""Who holds which rows: what each partition promises, on labels of any kind."""

import hashlib

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from data_loaders import Dataset, spambase
from data_loaders.partition import (
    PARTITIONS,
    by_subject,
    deal,
    deal_and_split,
    draw_pairs,
    iid,
    label_pairs,
    label_shards,
    nonuniform,
    shards,
    split,
    two_labels,
)

seeds = st.integers(0, 2**32 - 1)
workers = st.integers(1, 12)
few = st.integers(1, 12)


def generator(seed):
    return np.random.default_rng(seed)


@st.composite
def labels(draw, least=0, most=40, classes=few):
    """Rows of 1 to 12 classes in any order, `least` to `most` of each; the labels need not be 0, 1, ..."""
    counts = draw(classes.flatmap(lambda k: st.lists(st.integers(max(least, 1), most), min_size=k, max_size=k)))
    step = draw(st.integers(1, 3))
    return generator(draw(seeds)).permutation(np.repeat(step * np.arange(len(counts)), counts))


def assert_disjoint_and_complete(parts, rows):
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(rows))


def same(a, b):
    return len(a) == len(b) and all(np.array_equal(p, q) for p, q in zip(a, b, strict=True))


@given(labels(), workers, seeds)
def test_iid_deals_equal_parts(y, n, seed):
    assume(len(y) >= n)
    parts = iid(y, n, generator(seed))
    assert_disjoint_and_complete(parts, len(y))
    assert len(parts) == n
    assert np.ptp([len(part) for part in parts]) <= 1


@given(st.data(), workers, seeds, st.integers(0, 5), st.floats(0.05, 20))
def test_nonuniform_gives_every_worker_the_minimum_of_each_class(data, n, seed, minimum, alpha):
    y = data.draw(labels(least=n * minimum, most=n * minimum + 40))
    parts = nonuniform(y, n, generator(seed), alpha, minimum)
    assert_disjoint_and_complete(parts, len(y))
    assert len(parts) == n
    for part in parts:
        for label in np.unique(y):
            assert np.sum(y[part] == label) >= minimum


@given(labels(), workers, seeds, st.integers(1, 4))
def test_shards_are_few_runs_of_the_sorted_labels(y, n, seed, per_worker):
    assume(len(y) >= n * per_worker)
    parts = shards(y, n, generator(seed), per_worker)
    assert_disjoint_and_complete(parts, len(y))
    assert np.ptp([len(part) for part in parts]) <= per_worker
    # A cut between shards falls inside at most one class, so the workers' class counts add up to few more.
    held = sum(len(np.unique(y[part])) for part in parts)
    assert held <= n * per_worker + len(np.unique(y)) - 1


@given(st.data(), workers, seeds)
def test_two_labels_gives_exactly_two(data, n, seed):
    y = data.draw(labels(least=2 * n, most=60, classes=st.integers(2, 2 * n)))
    parts = two_labels(y, n, generator(seed))
    assert_disjoint_and_complete(parts, len(y))
    assert len(parts) == n
    assert [len(np.unique(y[part])) for part in parts] == [2] * n
    for label in np.unique(y):
        pieces = [size for part in parts if (size := np.sum(y[part] == label))]
        assert np.ptp(pieces) <= 1  # a label's rows are shared equally by those that hold it


@given(labels(), workers, seeds)
def test_two_labels_on_any_data_keeps_its_promise_or_refuses(y, n, seed):
    try:
        parts = two_labels(y, n, generator(seed))
    except ValueError as error:
        counts = np.unique(y, return_counts=True)[1]
        possible = 2 <= len(counts) <= 2 * n <= np.minimum(counts, n).sum()
        assert not possible, error  # noqa: PT017
    else:
        assert_disjoint_and_complete(parts, len(y))
        assert [len(np.unique(y[part])) for part in parts] == [2] * n


MNIST_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


@pytest.mark.parametrize("seed", range(5))
def test_two_labels_on_mnist_is_near_the_papers_20_shards_of_300(seed):
    y = generator(9).permutation(np.repeat(np.arange(10), MNIST_COUNTS))
    parts = two_labels(y, 10, generator(seed))
    table = np.array([np.bincount(y[part], minlength=10) for part in parts])
    assert ((table > 0).sum(axis=0) == 2).all()  # each label at two workers
    assert table[table > 0].min() >= 5421 // 2
    assert table.max() <= 6742 / 2
    assert np.abs(table.sum(axis=1) - 6000).max() < 600


def test_two_labels_draws_the_pairs():
    """Twenty deals show most of the 45 pairs, and hardly ever the same five pairs twice."""
    y = np.repeat(np.arange(10), 40)
    deals = [[tuple(np.unique(y[part])) for part in two_labels(y, 10, generator(s))] for s in range(20)]
    assert len({pair for deal in deals for pair in deal}) > 35
    assert np.mean([len(set(deal)) for deal in deals]) > 8


def test_two_labels_gives_a_frequent_label_to_more_workers():
    y = np.repeat([0, 1, 2], [900, 100, 100])
    parts = two_labels(y, 6, generator(0))
    assert [sum(label in y[part] for part in parts) for label in (0, 1, 2)] == [6, 3, 3]


@pytest.mark.parametrize(
    ("counts", "n", "message"),
    [
        ([50] * 10, 4, "needs 2 to 8 labels for 4 workers, got 10"),
        ([50], 4, "needs 2 to 8 labels for 4 workers, got 1"),
        ([1, 100], 3, r"needs more rows for 3 workers, got \[1, 100\] per label"),
    ],
)
def test_two_labels_refuses_what_it_cannot_do(counts, n, message):
    with pytest.raises(ValueError, match=f"^two-labels {message}$"):
        two_labels(np.repeat(np.arange(len(counts)), counts), n, generator(0))


@given(labels(classes=st.just(10)), seeds)
def test_label_pairs_are_those_of_the_released_code(y, seed):
    y = y // max(1, np.unique(y)[1])  # labels 0 to 9
    parts = label_pairs(y, 10, generator(seed))
    pairs = ["01", "23", "45", "67", "89", "02", "46", "80", "24", "68"]
    for part, pair in zip(parts, pairs, strict=True):
        assert sorted(part) == [row for row, label in enumerate(y) if str(label) in pair]


@pytest.mark.parametrize(("classes", "n"), [(10, 9), (10, 11), (9, 10), (11, 10)])
def test_label_pairs_needs_ten_of_both(classes, n):
    with pytest.raises(ValueError, match=f"^label-pairs needs 10 workers and the labels 0 to 9, got {n} and"):
        label_pairs(np.arange(50) % classes, n, generator(0))


def hand(i, left):
    """The released code's draw for worker i, of the shards that are left."""
    return sorted(np.random.RandomState(i).choice(left, 2, replace=False))


def test_label_shards_are_dealt_as_the_released_code_deals_them():
    left = list(range(20))
    parts = label_shards(np.repeat(np.arange(20), 3), 10, generator(0))
    for i, part in enumerate(parts):
        shards_of_i = hand(i, left)
        assert part.tolist() == [3 * shard + j for shard in shards_of_i for j in range(3)]
        left = [shard for shard in left if shard not in shards_of_i]


class TheirShuffle:
    """The order of all rows with seed 0 of pandas' `sample`; the released code tests on the last 920."""

    def permutation(self, rows):
        return np.roll(np.random.RandomState(0).permutation(len(rows)), 920)


def test_in_the_released_split_worker_7_trains_on_one_class_and_is_tested_on_both():
    data = spambase.load(None)
    train, test = deal_and_split(PARTITIONS["label-shards"], data, 10, 0.2, TheirShuffle())
    assert [len(part) for part in train] == [368] * 10
    assert [len(part) for part in test] == [92] * 10
    assert len(np.unique(np.concatenate([*train, *test]))) == 4600  # of 4601
    assert (data.y[train[7]].sum(), data.y[test[7]].sum()) == (368, 62)


@pytest.mark.parametrize(("rows", "n"), [(100, 9), (100, 11), (19, 10)])
def test_label_shards_needs_ten_workers_and_twenty_rows(rows, n):
    with pytest.raises(ValueError, match=f"^label-shards needs 10 workers and 20 rows, got {n} and {rows}$"):
        label_shards(np.zeros(rows, int), n, generator(0))


@given(labels(), seeds)
def test_by_subject_gives_each_worker_one_person(subject, seed):
    people = np.unique(subject)
    parts = by_subject(subject, len(people), generator(seed))
    assert_disjoint_and_complete(parts, len(subject))
    assert [set(subject[part]) for part in parts] == [{person} for person in people]


@pytest.mark.parametrize("n", [2, 4])
def test_by_subject_needs_a_worker_per_person(n):
    with pytest.raises(
        ValueError, match=f"^by-subject needs one worker per person, got {n} workers for 3 people$"
    ):
        by_subject(np.array([4, 8, 4, 9]), n, generator(0))


@pytest.mark.parametrize("name", PARTITIONS)
@given(seed=seeds)
def test_same_seed_same_parts_and_the_labels_are_left_alone(name, seed):
    y = np.arange(2400) % 10
    y.flags.writeable = False
    assert same(PARTITIONS[name].deal(y, 10, generator(seed)), PARTITIONS[name].deal(y, 10, generator(seed)))


@pytest.mark.parametrize("name", PARTITIONS)
def test_another_seed_other_parts_where_something_is_drawn(name):
    y = np.arange(2400) % 10
    a, b = (PARTITIONS[name].deal(y, 10, generator(seed)) for seed in (0, 1))
    assert same(a, b) == (name in ("label-pairs", "label-shards", "by-subject"))


@pytest.mark.parametrize("name", PARTITIONS)
def test_the_table_says_where_workers_share_rows(name):
    parts = PARTITIONS[name].deal(np.arange(2400) % 10, 10, generator(0))
    assert PARTITIONS[name].shares == (sum(map(len, parts)) > 2400)


DIGESTS = {  # of the deal of 2400 rows of ten labels to ten workers, seed 0
    "nonuniform": "ca295b7bdbf5d392",
    "iid": "c1f509a22cc1427e",
    "shards": "77f54c862cfc30dd",
    "two-labels": "1ad206649c350341",
    "label-pairs": "db81f1b5997e7d8c",
    "label-shards": "825092ca22edf2dc",
    "by-subject": "fb02038621b1282c",
}


@pytest.mark.parametrize("name", PARTITIONS)
def test_published_partitions_keep_their_rows(name):
    """Anything else would change every published result."""
    parts = PARTITIONS[name].deal(np.arange(2400) % 10, 10, generator(0))
    numbers = np.concatenate([[len(part), *part] for part in parts]).astype("<i8")
    assert hashlib.sha256(numbers.tobytes()).hexdigest()[:16] == DIGESTS[name]


@pytest.mark.parametrize("name", ["shards", "two-labels"])
def test_another_seed_gives_the_first_worker_other_labels(name):
    y = np.arange(2400) % 10
    found = {tuple(np.unique(y[PARTITIONS[name].deal(y, 10, generator(seed))[0]])) for seed in range(20)}
    assert len(found) > 10


@pytest.mark.parametrize("name", ["nonuniform", "iid", "shards", "two-labels"])
def test_a_workers_rows_are_in_random_order(name):
    """Also those of one label, within a shard or a piece: half of the steps go up, not all of them."""
    y = np.arange(2400) % 10
    for part in PARTITIONS[name].deal(y, 10, generator(0)):
        for label in np.unique(y[part]):
            rows = part[y[part] == label]
            if len(rows) >= 20:
                assert 0.2 < (np.diff(rows) > 0).mean() < 0.8


def test_labels_are_drawn_in_proportion_to_the_places_left():
    """The first of six workers: label 0 has 4 of 12 places, the others 2 each.

    It is drawn first with probability 4/12, or second after one of the four others, 4 * 2/12 * 4/10: in all
    0.6. Without regard to places it would be 2/5.
    """
    holders = np.array([4, 2, 2, 2, 2])
    drawn = [0 in draw_pairs(holders, 6, generator(seed))[0] for seed in range(1000)]
    assert np.mean(drawn) == pytest.approx(0.6, abs=0.05)


def test_deal_hands_over_labels_or_persons():
    data = Dataset(np.zeros((6, 1)), np.array([0, 0, 0, 1, 1, 1]), np.array([5, 3, 5, 3, 4, 4]))
    by_person, by_label = PARTITIONS["by-subject"], PARTITIONS["two-labels"]
    assert [part.tolist() for part in deal(by_person, data, 3, generator(0))] == [[1, 3], [4, 5], [0, 2]]
    assert [len(np.unique(data.y[part])) for part in deal(by_label, data, 3, generator(0))] == [2, 2, 2]


def test_deal_by_subject_needs_persons():
    with pytest.raises(ValueError, match=r"^the partition deals rows by subject, but the data have none$"):
        deal(PARTITIONS["by-subject"], Dataset(np.zeros((4, 1)), np.arange(4)), 2, generator(0))


@given(st.lists(st.integers(2, 50), min_size=1, max_size=6), st.floats(0, 1), seeds)
def test_split_keeps_each_workers_rows_and_the_share(sizes, share, seed):
    parts = np.split(generator(seed).permutation(sum(sizes)), np.cumsum(sizes)[:-1])
    train, test = split(parts, share, generator(seed))
    for part, a, b in zip(parts, train, test, strict=True):
        assert sorted([*a, *b]) == sorted(part)
        assert min(len(a), len(b)) >= 1
        assert abs(len(b) - share * len(part)) <= 1
    assert same(test, split(parts, share, generator(seed))[1])


def test_split_is_drawn():
    parts = [np.arange(100)]
    assert not same(split(parts, 0.2, generator(0))[1], split(parts, 0.2, generator(1))[1])


def test_split_needs_two_rows():
    with pytest.raises(ValueError, match=r"^worker 1 needs a row to train on and one to test on, got 1 rows$"):
        split([np.arange(2), np.array([2])], 0.5, generator(0))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (iid, "iid needs at least one row per worker, got 3 rows for 4 workers"),
        (shards, "shards needs at least one row per shard, got 3 rows for 8 shards"),
        (nonuniform, "nonuniform needs 20 rows of each class per worker, got 2 of class 0 for 4 workers"),
    ],
)
def test_too_few_rows(function, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        function(np.array([0, 1, 0]), 4, generator(0))
