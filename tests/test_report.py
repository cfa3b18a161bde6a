import csv
import io

import pytest

from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments import figures, report
from refimpl.related import SYSTEMS


def result(rule, attack, seed, worst, lost=0, sent=1234.0):
    history = {
        "worst_own": [0.1, worst],
        "mean_own": [0.2, worst + 0.05],
        "worst_whole": [0.3, worst - 0.05],
        "mean_whole": [0.4, worst - 0.01],
        "not_finite": [0, lost],
    }
    config = {"rule": rule, "attack": attack, "seed": seed}
    return {"config": config, "history": history, "bytes_per_round": sent}


GRID = [
    result(rule, attack, seed, 0.5 + 0.01 * i + 0.02 * seed)
    for i, rule in enumerate(RULES)
    for attack in ATTACKS
    for seed in (0, 1)
]


def test_the_table_fits_a_terminal_and_averages_the_seeds():
    lines = report.text_table(GRID).splitlines()
    assert max(map(len, lines)) <= 79
    assert len(lines) == 2 + 2 * len(RULES)
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
    assert len(rows) == len(RULES) * len(ATTACKS)
    assert rows[0]["rule"] == "adaptive"
    assert rows[0]["seeds"] == "2"
    assert float(rows[0]["worst_own"]) == pytest.approx(0.51, abs=1e-12)


def test_systems_come_after_the_rules_and_bytes_are_told():
    sent = {"ios": 1234, "local": 0, "choco": 15.6, "adaptive": 1234, "sgp": 1234}
    results = [result(rule, "none", 0, 0.5, sent=amount) for rule, amount in sent.items()]
    names = [line.split()[0] for line in report.text_table(results).splitlines()[2::2]]
    assert names == ["adaptive", "local", "sgp", "choco", "ios"]
    told = "A worker sends 1.23 kB to all its neighbours together in a round; 0 kB with local; 0.0156 kB with"
    assert " ".join(report.sent(results).split()) == f"{told} choco."
    rows = csv.DictReader(io.StringIO(report.csv_table(results)))
    assert [float(row["bytes_per_round"]) for row in rows] == [1234, 0, 1234, 15.6, 1234]


def test_many_attacks_and_long_names_still_fit_a_terminal(monkeypatch):
    for name in ("sixth", "seventh-attack"):
        monkeypatch.setitem(ATTACKS, name, ATTACKS["alie"]._replace(label=name))
    monkeypatch.setitem(RULES, "a-rule-with-a-long-name", RULES["median"])
    rules = ("adaptive", "a-rule-with-a-long-name")
    results = [result(rule, attack, 0, 0.5 + 0.01 * i) for rule in rules for i, attack in enumerate(ATTACKS)]
    text = report.text_table(results)
    assert max(map(len, text.splitlines())) <= 80
    blocks = [block.splitlines() for block in text.split("\n\n")]
    assert [name for block in blocks for name in block[0].split()] == list(ATTACKS)
    for header, _, *lines in blocks:
        for attack in header.split():
            end, i = header.index(attack) + len(attack), list(ATTACKS).index(attack)
            for line in lines[::2]:
                assert line[end - 10 : end + 1].strip() == f"0.{50 + i} 0.{55 + i}"  # below its attack


# --- The figure ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("results", [GRID, GRID[:2]])
def test_the_figure_is_a_png(tmp_path, results):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    figures.figure(results, "A title", tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["figure.png"]


def test_a_panel_has_a_line_per_rule_and_the_paper_s_on_top():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, GRID, "foe")
    assert ax.get_title() == "Fall-of-empire attack"
    assert [line.get_label() for line in ax.lines][::-1] == [rule.label for rule in RULES.values()]
    assert ax.lines[-1].get_ydata().tolist() == pytest.approx([0.1, 0.51])


def test_every_rule_has_a_line_of_its_own_even_a_new_one(monkeypatch):
    for i in range(3):
        monkeypatch.setitem(RULES, f"new {i}", RULES["median"])
    styles = {rule: figures.style_of(rule) for rule in RULES | SYSTEMS}
    assert len(set(styles.values())) == len(styles) == 8 + 3 + 25
    assert [rule for rule, style in styles.items() if style.linewidth > 2] == ["adaptive"]
    assert styles["adaptive"].color == "#D55E00"
    assert styles["krum"] == ("#7F7F7F", "-", 1.1)
    assert styles["local"] == ("#000000", "--", 1.1)
