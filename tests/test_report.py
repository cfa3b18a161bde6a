import csv
import errno
import io
import math
import shutil
import sys

import pytest

import refimpl
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments import cli, compare, figures, report, runs, summary
from refimpl.related import SYSTEMS
from refimpl.released import of_task


def result(rule, attack, seed, worst, lost=0, sent=1234.0):
    history = {
        "worst_own": [0.1, worst],
        "mean_own": [0.2, worst + 0.05],
        "worst_whole": [0.3, worst - 0.05],
        "mean_whole": [0.4, worst - 0.01],
        "highest_loss": [3.0, 1.5 - worst],
        "mean_loss": [2.0, 1.25 - worst],
        "not_finite": [0, lost],
    }
    config = {"rule": rule, "attack": attack, "seed": seed, "workers": 10, "attackers": 3}
    return {"config": config, "history": history, "bytes_per_round": sent}


BY_DEFAULT = [name for name, attack in ATTACKS.items() if attack.by_default]
GRID = [
    result(rule, attack, seed, 0.5 + 0.01 * i + 0.02 * seed)
    for i, rule in enumerate(RULES)
    for attack in BY_DEFAULT
    for seed in (0, 1)
]


ONE_SEED = [run for run in GRID if run["config"]["seed"] == 0]


def test_the_table_fits_a_terminal():
    lines = summary.text_table(ONE_SEED).splitlines()
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
    lines = summary.text_table(GRID).splitlines()
    assert max(map(len, lines)) <= 80
    half = "0.13"  # t(0.975, 1 degree of freedom) = 12.7 times 0.0141 / sqrt(2)
    assert lines[2].split() == ["adaptive", "own", *[f"0.51±{half}"] * 5]
    assert lines[-4].split() == ["local", "own", *[f"0.58±{half}="] * 5]
    assert lines[-2].startswith("± half of the 95 % interval")
    assert lines[-1].startswith("= can't be told from the best")
    ends = {line.rindex("±") for line in lines[2:-2]}
    assert len(ends) == 1


def test_a_missing_run_leaves_a_gap():
    text = summary.text_table([result("krum", "alie", 0, 0.5), result("median", "foe", 0, 0.5)])
    assert text.splitlines()[2].split() == ["median", "own", "0.50", "0.55", "-"]


def test_the_table_shows_only_what_was_run():
    text = summary.text_table([result("krum", "alie", 0, 0.5)])
    assert "adaptive" not in text
    assert "none" not in text


def test_the_table_marks_lost_models():
    text = summary.text_table([result("average", "none", 0, 0.5, lost=2), result("average", "foe", 0, 0.5)])
    row = text.splitlines()[2]
    assert row.count("*") == 1
    assert "NaN or infinite" in text


def test_two_seeds_of_which_one_is_lost_are_marked_and_counted():
    """Whichever of the two it is."""
    for lost in ((0, 2), (2, 0)):
        both = [result("average", "foe", seed, 0.5, n) for seed, n in enumerate(lost)]
        (row,) = csv.DictReader(io.StringIO(summary.csv_table(both)))
        assert (row["seeds"], row["not_finite"], row["seeds_lost"]) == ("2", "2", "1")
        assert summary.text_table(both).splitlines()[2].endswith("0.50±0.00=*")


def test_the_csv_holds_the_same_numbers_unrounded():
    rows = list(csv.DictReader(io.StringIO(summary.csv_table(GRID))))
    assert len(rows) == len(RULES) * len(BY_DEFAULT)
    assert rows[0]["rule"] == "adaptive"
    assert rows[0]["seeds"] == "2"
    assert float(rows[0]["worst_own"]) == pytest.approx(0.51, abs=1e-12)


# --- Losses -------------------------------------------------------------------------------------------------


def losing(rule, attack, seed, highest, lost=0):
    run = result(rule, attack, seed, 0.5, lost)
    run["history"] |= {"highest_loss": [1.0, highest], "mean_loss": [1.0, 0.25]}
    return run


def test_a_table_of_losses_has_a_line_per_rule():
    text = summary.text_table([losing("krum", "foe", 0, 0.125), losing("local", "foe", 0, 0.5)], "highest_loss")
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
    median, krum, *notes = summary.text_table(both, "highest_loss").splitlines()[2:]
    assert krum.split()[2].endswith("=")
    assert not median.endswith("=")
    assert notes[0].endswith("(Student's t)")
    assert "may pass 0 or 1" in summary.text_table(both)


def test_large_and_lost_losses_stay_in_their_columns():
    """A file keeps no infinity, so that a loss that was lost is null there, or missing in a CSV file."""
    values = [7.0, 12.34, 1234.4, 4.2e7, None]
    rules = ["adaptive", "average", "medoid", "median", "krum"]
    found = [losing(rule, attack, 0, v, v is None) for rule, v in zip(rules, values) for attack in BY_DEFAULT]
    for run in found:
        if run["config"]["rule"] == "krum":
            del run["history"]["mean_loss"]
    text = summary.text_table(found, "highest_loss")
    blocks = [block.splitlines() for block in text.split("\n\n")]
    assert max(map(len, text.splitlines())) <= 80
    assert [line.split()[2] for line in blocks[0][2:7]] == ["7.00", "12.3", "1234", "4e+07", "inf"]
    assert "inf inf*" in blocks[0][6]
    two = [losing(rule, "foe", seed, v) for rule, v in (("krum", None), ("median", 0.5)) for seed in (0, 1)]
    median, krum = summary.text_table(two, "highest_loss").splitlines()[2:4]
    assert (krum.split(), median.split()) == (["krum", "own", "inf"], ["median", "own", "0.50±0.00="])


@pytest.mark.parametrize(
    ("figure", "said"), [("3", ["accuracy"]), ("D3", ["loss"]), ("D6", ["loss", "accuracy"])]
)
def test_the_table_below_a_figure_is_of_what_it_shows(tmp_path, capsys, figure, said):
    options = "--rules local --epochs 1 --batch-size 500 --jobs 1 --attacks none --out"
    assert cli.main("spambase", ["--figure", figure, *options.split(), str(tmp_path)]) == 0
    out = capsys.readouterr().out
    sentences = {"Training loss of the normal": "loss", "Test accuracy of the normal": "accuracy"}
    assert out.startswith("Spam detection on Spambase: 10 workers, 0 attackers, 1 epoch, seed 0\n")
    assert [what for line in out.splitlines() if (what := sentences.get(line[:27]))] == said
    (row,) = csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text()))
    assert 0 < float(row["mean_loss"]) <= float(row["highest_loss"])


def test_the_report_prints_losses_when_asked(folder, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    assert report.main([str(folder), "--loss", "--pictures", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split()[:2] == ["rule", "loss"]
    expected = sum(r["history"]["highest_loss"][-1] for r in runs.read(folder) if is_(r, "krum", "alie")) / 2
    assert float(lines[5].split()[3].partition("±")[0]) == pytest.approx(expected, abs=0.006)


def is_(run, rule, attack):
    return (run["config"]["rule"], run["config"]["attack"]) == (rule, attack)


def test_systems_come_after_the_rules_and_bytes_are_told():
    sent = {"ios": 1234, "local": 0, "choco": 15.6, "adaptive": 1234, "sgp": 1234}
    results = [result(rule, "none", 0, 0.5, sent=amount) for rule, amount in sent.items()]
    names = [line.split()[0] for line in summary.text_table(results).splitlines()[2::2]]
    assert names == ["adaptive", "local", "sgp", "choco", "ios"]
    told = "A worker sends 1.23 kB to all its neighbours together in a round; 0 kB with local; 0.0156 kB with"
    assert " ".join(summary.sent(results).split()) == f"{told} choco."
    rows = csv.DictReader(io.StringIO(summary.csv_table(results)))
    assert [float(row["bytes_per_round"]) for row in rows] == [1234, 0, 1234, 15.6, 1234]


def test_many_attacks_and_long_names_still_fit_a_terminal(monkeypatch):
    for name in ("sixth", "seventh-attack"):
        monkeypatch.setitem(ATTACKS, name, ATTACKS["alie"]._replace(label=name))
    monkeypatch.setitem(RULES, "a-rule-with-a-long-name", RULES["median"])
    rules = ("adaptive", "a-rule-with-a-long-name")
    results = [result(rule, attack, 0, 0.5 + 0.01 * i) for rule in rules for i, attack in enumerate(ATTACKS)]
    text = summary.text_table(results)
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
    markdown, latex = summary.markdown_table(runs_).splitlines(), summary.latex_table(runs_).splitlines()
    assert markdown[:3] == [
        "| rule | test | foe | alie |",
        "| --- | --- | --- | --- |",
        f"| krum | own | {own} | {own} |",
    ]
    assert latex[0] == r"\begin{tabular}{llrr}"
    assert latex[4] == rf"krum & own & {own} & {own} \\".replace("±", r"$\pm$")


# --- Over several seeds -------------------------------------------------------------------------------------


def test_the_interval_by_hand():
    assert compare.interval([1.0, 2.0, 3.0]) == pytest.approx(4.302653 * 1 / 3**0.5, rel=1e-6)
    assert math.isnan(compare.interval([1.0]))


def test_holm_by_hand():
    assert compare.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert compare.holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])


def test_who_is_level_with_the_best():
    noise = [0.0, 0.03, -0.02, 0.01, -0.03, 0.02]
    values = {
        "best": {k: 0.9 + e for k, e in enumerate(noise)},
        "paired": {k: 0.88 + e for k, e in enumerate(noise)},  # worse in every seed by the same
        "level": {k: 0.895 + e for k, e in enumerate(reversed(noise))},
        "worse": {k: 0.5 + e for k, e in enumerate(noise)},
    }
    assert compare.not_worse(values) == {"best", "level"}
    assert compare.not_worse({"best": {0: 1.0}, "other": {0: 0.9}}) == set()
    assert compare.not_worse({"a": {0: 1.0, 1: 1.0, 2: 0.0}, "b": {0: 1.0, 1: 1.0}}) == {"a", "b"}
    values["once"] = {0: 0.1}  # which nothing can be told from
    assert compare.not_worse(values) == {"best", "level", "once"}
    assert compare.level_with("once", values) == set()


# --- Runs on disk -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    options = "--epochs 2 --batch-size 200 --rules adaptive krum --attacks none alie --seeds 0 1 --jobs 1 --out"
    assert cli.main("spambase", [*options.split(), str(out)]) == 0
    return out


def test_a_folder_becomes_a_csv_file_and_gives_the_same_table(folder, tmp_path, capsys):
    assert report.main([str(folder), "--format", "runs"]) == 0
    (tmp_path / "runs.csv").write_text(capsys.readouterr().out)
    again = runs.read(tmp_path / "runs.csv")
    assert summary.text_table(again) == summary.text_table(runs.read(folder))
    assert again[0]["config"]["lr"] == "0.01"
    assert {run["versions"]["refimpl"] for run in again} == {refimpl.__version__}
    assert "passing" in again[0]["history"]
    assert "passing" not in again[-1]["history"]


def test_runs_of_several_places_add_up_and_the_last_counts(folder, tmp_path, capsys):
    report.main([str(folder), "--format", "runs"])
    header, *lines = capsys.readouterr().out.splitlines()
    kept = [line for line in lines if line.startswith("spambase,krum")] + [
        lines[0].replace(",0,10,3,", ",7,10,3,", 1)
    ]
    changed = kept[0].rpartition(",")[0] + ",another-code"
    (tmp_path / "old.csv").write_text("\n".join([header, changed, *kept[1:]]) + "\n")
    assert report.main([str(tmp_path / "old.csv"), str(folder), "--format", "runs"]) == 0
    added = capsys.readouterr().out.splitlines()
    assert added[0] == header
    assert sorted(added[1:]) == sorted([*lines, kept[-1]])  # seed 7 is added, what is in both is the folder's
    assert report.main([str(folder), str(tmp_path / "old.csv"), "--format", "runs"]) == 0
    assert changed in capsys.readouterr().out
    assert report.main([str(folder), str(tmp_path / "old.csv")]) == 0
    assert capsys.readouterr().out.count("task spambase") == 1  # numbers of both kinds of files are the same


def test_runs_of_other_options_are_a_table_of_their_own(folder, capsys):
    found = runs.read(folder)
    others = [run | {"config": run["config"] | {"risk": "batch"}} for run in found]
    groups = runs.groups(found + others)
    assert [len(group) for group in groups] == [8, 8]
    assert runs.described(groups[1], found + others).endswith("epochs 2, risk batch")


def test_the_report_draws_every_picture(folder, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    tmp_path = tmp_path / "pictures"  # is made
    assert report.main([str(folder), "--pictures", str(tmp_path), "--format", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("task spambase, workers 10, attackers 3, epochs 2\n\n| rule")
    names = {"accuracy", "loss", "whole", "attacker_weight", "passing", "workers", "trust_adaptive"}
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{n}.{kind}" for n in names for kind in ("png", "pdf")
    }


def test_an_empty_folder_and_a_missing_one_are_one_line(tmp_path, capsys):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(SystemExit) as caught:
            report.main([str(path)])
        assert caught.value.code == 2
        assert capsys.readouterr().err.endswith("needs results of runs, and has none\n")


def test_csv_has_one_header_whatever_the_groups_and_latex_only_comments(folder, tmp_path, capsys):
    batch = [run | {"config": run["config"] | {"risk": "batch"}} for run in runs.read(folder)]
    (tmp_path / "runs.csv").write_text(runs.as_csv(runs.read(folder) + batch))
    assert report.main([str(tmp_path / "runs.csv"), "--format", "csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [(row["risk"], row["rule"], row["attack"]) for row in rows[3:5]] == [
        ("local", "krum", "alie"), ("batch", "adaptive", "none")
    ]  # fmt: skip
    report.main([str(tmp_path / "runs.csv"), "--format", "latex"])
    assert capsys.readouterr().out.startswith("% task spambase, ")
    both = runs.groups(runs.read(tmp_path / "runs.csv"))
    assert report.title_of(both[1], both[0] + both[1]) == "Spam detection on Spambase, risk batch"
    assert report.title_of(both[1], both[1]) == "Spam detection on Spambase"


def test_a_folder_that_cannot_be_written_to_has_a_table_all_the_same(folder, capsys, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(report, "make_folder", refuse)
    assert report.main([str(folder)]) == 0
    said = capsys.readouterr()
    assert "adaptive" in said.out
    assert said.err.startswith("no pictures, as --pictures names no folder for them: ")


def test_without_matplotlib_the_report_is_a_table_and_a_hint(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert report.main([str(folder), "--pictures", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "adaptive" in said.out
    assert "pip install '.[examples]'" in said.err
    assert not list(tmp_path.iterdir())


def said_of(path, capsys):
    with pytest.raises(SystemExit) as caught:
        report.main([str(path)])
    assert caught.value.code == 2
    return capsys.readouterr().err


def test_of_several_versions_of_the_code_todays_run_counts(folder, tmp_path, capsys):
    results = runs.read(folder)
    older = [run | {"versions": run["versions"] | {"code": "0" * 16}} for run in results]
    assert runs.each_once(older + results, folder) == results
    assert runs.each_once(older, folder) == older
    with pytest.raises(ValueError, match="one run of each configuration, got 2 of adaptive, alie, seed 0"):
        runs.each_once(older + older, folder)
    with pytest.raises(ValueError, match="one run of each configuration, got 2"):
        runs.each_once(results + results, folder)


def test_a_file_that_holds_no_runs_is_named(folder, tmp_path, capsys):
    shutil.copy(folder / "table.csv", tmp_path)
    assert "table.csv needs runs as --format runs writes them, and lacks" in said_of(
        tmp_path / "table.csv", capsys
    )
    (tmp_path / "broken.json").write_text("{")
    assert "broken.json needs to be JSON" in said_of(tmp_path, capsys)


def test_a_rule_that_is_not_in_the_package_is_not_left_out_in_silence(folder, tmp_path, capsys):
    path = next(folder.glob("krum*.json"))
    altered = path.read_text().replace('"krum"', '"own"')
    (tmp_path / "own.json").write_text(altered)
    assert "own.json is not as it was written" in said_of(tmp_path, capsys)
    (tmp_path / "own.json").write_text(altered.replace('"sha256"', '"no checksum"'))
    assert "needs runs of the package's own rules, got own" in said_of(tmp_path, capsys)


# --- The figure ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("results", [GRID, GRID[:2]])
def test_the_figure_is_a_png_and_a_pdf(tmp_path, results):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    figures.figure(results, "A title", tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert len(list(tmp_path.iterdir())) == 2


def test_the_caption_says_what_the_panels_have_in_common():
    expected = "A title\nN = 10, F = 3, seeds 0, 1; worst test accuracy, own split"
    assert figures.caption(GRID, "A title", ("worst_own",)) == expected
    alone = [run for run in GRID if run["config"]["attack"] == "none" and run["config"]["seed"] == 0]
    assert figures.caption(alone, "A title", ("highest_loss", "worst_own")) == (
        "A title\nN = 10, F = 0, seed 0; accuracy on the own split"
    )


def test_panels_of_the_last_row_are_centred():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    places = figures.centred(matplotlib.Figure(), 5, 3)
    assert [(p.rowspan.start, p.colspan.start, p.colspan.stop) for p in places] == [
        (0, 0, 2), (0, 2, 4), (0, 4, 6), (1, 1, 3), (1, 3, 5)
    ]  # fmt: skip


def test_one_epoch_is_drawn_as_dots():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    once = [run | {"history": {m: v[-1:] for m, v in run["history"].items()}} for run in GRID]
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, once, "foe")
    assert [bar.get_label() for bar in ax.containers][::-1] == [rule.label for rule in RULES.values()]


def test_curves_are_drawn_at_the_epochs_that_were_evaluated():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, [run | {"evaluated": [5, 7]} for run in GRID], "foe")
    assert ax.lines[0].get_xdata().tolist() == [5, 7]
    assert ax.get_xlim() == (0, 8)


def test_curves_that_coincide_have_their_markers_at_other_epochs():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    same = {m: [0.5] * 40 for m in ("worst_own", "not_finite")}
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, [run | {"history": same} for run in ONE_SEED], "foe")
    assert len({line.get_markevery() for line in ax.lines}) == len(RULES)
    assert len({line.get_marker() for line in ax.lines}) == len(RULES)


def test_a_panel_has_a_line_per_rule_and_the_paper_s_on_top():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, GRID, "foe")
    assert ax.get_title() == "Fall-of-empire attack"
    assert [line.get_label() for line in ax.lines][::-1] == [rule.label for rule in RULES.values()]
    assert ax.lines[-1].get_ydata().tolist() == pytest.approx([0.1, 0.51])


def test_bands_end_where_the_numbers_do():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    wild = [losing("krum", "foe", seed, 0.1 + 5 * seed) for seed in (0, 1)]
    for run, worst in zip(wild, (0.1, 0.9)):
        run["history"] |= {"worst_own": [0.1, worst]}
    ends = {}
    for what in ("worst_own", "highest_loss"):
        ax = matplotlib.Figure().subplots()
        figures.panel(ax, wild, "foe", what)
        (shade,) = ax.collections
        ends[what] = shade.get_paths()[0].vertices[:, 1]
    assert (ends["worst_own"].min(), ends["worst_own"].max()) == (0, 1)
    assert ends["highest_loss"].min() == 0
    assert ends["highest_loss"].max() > 5
    ax = matplotlib.Figure().subplots()
    figures.dots(ax, wild, ["krum"], "foe", "worst_own")
    (bars,) = ax.collections
    assert bars.get_segments()[0][:, 0].tolist() == pytest.approx([0, 1])


def test_losses_of_different_magnitude_are_all_seen():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    for highest, scale in ((5.0, "linear"), (400.0, "log")):
        ax = matplotlib.Figure().subplots()
        figures.panel(
            ax, [losing("krum", "foe", 0, highest), losing("local", "foe", 0, 0.1)], "foe", "highest_loss"
        )
        assert ax.get_yscale() == scale


def test_every_rule_has_a_line_of_its_own_even_a_new_one(monkeypatch):
    for i in range(3):
        monkeypatch.setitem(RULES, f"new {i}", RULES["median"])
    styles = {rule: figures.style_of(rule) for rule in RULES | SYSTEMS}
    assert len(set(styles.values())) == len(styles) == 8 + 3 + 25
    assert [rule for rule, style in styles.items() if style.linewidth > 1] == ["adaptive"]
    assert styles["adaptive"].color == "#D55E00"
    assert styles["krum"] == ("#7F7F7F", "-", 0.9)
    assert styles["local"] == ("#000000", "--", 0.9)


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        ([[4], [4]], "seed 4"),
        ([[0, 1, 2], [0, 1, 2]], "seeds 0 to 2"),
        ([[2, 0], [0, 2]], "seeds 0, 2"),
        ([[0, 1], [0]], "seeds 0, 1 or fewer"),
    ],
)
def test_the_caption_names_the_seeds_that_were_run(seeds, expected):
    found = [result(rule, "foe", seed, 0.5) for rule, some in zip(RULES, seeds) for seed in some]
    assert figures.seeds_of(found) == expected


def test_the_title_says_how_much_is_of_the_released_code():
    def titled(on):
        return figures.headed([{"config": {"task": "spambase", "released": on}}], "A title")

    assert titled([]) == "A title"
    assert titled(["adam"]) == "A title, 1 of the released code's differences"
    assert titled(of_task("spambase")) == "A title, protocol released"


def test_dots_have_the_name_of_their_number_below(monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    made = []
    monkeypatch.setattr(figures, "save", lambda fig, path: made.append(fig))
    once = [run | {"history": {m: v[-1:] for m, v in run["history"].items()}} for run in GRID]
    for runs_of in (once, GRID):
        figures.figure(runs_of, "A title", None, ("worst_own", "mean_own"))
    dots, curves = (fig.axes[0] for fig in made)
    assert (dots.get_xlabel(), dots.get_ylabel()) == ("worst test accuracy", "")
    assert curves.get_ylabel() == "worst test accuracy"


def test_systems_have_markers_of_a_usual_size_on_short_runs():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, [result(system, "foe", 0, 0.5) for system in SYSTEMS], "foe")
    assert max(line.get_markersize() for line in ax.lines) < 10


def test_runs_that_were_evaluated_at_other_epochs_share_a_panel():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    ax = matplotlib.Figure().subplots()
    seldom = result("krum", "foe", 0, 0.5) | {"evaluated": [4]}
    seldom["history"] = {m: v[-1:] for m, v in seldom["history"].items()}
    figures.panel(ax, [result("adaptive", "foe", 0, 0.5) | {"evaluated": [2, 4]}, seldom], "foe")
    assert [line.get_xdata().tolist() for line in ax.lines] == [[4], [2, 4]]
    again = result("adaptive", "foe", 1, 0.7) | {"evaluated": [3, 4]}  # another seed, by other code
    ax = matplotlib.Figure().subplots()
    figures.panel(ax, [result("adaptive", "foe", 0, 0.5) | {"evaluated": [2, 4]}, again], "foe")
    assert [line.get_xydata().tolist() for line in ax.lines] == [[[4, pytest.approx(0.6)]]]


def test_large_amounts_are_written_out():
    assert "sends 6590 kB to all" in summary.sent([result("krum", "foe", 0, 0.5, sent=6.59e6)])
    assert "sends 86.5 kB to all" in summary.sent([result("krum", "foe", 0, 0.5, sent=86544)])


def test_a_run_of_one_seed_in_a_table_of_several_has_no_interval():
    text = summary.text_table([run for run in GRID if run["config"]["attack"] == "none"] + ONE_SEED[1:2])
    line = next(line for line in text.splitlines() if line.startswith("adaptive"))
    assert line.split() == ["adaptive", "own", "0.51±0.13", "0.50"]


def test_the_legend_fits_below_the_panels():
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    from matplotlib.figure import Figure

    some = [run for run in GRID if run["config"]["rule"] in ("adaptive", "inverse-risk", "average", "local")]
    with matplotlib.rc_context(figures.TEXT):
        fig = Figure(figsize=(2 * figures.PANEL, 2), layout="constrained")
        for ax, attack in zip(fig.subplots(1, 2), ("none", "foe")):
            figures.panel(ax, some, attack)
        figures.legend(fig, summary.rules_of(some))
        (made,) = fig.legends
        assert made.get_window_extent().width <= fig.bbox.width
        assert len(made.get_texts()) == 4


def test_a_rule_that_the_first_panel_lacks_is_in_the_legend_too():
    matplotlib = pytest.importorskip("matplotlib.figure", reason="matplotlib is an extra")
    names = [("krum", "none"), ("krum", "foe"), ("adaptive", "foe")]
    some = [run for run in GRID if (run["config"]["rule"], run["config"]["attack"]) in names]
    fig = matplotlib.Figure()
    for ax, attack in zip(fig.subplots(1, 2), ("none", "foe")):
        figures.panel(ax, some, attack)
    figures.legend(fig, summary.rules_of(some))
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["adaptive", "Krum"]


@pytest.mark.parametrize("form", [summary.markdown_table, summary.latex_table])
def test_tables_for_documents_explain_their_marks(form):
    assert "Student's t" in form(GRID)
    assert "paired t-test, Holm" in form(GRID)
    assert "Student's t" not in form(ONE_SEED)


def test_a_table_says_under_which_protocol_it_was_run():
    config = {"task": "spambase", "workers": 10, "attackers": 3, "epochs": 2, "rule": "krum", "attack": "foe"}
    paper, some, all_of_it = (
        [{"config": config | {"released": on}}] for on in ([], ["adam"], of_task("spambase"))
    )
    assert runs.described(paper, paper).endswith("epochs 2")
    assert runs.described(some, some).endswith("epochs 2, released adam")
    assert runs.described(all_of_it, all_of_it).endswith("epochs 2, protocol released")
    assert runs.described(paper, paper + all_of_it).endswith("epochs 2, protocol paper")
    typed = [{"config": all_of_it[0]["config"] | {"optimizer": "sgd", "lr": 0.1}}]
    assert runs.described(typed, typed).endswith("epochs 2, protocol released but optimizer sgd, lr 0.1")
