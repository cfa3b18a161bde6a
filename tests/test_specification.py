"""The specification stands by itself, every function in it runs, and it is short."""

import ast
import io
import statistics
import sys
import tokenize
from pathlib import Path

import numpy as np
import pytest
from problems import PAPERS, apart, local_data

import refimpl
from refimpl import arrays, draws, graphs, models, released, train
from refimpl.aggregate import RULES
from refimpl.algorithm import Setting
from refimpl.optim import OPTIMIZERS

PACKAGE = Path(refimpl.__file__).parent
FILES = {
    ".".join(("refimpl", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
NAMES = "algorithm aggregate attacks layers models optim graphs draws arrays released"
SPECIFICATION = {f"refimpl.{name}": FILES[f"refimpl.{name}"] for name in NAMES.split()}
RELATED = [name for name in FILES if name.startswith("refimpl.related")]  # the systems that the paper cites
every_file = pytest.mark.parametrize("module", SPECIFICATION)


def nodes(path, *kinds):
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)]


# --- What it imports ----------------------------------------------------------------------------------------


def imports(path):
    """The modules that the file imports, anywhere in it. `from a import b` may mean a.b: both are named."""
    found = set()
    for node in nodes(path, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            assert not node.level, f"{path}: relative imports are not followed here"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def reached(module):
    """Everything that importing the module imports, following the files of refimpl and their packages."""
    seen, todo = set(), [module]
    while todo:
        name = todo.pop()
        if name and name not in seen:
            seen.add(name)
            todo += [name.rpartition(".")[0], *(imports(FILES[name]) if name in FILES else ())]
    return seen


@pytest.mark.parametrize("module", [*SPECIFICATION, *RELATED, "refimpl.engine", "refimpl.train"])
def test_the_specification_does_not_reach_what_exists_for_speed(module):
    assert "refimpl.fast" not in reached(module)
    assert "refimpl.experiments" not in reached(module)
    assert "refimpl.peers" not in reached(module)


@pytest.mark.parametrize("module", [*SPECIFICATION, "refimpl.train", "refimpl.fast.engine"])
def test_the_papers_own_rules_stand_apart_from_the_systems_of_others(module):
    assert not {name for name in reached(module) if name.startswith("refimpl.related")}


def test_the_walk_sees_what_is_imported_through_others():
    assert {"refimpl.fast.parallel", "refimpl.fast", "refimpl.arrays", "numpy"} <= reached(
        "refimpl.fast.engine"
    )
    assert {"refimpl.fast", "data_loaders"} <= reached("refimpl.experiments.cli")


@pytest.mark.parametrize("module", [name for name in FILES if not name.startswith("refimpl.experiments")])
@pytest.mark.slow
def test_only_experiments_import_the_data_loaders(module):
    assert "data_loaders" not in reached(module)


@pytest.mark.parametrize(
    "module", [name for name in FILES if not name.startswith(("refimpl.audit", "refimpl.plugin"))]
)
@pytest.mark.slow
def test_nothing_but_itself_and_the_plugin_imports_the_audit(module):
    assert "refimpl.audit" not in reached(module)


def test_only_arrays_imports_cupy():
    assert [name for name, path in FILES.items() if "cupy" in imports(path)] == ["refimpl.arrays"]


# --- What of it runs ----------------------------------------------------------------------------------------


def defined(node):
    """{(line, name)} of every function, method and lambda inside the node, as the interpreter numbers them.

    Not the methods of a Protocol, which have no body that could run.
    """
    if isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases):
        return set()
    found = set().union(*map(defined, ast.iter_child_nodes(node)))
    if isinstance(node, ast.FunctionDef):
        found.add((min(part.lineno for part in (node, *node.decorator_list)), node.name))
    if isinstance(node, ast.Lambda):
        found.add((node.lineno, "<lambda>"))
    return found


def entered(run):
    """{(file, line, name)} of the functions that are entered while `run` runs."""
    found = set()

    def note(frame, event, _):
        if event == "call":
            code = frame.f_code
            found.add((code.co_filename, code.co_firstlineno, code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return found


def plain_run(model=None, edges=None, engine=train.plain, **options):
    """One epoch of a small run on the specification, from its draws to its evaluation."""
    model, N, s = model or models.mlp([3, 2, 2]), 7, {"graph": "complete", "attackers": 1} | options
    rng = draws.stream(0, "graph")
    s["graph"] = graphs.build(s["graph"], N, rng) if edges is None else graphs.from_edges(N, edges)
    s["attackers"] = draws.attackers(N, s["attackers"], draws.stream(0, "attackers"))
    X, y = apart(local_data([4, 3, 4, 4, 4, 4, 4]))
    if len(model.sample) == 2:
        X = [np.broadcast_to(own[:, :1, None], (len(own), *model.sample)) for own in X]
    W = draws.initial(model.layout, N, draws.stream(0, "init"))
    test = train.HeldOut(X[0], y[0], np.ones((N, len(y[0])), bool))
    return train.run(Setting(model, X, y, batch_size=2, **s), test, W, 0, 1, engine)


def released_run(name):
    """A run with one of the released code's differences."""
    difference = released.DIFFERENCES[name]
    model = models.mlp([3, 2, 2])
    plain_run(
        difference.model(model) if difference.model else model,
        engine=lambda s: released.engine(s, [name] if difference.in_round else []),
        attack=next(iter(difference.attacks), "foe"),
        rule=next(iter(difference.rules), "adaptive"),
    )


def all_plain_runs(file_of_edges):
    for rule in RULES:
        plain_run(rule=rule)
    for attack in PAPERS:
        plain_run(attack=attack)
    for graph in (*graphs.GRAPHS, "regular:6"):
        plain_run(graph=graph)
    plain_run(edges=graphs.read_edges(file_of_edges))
    for optimizer in OPTIMIZERS:
        plain_run(optimizer=optimizer, risk="batch", step_size=lambda k, t: 0.1 / (k + t), l2=0.1)
    plain_run(models.cnn(side=4, channels=(2,), hidden=2, classes=2))
    plain_run(models.as_layers(models.mlp([3, 2, 2])))
    for name in {name for task in ("spambase", "har", "mnist") for name in released.differences_of(task)}:
        released_run(name)
    with pytest.raises(arrays.DeviceError):  # what a plain run with --gpu enters where there is none
        arrays.choose(True)


@pytest.fixture(scope="module")
def run_through(tmp_path_factory):
    edges = tmp_path_factory.mktemp("graphs") / "edges.txt"
    edges.write_text("".join(f"{k} {k + 1}\n" for k in range(6)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupy", None)  # also where there is a GPU
        return entered(lambda: all_plain_runs(edges))


@every_file
def test_some_plain_run_enters_every_function(module, run_through):
    path = SPECIFICATION[module]
    here = {(line, name) for file, line, name in run_through if file == str(path)}
    idle = sorted(defined(ast.parse(path.read_text(encoding="utf-8"))) - here)
    assert not idle, f"{path.name} has functions that no plain run enters: {idle}"


# --- How long it is -----------------------------------------------------------------------------------------


def test_functions_are_short():
    lengths = [
        node.end_lineno - node.lineno + 1 for path in FILES.values() for node in nodes(path, ast.FunctionDef)
    ]
    assert statistics.median(lengths) <= 10


def explained(path):
    """How many lines are a docstring or hold a comment, and how many there are; blank ones aside."""
    text, lines = path.read_text(encoding="utf-8"), set()
    for node in nodes(path, ast.Expr):
        if isinstance(node.value, ast.Constant):
            lines |= set(range(node.lineno, node.end_lineno + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines |= {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    written = {number for number, line in enumerate(text.splitlines(), start=1) if line.strip()}
    return len(lines & written), len(written)


def test_about_a_third_of_the_specification_explains_it():
    counts = {name: explained(path) for name, path in SPECIFICATION.items()}
    shares = {name: some / all_ for name, (some, all_) in counts.items()}
    assert {name: share for name, share in shares.items() if not 0.15 <= share <= 0.5} == {}
    some, all_ = map(sum, zip(*counts.values()))
    assert 0.25 <= some / all_ <= 0.4
