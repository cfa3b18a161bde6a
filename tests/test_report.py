import csv
import io

import pytest

from refimpl import aggregate, report
from refimpl.attacks import ATTACKS


def result(rule, attack, seed, worst, lost=0):
    history = {
        "worst_own": [0.1, worst],
        "mean_own": [0.2, worst + 0.05],
        "worst_whole": [0.3, worst - 0.05],
        "mean_whole": [0.4, worst - 0.01],
        "not_finite": [0, lost],
    }
    return {"config": {"rule": rule, "attack": attack, "seed": seed}, "history": history}


GRID = [
    result(rule, attack, seed, 0.5 + 0.01 * i + 0.02 * seed)
    for i, rule in enumerate(aggregate.NAMES)
    for attack in ATTACKS
    for seed in (0, 1)
]


def test_the_table_fits_a_terminal_and_averages_the_seeds():
    lines = report.text_table(GRID).splitlines()
    assert max(map(len, lines)) <= 79
    assert len(lines) == 2 + 2 * len(aggregate.NAMES)
    assert lines[0].split() == list(ATTACKS)
    assert lines[2].split() == ["adaptive", "own", *["0.51", "0.56"] * 5]
    assert lines[3].split() == ["whole", *["0.46", "0.50"] * 5]
    assert lines[-1].split() == ["whole", *["0.53", "0.57"] * 5]
    ends = {line.rindex("0.") for line in lines[2:]}
    assert len(ends) == 1  # the columns stand under each other


def test_the_table_shows_only_what_was_run():
    text = report.text_table([result("krum", "alie", 0, 0.5)])
    assert "adaptive" not in text
    assert "none" not in text


def test_the_table_marks_lost_models():
    text = report.text_table([result("average", "none", 0, 0.5, lost=2), result("average", "foe", 0, 0.5)])
    row = text.splitlines()[2]
    assert row.count("*") == 1
    assert "NaN or infinite" in text


def test_the_csv_holds_the_same_numbers_unrounded():
    rows = list(csv.DictReader(io.StringIO(report.csv_table(GRID))))
    assert len(rows) == len(aggregate.NAMES) * len(ATTACKS)
    assert rows[0]["rule"] == "adaptive"
    assert rows[0]["seeds"] == "2"
    assert float(rows[0]["worst_own"]) == pytest.approx(0.51, abs=1e-12)


@pytest.mark.parametrize("results", [GRID, GRID[:2]])
def test_the_figure_is_a_png_with_a_line_per_rule(tmp_path, results):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    report.figure(results, "A title", tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["figure.png"]


def test_every_rule_has_a_colour_of_its_own():
    assert set(report.COLOURS) == set(aggregate.NAMES)
    assert len(set(report.COLOURS.values())) == len(aggregate.NAMES)
