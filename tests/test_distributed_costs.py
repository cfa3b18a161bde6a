"""The costs of docs/engineering/SCALE.md."""

import importlib
from pathlib import Path

import pytest


@pytest.fixture
def costs(monkeypatch):
    """The script as a module, its folder on the path as when it runs."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    return importlib.import_module("distributed_costs")


def test_costs_per_worker_and_edge_are_found_again(costs, monkeypatch):

    def process(numbers, count):
        N, degree, _ = numbers
        return {"ms": [0, 0.02 * N + 0.005 * N * (degree + 1), 9], "MB": 100 + 0.05 * N + 3e-6 * N**2}

    monkeypatch.setattr(costs.scale, "in_its_own_process", process)
    fit = costs.fitted(1)
    assert fit == pytest.approx((0.02, 0.005, 100e6, 50e3, 3))
    lines = costs.one_process(fit, 1).splitlines()[-4:]
    assert [line.split()[0] for line in lines] == ["100", "1000", "5000", "20000"]
    assert all(line.split()[3] == line.split()[6] == "1.00" for line in lines)


def test_a_peer_pays_for_its_step_and_for_each_model(costs):
    p = costs.peer("spambase", turns=1)
    assert (p.d, p.itemsize, p.batch) == (1202, 8, 20)
    assert p.compute(9, 20) == pytest.approx(p.local + 9 * p.model + 180 * p.sample)
    lines = costs.as_peers(p)
    assert len(lines) == 10
    assert "76.9 kB" in lines[1]  # 8 neighbours, 1202 numbers of 8 bytes
    assert "96.2 GB" in lines[9]


def test_the_page_has_a_place_for_every_block(costs):
    page = costs.PAGE.read_text(encoding="utf-8")
    for name in ("wire", "one process", "one peer", "ranks", "on paper"):
        assert page.count(f"<!-- {name} -->\n\n    ") == page.count(f"\n\n<!-- end of {name} -->") == 1
