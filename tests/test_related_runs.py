"""Systems from the command line: their runs, what is refused early, bytes that are sent, fingerprints."""

import dataclasses
import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from problems import initial, setting

from refimpl import methods, models, related, train
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments import cli, grid, registry, results, tasks
from refimpl.experiments.config import Config
from refimpl.experiments.options import parser
from refimpl.related import SYSTEMS
from refimpl.related.knowledge import MODELS
from refimpl.related.schedules import SCHEDULES

CONFIG = Config(
    task="spambase", rule="d-sgd", attack="alie", seed=0, graph="complete",
    **tasks.TASKS["spambase"].defaults | {"epochs": 1, "batch_size": 100},
)  # fmt: skip
D = 57 * 20 + 20 + 20 * 2 + 2  # parameters


def config(**changes):
    return dataclasses.replace(CONFIG, **changes)


# --- Runs ---------------------------------------------------------------------------------------------------


def test_a_system_runs_beside_the_rules_from_the_command_line(tmp_path, capsys):
    names = ["adaptive", "local", "choco", "multi-task"]
    options = ["--attacks", "alie", "--epochs", "1", "--batch-size", "100", "--jobs", "1", "--out"]
    assert cli.main("spambase", ["--rules", *names, *options, str(tmp_path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "A worker sends 86.5 kB to all its neighbours together in a round" in said
    assert "0 kB with local" in said
    found = {run.config.rule: run for run in results.read(tmp_path)}
    assert set(found) == set(names)
    assert found["adaptive"].bytes_per_round == 9 * D * 8
    assert found["choco"].bytes_per_round == 9 * 12 * (8 + 4)
    assert found["local"].bytes_per_round == 0
    assert (bool(found["multi-task"].weights_at), found["choco"].weights_at) == (True, {})


def test_on_a_complete_graph_d_sgd_is_the_average():
    """So the run is given the same data, attackers and draws as one of the paper's rules."""
    system, rule = grid.run(config()), grid.run(config(rule="average"))
    assert system.attackers == rule.attackers
    for name, column in rule.history.items():
        assert_allclose(system.history[name], column, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["d-psgd", "multi-task"])
def test_a_system_runs_the_network_of_the_fast_path_unless_told_plain(rule, monkeypatch):
    """Gradients, risks, loss and accuracies, of images: none of the plain network's."""
    small = tasks.TASKS["digits"]._replace(model=lambda: models.cnn(28, (4, 4), 8, 10))
    monkeypatch.setitem(tasks.TASKS, "digits", small)
    images = config(task="digits", rule=rule, partition="two-labels", features="raw", batch_size=64)
    plain = grid.run(dataclasses.replace(images, plain=True))
    for name in ("gradient", "risk", "predict"):
        monkeypatch.delattr(models.Network, name)
    fast = grid.run(images)
    for name, column in plain.history.items():
        assert_allclose(fast.history[name], column, rtol=1e-9)


def test_a_schedule_reaches_the_rounds_and_the_count_of_bytes():
    """Everyone speaks in every fourth of the four rounds, or to one other in each."""
    fixed, seldom, pairs = (grid.run(config(graph_schedule=name)) for name in ("", "every:4", "matching"))
    assert fixed.rounds_per_epoch == 4
    assert seldom.bytes_per_round == fixed.bytes_per_round / 4
    assert pairs.bytes_per_round == fixed.bytes_per_round / 9
    losses = {run.history["mean_loss"][-1] for run in (fixed, seldom, pairs)}
    assert len(losses) == 3


def test_a_schedule_from_a_file_is_a_run_that_is_found_again(tmp_path):
    """In every second round everyone speaks to the next one, one way."""
    file, out = tmp_path / "rounds.txt", tmp_path / "out"
    file.write_text("---\n" + "".join(f"{k} > {(k + 1) % 10}\n" for k in range(10)), encoding="utf-8")
    options = ["--rules", "sgp", "--attacks", "alie", "--epochs", "1", "--batch-size", "100", "--jobs", "1"]
    options += ["--graph-schedule", str(file), "--out", str(out)]
    assert cli.main("spambase", options) == 0
    (path,) = out.glob("*.json")
    written, result = path.stat().st_mtime_ns, results.load(path)
    assert cli.main("spambase", options) == 0
    assert path.stat().st_mtime_ns == written
    assert result.bytes_per_round == (D + 1) * 8 / 2  # of four rounds, two
    row = results.as_row(result)["graph_schedule"]
    assert row.startswith("edges ")
    other = dataclasses.replace(result, config=dataclasses.replace(result.config, graph_schedule=(((0, 1),),)))
    assert results.as_row(other)["graph_schedule"] != row
    with pytest.raises(SystemExit):
        cli.main("spambase", ["--rules", "d-psgd", *options[2:]])  # which needs edges both ways


def test_agreement_is_counted_round_by_round():
    """Gradients, 0, 1, 2 and 2 more times, and models."""
    result = grid.run(config(rule="icwtm"))
    assert result.bytes_per_round == pytest.approx((2 + (0 + 1 + 2 + 2) / 4) * 9 * D * 8)


def test_a_system_runs_with_gpu(xp):
    result, host = (grid.run(config(rule="ios", gpu=gpu)) for gpu in (True, False))
    assert_allclose(result.history["mean_own"], host.history["mean_own"], rtol=1e-9)


# --- What is refused before anything runs -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--rules adaptive bulyan",
            "worker 0, with 9 neighbours: bulyan needs n >= 4f + 3 models, got n=10, f=3",
        ),
        (
            "--rules icwtm --graph ring",
            "icwtm: everyone must hear everyone, but worker 0 does not hear worker 2",
        ),
        ("--rules choco --graph-schedule matching", "choco: needs a graph that stays the same, got a schedule"),
        (
            "--rules krum --graph-schedule matching",
            "rule krum needs a graph that stays the same, got a schedule",
        ),
        (
            "--rules ios --graph-schedule every:2",
            "ios: round 1: worker 0, with 0 neighbours: needs f neighbours",
        ),
        (
            "--rules d-sgd --graph-schedule one-way",
            "d-sgd: round 1: metropolis_weights needs an undirected graph",
        ),
        ("--rules sgp --graph-schedule onward", "unknown schedule 'onward': needs thinned:P, one-way:P"),
        ("--rules sgp --graph-schedule onward", "exponential:PEERS or a file of edges, --- between rounds"),
        ("--rules d-pgsd", "unknown name 'd-pgsd'"),
    ],
)
def test_what_cannot_work_is_one_line_and_status_2(options, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main("spambase", [*options.split(), "--attacks", "alie", "--out", str(tmp_path / "new")])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_runs_under_every_attack_or_refuses_it_beforehand(name):
    """In a line; and not if the attack sends all the same, made of models alone."""
    method = methods.find(name)
    for attack, entry in ATTACKS.items():
        s, refusal = setting(attack=attack), ""
        try:
            method.check(s, None, 2)
        except ValueError as error:
            refusal = str(error)
        if refusal:
            assert refusal.endswith((f"got {attack}", f"got {name}"))
            assert entry.per_receiver or not MODELS.issuperset(entry.knows)
            continue
        rounds = itertools.islice(train.rounds(s, initial(), 0, method.engine(None)), 2)
        assert all(np.isfinite(made.state.W[s.normal]).all() for made in rounds)


def test_list_and_help_show_systems_and_schedules(capsys):
    for option in ("--list", "--help"):
        with pytest.raises(SystemExit):
            cli.main("spambase", [option])
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    flat = " ".join(text.split())
    for name, entry in (SYSTEMS | SCHEDULES).items():
        number = f":{entry.number}" if getattr(entry, "number", "") else ""
        assert f" {name}{number} {entry.about}" in flat
    assert "(all rules)" in flat


def test_rules_are_the_papers_unless_systems_are_asked_for():
    runs = cli.configs("spambase", parser("spambase").parse_args([]))
    assert {c.rule for c in runs} == set(RULES)
    assert not set(RULES) & set(SYSTEMS)


# --- Fingerprints, worker processes -------------------------------------------------------------------------


def test_a_system_of_ones_own_is_sent_to_worker_processes_and_run(monkeypatch):
    def stays(s, state, batch, signals=None):
        return related.SystemRound((state.W,), state._replace(t=state.t + 1))

    mine = related.System(
        round=stays, about="never learns", reference="-", needs="nothing", bytes=lambda s, t: 0.0
    )
    monkeypatch.setitem(SYSTEMS, "mine", mine)
    assert registry.entries([config(rule="mine")])["system"] == {"mine": mine}
    result = grid.run(config(rule="mine", epochs=2))
    losses = result.history["mean_loss"]
    assert losses[0] == losses[1]
