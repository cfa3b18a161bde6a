"""studies/attacks.py: what is run, and what the page says; docs/results/attacks.md must be what it writes."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
import attacks
from blocks import read_block
from some_results import result

from refimpl.attacks import ATTACKS
from refimpl.experiments.results import as_csv


def run(rule, attack, seed, worst, F, risk="local", **numbers):
    found = result(rule, attack, seed, worst, attackers=F, risk=risk)
    return replace(found, history=found.history | {name: [0, value] for name, value in numbers.items()})


RUNS = [
    run("local", "sign-flip", 0, 0.80, 3),
    run("local", "sign-flip", 1, 0.90, 3),
    run("local", "sign-flip", 0, 0.80, 7),
    run("adaptive", "none", 0, 0.82, 3),
    run("adaptive", "echo", 0, 0.79, 3, passing=3.04, attacker_weight=0.75),
    run("adaptive", "permuted", 0, 0.50, 3),
    run("adaptive", "permuted", 1, 0.70, 3),
    run("adaptive", "permuted", 0, 0.60, 7),
    run("adaptive", "echo", 0, 0.60, 3, "batch"),
    run("median", "echo", 0, 0.55, 3),
]


def test_the_verdict_pairs_the_seeds_and_names_the_deepest_fall():
    ours, batch, table = attacks.verdict(RUNS).split("\n\n")
    assert (
        "of 2 attacks 1 take worst *own* more than 0.05 below `local` (0 surely), 1 take worst *whole*" in ours
    )
    assert "of 1 attack 1 take" in batch
    assert table.splitlines()[2:] == [
        "| `echo` | - | - | 0.20 (F = 3, 1 seed) | 0.20 (F = 3, 1 seed) |",
        "| `permuted` | 0.25 ± 0.64 (F = 3, 2 seeds) | 0.25 ± 0.64 (F = 3, 2 seeds) | - | - |",
    ]


def test_the_verdict_names_a_fall_that_is_sure_before_a_deeper_one():
    more = [run("local", "sign-flip", 1, 0.80, 7), run("adaptive", "permuted", 1, 0.59, 7)]
    ours, _, table = attacks.verdict([*RUNS, *more]).split("\n\n")
    assert "0.05 below `local` (1 surely)" in ours
    assert table.splitlines()[-1].startswith("| `permuted` | **0.21 ± 0.06** (F = 7, 2 seeds) |")


def test_a_row_has_what_passes_and_the_accuracies_of_all_rules():
    rows = attacks.table(RUNS, 3).splitlines()[2:]
    assert rows[0].startswith(
        "| `echo` | 3.0 | 0.75 | - | - | 0.79 / 0.74 | 0.60 / 0.55 | 0.55 / 0.50 | - | - | 0.85 / 0.80 |"
    )
    assert rows[1].startswith("| `permuted` | - | - | - | - | 0.60 / 0.55 | - |")
    assert attacks.table(RUNS, 0).splitlines()[2].startswith("| `none` |")
    assert "1 to 2 seeds a cell, 10 runs." in attacks.section(RUNS)


def test_a_backdoor_has_its_success():
    fooled = [
        run("adaptive", "capture-backdoor", seed, 0.8, 3, backdoor_success=share)
        for seed, share in ((0, 0.9), (1, 1.0))
    ]
    (line,) = attacks.backdoors([*RUNS, *fooled]).splitlines()[2:]
    assert line == "| `capture-backdoor` | 3 | 0.95 | - | - | - | - | - |"


def test_what_is_kept_is_not_run_again():
    """Nor is a rule that is not defined for so many liars, `local` under every attack, or a second ALIE.

    Nor an attack that is made against a rule of the paper, against another.
    """
    every = attacks.missing("spambase", [])
    keys = {attacks.key_of(c)[1:5] for c in every}
    assert ("krum", "local", "echo", 3) in keys
    assert ("krum", "local", "echo", 5) not in keys
    assert ("median", "batch", "echo", 3) not in keys
    assert ("ios", "local", "echo", 5) in keys
    assert ("ios", "local", "fang-krum", 5) not in keys
    assert {attack for rule, _, attack, _ in keys if rule == "local"} == {"none", "sign-flip", "backdoor"}
    assert {attack for rule, _, attack, _ in keys if rule == "adaptive"} == set(ATTACKS) - {"alie-corrupted"}
    assert len(every) == len(keys) * 5
    kept = [replace(RUNS[0], config=every[7])]
    assert attacks.missing("spambase", kept) == every[:7] + every[8:]


def test_the_page_says_what_the_csv_says():
    """After `collect`, `show` has been run."""
    for name, text in attacks.blocks().items():
        assert read_block(attacks.PAGE, name) == text.strip("\n")


def test_seeds_that_adaptive_was_not_attacked_with_are_left_out(tmp_path):
    more = [*RUNS, run("local", "sign-flip", 2, 0.1, 3), run("adaptive", "none", 2, 0.1, 3)]
    (tmp_path / "runs.csv").write_text(as_csv(more), encoding="utf-8")
    assert {run.config.seed for run in attacks.kept(tmp_path / "runs.csv")} == {0, 1}


def test_the_picture_is_a_picture(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    attacks.draw(RUNS, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
