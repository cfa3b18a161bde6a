"""What README.md says about the code is true."""

import re
import shlex
from fractions import Fraction
from pathlib import Path

import pytest

from refimpl.audit.__main__ import main as audit
from refimpl.related import SYSTEMS

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_example_gives_what_its_comments_say():
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {}
    exec(block, names)
    assert [Fraction(c).limit_denominator(100) for c in names["c"]] == [Fraction(4, 9), Fraction(5, 9), 0]
    assert names["w"] == pytest.approx([1, 5])
    assert "[4/9, 5/9, 0]" in block
    assert "[1, 5]" in block


def test_the_judge_finds_what_the_page_says(capsys, patient):
    commands = README.replace("\\\n", " ").splitlines()
    (command,) = (shlex.split(line) for line in commands if "refimpl.audit scipy" in line)
    assert audit(command[3:]) == 1
    (found,) = re.findall(r'The second finds "(.*)"', README)
    assert found in " ".join(capsys.readouterr().out.split())


def test_it_counts_the_systems():
    (said,) = re.findall(r"(\d+) other systems", README)
    assert int(said) == len(SYSTEMS)


def test_the_windows_commands_are_those_of_the_test():
    """Without && and quotes, which its shells do not have, and with its folder for programs."""
    (commands,) = re.findall(r"Set up and test:\n\n((?:    .*\n)+)", README)
    (windows,) = re.findall(r"On Windows.*:\n\n((?:    .*\n)+)", README)
    same = commands.replace(" &&", "").replace("python3", "py").replace("bin/", "Scripts/").replace("'", '"')
    assert windows == same.replace("/", "\\")
