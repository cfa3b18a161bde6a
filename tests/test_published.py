"""benchmarks/published.py, on a small problem."""

import csv
import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from refimpl.related import rules


@pytest.fixture
def published(monkeypatch):
    """The script, on pictures of ten pixels, of which the bright one is the label."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    module, rng = importlib.import_module("published"), np.random.default_rng(0)
    y = rng.integers(0, 10, 1200)
    X = (rng.random((1200, 10)) / 4 + np.eye(10)[y]).astype("float32")
    data = module.Data(X[:1000], y[:1000], X[1000:], y[1000:])
    monkeypatch.setattr(module, "load", lambda data_dir, symmetric: data)
    return module


@pytest.mark.parametrize("partition", ["iid", "label-separated"])
def test_published_tables_are_computed(published, partition, capsys, tmp_path, monkeypatch):
    command = ["--rounds", "2", "--partition", partition, "--out", str(tmp_path)]
    assert published.main(command) == 0
    said = capsys.readouterr().out.splitlines()
    cells = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    assert max(map(len, said)) <= 80
    assert len(cells) == len(said) - 3 * 2 == (1 + 8 * 6) + 3 + 4 * 2
    assert all(0 <= cell["ours"] <= 100 for cell in cells)
    first = next(cell for cell in cells if (cell["row"], cell["column"]) == ("IOS", "alie"))
    assert first["theirs"] == {"iid": 91.68, "label-separated": 86.61}[partition]
    assert (first["rounds"], first["of"]) == (2, 50_000)
    monkeypatch.setattr(published, "ios_cell", None)  # is not called again
    assert published.main([*command, "ios"]) == 0
    again = capsys.readouterr().out.splitlines()
    assert again == said[: len(again)]


def test_what_is_kept_can_be_shown_alone(published, capsys, tmp_path):
    some = ["ios", "--rounds", "1", "--out", str(tmp_path / "out"), "--rows", "IOS", "SCC", "--columns", "sign"]
    assert published.main(some) == 0
    said = capsys.readouterr().out
    table = tmp_path / "published.csv"
    assert published.main([*some[:5], "--kept", "--csv", str(table)]) == 0
    assert capsys.readouterr().out == said
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [(row["row"], row["theirs"], row["of"]) for row in rows] == [
        ("SCC", "32.56", "50000"),
        ("IOS", "91.66", "50000"),
    ]
    assert published.main([str(table)]) == 0
    assert capsys.readouterr().out == said
    assert published.main(["peng", "--out", str(tmp_path / "out"), "--kept"]) == 0
    assert "no numbers: without --kept they are computed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("--kept", "--kept needs --out"),
        ("iso", "unknown table 'iso', choose from ios, peng, wu"),
        ("ios --rows mean", "ios has no 'mean', choose from no communication, MH mean, median"),
        ("peng wu --columns alie", "peng, wu has no 'alie', choose from none, none, gaussian"),
        ("ios --rounds 0", "needs a whole number, 1 or more, got 0"),
        ("peng --partition label-separated", "--partition label-separated is for ios, got peng"),
    ],
)
def test_a_wrong_command_is_one_line(published, capsys, command, message):
    with pytest.raises(SystemExit) as caught:
        published.main(command.split())
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("steps", [0, 1, 5, 80])
@pytest.mark.parametrize("bad", [7.0, 1e3, np.nan])
def test_the_geometric_median_by_products_is_the_plain_one(published, steps, bad):
    W = np.random.default_rng(steps).normal(size=(7, 5)) + 100
    W[2] = bad
    plain = rules.geometric_median(W, steps)
    assert_allclose(published.geometric_median(W, steps), plain, rtol=1e-9)
    assert_allclose(published.geometric_median(W.astype("float32"), steps), plain, rtol=1e-5)


def test_published_rules_learn_and_isolation_isolates(published):
    """A mean against isolation is as good as no communication, and IOS drops the isolators."""
    data = published.load(None, True)
    cell = {
        (rule, attack): np.mean(published.ios_cell(data, rule, attack, "label-separated", 300, 0))
        for rule, attack in (("IOS", "isolation"), ("MH mean", "isolation"), ("no communication", "none"))
    }
    assert cell["IOS", "isolation"] > 60
    assert cell["MH mean", "isolation"] < 40
    assert cell["no communication", "none"] < 40


def test_the_isolators_make_the_mean_ones_own_model(published):
    places = published.ios_places("isolation")
    sent = np.random.default_rng(0).normal(size=(12, 4)).astype("float32")
    for k, place in places.items():
        h = place.heard(sent, "isolation", np.random.default_rng(0))
        if h.f:
            assert_allclose(h.weights @ h.models, sent[k], rtol=1e-4, atol=1e-5)


def test_of_two_values_in_the_middle_the_lower_one_is_ioss_median(published):
    assert_allclose(published.lower_median(np.array([[4.0, 1], [1, 1], [3, 9], [2, 5]])), [2, 1])


def test_ios_reports_the_mean_of_its_last_ten_records(published, monkeypatch):
    said = iter([0.0, 100.0])  # at rounds 1 and 501
    monkeypatch.setattr(published, "accuracy", lambda *_: next(said))
    data = published.load(None, True)
    assert published.ios_cell(data, "no communication", "none", "iid", 501, 0) == [0, 100]
    monkeypatch.setattr(published, "accuracy", lambda *_: 1.0)
    assert published.ios_cell(data, "no communication", "none", "iid", 5200, 0) == [1] * 10
    cell = published.Cell("IOS", "none", 1.0, lambda rounds: [1.0, 3.0, 5.0])
    made = published.computed({"rounds": 9}, cell, None)
    assert (made["ours"], made["error"]) == (3, pytest.approx(2 / 3**0.5))
