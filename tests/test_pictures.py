"""studies/pictures.py: the pictures of docs are those of the numbers that are kept."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
import claims
import pictures
from some_results import CONFIG, as_released, result

from refimpl.experiments.results import as_json


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_no_picture_is_older_than_its_data(name):
    drawn_from = pictures.stamp_of((pictures.FOLDER / f"{name}.png").read_bytes())
    assert drawn_from == pictures.digest(name), f"run: python studies/pictures.py {name}"


def test_the_command_draws_all_pictures_but_those_of_the_page():
    found = {path.name for path in pictures.FOLDER.iterdir() if not path.stem.startswith("page")}
    assert found == {f"{name}.png" for name in pictures.PICTURES}


def test_a_stamped_picture_is_still_a_picture(tmp_path):
    image = pytest.importorskip("matplotlib.image", reason="matplotlib is an extra")
    path = pictures.FOLDER / "page.png"
    (tmp_path / "page.png").write_bytes(pictures.stamped(path.read_bytes(), "abc"))
    assert (image.imread(tmp_path / "page.png") == image.imread(path)).all()
    assert pictures.stamp_of((tmp_path / "page.png").read_bytes()) == "abc"
    assert pictures.stamp_of(path.read_bytes()) == ""


def test_what_is_kept_of_a_run_is_what_is_drawn(tmp_path, monkeypatch):
    history = {"worst_own": [epoch / 300 for epoch in range(1, 21)], "mean_own": [0.5] * 20}
    history["highest_loss"] = [None, *(30 / epoch for epoch in range(2, 21))]
    run = replace(result("krum", "foe", 0, 0.5), history=history, evaluated=list(range(1, 21)))
    run = replace(run, weights_at={1: [[1.0]]}, accuracy={"own": [0.5]})
    (tmp_path / "run.json").write_text(as_json(run), encoding="utf-8")
    monkeypatch.setattr(pictures, "CURVES", tmp_path / "curves.jsonl")
    pictures.collect(tmp_path, pictures.CURVES)
    (kept,) = pictures.curves()
    assert kept.evaluated == [*range(1, 11), 15, 20]
    assert kept.history == {
        "worst_own": [round(epoch / 300, 4) for epoch in kept.evaluated],
        "highest_loss": [None, *(round(30 / epoch, 4) for epoch in kept.evaluated[1:])],
    }
    assert (kept.config, kept.attackers, kept.weights_at) == (run.config, run.attackers, {})
    weighing = replace(run, config=replace(run.config, rule="adaptive"), weights_at={1: [[2 / 3, 1 / 3]]})
    assert pictures.thinned(weighing).weights_at == {1: [[0.6667, 0.3333]]}


def test_receivers_that_give_all_weight_to_themselves_are_counted_among_normal_workers():
    C = [[1.0, 0, 0], [0, 1.0, 0], [0.5, 0, 0.5]]
    run = result("adaptive", "foe", 0, 0.5, workers=3)
    assert pictures.listening_to_nobody([replace(run, attackers=[1], weights_at={2: C})]) == (1, 2)


def test_adaptive_and_local_are_paired_by_seed():
    foe = {"adaptive": {0: 0.9, 1: 0.7, 3: 0.1}, "local": {1: 0.6, 0: 0.5}}
    setting = claims.Setting(CONFIG, {"foe": foe, "alie": {"local": {0: 1.0}}}, {}, "", "")
    assert pictures.differences(setting) == {"foe": [pytest.approx(0.4), pytest.approx(0.1)]}


def test_the_verdict_has_both_ends_of_each_protocol_and_what_is_certain():
    paper = claims.Setting(CONFIG, {}, {}, "", "")
    released = paper._replace(config=replace(CONFIG, **as_released("spambase")))
    sure, unsure = [0.2, 0.201, 0.199], [-0.3, 0.1, 0.1]
    said = pictures.verdict([(paper, {"foe": sure, "alie": unsure}), (released, {"foe": [0.5]})])
    assert "-0.03 to +0.20 with the paper's r_k,\n+0.50 to +0.50 under the released code's protocol\n" in said
    assert "certain (paired t-test, Holm, 5 %): 1 of 2" in said


@pytest.mark.slow
@pytest.mark.parametrize("name", pictures.PICTURES)
def test_every_picture_is_drawn_from_what_is_kept(name, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    pictures.draw(name, tmp_path)
    assert pictures.stamp_of((tmp_path / f"{name}.png").read_bytes()) == pictures.digest(name)
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.png"]


def test_an_unknown_picture_is_named(capsys):
    with pytest.raises(SystemExit, match="2"):
        pictures.main(["nothing"])
    assert capsys.readouterr().err.splitlines()[-1].endswith(", got nothing")
