// The systems that the paper cites, in plain JavaScript: docs/PORTING.md, "related". Optional; resilient.js needs
// none of it. Written from that page and checked against refimpl/vectors/v1/related.json by check.mjs.
//
// W is an array of models, `own` the receiver's place in it, f the number of attackers, graph[k][l] is true if l
// sends to k. No function changes its arguments.
import p2p from "./resilient.js";
import { withTrigger } from "./tailored.mjs";

const range = (n) => Array.from({ length: n }, (_, i) => i);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const byNumber = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const columns = (W) => W[0].map((_, j) => W.map((w) => w[j]));
const nanIsLargest = (x) => (Number.isNaN(x) ? Infinity : x);
const ascending = (column) => column.map(nanIsLargest).sort(byNumber);
const without = (list, i) => list.filter((_, j) => j !== i);
const zerosLike = (w) => w.map(() => 0);
const plus = (a, b, factor = 1) => a.map((x, j) => x + factor * b[j]);
const minus = (a, b) => plus(a, b, -1);
const norm = (w) => Math.sqrt(squares(w));
const squares = (w) => sum(w.map((x) => x * x));
const orInfinity = (x) => (Number.isFinite(x) ? x : Infinity);
const distance2 = (a, b) => orInfinity(squares(minus(a, b)));

// Positions in the order of their keys, the first of equals first. A key is a list of numbers.
function ranking(keys) {
  const compare = (a, b) => a.map((x, i) => byNumber(x, b[i])).find((sign) => sign !== 0) ?? 0;
  return range(keys.length).sort((i, j) => compare(keys[i], keys[j]) || i - j);
}

// --- Mixing matrices and a compressor ---------------------------------------------------------------------------

// w_kl = 1 / (1 + max(d_k, d_l)) on edges, the rest of the row on the diagonal.
export function metropolisWeights(graph) {
  const degree = graph.map((row) => row.filter(Boolean).length - 1);
  graph.forEach((row, k) =>
    row.forEach((there, l) => {
      if (there && !graph[l][k]) throw new RangeError(`needs an undirected graph, but worker ${l} sends to ${k} only`);
    })
  );
  return graph.map((row, k) => {
    const weights = row.map((there, l) => (there && k !== l ? 1 / (1 + Math.max(degree[k], degree[l])) : 0));
    return weights.map((c, l) => (k === l ? 1 - sum(weights) : c));
  });
}

// p_kl = 1 / (to how many l sends, itself included).
export function pushWeights(graph) {
  const sends = columns(graph).map((column) => column.filter(Boolean).length);
  return graph.map((row) => row.map((there, l) => (there ? 1 / sends[l] : 0)));
}

// The k largest entries by magnitude, the first of a tie; NaN is smaller than all.
export function topK(x, k) {
  const kept = ranking(x.map((value) => [nanIsLargest(-Math.abs(value))])).slice(0, k);
  return x.map((value, j) => (kept.includes(j) ? value : 0));
}

// --- Rules ------------------------------------------------------------------------------------------------------

// Weiszfeld's iteration from the mean of what is finite.
export function geometricMedian(W, steps = 80, tolerance = 1e-5, nu = 1e-5) {
  const rows = W.filter((w) => Number.isFinite(squares(w)));
  if (rows.length === 0) return W[0].slice();
  let z = p2p.average(rows);
  for (let i = 0; i < steps; i++) {
    const closeness = rows.map((w) => 1 / Math.max(nu, norm(minus(w, z))));
    const next = p2p.combine(closeness.map((c) => c / sum(closeness)), rows);
    const moved = norm(minus(next, z));
    z = next;
    if (moved <= tolerance) break;
  }
  return z;
}

// Positions by Krum's score; with few rows left a score has at least one distance.
function krumOrder(W, f) {
  const nearest = (w, i) =>
    without(W, i).map((v) => distance2(w, v)).sort(byNumber).slice(0, Math.max(W.length - f - 2, 1));
  const score = (distances) => [
    distances.filter((x) => x === Infinity).length,
    sum(distances.filter((x) => x !== Infinity)),
  ];
  return ranking(W.map((w, i) => score(nearest(w, i))));
}

function requireKrum(n, f) {
  if (n < 2 * f + 3) throw new RangeError(`krum needs n >= 2f + 3 models, got n=${n}, f=${f}`);
}

export function multiKrum(W, f) {
  requireKrum(W.length, f);
  return p2p.average(krumOrder(W, f).slice(0, W.length - f - 2).map((i) => W[i]));
}

// n - 2f rows, one after the other Krum's choice among those that are left.
function repeatedKrum(W, f) {
  let left = W;
  return range(W.length - 2 * f).map(() => {
    const best = krumOrder(left, f)[0];
    const picked = left[best];
    left = without(left, best);
    return picked;
  });
}

function requireBulyan(n, f) {
  if (n < 4 * f + 3) throw new RangeError(`bulyan needs n >= 4f + 3 models, got n=${n}, f=${f}`);
}

// Per coordinate the mean of the n - 4f values nearest to the median of what repeatedKrum picks. Infinity - Infinity,
// an infinite value's distance to an infinite median, comes last.
export function bulyan(W, f) {
  requireBulyan(W.length, f);
  const picked = repeatedKrum(W, f);
  const [theta, median] = [picked.length, p2p.coordinateMedian(picked)];
  return columns(picked).map((column, j) => {
    const values = ascending(column);
    const away = values.map((x) => Math.abs(x - median[j]));
    const nearest = ranking(away.map((d) => [Number(Number.isNaN(d)), d])).slice(0, theta - 2 * f);
    return sum(nearest.map((i) => values[i])) / nearest.length;
  });
}

const bridgeB = (W, f) => p2p.trimmedMean(repeatedKrum(W, f), f);

// The subsets of `count` of the positions from `first` on, in lexicographic order.
function subsets(n, count, first = 0) {
  if (count === 0) return [[]];
  return range(n - count - first + 1).flatMap((i) =>
    subsets(n, count - 1, first + i + 1).map((rest) => [first + i, ...rest])
  );
}

function requireMda(n, f) {
  if (n < 2 * f + 1) throw new RangeError(`mda needs n >= 2f + 1 models, got n=${n}, f=${f}`);
}

export function minimumDiameterAverage(W, f) {
  requireMda(W.length, f);
  const all = subsets(W.length, W.length - f);
  const diameter = (subset) => Math.max(...subset.flatMap((i) => subset.map((j) => distance2(W[i], W[j]))));
  return p2p.average(all[ranking(all.map((subset) => [diameter(subset)]))[0]].map((i) => W[i]));
}

// The own value, and the others' without their f lowest and highest.
export function ownTrimmedMean(W, own, f) {
  return columns(W).map((column) => {
    const others = ascending(without(column, own));
    const kept = others.slice(f, others.length - f);
    return (column[own] + sum(kept)) / (kept.length + 1);
  });
}

// sum c_l w_l / sum c_l over the positions that are left.
function weightedMean(W, weights, left) {
  const c = weights.map((x, l) => (left[l] ? x : 0));
  return p2p.combine(c.map((x) => x / sum(c)), W);
}

export function iterativeOutlierScissor(W, own, weights, f) {
  const finite = W.map((w) => Number.isFinite(squares(w)));
  let left = W.map(() => true);
  for (let i = 0; i < Math.min(f, W.length - 1); i++) {
    const mean = weightedMean(W, weights, left.map((there, l) => there && finite[l]));
    const away = W.map((w, l) => (l === own || !left[l] ? -1 : finite[l] ? distance2(w, mean) : Infinity));
    const farthest = away.indexOf(Math.max(...away));
    left = left.map((there, l) => there && l !== farthest);
  }
  return weightedMean(W, weights, left);
}

export function clippedGossip(W, own, weights, tau) {
  return W.reduce((w, model, l) => {
    const z = minus(model, W[own]);
    const length = norm(z);
    return Number.isFinite(length) ? plus(w, z, weights[l] * (length > tau ? tau / length : 1)) : w;
  }, W[own]);
}

export function oracleRadius(W, own, weights, honest) {
  const delta = sum(weights.filter((_, l) => !honest[l]));
  const away = W.map((w) => distance2(w, W[own]));
  const spread = sum(away.map((d, l) => (honest[l] && d < Infinity ? weights[l] * d : 0)));
  return delta > 0 ? Math.sqrt(spread / delta) : Infinity;
}

export function adaptiveRadius(W, own, weights, f) {
  const largest = without(weights, own).sort((a, b) => b - a);
  const delta = sum(largest.slice(0, f));
  if (delta === 0) return Infinity;
  const away = W.map((w, l) => (l === own ? 0 : distance2(w, W[own])));
  let [reached, spread] = [0, 0];
  for (const l of ranking(away.map((d, i) => [i === own ? -1 : d]))) {
    reached += weights[l];
    if (!(reached < sum(weights) - delta - 1e-6)) break;
    spread += weights[l] * away[l];
  }
  return Math.sqrt(spread / delta);
}

export function mozi(W, own, risks, count, alpha = 0.5, empty = "nearest") {
  const away = W.map((w) => distance2(w, W[own]));
  const others = ranking(away.map((d) => [d])).filter((l) => l !== own);
  const near = others.slice(0, count).filter((l) => Number.isFinite(away[l]));
  if (near.length === 0) return W[own].slice();
  let accepted = near.filter((l) => risks[l] <= risks[own]);
  if (accepted.length === 0) {
    accepted = empty === "nearest" ? near.slice(0, 1) : [near[ranking(near.map((l) => [nanIsLargest(risks[l])]))[0]]];
  }
  const mean = p2p.average(accepted.map((l) => W[l]));
  return W[own].map((x, j) => alpha * x + (1 - alpha) * mean[j]);
}

// --- What the systems share -------------------------------------------------------------------------------------
// A network is what stays the same in a run; a state is {W, optimizer, memory, t}: memory holds a system's slots.

function network(inputs) {
  const { model, X, y, graph, attackers, attack, step_size: mu, optimizer = "sgd", l2 = 0 } = inputs;
  const workers = range(graph.length);
  const normal = workers.filter((k) => !attackers.includes(k));
  const hears = workers.map((k) => workers.filter((l) => graph[k][l]));
  return { model, X, y, graph, attackers, attack, mu, optimizer, l2, workers, normal, hears, f: attackers.length };
}

const gradients = (s, W) =>
  W.map((w, k) => p2p.regularised(p2p.gradient(s.model, w, s.batchX[k], s.batchY[k]), w, s.l2));
const riskOn = (s, w, X, y) =>
  w.every(Number.isFinite) ? p2p.risk(s.model, w, X, y) + p2p.penalty(w, s.l2) : Infinity;
const riskOf = (s, k, w) => riskOn(s, w, s.batchX[k], s.batchY[k]);

// Everyone's step from its row of `base` along its row of G: [models, what the optimisers remember].
function steps(s, state, base, G) {
  const made = base.map((w, k) => p2p.OPTIMIZERS[s.optimizer](w, G[k], state.optimizer?.[k], p2p.stepSize(s.mu, k)));
  return [made.map(([w]) => w), made.map(([, remembered]) => remembered)];
}

// What is sent: the rows, but what the attack makes of them at the attackers.
function say(s, rows, signals = s.signals) {
  const lies = p2p.ATTACKS[s.attack](s.attackers.map((k) => rows[k]), s.normal.map((k) => rows[k]), signals);
  return rows.map((row, k) => (s.attackers.includes(k) ? lies[s.attackers.indexOf(k)] : row));
}

// `rows` with rule(k, what k hears of `sent`, its own place) at the normal workers.
function heard(s, rows, sent, rule) {
  const at = (k) => rule(s.hears[k].map((l) => sent[l]), s.hears[k].indexOf(k), k);
  return rows.map((row, k) => (s.normal.includes(k) ? at(k) : row));
}

const near = (s, matrix, k) => s.hears[k].map((l) => matrix[k][l]);
const weighted = (s, matrix) => (W, own, k) => p2p.combine(near(s, matrix, k), W);

function stepThenMix(s, state, rule, G = gradients(s, state.W)) {
  const [Y, optimizer] = steps(s, state, state.W, G);
  const sent = say(s, Y);
  return { sent: [sent], W: heard(s, Y, sent, rule), optimizer };
}

function mixAndStep(s, state, rule, at = "own") {
  const sent = say(s, state.W);
  const mixed = heard(s, state.W, sent, rule);
  const [W, optimizer] = steps(s, state, mixed, gradients(s, at === "own" ? state.W : mixed));
  return { sent: [sent], W, optimizer };
}

// --- The systems: (network, state, options) -> {sent, W, optimizer, [memory], [weights]} ------------------------

function dPsgd(s, state, { order = "mix-and-step" }) {
  return (order === "mix-and-step" ? mixAndStep : stepThenMix)(s, state, weighted(s, metropolisWeights(s.graph)));
}

function dmsgd(s, state, { beta = 0.9, omega = 0.5 }) {
  const X = state.W;
  const V = state.memory?.[0] ?? X.map(zerosLike);
  const [sentX, sentV, P] = [say(s, X), say(s, V), metropolisWeights(s.graph)];
  const [x, v] = [heard(s, X, sentX, weighted(s, P)), heard(s, V, sentV, weighted(s, P))];
  const base = x.map((w, k) => plus(w, V[k].map((own, j) => beta * ((1 - omega) * own + omega * v[k][j]))));
  const [W, optimizer] = steps(s, state, base, gradients(s, X));
  return { sent: [sentX, sentV], W, optimizer, memory: [W.map((w, k) => minus(w, X[k]))] };
}

function sgp(s, state) {
  const [before, u] = state.memory ?? [state.W, state.W.map((w) => w.map(() => 1))];
  const [X, optimizer] = steps(s, state, before, gradients(s, state.W));
  const [sent, P] = [say(s, X), pushWeights(s.graph)];
  const [x, v] = [heard(s, X, sent, weighted(s, P)), heard(s, u, u, weighted(s, P))];
  const z = x.map((w, k) => w.map((value, j) => value / v[k][j]));
  return { sent: [sent, u.map((row) => [row[0]])], W: z, optimizer, memory: [x, v] };
}

function choco(s, state, { share = 0.01, gamma = 0.04, order = "mix-and-step", copies = "zero" }) {
  const H = state.memory?.[0] ?? (copies === "models" ? state.W : state.W.map(zerosLike));
  const [Y, optimizer] = steps(s, state, state.W, gradients(s, state.W));
  const [P, count] = [metropolisWeights(s.graph), Math.max(1, Math.round(share * Y[0].length))];
  const top = (rows) => rows.map((row) => topK(row, count));
  const compressed = (X) => top(say(s, top(X.map((x, k) => minus(x, H[k])))));
  const added = (q) => H.map((h, k) => plus(h, q[k]));
  const mixed = (copy) =>
    heard(s, Y, copy, (hs, own, k) => {
      const pull = p2p.combine(near(s, P, k), hs.map((h) => minus(h, hs[own])));
      return plus(Y[k], pull, gamma);
    });
  if (order === "mix-and-step") {
    const W = mixed(H);
    const q = compressed(W);
    return { sent: [q], W, optimizer, memory: [added(q)] };
  }
  const q = compressed(Y);
  return { sent: [q], W: mixed(added(q)), optimizer, memory: [added(q)] };
}

function bridge(s, state, { screen, at }) {
  const screens = {
    T: (W, own) => ownTrimmedMean(W, own, s.f),
    M: (W) => p2p.coordinateMedian(W),
    K: (W) => p2p.krum(W, s.f),
    B: (W) => bridgeB(W, s.f),
  };
  return mixAndStep(s, state, screens[screen], at);
}

// A step of one coordinate; Adam's moments are that coordinate's.
function byrdie(s, state, { at = "own" }) {
  let W = state.W;
  const sent = W.map(zerosLike);
  const optimizer = W.map((w, k) => state.optimizer?.[k] ?? { t: 0, m: zerosLike(w), v: zerosLike(w) });
  const next = optimizer.map(({ t, m, v }) => ({ t: t + 1, m: m.slice(), v: v.slice() }));
  const set = (w, c, value) => w.map((x, j) => (j === c ? value : x));
  for (const c of range(W[0].length)) {
    const column = W.map((w) => [w[c]]);
    const said = say(s, column, s.signals?.map((row) => [row[c]]));
    said.forEach(([value], k) => (sent[k][c] = value));
    const base = heard(s, column, said, (values, own) => ownTrimmedMean(values, own, s.f));
    const G = gradients(s, at === "own" ? W : W.map((w, k) => set(w, c, base[k][0])));
    W = W.map((w, k) => {
      const { t, m, v } = optimizer[k];
      const part = { t, m: [m[c]], v: [v[c]] };
      const [[value], after] = p2p.OPTIMIZERS[s.optimizer](base[k], [G[k][c]], part, p2p.stepSize(s.mu, k));
      if (after) [next[k].m[c], next[k].v[c]] = [after.m[0], after.v[0]];
      return set(w, c, value);
    });
  }
  return { sent: [sent], W, optimizer: s.optimizer === "adam" ? next : W.map(() => null) };
}

function moziRound(s, state, { share, alpha, empty }) {
  return mixAndStep(s, state, (W, own, k) => {
    const n = W.length - 1;
    const count = Math.max(1, share === undefined ? n - s.f : Math.floor(share * n));
    return mozi(W, own, W.map((w) => riskOf(s, k, w)), count, alpha, empty);
  });
}

function clippedGossipRound(s, state, { radius = 1, momentum = 0.9 }) {
  const before = state.memory?.[0] ?? state.W.map(zerosLike);
  const m = gradients(s, state.W).map((g, k) => plus(g, before[k], momentum));
  const P = metropolisWeights(s.graph);
  const radii = {
    oracle: (W, own, k) => oracleRadius(W, own, near(s, P, k), s.hears[k].map((l) => s.normal.includes(l))),
    adaptive: (W, own, k) => adaptiveRadius(W, own, near(s, P, k), s.f),
  };
  const clip = (W, own, k) => clippedGossip(W, own, near(s, P, k), radii[radius]?.(W, own, k) ?? radius);
  return { ...stepThenMix(s, state, clip, m), memory: [m] };
}

// Whom k hears in time: all but f normal workers in a row, each turn others.
function inTime(s, k, turn) {
  const others = s.normal.filter((l) => l !== k);
  const late = range(s.f).map((i) => others[(i + k + turn) % others.length]);
  return s.workers.filter((l) => !late.includes(l));
}

function learn(s, state, { agreement, iterated = true }) {
  const rule = { icwtm: p2p.trimmedMean, mda: minimumDiameterAverage }[agreement];
  const exchanges = 1 + (iterated ? Math.ceil(Math.log2(state.t + 1)) : 0);
  const own = gradients(s, state.W);
  const sent = [];
  const agreed = (rows, kept, turn) => {
    sent.push(say(s, rows));
    const R = (k) => rule(inTime(s, k, turn).map((l) => sent.at(-1)[l]), s.f);
    return kept.map((row, k) => (s.normal.includes(k) ? R(k) : row));
  };
  let G = own;
  for (let turn = 0; turn < exchanges; turn++) G = agreed(G, own, turn);
  const [Y, optimizer] = steps(s, state, state.W, G);
  const W = agreed(Y, Y, exchanges);
  return { sent, W, optimizer };
}

function tvPenalty(s, state, { penalty = 0.005 }) {
  const sent = say(s, state.W);
  const sign = (x) => (x > 0 ? 1 : x < 0 ? -1 : 0);
  const pull = heard(s, state.W.map(zerosLike), sent, (W, own, k) =>
    state.W[k].map((x, j) => penalty * sum(W.map((w) => sign(x - w[j]))))
  );
  const [W, optimizer] = steps(s, state, state.W, gradients(s, state.W).map((g, k) => plus(g, pull[k])));
  return { sent: [sent], W, optimizer };
}

// The averages L (N, N): row k at worker k, filled up with zeros to whole models.
function multiTask(s, state, { nu = 0.05 }) {
  const [N, d] = [s.workers.length, state.W[0].length];
  const slots = Math.ceil(N / d);
  const L = s.workers.map((k) => state.memory?.flatMap((slot) => slot[k]).slice(0, N) ?? s.workers.map(() => 1));
  const weights = s.workers.map(() => s.workers.map(() => 0));
  const made = stepThenMix(s, state, (W, own, k) => {
    const r = W.map((w) => riskOf(s, k, w));
    const smoothed = r.map((x, i) => {
      const before = L[k][s.hears[k][i]];
      return Number.isFinite(before) ? (1 - nu) * before + nu * x : x;
    });
    const c = p2p.adaptiveWeights(smoothed, own);
    s.hears[k].forEach((l, i) => ([L[k][l], weights[k][l]] = [smoothed[i], c[i]]));
    return p2p.combine(c, W);
  });
  const filled = L.map((row) => [...row, ...new Array(slots * d - N).fill(0)]);
  const memory = range(slots).map((i) => filled.map((row) => row.slice(i * d, (i + 1) * d)));
  return { ...made, memory, weights };
}

function ios(s, state) {
  const P = metropolisWeights(s.graph);
  return stepThenMix(s, state, (W, own, k) => iterativeOutlierScissor(W, own, near(s, P, k), s.f));
}

function fedavg(s, state) {
  const rows = s.y.map((labels) => labels.filter((label) => label >= 0).length);
  const [Y, optimizer] = steps(s, state, state.W, gradients(s, state.W));
  const sent = say(s, Y);
  const mean = p2p.combine(rows.map((n) => n / sum(rows)), sent);
  return { sent: [sent], W: Y.map((y, k) => (s.normal.includes(k) ? mean : y)), optimizer };
}

const byRule = (rule) => (s, state) => stepThenMix(s, state, (W) => rule(W, s.f));

// --- Systems that look for a reason to listen -------------------------------------------------------------------

// The entropy of the labels: the risk of the best constant guess.
function bestGuess(y) {
  const shares = [...new Set(y)].map((label) => y.filter((other) => other === label).length / y.length);
  return -sum(shares.map((p) => p * Math.log(p)));
}

const skill = (own, guess, m) => (Number.isFinite(own) ? Math.max(own, own + m * (guess - own)) : Infinity);

// Models in the order of their risk, as long as the risk of the mixture is not above the bar: [mixture, weights].
function checkedMixture(W, own, risks, bar, risk) {
  const passes = (l) => Number.isFinite(risks[l]) && risks[l] <= bar;
  const passing = ranking(risks.map((r) => [nanIsLargest(r)])).filter(passes);
  let kept = Number.isFinite(risks[own]) ? [own] : passing.length ? passing.slice(0, 1) : [own];
  let [mixture, c] = [W[kept[0]], [1]];
  for (const l of passing.filter((l) => l !== kept[0])) {
    const weights = p2p.inverseRiskWeights([...kept, l].map((i) => risks[i]));
    const share = weights.at(-1);
    const trial = mixture.map((x, j) => (1 - share) * x + share * W[l][j]);
    const r = risk(trial);
    if (Number.isFinite(r) && r <= bar) [kept, mixture, c] = [[...kept, l], trial, weights];
  }
  return [mixture, W.map((_, l) => (kept.includes(l) ? c[kept.indexOf(l)] : 0))];
}

// A step, then the checked mixture; scored(k) are the samples and labels on which worker k scores models. With `choose`,
// those by which it takes one of its own model and the mixture of each margin: the first of the lowest risk.
function listen(s, state, margins, scored, choose) {
  const weights = s.workers.map(() => s.workers.map(() => 0));
  const made = stepThenMix(s, state, (W, own, k) => {
    const [X, y] = scored(k);
    const risk = (w) => riskOn(s, w, X, y);
    const risks = W.map(risk);
    const bars = margins.map((m) => skill(risks[own], bestGuess(y), m));
    const mixtures = bars.map((bar) => checkedMixture(W, own, risks, bar, risk));
    const among = choose ? [[W[own], W.map((_, l) => (l === own ? 1 : 0))], ...mixtures] : mixtures;
    const there = among.map(([w]) => [choose ? nanIsLargest(riskOn(s, w, ...choose(k))) : 0]);
    const [mixture, c] = among[ranking(there)[0]];
    s.hears[k].forEach((l, i) => (weights[k][l] = c[i]));
    return mixture;
  });
  return { ...made, weights };
}

// The rows of worker k without padding, as [samples, labels], those whose number passes `which`.
function rowsWhere(s, k, which) {
  const rows = range(s.y[k].length).filter((i) => s.y[k][i] >= 0 && which(i));
  return [rows.map((i) => s.X[k][i]), rows.map((i) => s.y[k][i])];
}

const scoredBy = (s, risk, local) => (k) => (risk === "batch" ? [s.batchX[k], s.batchY[k]] : local(k));

function skillBar(s, state, { m = 0.1, risk = "local" }) {
  return listen(s, state, [m], scoredBy(s, risk, (k) => rowsWhere(s, k, () => true)));
}

// The network in which normal workers step without their rows 1, 6, 11, ..., what is left, and what is held out.
function apart(s) {
  const held = (k, i) => s.normal.includes(k) && i % 5 === 1;
  const rest = (k) => rowsWhere(s, k, (i) => !held(k, i));
  const out = (k) => rowsWhere(s, k, (i) => held(k, i));
  const pick = (part) => s.batch.map((rows, k) => rows.map((i) => rest(k)[part][i % rest(k)[1].length]));
  return [{ ...s, batchX: pick(0), batchY: pick(1) }, rest, out];
}

function heldOutBar(s, state, { m = 0 }) {
  const [there, , out] = apart(s);
  return listen(there, state, [m], out);
}

function chosenBar(s, state, { margins = [0, 0.1, 0.2, 0.4, 0.8], risk = "local" }) {
  const [there, rest, out] = apart(s);
  return listen(there, state, margins, scoredBy(there, risk, rest), out);
}

// A never listens, B has a skill bar and is sent; a worker uses B where it has the lower risk on what is held out.
function twoTracks(s, state, { m = 0.2, risk = "local" }) {
  const [there, rest, out] = apart(s);
  const [alone, before, ...moments] = state.memory ?? [state.W, state.W];
  const remembered = (k) => (moments.length ? { t: state.t, m: moments[0][k], v: moments[1][k] } : null);
  const talks = listen(there, { W: before, optimizer: state.optimizer }, [m], scoredBy(there, risk, rest));
  const [A, after] = steps(there, { optimizer: s.workers.map(remembered) }, alone, gradients(there, alone));
  const B = talks.W;
  const lower = (k) => riskOn(s, B[k], ...out(k)) < nanIsLargest(riskOn(s, A[k], ...out(k)));
  const W = B.map((w, k) => (!s.normal.includes(k) || lower(k) ? w : A[k]));
  const kept = after[0] ? ["m", "v"].map((slot) => after.map((o) => o[slot])) : [];
  return { ...talks, W, memory: [A, B, ...kept] };
}

// --- The table: a round, its options, what it refuses (`fixed`: graphs that change; `rows`: fewer than these) ---

const neighboursOf = (name, least) => (n, f) => {
  if (n - 1 < least(f)) throw new RangeError(`${name} needs ${least(f)} neighbours, got ${n - 1}, f=${f}`);
};
const complete = (graph) =>
  graph.forEach((row, k) =>
    row.forEach((there, l) => {
      if (!there) throw new RangeError(`everyone must hear everyone, but worker ${k} does not hear worker ${l}`);
    })
  );
const most = (f) => 2 * f + 1;

const SYSTEMS = {
  "d-psgd": { round: dPsgd, suits: metropolisWeights },
  "d-sgd": { round: dPsgd, options: { order: "step-then-mix" }, suits: metropolisWeights },
  dmsgd: { round: dmsgd, suits: metropolisWeights, fixed: true },
  sgp: { round: sgp },
  choco: { round: choco, suits: metropolisWeights, fixed: true },
  "choco-identity": { round: choco, options: { share: 1, gamma: 1 }, suits: metropolisWeights, fixed: true },
  "bridge-t": { round: bridge, options: { screen: "T" }, require: neighboursOf("bridge-t", most) },
  "bridge-m": { round: bridge, options: { screen: "M" }, require: neighboursOf("bridge-m", most) },
  "bridge-k": { round: bridge, options: { screen: "K" }, require: requireKrum },
  "bridge-b": {
    round: bridge,
    options: { screen: "B" },
    require: neighboursOf("bridge-b", (f) => Math.max(4 * f, 3 * f + 2)),
  },
  byrdie: { round: byrdie, require: neighboursOf("byrdie", most) },
  mozi: { round: moziRound, require: neighboursOf("mozi", () => 1) },
  ubar: { round: moziRound, options: { empty: "lowest-risk" }, require: neighboursOf("ubar", () => 1) },
  "clipped-gossip": { round: clippedGossipRound, suits: metropolisWeights },
  "clipped-gossip-adaptive": {
    round: clippedGossipRound,
    options: { radius: "adaptive" },
    suits: metropolisWeights,
  },
  "clipped-gossip-oracle": { round: clippedGossipRound, options: { radius: "oracle" }, suits: metropolisWeights },
  icwtm: {
    round: learn,
    options: { agreement: "icwtm" },
    suits: complete,
    fixed: true,
    require: (n, f) => p2p.trimmedMean(range(n - f).map(() => [0]), f),
  },
  mda: {
    round: learn,
    options: { agreement: "mda" },
    suits: complete,
    fixed: true,
    require: (n, f) => requireMda(n - f, f),
  },
  "tv-penalty": { round: tvPenalty },
  "multi-task": { round: multiTask },
  ios: { round: ios, suits: metropolisWeights, require: neighboursOf("ios", (f) => f) },
  fedavg: { round: fedavg },
  "geometric-median": { round: byRule((W) => geometricMedian(W)) },
  "multi-krum": { round: byRule(multiKrum), require: requireKrum },
  bulyan: { round: byRule(bulyan), require: requireBulyan },
  "skill-bar": { round: skillBar },
  "held-out-bar": { round: heldOutBar, rows: 2 },
  "chosen-bar": { round: chosenBar, rows: 2 },
  "two-tracks": { round: twoTracks, rows: 2 },
};

// Calls `check`; what it throws says where.
function located(where, check) {
  try {
    check();
  } catch (error) {
    throw new RangeError(`${where}: ${error.message}`);
  }
}

function checkNetwork(system, s) {
  system.suits?.(s.graph);
  for (const k of s.normal) {
    located(`worker ${k}`, () => {
      system.require?.(s.hears[k].length, s.f);
      const rows = s.y[k].filter((label) => label >= 0).length;
      if (rows < (system.rows ?? 0)) throw new RangeError(`needs ${system.rows} rows, one to hold out, got ${rows}`);
    });
  }
}

// One round for each of `batches`, from W: what was sent in the last one, W after each, what is remembered. All are
// on `graph`, or round i on graphs[i].
export function relatedRounds(inputs) {
  const { system: name, X, y, graph, graphs, batches, signals } = inputs;
  if (!(name in SYSTEMS)) throw new RangeError(`unknown system ${name}`);
  const system = SYSTEMS[name];
  if (graphs && system.fixed) throw new RangeError(`${name} needs a graph that stays the same`);
  const networks = (graphs ?? [graph]).map((now) => network({ ...inputs, graph: now }));
  networks.forEach((s, i) => located(graphs ? `round ${i + 1}` : name, () => checkNetwork(system, s)));
  let state = { W: inputs.W, t: 0 };
  let made;
  const path = batches.map((batch, i) => {
    const batchX = batch.map((rows, k) => rows.map((row) => X[k][row]));
    const batchY = batch.map((rows, k) => rows.map((row) => y[k][row]));
    const mu = Array.isArray(inputs.step_size) ? inputs.step_size[i] : inputs.step_size;
    const s = { ...networks[graphs ? i : 0], mu, batch, batchX, batchY, signals: signals?.[i] };
    made = system.round(s, state, { ...system.options, ...inputs });
    state = { W: made.W, optimizer: made.optimizer, memory: made.memory, t: state.t + 1 };
    return made.W;
  });
  const moments = made.optimizer[0] ? ["m", "v"].map((slot) => made.optimizer.map((o) => o[slot])) : [];
  const sent = Object.fromEntries(made.sent.map((rows, i) => [`sent_${i + 1}`, rows]));
  return { ...sent, weights: made.weights, W: path, memory: [...moments, ...(made.memory ?? [])] };
}

// --- Attacks ----------------------------------------------------------------------------------------------------

const meanOf = (W) => columns(W).map((column) => sum(column) / W.length);
const deviationOf = (W) => columns(minusAll(W, meanOf(W))).map((column) => Math.sqrt(squares(column) / W.length));
const minusAll = (W, w) => W.map((row) => minus(row, w));

// mean - g std, as far as two honest models are apart: the larger root of a quadratic, for the strictest of them.
export function minMax(honest) {
  const [mean, std] = [meanOf(honest), deviationOf(honest)];
  const R = Math.max(...honest.flatMap((a) => honest.map((b) => distance2(a, b))));
  const c = squares(std);
  if (!(R > 0 && c > 0)) return mean;
  const factors = minusAll(honest, mean).map((away) => {
    const b = -sum(away.map((x, j) => x * std[j]));
    return (b + Math.sqrt(b * b + c * (R - squares(away)))) / c;
  });
  return plus(mean, std, -Math.min(...factors));
}

// mean - g std, as far from the mean as the nearest honest model.
export function minSum(honest) {
  const mean = meanOf(honest);
  const away = minusAll(honest, mean).map(squares);
  const variance = sum(away) / away.length;
  return variance > 0 ? plus(mean, deviationOf(honest), -Math.sqrt(Math.min(...away) / variance)) : mean;
}

// Below the lowest value where the mean grows, above the highest elsewhere; `signals` say how far, row by row.
export function fangTrimmedMean(honest, before, signals, factor = 2) {
  const [now, then] = [meanOf(honest), meanOf(before)];
  const edges = columns(honest).map((column, j) => {
    const grows = now[j] > then[j];
    const edge = grows ? Math.min(...column) : Math.max(...column);
    return [edge, edge > 0 === grows ? edge / factor : edge * factor];
  });
  return signals.map((row) => row.map((u, j) => edges[j][0] + u * (edges[j][1] - edges[j][0])));
}

// Against the pull of the neighbours.
export function dissensus(receiver, heard, liars, epsilon = 1.5) {
  const pull = minusAll(heard, receiver).reduce((a, b) => plus(a, b));
  return plus(receiver, pull, -epsilon / Math.max(liars, 1));
}

// The eigenvalues and eigenvectors (columns) of a symmetric matrix, by Jacobi's rotations.
function eigen(matrix) {
  const [A, V] = [matrix.map((row) => [...row]), matrix.map((_, i) => matrix.map((_, j) => (i === j ? 1 : 0)))];
  for (const _ of range(60)) {
    for (const q of range(A.length)) {
      for (const p of range(q)) {
        if (A[p][q] === 0) continue;
        const theta = (A[q][q] - A[p][p]) / (2 * A[p][q]);
        const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
        const [c, s] = [1 / Math.sqrt(t * t + 1), t / Math.sqrt(t * t + 1)];
        const turn = (row) => ([row[p], row[q]] = [c * row[p] - s * row[q], s * row[p] + c * row[q]]);
        A.forEach(turn);
        range(A.length).forEach((k) => ([A[p][k], A[q][k]] = [c * A[p][k] - s * A[q][k], s * A[p][k] + c * A[q][k]]));
        V.forEach(turn);
      }
    }
  }
  return { values: A.map((row, i) => row[i]), vectors: V };
}

// Along the slowest mode of the honest workers' graph. The constant vector gets the eigenvalue 2 h, the largest; on a
// graph in several parts the lowest is 0 but for rounding.
export function spectral(honest, graph, place, liars, epsilon = 1.5) {
  if (honest.length === 1) return honest[0];
  const degree = graph.map((row) => row.filter(Boolean).length - 1);
  const laplacian = graph.map((row, k) => row.map((there, l) => 2 + (k === l ? degree[k] : there ? -1 : 0)));
  const { values, vectors } = eigen(laplacian);
  const lowest = Math.min(...values);
  if (lowest <= 1e-6) return honest[place];
  const slow = range(values.length).filter((i) => values[i] < lowest + 1e-6);
  const weights = vectors.map((v) => sum(slow.map((i) => vectors[place][i] * v[i])));
  const mode = columns(honest).map((column) => sum(column.map((x, k) => weights[k] * x)));
  return plus(honest[place], mode, (epsilon * lowest) / Math.max(liars, 1));
}

// The lie that takes the receiver farthest from the mean: the first within a thousandth of that, lest rounding decides.
function mostHarmful(lies, mean, outcome) {
  const harm = lies.map((lie) => nanIsLargest(squares(minus(outcome(lie), mean))));
  return lies[harm.findIndex((x) => x >= 0.999 * Math.max(...harm))];
}

// Against the way that models go, as far as the receiver still chooses the lie.
function fangKrum(heard, start, outcome) {
  const against = minus(start, meanOf(heard)).map(Math.sign);
  const lie = (size) => plus(start, against, size);
  const chosen = (w) => outcome(w).every((x, j) => x === w[j]);
  let size = 1;
  while (size > 1e-5 && !chosen(lie(size))) size /= 2;
  return lie(size);
}

// What worker `receiver` is sent: W are everybody's models, `before` those before the round.
export function sentTo({ attack, W, attackers, receiver, rule, graph, before }) {
  const [liars, normal] = [true, false].map((lies) => range(W.length).filter((k) => attackers.includes(k) === lies));
  const mean = meanOf(normal.map((k) => W[k]));
  if (attack === "replay") return before[normal[0]];
  if (attack === "backdoor") return liars.map((k) => plus(mean, minus(W[k], mean), W.length / liars.length));
  const hears = range(W.length).filter((l) => graph[receiver][l]);
  const outcome = (lie) => p2p.RULES[rule](hears.map((l) => (liars.includes(l) ? lie : W[l])), liars.length);
  if (attack === "fang-krum") {
    return fangKrum(hears.filter((l) => normal.includes(l)).map((l) => W[l]), before[receiver], outcome);
  }
  const deviation = deviationOf(normal.map((k) => W[k]));
  const lies = {
    "alie-optimised": () => range(8).flatMap((i) => [1, -1].map((sign) => plus(mean, deviation, sign * 2 ** (i - 4)))),
    "foe-optimised": () => range(16).map((i) => mean.map((x) => -(2 ** (i - 8)) * x)),
  };
  return mostHarmful(lies[attack](), mean, outcome);
}

// What attackers train on in place of these rows.
export function poison({ attack, X, y, classes }) {
  if (attack === "label-flip") return { X, y: y.map((label) => classes - 1 - label) };
  const even = (i) => i % 2 === 0;
  return { X: X.map((x, i) => (even(i) ? withTrigger(x) : x)), y: y.map((label, i) => (even(i) ? 0 : label)) };
}

// The functions that cases name.
export const FUNCTIONS = {
  metropolis_weights: ({ graph }) => ({ weights: metropolisWeights(graph) }),
  push_weights: ({ graph }) => ({ weights: pushWeights(graph) }),
  top_k: ({ x, k }) => ({ kept: topK(x, k) }),
  geometric_median: ({ W, steps, tolerance, nu }) => ({ w: geometricMedian(W, steps, tolerance, nu) }),
  multi_krum: ({ W, f }) => ({ w: multiKrum(W, f) }),
  bulyan: ({ W, f }) => ({ w: bulyan(W, f) }),
  minimum_diameter_average: ({ W, f }) => ({ w: minimumDiameterAverage(W, f) }),
  own_trimmed_mean: ({ W, own, f }) => ({ w: ownTrimmedMean(W, own, f) }),
  iterative_outlier_scissor: ({ W, own, weights, f }) => ({ w: iterativeOutlierScissor(W, own, weights, f) }),
  clipped_gossip: ({ W, own, weights, tau }) => ({ w: clippedGossip(W, own, weights, tau) }),
  oracle_radius: ({ W, own, weights, honest }) => ({ tau: oracleRadius(W, own, weights, honest) }),
  adaptive_radius: ({ W, own, weights, f }) => ({ tau: adaptiveRadius(W, own, weights, f) }),
  gaussian: ({ honest, signals, scale }) => ({ sent: signals.map((u) => plus(meanOf(honest), u, scale)) }),
  zero: ({ W }) => ({ sent: zerosLike(W[0]) }),
  mimic: ({ honest }) => ({ sent: honest[0] }),
  min_max: ({ honest }) => ({ sent: minMax(honest) }),
  min_sum: ({ honest }) => ({ sent: minSum(honest) }),
  fang_trimmed_mean: ({ honest, before, signals, factor }) => ({
    sent: fangTrimmedMean(honest, before, signals, factor),
  }),
  dissensus: ({ receiver, heard, liars, epsilon }) => ({ sent: dissensus(receiver, heard, liars, epsilon) }),
  spectral: ({ honest, graph, place, liars, epsilon }) => ({ sent: spectral(honest, graph, place, liars, epsilon) }),
  sent_to: (inputs) => ({ sent: sentTo(inputs) }),
  poison,
  mozi: ({ W, own, risks, count, alpha, empty }) => ({ w: mozi(W, own, risks, count, alpha, empty) }),
};
