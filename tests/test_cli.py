import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import strict_device

from refimpl import arrays, cli, experiment

EXAMPLE = Path(__file__).parents[1] / "examples" / "spambase.py"
QUICK = ["--epochs", "1", "--rules", "adaptive", "local", "--attacks", "none", "alie", "--jobs", "1"]


def test_a_run_prints_a_table_and_leaves_json_csv_and_the_same_command_reuses_them(tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    command = [*QUICK, "--out", str(out)]
    assert cli.main("spambase", command) == 0
    first = capsys.readouterr()
    assert "adaptive" in first.out
    assert max(map(len, first.out.splitlines()[:10])) <= 80
    assert first.err.count("worst") == 4  # a plain line per run: the output is no terminal
    results = sorted(out.glob("*.json"))
    assert len(results) == 4
    assert (out / "table.csv").read_text().count("\n") == 5
    times = [path.stat().st_mtime_ns for path in results]
    assert cli.main("spambase", command) == 0
    again = capsys.readouterr()
    assert "4 of 4 runs are in" in again.err
    assert again.out == first.out
    assert [path.stat().st_mtime_ns for path in results] == times


def test_options_reach_the_configuration(tmp_path):
    edges = tmp_path / "edges.txt"
    edges.write_text("\n".join(f"{i} {j}" for i in range(6) for j in range(i)))
    argv = "--rules krum --attacks foe --workers 6 --attackers 1 --epochs 3 --seeds 4 5 --risk batch"
    argv += " --smoothing 0.5 --optimizer adam --lr 0.1 --batch-size 7 --partition iid --features raw"
    argv += f" --dtype float32 --graph {edges}"
    grid = cli.configs("spambase", cli.parser("spambase").parse_args(argv.split()))
    assert [c.seed for c in grid] == [4, 5]
    c = grid[0]
    assert (c.task, c.rule, c.attack, c.workers, c.attackers, c.epochs) == ("spambase", "krum", "foe", 6, 1, 3)
    assert (c.risk, c.smoothing, c.optimizer, c.lr, c.batch_size) == ("batch", 0.5, "adam", 0.1, 7)
    assert (c.partition, c.features, c.dtype, c.gpu) == ("iid", "raw", "float32", False)
    assert c.graph[:3] == ((1, 0), (2, 0), (2, 1))


def test_no_options_is_the_whole_grid():
    grid = cli.configs("spambase", cli.parser("spambase").parse_args([]))
    assert len(grid) == len(set(grid)) == 8 * 5
    assert (grid[0].workers, grid[0].attackers, grid[0].epochs, grid[0].graph) == (10, 3, 200, "complete")


@pytest.fixture
def edges_12(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("0 1\n0 12\n")
    return path


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("--rules nope", "invalid choice: 'nope'"),
        ("--attackers 10", "one worker must be normal, got 10 attackers of 10 workers"),
        ("--attackers 4", "krum needs n >= 2f + 3 models, got n=10, f=4"),
        ("--attackers 5 --rules trimmed-mean", "trimmed_mean needs n >= 2f + 1 models, got n=10, f=5"),
        ("--epochs 0", "--epochs: needs a whole number, 1 or more, got 0"),
        ("--epochs ten", "got ten"),
        ("--lr -1", "--lr: needs a number above 0"),
        ("--smoothing 1.5", "up to 1, got 1.5"),
        ("--out {file}", "is a file"),
        ("--out {file}/below", "Not a directory"),
        ("--graph {edges}", "worker 12, but the 10 workers are 0 to 9"),
        ("--graph moebius", "unknown graph 'moebius'"),
        ("--graph erdos-renyi:0 --rules adaptive", "no path leads from worker 0"),
        ("--graph ring --rules krum", "worker 0, with 2 neighbours: krum"),
        ("--data-dir {folder}", "spambase.data: No such file or directory"),
        ("--data-dir {corrupt}", "is not the published Spambase"),
        ("--workers 200", "nonuniform needs 20 rows of each class per worker"),
        ("--device 1", "--device chooses a GPU and needs --gpu"),
        ("--gpu --device first", "--device: needs a whole number, 0 or more, got first"),
        ("--no-such-option", "unrecognized arguments: --no-such-option"),
    ],
)
def test_bad_input_is_one_line_status_2_and_nothing_written(
    argv, message, tmp_path, capsys, edges_12, monkeypatch
):
    work, corrupt, file = tmp_path / "work", tmp_path / "corrupt", tmp_path / "file"
    work.mkdir()
    corrupt.mkdir()
    (corrupt / "spambase.data").write_text("1,2,3\n")
    file.write_text("precious")
    monkeypatch.chdir(work)
    argv = argv.format(file=file, edges=edges_12, folder=work, corrupt=corrupt)
    with pytest.raises(SystemExit) as caught:
        cli.main("spambase", argv.split())
    assert caught.value.code == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert list(work.iterdir()) == []
    assert file.read_text() == "precious"


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
    asked, jobs, run_all = [], [], experiment.run_all
    monkeypatch.setattr(arrays, "gpu", lambda device=0: asked.append(device) or strict_device)
    monkeypatch.setattr(experiment, "run_all", lambda *args: jobs.append(args[2]) or run_all(*args))
    options = f"--gpu --epochs 1 --rules local --attacks none foe --batch-size 300 --out {tmp_path}"
    assert cli.main("spambase", [*options.split(), "--device", "3"]) == 0
    assert set(asked) == {3}
    assert len(asked) == 1 + 2 * 2  # checked first; then every run, which here is also timed first
    assert jobs == [1]
    assert cli.main("spambase", options.split()) == 0
    assert asked[5:] == [0]
    results = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert [(r["config"]["gpu"], r["config"]["device"]) for r in results] == [(True, 3)] * 2


def threads_of(tmp_path, *options):
    fixed = f"--epochs 1 --rules local --batch-size 300 --out {tmp_path}"
    assert cli.main("spambase", [*fixed.split(), *options]) == 0
    results = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    return {result["threads"] for result in results}


def test_threads_are_the_cores_divided_among_the_runs_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(cli.joblib, "cpu_count", lambda: 4)
    assert threads_of(tmp_path / "1", "--attacks", "none", "--jobs", "2") == {4}
    assert threads_of(tmp_path / "2", "--attacks", "none", "foe", "--jobs", "1") == {4}
    assert threads_of(tmp_path / "3", "--attacks", "none", "foe", "--jobs", "2") == {2}
    assert threads_of(tmp_path / "4", "--attacks", "none", "--threads", "3") == {3}


def test_help_names_every_option_with_a_line(capsys):
    with pytest.raises(SystemExit):
        cli.main("spambase", ["--help"])
    text = capsys.readouterr().out
    for action in cli.parser("spambase")._actions:
        assert action.help, action.dest
        assert action.option_strings[-1] in text
    assert "(default: 200)" in text
    assert "None" not in text


def test_without_matplotlib_there_is_a_table_and_a_hint(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert cli.main("spambase", [*QUICK, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "pip install '.[examples]'" in said.err
    assert "adaptive" in said.out
    assert "figure.png" not in said.out


def test_a_terminal_gets_a_bar(tmp_path, capsys, monkeypatch):
    pytest.importorskip("tqdm", reason="tqdm is an extra")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert cli.main("spambase", [*QUICK, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "0/4" in said.err
    assert "worst" not in said.err  # no plain lines beside it


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_command_loses_only_the_runs_in_flight(tmp_path, how):
    grid = "--epochs 25 --rules average median local --attacks none sign-flip foe alie --jobs 2"
    command = [sys.executable, str(EXAMPLE), *grid.split(), "--out", str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        while len(list(tmp_path.glob("*.json"))) < 3 and process.poll() is None:
            time.sleep(0.005)
        os.killpg(process.pid, how)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    done = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    assert len(done) >= 3
    for path in done:
        json.loads(path.read_text())
    assert process.returncode == {signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}[how]
    if how == signal.SIGINT:
        assert b"the same command does the rest" in err
        assert b"Traceback" not in err
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{len(done)} of 12 runs are in" in again.stderr
    assert len(list(tmp_path.glob("*.json"))) == 12
    assert {path: path.stat().st_mtime_ns for path in done} == done
