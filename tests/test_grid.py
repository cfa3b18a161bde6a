"""Runs, their files, their fingerprints, and the tables in worker processes."""

import dataclasses
import functools
import json
import pickle
import re
from unittest import mock

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose

from data_loaders import Dataset
from refimpl.aggregate import RULES, Rule
from refimpl.attacks import ATTACKS
from refimpl.experiments import fingerprint, grid, tables, tasks
from refimpl.experiments.files import write
from refimpl.experiments.fingerprint import bare

CONFIG = tasks.Config(
    task="spambase", rule="adaptive", attack="sign-flip", seed=0, graph="complete",
    **tasks.TASKS["spambase"].defaults | {"epochs": 2},
)  # fmt: skip


def config(**changes):
    return dataclasses.replace(CONFIG, **changes)


# --- Runs ---------------------------------------------------------------------------------------------------


def test_a_run_holds_what_an_auditor_asks_for():
    result = grid.run(config())
    assert result["config"] == dataclasses.asdict(config())
    assert len(result["attackers"]) == 3
    columns = {"worst_own", "mean_own", "worst_whole", "mean_whole", "highest_loss", "mean_loss", "not_finite"}
    assert set(result["history"]) == columns | {"attacker_weight", "passing"}
    assert {len(column) for column in result["history"].values()} == {2}
    assert result["evaluated"] == [1, 2]
    weights = np.array(result["weights"])
    assert_allclose(np.delete(weights, result["attackers"], 0).sum(axis=1), 1)
    assert set(result["weights_at"]) == {"1", "2"}
    assert result["weights_at"]["2"] == result["weights"]
    for test in ("own", "whole"):
        assert len(result["accuracy"][test]) == 7
        assert min(result["accuracy"][test]) == result["history"][f"worst_{test}"][-1]
    assert {"refimpl", "code", "python", "numpy", "scipy", "scikit-learn"} == set(result["versions"])
    assert {"rounds_per_epoch", "threads", "seconds"} < set(result)
    assert re.fullmatch("[0-9a-f]{16}", result["data"])
    json.dumps(result, allow_nan=False)


def test_a_lost_number_is_null_in_json():
    result = grid.run(config(rule="average", lr=1e300))
    assert result["history"]["mean_loss"][-1] is None
    assert result["history"]["not_finite"][-1] == 7
    json.dumps(result, allow_nan=False)


def test_the_bytes_do_not_depend_on_the_number_of_jobs(tmp_path):
    runs = [config(rule=rule, epochs=1) for rule in ("adaptive", "krum", "median")]
    files = []
    for jobs in (1, 2):
        out = tmp_path / str(jobs)
        out.mkdir()
        results = list(grid.run_all(runs, out, jobs, None))
        assert {r["config"]["rule"] for r in results} == {c.rule for c in runs}
        texts = {path.name: json.loads(path.read_text()) for path in out.iterdir()}
        for text in texts.values():
            assert text.pop("seconds") > 0
        files.append({name: json.dumps(text) for name, text in texts.items()})
    assert files[0] == files[1]
    assert set(files[0]) == {grid.path_of(c, tmp_path).name for c in runs}


# --- Files --------------------------------------------------------------------------------------------------


def test_a_result_is_found_again_until_an_option_or_the_code_changes(tmp_path, monkeypatch):
    assert grid.saved(config(), tmp_path) is None
    result = grid.run_to_file(config(), grid.path_of(config(), tmp_path), None, 1, {})
    assert grid.saved(config(), tmp_path) == result
    for change in ({"lr": 0.02}, {"plain": True}, {"l2": 0.1}, {"graph": "ring"}):
        assert grid.saved(config(**change), tmp_path) is None
    assert grid.saved(config(device=1), tmp_path) == result  # the device does not decide the numbers
    monkeypatch.setattr(fingerprint, "code_digest", lambda: "another version of the rules")
    assert grid.saved(config(), tmp_path) is None


def test_a_result_on_a_graph_of_one_s_own_is_found_again(tmp_path):
    c = config(epochs=1, rule="local", graph=tuple((k, k + 1) for k in range(9)))
    grid.run_to_file(c, grid.path_of(c, tmp_path), None, 1, {})
    assert grid.saved(c, tmp_path) is not None


@pytest.fixture
def folders(monkeypatch):
    """Spambase by the name of the folder that it is asked from, each a little different."""
    data, changes = tasks.TASKS["spambase"].load(None), {"first": 0, "second": 1e-9}

    def load(folder):
        return data._replace(X=data.X + changes[folder])

    monkeypatch.setitem(tasks.TASKS, "spambase", tasks.TASKS["spambase"]._replace(load=load))


def test_two_data_folders_are_two_results(folders, tmp_path):
    c = config(epochs=1)
    paths = [grid.path_of(c, tmp_path, folder) for folder in ("first", "second", "first")]
    assert paths[0] == paths[2] != paths[1]
    first = grid.run_to_file(c, paths[0], "first", 1, {})
    assert grid.saved(c, tmp_path, "first") == first
    assert grid.saved(c, tmp_path, "second") is None
    assert first["data"] == tasks.data_digest("spambase", "first") != tasks.data_digest("spambase", "second")


def test_a_result_of_other_data_under_the_right_name_is_set_aside(folders, tmp_path, capsys):
    path = grid.path_of(config(epochs=1), tmp_path, "second")
    grid.run_to_file(config(epochs=1), path, "first", 1, {})
    assert grid.saved(config(epochs=1), tmp_path, "second") is None
    assert "it is of other data" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == [f"{path.name}.1.aside"]


@pytest.mark.parametrize(
    "change",
    [
        {"X": np.ones((3, 2), "float32")},
        {"X": np.ones((2, 3))},
        {"X": np.ones((3, 2)).T[::-1].T * [1, 2]},
        {"y": np.array([0, 1, 1])},
        {"subject": np.array([1, 1, 2])},
        {"X_test": np.ones((1, 2))},
    ],
)
def test_the_digest_sees_every_array_its_dtype_and_its_shape(change, monkeypatch):
    data = Dataset(np.ones((3, 2)), np.array([0, 1, 0]))

    def digest_of(data):
        monkeypatch.setitem(tasks.TASKS, "spambase", tasks.TASKS["spambase"]._replace(load=lambda _: data))
        return tasks.data_digest("spambase", None)

    assert digest_of(data._replace(**change)) != digest_of(data) == digest_of(data)


@pytest.mark.parametrize("content", ["new", b"\x89PNG"])
def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch, content):
    path = tmp_path / "result.json"
    write(path, "old")
    write_bytes = type(path).write_bytes

    def full_disk(self, data):
        write_bytes(self, data[:1])
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(type(path), "write_bytes", full_disk)
        with pytest.raises(OSError, match="no space"):
            write(path, content)
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]
    assert path.read_text() == "old"
    write(path, content)
    assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())


# --- Fingerprints -------------------------------------------------------------------------------------------

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


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A package with a file of each kind, that `code_digest` takes for refimpl."""
    for name in (
        "__init__.py",
        "aggregate.py",
        "vectors.py",
        "fast/engine.py",
        "experiments/cli.py",
        "audit/a.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1\n")
    monkeypatch.setattr(fingerprint.refimpl, "__file__", str(tmp_path / "__init__.py"))
    return tmp_path


@pytest.mark.parametrize(
    ("file", "text", "counts"),
    [
        ("aggregate.py", "x = 2\n", True),
        ("aggregate.py", '"""About."""\nx = 1  # one\n', False),
        ("fast/engine.py", "x = 2\n", True),
        ("fast/new.py", "x = 1\n", True),
        ("experiments/cli.py", "x = 2\n", False),
        ("vectors.py", "x = 2\n", False),
        ("audit/a.py", "x = 2\n", False),
    ],
)
def test_only_code_that_computes_numbers_counts(copy, file, text, counts):
    digest = fingerprint.code_digest.__wrapped__
    before = digest()
    (copy / file).write_text(text)
    assert (digest() != before) == counts


def scaled(factor, own, honest, signals):
    return factor * own


def typed(expression):
    """A function without a source file."""
    return eval(expression, {"__name__": "nowhere"})


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


# --- Tables in another process ------------------------------------------------------------------------------


def sent(thing):
    """What arrives in another process: joblib pickles by value what a script defines."""
    return pickle.loads(pickle.dumps(joblib.wrap_non_picklable_objects(thing, keep_wrapper=False)))


def test_what_a_user_has_added_reaches_another_process(monkeypatch):
    """And nothing else does: the package's own functions stay the objects that `fast` knows them by."""
    mine = Rule(lambda W, risks, own, f: W[own] + 1, "mine", "-", "mine")
    before = dict(RULES)
    monkeypatch.setitem(RULES, "mine", mine)
    monkeypatch.setitem(RULES, "average", RULES["krum"]._replace(label="another"))
    parcel = sent(tables.added())
    assert {kind: set(found) for kind, found in parcel.items() if found} == {"rule": {"mine", "average"}}
    monkeypatch.undo()
    with mock.patch.dict(RULES):
        tables.install(parcel)
        assert RULES["mine"].compute(np.ones((2, 3)), None, 0, 0).tolist() == [2, 2, 2]
        assert RULES["average"].label == "another"
        assert all(RULES[name] is before[name] for name in set(before) - {"average"})


def test_the_estimate_is_of_workers_that_know_their_labels():
    """On data of two labels a worker, their own models are then the best ones from the first round on."""
    c = config(task="digits", partition="two-labels", epochs=1, optimizer="adam", dtype="float32", batch_size=8)
    setting, _, W = tasks.build(c)
    knowing = grid.knowing_labels(setting, W)
    assert (knowing[:, :-10] == W[:, :-10]).all()
    for k in range(3):
        mine = [float(setting.model.risk(w, setting.X[k, :20], setting.y[k, :20])) for w in knowing[:5]]
        assert np.argmin(mine) == k
    assert grid.seconds(c, None) > 0
    network = setting.model
    other = setting._replace(model=type("Own", (), {"layout": network.layout})())
    assert grid.knowing_labels(other, W) is W
