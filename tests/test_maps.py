"""The maps of files, in the packages' docstrings and in CONTRIBUTING.md, are those of the folders."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(
    path.parent for top in ("refimpl", "data_loaders") for path in (ROOT / top).rglob("__init__.py")
)


def mapped(package):
    """The names in a package's map: lines "name.py   what it holds" of its docstring, "name/" for a package."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    return re.findall(r"^ *([\w.]+(?:\.py|/)) +\S", text, re.MULTILINE)


def held(package):
    """The modules and the packages in a folder."""
    modules = [path.name for path in package.glob("*.py") if not path.name.startswith("__")]
    return modules + [f"{path.parent.name}/" for path in package.glob("*/__init__.py")]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_map_names_every_file_once(package):
    if len(held(package)) > 1:
        assert sorted(mapped(package)) == sorted(held(package))


def test_contributing_names_every_package_and_no_file_that_is_not_there():
    folders = "refimpl|tests|examples|benchmarks|studies|docs|data_loaders"
    named = set(
        re.findall(rf"`((?:{folders})/[\w./]*)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    )
    assert {name for name in named if not (ROOT / name).exists()} == set()
    assert {f"refimpl/{name}" for name in held(ROOT / "refimpl") if name.endswith("/")} <= named
