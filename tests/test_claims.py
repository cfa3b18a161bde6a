"""studies/claims.py, on files of runs that are made up."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
import claims
from some_results import as_released, result

from refimpl.experiments import report
from refimpl.experiments.results import as_csv, as_json

BASELINES = ("average", "medoid", "trimmed-mean", "median", "krum")


def rows(task, attack, by_rule, **options):
    """Runs, by rule with a number per seed."""
    options = {"task": task, "epochs": 10} | options
    return [result(rule, attack, k, x, **options) for rule, some in by_rule.items() for k, x in enumerate(some)]


def file_of(tmp_path, runs, name="runs.csv"):
    (tmp_path / name).write_text(as_csv(runs), encoding="utf-8")
    return tmp_path / name


def settings_of(tmp_path, lines):
    return claims.read([file_of(tmp_path, lines)])


def everybody(adaptive, others):
    return {"adaptive": adaptive, **dict.fromkeys(BASELINES, others)}


NOISE = (0.0, 0.02, -0.01, 0.01, -0.02)


def around(value, noise=NOISE):
    return [value + e for e in noise]


@pytest.mark.parametrize(
    ("adaptive", "median", "answer"),
    [
        (
            around(0.9),
            around(0.6),
            "Yes: highest under 4 of 4 attacks (5 seeds), significantly ahead of all others under 4.",
        ),
        (
            around(0.9),
            around(0.89, NOISE[::-1]),
            "In the means: highest under 4 of 4 attacks (5 seeds), significantly ahead",
        ),
        (
            [0.9],
            [0.6],
            "In the means: highest under 4 of 4 attacks (1 seed), significantly ahead of all others",
        ),
        (
            around(0.8),
            around(0.9),
            "No: highest under 0 of 4 attacks (5 seeds), significantly ahead of all others under none.",
        ),
    ],
)
def test_the_best_is_told_by_means_and_by_a_test(tmp_path, adaptive, median, answer):
    attacks = ("sign-flip", "arbitrary", "foe", "alie")
    others = [0.1 + x / 10 for x in adaptive]
    lines = [line for a in attacks for line in rows("har", a, everybody(adaptive, others) | {"median": median})]
    (setting,) = settings_of(tmp_path, lines)
    assert claims.best(setting).startswith(answer)
    assert ("Surely better under foe: median." in claims.best(setting)) == answer.startswith("No")


def test_what_was_not_run_is_said(tmp_path):
    lines = rows("har", "foe", {"adaptive": [0.9], "krum": [0.5]}) + rows("har", "alie", {"krum": [0.5]})
    (setting,) = settings_of(tmp_path, lines)
    said = claims.best(setting)
    assert "1 of 1 attack (1 seed)" in said
    assert said.endswith(
        "Not run, or in part: sign-flip, arbitrary, alie, average, median, trimmed-mean, medoid."
    )
    assert claims.kept(setting) is None
    assert claims.others_fail(setting) is None
    assert "alie   1     -        -     0.50 krum" in claims.columns(setting, markdown=False)


def test_rules_are_compared_by_the_seeds_that_adaptive_has(tmp_path):
    """With seed 0 alone the average is the better one, with all three it would not be."""
    (setting,) = settings_of(tmp_path, rows("har", "none", {"adaptive": [0.8], "average": [0.9, 0.1, 0.1]}))
    assert claims.kept(setting).startswith("No: adaptive 0.80 (1 seed), average 0.90.")


def test_performance_is_kept_up_to_a_little(tmp_path):
    for average, answer in (([0.84], "Yes"), ([0.86], "No"), ([0.1], "Yes")):
        (setting,) = settings_of(tmp_path, rows("har", "none", {"adaptive": [0.8], "average": average}))
        assert claims.kept(setting).startswith(answer)


def test_failing_to_learn_is_below_two_guesses_of_six(tmp_path):
    for adaptive, others, answer in ((0.8, 0.3, "Yes"), (0.8, 0.35, "No:"), (0.2, 0.1, "No, so does adaptive")):
        (setting,) = settings_of(tmp_path, rows("har", "alie", everybody([adaptive], [others])))
        assert claims.others_fail(setting).startswith(answer)
    (setting,) = settings_of(tmp_path, rows("spambase", "alie", everybody([0.8], [0.1])))
    assert claims.others_fail(setting) is None


def test_comparable_on_mnist_needs_both_under_every_attack(tmp_path):
    good = rows("mnist", "alie", {"adaptive": [0.9], "median": [0.93], "medoid": [0.86]})
    (setting,) = settings_of(tmp_path, good)
    assert claims.comparable_on_mnist(setting).startswith(
        "Yes: median 0.93 of 0.90 (1 seed), alie; medoid 0.86"
    )
    (setting,) = settings_of(tmp_path, good + rows("mnist", "foe", {"adaptive": [0.9], "median": [0.2]}))
    assert claims.comparable_on_mnist(setting).startswith("No")


def test_a_run_counts_wherever_its_numbers_would_be_the_same(tmp_path):
    """The risk is nothing to krum, and the number of attackers is nothing to anybody without an attack."""
    lines = rows("har", "foe", {"adaptive": [0.9], "krum": [0.5]}, attackers=13)
    lines += rows("har", "foe", {"adaptive": [0.7]}, attackers=13, risk="batch")
    lines += rows("har", "none", {"krum": [0.6], "adaptive": [0.95]}, attackers=13)
    lines += rows("har", "foe", {"krum": [0.4]}, attackers=6)
    local, batch, six = settings_of(tmp_path, lines)
    assert local.caption == "har, 13 attackers, protocol paper, epochs 10, risk local"
    assert batch.columns["foe"] == {"krum": {0: 0.5}, "adaptive": {0: 0.7}}
    assert batch.columns["none"] == {"krum": {0: 0.6}}  # adaptive does depend on the risk
    assert six.columns == {"none": {"krum": {0: 0.6}, "adaptive": {0: 0.95}}, "foe": {"krum": {0: 0.4}}}


def test_protocols_apart_and_no_mixture_of_the_two(tmp_path):
    released = as_released("har")
    del released["task"]
    lines = rows("har", "foe", {"adaptive": [0.9]}) + rows(
        "har", "foe", {"adaptive": [0.8]}, released=("deviation",)
    )
    lines += rows("har", "foe", {"adaptive": [0.7]}, **released)
    lines += rows("har", "foe", {"adaptive": [0.6]}, **released | {"risk": "local"})
    found = settings_of(tmp_path, lines)
    assert [s.columns["foe"]["adaptive"][0] for s in found] == [0.9, 0.7]
    assert [s.caption.split(", ")[2] for s in found] == ["protocol paper", "protocol released"]


def test_figures_stand_beside_ours(tmp_path):
    found = settings_of(tmp_path, rows("spambase", "alie", {"adaptive": [0.5, 0.7], "krum": [0.3]}))
    lines = [line.split() for line in claims.beside(found, "spambase", 3, markdown=False).splitlines()]
    i = next(i for i, line in enumerate(lines) if line[:2] == ["alie", "paper"])
    assert lines[i][2:4] == ["0.88", "0.45"]
    assert lines[i + 1] == ["[1]", "0.60±1.27", "-", "-", "-", "-", "0.30"]


@pytest.mark.parametrize(
    ("losses", "answer"),
    [
        ((0.1, 0.2, 0.3, 0.4), "Yes: rank correlation -1.00 foe."),
        ((0.4, 0.3, 0.2, 0.1), "No: rank correlation +1.00 foe."),
        ((0.1, 0.3, 0.2, 400), "Yes: rank correlation -0.80 foe."),  # of the ranks, whatever the size
        ((0.1, 0.1, 0.1, 0.1), "No: rank correlation +0.00 foe."),
        ((0.1, 0.2, 0.3), None),  # three rules have no trend
    ],
)
def test_the_loss_follows_the_accuracy_if_the_ranks_are_opposed(tmp_path, losses, answer):
    rules = dict(zip(("adaptive", "krum", "median", "average"), (0.9, 0.8, 0.7, 0.6)))
    lines = [
        replace(run, history=run.history | {"highest_loss": [loss]})
        for (rule, worst), loss in zip(rules.items(), losses)
        for run in rows("har", "foe", {rule: [worst]})
    ]
    (setting,) = settings_of(tmp_path, lines)
    assert claims.loss_follows(setting) == answer
    table = claims.losses(setting, markdown=False).splitlines()
    assert f"{losses[0]:.2f}" in table[1]


RISING = (0.5, 0.6, 0.7, 0.8)


def curve(rule, attack, losses, accuracy=RISING, seed=0, **options):
    """A run that was evaluated after each of its epochs."""
    run = result(rule, attack, seed, 0.5, **{"task": "har", "epochs": len(accuracy)} | options)
    history = {"worst_own": list(accuracy), "highest_loss": list(losses)}
    return replace(run, history=history, evaluated=list(range(1, 1 + len(accuracy))))


def lines_of(tmp_path, runs, name="some_curves.jsonl"):
    lines = (json.dumps(json.loads(as_json(run))) for run in runs)
    (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path / name


def with_curves(tmp_path, runs):
    """The settings of these runs: their last epochs in a CSV file, all epochs in another."""
    return claims.read([file_of(tmp_path, runs)], [lines_of(tmp_path, runs)])


@pytest.mark.parametrize(
    ("losses", "value", "answer"),
    [
        ((0.9, 0.5, 0.3, 0.2), "-1.00", "Yes"),
        ((400, 0.3, 0.2, 0.1), "-1.00", "Yes"),  # of the ranks, whatever the size
        ((0.3, 0.4, 0.2, 0.1), "-0.80", "Yes"),
        ((0.3, 0.2, 0.4, 0.1), "-0.40", "No"),
        ((0.2, 0.3, 0.5, 0.9), "+1.00", "No"),
        ((0.1, 0.1, 0.1, 0.1), "+0.00", "No"),
        ((None, 0.3, 0.2, 0.1), "-1.00", "Yes"),  # what was lost is the highest
        ((0.3, 0.2, 0.1, None), "+0.20", "No"),
    ],
)
def test_the_loss_falls_over_the_epochs_if_its_ranks_oppose_those_of_the_accuracy(
    tmp_path, losses, value, answer
):
    (setting,) = with_curves(tmp_path, [curve("adaptive", "foe", losses)])
    count = {"Yes": 1, "No": 0}[answer]
    pair = f"{value} (adaptive, foe)"
    assert claims.loss_falls(setting) == (
        f"{answer}: rank correlation -0.50 or less for {count} of 1 pair of rule and attack (1 seed), "
        f"{pair} to {pair}."
    )


def test_losses_are_compared_run_by_run_and_then_averaged_over_the_seeds(tmp_path):
    """The mean of these two curves falls; seed 0's correlation is -1, and seed 1's +1."""
    runs = [curve("krum", "foe", (9, 6, 3, 1)), curve("krum", "foe", (0.1, 0.2, 0.3, 0.4), seed=1)]
    (setting,) = with_curves(tmp_path, runs)
    assert setting.trends == {"foe": {"krum": {0: pytest.approx(-1), 1: pytest.approx(1)}}}
    assert "for 0 of 1 pair of rule and attack (2 seeds), +0.00 (krum, foe)" in claims.loss_falls(setting)


def test_each_rule_and_attack_has_a_correlation_in_its_own_setting(tmp_path):
    falling, rising = (4, 3, 2, 1), (1, 2, 3, 4)
    released = {name: value for name, value in as_released("har").items() if name != "task"}
    runs = [
        curve("adaptive", "foe", falling),
        curve("krum", "foe", (3, 4, 2, 1)),
        curve("krum", "alie", rising),
        curve("local", "alie", rising),  # not among those that the claim is of
        curve("krum", "foe", rising, **released),
        curve("krum", "foe", rising, released=("deviation",)),  # of neither protocol
    ]
    paper, theirs = with_curves(tmp_path, runs)
    assert claims.loss_falls(paper).startswith("In part: rank correlation -0.50 or less for 2 of 3 pairs of")
    assert claims.loss_falls(paper).endswith(" (1 seed), -1.00 (adaptive, foe) to +1.00 (krum, alie).")
    assert paper.trends["alie"]["local"] == {0: pytest.approx(1)}
    assert claims.loss_falls(theirs).startswith("No: rank correlation -0.50 or less for 0 of 1 pair of")
    longer = lines_of(tmp_path, [curve("adaptive", "foe", falling, epochs=40)])
    assert [s.trends for s in claims.read([tmp_path / "runs.csv"], [longer])] == [{}, {}]


def test_of_three_epochs_there_is_no_trend(tmp_path):
    (setting,) = with_curves(tmp_path, [curve("adaptive", "foe", (3, 2, 1), (0.5, 0.6, 0.7))])
    assert claims.loss_falls(setting) is None


def test_curves_are_spoken_of_if_they_have_losses(tmp_path, capsys, monkeypatch):
    """Those that are kept, unless files are named; a folder of runs will do as well."""
    runs = [curve(rule, "alie", (4, 3, 2, 1)) for rule in ("adaptive", *BASELINES)]
    table, curves = file_of(tmp_path, runs), lines_of(tmp_path, runs)
    without = [replace(run, history={"worst_own": run.history["worst_own"]}) for run in runs]
    lossless = lines_of(tmp_path, without, "lossless_curves.jsonl")
    for i, run in enumerate(runs):
        (tmp_path / f"{i}.json").write_text(as_json(run), encoding="utf-8")
    monkeypatch.setattr(claims, "kept_files", lambda: [table])

    def said(argv, kept):
        monkeypatch.setattr(claims, "kept_curves", lambda: [kept])
        assert claims.main(argv) == 0
        return capsys.readouterr().out

    silent = said([], lossless)
    assert "falls over the epochs" not in silent
    assert said([str(table)], curves) == silent
    spoken = said([], curves)
    assert max(map(len, spoken.splitlines())) <= 80
    assert "[1] Yes: rank correlation -0.50 or less for 6 of 6 pairs" in " ".join(spoken.split())
    assert "runs.csv, some_curves.jsonl" in spoken.splitlines()[0]
    assert set(silent.splitlines()[1:]) <= set(spoken.splitlines())
    from_folder = said([str(table), "--curves", str(tmp_path)], lossless)
    assert from_folder.partition("\n\n")[2] == spoken.partition("\n\n")[2]


def test_curves_that_cannot_be_used_are_one_line(tmp_path, capsys):
    run = curve("adaptive", "foe", (4, 3, 2, 1))
    table = file_of(tmp_path, [run])
    (tmp_path / "no_curves.jsonl").write_text("{}\n", encoding="utf-8")
    for path, reason in (
        (lines_of(tmp_path, [replace(run, config=replace(run.config, epochs=40))]), "got none"),
        (lines_of(tmp_path, [replace(run, data="other")], "other.jsonl"), "the same data, got da7a, other"),
        (tmp_path / "no_curves.jsonl", "no_curves.jsonl: needs the result of a run in format 2, got none"),
        (tmp_path / "nowhere.jsonl", "nowhere.jsonl'"),
    ):
        assert claims.main([str(table), "--curves", str(path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith(reason)


def of_many_kinds():
    rates = [(0.001, "two-labels"), (0.02, "two-labels"), (0.001, "label-pairs")]
    mnist = [
        line
        for lr, partition in rates
        for line in rows("mnist", "alie", everybody([0.9], [0.2]), lr=lr, partition=partition, risk="batch")
    ]
    released = as_released("har")
    del released["task"]
    har = [
        line
        for attackers in (13, 6)
        for more in ({}, {"risk": "batch"}, released)
        for attack in ("none", "sign-flip", "arbitrary", "foe", "alie")
        for line in rows("har", attack, everybody([0.9, 0.8], [0.2, 0.3]), attackers=attackers, **more)
    ]
    return mnist, har


def test_everything_fits_a_terminal_and_markdown_is_a_table(tmp_path, capsys):
    mnist, har = (
        file_of(tmp_path, some, name) for some, name in zip(of_many_kinds(), ("mnist.csv", "har.csv"))
    )
    for some in ([], [str(har), str(mnist)]):
        assert claims.main(some) == 0
        said = capsys.readouterr().out
        assert max(map(len, said.splitlines())) <= 80
        assert claims.main([*some, "--markdown"]) == 0
        assert capsys.readouterr().out.count("| --- | --- |") >= 4
    assert "lr 0.02, partition two-labels; mnist.csv" in " ".join(said.split())


def test_the_report_has_a_table_for_each_kind_of_runs(tmp_path, capsys):
    mnist, har = (
        file_of(tmp_path, some, name) for some, name in zip(of_many_kinds(), ("mnist.csv", "har.csv"))
    )
    assert report.main([str(mnist)]) == 0
    heads = [line for line in capsys.readouterr().out.splitlines() if line.startswith("task ")]
    assert heads == [
        f"task mnist, workers 10, attackers 3, epochs 10, lr {lr}, partition {partition}"
        for lr, partition in (("0.001", "two-labels"), ("0.02", "two-labels"), ("0.001", "label-pairs"))
    ]
    assert report.main([str(har)]) == 0
    heads = [line for line in capsys.readouterr().out.splitlines() if line.startswith("task ")]
    assert len(heads) == len(set(heads)) == 6
    assert "task har, workers 10, attackers 6, epochs 10, risk batch, protocol released" in heads


def test_runs_of_different_data_are_refused_and_of_different_code_are_told(tmp_path, capsys):
    """Also of those that count for a setting although they differ in what does not matter to them."""
    one = rows("spambase", "none", everybody([0.9], [0.8]))
    other = rows("spambase", "none", {"average": [0.8, 0.7]}, attackers=2)
    for facts, status in (({"data": "other"}, 2), ({"code": "other"}, 0)):
        path = file_of(tmp_path, [*one, *(replace(run, **facts) for run in other)])
        assert claims.main([str(path)]) == status
        said = capsys.readouterr()
        if status:
            assert said.err.endswith("needs runs with the same data, got da7a, other\n")
        else:
            assert "runs.csv; computed by 2 versions of the code" in " ".join(said.out.split())


def test_a_file_without_runs_is_one_line(tmp_path, capsys):
    (tmp_path / "empty.csv").write_text("a,b\n", encoding="utf-8")
    assert claims.main([str(tmp_path / "empty.csv")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
