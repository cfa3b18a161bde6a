"""What a fingerprint depends on: the configuration, the data, the entries and the code of a run."""

import dataclasses
import functools
import re
import shutil
from pathlib import Path

import pytest

import data_loaders
import refimpl
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments import fingerprint, tasks
from refimpl.experiments.config import Config
from refimpl.experiments.fingerprint import bare, code_of
from refimpl.related import SYSTEMS
from refimpl.related import rules as related_rules

CONFIG = Config(
    task="spambase", rule="adaptive", attack="sign-flip", seed=0, graph="complete",
    **tasks.TASKS["spambase"].defaults,
)  # fmt: skip


def config(**changes):
    return dataclasses.replace(CONFIG, **changes)


# --- Sources ------------------------------------------------------------------------------------------------

SOURCE = '''
class A:
    """About it."""

    x: int
    """about x"""

    def f(self):
        """Only this."""
        return "text", 1  # one
'''


def test_comments_docstrings_and_layout_do_not_count_but_code_does():
    same = SOURCE.replace("About it", "Else").replace("about x", "else").replace("Only this", "That")
    same = same.replace("# one", "# 1").replace('"text", 1', '("text",\n            1)')
    assert bare(same) == bare(SOURCE)
    for old, new in (("1  #", "2  #"), ('"text"', '"other"'), ("x: int", "y: int"), ("def f", "def g")):
        assert bare(SOURCE.replace(old, new)) != bare(SOURCE)


# --- Which code counts --------------------------------------------------------------------------------------


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """The folder of a copy of both packages, which is what is looked at."""
    for package in (refimpl, data_loaders):
        sources = shutil.ignore_patterns("__pycache__", "*.csv", "*.json", "*.data", "*.gz", "*.zip")
        shutil.copytree(
            Path(package.__file__).parent, tmp_path / package.__name__, symlinks=True, ignore=sources
        )
    monkeypatch.setattr(fingerprint, "FOLDERS", {name: tmp_path / name for name in fingerprint.FOLDERS})
    monkeypatch.setattr(fingerprint, "code_digest", fingerprint.code_digest.__wrapped__)
    return tmp_path


def edited(path):
    """Adds a line of code."""
    path.write_text(f"{path.read_text(encoding='utf-8')}\nEDITED = True\n", encoding="utf-8")


METHODS = {
    "fast": {},
    "plain": {"plain": True},
    "released": {"released": ("lower-median",)},
    "released plain": {"released": ("lower-median",), "plain": True},
    "outputs": {"released": ("sigmoid-outputs",)},
    "system": {"rule": "d-sgd"},
    "system plain": {"rule": "d-sgd", "plain": True},
}
RELEASED, SYSTEM = {"released", "released plain", "outputs"}, {"system", "system plain"}
FAST = {"fast", "released", "outputs"}
COUNTS = {
    "refimpl/algorithm.py": METHODS,
    "refimpl/aggregate.py": METHODS,
    "refimpl/attacks.py": METHODS,
    "refimpl/layers.py": METHODS,
    "refimpl/models.py": METHODS,
    "refimpl/optim.py": METHODS,
    "refimpl/graphs.py": METHODS,
    "refimpl/draws.py": METHODS,
    "refimpl/arrays.py": METHODS,
    "refimpl/train.py": METHODS,
    "refimpl/engine.py": METHODS,
    "refimpl/methods.py": METHODS,
    "refimpl/experiments/run.py": METHODS,
    "refimpl/experiments/tasks.py": METHODS,
    "refimpl/experiments/config.py": METHODS,
    "data_loaders/spambase.py": METHODS,
    "data_loaders/partition.py": METHODS,
    "refimpl/fast/engine.py": FAST,
    "refimpl/fast/rules.py": FAST,
    "refimpl/fast/networks.py": FAST | {"system"},
    "refimpl/fast/released.py": {"released"},
    "refimpl/released.py": RELEASED,
    "refimpl/related/systems.py": SYSTEM,
    "refimpl/related/schedules.py": SYSTEM,
    "refimpl/peers.py": (),
    "refimpl/audit/__main__.py": (),
    "refimpl/__init__.py": (),
    "refimpl/experiments/__init__.py": (),
    "refimpl/experiments/cli.py": (),
    "refimpl/experiments/options.py": (),
    "refimpl/experiments/grid.py": (),
    "refimpl/experiments/cluster.py": (),
    "refimpl/experiments/watch.py": (),
    "refimpl/experiments/checkpoints.py": (),
    "refimpl/experiments/results.py": (),
    "refimpl/experiments/figures.py": (),
    "refimpl/experiments/fingerprint.py": (),
}
"""By file, the runs that an edit of it makes invalid."""


@pytest.mark.parametrize("file", COUNTS)
def test_an_edit_counts_for_the_runs_that_reach_the_file_and_for_no_others(copies, file):
    before = {name: code_of(config(**changes)) for name, changes in METHODS.items()}
    assert all(re.fullmatch("[0-9a-f]{16}", digest) for digest in before.values())
    edited(copies / file)
    changed = {name for name, changes in METHODS.items() if code_of(config(**changes)) != before[name]}
    assert changed == set(COUNTS[file])


def test_a_new_file_counts_once_something_that_counts_imports_it(copies):
    before = code_of(config())
    (copies / "refimpl/fast/new.py").write_text("x = 1\n", encoding="utf-8")
    (copies / "refimpl/experiments/new_figure.py").write_text(
        "from refimpl.fast import new\n", encoding="utf-8"
    )
    assert code_of(config()) == before
    engine = copies / "refimpl/fast/engine.py"
    engine.write_text(f"{engine.read_text(encoding='utf-8')}\nfrom refimpl.fast import new\n", encoding="utf-8")
    imports = code_of(config())
    assert imports != before
    (copies / "refimpl/fast/new.py").write_text("x = 2\n", encoding="utf-8")
    assert code_of(config()) not in (before, imports)


def test_a_comment_in_a_file_that_counts_does_not(copies):
    before = code_of(config())
    path = copies / "refimpl/aggregate.py"
    path.write_text(f'{path.read_text(encoding="utf-8")}\n"""About."""  # one\n', encoding="utf-8")
    assert code_of(config()) == before


def test_a_function_of_the_package_that_no_engine_imports_counts_where_an_entry_uses_it(copies, monkeypatch):
    borrowed = RULES["median"]._replace(compute=lambda *args: None)
    borrowed.compute.__module__ = related_rules.__name__
    monkeypatch.setitem(RULES, "borrowed", borrowed)
    before, other = code_of(config(rule="borrowed")), code_of(config())
    edited(copies / "refimpl/related/rules.py")
    assert code_of(config(rule="borrowed")) != before
    assert code_of(config()) == other


def test_the_walk_follows_every_form_of_import():
    source = """
import refimpl.graphs
from refimpl import draws, __version__
from refimpl.fast.engine import engine
def later():
    from data_loaders import har
"""
    names = ["refimpl.graphs", "refimpl.draws", "refimpl", "refimpl.fast.engine", "data_loaders.har"]
    assert list(fingerprint.imported(source)) == names
    assert "refimpl.fast.rules" in fingerprint.reached(["refimpl.fast.engine"])
    assert "numpy" not in fingerprint.reached(["refimpl.fast.engine"])


# --- Entries ------------------------------------------------------------------------------------------------


def scaled(factor, own, honest, signals):
    return factor * own


def typed(expression):
    """A function without a source file."""
    return eval(expression, {"__name__": "nowhere"})


def test_a_function_among_bound_arguments_counts_by_its_code_not_by_its_address():
    one, again, other = (
        fingerprint.described(functools.partial(scaled, own=typed(f"lambda x: x + {n}"))) for n in (1, 1, 2)
    )
    assert one == again != other


def test_the_entries_that_a_run_uses_count_and_no_others(monkeypatch):
    """Their plain fields, the functions that they name, bound arguments and a user's own code."""
    rule, attack = RULES["adaptive"], ATTACKS["sign-flip"]
    changes = [
        (tasks.TASKS, "spambase", tasks.TASKS["spambase"]._replace(test_share=0.3)),
        (RULES, "adaptive", RULES["inverse-risk"]._replace(label="adaptive")),
        (ATTACKS, "sign-flip", attack._replace(send=functools.partial(scaled, 1))),
        (ATTACKS, "sign-flip", attack._replace(send=functools.partial(scaled, 2))),
        (RULES, "adaptive", rule._replace(compute=typed("lambda W, risks, own, f: risks"))),
        (RULES, "adaptive", rule._replace(compute=typed("lambda W, risks, own, f: -risks"))),
    ]
    before, found = fingerprint.fingerprint(config(), "data"), []
    for table, name, entry in changes:
        with monkeypatch.context() as patch:
            patch.setitem(table, name, entry)
            found.append(fingerprint.fingerprint(config(), "data"))
            assert fingerprint.fingerprint(config(), "data") == found[-1]
    found.append(fingerprint.fingerprint(config(), "other data"))
    assert len({before, *found}) == 2 + len(changes)
    monkeypatch.setitem(RULES, "median", RULES["krum"])
    assert fingerprint.fingerprint(config(), "data") == before


def test_a_schedule_and_a_system_of_ones_own_count(monkeypatch):
    system, average = (fingerprint.fingerprint(config(rule=rule), "data") for rule in ("d-sgd", "average"))
    assert fingerprint.fingerprint(config(rule="d-sgd", graph_schedule="matching"), "data") != system
    monkeypatch.setitem(SYSTEMS, "d-sgd", SYSTEMS["d-psgd"])
    assert fingerprint.fingerprint(config(rule="d-sgd"), "data") != system
    assert fingerprint.fingerprint(config(rule="average"), "data") == average


def test_every_field_counts_but_the_device():
    before = fingerprint.fingerprint(config(), "data")
    for change in ({"lr": 0.02}, {"plain": True}, {"l2": 0.1}, {"graph": "ring"}, {"released": ("adam",)}):
        assert fingerprint.fingerprint(config(**change), "data") != before
    assert fingerprint.fingerprint(config(device=1), "data") == before
