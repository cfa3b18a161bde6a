"""examples/plain.py: the run that an auditor reads is the run of the command line, and stays small."""

import importlib.util
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal
from test_specification import entered, imports

import data_loaders
import refimpl
from refimpl import train
from refimpl.experiments import cli, tasks
from refimpl.experiments.options import parser

EXAMPLES = Path(__file__).parents[1] / "examples"
PACKAGES = [str(Path(package.__file__).parent) for package in (refimpl, data_loaders)]


@pytest.fixture(scope="module")
def plain():
    spec = importlib.util.spec_from_file_location("plain", EXAMPLES / "plain.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def trained():
    """What examples/spambase.py computes with these options, and --plain."""
    given = ["--plain", "--rules", "adaptive", "--attacks", "alie", "--epochs", "1"]
    (config,) = cli.configs("spambase", parser("spambase").parse_args(given))
    setting, test, W = tasks.build(config)
    return train.run(setting, test, W, config.seed, config.epochs)


def test_it_ends_with_the_parameters_of_the_command_line(plain):
    assert_array_equal(plain.main(epochs=1), trained().W)


def test_it_prints_the_worst_accuracy_of_the_command_line(plain, capsys):
    plain.main(epochs=1)
    (worst,) = trained().history["worst_own"]
    assert capsys.readouterr().out.endswith(f" own split: {worst:.4f}\n")


def test_it_enters_few_files_and_functions(plain):
    """So that the whole can be verified in one sitting. A comprehension belongs to the function around it."""
    inner = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
    functions = {
        (file, line, name)
        for file, line, name in entered(lambda: plain.main(epochs=1))
        if file.startswith(tuple(PACKAGES)) and name not in inner
    }
    assert len({file for file, _, _ in functions}) <= 9
    assert len(functions) <= 38


def test_it_uses_nothing_but_the_specification_and_the_loaders(plain):
    used = imports(EXAMPLES / "plain.py")
    assert not {
        name for name in used if name.startswith(("refimpl.experiments", "refimpl.fast", "refimpl.train"))
    }
