"""python -m refimpl.experiments.report"""

import csv
import errno
import io
import json
import shutil
import sys
from dataclasses import replace

import pytest
from some_results import GRID, with_options

from refimpl.experiments import cli, figures, report, results
from refimpl.experiments.tables import select


@pytest.mark.parametrize(
    ("figure", "said"), [("3", ["accuracy"]), ("D3", ["loss"]), ("D6", ["loss", "accuracy"])]
)
def test_the_table_below_a_figure_is_of_what_it_shows(tmp_path, capsys, figure, said):
    options = "--rules local --epochs 1 --batch-size 500 --jobs 1 --attacks none --seeds 0 3 --out"
    assert cli.main("spambase", ["--figure", figure, *options.split(), str(tmp_path)]) == 0
    out = capsys.readouterr().out
    sentences = {"Training loss of the normal": "loss", "Test accuracy of the normal": "accuracy"}
    assert out.startswith("Spam detection on Spambase: 10 workers, 0 attackers, 1 epoch, seeds 0, 3\n")
    assert [what for line in out.splitlines() if (what := sentences.get(line[:27]))] == said
    assert ("\nThe released code plots this divided by the batch size.\n" in out) == ("loss" in said)
    (row,) = csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text(encoding="utf-8")))
    assert 0 < float(row["mean_loss"]) <= float(row["highest_loss"])


def test_the_report_prints_losses_when_asked(runs_folder, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    assert report.main([str(runs_folder), "--loss", "--pictures", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split()[:2] == ["rule", "loss"]
    expected = sum(run.last("highest_loss") for run in select(results.read(runs_folder), "krum", "alie")) / 2
    assert float(lines[5].split()[3].partition("±")[0]) == pytest.approx(expected, abs=0.006)


def test_the_report_draws_every_picture(runs_folder, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    tmp_path = tmp_path / "pictures"  # is made
    assert report.main([str(runs_folder), "--pictures", str(tmp_path), "--format", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("task spambase, workers 10, attackers 3, epochs 2\n\n| rule")
    names = {"accuracy", "loss", "whole", "attacker_weight", "passing", "workers", "trust_adaptive"}
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{n}.{kind}" for n in names for kind in ("png", "pdf")
    }


def test_an_empty_folder_and_a_missing_one_are_one_line(tmp_path, capsys):
    nowhere = tmp_path / "nowhere"
    for path, said in ((tmp_path, "needs results of runs, and has none"), (nowhere, f"there is no {nowhere}")):
        with pytest.raises(SystemExit) as caught:
            report.main([str(path)])
        assert caught.value.code == 2
        assert capsys.readouterr().err.endswith(f"{said}\n")


def test_csv_has_one_header_whatever_the_groups_and_latex_only_comments(runs_folder, tmp_path, capsys):
    batch = [with_options(run, risk="batch") for run in results.read(runs_folder)]
    (tmp_path / "runs.csv").write_text(results.as_csv(results.read(runs_folder) + batch), encoding="utf-8")
    assert report.main([str(tmp_path / "runs.csv"), "--format", "csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [(row["risk"], row["rule"], row["attack"]) for row in rows[3:5]] == [
        ("local", "krum", "alie"), ("batch", "adaptive", "none")
    ]  # fmt: skip
    report.main([str(tmp_path / "runs.csv"), "--format", "latex"])
    assert capsys.readouterr().out.startswith("% task spambase, ")
    both = results.groups(results.read(tmp_path / "runs.csv"))
    assert report.title_of(both[1], both[0] + both[1]) == "Spam detection on Spambase, risk batch"
    assert report.title_of(both[1], both[1]) == "Spam detection on Spambase"


def test_a_folder_that_cannot_be_written_to_has_a_table_all_the_same(
    runs_folder, tmp_path, capsys, monkeypatch
):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")

    def refuse(path, content):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(figures, "write", refuse)
    assert report.main([str(runs_folder)]) == 0
    said = capsys.readouterr()
    assert "adaptive" in said.out
    assert said.err.startswith("no pictures, as --pictures names no folder for them: ")
    with pytest.raises(PermissionError):
        report.main([str(runs_folder), "--pictures", str(tmp_path)])


def test_without_matplotlib_the_report_is_a_table_and_a_hint(runs_folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert report.main([str(runs_folder), "--pictures", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "adaptive" in said.out
    assert "pip install '.[examples]'" in said.err
    assert not list(tmp_path.iterdir())


def said_of(path, capsys):
    with pytest.raises(SystemExit) as caught:
        report.main([str(path)])
    assert caught.value.code == 2
    return capsys.readouterr().err


def test_a_file_that_holds_no_runs_is_named(runs_folder, tmp_path, capsys):
    shutil.copy(runs_folder / "table.csv", tmp_path)
    assert "table.csv needs the columns task rule attack" in said_of(tmp_path / "table.csv", capsys)
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    assert "broken.json needs to be JSON" in said_of(tmp_path, capsys)


def copied(run, folder):
    """Writes the run's file as a command would."""
    (folder / f"{run.config.name}.json").write_text(results.as_json(run), encoding="utf-8")


def test_runs_of_a_users_own_rules_and_attacks_are_left_out_but_not_in_silence(tmp_path, capsys):
    copied(with_options(GRID[0], rule="own"), tmp_path)
    copied(with_options(GRID[0], attack="shout"), tmp_path)
    assert said_of(tmp_path, capsys).endswith(f"{tmp_path} needs results of runs, and has none\n")
    copied(GRID[0], tmp_path)
    assert report.main([str(tmp_path), "--format", "runs"]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2
    assert said.err.splitlines() == [
        f"{tmp_path}: runs of own are left out: no rule of the package",
        f"{tmp_path}: runs of shout are left out: no attack of the package",
    ]


def test_runs_that_were_altered_are_refused(runs_folder, tmp_path, capsys):
    content = json.loads(next(runs_folder.glob("krum*.json")).read_text(encoding="utf-8"))
    content["config"]["rule"] = "own"
    (tmp_path / "own.json").write_text(json.dumps(content), encoding="utf-8")
    assert "own.json: not as it was written" in said_of(tmp_path, capsys)


def test_a_task_of_a_users_script_has_a_report(tmp_path, capsys):
    """Its title is in the script, which is not run here, so the task's name stands for it."""
    run = with_options(GRID[0], task="mine")
    (tmp_path / "run.json").write_text(results.as_json(run), encoding="utf-8")
    assert report.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("task mine, ")
    (tmp_path / "edited.json").write_text(results.as_json(replace(run, code="another")), encoding="utf-8")
    assert said_of(tmp_path, capsys).endswith("needs entries of the tables here, got task mine\n")
