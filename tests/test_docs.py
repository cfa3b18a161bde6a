"""The pages name functions, tests and files that exist, and show what the commands print."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from refimpl.experiments import report

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *(page.relative_to(ROOT).as_posix() for page in sorted((ROOT / "docs").rglob("*.md"))),
]
MODULES = {
    ".".join(path.relative_to(ROOT / "refimpl").with_suffix("").parts): path
    for path in (ROOT / "refimpl").rglob("*.py")
    if path.stem not in ("__init__", "__main__")
}
CODE = re.compile(r"`([A-Za-z_][\w.]*)`")


def defined_in(module):
    """The names of the tests of a file; none if there is no such file."""
    path = ROOT / "tests" / f"{module}.py"
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.exists() else ast.Module([])
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


ALL_TESTS = [name for path in (ROOT / "tests").glob("test_*.py") for name in defined_in(path.stem)]


def names(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    return set(CODE.findall(re.sub(r"```.*?```", "", text, flags=re.S)))


def exists(name):
    """Does a dotted name lead to something in refimpl?"""
    module, _, rest = name.rpartition(".")
    while module and module not in MODULES:
        module, _, attribute = module.rpartition(".")
        rest = f"{attribute}.{rest}"
    if not module:
        return False
    found = importlib.import_module(f"refimpl.{module}")
    for attribute in rest.split("."):
        found = getattr(found, attribute, None) if attribute not in getattr(found, "__annotations__", {}) else 1
    return found is not None


@pytest.mark.parametrize("page", PAGES)
def test_functions_that_a_page_names_exist(page):
    dotted = {name for name in names(page) if name.split(".")[0] in {m.split(".")[0] for m in MODULES}}
    files = {name for name in dotted if name.endswith(".py")}
    missing = {name for name in dotted - files if "." in name and not exists(name)}
    missing |= {name for name in files if name[:-3].replace("/", ".") not in MODULES}
    assert not missing


@pytest.mark.parametrize("page", PAGES)
def test_tests_that_a_page_names_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    missing = set()
    for name in re.findall(r"`(?:\.\.\.|test_\w+\.)?(test_\w+?)(?:_?\.\.\.)?`", text):
        if not any(test.startswith(name) for test in ALL_TESTS) and not defined_in(name):
            missing.add(name)
    assert not missing


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    """To a file; that a heading is there too is checked by `mkdocs build --strict`."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8"))
    assert [target for target in targets if not ((ROOT / page).parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_scripts_that_a_page_names_exist(page):
    named = re.findall(r"(?:examples|studies|benchmarks)/\w+\.py", (ROOT / page).read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


FOLDED = re.compile(
    r"<summary><code>python (-m refimpl\.experiments\.report|studies/\w+\.py) ?(.*)</code> prints</summary>\n\n"
    r"((?:    .*\n|\n)+)</details>"
)
PRINTED = [
    pytest.param(*found, id=" ".join(found[:2]))
    for page in sorted((ROOT / "docs" / "results").glob("*.md"))
    for found in FOLDED.findall(page.read_text(encoding="utf-8"))
]


def printed_by(command, argument, monkeypatch):
    """What a command of a page prints; pictures are not drawn again."""
    if command.startswith("-m"):
        return report.main([str(ROOT / argument)])
    monkeypatch.syspath_prepend(str(ROOT / "studies"))
    script = importlib.import_module(Path(command).stem)
    monkeypatch.setattr(script, "draw", lambda *_: None, raising=False)
    return script.main([str(ROOT / name) if name.endswith(".csv") else name for name in argument.split()])


@pytest.mark.parametrize(("command", "argument", "table"), PRINTED)
def test_tables_of_runs_are_what_the_command_prints(command, argument, table, capsys, monkeypatch):
    assert printed_by(command, argument, monkeypatch) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.strip("\n").splitlines()]
    assert [line[4:] for line in table.strip("\n").splitlines()] == printed


def test_every_csv_of_runs_has_a_table():
    """But for those whose pages are written by studies/systems.py, attacks.py and talking.py."""
    shown = " ".join(argument for param in PRINTED for argument in param.values[:2])
    by_studies = {"systems", "attacks", "talking"}
    files = {path.stem for path in (ROOT / "docs" / "results").glob("*.csv")} - by_studies
    assert {name for name in files if f"/{name}." not in shown} == set()
