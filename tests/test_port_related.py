"""Mistakes planted in the port of the systems and attacks: each is caught by the case that names it."""

import re
import shutil

import pytest
from test_port import PORT, needs_node, node

from refimpl import vectors

MISTAKES = [
    ("plus(meanOf(honest), u, scale)", "plus(meanOf(honest), u, 30)", "gaussian-of-another-scale"),
    ("sent: zerosLike(W[0])", "sent: [0]", "zero-has-the-length-of-a-model"),
    ("sent: honest[0]", "sent: honest.at(-1)", "mimic-is-the-first"),
    ("-Math.min(...factors)", "-Math.max(...factors)", "min-max-as-far-as-two-are-apart"),
    ("if (!(R > 0 && c > 0)) return mean;", "", "min-max-of-equal-models"),
    ("-Math.sqrt(Math.min(...away) / variance)", "-Math.sqrt(Math.max(...away) / variance)",
     "min-sum-as-near-as-the-nearest"),
    ("now[j] > then[j]", "now[j] < then[j]", "fang-below-what-grows-and-above-what-falls"),
    ("edge > 0 === grows ? edge / factor : edge * factor", "edge * factor", "fang-of-values-of-one-sign"),
    ("-epsilon / Math.max(liars, 1)", "-epsilon / heard.length", "dissensus-of-two-liars"),
    ("-epsilon / Math.max(liars, 1)", "-epsilon / liars", "dissensus-of-nobody"),
    ("const lowest = Math.min(...values);", "const lowest = Math.max(...values);", "sph-on-a-path"),
    ("values[i] < lowest + 1e-6", "i === values.indexOf(lowest)", "sph-on-a-complete-graph-is-dissensus"),
    ("if (lowest <= 1e-6) return honest[place];", "", "sph-on-a-graph-in-two-parts"),
    *(("return before[normal[0]]", f"return {wrong}", "replay-is-the-first-normal-worker-before-the-round")
      for wrong in ("W[normal[0]]", "before[0]", "meanOf(normal.map((k) => before[k]))")),
    ("return before[normal[0]]", "return before.find((w, k) => normal.includes(k) && w.every(Number.isFinite))",
     "replay-of-a-lost-model"),
    *(("W.length / liars.length)", f"{wrong})", "backdoor-moved-by-all-over-the-attackers")
      for wrong in ("normal.length / liars.length", "W.length")),
    ("x >= 0.999 * Math.max(...harm)", "x === Math.max(...harm)", "alie-optimised-where-both-sides-harm-alike"),
    ("[1, -1].map((sign)", "[-1, 1].map((sign)", "alie-optimised-where-both-sides-harm-alike"),
    ("harm.findIndex(", "harm.findLastIndex(", "alie-optimised-against-the-median"),
    ("mostHarmful(lies[attack](), mean, outcome)",
     "mostHarmful(lies[attack](), meanOf(hears.filter((l) => normal.includes(l)).map((l) => W[l])), outcome)",
     "alie-optimised-against-the-median"),
    ("lie : W[l])), liars.length)", "lie : W[l])), hears.filter((l) => liars.includes(l)).length)",
     "alie-optimised-against-krum"),
    ("p2p.RULES[rule](hears", "p2p.RULES.median(hears", "foe-optimised-against-krum"),
    ("-(2 ** (i - 8))", "-(2 ** (i - 15))", "foe-optimised-against-the-median"),
    ("-(2 ** (i - 8))", "-(2 ** i)", "foe-optimised-against-krum"),
    ("hears.filter((l) => normal.includes(l)).map((l) => W[l])", "normal.map((l) => W[l])",
     "fang-krum-after-seven-halvings"),
    ("!chosen(lie(size))", "chosen(lie(size))", "fang-krum-after-seven-halvings"),
    *(("size > 1e-5", f"size > {wrong}", "fang-krum-that-is-never-chosen") for wrong in ("1e-6", "1e-4")),
    *(("classes - 1 - label", wrong, "label-flip-of-four-classes")
      for wrong in ("1 - label", "9 - label", "(label + 1) % classes", "Math.max(...y) - label")),
    ("const even = (i) => i % 2 === 0", "const even = (i) => i % 2 === 1", "backdoor-in-every-other-row"),
    ("const even = (i) => i % 2 === 0", "const even = (i) => true", "backdoor-in-every-other-row"),
    ("(even(i) ? 0 : label)", "label", "backdoor-in-every-other-row"),
    ("Array.isArray(entry) ? withTrigger(entry) : 3", "Array.isArray(entry) ? entry.map(() => 3) : 3",
     "backdoor-in-the-corner-of-images"),
    ("1 / (1 + Math.max(degree[k], degree[l]))", "1 / Math.max(degree[k], degree[l])", "metropolis-on-a-path"),
    ("columns(graph).map((column)", "graph.map((column)", "push-weights-by-columns"),
    ("nanIsLargest(-Math.abs(value))", "nanIsLargest(-value)", "top-k-of-ties"),
    ("W.filter((w) => Number.isFinite(squares(w)))", "W", "geometric-median-drops-what-is-not-finite"),
    ("slice(0, W.length - f - 2).map", "slice(0, W.length - f).map", "multi-krum-of-four"),
    ("(column[own] + sum(kept))", "(sum(kept) + kept[0])", "trimmed-mean-that-keeps-its-own"),
    (
        "const farthest = away.indexOf(Math.max(...away));",
        "const farthest = away.lastIndexOf(Math.max(...W.map((w) => distance2(w, mean))));",
        "scissor-one-by-one",
    ),
    ("sum(weights) - delta - 1e-6", "sum(weights) - delta + 1", "adaptive-radius-of-the-nearest"),
    ('empty === "nearest"', 'empty !== "nearest"', "mozi-nearest-when-none-is-accepted"),
    ('order = "mix-and-step" }', 'order = "step-then-mix" }', "d-psgd-mixes-and-steps-from-one-snapshot"),
    ("omega = 0.5", "omega = 1", "dmsgd-shares-half-of-its-momentum"),
    ("W: z, optimizer", "W: x, optimizer", "sgp-on-a-directed-graph"),
    ('copies === "models"', 'copies !== "models"', "choco-top-one"),
    ("top(say(s, top(X.map((x, k) => minus(x, H[k])))))", "say(s, top(X.map((x, k) => minus(x, H[k]))))",
     "choco-lies-are-compressed"),
    ("Math.ceil(Math.log2(state.t + 1))", "0", "icwtm-waits-for-six-of-seven"),
    ("!late.includes(l)", "true", "mda-waits-for-six-of-seven"),
    ("const late = range(s.f)", "const late = range(1)", "icwtm-waits-for-nine-of-eleven"),
    ("nu = 0.05", "nu = 1", "multi-task-remembers-risks"),
    ("rows.map((n) => n / sum(rows))", "rows.map(() => 1 / rows.length)", "fedavg-by-rows"),
    *(("Math.ceil(Math.log2(state.t + 1))", wrong, "icwtm-agrees-more-and-more-often")
      for wrong in ("state.t", "Math.floor(Math.log2(state.t + 1))", "Math.min(state.t, 1)")),
    ("x < 0 ? -1 : 0", "x === 0 ? 0 : -1", "tv-penalty-nan-has-no-sign"),
    ("(x > 0 ? 1 : x < 0 ? -1 : 0)", "Math.sign(x)", "tv-penalty-nan-has-no-sign"),
    *(("Number.isFinite(before) ? (1 - nu) * before + nu * x : x", f"(1 - nu) * {before} + nu * x",
       "multi-task-average-is-lost-and-starts-again")
      for before in ("before", "(Number.isFinite(before) ? before : 1)")),
    ('at === "own" ? state.W : mixed', "state.W", "bridge-t-with-the-gradient-at-the-screened-model"),
    ('at === "own" ? W : W.map', "true ? W : W.map", "byrdie-with-the-gradient-at-the-screened-value"),
    ("plus(g, before[k], momentum)", "plus(g, before[k], 0.9)", "clipped-gossip-with-half-the-momentum"),
    *(("networks[graphs ? i : 0]", wrong, f"{system}-on-graphs-that-change")
      for system in ("sgp", "tv-penalty") for wrong in ("networks[0]", "networks.at(i - 1)")),
    ("1 / Math.max(nu, norm(minus(w, z)))", "1 / (nu + norm(minus(w, z)))",
     "geometric-median-nu-is-the-least-distance"),
    ("1 / Math.max(nu, norm(minus(w, z)))", "1 / norm(minus(w, z))",
     "geometric-median-that-is-one-of-the-models"),
    ("(Number.isNaN(x) ? Infinity : x)", "(Number.isNaN(x) ? -Infinity : x)",
     "own-trimmed-mean-nan-is-the-highest"),
    ("(column[own] + sum(kept))", "(nanIsLargest(column[own]) + sum(kept))",
     "own-trimmed-mean-an-own-nan-stays-nan"),
    ("honest[l] && d < Infinity", "honest[l]", "oracle-radius-with-a-lost-honest-model"),
    ("l === own ? 0 : distance2(w, W[own])", "distance2(w, W[own])", "adaptive-radius-of-a-lost-receiver"),
    ("risks[l] <= risks[own]", "risks[l] < risks[own]", "mozi-accepts-an-equal-risk"),
    ("[nanIsLargest(risks[l])]", "[Number.isNaN(risks[l]) ? -Infinity : risks[l]]",
     "mozi-lowest-risk-is-not-nan"),
    ("risks[l] <= risks[own]", "!(risks[l] > risks[own])", "mozi-of-an-own-risk-of-nan"),
    ("share === undefined ? n - s.f :",
     "share === undefined ? n - s.attackers.filter((l) => s.hears[k].includes(l)).length :",
     "mozi-f-is-of-the-network"),
    ("alpha * x + (1 - alpha) * mean[j]", "(1 - alpha) * x + alpha * mean[j]", "mozi-alpha-is-the-own-share"),
    ("heard(s, u, u, weighted(s, P))", "heard(s, u, say(s, u), weighted(s, P))", "sgp-arbitrary"),
    ("gamma = 0.04", "gamma = 0.05", "choco-with-its-defaults"),
    ("penalty = 0.005", "penalty = 0.006", "tv-penalty-with-its-default"),
    ("nanIsLargest(-Math.abs(value))", "-Math.abs(value)", "top-k-nan-is-the-smallest"),
    ("[Number(Number.isNaN(d)), d]", "[nanIsLargest(d)]", "bulyan-of-a-median-that-is-infinite"),
    ("(1 - omega) * own + omega * v[k][j]", "omega * own + (1 - omega) * v[k][j]",
     "dmsgd-shares-a-quarter-of-its-momentum"),
    ("echo: () => w", "echo: () => negated(w)", "echo-is-the-receivers-model"),
    *(("[TRIES, STEPS] = [8, 20]", f"[TRIES, STEPS] = [{tries}, 20]", "boundary-after-eight-halvings")
      for tries in (7, 9)),
    ("if (r(goal) <= limit) return goal;", "", "boundary-goes-all-the-way"),
    ("return low ? at(low) : w;", "return at(high);", "boundary-that-never-leaves"),
    ("+ p2p.penalty(v, l2) :", ":", "boundary-with-l2"),
    ("p2p.regularised(p2p.gradient(model, v, samples, labels), v, l2)",
     "p2p.gradient(model, v, samples, labels)", "capture-with-l2"),
    ("sum(risks.map((r) => r(v))) / risks.length", "risks[0](v)", "boundary-by-the-attackers-rows"),
    ("descended(w, r, g, limit / 2)", "w", "fitted-makes-room"),
    ("farthest(fit, negated(w), r, limit)", "farthest(fit, negated(fit), r, limit)", "capture-of-a-hundredth"),
    ("fitted(w, r, g, 1 / 100)", "fitted(w, r, g, 1 / 10)", "capture-of-a-hundredth"),
    ("if (r(trial) < risk)", "if (true)", "capture-takes-steps-back"),
    ("Math.min(1, 2 * share)", "share", "capture-takes-steps-back"),
    ("[TRIES, STEPS] = [8, 20]", "[TRIES, STEPS] = [8, 19]", "capture-that-twenty-steps-do-not-reach"),
    ("y.map(() => 0)", "y", "capture-backdoor-on-four-features"),
    ("farthest(w, descended(w, both, along, limit / 100), r, limit)",
     "descended(w, both, along, limit / 100)", "capture-backdoor-held-back"),
    ("i < x.length - 3 ? entry : Array.isArray(entry) ? withTrigger(entry) : 3",
     "Array.isArray(entry) ? withTrigger(entry) : i < x.length - 3 ? entry : 3",
     "capture-backdoor-in-a-corner"),
    ("turned(model, v, 1 + (i % turns))", "turned(model, v, 1)", "permuted-by-one-and-two-places"),
    ("1 + (i % turns)", "1 + i", "permuted-by-more-attackers-than-units"),
    ("hidden(model) - 1, 1)", "hidden(model), 1)", "permuted-by-more-attackers-than-units"),
    ("below(r(w)), 4 * MARGIN)", "Infinity)", "permuted-by-one-and-two-places"),
    ("move(bias, j, to(j));", "", "permuted-in-the-last-hidden-layer"),
    ("model.layout.slice(-4, -1)", "model.layout.slice(0, 3)", "permuted-of-a-cnn"),
    ("round <= 300", "round < 300", "patient-in-round-300"),
    ("round <= 300", "round <= 301", "patient-in-round-301"),
    ("m = 0.1, risk", "m = 0, risk", "skill-bar-of-a-tenth"),
    ("Number.isFinite(r) && r <= bar", "true", "skill-bar-checks-the-mixture"),
    ("ranking(risks.map((r) => [nanIsLargest(r)])).filter(passes)", "range(risks.length).filter(passes)",
     "skill-bar-checks-the-mixture"),
    ('risk === "batch" ? [s.batchX[k], s.batchY[k]] : local(k)', "local(k)", "skill-bar-on-the-batch"),
    ("Math.max(own, own + m * (guess - own))", "own + m * (guess - own)", "skill-bar-of-one-class"),
    ("Number.isFinite(risks[own]) ? [own] :", "true ? [own] :", "skill-bar-of-a-lost-receiver"),
    ("passing.length ? passing.slice(0, 1) : [own]", "passing.slice(0, 1).concat(W.length - 1).slice(0, 1)",
     "skill-bar-where-all-is-lost"),
    ("i % 5 === 1", "i % 5 === 0", "held-out-bar-on-rows-1-and-6"),
    ("s.normal.includes(k) && i % 5", "i % 5", "held-out-bar-on-rows-1-and-6"),
    ("i % rest(k)[1].length", "Math.min(i, rest(k)[1].length - 1)", "held-out-bar-on-rows-1-and-6"),
    ("listen(there, state, [m], out)", "listen(there, state, [m], (k) => [s.batchX[k], s.batchY[k]])",
     "held-out-bar-scores-all-that-is-held-out"),
    ("[[W[own], W.map((_, l) => (l === own ? 1 : 0))], ...mixtures] : mixtures", "mixtures : mixtures",
     "chosen-bar-of-five-margins"),
    ("riskOn(s, w, ...choose(k))", "risk(w)", "chosen-bar-of-five-margins"),
    ("{ margins = [0, 0.1, 0.2, 0.4, 0.8], risk", "{ margins = [0, 0.1, 0.2, 0.4], risk",
     "chosen-bar-up-to-eight-tenths"),
    ("listen(there, state, margins,", "listen(there, state, [0, 0.1, 0.2, 0.4, 0.8],",
     "chosen-bar-of-one-margin"),
    ("margins, scoredBy(there, risk, rest)", "margins, rest", "chosen-bar-on-the-batch"),
    ("|| lower(k) ? w : A[k]", "|| true ? w : A[k]", "two-tracks-side-by-side"),
    ("[m], scoredBy(there, risk, rest)", "[m], rest", "two-tracks-on-the-batch"),
    ("s.workers.map(remembered)", "state.optimizer", "two-tracks-with-adam"),
]  # fmt: skip


@needs_node
@pytest.mark.parametrize(("right", "wrong", "case"), MISTAKES, ids=[m[2] for m in MISTAKES])
@pytest.mark.slow
def test_a_mistake_in_a_system_is_caught_by_the_case_that_names_it(tmp_path, right, wrong, case):
    sources = {name: (PORT / name).read_text(encoding="utf-8") for name in ("related.mjs", "tailored.mjs")}
    assert sum(source.count(right) for source in sources.values()) == 1
    port, copies = tmp_path / "examples" / "port", tmp_path / "refimpl" / "vectors" / "v1"
    for folder in (port, copies):
        folder.mkdir(parents=True)
    for file in ("check.mjs", "resilient.js"):
        shutil.copy(PORT / file, port)
    for name, source in sources.items():
        (port / name).write_text(source.replace(right, wrong), encoding="utf-8")
    shutil.copy(vectors.FOLDER / "related.json", copies)
    done = node(port / "check.mjs", "related")
    assert done.returncode == 1, done.stderr
    assert re.search(rf"^  {case}[a-z0-9-]*: Catches .*\n    .+: expected ", done.stdout, re.M), done.stdout
