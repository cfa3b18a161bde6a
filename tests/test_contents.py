"""What values are made of: equal where they are, and different where a run's numbers may be."""

import dataclasses
import enum
import functools
import importlib.util
import operator
import os
import pickle
import subprocess
import sys
import types
from collections import OrderedDict, defaultdict, namedtuple
from pathlib import Path

import joblib
import numpy as np
import pytest

from refimpl.aggregate import RULES, krum
from refimpl.experiments import contents
from refimpl.experiments.contents import UnknownError, described, is_installed, modules_in
from refimpl.experiments.registry import TABLES
from refimpl.experiments.tasks import TASKS


def of(value):
    return described(value, {})


def sent(value):
    """What arrives in another process: joblib pickles by value what a script defines."""
    return pickle.loads(pickle.dumps(joblib.wrap_non_picklable_objects(value, keep_wrapper=False)))


def made(source, name="f", **known):
    """A value that a script of this text defines, as it was imported."""
    known |= {"__name__": "a_script", "np": np}
    exec(compile(source, "a_script.py", "exec"), known)
    return known[name]


def clipping(by):
    return lambda W: W.clip(-by, by)


class Clip:
    """A rule that has to be made."""

    unit = 1.0

    def __init__(self, by):
        self.by = by

    def __call__(self, W):
        return W.clip(-self.by, self.by)

    @staticmethod
    def alone(W):
        return W


class Other(Clip):
    def __call__(self, W):
        return W


@dataclasses.dataclass
class Setting:
    by: float


class Kind(enum.Enum):
    LOW, HIGH = 0, 1


def scaled(W, by=1.0, *, less=0.0):
    return by * W - less


def again(n):
    return again(n - 1) if n else 0


def wrapped(function, by):
    @functools.wraps(function)
    def changed(W, f):
        return by * function(W, f)

    return changed


def twice(source, name="f"):
    """What the script defines with 1 and with 2 in the place of BY."""
    return [made(source.replace("BY", by), name) for by in "12"]


Point = namedtuple("Point", "x y")
with_less, zeros = functools.partial(scaled, less=1), np.zeros((2, 3))
DIFFERENT = {
    "plain values": [None, True, 1, 1.0, "1", b"1", 1j, "None", (1,), [1], {1}, frozenset({1}), {1: None}],
    "numbers": [np.float64(1), np.float32(1), np.int64(1), np.float64(2), range(3), slice(1)],
    "arrays": [zeros, zeros.T, zeros + 1, zeros.astype(int), zeros.astype(object), np.array([None])],
    "arrays of dates": [np.array(["2024-01-01"], "M8[D]"), np.array(["2024-01-02"], "M8[D]")],
    "kinds of containers": [defaultdict(int), defaultdict(list), {}, OrderedDict(), Point(1, 2), (1, 2)],
    "code": [lambda W: W, lambda W: -W, lambda W: W + 1, lambda W: W + 2, lambda V: V],
    "names of members": [lambda W: W.a, lambda W: W.b],
    "defaults": [lambda W, by=1: W, lambda W, by=2: W, lambda W, *, by=1: W, lambda W, *, by=2: W],
    "closures": [clipping(1), clipping(2), clipping(np.ones(2)), clipping(np.zeros(2))],
    "arguments": [functools.partial(scaled, by=1), functools.partial(scaled, by=2), with_less, scaled],
    "objects": [Clip(1), Clip(2), Other(1), Setting(1), Setting(2), Kind.LOW, Kind.HIGH],
    "methods": [Clip(1).__call__, Clip(2).__call__, Other(1).__call__, Clip.alone],
    "of libraries": [np.mean, np.median, np.maximum, np.minimum, len, max],
    "made by libraries": [operator.itemgetter(1), operator.itemgetter(2)],
    "wrapped": [krum, wrapped(krum, 1), wrapped(krum, 2), wrapped(scaled, 1)],
    "globals": twice("by = BY\ndef f(W): return by * W"),
    "helpers": twice("def g(W): return BY * W\ndef f(W): return g(W)"),
    "globals of a function in a function": twice("by = BY\ndef f(W): return lambda W: by * W"),
    "globals of a method": twice("by = BY\nclass C:\n def __call__(self, W): return by * W\nf = C()"),
    "a class's own values": twice("class C:\n by = BY\nf = C()"),
    "abstract classes": twice("import abc\nclass C(abc.ABC):\n def __call__(self): return BY\nf = C()"),
    "properties": twice("class C:\n @property\n def by(self): return BY\nf = C()"),
    "attributes": twice("def f(W): return f.by\nf.by = BY"),
    "tables of functions": [[clipping(1), scaled], [scaled, clipping(1)], {"a": scaled}, {"b": scaled}],
    "rules": [RULES["median"], RULES["krum"], RULES["krum"]._replace(about="mine")],
    "networks": [TASKS["spambase"].model, TASKS["har"].model],
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_what_differs_is_told_apart_and_what_is_sent_stays_the_same(kind):
    values = DIFFERENT[kind]
    assert len({of(value) for value in values}) == len(values)
    assert [of(sent(value)) for value in values] == [of(value) for value in values]


def test_it_does_not_matter_where_and_when_a_function_was_made_or_called():
    again_made = made("\n# a comment\n\nby = 1\n\n\ndef f(W):  # on another line\n    return by * W")
    assert of(again_made) == of(DIFFERENT["globals"][0])
    before = of(scaled)
    for _ in range(100):  # Python rewrites the code of what is called often
        scaled(1)
    assert of(scaled) == before
    assert of(clipping(1)) == of(clipping(1))
    assert of({"a", "b", "c"}) == of({"c", "b", "a"})


def test_kinds_of_arrays_count_by_more_than_their_numbers():
    assert of(np.ma.array([1, 2], mask=[0, 1])) != of(np.ma.array([1, 2], mask=[1, 0]))


def test_two_of_one_thing_are_two_of_equal_ones():
    one, other = [1], [1]
    assert of((one, one)) == of((one, other))


def test_what_holds_itself_has_an_end():
    loop = []
    loop.append(loop)
    assert of(loop) == of(sent(loop))
    assert of(again) == of(sent(again))


def test_all_functions_that_the_package_ships_are_told_apart():
    """Most are lambdas, which have no name."""
    found = {}
    for table in TABLES.values():
        for entry in table.values():
            for field in entry:
                if callable(field) and not isinstance(field, functools.partial | operator.attrgetter):
                    found.setdefault(of(field), set()).add(field)
    assert len(found) > 50
    assert [functions for functions in found.values() if len(functions) > 1] == []


def test_a_module_is_the_users_by_its_place_and_not_by_its_name(tmp_path, monkeypatch):
    for name in ("refimpl.draws", "numpy.linalg", "json.decoder", "os", "builtins", "math"):
        assert is_installed(name)
    for name in ("__main__", "test_contents", "nowhere", ""):
        assert not is_installed(name)
    (tmp_path / "code.py").write_text("", encoding="utf-8")  # Python has one, too
    spec = importlib.util.spec_from_file_location("code", tmp_path / "code.py")
    monkeypatch.setitem(sys.modules, "code", importlib.util.module_from_spec(spec))
    monkeypatch.setattr(contents, "is_library", contents.is_library.__wrapped__)
    assert not is_installed("code")


# --- Other modules of the user's ----------------------------------------------------------------------------

IMPORTING = {
    "a module": "import a_helper\ndef f(W): return a_helper.g(W)",
    "a function": "from a_helper import g\ndef f(W): return g(W)",
    "within the function": "def f(W):\n from a_helper import h, g\n return g(W)",
    "in a factory": "def make():\n import a_helper\n return lambda W: a_helper.g(W)\nf = make()",
}


@pytest.fixture
def helper(monkeypatch):
    module = types.ModuleType("a_helper")
    monkeypatch.setitem(sys.modules, "a_helper", module)

    def write(by):
        exec(f"by = {by}\nlog = (x for x in ())\ndef g(W): return by * W\ndef h(W): return W", vars(module))

    return write


@pytest.mark.parametrize("form", IMPORTING)
def test_what_a_function_imports_counts_by_its_code(helper, form):
    found = []
    for by in (1, 2, 1):
        helper(by)
        found.append(of(made(IMPORTING[form])))
    assert found[0] == found[2] != found[1]


def test_modules_of_the_package_that_a_function_uses_are_named():
    sources = [
        "from refimpl.related.rules import geometric_median\ndef f(W): return geometric_median(W)",
        "from refimpl.related import rules\ndef f(W): return rules.geometric_median(W)",
        "import refimpl.related.rules\ndef f(W): return refimpl.related.rules.geometric_median(W)",
        "def f(W):\n from refimpl.related import rules\n return rules.geometric_median(W)",
        "def f(W):\n import refimpl.related.rules as rules\n return rules.geometric_median(W)",
    ]
    for source in sources:
        seen = {}
        described(made(source), seen)
        assert "refimpl.related.rules" in modules_in(seen), source


def test_a_wrapped_function_of_the_package_is_the_users():
    """`functools.wraps` makes it look like the package's."""
    plus, minus = (functools.wraps(krum)(function) for function in (lambda W, f: W + f, lambda W, f: W - f))
    assert plus.__module__ == minus.__module__ == "refimpl.aggregate"
    assert of(plus) != of(minus)
    assert of(functools.cache(plus)) != of(functools.cache(minus))


def test_what_cannot_be_compared_says_what_it_is(helper, tmp_path):
    helper(1)
    whole = "import a_helper\ndef f(W): return getattr(a_helper, 'g')(W)"
    gone, near = "def f(W):\n import no_such_module\n return W", "def f(W):\n from . import g\n return W"
    with open(tmp_path / "file", "w", encoding="utf-8") as file:
        cases = {
            "a generator": (x for x in ()),
            "a TextIOWrapper": file,
            "all of the module a_helper": made(whole),
            "an import of 'no_such_module'": made(gone),
            "an import of ''": made(near),
        }
        for said, value in cases.items():
            with pytest.raises(UnknownError, match=f"^{said}$"):
                of(functools.partial(scaled, by=[value]))


SCRIPT = """
from refimpl.experiments.contents import described
def f(W, names=frozenset({"a", "b", "c"})):
    return W in {"d", "e", "f"}, {"g": names}
print(described([f, {"h", "i", "j"}], {}))
"""


@pytest.mark.slow
def test_descriptions_do_not_depend_on_how_python_hashes():
    root = str(Path(__file__).parents[1])
    said = {
        subprocess.check_output(
            [sys.executable, "-c", SCRIPT], env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": root}
        )
        for seed in ("1", "2")
    }
    assert len(said) == 1
