"""The bytes that the systems of refimpl.related send: by hand, and those of what is sent."""

import numpy as np
import pytest
from problems import cast, setting
from related_problems import DENSE, graph_for, run

from refimpl.related import SYSTEMS


def test_bytes_by_hand():
    """26 parameters of 8 bytes; 7 workers with 40 edges' ends in all."""
    s = setting(graph=DENSE)
    ends = int(DENSE.sum()) - 7
    cost = {name: system.bytes(s, 5) * 7 / ends for name, system in SYSTEMS.items()}
    assert cost["d-psgd"] == pytest.approx(26 * 8)
    assert cost["dmsgd"] == pytest.approx(2 * 26 * 8)
    assert cost["sgp"] == pytest.approx(27 * 8)
    assert cost["choco"] == pytest.approx(8 + 4)
    assert cost["icwtm"] == pytest.approx(5 * 26 * 8)  # gradients, three more times, models
    assert SYSTEMS["fedavg"].bytes(s, 1) == 26 * 8
    assert SYSTEMS["d-psgd"].bytes(cast(s, "float32"), 1) * 7 / ends == pytest.approx(26 * 4)


@pytest.mark.parametrize("name", SYSTEMS)
def test_bytes_are_those_of_what_is_sent(name):
    s = setting(graph=graph_for(name), attackers=[])
    sent = run(name, 3, s).sent
    count = sum(np.count_nonzero(m) / 7 if name == "choco" else m.shape[-1] for m in sent)
    neighbours = 1 if name == "fedavg" else (s.graph.sum() - 7) / 7
    assert SYSTEMS[name].bytes(s, 3) == pytest.approx(count * neighbours * (12 if name == "choco" else 8))
