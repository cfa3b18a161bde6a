import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from refimpl import draws, models


def test_streams_are_the_children_of_the_seed():
    children = np.random.SeedSequence(7).spawn(len(draws.STREAMS))
    for purpose, child in zip(draws.STREAMS, children):
        expected = np.random.Generator(np.random.PCG64(child)).random(3)
        assert_array_equal(draws.stream(7, purpose).random(3), expected)


def test_a_stream_that_nobody_named_is_an_error():
    with pytest.raises(ValueError, match="not in tuple"):
        draws.stream(0, "weather")


@pytest.mark.parametrize("seed", [None, -1, 0.5, "1"])
def test_a_seed_is_a_whole_number(seed):
    """None would give other numbers every time."""
    with pytest.raises(ValueError, match=f"needs a whole number as seed, 0 or more, got {seed!r}"):
        draws.stream(seed, "init")
    draws.stream(np.int64(3), "init")


def test_published_streams_keep_their_numbers():
    """A new purpose is appended; anything else would change every published result."""
    assert draws.STREAMS[:6] == ("partition", "init", "batches", "attackers", "attack", "graph")


def test_initial_parameters_differ_by_worker_and_fill_the_fan_in_range():
    model = models.mlp([64, 9, 4])
    W = draws.initial(model.layout, 50, draws.stream(0, "init"))
    assert W.shape == (50, model.layout.size)
    assert len(np.unique(W)) == W.size
    for name, bound in {"W1": 1 / 8, "b1": 1 / 8, "W2": 1 / 3, "b2": 1 / 3}.items():
        values = np.stack([model.layout.views(w)[name] for w in W])
        assert np.abs(values).max() <= bound
        assert np.abs(values).max() > 0.9 * bound
        assert values.min() < 0 < values.max()


@pytest.mark.parametrize(
    ("sizes", "batch", "rounds"), [([40], 20, 2), ([41], 20, 3), ([10, 90], 20, 3), ([3], 20, 1)]
)
def test_an_epoch_reads_as_many_rows_as_all_workers_hold(sizes, batch, rounds):
    assert draws.rounds_per_epoch(sizes, batch) == rounds


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=5),
    st.integers(1, 8),
    st.integers(1, 9),
    st.integers(0, 99),
)
def test_batches_are_passes_over_the_rows(sizes, batch_size, rounds, seed):
    rows = draws.batches(sizes, batch_size, rounds, draws.stream(seed, "batches"))
    assert rows.shape == (rounds, len(sizes), batch_size)
    for k, n in enumerate(sizes):
        read = rows[:, k].ravel()
        for start in range(0, len(read), n):  # each pass reads no row twice
            once = read[start : start + n]
            assert len(set(once)) == len(once)
            assert set(once) <= set(range(n))


def test_a_batch_that_spans_two_orders_may_hold_a_row_twice():
    """Three rows, batches of two: the second batch ends the first order and begins the next, in about a third
    of the draws with the row that it has just read. All batches are full."""
    rows = np.array([draws.batches([3], 2, 3, draws.stream(seed, "batches"))[:, 0] for seed in range(300)])
    assert rows.shape == (300, 3, 2)
    twice = rows[..., 0] == rows[..., 1]
    assert not twice[:, [0, 2]].any()  # within an order
    assert 0.25 < twice[:, 1].mean() < 0.42


def test_an_epoch_leaves_rows_unread_and_the_next_starts_with_a_fresh_order():
    """Nothing carries over: of ten rows an epoch reads six, and the other four are not next."""
    rng = draws.stream(0, "batches")
    epochs = [draws.batches([10], 2, 3, rng).ravel() for _ in range(300)]
    assert {len(set(rows)) for rows in epochs} == {6}
    again = np.mean([len(set(a) & set(b)) for a, b in itertools.pairwise(epochs)])
    assert again == pytest.approx(3.6, abs=0.2)  # 6 of 10, drawn anew; 2 if the rest came first


def test_a_larger_count_keeps_the_attackers_and_adds_others():
    three, five = (draws.attackers(10, f, draws.stream(3, "attackers")) for f in (3, 5))
    assert (len(three), len(five)) == (3, 5)
    assert set(three) < set(five)
    assert_array_equal(five, np.unique(five))


def test_signals_fill_the_papers_range():
    signals = draws.signals(3, 1000, draws.stream(0, "attack"))
    assert signals.shape == (3, 1000)
    assert -0.5 < signals.min() < -0.49
    assert 0.49 < signals.max() < 0.5
