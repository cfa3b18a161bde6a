"""What setup.cfg declares is what is there, and what .ci/run and the forge's workflow test."""

import os
import re
import runpy
from configparser import ConfigParser
from pathlib import Path

import pytest

import refimpl

ROOT = Path(__file__).parents[1]
minimums = runpy.run_path(str(ROOT / ".ci" / "minimums.py"))["minimums"]
SETUP = """
[options]
install_requires =
    numpy>=2.0
    scipy>=1.13.1
[options.extras_require]
examples = tqdm>=4.60
lint = ruff==0.17.4
"""


def test_the_oldest_versions_of_a_setup():
    assert minimums(SETUP, []) == ["numpy==2.0", "scipy==1.13.1"]
    assert minimums(SETUP, ["lint", "examples"])[2:] == ["ruff==0.17.4", "tqdm==4.60"]
    with pytest.raises(KeyError):
        minimums(SETUP, ["exmaples"])


def test_every_requirement_has_a_lower_bound():
    """And nothing else, so that there is one oldest version of each."""
    text = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    pins = minimums(text, ["examples", "test", "oracles", "bench", "lint"])
    assert len(pins) > 10
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", pin) for pin in pins)


def test_the_workflow_starts_at_the_oldest_python():
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    oldest, newest = re.search(r'python: \["(.+)", "(.+)"\]', workflow).groups()
    assert config["options"]["python_requires"] == f">={oldest}"
    assert int(newest.split(".")[1]) > int(oldest.split(".")[1])
    assert "run: .ci/run" in workflow


def test_the_workflow_runs_the_readmes_commands_where_there_is_no_bash():
    """On Windows with python for py, which would take another Python than that of the matrix."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    for system, after, py in (("macOS", "Set up and test:", "python3"), ("Windows", "On Windows, .*:", "py")):
        (commands,) = re.findall(rf"{after}\n\n((?:    .*\n)+)", readme)
        (run,) = re.findall(rf"runner.os == '{system}'.*\n        run: \|\n((?: {{10}}.*\n)+)", workflow)
        expected = re.sub(r"^ *py ", "python ", commands, flags=re.M) if py == "py" else commands
        assert [line.strip() for line in run.splitlines()] == [line.strip() for line in expected.splitlines()]


def test_one_version_is_cited():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {refimpl.__version__}\n" in citation
    (year,) = re.findall(r"\ndate-released: (\d{4})-\d\d-\d\d\n", citation)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"version = {{{refimpl.__version__}}}, year = {{{year}}}" in readme


def test_what_the_workflow_runs_can_be_run():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_a_wheel_holds_every_package_and_every_file_in_it():
    """No file is a link: a clone on Windows would get the text of its path."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    listed = {name for name in config["options"]["packages"].split() if name.startswith("refimpl")}
    folders = {path.parent for path in (ROOT / "refimpl").rglob("__init__.py")}
    assert listed == {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    data = {
        path
        for package in listed & set(config["options.package_data"])
        for pattern in config["options.package_data"][package].split(", ")
        for path in ROOT.joinpath(*package.split(".")).glob(pattern)
    }
    found = [path for path in (ROOT / "refimpl").rglob("*.*") if "__pycache__" not in path.parts]
    assert data == {path for path in found if path.suffix != ".py"}
    assert not any(path.is_symlink() for path in (ROOT / "refimpl").rglob("*"))
