"""How commands end when something outside of them fails or interferes."""

import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import joblib
import pytest
from platforms import WINDOWS, make_pipe, needs_full, needs_shell, needs_signals

from refimpl import experiments, process
from refimpl.experiments import atomic, cli, fingerprint, grid, runner, tasks
from refimpl.experiments.options import parser
from refimpl.process import ended, reason

EXAMPLE = Path(__file__).parents[1] / "examples" / "spambase.py"
QUICK = "--epochs 1 --rules local average --attacks none --jobs 1 --out"


def raising(error):
    def command(*_, **__):
        raise error

    return command


# --- Streams that are closed, full or not read ---------------------------------------------------------------

# Says and prints more than a pipe or a buffer holds.
SCRIPT = """
import sys
from refimpl.process import ended, say

def command():
    for i in range(20000):
        say("said")
    print("printed\\n" * 20000)
    open(sys.argv[1], "w").write("reached its end")
    return 0

sys.exit(ended(command))
"""


def run_script(tmp_path, redirection):
    """Under a shell: the script's status, what came on stdout and on stderr, and whether it reached its end."""
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    command = f"({sys.executable} script.py end; echo $? > status) {redirection}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    return (
        int((tmp_path / "status").read_text(encoding="utf-8")),
        done.stdout,
        done.stderr,
        (tmp_path / "end").exists(),
    )


@needs_shell
def test_all_is_well(tmp_path):
    status, out, err, end = run_script(tmp_path, "")
    assert (status, out.count("printed"), err.count("said"), end) == (0, 20000, 20000, True)


@needs_shell
@pytest.mark.parametrize("reader", ["true", "head -1"])
def test_nobody_reads_standard_output(tmp_path, reader):
    status, _, err, _ = run_script(tmp_path, f"2>errors | {reader}")
    assert (status, err) == (141, "")
    assert set((tmp_path / "errors").read_text(encoding="utf-8").split()) == {"said"}


@needs_full
def test_standard_output_is_full(tmp_path):
    status, _, err, _ = run_script(tmp_path, ">/dev/full")
    assert status == 1
    assert err.splitlines()[20000:] == ["[Errno 28] No space left on device"]


FULL = pytest.param("2>/dev/full", marks=needs_full)


@needs_shell
@pytest.mark.parametrize("redirection", ["2>&-", "2>&- <&-", "2> >(true)", FULL])
def test_nobody_hears_what_is_said(tmp_path, redirection):
    status, out, _, end = run_script(tmp_path, redirection)
    assert (status, set(out.split()), end) == (0, {"printed"}, True)


@needs_shell
@pytest.mark.parametrize("redirection", [">&-", ">&- 2>&-"])
def test_there_is_no_standard_output(tmp_path, redirection):
    status, out, _, end = run_script(tmp_path, redirection)
    assert (status, out, end) == (0, "", True)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_standard_output_cannot_encode_is_a_question_mark(monkeypatch, encoding):
    stream = io.TextIOWrapper(io.BytesIO(), encoding, write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    assert ended(lambda: print("0.86 \u00b10.02 \udcff")) is None
    sign = "?" if encoding == "ascii" else "\u00b1"
    assert stream.buffer.getvalue().decode(encoding) == f"0.86 {sign}0.02 ?\n"


def test_a_picture_does_not_depend_on_windows(tmp_path, monkeypatch):
    """A wrong name in MPLBACKEND ends the import of matplotlib, which draws our files without it."""
    monkeypatch.setenv("MPLBACKEND", "nonsense")
    assert ended(lambda: 0) == 0
    assert "MPLBACKEND" not in os.environ


def test_the_files_are_written_before_the_table_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "write", raising(BrokenPipeError()))
    assert experiments.main("spambase", [*QUICK.split(), str(tmp_path)]) == 141
    assert len(list(tmp_path.glob("*.json"))) == 2
    assert (tmp_path / "table.csv").read_text(encoding="utf-8").count("\n") == 3
    err = capsys.readouterr().err
    assert (tmp_path / "figure.png").exists() or "matplotlib does not import" in err
    assert "Broken" not in err


# --- Signals -------------------------------------------------------------------------------------------------


def test_sigterm_ends_a_command_like_ctrl_c(capsys):
    before = signal.getsignal(process.STOP)

    def command():
        signal.raise_signal(process.STOP)
        raise AssertionError("not reached")

    assert ended(command) == (149 if WINDOWS else 143)
    assert ended(raising(KeyboardInterrupt()), "interrupted; there is more") == 130
    assert capsys.readouterr().err == "\ninterrupted\n\ninterrupted; there is more\n"
    assert signal.getsignal(process.STOP) is before


def test_a_command_may_run_in_any_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(ended(lambda: 7)))
    thread.start()
    thread.join()
    assert found == [7]


INTERRUPTED = """
import sys
from refimpl.experiments import main

class Finder:
    def find_spec(name, path, target=None):
        if name == "numpy":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder)
sys.exit(main("spambase", []))
"""


def test_ctrl_c_during_imports(tmp_path):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr == "\ninterrupted; finished runs are kept, the same command does the rest\n"


def test_ctrl_c_while_data_are_loaded(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tasks, "build", raising(KeyboardInterrupt()))
    assert experiments.main("spambase", ["--out", str(tmp_path / "out")]) == 130
    assert "the same command does the rest" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# A worker process that would sleep for a minute, and a parent that ends without a word to it.
ORPHAN = """
import multiprocessing, os, sys, time
from refimpl import process

def work(started, windows):
    process.WINDOWS = windows
    process.end_with_parent()
    process.end_with_parent()
    started.set()
    time.sleep(60)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    context.Process(target=work, args=[started, sys.argv[1] == "True"]).start()
    started.wait()
    os._exit(7)
"""


@pytest.mark.parametrize("windows", [WINDOWS] if WINDOWS else [False, True])
def test_a_worker_process_notices_that_its_parent_is_gone(tmp_path, windows):
    """Its end of the pipe closes when it ends, which `run` waits for. Windows' way is tried on others too."""
    (tmp_path / "orphan.py").write_text(ORPHAN, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "orphan.py"), str(windows)]
    done = subprocess.run(command, capture_output=True, timeout=30)
    assert done.returncode == 7, done.stderr


def ignores_ctrl_c():
    process.end_with_parent()
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_ctrl_c_is_left_to_the_command():
    """A worker process could only print a traceback of where it happened to be."""
    before = signal.getsignal(signal.SIGINT)  # ignored already if we were started by nohup
    assert joblib.Parallel(2)(joblib.delayed(ignores_ctrl_c)() for _ in range(2)) == [True, True]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_process_that_a_user_has_started_outlives_its_parent(monkeypatch):
    monkeypatch.setattr(process.threading, "Thread", raising(AssertionError("watched")))
    process.end_with_parent.__wrapped__()


@needs_signals
@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_worker_processes_end_with_the_command_alone_signalled(tmp_path, how):
    number = signal.Signals[how]
    options = f"--epochs 100000 --rules local --attacks none foe alie --jobs 2 --out {tmp_path}"
    command = [sys.executable, str(EXAMPLE), *options.split()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while " left" not in process.stderr.readline():  # the estimate, of runs under way
            assert process.poll() is None
        threading.Event().wait(5)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)  # until all that hold the pipe have ended
    finally:
        process.kill()
    assert process.returncode == (143 if how == "SIGTERM" else -number)
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir() if path.suffix not in (".part", ".progress")] == []


# --- Files that can't be written -----------------------------------------------------------------------------


def test_what_went_wrong_is_one_line():
    assert reason(OSError(errno.ENOSPC, "No space", "a\nfile")) == "a file: No space"
    assert reason(OSError("two\nlines")) == "two lines"
    assert reason(MemoryError()) == "MemoryError"
    assert reason(ValueError("why")) == "why"


def test_a_folder_deleted_while_running_is_one_line(tmp_path, monkeypatch, capsys):
    out, run = tmp_path / "out", grid.run
    monkeypatch.setattr(grid, "run", lambda *args: shutil.rmtree(out) or run(*args))
    assert experiments.main("spambase", [*QUICK.split(), str(out)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(str(out / "local_none_seed0_"))
    assert line.endswith(".json: No such file or directory")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_line_and_leaves_no_part(tmp_path, monkeypatch, capsys):
    write_bytes = Path.write_bytes

    def full(path, data):
        write_bytes(path, data[:1])
        if len(data) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert experiments.main("spambase", [*QUICK.split(), str(tmp_path)]) == 1
    assert capsys.readouterr().err.endswith(".json: No space left on device\n")
    assert list(tmp_path.iterdir()) == []


def test_out_of_memory_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(grid, "run", raising(MemoryError("Unable to allocate 9 GiB")))
    assert experiments.main("spambase", [*QUICK.split(), str(tmp_path)]) == 1
    assert capsys.readouterr().err == "Unable to allocate 9 GiB\n"


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_computed(tmp_path, monkeypatch, capsys):
    """As root one can write anywhere, so the refusal is made up."""
    monkeypatch.setattr(Path, "write_bytes", raising(PermissionError(errno.EACCES, "Permission denied")))
    monkeypatch.setattr(runner, "run_grid", raising(AssertionError("computed")))
    with pytest.raises(SystemExit) as caught:
        cli.main("spambase", [*QUICK.split(), str(tmp_path)])
    assert caught.value.code == 2
    needs = f"--out needs a folder that can be written to, got {tmp_path}: Permission denied"
    assert capsys.readouterr().err.endswith(f": {needs}\n")


def test_two_that_write_the_same_file_do_not_share_a_part(tmp_path, monkeypatch):
    parts, write_bytes = [], Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", lambda path, data: parts.append(path) or write_bytes(path, data))
    for _ in range(2):
        atomic.write(tmp_path / "figure.png", "x")
    assert len(set(parts)) == 2


# --- Files that do not fit -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with two results."""
    out = tmp_path_factory.mktemp("finished")
    assert cli.main("spambase", [*QUICK.split(), str(out)]) == 0
    return out


def replace(path, content):
    path.unlink()
    path.write_bytes(content)


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def edit_history(path):
    history = json.loads(path.read_text(encoding="utf-8"))["history"]
    edit(path, history=history | {"worst_own": [1.0]})


def other_run(path):
    (other,) = path.parent.glob("average_*.json")
    path.write_bytes(other.read_bytes())


def become_pipe(path):
    path.unlink()
    make_pipe(path)


def make_folder(path):
    path.unlink()
    path.mkdir()


DAMAGE = {
    "an empty object": (lambda path: replace(path, b"{}"), "in format 2, got none"),
    "null": (lambda path: replace(path, b"null"), "in format 2, got none"),
    "a list": (lambda path: replace(path, b"[]"), "in format 2, got none"),
    "a number": (lambda path: replace(path, b"0"), "in format 2, got none"),
    "nothing": (lambda path: replace(path, b""), "Expecting value"),
    "half of it": (lambda path: replace(path, path.read_bytes()[:500]), r"line \d+ column \d+"),
    "bytes": (lambda path: replace(path, b"\x89PNG\xff\0"), "can't decode byte 0x89"),
    "brackets": (lambda path: replace(path, b"[" * 100_000), "recursion"),
    "a better number": (edit_history, "not as it was written"),
    "no versions": (lambda path: edit(path, versions=None), "not as it was written"),
    "an older format": (lambda path: edit(path, format=1), "in format 2, got 1"),
    "another run": (other_run, "it is of another run"),
    "a pipe": (become_pipe, "not a file"),
    "a folder": (make_folder, "not a file"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_file_that_does_not_fit_is_set_aside_and_computed_again(kind, finished, tmp_path, capsys):
    damage, message = DAMAGE[kind]
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    (path,) = out.glob("local_*.json")
    right = json.loads(path.read_text(encoding="utf-8"))
    damage(path)
    damaged = path.read_bytes() if path.is_file() else None
    assert cli.main("spambase", [*QUICK.split(), str(out)]) == 0
    lines = capsys.readouterr().err.splitlines()
    (said,) = (line for line in lines if path.name in line)
    assert re.search(message, said)
    assert f"{path} is not used (" in said
    assert said.endswith(f"; now {path.name}.1.aside, and computed again")
    aside = path.with_name(f"{path.name}.1.aside")
    assert (aside.read_bytes() if aside.is_file() else None) == damaged
    assert json.loads(path.read_text(encoding="utf-8"))["history"] == right["history"]
    assert (out / "table.csv").read_text(encoding="utf-8") == (finished / "table.csv").read_text(
        encoding="utf-8"
    )


def test_what_is_set_aside_twice_is_kept_twice(tmp_path):
    for content in ("first", "second"):
        (tmp_path / "a.json").write_text(content, encoding="utf-8")
        atomic.set_aside(tmp_path / "a.json")
    atomic.set_aside(tmp_path / "a.json")  # another command was faster: nothing to do
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {
        "a.json.1.aside": "first",
        "a.json.2.aside": "second",
    }


def test_a_file_that_cannot_be_read_is_set_aside(finished, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    config = cli.configs("spambase", parser("spambase").parse_args([*QUICK.split(), "out"]))[0]
    path = grid.path_of(config, out)
    denied = PermissionError(errno.EACCES, "Permission denied", str(path))
    monkeypatch.setattr(Path, "read_text", raising(denied))
    assert grid.saved(config, out) is None
    assert f"{path} is not used ({path}: Permission denied); now" in capsys.readouterr().err
    assert not path.exists()


def test_results_of_another_version_of_the_code_are_mentioned(finished, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    (out / "notes.json").write_text("mine", encoding="utf-8")
    (out / "list.json").write_text("[]", encoding="utf-8")
    (out / "folder.json").mkdir()
    assert cli.main("spambase", [*QUICK.split(), str(out)]) == 0
    assert "another version" not in capsys.readouterr().err
    monkeypatch.setattr(fingerprint, "code_digest", lambda roots: "another")
    assert cli.main("spambase", [*QUICK.split(), str(out)]) == 0
    assert f"2 files in {out} of another version of the code: not used\n" in capsys.readouterr().err


# --- Commands at the same time -------------------------------------------------------------------------------


def test_a_result_that_arrives_meanwhile_is_not_lost(finished, tmp_path, monkeypatch, capsys):
    """Another command writes the file between our asking for it and our computing it."""
    saved = grid.saved

    def saved_then_written(config, out, data_dir):
        result = saved(config, out, data_dir)
        path = grid.path_of(config, out)
        shutil.copy(finished / path.name, path)
        return result

    monkeypatch.setattr(grid, "saved", saved_then_written)
    assert cli.main("spambase", [*QUICK.split(), str(tmp_path)]) == 0
    assert (tmp_path / "table.csv").read_text(encoding="utf-8") == (finished / "table.csv").read_text(
        encoding="utf-8"
    )


@pytest.mark.slow
def test_two_identical_commands_at_once(tmp_path):
    options = "--epochs 1 --jobs 1 --rules local median --out out"
    command = [sys.executable, str(EXAMPLE), *options.split()]
    both = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    tables = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert tables[0] == tables[1]
    assert not list((tmp_path / "out").glob(".*"))
