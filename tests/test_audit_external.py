"""A program in another language as a function: what it is asked, and every way in which it may fail."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from refimpl.audit import KINDS, judge, report
from refimpl.audit.__main__ import main
from refimpl.audit.caller import same
from refimpl.audit.external import Process, understood
from refimpl.audit.kinds import cases_of
from refimpl.vectors import InputError, decode, encode

ROOT = Path(__file__).parents[1]
ASKED = [kind for kind in KINDS if not KINDS[kind].steps]
NODE, PERL = shutil.which("node"), shutil.which("perl")

pytestmark = pytest.mark.usefixtures("patient")


def program(tmp_path, body):
    """The command of a Python program, without numpy, that has `line` for each line that it reads."""
    path = tmp_path / "port.py"
    head = "import json, os, sys, time\nprint = lambda text: os.write(1, f'{text}\\n'.encode())\n"
    path.write_text(f"{head}for line in sys.stdin:\n{textwrap.indent(body, '    ')}\n", encoding="utf-8")
    return shlex.join([sys.executable, "-IS", str(path)])


AVERAGE = """
W = json.loads(line)["inputs"]["W"]
(n, d), numbers = W["shape"], list(map(float, W["data"]))
print(json.dumps({"answer": [sum(numbers[j::d]) / n for j in range(d)]}))
"""


def test_a_program_is_judged_as_a_function_is(tmp_path, capsys):
    """Its NaN and Infinity may be bare, as Python and others write them."""
    command = program(tmp_path, AVERAGE)
    assert main(["--run", command, "--as", "average", "--json"]) == report.RIGHT
    said = json.loads(capsys.readouterr().out)
    assert (said["name"], said["verdict"]) == (command, "right")
    assert said["agreement"]["apart"]["hostile"]["agreed"] == said["agreement"]["apart"]["hostile"]["of"]


def test_a_mistake_in_a_program_gets_its_name_and_an_example(tmp_path, capsys):
    assert main(["--run", program(tmp_path, AVERAGE.replace("/ n", "")), "--as", "average"]) == report.DIFFERENT
    out = " ".join(capsys.readouterr().out.split())
    assert "it is a known variant: the sum." in out
    assert "the definition: [0.5] the function: [1]" in out


@pytest.mark.slow
@pytest.mark.parametrize("kind", ASKED)
def test_every_input_can_be_sent(kind):
    for case in cases_of(kind):
        sent = json.loads(json.dumps(encode(list(case.inputs)), allow_nan=False))
        assert same(decode(sent), list(case.inputs))


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ('{"answer": [1, "NaN", "-Infinity"]}', [1, np.nan, -np.inf]),
        ('{"answer": {"shape": [2, 1], "data": [0.5, "Infinity"]}}', np.array([[0.5], [np.inf]])),
        ('{"answer": 2}', 2),
    ],
)
def test_answers_are_in_the_notation_of_the_vectors(line, answer):
    assert same(understood(line)["answer"], answer)


FAILURES = [
    ("print('hello')", "answers 'hello' to line 1: not JSON"),
    ("print('[' * 100000)", f"answers '{'[' * 57}...' to line 1: not JSON"),
    ("print([0.5])", 'answers \'[0.5]\' to line 1: needs {"answer": ...} or {"error": "..."}'),
    ("""print('{"answer": {"shape": [2], "data": [1]}}')""", "to line 1: cannot reshape array of size 1 "),
    ("sys.exit(3)", "gives no answer to line 1: it ended with status 3"),
    ("os.kill(os.getpid(), 9)", "gives no answer to line 1: it was killed by SIGKILL"),
    pytest.param(
        *("os.close(1); time.sleep(60)", "gives no answer to line 1: it has closed its output"),
        marks=pytest.mark.slow,
    ),
    ("time.sleep(60)", "gives no answer to line 1 within 0.5 s; it has to answer a line before it reads the "),
]


@pytest.mark.parametrize(("body", "line"), FAILURES)
def test_a_program_that_fails_is_one_line(tmp_path, capsys, body, line):
    limit = "0.5" if "within" in line else "60"
    assert main(["--run", program(tmp_path, body), "--as", "average", "--limit", limit]) == report.NOT_JUDGED
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"port.py {line}" in err or line in err


def test_a_program_that_fails_later_is_no_verdict(tmp_path, capsys):
    body = f"count = globals().get('count', 0) + 1\nif count > 40: sys.exit(1)\n{AVERAGE}"
    assert main(["--run", program(tmp_path, body), "--as", "average"]) == report.NOT_JUDGED
    assert "gives no answer to line 41: it ended with status 1\n" in capsys.readouterr().err


@pytest.mark.slow
def test_more_answers_than_questions_are_no_verdict(tmp_path, capsys):
    body = f"{AVERAGE}\nif 'done' not in globals(): print('{{}}')\ndone = True"
    assert main(["--run", program(tmp_path, body), "--as", "average"]) == report.NOT_JUDGED
    assert "answers '{}' to line 2: needs " in capsys.readouterr().err
    with closing(Process(program(tmp_path, f"{AVERAGE}\nprint(1)"), "average", 60)) as function:
        assert function(np.array([[1.0], [2.0]])) == [1.5]
    assert function.failure.endswith("port.py answers 2 lines where 1 were asked")


def test_an_error_is_a_refusal(tmp_path):
    body = "print(json.dumps({'error': 'needs more than 1 model'}) if '[1, 1]' in line else '{\"answer\": 3}')"
    with closing(Process(program(tmp_path, body), "average", 60)) as function:
        with pytest.raises(ValueError, match=r"^needs more than 1 model$"):
            function(np.array([[1.0]]))
        assert function(np.array([[1.0], [2.0]])) == 3
    assert function.failure == ""


def test_what_a_program_has_started_ends_with_it():
    """A script waits for another, which hangs and would keep the pipe open."""
    script = """sh -c 'read line; echo "{\\"answer\\": 1}"; while true; do sleep 1; done'; true"""
    with closing(Process(shlex.join(["sh", "-c", script]), "average", 60)) as function:
        assert function(np.array([[1.0]])) == 1
        function.limit = 0.1
        with pytest.raises(InputError, match=r"no answer to line 2 within 0.1 s"):
            function(np.array([[1.0]]))
        function.limit = 60
    assert not function.reader.is_alive()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run", "./no_such_port", "--as", "krum"], "--run './no_such_port': ./no_such_port: No such file"),
        (["--run", "", "--as", "krum"], "--run '': needs a command"),
        (["--run", "'", "--as", "krum"], '--run "\'": No closing quotation'),
        (["--run", "cat", "--as", "round"], "--run cannot ask for a round; its vectors can"),
        (["--run", "cat"], "needs MODULE:FUNCTION or --run COMMAND, and --as KIND"),
        (["os:abs", "--run", "cat", "--as", "krum"], "needs MODULE:FUNCTION or --run COMMAND, and --as KIND"),
        (["--run", "cat", "--call", "abs", "--as", "krum"], "--call and --form are for a function of Python"),
    ],
)
def test_a_bad_command_line_is_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == report.NOT_JUDGED
    err = capsys.readouterr().err
    assert err.startswith(f"refimpl.audit: {message}")
    assert err.count("\n") == 1


# --- Programs that are there ----------------------------------------------------------------------------------


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize(
    "kind", ["krum", *(pytest.param(k, marks=pytest.mark.slow) for k in ASKED if k != "krum")]
)
def test_the_port_is_right(kind):
    """In every kind that it knows."""
    port = ROOT / "examples" / "port" / "judge.mjs"
    known = re.findall(r'^  "?([\w-]+)"?: \(', port.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(known) > 15
    with closing(Process(shlex.join([NODE, str(port)]), kind, 60)) as function:
        said = judge(function, kind, form="numpy", limit=61, shrinks=False)
    assert (function.failure, said.status) == ("", report.RIGHT if kind in known else report.NOT_JUDGED), said


def test_the_example_of_the_page_is_right(tmp_path, capsys):
    if not PERL or subprocess.run([PERL, "-MJSON::PP", "-e", "1"], capture_output=True).returncode:
        pytest.skip("perl, or its module JSON::PP, is not installed")
    (example,) = re.findall(
        r"```perl\n(.*?)```", (ROOT / "docs" / "JUDGE.md").read_text(encoding="utf-8"), re.DOTALL
    )
    (tmp_path / "average.pl").write_text(example, encoding="utf-8")
    command = shlex.join([PERL, str(tmp_path / "average.pl")])
    assert main(["--run", command, "--as", "average", "--strict", "--limit", "60"]) == report.RIGHT


def test_the_lines_of_the_page_are_those_of_the_protocol(tmp_path):
    asked, answer = re.findall(
        r"^    (\{.*\})$", (ROOT / "docs" / "JUDGE.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    body = f"print({answer!r} if json.loads(line) == json.loads({asked!r}) else '{{\"answer\": 1}}')"
    inputs = decode(json.loads(asked)["inputs"])
    with closing(Process(program(tmp_path, body), "krum", 60)) as function:
        assert same(np.array(function(*inputs.values())), KINDS["krum"].define(**inputs))
