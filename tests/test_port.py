"""The JavaScript port: all vectors in node, and mistakes planted in it. Its page is in test_page.py."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from refimpl import vectors

ROOT = Path(__file__).parents[1]
PORT = ROOT / "examples" / "port"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")


def node(script, *arguments):
    return subprocess.run([NODE, str(script), *arguments], capture_output=True, text=True, timeout=120)


@needs_node
def test_all_vectors_agree_in_node_and_its_answers_in_python(tmp_path, capsys):
    done = node(PORT / "check.mjs", "--answers", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert vectors.main(["check", *map(str, sorted(tmp_path.iterdir()))]) == 0
    assert capsys.readouterr().out == done.stdout
    assert done.stdout.count("cases agree\n") == 16


MISTAKES = [
    ("r <= risks[own] ||", "r < risks[own] ||", "weights", "adaptive-filter-keeps-an-equal-risk"),
    ("c.map((x) => x / total)", "c", "weights", "inverse-risk-is-proportional-to-one-over-risk"),
    ("if (weights[l] === 0) return;", "", "combine", "combine-weight-zero-silences-nan"),
    ("slice(0, n - f - 2)", "slice(0, n - f - 1)", "rules", "krum-counts-n-f-2-nearest-others"),
    (
        "squaredDistance(w, v)).sort",
        "Math.sqrt(squaredDistance(w, v))).sort",
        "rules",
        "krum-squares-the-distances",
    ),
    (
        "v) => Math.sqrt(squaredDistance(w, v)))",
        "v) => squaredDistance(w, v))",
        "rules",
        "medoid-sums-plain-distances",
    ),
    ("if (x < numbers[best])", "if (x <= numbers[best])", "rules", "krum-tie-goes-to-the-lowest-index"),
    (".sort(ascending);", ".sort();", "rules", "median-sorts-numbers-not-strings"),
    ("s[Math.floor(n / 2)]) / 2", "s[Math.floor((n - 1) / 2)]) / 2", "rules", "median-even-is-the-mean"),
    ("mean - z * Math.sqrt", "mean + z * Math.sqrt", "attacks", "alie-is-mean-minus-z-std"),
    ("aLittleIsEnough(own, z)", "aLittleIsEnough(honest, z)", "round", "adaptive-alie-corrupted"),
    (
        "(x - mean))) / column.length",
        "(x - mean))) / (column.length - 1)",
        "attacks",
        "alie-is-mean-minus-z-std",
    ),
    ("(Math.sqrt(vHat) + eps)", "Math.sqrt(vHat + eps)", "adam", "adam-adds-eps-outside-the-root"),
    ("(y > 0 ? dy : 0)", "(y >= 0 ? dy : 0)", "affine", "relu-backward-is-zero-at-the-kink"),
    (".map((d) => d / rows)", "", "mlp", "mlp-gradient"),
    ("lies[k]) : local)", "lies[0]) : local)", "round", "adaptive-a-message-for-each-receiver"),
    (
        "(toEach ? sent[k] : sent)[l]",
        "(toEach ? sent[0] : sent)[l]",
        "round",
        "median-a-message-for-each-receiver",
    ),
    ("const W = local.slice();", "const W = sent.slice();", "round", "adaptive-sign-flip"),
    ("Number.isFinite(previous) ?", "previous !== undefined ?", "round", "adaptive-smoothing-goes-on"),
    (
        "RULES[rule](models, attackers.length)",
        "RULES[rule](models, N_k.filter((l) => attackers.includes(l)).length)",
        "round",
        "krum-sparse-counts-all-attackers",
    ),
    ("Math.floor(n / 10));", "0);", "round", "trimmed-mean-without-attackers"),
    (
        "orOwn(inverseRiskWeights(risks), own)",
        "inverseRiskWeights(risks)",
        "round",
        "inverse-risk-of-nothing-finite-keeps-own",
    ),
    (
        "degree > Math.floor((n - 1) / 2)",
        "degree > Math.floor(n / 2)",
        "graphs",
        "random-regular-of-half-the-others-is-a-complement",
    ),
    (
        "if (weights[l] === 0) return;",
        "if (weights[l] < 1e-6) return;",
        "combine",
        "combine-a-tiny-weight-counts",
    ),
    ("w.every(Number.isFinite)", "!w.includes(Infinity)", "combine", "combine-nan-in-one-coordinate"),
    (
        "Math.sqrt(squaredDistance(w, v))",
        "Math.hypot(...w.map((x, j) => x - v[j]))",
        "rules",
        "medoid-distances-that-overflow-are-infinite",
    ),
    (
        "Math.max(...WINDOW.map(([s, t]) => x[2 * i + s][2 * j + t][c]))",
        "WINDOW.map(([s, t]) => x[2 * i + s][2 * j + t][c]).reduce((a, b) => (b > a ? b : a))",
        "maxpool2d",
        "maxpool-of-nan-is-nan",
    ),
    ("uniforms[i][j] < p", "uniforms[i][j] <= p", "graphs", "erdos-renyi-a-uniform-equal-to-p-is-no-edge"),
    (
        "Math.ceil(sum(sizes) / (sizes.length * batchSize))",
        "Math.floor(sum(sizes) / (sizes.length * batchSize)) + 1",
        "round",
        "rounds-per-epoch-without-a-rest",
    ),
    (
        "f > 0 ? f : Math.floor(n / 10)",
        "Math.max(f, Math.floor(n / 10))",
        "rules",
        "trimmed-mean-rule-trims-f-where-a-tenth-is-more",
    ),
    ("h > s ? normal", "h > s && 2 * s < h ? normal", "attacks", "alie-z-4-1"),
    ("+ penalty(w, l2) :", ":", "round", "adaptive-l2-is-in-the-gradient-and-in-the-risk"),
    (
        "Array.isArray(lr) ? lr[k] :",
        "Array.isArray(lr) ? lr[0] :",
        "round",
        "adaptive-each-worker-has-its-own-step-size",
    ),
    (
        "Math.min(...whole)",
        "whole[own.indexOf(Math.min(...own))]",
        "round",
        "score-worst-own-and-worst-whole-of-two-workers",
    ),
]


@needs_node
@pytest.mark.parametrize(("right", "wrong", "family", "case"), MISTAKES, ids=[m[3] for m in MISTAKES])
@pytest.mark.slow
def test_a_planted_mistake_is_caught_by_the_case_that_names_it(tmp_path, right, wrong, family, case):
    source = (PORT / "resilient.js").read_text(encoding="utf-8")
    assert source.count(right) == 1
    port = tmp_path / "examples" / "port"
    port.mkdir(parents=True)
    (port / "resilient.js").write_text(source.replace(right, wrong), encoding="utf-8")
    for file in ("check.mjs", "related.mjs", "tailored.mjs"):
        shutil.copy(PORT / file, port)
    folder = tmp_path / "refimpl" / "vectors" / "v1"
    folder.mkdir(parents=True)
    shutil.copy(vectors.FOLDER / f"{family}.json", folder)
    done = node(port / "check.mjs", family)
    assert done.returncode == 1, done.stderr
    assert re.search(rf"^  {case}[a-z0-9-]*: Catches .*\n    .+: expected ", done.stdout, re.M), done.stdout


@needs_node
@pytest.mark.parametrize("arguments", [["no-such-family"], ["--answers"]])
def test_a_bad_command_line_of_the_check(arguments):
    assert node(PORT / "check.mjs", *arguments).returncode == 2
