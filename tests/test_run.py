"""One run: what it starts from, what is refused, and that only the code of its fingerprint computes it."""

import dataclasses
import sys
from pathlib import Path

import pytest

import data_loaders
import refimpl
from refimpl.experiments import fingerprint, run, tasks
from refimpl.experiments.config import Config
from refimpl.related import SYSTEMS

CONFIG = Config(
    task="spambase", rule="adaptive", attack="arbitrary", seed=0, graph="complete",
    **tasks.TASKS["spambase"].defaults | {"epochs": 1, "batch_size": 200},
)  # fmt: skip


def config(**changes):
    return dataclasses.replace(CONFIG, **changes)


def test_a_run_is_prepared_with_all_that_it_starts_from():
    ready = run.prepare(config(epochs=3))
    assert (ready.rounds_per_epoch, ready.rounds, ready.evaluate_every) == (2, 6, 1)
    assert ready.W.shape == (10, ready.setting.model.layout.size)
    assert (ready.setting.rule, ready.method.rule, ready.schedule) == ("adaptive", "adaptive", None)
    system = run.prepare(config(rule="sgp", graph_schedule="matching"))
    assert (system.setting.rule, system.method.entry) == ("", SYSTEMS["sgp"])
    assert system.schedule(1).sum() == 20


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rule": "krum", "graph": "ring"}, "worker .*, with 2 neighbours: krum needs"),
        ({"rule": "krum", "graph_schedule": "matching"}, "rule krum needs a graph that stays the same"),
        ({"rule": "bulyan"}, "bulyan: worker .*, with 9 neighbours: "),
        ({"rule": "d-sgd", "released": ("smoothed-risk",)}, "system d-sgd knows no smoothed-risk"),
    ],
)
def test_what_cannot_be_computed_is_refused_beforehand(changes, message):
    ready = run.prepare(config(**changes))
    with pytest.raises(ValueError, match=message):
        run.check(ready)


def entered(command):
    """The names of the modules of both packages of which a function is entered while the command runs."""
    files = set()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: files.add(frame.f_code.co_filename))
    try:
        command()
    finally:
        sys.setprofile(before)
    found = set()
    for package in (refimpl, data_loaders):
        folder = Path(package.__file__).parent
        inside = [Path(file).relative_to(folder.parent) for file in files if Path(file).is_relative_to(folder)]
        found |= {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in inside}
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"plain": True},
        {"rule": "krum", "optimizer": "adam", "graph": "regular:8", "attack": "foe"},
        {"released": ("smoothed-risk", "lower-median", "sigmoid-outputs")},
        {"released": ("smoothed-risk", "lower-median"), "plain": True},
        {"rule": "d-sgd", "graph_schedule": "matching"},
        {"rule": "multi-task", "plain": True},
        {"task": "digits", "partition": "two-labels", "features": "raw", "dtype": "float32"},
    ],
    ids=lambda changes: " ".join(map(str, changes.values())) or "fast",
)
def test_a_run_enters_no_module_that_its_fingerprint_does_not_reach(changes):
    tasks.forget()
    c = config(**changes)
    there = entered(lambda: run.compute(run.prepare(c)))
    assert "refimpl.experiments.run" in there
    roots = (fingerprint.RUN, *tasks.method_of(c).modules)
    assert there - fingerprint.reached(roots).keys() == set()
