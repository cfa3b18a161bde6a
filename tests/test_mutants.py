"""Every mutant of mutants/ is noticed by the tests that it names.

The tests are called directly, on a copy of their module that is imported after the mistake was patched in. Its
hypothesis tests draw the same examples every time and do not shrink.
"""

import contextlib
import importlib.util
from pathlib import Path

import hypothesis
import pytest
from mutants import MUTANTS

DETERMINISTIC = hypothesis.settings(
    max_examples=400,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(hypothesis.HealthCheck),
)


def copy_of(module):
    spec = importlib.util.spec_from_file_location(f"{module}_copy", Path(__file__).with_name(f"{module}.py"))
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    for name, test in list(vars(copy).items()):
        if name.startswith("test_") and hasattr(test, "hypothesis"):
            DETERMINISTIC(test)
    return copy


@pytest.mark.parametrize(
    ("where", "name", "mutate", "killers"), [mutant[1:] for mutant in MUTANTS], ids=[m.about for m in MUTANTS]
)
@pytest.mark.slow
def test_a_mutant_is_killed(where, name, mutate, killers, monkeypatch, request):
    if request.config.getoption("--on", default=None):
        pytest.skip("mutants are written for numpy")
    if isinstance(where, dict):
        monkeypatch.setitem(where, name, mutate(where[name]))
    else:
        monkeypatch.setattr(where, name, mutate(getattr(where, name)))
    for module, test, parameters in killers:
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            call(module, test, parameters)


KILLERS = {str(killer): killer for mutant in MUTANTS for killer in mutant.killers}


@pytest.mark.parametrize(("module", "test", "parameters"), KILLERS.values(), ids=range(len(KILLERS)))
@pytest.mark.slow
def test_what_kills_a_mutant_passes_without_one(module, test, parameters):
    if not hasattr(getattr(importlib.import_module(module), test), "hypothesis"):  # these would take minutes
        call(module, test, parameters)


def call(module, test, parameters):
    """The test, on a copy of its module, in the surroundings that the module wants for its tests."""
    copy = copy_of(module)
    with getattr(copy, "surroundings", contextlib.nullcontext)():
        getattr(copy, test)(**parameters)


def test_mutants_patch_public_names_only():
    assert not [mutant.name for mutant in MUTANTS if str(mutant.name).startswith("_")]


@pytest.mark.parametrize("module", ["test_weights", "test_aggregate", "test_attacks"])
def test_every_property_kills_a_mutant(module):
    """A property that no mistake breaks says nothing."""
    properties = {name for name, test in vars(copy_of(module)).items() if hasattr(test, "hypothesis")}
    used = {test for mutant in MUTANTS for file, test, _ in mutant.killers if file == module}
    assert properties - used == set()
