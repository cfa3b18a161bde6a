"""Graphs that change from round to round."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import graphs
from refimpl.related import schedules


@pytest.mark.parametrize("name", schedules.SCHEDULES)
def test_a_schedule_depends_on_seed_and_round_alone(name):
    graph = graphs.erdos_renyi(9, 0.6, np.random.default_rng(1))
    schedule, again = (schedules.build(name, graph, 5) for _ in range(2))
    later = [again(t) for t in (7, 3, 1)][::-1]
    assert_array_equal([schedule(t) for t in (1, 3, 7)], later)
    for A in later:
        assert A.diagonal().all()
        assert name == "exponential" or not (A & ~graph).any()


@pytest.mark.parametrize("name", ["thinned", "one-way", "matching"])
def test_another_seed_draws_other_graphs_from_the_first_round_on(name):
    one, other = (schedules.build(name, graphs.complete(9), seed) for seed in (5, 6))
    assert not any(np.array_equal(one(t), other(t)) for t in (1, 2, 7))


def test_schedules_are_what_they_say():
    graph = graphs.complete(8)
    thin = np.mean([schedules.build("thinned:0.3", graph, 0)(t) for t in range(1, 200)], axis=0)
    assert_allclose(thin[np.triu_indices(8, 1)].mean(), 0.3, atol=0.02)
    for t in range(1, 20):
        A = schedules.build("thinned:0.3", graph, 0)(t)
        assert_array_equal(A, A.T)
        pairs = schedules.build("matching", graph, 0)(t)
        assert_array_equal(pairs, pairs.T)
        assert (pairs.sum(axis=0) == 2).all()  # everyone with one other, of eight that all know each other
    one_way = schedules.build("one-way", graph, 0)(1)
    assert not np.array_equal(one_way, one_way.T)
    assert schedules.build("every:2", graph, 0)(3).sum() == 8
    assert schedules.build("every:2", graph, 0)(4).all()


def test_exponential_graphs_by_hand():
    one, two = (schedules.build(name, graphs.complete(6), 0) for name in ("exponential", "exponential:2"))
    for t, distance in enumerate([1, 2, 4, 1], start=1):
        assert_array_equal(np.argwhere(one(t) & ~np.eye(6, dtype=bool))[:, 0], [*range(6)])
        assert all(one(t)[(l + distance) % 6, l] for l in range(6))
    assert set(np.flatnonzero(two(1)[:, 0])) == {0, 1, 2}
    assert set(np.flatnonzero(two(2)[:, 0])) == {0, 3}  # 3 and 6, which is 0 itself
    eight = [set(np.flatnonzero(schedules.exponential(8, 1, t)[:, 0])) - {0} for t in (1, 2, 3, 4)]
    assert eight == [{1}, {2}, {4}, {1}]  # never 8, which is 0 itself
    five = [set(np.flatnonzero(schedules.exponential(5, 1, t)[:, 0])) - {0} for t in (1, 2, 3, 4)]
    assert five == [{1}, {2}, {4}, {1}]  # up to n - 1


def test_rounds_come_from_a_file_and_repeat(tmp_path):
    path = tmp_path / "rounds.txt"
    path.write_text(
        "# a path, then nobody, then one way\n0 1\n1 2\n--- \n---\n0 > 1\n2>0  # and on\n", encoding="utf-8"
    )
    schedule = schedules.build(schedules.read_rounds(path), graphs.complete(3), 0)
    one_way = [[1, 0, 1], [1, 1, 0], [0, 0, 1]]  # row k: whom k hears
    for t, expected in enumerate([[[1, 1, 0], [1, 1, 1], [0, 1, 1]], np.eye(3), one_way] * 2, start=1):
        assert_array_equal(schedule(t), np.array(expected, dtype=bool))
        assert not schedule(t).flags.writeable  # whoever changed it would change later rounds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n---\n0 1 2\n", r"rounds.txt, line 3: needs I J, I > J, or --- between rounds, got '0 1 2'"),
        ("0 > 1 2\n", r"line 1: needs I J, I > J, .* got '0 > 1 2'"),
        ("0 > 1 > 2\n", r"line 1: needs I J, I > J, .* got '0 > 1 > 2'"),
        ("\n0 -> 1\n", r"line 2: needs I J, I > J, .* got '0 -> 1'"),
        ("---\n\n", r"rounds.txt: needs an edge in some round, got none in 2"),
        ("0 1\n---\n1 > 3\n", r"edge 1 > 3 of the schedule needs workers 0 to 2"),
        ("-1 > 0\n", r"edge -1 > 0 of the schedule needs workers 0 to 2"),
    ],
)
def test_a_file_of_rounds_that_cannot_be_is_refused(text, message, tmp_path):
    (tmp_path / "rounds.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        schedules.build(schedules.read_rounds(tmp_path / "rounds.txt"), graphs.complete(3), 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("thined:0.1", "unknown schedule 'thined:0.1': needs thinned:P, one-way:P, "),
        ("thinned:2", "thinned:P needs a probability"),
        ("every:1.5", "every:TAU needs a whole number"),
        ("exponential:0", "exponential:PEERS needs a whole number"),
        ("every:x", "schedule every:TAU needs a number, got 'x'"),
    ],
)
def test_a_wrong_name_or_number_is_refused(name, message):
    with pytest.raises(ValueError, match=message):
        schedules.build(name, graphs.complete(7), 0)
