"""The versions that setup.cfg declares are those that .ci/run and the forge's workflow test."""

import re
import runpy
from configparser import ConfigParser
from pathlib import Path

import pytest

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
    text = (ROOT / "setup.cfg").read_text()
    pins = minimums(text, ["examples", "test", "oracles", "bench", "lint"])
    assert len(pins) > 10
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", pin) for pin in pins)


def test_the_workflow_starts_at_the_oldest_python():
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    oldest, newest = re.search(r'python: \["(.+)", "(.+)"\]', workflow).groups()
    assert config["options"]["python_requires"] == f">={oldest}"
    assert int(newest.split(".")[1]) > int(oldest.split(".")[1])
    assert "run: .ci/run" in workflow
