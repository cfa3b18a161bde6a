"""studies/faults.py: the runs that are kept, and the table of them that the page shows."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
import faults as study
from some_results import result


def test_the_file_has_every_run_with_as_many_seeds_of_each():
    kept = study.read(study.CSV)
    kinds = {study.config(r, a, 0, p) for r in study.RULES for a in study.ATTACKS for p in study.LOSSES}
    assert {replace(run.config, seed=0) for run in kept} == kinds
    assert len(kept) == len(kinds) * len({run.config.seed for run in kept})


def test_the_page_has_the_table():
    page = study.CSV.with_suffix(".md").read_text(encoding="utf-8")
    for line in study.table(study.read(study.CSV)).splitlines():
        assert f"    {line}".rstrip() in page


def test_a_share_of_rounds_is_that_of_the_normal_workers():
    run = result("krum", "alie", 0, 0.5)
    run = replace(run, config=study.config("krum", "alie", 0, 0.5))
    rounds = 7 * run.config.epochs * run.rounds_per_epoch
    run.history["too_few"] = [0, rounds / 4]
    assert study.kept([run], "krum", "alie", 0.5) == pytest.approx(0.25)
