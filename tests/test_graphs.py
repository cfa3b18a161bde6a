import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from refimpl import graphs


def neighbours(A):
    return [set(np.flatnonzero(row)) for row in A]


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    "A",
    [graphs.complete(5), graphs.ring(5), graphs.erdos_renyi(9, 0.4, rng()), graphs.random_regular(8, 3, rng())],
)
def test_graphs_are_symmetric_and_a_worker_is_its_own_neighbour(A):
    assert A.dtype == bool
    assert_array_equal(A, A.T)
    assert A.diagonal().all()


def test_complete_and_ring():
    assert graphs.complete(4).all()
    assert neighbours(graphs.ring(4)) == [{3, 0, 1}, {0, 1, 2}, {1, 2, 3}, {2, 3, 0}]
    assert neighbours(graphs.ring(2)) == [{0, 1}, {0, 1}]


@given(st.integers(1, 20), st.data())
def test_random_regular_graphs_are_regular(n, data):
    degree = data.draw(st.integers(0, n - 1).filter(lambda k: n * k % 2 == 0))
    A = graphs.random_regular(n, degree, rng(data.draw(st.integers(0, 999))))
    assert_array_equal(A.sum(axis=0), degree + 1)
    assert_array_equal(A, A.T)
    assert A.diagonal().all()


def test_random_graphs_come_from_the_generator():
    for make in (lambda r: graphs.random_regular(12, 3, r), lambda r: graphs.erdos_renyi(12, 0.5, r)):
        assert_array_equal(make(rng(1)), make(rng(1)))
        assert (make(rng(1)) != make(rng(2))).any()


def test_erdos_renyi_has_about_its_share_of_edges():
    n, p = 200, 0.3
    edges = (graphs.erdos_renyi(n, p, rng()).sum() - n) / 2
    pairs = n * (n - 1) / 2
    assert abs(edges - p * pairs) < 5 * np.sqrt(pairs * p * (1 - p))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: graphs.random_regular(5, 3, rng()), "n [*] degree even, got n=5, degree=3"),
        (lambda: graphs.random_regular(4, 4, rng()), "degree < n .* got n=4, degree=4"),
        (lambda: graphs.erdos_renyi(4, 1.5, rng()), "0 <= p <= 1, got p=1.5"),
        (lambda: graphs.from_edges(10, [(0, 12)]), "names worker 12, but the 10 workers are 0 to 9"),
        (lambda: graphs.from_edges(10, [(-1, 2)]), "names worker -1"),
    ],
)
def test_impossible_graphs_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_edges_come_from_a_file(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("# a path\n0 1\n\n1 2  # the end\n", encoding="utf-8")
    assert neighbours(graphs.from_edges(3, graphs.read_edges(path))) == [{0, 1}, {0, 1, 2}, {1, 2}]


@pytest.mark.parametrize("line", ["0", "0 1 2", "0 one"])
def test_a_bad_line_is_named(tmp_path, line):
    path = tmp_path / "edges.txt"
    path.write_text(f"0 1\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 2: needs two worker numbers"):
        graphs.read_edges(path)


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "edges.txt").write_bytes(b"0 1\n\xff\n")
    with pytest.raises(ValueError, match=r"edges\.txt: needs text, one edge per line: .* byte 0xff"):
        graphs.read_edges(tmp_path / "edges.txt")


def test_a_worker_out_of_reach_is_named():
    graphs.require_connected(graphs.ring(5))
    with pytest.raises(ValueError, match="from worker 0 to worker 2"):
        graphs.require_connected(graphs.from_edges(4, [(0, 1), (2, 3)]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("complete", graphs.complete(10)),
        ("ring", graphs.ring(10)),
        ("regular", graphs.random_regular(10, 4, rng())),
        ("regular:6", graphs.random_regular(10, 6, rng())),
        ("erdos-renyi", graphs.erdos_renyi(10, 0.5, rng())),
        ("erdos-renyi:0.8", graphs.erdos_renyi(10, 0.8, rng())),
        ("erdos-renyi:0", np.eye(10, dtype=bool)),
        ("erdos-renyi:8e-1", graphs.erdos_renyi(10, 0.8, rng())),
    ],
)
def test_graphs_by_name(name, expected):
    assert_array_equal(graphs.build(name, 10, rng()), expected)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "cube",
            "unknown graph 'cube': needs complete, ring, regular:DEGREE, erdos-renyi:P or a file of edges",
        ),
        ("ring:3", "unknown graph 'ring:3'"),
        ("regular:x", "graph regular:DEGREE needs a number, got 'x'"),
        ("regular:", "graph regular:DEGREE needs a number, got ''"),
        ("regular:2.5", "needs a whole 0 <= degree < n .* degree=2.5"),
        ("regular:nan", "needs a whole 0 <= degree < n .* degree=nan"),
        ("erdos-renyi:-1", "0 <= p <= 1, got p=-1"),
    ],
)
def test_a_graph_that_cannot_be_is_refused(name, message):
    with pytest.raises(ValueError, match=message):
        graphs.build(name, 10, rng())
