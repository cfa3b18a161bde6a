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


def lines_of(summary):
    """The cells of each line, by task and risk; what falls in *own* falls as far in *whole*."""
    rows = [line.strip("| ").split(" | ") for line in summary.splitlines()[2:]]
    assert all(row[2:5] == row[5:] for row in rows)
    return {row[0]: row[1:5] for row in rows}


def test_the_verdict_pairs_the_seeds_and_names_the_deepest_fall():
    assert attacks.verdict(RUNS).splitlines()[2:] == [
        "| `echo` | - | - | 0.20 (F = 3, 1 seed) | 0.20 (F = 3, 1 seed) |",
        "| `permuted` | 0.25 ± 0.64 (F = 3, 2 seeds) | 0.25 ± 0.64 (F = 3, 2 seeds) | - | - |",
    ]
    assert lines_of(attacks.summary(RUNS)) == {
        "Spambase, with the paper's r_k": [
            "6 (0)",
            "1 of 2",
            "0",
            "`permuted` 0.25 ± 0.64 (F = 3, 2 seeds)",
        ],
        "Spambase, with the risk on the batch": ["2 (0)", "1 of 1", "0", "`echo` 0.20 (F = 3, 1 seed)"],
    }


SURE = [run("local", "sign-flip", 1, 0.80, 7), run("adaptive", "permuted", 1, 0.59, 7)]


def test_the_verdict_names_a_fall_that_is_sure_before_a_deeper_one():
    last = attacks.verdict([*RUNS, *SURE]).splitlines()[-1]
    assert last.startswith("| `permuted` | **0.21 ± 0.06** (F = 7, 2 seeds) |")
    said = lines_of(attacks.summary([*RUNS, *SURE]))["Spambase, with the paper's r_k"]
    assert said == ["6 (2)", "1 of 2", "1", "`permuted` **0.21 ± 0.06** (F = 7, 2 seeds)"]


def nobody_lies(*falls):
    """Runs of local, and of adaptive so far below it, seed by seed."""
    worst = [(seed, {"local": 0.9, "adaptive": 0.9 - fall}) for seed, fall in enumerate(falls)]
    return [run(rule, "none", seed, own, 0) for seed, of in worst for rule, own in of.items()]


def test_what_is_there_without_an_attack_has_a_line_of_its_own():
    """However small it is; it is no attack among those that are counted."""
    behind = [*RUNS, run("local", "none", 0, 0.90, 0)]
    assert attacks.verdict(behind).splitlines()[2] == "| nobody lies | 0.08 (1 seed) | 0.08 (1 seed) | - | - |"
    assert lines_of(attacks.summary(behind))["Spambase, with the paper's r_k"][1] == "1 of 2"
    ahead = [*behind, run("adaptive", "none", 1, 0.96, 0), run("local", "none", 1, 0.80, 0)]
    assert attacks.verdict(ahead).splitlines()[2].startswith("| nobody lies | -0.04 ± 1.52 (2 seeds) |")
    assert attacks.of_fall(attacks.Fall(0, [-0.16, -0.15], [-0.16, -0.15])) == "**-0.15 ± 0.06** (2 seeds)"


@pytest.mark.parametrize(
    ("usual", "permuted"),
    [
        ((0.17, 0.16), "-"),  # 0.20 and 0.21 are 0.03 and 0.05 more
        ((0.02, 0.14), "0.21 ± 0.06 (F = 7, 2 seeds)"),  # 0.18 and 0.07 more: not surely
        ((0.02, 0.03), "**0.21 ± 0.06** (F = 7, 2 seeds)"),
        ((-0.1, -0.1), "**0.21 ± 0.06** (F = 7, 2 seeds)"),
        ((0.17,), "-"),  # by the one seed that both have,
        ((0.02,), "0.21 ± 0.06 (F = 7, 2 seeds)"),  # which has no interval
    ],
)
def test_a_fall_counts_as_far_as_it_is_beyond_that_when_nobody_lies(usual, permuted):
    """What is shown is the fall below local, whatever is usual."""
    seven = [run for run in RUNS if run.config.attackers == 7]
    found = attacks.falls([*seven, *SURE, *nobody_lies(*usual)], "local", "worst_own")
    fall = attacks.worst(found["permuted"])
    assert fall.values == pytest.approx([0.20, 0.21])
    assert (attacks.of_fall(fall) if attacks.is_deep(fall) else "-") == permuted
    assert attacks.is_above_0(fall) == permuted.startswith("**")


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
