import dataclasses
import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import strict_device
from platforms import needs_signals

from data_loaders.partition import PARTITIONS
from refimpl import arrays, methods
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments import cli, config, figures, grid, runner
from refimpl.experiments.options import knowledge, parser
from refimpl.experiments.results import load
from refimpl.experiments.watch import kind_of
from refimpl.graphs import GRAPHS, read_edges
from refimpl.optim import OPTIMIZERS
from refimpl.related.schedules import SCHEDULES, read_rounds

EXAMPLE = Path(__file__).parents[1] / "examples" / "spambase.py"


def configs(options):
    return cli.configs("spambase", cli.parse("spambase", options.split())[1])


def test_the_time_that_runs_take_is_by_their_epochs_and_by_how_many_run_at_once():
    todo = configs("--rules krum --attacks foe --seeds 0 1 --epochs 10")
    known = {kind_of(todo[0]): 2.0}  # seconds per epoch
    assert runner.work(todo[:1], known, None) == "about 20 seconds"
    assert runner.work(todo, known, None) == "about 40 seconds"
    assert runner.work(todo, known, None, jobs=2) == "about 20 seconds at 2 at a time"
    assert runner.work(todo, {}, None) == "380 rounds"


QUICK = ["--epochs", "1", "--rules", "adaptive", "local", "--attacks", "none", "alie", "--jobs", "1"]


def test_a_run_prints_a_table_and_leaves_json_csv_and_the_same_command_reuses_them(tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    command = [*QUICK, "--out", str(out)]
    assert cli.main("spambase", command) == 0
    first = capsys.readouterr()
    assert "adaptive" in first.out
    assert max(map(len, first.out.splitlines()[:-1])) <= 80
    assert "\nOne seed proves little: " in first.out
    assert first.err.count("worst") == 4  # a plain line per run: the output is no terminal
    results = sorted(out.glob("*.json"))
    assert len(results) == 4
    assert (out / "table.csv").read_text(encoding="utf-8").count("\n") == 5
    times = [path.stat().st_mtime_ns for path in results]
    assert cli.main("spambase", command) == 0
    again = capsys.readouterr()
    assert "4 of 4 runs are in" in again.err
    assert again.out == first.out
    assert [path.stat().st_mtime_ns for path in results] == times


def test_options_reach_the_configuration(tmp_path):
    edges = tmp_path / "edges.txt"
    edges.write_text("\n".join(f"{i} {j}" for i in range(6) for j in range(i)), encoding="utf-8")
    argv = "--rules krum --attacks foe --workers 6 --attackers 1 --epochs 3 --seeds 4 5 --risk batch"
    argv += " --released lower-median --optimizer adam --lr 0.1 --batch-size 7 --partition iid --features raw"
    argv += f" --dtype float32 --l2 0.25 --plain --graph {edges}"
    runs = configs(argv)
    assert [c.seed for c in runs] == [4, 5]
    c = runs[0]
    assert (c.task, c.rule, c.attack, c.workers, c.attackers, c.epochs) == ("spambase", "krum", "foe", 6, 1, 3)
    assert (c.risk, c.released, c.optimizer, c.lr) == ("batch", ("lower-median",), "adam", 0.1)
    assert c.batch_size == 7
    assert (c.partition, c.features, c.dtype, c.gpu) == ("iid", "raw", "float32", False)
    assert (c.l2, c.plain) == (0.25, True)
    assert c.graph[:3] == ((1, 0), (2, 0), (2, 1))


def test_every_field_of_a_configuration_has_an_option():
    """But for the task; the GPU has tests of its own. A new field needs an option here."""
    argv = "--rules krum --attacks foe --workers 6 --attackers 1 --epochs 3 --seeds 4 --risk batch --plain"
    argv += " --released lower-median --optimizer adam --lr 0.1 --batch-size 7 --partition iid --features raw"
    argv += " --dtype float32 --l2 0.25 --graph ring --graph-schedule matching --loss 0.1 --late 0.2 --crash 1"
    argv += " --start common"
    (c,), default = configs(argv), configs("")[0]
    fields = [field.name for field in dataclasses.fields(c)]
    assert [name for name in fields if getattr(c, name) == getattr(default, name)] == ["task", "gpu", "device"]


@pytest.mark.parametrize("text", ["0", "-1", "abc", "", "nan", "inf"])
def test_a_learning_rate_is_a_number_above_0(text):
    with pytest.raises(SystemExit) as caught:
        parser("spambase").parse_args([f"--lr={text}"])
    assert caught.value.code == 2
    assert parser("spambase").parse_args(["--lr=1e-9"]).lr == 1e-9


def test_a_seed_named_twice_is_one_run():
    assert [c.seed for c in configs("--rules adaptive --attacks foe --seeds 0 0 1 0")] == [0, 1]


@pytest.mark.parametrize("name", ["a/b", "../esc", "a\\b", "x" * 81, "", "two\nlines", "mine:2"])
@pytest.mark.parametrize("table", [RULES, ATTACKS], ids=["rule", "attack"])
def test_a_name_that_no_file_can_have_is_refused_before_anything_is_computed(
    table, name, tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(table, name, table["average" if table is RULES else "foe"])
    chosen = ["--rules" if table is RULES else "--attacks", name]
    with pytest.raises(SystemExit) as caught:
        cli.main("spambase", [*chosen, "--out", str(tmp_path / "in" / "out")])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert said.endswith(f'printable and without /\\:*?"<>|, got {name!r}\n')
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:constrained_layout not applied")  # its figure has no room left for lines
def test_a_name_may_be_as_long_as_a_file_can_have(tmp_path, monkeypatch):
    """Both names, and the largest seed."""
    longest = "x" * config.MOST_BYTES
    monkeypatch.setitem(RULES, longest, RULES["local"])
    monkeypatch.setitem(ATTACKS, longest, ATTACKS["foe"])
    options = f"--rules {longest} --attacks {longest} --seeds {2**63 - 1} --epochs 1 --batch-size 500 --jobs 1"
    assert cli.main("spambase", [*options.split(), "--out", str(tmp_path)]) == 0
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_no_options_is_the_whole_grid():
    runs = configs("")
    assert len(runs) == len(set(runs)) == 8 * 5
    c = runs[0]
    assert (c.workers, c.attackers, c.epochs, c.graph) == (10, 3, 200, "complete")
    assert (c.released, c.l2, c.plain) == ((), 0, False)


def test_a_name_comes_before_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("ring", "regular:4", "mine"):
        (tmp_path / name).write_text("0 1\n", encoding="utf-8")
    graph = functools.partial(cli.name_or_file, table=GRAPHS, read=read_edges)
    schedule = functools.partial(cli.name_or_file, table=SCHEDULES, read=read_rounds)
    assert list(map(graph, ("ring", "regular:4", "./ring"))) == ["ring", "regular:4", ((0, 1),)]
    assert graph("mine") == ((0, 1),)
    assert schedule("mine") == (((0, 1), (1, 0)),)
    (tmp_path / "matching").write_text("0 1\n", encoding="utf-8")
    assert schedule("matching") == "matching"
    monkeypatch.setitem(GRAPHS, "mine", GRAPHS["ring"])
    assert graph("mine") == "mine"


def history(options, tmp_path):
    out = tmp_path / options.replace(" ", "_")
    fixed = "--epochs 2 --rules adaptive krum --attacks arbitrary --batch-size 100 --jobs 1 --out"
    assert cli.main("spambase", [*fixed.split(), str(out), *options.split()]) == 0
    results = map(load, sorted(out.glob("*.json")))
    return [np.array(list(result.history.values())) for result in results]


def test_plain_runs_the_specification_to_the_same_numbers(tmp_path, monkeypatch):
    called = []
    plain = methods.plain_engine
    monkeypatch.setattr(methods, "plain_engine", lambda setting: called.append(setting.rule) or plain(setting))
    fast = history("--l2 0.1", tmp_path)
    assert called == []
    for one, other in zip(history("--l2 0.1 --plain", tmp_path), fast):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert set(called) == {"adaptive", "krum"}


def test_l2_and_differences_of_the_released_code_reach_the_rounds(tmp_path):
    (adaptive, krum), (adaptive_l2, krum_l2) = history("", tmp_path), history("--l2 0.5", tmp_path)
    assert (adaptive != adaptive_l2).any()
    assert (krum != krum_l2).any()
    adaptive_smooth, krum_smooth = history("--released smoothed-risk", tmp_path)
    assert (adaptive_smooth != adaptive).any()
    np.testing.assert_allclose(krum_smooth, krum, rtol=1e-9)  # it looks at no risks


def test_list_says_what_there_is(capsys, monkeypatch):
    monkeypatch.setitem(RULES, "mine", RULES["median"]._replace(about="word " * 40, reference="me, today"))
    with pytest.raises(SystemExit) as caught:
        cli.main("spambase", ["--list"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    flat = " ".join(text.split())
    for table in (RULES, ATTACKS, PARTITIONS, OPTIMIZERS, GRAPHS):
        for name, entry in table.items():
            assert re.search(rf"^  {name}\b", text, re.MULTILINE)
            reference = "" if entry.reference == "-" else f" [{entry.reference}]"
            assert " ".join(entry.about.split()) + reference in flat
    assert "[Sec. 2.2]; knows its own model" in flat
    assert "[Baruch et al. 2019]; knows all honest models" in flat
    assert "Algorithm 3]; knows all attackers' own models" in flat
    assert "regular:DEGREE" in text


def test_list_shows_what_nobody_knows(capsys, monkeypatch):
    """A run of that attack is refused, with the names that there are."""
    monkeypatch.setitem(ATTACKS, "mine", ATTACKS["foe"]._replace(knows=("honest", "secret")))
    with pytest.raises(SystemExit) as caught:
        cli.main("spambase", ["--list"])
    assert caught.value.code == 0
    assert "knows all honest models, secret\n" in capsys.readouterr().out


def test_gpu_without_cupy_is_one_line_and_status_2(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(SystemExit) as caught:
        cli.main("spambase", ["--gpu", "--out", str(tmp_path / "out")])
    assert caught.value.code == 2
    said = capsys.readouterr()
    assert "--gpu needs CuPy" in said.err
    assert said.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_gpu_computes_on_the_chosen_device_one_run_at_a_time(tmp_path, monkeypatch):
    """`--gpu` and `--device` reach every run; the results are found again whichever device computed them."""
    asked, jobs, run_all = [], [], grid.run_all
    monkeypatch.setattr(arrays, "gpu", lambda device=0: asked.append(device) or strict_device)
    monkeypatch.setattr(grid, "run_all", lambda *args: jobs.append(args[2]) or run_all(*args))
    options = f"--gpu --epochs 1 --rules local --attacks none foe --batch-size 300 --out {tmp_path}"
    assert cli.main("spambase", [*options.split(), "--device", "3"]) == 0
    assert set(asked) == {3}
    assert len(asked) == 1 + 2  # checked first; then every run
    assert jobs == [1]
    assert cli.main("spambase", options.split()) == 0
    assert asked[3:] == [0]
    results = map(load, tmp_path.glob("*.json"))
    assert [(run.config.gpu, run.config.device) for run in results] == [(True, 3)] * 2


def threads_of(tmp_path, *options):
    fixed = f"--epochs 1 --rules local --batch-size 300 --out {tmp_path}"
    assert cli.main("spambase", [*fixed.split(), *options]) == 0
    return {load(path).threads for path in tmp_path.glob("*.json")}


def test_threads_are_the_cores_divided_among_the_runs_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(runner.joblib, "cpu_count", lambda: 4)
    assert threads_of(tmp_path / "1", "--attacks", "none", "--jobs", "2") == {4}
    assert threads_of(tmp_path / "2", "--attacks", "none", "foe", "--jobs", "1") == {4}
    assert threads_of(tmp_path / "3", "--attacks", "none", "foe", "--jobs", "2") == {2}
    assert threads_of(tmp_path / "4", "--attacks", "none", "--threads", "3") == {3}


def jobs_of(options, out, monkeypatch):
    """How many runs at a time, where nothing is computed."""
    asked = []
    with monkeypatch.context() as patch:
        patch.setattr(grid, "run_all", lambda todo, out, jobs, *_: asked.append(jobs) or iter([]))
        patch.setattr(runner, "show", lambda *_: None)
        cli.main("spambase", f"--epochs 1 --rules local --out {out} {options}".split())
    return asked


def test_never_more_jobs_than_runs_are_left(tmp_path, monkeypatch):
    assert jobs_of("--attacks none foe alie --jobs 30", tmp_path, monkeypatch) == [3]
    assert jobs_of("--attacks none foe alie --jobs 2", tmp_path, monkeypatch) == [2]
    cli.main("spambase", f"--epochs 1 --rules local --attacks none foe --jobs 1 --out {tmp_path}".split())
    assert jobs_of("--attacks none foe alie --jobs 30", tmp_path, monkeypatch) == [1]
    assert jobs_of("--attacks none foe --jobs 30", tmp_path, monkeypatch) == []


def test_help_names_every_option_with_a_line(capsys):
    with pytest.raises(SystemExit):
        cli.main("spambase", ["--help"])
    text = capsys.readouterr().out
    for action in parser("spambase")._actions:
        assert action.help, action.dest
        assert action.option_strings[-1] in text
    assert "(200)" in text
    assert len(text.splitlines()) <= 60
    assert "None" not in text


def test_without_matplotlib_there_is_a_table_and_a_hint(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert cli.main("spambase", [*QUICK, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "pip install '.[examples]'" in said.err
    assert "adaptive" in said.out
    assert "figure.png" not in said.out


def test_a_figure_is_drawn_again_only_if_it_may_be_another(tmp_path, monkeypatch):
    png, pdf = tmp_path / "figure.png", tmp_path / "figure.pdf"
    drawn = []

    def figure(results, title, path, shows):
        drawn.append(len(results))
        png.touch()
        pdf.touch()

    def run(*rules):
        argv = ["--epochs", "1", "--jobs", "1", "--attacks", "none", "--out", str(tmp_path), "--rules", *rules]
        assert cli.main("spambase", argv) == 0

    monkeypatch.setattr(figures, "figure", figure)
    run("local", "average")
    run("local", "average")
    assert drawn == [2]
    run("local")
    run("local", "average")
    assert drawn == [2, 1, 2]
    pdf.unlink()
    run("local", "average")
    assert drawn == [2, 1, 2, 2]
    os.utime(png, (0, 0))
    run("local", "average")
    assert drawn == [2, 1, 2, 2, 2]


def test_a_terminal_gets_a_bar(tmp_path, capsys, monkeypatch):
    pytest.importorskip("tqdm", reason="tqdm is an extra")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert cli.main("spambase", [*QUICK, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "|      | " in said.err
    assert "[1/4]" not in said.err  # no plain lines beside it


@needs_signals
@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_an_interrupted_command_loses_only_the_runs_in_flight(tmp_path, how):
    number = signal.Signals[how]
    options = "--epochs 50 --rules average median local --attacks none sign-flip foe alie --jobs 2"
    command = [sys.executable, str(EXAMPLE), *options.split(), "--out", str(tmp_path)]
    listens = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # even if we do not
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, **pipes, start_new_session=True, preexec_fn=listens)
    try:
        while len(list(tmp_path.glob("*.json"))) < 3 and process.poll() is None:
            time.sleep(0.005)
        os.killpg(process.pid, number)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    done = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    assert len(done) >= 3
    for path in done:
        json.loads(path.read_text(encoding="utf-8"))
    assert process.returncode == {"SIGINT": 130, "SIGKILL": -number}[how]
    if how == "SIGINT":
        assert b"the same command does the rest" in err
        assert b"Traceback" not in err
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{len(done)} of 12 runs are in" in again.stderr
    assert len(list(tmp_path.glob("*.json"))) == 12
    assert {path: path.stat().st_mtime_ns for path in done} == done


def test_a_folder_called_data_loaders_beside_a_script_is_named(tmp_path):
    """Found by Python before the installed one: imports from it would fail in ways that nobody understands."""
    (tmp_path / "data_loaders").mkdir()
    (tmp_path / "data_loaders" / "__init__.py").touch()
    (tmp_path / "mine.py").write_text("import refimpl.experiments", encoding="utf-8")
    command = [sys.executable, "mine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: refimpl needs the package data_loaders that comes with it")
    assert str(tmp_path / "data_loaders") in last


IMPORTED = """
import atexit, runpy, sys
heavy = {"scipy", "sklearn", "joblib", "matplotlib", "refimpl.experiments.runner"}
atexit.register(lambda: print(*sorted(heavy & set(sys.modules)), file=sys.stderr))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def imported_by(*options):
    """What slow packages, and whether the code that runs and shows, a command of its own has imported."""
    command = [sys.executable, "-c", IMPORTED, str(EXAMPLE), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    *_, last = done.stderr.splitlines()
    return last.split()


@pytest.mark.parametrize("line", ["--help", "--list", "--epoch 1 --no", "--rules nope", "--attackers 12"])
def test_help_and_refusals_wait_for_no_slow_import(line):
    assert imported_by(*line.split()) == []


def test_a_finished_grid_is_shown_without_what_computes_runs(tmp_path):
    command = [*QUICK, "--out", str(tmp_path)]
    assert cli.main("spambase", command) == 0
    assert not {"scipy", "sklearn"} & set(imported_by(*command))


def test_what_an_attack_knows_is_said_once():
    assert knowledge(ATTACKS["capture"]) == "the receiver's model, the receiver's data"
    assert knowledge(ATTACKS["zero"]) == "nothing"
