"""What would work on one platform and not on another is not in the code."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = ("refimpl", "data_loaders", "examples", "studies", "benchmarks")
FILES = [path for name in (*PRODUCT, "tests", ".ci") for path in sorted((ROOT / name).rglob("*.py"))]
# What Python has on POSIX only, but for `resource`, which benchmarks/scale.py does without if it has to.
POSIX = {"fcntl", "grp", "pwd", "termios", "os.fork", "os.getuid", "os.geteuid", "os.kill", "os.killpg"} | {
    "os.mkfifo", "os.sched_getaffinity", "os.setsid", "os.uname", "signal.SIGHUP", "signal.SIGKILL"
}  # fmt: skip


def without_encoding(text):
    """The lines of calls that read or write text in whatever encoding the platform has."""
    for call in ast.walk(ast.parse(text)):
        if isinstance(call, ast.Call) and "encoding" not in {keyword.arg for keyword in call.keywords}:
            owner, _, name = ast.unparse(call.func).rpartition(".")
            modes = [str(a.value) for a in call.args if isinstance(a, ast.Constant)]
            opens = name == "open" and owner not in ("os", "gzip") and not any("b" in mode for mode in modes)
            if name in ("read_text", "write_text") or opens:
                yield call.lineno


def test_the_walk_sees_what_has_no_encoding():
    calls = ["path.read_text()", "open(path)", "open(path, 'wb')", "os.open(path)", "path.open('w')"]
    assert list(without_encoding("\n".join([*calls, "open(path, encoding='ascii')"]))) == [1, 2, 5]


def test_text_has_an_encoding():
    found = {path: list(without_encoding(path.read_text(encoding="utf-8"))) for path in FILES}
    assert len(found) > 200
    assert {str(path): lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize("folder", PRODUCT)
def test_nothing_needs_what_windows_does_not_have(folder):
    for path in (ROOT / folder).rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        used = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
        imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        assert (used | imported) & POSIX == set(), path
