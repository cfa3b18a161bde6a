"""studies/attacks.py: what is run, and what the page says; docs/results/attacks.md must be what it writes."""

import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

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


def one_line(text):
    return " ".join(text.split())


def test_the_verdict_pairs_the_seeds_and_names_the_deepest_fall():
    assert attacks.verdict(RUNS).splitlines()[2:] == [
        "| `echo` | - | - | 0.20 (F = 3, 1 seed) | 0.20 (F = 3, 1 seed) |",
        "| `permuted` | 0.25 ± 0.64 (F = 3, 2 seeds) | 0.25 ± 0.64 (F = 3, 2 seeds) | - | - |",
    ]
    assert one_line(attacks.summary(RUNS)) == (
        "- Spambase, with the paper's r_k: worst *own* under 1 of 2 attacks, none certain, most under "
        "`permuted` (by 0.25 ± 0.64, 3 liars, 2 seeds); worst *whole* under 1 of 2 attacks, none certain, most "
        "under `permuted` (by 0.25 ± 0.64, 3 liars, 2 seeds). "
        "- Spambase, with the risk on the batch: worst *own* under 1 of 1 attack, none certain, most under "
        "`echo` (by 0.20, 3 liars, 1 seed); worst *whole* under 1 of 1 attack, none certain, most under "
        "`echo` (by 0.20, 3 liars, 1 seed)."
    )


def test_lines_of_text_are_short_and_keep_a_number_with_its_interval():
    lines = attacks.wrapped("word " * 30 + "0.25 ± 0.64 " * 30, "  ").splitlines()
    assert max(map(len, lines)) <= 120 < sum(map(len, lines))
    assert not any(line.startswith("  ±") or line.endswith("±") for line in lines)


def test_the_verdict_names_a_fall_that_is_sure_before_a_deeper_one():
    more = [run("local", "sign-flip", 1, 0.80, 7), run("adaptive", "permuted", 1, 0.59, 7)]
    last = attacks.verdict([*RUNS, *more]).splitlines()[-1]
    assert last.startswith("| `permuted` | **0.21 ± 0.06** (F = 7, 2 seeds) |")
    said = one_line(attacks.summary([*RUNS, *more]))
    assert "1 certain, most under `permuted` (by 0.21 ± 0.06, 7 liars, 2 seeds)" in said


def test_what_is_there_without_an_attack_is_not_put_down_to_one():
    """It has a line of its own, however small it is, and is no attack among those that are counted."""
    behind = [*RUNS, run("local", "none", 0, 0.90, 0)]
    assert attacks.verdict(behind).splitlines()[2] == "| nobody lies | 0.08 (1 seed) | 0.08 (1 seed) | - | - |"
    said = one_line(attacks.summary(behind))
    assert said.count("under 1 of 2 attacks") == said.count("2 seeds), and by 0.08 if nobody lies") == 2
    ahead = [*behind, run("adaptive", "none", 1, 0.96, 0), run("local", "none", 1, 0.80, 0)]
    assert attacks.verdict(ahead).splitlines()[2].startswith("| nobody lies | -0.04 ± 1.52 (2 seeds) |")
    assert attacks.of_fall(0, [-0.16, -0.15]) == "**-0.15 ± 0.06** (2 seeds)"
    assert "nobody lies" not in attacks.summary(ahead)


def test_a_line_has_what_passes_and_the_accuracies_of_all_rules_with_fewer_seeds_named():
    rows = attacks.table(RUNS, 3).splitlines()[2:]
    assert rows[0].startswith(
        "| `echo` | 3.0 | 0.75 | - | - | 0.79 / 0.74 (1) | 0.60 / 0.55 (1) | 0.55 / 0.50 (1) | - | - "
        "| 0.85 / 0.80 |"
    )
    assert rows[1].startswith("| `permuted` | - | - | - | - | 0.60 / 0.55 | - |")
    assert "(1)" not in attacks.table(RUNS, 7)  # where no cell has more
    assert attacks.table(RUNS, 0).splitlines()[2].startswith("| `none` |")
    text = attacks.section(RUNS)
    assert "1 to 2 seeds a cell, 10 runs." in text
    assert "<summary>3 liars; 2 seeds</summary>" in text
    assert "<summary>7 liars; 1 seed</summary>" in text


def test_a_backdoor_has_its_success():
    fooled = [
        run("adaptive", "capture-backdoor", seed, 0.8, F, risk, backdoor_success=share)
        for seed, share, F, risk in ((0, 0.9, 1, "local"), (1, 1.0, 1, "local"), (0, 0.8, 3, "batch"))
    ]
    assert attacks.backdoors([*RUNS, *fooled]).splitlines()[2:] == [
        "| `capture-backdoor` | 1 | 0.95 | - | - | - | - | - |",
        "| `capture-backdoor` | 3 | - | 0.80 (1) | - | - | - | - |",
    ]
    assert one_line(attacks.planted([*RUNS, *fooled])) == (
        "Of the rows with its trigger 95 % get its label (`capture-backdoor`, Spambase, mean of 2 seeds; 80 to "
        "100 % in each of the 3 runs of `adaptive`, with 1 to 3 liars and both risks)."
    )


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


def test_the_picture_has_means_of_three_seeds_or_more(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    many = [run(rule, "sign-flip", seed, 0.8, 3) for rule in ("adaptive", "local") for seed in range(3)]
    with mock.patch.object(attacks, "panel", wraps=attacks.panel) as panel:
        attacks.draw([*RUNS, *many], tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    drawn = panel.call_args.args[1]
    assert {(r.config.rule, r.config.attack, r.config.liars) for r in drawn} == {
        ("adaptive", "sign-flip", 3),
        ("local", "sign-flip", 3),
    }
