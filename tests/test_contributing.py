"""Each recipe of CONTRIBUTING.md, run as it is printed there."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from refimpl.experiments.results import load

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = {
    name: (script, options.split())
    for script, name, options in re.findall(
        r"```python\n(.*?)```\n\n    python (\w+)\.py ([^\n]*)\n", TEXT, re.DOTALL
    )
}
"""The script and the options on the line below it, by the script's name."""


def run(tmp_path, name, *options):
    """What the recipe prints, and its results by rule; in two worker processes where it has two runs."""
    script, printed = RECIPES[name]
    (tmp_path / f"{name}.py").write_text(script, encoding="utf-8")
    command = [sys.executable, f"{name}.py", *printed, "--epochs", "1", "--jobs", "2", "--out", "out", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    results = map(load, (tmp_path / "out").glob("*.json"))
    return done.stdout, {result.config.rule: result for result in results}


def names(table):
    """The names in the first column."""
    return re.findall(r"^([\w-]+) +own +0\.\d\d", table, re.MULTILINE)


def test_every_block_is_a_recipe():
    assert TEXT.count("```python") == len(RECIPES)
    assert list(RECIPES) == ["rule", "system", "attack", "graph", "network", "data"]


def last_weights(run):
    """The weights (N, N) of a run's last round."""
    return np.array(run.weights_at[run.config.epochs])


@pytest.mark.slow
def test_a_rule(tmp_path):
    table, results = run(tmp_path, "rule")
    assert names(table) == ["adaptive", "mine"]
    weights = np.delete(last_weights(results["mine"]), results["mine"].attackers, 0)
    assert ((weights > 0).sum(axis=1) > 1).any()
    for row in weights:
        np.testing.assert_allclose(row[row > 0], 1 / (row > 0).sum())  # a plain mean


@pytest.mark.slow
def test_a_system(tmp_path):
    table, results = run(tmp_path, "system")
    assert names(table) == ["adaptive", "mine"]
    assert results["mine"].bytes_per_round == results["adaptive"].bytes_per_round
    assert results["mine"].last("mean_loss") != results["adaptive"].last("mean_loss")


@pytest.mark.slow
def test_an_attack(tmp_path):
    table, results = run(tmp_path, "attack")
    assert ["mine"] in map(str.split, table.splitlines())  # the only column
    assert names(table) == ["adaptive", "average"]
    assert results["average"].last("mean_loss") > results["adaptive"].last("mean_loss")


@pytest.mark.slow
def test_a_graph(tmp_path):
    table, results = run(tmp_path, "graph")
    assert names(table) == ["adaptive", "inverse-risk"]
    star = np.eye(10, dtype=bool)
    star[0] = star[:, 0] = True
    np.testing.assert_array_equal(last_weights(results["inverse-risk"]) > 0, star)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "title"), [("network", "Spambase with tanh"), ("data", "Breast cancer (UCI)")]
)
def test_a_task(tmp_path, name, title):
    table, results = run(tmp_path, name)
    assert table.startswith(f"{title}: 10 workers")
    assert names(table) == ["adaptive", "local"]
    assert results["local"].config.task == "mine"


@pytest.mark.slow
def test_a_network_of_ones_own_is_computed_the_same_plainly(tmp_path):
    """It is not known to `fast`, which falls back to the network's own functions."""
    (tmp_path / "plain").mkdir()
    fast, plain = run(tmp_path, "network")[1], run(tmp_path / "plain", "network", "--plain")[1]
    for rule in fast:
        for column, values in fast[rule].history.items():
            np.testing.assert_allclose(values, plain[rule].history[column], rtol=1e-9)


@pytest.mark.slow
def test_an_edited_recipe_is_run_again_and_a_comment_is_not_an_edit(tmp_path):
    run(tmp_path, "graph")
    script, options = RECIPES["graph"]
    done = []
    for text in (script + "# a comment\n", script.replace("[(0, k)", "[(k - 1, k)")):
        (tmp_path / "graph.py").write_text(text, encoding="utf-8")
        command = [sys.executable, "graph.py", *options, "--epochs", "1", "--jobs", "2", "--out", "out"]
        done.append(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stderr)
    assert "2 of 2 runs are in out already" in done[0]
    assert "already" not in done[1]
    assert len(list((tmp_path / "out").glob("*.json"))) == 4
