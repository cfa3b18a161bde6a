"""What a fingerprint depends on: the configuration, the data, the entries and the code of a run."""

import contextlib
import dataclasses
import functools
import re
import subprocess
import sys
from unittest import mock

import pytest

import refimpl
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS, KNOWLEDGE
from refimpl.experiments import fingerprint, tasks
from refimpl.experiments.config import Config
from refimpl.experiments.fingerprint import origin_of, parsed
from refimpl.related import SYSTEMS
from refimpl.related import rules as related_rules

CONFIG = Config(
    task="spambase", rule="adaptive", attack="sign-flip", seed=0, graph="complete",
    **tasks.TASKS["spambase"].defaults,
)  # fmt: skip


def config(**changes):
    return dataclasses.replace(CONFIG, **changes)


def code_of(c):
    return origin_of(c).code


def digits_of(c, data="data"):
    return fingerprint.fingerprint(c, data, origin_of(c))


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
    assert parsed(same).bare == parsed(SOURCE).bare
    for old, new in (("1  #", "2  #"), ('"text"', '"other"'), ("x: int", "y: int"), ("def f", "def g")):
        assert parsed(SOURCE.replace(old, new)).bare != parsed(SOURCE).bare


# --- Which code counts --------------------------------------------------------------------------------------


@contextlib.contextmanager
def editing():
    """Within it, the sources by module may be changed."""
    sources = dict(fingerprint.SOURCES)
    uncached = fingerprint.code_digest.__wrapped__
    with mock.patch.multiple(fingerprint, SOURCES=sources, code_digest=uncached):
        yield sources


IN_MEMORY = """
import sys
from refimpl import methods, run
from refimpl.experiments import fingerprint
released = tuple(name for name in methods.DIFFERENCES if methods.DIFFERENCES[name].in_round)[:1]
found = [methods.find("krum", on, plain).modules for on in ((), released) for plain in (True, False)]
print(set(fingerprint.reached(sum(found, ()))) - set(sys.modules))
"""


def test_a_notebook_has_in_memory_what_its_fingerprints_are_of():
    """Its engines are not imported at the first run, by when the files may have been edited."""
    done = subprocess.run([sys.executable, "-c", IN_MEMORY], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_all_files_of_the_package_are_known_by_the_names_of_their_modules():
    known = fingerprint.SOURCES
    assert {"refimpl", "refimpl.algorithm", "refimpl.fast.engine", "data_loaders.har"} <= set(known)
    assert "def local_step(" in known["refimpl.algorithm"]


def test_an_edit_after_the_import_does_not_count(tmp_path, monkeypatch):
    """The code in memory is that of the import; a process that starts later has another fingerprint."""
    package = tmp_path / "refimpl"
    package.mkdir()
    monkeypatch.setattr(refimpl, "__file__", str(package / "__init__.py"))
    before = code_of(config())
    (package / "aggregate.py").write_text("x = 1\n", encoding="utf-8")
    fingerprint.code_digest.cache_clear()
    assert code_of(config()) == before
    assert fingerprint.read_sources()["refimpl.aggregate"] == "x = 1\n"


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
    "refimpl.algorithm": METHODS,
    "refimpl.aggregate": METHODS,
    "refimpl.attacks": METHODS,
    "refimpl.layers": METHODS,
    "refimpl.models": METHODS,
    "refimpl.optim": METHODS,
    "refimpl.graphs": METHODS,
    "refimpl.draws": METHODS,
    "refimpl.arrays": METHODS,
    "refimpl.train": METHODS,
    "refimpl.engine": METHODS,
    "refimpl.methods": METHODS,
    "refimpl.experiments.run": METHODS,
    "refimpl.experiments.tasks": METHODS,
    "refimpl.experiments.config": METHODS,
    "data_loaders.spambase": METHODS,
    "data_loaders.partition": METHODS,
    "refimpl.fast.engine": FAST,
    "refimpl.fast.rules": FAST,
    "refimpl.fast.networks": FAST | {"system"},
    "refimpl.fast.released": {"released"},
    "refimpl.released": RELEASED,
    "refimpl.related.systems": SYSTEM,
    "refimpl.related.schedules": SYSTEM,
    "refimpl.peers": (),
    "refimpl.audit.__main__": (),
    "refimpl": (),
    "refimpl.experiments": (),
    "refimpl.experiments.cli": (),
    "refimpl.experiments.runner": (),
    "refimpl.experiments.options": (),
    "refimpl.experiments.grid": (),
    "refimpl.experiments.cluster": (),
    "refimpl.experiments.watch": (),
    "refimpl.experiments.checkpoints": (),
    "refimpl.experiments.results": (),
    "refimpl.experiments.figures": (),
    "refimpl.experiments.fingerprint": (),
    "refimpl.experiments.contents": (),
    "refimpl.experiments.registry": (),
}
"""By module, the runs that an edit of it makes invalid."""


@pytest.mark.parametrize("module", COUNTS)
def test_an_edit_counts_for_the_runs_that_reach_the_module_and_for_no_others(module):
    with editing() as sources:
        assert module in sources
        before = {name: code_of(config(**changes)) for name, changes in METHODS.items()}
        assert all(re.fullmatch("[0-9a-f]{16}", digest) for digest in before.values())
        sources[module] += "\nEDITED = True\n"
        changed = {name for name, changes in METHODS.items() if code_of(config(**changes)) != before[name]}
    assert changed == set(COUNTS[module])


def test_a_new_module_counts_once_something_that_counts_imports_it():
    with editing() as sources:
        before = code_of(config())
        sources["refimpl.fast.new"] = "x = 1\n"
        sources["refimpl.experiments.new_figure"] = "from refimpl.fast import new\n"
        assert code_of(config()) == before
        sources["refimpl.fast.engine"] += "\nfrom refimpl.fast import new\n"
        imports = code_of(config())
        assert imports != before
        sources["refimpl.fast.new"] = "x = 2\n"
        assert code_of(config()) not in (before, imports)


def test_a_comment_in_a_module_that_counts_does_not():
    with editing() as sources:
        before = code_of(config())
        sources["refimpl.aggregate"] += '\n"""About."""  # one\n'
        assert code_of(config()) == before


BORROWED = {
    "the package's": lambda W, risks, own, f: related_rules.geometric_median(W),
    "bound": functools.partial(related_rules.geometric_median),
}


@pytest.mark.parametrize("how", BORROWED)
def test_a_module_that_no_engine_imports_counts_where_an_entry_uses_it(monkeypatch, how):
    with editing() as sources:
        monkeypatch.setitem(RULES, "borrowed", RULES["median"]._replace(compute=BORROWED[how]))
        before, other = code_of(config(rule="borrowed")), code_of(config())
        sources["refimpl.related.rules"] += "\nEDITED = True\n"
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
    assert parsed(source).imports == names
    assert "refimpl.fast.rules" in fingerprint.reached(["refimpl.fast.engine"])
    assert "numpy" not in fingerprint.reached(["refimpl.fast.engine"])


# --- Entries ------------------------------------------------------------------------------------------------


def scaled(factor, own):
    return factor * own


def blended(beta):
    return lambda W, risks, own, f: beta * W[own]


def test_the_entries_that_a_run_uses_count_and_no_others(monkeypatch):
    """Their plain fields, the functions that they name, bound arguments and a user's own code."""
    rule, attack = RULES["adaptive"], ATTACKS["sign-flip"]
    changes = [
        (tasks.TASKS, "spambase", tasks.TASKS["spambase"]._replace(test_share=0.3)),
        (tasks.TASKS, "spambase", tasks.TASKS["spambase"]._replace(model=tasks.TASKS["har"].model)),
        (RULES, "adaptive", RULES["inverse-risk"]),
        (ATTACKS, "sign-flip", attack._replace(send=functools.partial(scaled, 1))),
        (ATTACKS, "sign-flip", attack._replace(send=functools.partial(scaled, 2))),
        (KNOWLEDGE, "own", KNOWLEDGE["own"]._replace(of=lambda view: view.own + 1)),
        (RULES, "adaptive", rule._replace(compute=lambda W, risks, own, f: risks)),
        (RULES, "adaptive", rule._replace(compute=lambda W, risks, own, f: -risks)),
        (RULES, "adaptive", rule._replace(compute=blended(0.0))),
        (RULES, "adaptive", rule._replace(compute=blended(1.0))),
        (RULES, "adaptive", rule._replace(compute=functools.wraps(rule.compute)(blended(0.0)))),
    ]
    before, found = digits_of(config()), []
    for table, name, entry in changes:
        with monkeypatch.context() as patch:
            patch.setitem(table, name, entry)
            found.append(digits_of(config()))
            assert digits_of(config()) == found[-1]
    found.append(digits_of(config(), "other data"))
    assert len({before, *found}) == 2 + len(changes)
    monkeypatch.setitem(RULES, "median", RULES["krum"])
    assert digits_of(config()) == before


def test_what_loads_the_data_counts_by_the_data_alone(monkeypatch):
    before = digits_of(config())
    monkeypatch.setitem(tasks.TASKS, "spambase", tasks.TASKS["spambase"]._replace(load=lambda folder: None))
    assert digits_of(config()) == before


def test_a_schedule_and_a_system_of_ones_own_count(monkeypatch):
    system, average = (digits_of(config(rule=rule)) for rule in ("d-sgd", "average"))
    assert digits_of(config(rule="d-sgd", graph_schedule="matching")) != system
    monkeypatch.setitem(SYSTEMS, "d-sgd", SYSTEMS["d-psgd"])
    assert digits_of(config(rule="d-sgd")) != system
    assert digits_of(config(rule="average")) == average


def test_an_entry_that_cannot_be_compared_is_told_in_words(monkeypatch):
    assert origin_of(config()).known
    deep = []
    for _ in range(5000):
        deep = [deep]
    for held, said in (((x for x in ()), "a generator"), (deep, "maximum recursion depth exceeded")):
        mine = RULES["median"]._replace(compute=functools.partial(scaled, held))
        monkeypatch.setitem(RULES, "mine", mine)
        origin = origin_of(config(rule="mine"))
        assert origin.entries.startswith(said)
        assert not origin.known


def test_every_field_counts_but_the_device():
    before = digits_of(config())
    for change in ({"lr": 0.02}, {"plain": True}, {"l2": 0.1}, {"graph": "ring"}, {"released": ("adam",)}):
        assert digits_of(config(**change)) != before
    assert digits_of(config(device=1)) == before
