"""docs/AUDIT.md names nothing that does not exist: every word in code type is looked up."""

import re

import pytest
from test_docs import ROOT, defined_in, exists

from data_loaders.partition import PARTITIONS
from refimpl.attacks import ATTACKS
from refimpl.experiments import tasks
from refimpl.experiments.options import parser
from refimpl.experiments.results import NUMBERS
from refimpl.methods import names
from refimpl.released import DIFFERENCES

PAGE = (ROOT / "docs" / "AUDIT.md").read_text(encoding="utf-8")
PROSE = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
WORDS = {*names(), *ATTACKS, *PARTITIONS, *DIFFERENCES, *NUMBERS, "own", "whole"}
WORDS |= {"no-coop", "pytest"}  # of the released code; a command
OPTIONS = {option for action in parser("spambase")._actions for option in action.option_strings}


def found(word):
    """Whether a word of code exists: a file, a test in its file, an option, an entry of a table, a name."""
    file, _, test = word.partition(".")
    if word.startswith("-"):
        return word in OPTIONS
    if "/" in word:
        return (ROOT / word).exists()
    if test.endswith("..."):  # a long name, cut: the beginning of one test only
        return len([name for name in defined_in(file) if name.startswith(test[:-3])]) == 1
    if file.startswith("test_"):
        return test in defined_in(file) if test else bool(defined_in(file))
    return word in WORDS or ("." in word and exists(word))


def words(text):
    """The words in code type; of a command the files and the options, but not their values."""
    for span in re.findall(r"`([^`]+)`", text):
        command = " " in span
        yield from (word for word in span.split() if not command or word.startswith("--") or "/" in word)


def test_all_that_the_audit_names_exists():
    assert [word for word in words(PROSE) if not found(word)] == []


@pytest.mark.parametrize(
    "word",
    [
        "aggregate.krumm",
        "tests/oracle.py",
        "test_theory.test_lemma_2",
        "test_weights.test_lemma_1",  # of another file
        "test_theory.test_lemma...",  # several
        "test_lemma",
        "--riks",
        "median-of-means",
        "krum.aggregate",
    ],
)
def test_a_name_that_leads_nowhere_is_noticed(word):
    assert not found(word)


def test_tables_are_narrow():
    """Four columns at most, so that all of them are on the screen."""
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert max(len(re.findall(r"(?<!\\)\|", row)) for row in rows) <= 5


def test_code_in_the_page_runs():
    """With two draws instead of 2000, and two seeds and an epoch of large batches instead of 10 and 60."""
    code = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    quick = {"2000": "2", "range(10)": "range(2)", '"epochs": 60': '"epochs": 1, "batch_size": 200'}
    assert [sum(long in some for some in code) for long in quick] == [1, 1, 1]
    for some in code:
        for long, short in quick.items():
            some = some.replace(long, short)
        tasks.forget()  # the rows that another test has dealt
        exec(some, {})
    tasks.forget()
