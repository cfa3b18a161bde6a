"""The command: python -m refimpl.audit."""

import io
import json
import re
import subprocess
import sys
import textwrap
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
from platforms import make_pipe, needs_full, needs_shell, needs_signals

from refimpl.audit import KINDS, child, report
from refimpl.audit.__main__ import main
from refimpl.audit.variants import VARIANTS

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def rules(tmp_path, monkeypatch):
    (tmp_path / "my_rules.py").write_text(
        textwrap.dedent(
            """
            import numpy as np

            print("imported")

            def total(W):
                return np.sum(W, axis=0)

            class Mean:
                def __init__(self, f):
                    self.f = f

                def __call__(self, W):
                    return np.mean(W, axis=0)

            number = 3
            """
        ),
        encoding="utf-8",
    )
    (tmp_path / "raises.py").write_text(
        textwrap.dedent(
            """
            def __getattr__(name):
                raise RuntimeError(f"no {name}")

            class Moody:
                def __getattr__(self, name):
                    raise SystemExit(0)

            moody = Moody()
            """
        ),
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("target", ["my_rules:total", "{}/my_rules.py:total"])
def test_command(rules, capsys, target):
    assert main([target.format(rules), "--as", "average"]) == 1
    out = capsys.readouterr().out
    head = "total is not average as in the paper's Sec. 5; it is a known variant: the sum. definition"
    assert head in " ".join(out.split())
    assert "the sum: not divided by n" in out
    assert max(map(len, out.splitlines()[1:])) <= 80


def test_command_with_another_call(rules, capsys):
    assert main(["my_rules:Mean", "--as", "average", "--call", "lambda W: Mean(2)(W)"]) == 0
    assert capsys.readouterr().out.startswith("lambda W: Mean(2)(W) is right: it is average as in ")


def test_strict_counts_what_the_source_leaves_open(rules, capsys):
    arguments = ["numpy:median", "--as", "median", "--call", "lambda W: median(W, axis=0)"]
    said = lambda: " ".join(capsys.readouterr().out.split())
    assert main(arguments) == 0
    assert " hostile NaN, infinite or huge inputs, on which the source is silent: survives in " in said()
    assert main([*arguments, "--strict"]) == 1
    assert "is right on ordinary inputs, but not on others: hostile " in said()


def test_command_as_json(rules, capsys):
    assert main(["my_rules:total", "--as", "average", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["variant"]["ordinary"]["agreed"] == said["variant"]["ordinary"]["of"]
    assert said["difference"]["why"].startswith("coordinate 0: (0 + 1) / 2 = 0.5")
    assert list(said) == ["headline", *report.Report._fields]


def test_an_unknown_kind_is_one_line_with_those_that_look_like_it(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["numpy:median", "--as", "medain"])
    said = capsys.readouterr().err
    assert said.startswith("python -m refimpl.audit: argument --as: unknown name 'medain', did you mean median")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["my_rules:total"], "needs MODULE:FUNCTION or --run COMMAND, and --as KIND"),
        (["my_rules", "--as", "krum"], "needs MODULE:FUNCTION, got 'my_rules'"),
        (["my_rules:medoid", "--as", "krum"], "my_rules has no medoid"),
        (["my_rules:number", "--as", "krum"], "my_rules:number cannot be called"),
        (["no_such_module:krum", "--as", "krum"], "cannot import no_such_module: ModuleNotFoundError: "),
        (["no_such_file.py:krum", "--as", "krum"], "cannot import no_such_file.py: FileNotFoundError: "),
        (["my_rules:total", "--as", "krum", "--call", "lambda W:"], "--call 'lambda W:': SyntaxError: "),
        (["my_rules:total", "--as", "krum", "--call", "exit()"], "--call 'exit()': SystemExit: None"),
        (["my_rules:total", "--as", "krum", "--form", "torch"], "--form torch needs torch"),
        (["my_rules:total", "--as", "krum", "--limit", "0"], "--limit needs a positive number of seconds"),
        (["my_rules:total", "--as", "krum", "--limit", "1e12"], "--limit needs a positive number of seconds"),
        (["my_rules:total", "--as", "krum", "--limit", "nan"], "--limit needs a positive number of seconds"),
        (["raises.py:krum", "--as", "krum"], "raises.py does not give krum: RuntimeError: no krum"),
        (["raises.py:moody.krum", "--as", "krum"], "raises.py does not give moody.krum: SystemExit: 0"),
    ],
)
def test_a_bad_command_line_is_one_line(rules, capsys, monkeypatch, arguments, message):
    monkeypatch.delitem(sys.modules, "torch", raising=False)  # another test may have imported it
    assert main(arguments) == 2
    err = capsys.readouterr().err.removeprefix("imported\n")  # what the module prints
    assert err.startswith(f"refimpl.audit: {message}")
    assert err.count("\n") == 1


def test_a_pipe_is_not_waited_for(rules, capsys):
    make_pipe(rules / "pipe.py")
    assert main(["pipe.py:krum", "--as", "krum"]) == 2
    assert capsys.readouterr().err == "refimpl.audit: cannot import pipe.py: ValueError: not a file\n"


ENDS = {"_exit(0)": "ended with status 0", "kill(getpid(), 9)": "was killed by SIGKILL"}
WITH_A_SIGNAL = pytest.param("kill(getpid(), 9)", marks=needs_signals)


@pytest.mark.parametrize("end", ["_exit(0)", WITH_A_SIGNAL])
def test_a_process_that_ends_without_a_report_is_not_right(end):
    with redirect_stderr(io.StringIO()) as said, redirect_stdout(io.StringIO()) as report:
        assert main(["os:kill", "--as", "average", "--call", f"lambda W: {end}"]) == 2
    silence = f"could not be judged: its process {ENDS[end]} without a report"
    assert (said.getvalue(), report.getvalue()) == (f"refimpl.audit: {silence}\n", "")


@pytest.mark.slow
def test_a_system_without_fork_gets_the_same_report(rules, capsys, monkeypatch):
    """There the child starts anew, and has to find the user's module and all that it was asked."""
    reports = []
    for start in ("fork", "spawn") if child.START == "fork" else ("spawn",):
        monkeypatch.setattr(child, "START", start)
        assert main(["my_rules:total", "--as", "average"]) == 1
        reports.append(re.sub(r"[0-9.]+ s\b", "", capsys.readouterr().out))
        assert main(["os:kill", "--as", "average", "--call", "lambda W: _exit(0)"]) == 2
        assert "its process ended with status 0 without a report" in capsys.readouterr().err
    assert "it is a known variant: the sum" in " ".join(reports[0].split())
    assert reports[0] == reports[-1]


@needs_shell
def test_a_reader_may_close_the_pipe():
    command = f"{sys.executable} -m refimpl.audit --list | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (0, 1, "")


def test_no_name_is_broken_and_equal_entries_are_counted():
    found = report.Counterexample("the smallest", {"W": report.format_value(np.eye(47)[:, :1])}, "", "")
    why = " ".join(f"(the own-trimmed-mean of {k})" for k in range(9))
    said = str(report.Report("it", "krum", "", "", 1, "", difference=found._replace(why=why)))
    assert said.count("own-trimmed-mean") == 9
    assert "W = [[1], [0] (46 times)] (the smallest)" in said
    assert report.format_value(np.zeros(5)) == "[0, 0, 0, 0, 0]"


@needs_full
def test_a_full_disk_is_no_verdict():
    command = f"{sys.executable} -m refimpl.audit --list >/dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (report.NOT_JUDGED, "[Errno 28] No space left on device\n")


@pytest.mark.slow
def test_nothing_but_the_judged_file_is_run(tmp_path):
    """Not even a file beside it that is called like a module which the audit, or numpy, may import later."""
    (tmp_path / "mine.py").write_text("def first(W, f):\n    return W[0]\n", encoding="utf-8")
    for name in {*sys.stdlib_module_names, "hypothesis", "pytest", "torch", "cupy", "pandas", "IPython"}:
        (tmp_path / f"{name}.py").write_text(f"print('{name} was run')\n", encoding="utf-8")
    command = [sys.executable, "-m", "refimpl.audit", str(tmp_path / "mine.py:first"), "--as", "krum"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "was run" not in done.stdout + done.stderr


def test_the_list_has_a_line_for_every_kind(capsys):
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(KINDS)]] == list(KINDS)
    assert max(map(len, lines)) <= 80
    assert "--list KIND" in lines[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_list_of_a_kind_names_every_variant(kind, capsys):
    assert main(["--list", kind]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert out.startswith(f"{kind}: ")
    for variant in VARIANTS[kind]:
        assert f"- {variant.name}: " in " ".join(out.split())
