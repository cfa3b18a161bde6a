"""Tables of results."""

import csv
import io
from dataclasses import replace

import pytest
from some_results import BY_DEFAULT, GRID, ONE_SEED, losing, result

from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments import tables
from refimpl.experiments.results import csv_text


def test_the_table_fits_a_terminal():
    lines = tables.text_table(ONE_SEED).splitlines()
    assert max(map(len, lines)) <= 79
    assert len(lines) == 2 + 2 * len(RULES)
    assert lines[0].split() == BY_DEFAULT
    assert lines[2].split() == ["adaptive", "own", *["0.50", "0.55"] * 5]
    assert lines[3].split() == ["whole", *["0.45", "0.49"] * 5]
    assert lines[-1].split() == ["whole", *["0.52", "0.56"] * 5]
    ends = {line.rindex("0.") for line in lines[2:]}
    assert len(ends) == 1  # the columns stand under each other


def test_over_several_seeds_the_table_shows_the_mean_its_interval_and_who_is_level_with_the_best():
    """Every rule is 0.01 better than the one before, in both seeds: the last one is better than all."""
    lines = tables.text_table(GRID).splitlines()
    assert max(map(len, lines)) <= 80
    half = "0.13"  # t(0.975, 1 degree of freedom) = 12.7 times 0.0141 / sqrt(2)
    assert lines[2].split() == ["adaptive", "own", *[f"0.51±{half}"] * 5]
    assert lines[-4].split() == ["local", "own", *[f"0.58±{half}="] * 5]
    assert lines[-2].startswith("± half of the 95 % interval")
    assert lines[-1].startswith("= level with the best")
    ends = {line.rindex("±") for line in lines[2:-2]}
    assert len(ends) == 1


def fooled(rule, attack, seed, share):
    run = result(rule, attack, seed, 0.5)
    return replace(run, history=run.history | {"backdoor_success": [0, share]})


def test_a_backdoor_has_a_line_beside_the_accuracies_and_only_where_there_is_one():
    """Its mean stands below the accuracies' mean. `table.csv` has a column for it."""
    runs = [
        fooled("krum", "backdoor", 0, 0.25),
        result("krum", "foe", 0, 0.5),
        fooled("local", "backdoor", 0, 1),
    ]
    text = tables.text_table(runs)
    lines = text.splitlines()
    assert lines[4].split() == ["fooled", "-", "0.25"]
    assert lines[7].split() == ["fooled", "-", "1.00"]
    assert lines[4].rindex("0.25") == lines[2].rindex("0.55")
    assert lines[-1].startswith("fooled: the mean share of rows with a trigger")
    assert max(map(len, lines)) <= 80
    assert "| krum | fooled | - | 0.25 |" in tables.markdown_table(runs)
    rows = list(csv.DictReader(io.StringIO(csv_text(tables.rows(runs)))))
    assert [row["backdoor_success"] for row in rows] == ["", "0.25", "1.0"]
    assert "fooled" not in tables.text_table(runs[1:2]) + tables.text_table(runs, "highest_loss")
    assert "backdoor_success" not in tables.rows(runs[1:2])[0]


def test_over_several_seeds_a_backdoors_success_has_an_interval_and_no_best():
    runs = [fooled("krum", "backdoor", seed, 0.5 + seed / 50) for seed in (0, 1)]
    own, _, line, *_ = tables.text_table(runs).splitlines()[2:]
    assert line.split() == ["fooled", "0.51±0.13"]
    assert line.rindex("±") == own.rindex("±")


def test_a_missing_run_leaves_a_gap():
    text = tables.text_table([result("krum", "alie", 0, 0.5), result("median", "foe", 0, 0.5)])
    assert text.splitlines()[2].split() == ["median", "own", "0.50", "0.55", "-"]


def test_the_table_shows_only_what_was_run():
    text = tables.text_table([result("krum", "alie", 0, 0.5)])
    assert "adaptive" not in text
    assert "none" not in text


def test_the_table_marks_lost_models():
    text = tables.text_table([result("average", "none", 0, 0.5, lost=2), result("average", "foe", 0, 0.5)])
    row = text.splitlines()[2]
    assert row.count("*") == 1
    assert "NaN or infinite" in text


def test_two_seeds_of_which_one_is_lost_are_marked_and_counted():
    """Whichever of the two it is."""
    for lost in ((0, 2), (2, 0)):
        both = [result("average", "foe", seed, 0.5, n) for seed, n in enumerate(lost)]
        (row,) = csv.DictReader(io.StringIO(csv_text(tables.rows(both))))
        assert (row["seeds"], row["not_finite"], row["seeds_lost"]) == ("2", "2", "1")
        assert tables.text_table(both).splitlines()[2].endswith("0.50±0.00=*")


def test_the_csv_holds_the_same_numbers_unrounded():
    rows = list(csv.DictReader(io.StringIO(csv_text(tables.rows(GRID)))))
    assert len(rows) == len(RULES) * len(BY_DEFAULT)
    assert rows[0]["rule"] == "adaptive"
    assert rows[0]["seeds"] == "2"
    assert float(rows[0]["worst_own"]) == pytest.approx(0.51, abs=1e-12)


def test_a_table_of_losses_has_a_line_per_rule():
    text = tables.text_table([losing("krum", "foe", 0, 0.125), losing("local", "foe", 0, 0.5)], "highest_loss")
    lines = [line.split() for line in text.splitlines()]
    assert lines == [
        ["foe"],
        ["rule", "loss", "worst", "mean"],
        ["krum", "own", "0.12", "0.25"],
        ["local", "own", "0.50", "0.25"],
    ]


def test_the_best_loss_is_the_lowest_and_an_interval_of_losses_has_no_upper_end():
    pairs = (("krum", 0.3), ("median", 0.9))
    both = [losing(rule, "foe", seed, at + seed / 100) for rule, at in pairs for seed in (0, 1)]
    median, krum, *notes = tables.text_table(both, "highest_loss").splitlines()[2:]
    assert krum.split()[2].endswith("=")
    assert not median.endswith("=")
    assert notes[0].endswith("(Student's t)")
    assert "may pass 0 or 1" in tables.text_table(both)


def test_a_rule_that_lost_a_seed_is_not_level_with_the_best():
    found = {"krum": (0.1, None), "median": (0.5, 0.6), "average": (0.6, 0.5)}
    both = [losing(rule, "foe", seed, x) for rule, some in found.items() for seed, x in enumerate(some)]
    assert tables.level_with_best(both, "foe", "highest_loss") == {"median", "average"}
    assert tables.level_with_best(both[:2], "foe", "highest_loss") == set()


def test_the_best_accuracy_is_the_highest_and_the_best_loss_the_lowest():
    both = [result(rule, "foe", seed, at) for rule, at in (("krum", 0.9), ("median", 0.3)) for seed in (0, 1)]
    for measure in ("worst_own", "mean_own", "worst_whole", "mean_whole", "highest_loss", "mean_loss"):
        assert tables.level_with_best(both, "foe", measure) == {"krum"}  # whose losses are lower, too


def without_mean(run):
    return {name: column for name, column in run.history.items() if name != "mean_loss"}


def test_large_and_lost_losses_stay_in_their_columns():
    """A file keeps no infinity, so that a loss that was lost is null there, or missing in a CSV file."""
    values = [7.0, 12.34, 1234.4, 4.2e7, None]
    rules = ["adaptive", "average", "medoid", "median", "krum"]
    found = [losing(rule, attack, 0, v, v is None) for rule, v in zip(rules, values) for attack in BY_DEFAULT]
    found = [replace(run, history=without_mean(run)) if run.config.rule == "krum" else run for run in found]
    text = tables.text_table(found, "highest_loss")
    blocks = [block.splitlines() for block in text.split("\n\n")]
    assert max(map(len, text.splitlines())) <= 80
    assert [line.split()[2] for line in blocks[0][2:7]] == ["7.00", "12.3", "1234", "4e+07", "inf"]
    assert "inf inf*" in blocks[0][6]
    two = [losing(rule, "foe", seed, v) for rule, v in (("krum", None), ("median", 0.5)) for seed in (0, 1)]
    median, krum = tables.text_table(two, "highest_loss").splitlines()[2:4]
    assert (krum.split(), median.split()) == (["krum", "own", "inf"], ["median", "own", "0.50±0.00="])


def test_that_one_seed_proves_little_is_said_where_rules_are_compared():
    assert tables.one_seed(ONE_SEED).startswith("One seed proves little: --repeats 10 ")
    assert (
        tables.one_seed(GRID) == tables.one_seed([run for run in ONE_SEED if run.config.rule == "krum"]) == ""
    )


def test_systems_come_after_the_rules_and_bytes_are_told():
    sent = {"ios": 1234, "local": 0, "choco": 15.6, "adaptive": 1234, "sgp": 1234}
    results = [result(rule, "none", 0, 0.5, sent=amount) for rule, amount in sent.items()]
    names = [line.split()[0] for line in tables.text_table(results).splitlines()[2::2]]
    assert names == ["adaptive", "local", "sgp", "choco", "ios"]
    told = "A worker sends 1.23 kB to all its neighbours together in a round; 0 kB with local; 0.0156 kB with"
    assert " ".join(tables.sent(results).split()) == f"{told} choco."
    rows = csv.DictReader(io.StringIO(csv_text(tables.rows(results))))
    assert [float(row["bytes_per_round"]) for row in rows] == [1234, 0, 1234, 15.6, 1234]


def test_many_attacks_and_long_names_still_fit_a_terminal(monkeypatch):
    for name in ("sixth", "seventh-attack"):
        monkeypatch.setitem(ATTACKS, name, ATTACKS["alie"])
    monkeypatch.setitem(RULES, "a-rule-with-a-long-name", RULES["median"])
    rules = ("adaptive", "a-rule-with-a-long-name")
    results = [result(rule, attack, 0, 0.5 + 0.01 * i) for rule in rules for i, attack in enumerate(ATTACKS)]
    text = tables.text_table(results)
    assert max(map(len, text.splitlines())) <= 80
    blocks = [block.splitlines() for block in text.split("\n\n")]
    assert [name for block in blocks for name in block[0].split()] == list(ATTACKS)
    for header, _, *lines in blocks:
        for attack in header.split():
            end, i = header.index(attack) + len(attack), list(ATTACKS).index(attack)
            for line in lines[::2]:
                assert line[end - 10 : end + 1].strip() == f"0.{50 + i} 0.{55 + i}"  # below its attack


def test_documents_get_the_same_cells():
    runs_ = [result("krum", attack, seed, 0.5 + seed / 10) for attack in ("foe", "alie") for seed in (0, 1)]
    own = "0.55±0.64="
    markdown, latex = tables.markdown_table(runs_).splitlines(), tables.latex_table(runs_).splitlines()
    assert markdown[:3] == [
        "| rule | test | foe | alie |",
        "| --- | --- | --- | --- |",
        f"| krum | own | {own} | {own} |",
    ]
    assert latex[0] == r"\begin{tabular}{llrr}"
    assert latex[4] == rf"krum & own & {own} & {own} \\".replace("±", r"$\pm$")


def test_large_amounts_are_written_out():
    assert "sends 6590 kB to all" in tables.sent([result("krum", "foe", 0, 0.5, sent=6.59e6)])
    assert "sends 86.5 kB to all" in tables.sent([result("krum", "foe", 0, 0.5, sent=86544)])


def test_a_run_of_one_seed_in_a_table_of_several_has_no_interval():
    text = tables.text_table([run for run in GRID if run.config.attack == "none"] + ONE_SEED[1:2])
    line = next(line for line in text.splitlines() if line.startswith("adaptive"))
    assert line.split() == ["adaptive", "own", "0.51±0.13", "0.50"]


@pytest.mark.parametrize("form", [tables.markdown_table, tables.latex_table])
def test_tables_for_documents_explain_their_marks(form):
    assert "Student's t" in form(GRID)
    assert "paired t-test, Holm" in form(GRID)
    assert "Student's t" not in form(ONE_SEED)
