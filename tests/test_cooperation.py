"""studies/cooperation.py: the data that workers have, the runs, and the table of what is kept."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
import cooperation
from some_results import result

import refimpl
from data_loaders import spambase
from refimpl import draws
from refimpl.experiments.results import as_json, from_json


@pytest.mark.parametrize("skew", cooperation.VARIED["skew"])
def test_workers_have_the_rows_and_the_labels_that_are_asked_for(skew):
    data = spambase.load(None)
    X, y, test = cooperation.local_data(data, 100, skew, draws.stream(0, "partition"))
    assert [own.shape for own in X] == [(100, 57)] * 8
    share = cooperation.shares(skew)
    np.testing.assert_allclose([own.mean() for own in y], share, atol=0.005)
    tested = [test.y[own].mean() for own in test.own]
    np.testing.assert_allclose(tested, share, atol=0.02)
    assert share.mean() == pytest.approx(0.4 + 0.1 * skew)


@pytest.mark.parametrize("seed", range(10))
def test_there_are_rows_enough(seed):
    rows = int(max(cooperation.VARIED["rows"]))
    X, _, _ = cooperation.local_data(spambase.load(None), rows, 0.5, draws.stream(seed, "partition"))
    assert [len(own) for own in X] == [rows] * 8


def test_no_row_is_dealt_twice():
    data = spambase.load(None)
    different = len(np.unique(data.X, axis=0)) / len(data.X)
    X, _, _ = cooperation.local_data(data, 300, 0.5, draws.stream(0, "partition"))
    rows = np.concatenate(X)
    assert len(np.unique(rows, axis=0)) > (different - 0.02) * len(rows)  # the data repeat some themselves


def test_a_kept_number_has_the_version_that_computed_it(monkeypatch):
    """The file has every kind of run, with as many seeds of each."""
    kept = cooperation.read(cooperation.CSV)
    kinds = {cooperation.config(rule, 0, **at) for *_, at in cooperation.points() for rule in cooperation.RULES}
    assert {replace(run.config, seed=0) for run in kept} == kinds
    assert len(kept) % len(kinds) == 0
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", run.versions["refimpl"]) for run in kept)


def test_a_run_is_a_result_like_others(monkeypatch):
    monkeypatch.setattr(cooperation, "ROUNDS", 2)
    run = cooperation.run("local", 0, rows=20, skew=0.5, attackers=2)
    assert run.config == cooperation.config("local", 0, rows=20, skew=0.5, attackers=2)
    assert (run.config.partition, run.config.epochs, run.evaluated) == ("20 rows skew 0.5", 2, [2])
    assert (run.versions["refimpl"], len(run.attackers), run.bytes_per_round) == (refimpl.__version__, 2, 0)
    assert 0 < run.last("worst_own") <= run.last("mean_own") < 1
    assert from_json(json.loads(as_json(run))) == run


def test_the_kept_numbers_make_the_table():
    def run(rule, seed, at):
        history = {"mean_own": [0.9 + 0.01 * seed + 0.05 * (rule == "adaptive")], "mean_whole": [0.5]}
        found = result(rule, "sign-flip", seed, 0.5)
        return replace(found, config=cooperation.config(rule, seed, **at), history=history)

    different = {tuple(at.values()): at for *_, at in cooperation.points()}.values()
    runs = [run(rule, seed, at) for at in different for rule in cooperation.RULES for seed in (0, 1)]
    head, _, first, *_ = cooperation.table(runs).split("\n")
    assert " ".join(first.split()) == "rows 20 0.96 0.50 0.91 0.50 0.91 0.50 +0.050 ±0.000"
    assert len(first) <= 80
    assert len(head) <= 80
