"""The experiments as a library."""

import functools
import threading

import numpy as np
import pytest

import refimpl
from refimpl import aggregate
from refimpl.aggregate import RULES, Rule
from refimpl.attacks import ATTACKS
from refimpl.experiments import api, cli
from refimpl.experiments.results import load


def half_way(W, own):
    """Half of one's own model and half of the median."""
    return (W[own] + np.median(W, axis=0)) / 2


def shout(honest, loudness=5):
    """A multiple of minus the mean."""
    return -loudness * honest.mean(axis=0)


QUICK = {"epochs": 2, "batch_size": 200, "jobs": 1}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    return refimpl.run("spambase", ["adaptive", half_way], ["none", shout], (0, 1), **QUICK, out=out)


def test_functions_are_run_beside_names(runs):
    found = [(run.config.rule, run.config.attack, run.config.seed) for run in runs]
    names = [("adaptive", "none"), ("adaptive", "shout"), ("half_way", "none"), ("half_way", "shout")]
    assert found == [(*pair, seed) for pair in names for seed in (0, 1)]
    assert "half_way" not in RULES
    assert "shout" not in ATTACKS


def test_a_table_knows_the_caller_s_own_rules_after_the_runs(runs):
    lines = runs.table().splitlines()
    assert [line.split()[0] for line in lines if " own " in line] == ["adaptive", "half_way"]
    assert "shout" in lines[0]
    assert str(runs) == repr(runs) == runs.table()
    assert runs.table("highest_loss") != runs.table()


def test_each_run_has_its_history(runs):
    for run in runs:
        assert len(run.history["worst_own"]) == len(run.evaluated) == 2
        assert bool(run.weights_at) == (run.config.rule == "adaptive")


def test_a_frame_has_a_row_for_each_epoch(runs):
    pytest.importorskip("pandas", reason="pandas is nobody's extra")
    frame = runs.frame()
    assert len(frame) == 8 * 2
    last = frame[(frame.rule == "half_way") & (frame.attack == "none") & (frame.seed == 1)].iloc[-1]
    assert last.epoch == 2
    assert last.worst_own == next(r for r in runs if r.config.name == "half_way_none_seed1").last("worst_own")


def test_a_figure_is_drawn(runs, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    path = runs.figure(tmp_path / "mine")
    assert path == tmp_path / "mine.png"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_trust_is_drawn(runs, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is an extra")
    assert runs.trust(tmp_path / "trust").read_bytes().startswith(b"\x89PNG")


def test_the_order_is_that_of_the_call_whatever_is_there_already(tmp_path):
    options = {"attacks": ["none"], "out": tmp_path, **QUICK}
    refimpl.run(rules=["local"], **options)
    runs = refimpl.run(rules=["average", "local"], **options)
    assert [run.config.rule for run in runs] == ["average", "local"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rules": {"mine": lambda W: W.mean()}}, r"needs to return an array of shape \(\d+,\), got \(\)"),
        ({"rules": {"mine": lambda risks: risks}}, r"shape \(\d+,\), got \(10,\)"),
        ({"attacks": {"mine": lambda own: own[:, 0]}}, r"shape \(\d+,\) or \(3, \d+\), got \(3,\)"),
    ],
)
def test_a_result_of_another_shape_is_refused(given, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        refimpl.run(**{"rules": ["average"], "attacks": ["none"], "out": tmp_path, **QUICK} | given)


def test_the_command_line_computes_the_same(tmp_path):
    """The bytes of the files are equal but for the time that they took."""
    options = {"epochs": 1, "batch_size": 200, "attackers": 2, "graph": "ring", "plain": True, "jobs": 1}
    (here,) = refimpl.run(rules=["median"], attacks=["alie"], seeds=[3], **options, out=tmp_path / "here")
    typed = (
        "--rules median --attacks alie --seeds 3 --epochs 1 --batch-size 200 --attackers 2 --graph ring --plain"
    )
    assert cli.main("spambase", [*typed.split(), "--jobs", "1", "--out", str(tmp_path / "there")]) == 0
    (file,) = (tmp_path / "there").glob("*.json")
    assert [path.name for path in (tmp_path / "here").glob("*.json")] == [file.name]
    there = load(file)
    assert (here.config, here.history, here.accuracy) == (there.config, there.history, there.accuracy)


def test_a_finished_run_is_used_again_and_an_edited_rule_is_not(tmp_path, capsys):
    for factor in (0.0, 0.0, 1.0):
        rules = {"mine": lambda W, own, factor=factor: factor * W[own]}
        refimpl.run(rules=rules, attacks=["none"], **QUICK, out=tmp_path)
    assert capsys.readouterr().err.count("1 of 1 run are in") == 1
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_an_entry_may_weigh(tmp_path):
    only_me = Rule(lambda W, risks, own, f: np.eye(len(W))[own], "only me", "-", weighs=True)
    mine, local = refimpl.run(rules={"me": only_me, "local": "local"}, attacks=["alie"], **QUICK, out=tmp_path)
    assert mine.history["worst_own"] == local.history["worst_own"]
    assert np.trace(mine.weights_at[2]) == np.sum(mine.weights_at[2]) == 7


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rules": ["adaptve"]}, r"^rules: unknown name 'adaptve', did you mean adaptive\?$"),
        ({"rules": "krum"}, "rules needs a list of names or functions, got 'krum'"),
        ({"attacks": shout}, "attacks needs a list of names or functions, got <function shout"),
        ({"rules": [lambda x: x]}, "<lambda> needs parameters among W, risks, own, f, got x"),
        ({"rules": {"krum": half_way}}, "there is a rule krum: give yours another name"),
        ({"rules": [half_way, half_way]}, "there is a rule half_way: give yours another name"),
        ({"rules": {"mine": Rule(half_way, "", "-")}}, "Rule.compute needs a function of 4 arguments"),
        ({"rules": {"krum": "median"}}, "rule krum needs a function or an entry, got the name median"),
        ({"rules": {"d-psgd": half_way}}, "there is a rule d-psgd: give yours another name"),
        (
            {"rules": {"mine": functools.partial(shout, loudness=1)}},
            "among W, risks, own, f, got honest",
        ),
        ({"attacks": {"mine": 3}}, "^a table needs named tuples like those in it, got 3$"),
        ({"dry_run": True}, "needs options of runs, got dry_run"),
        ({"epochs": 0}, "^epochs: needs a whole number, 1 or more, got 0"),
        ({"nonsense": 1}, "unrecognized arguments: --nonsense 1"),
        ({"task": "cifar"}, "needs a task among spambase, .*, got cifar"),
    ],
)
def test_what_there_is_not_is_refused_in_a_line(given, message, tmp_path):
    before = dict(RULES), dict(ATTACKS)
    with pytest.raises(ValueError, match=message) as caught:
        refimpl.run(**{"attacks": ["none"], "out": tmp_path / "out"} | given)
    assert caught.value.__context__ is None or caught.value.__suppress_context__  # nobody asks for argparse's
    assert before == (RULES, ATTACKS)
    assert not (tmp_path / "out").exists()


def test_what_a_partial_has_bound_stays_bound(tmp_path):
    rules = {"trim0": functools.partial(aggregate.trimmed_mean, f=0), "average": "average"}
    mine, average = refimpl.run(rules=rules, attacks=["sign-flip"], **QUICK, out=tmp_path)
    np.testing.assert_allclose(mine.history["mean_loss"], average.history["mean_loss"], rtol=1e-9)


def test_repeats_stand_for_seeds(tmp_path):
    runs = refimpl.run(rules=["local"], attacks=["none"], repeats=2, **QUICK, out=tmp_path)
    assert [run.config.seed for run in runs] == [0, 1]


def test_entries_are_gone_after_threads_that_show_at_once(runs):
    threads = [threading.Thread(target=runs.table) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "half_way" not in RULES


def test_keywords_are_typed_as_one_would():
    given = {"rules": ["a", "b"], "seeds": [], "data_dir": None, "gpu": False, "plain": True, "lr": 0.5}
    assert api.as_typed(given) == ["--rules", "a", "b", "--plain", "--lr", "0.5"]
