// Resilient peer-to-peer learning by adaptive aggregation (Bhowmick and Koutsoukos, 2024), in plain JavaScript.
//
// A port written from docs/PORTING.md and checked against refimpl/vectors by check.mjs. Arrays are nested, a model
// is a flat array w of numbers, W is an array of models, one per worker. No function changes its arguments, and
// no function draws a random number: draws are arguments.
//
// A classic script, so that inline.py can put it into index.html; node imports it as a CommonJS module.
"use strict";

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const range = (n) => Array.from({ length: n }, (_, i) => i);
const zeros = (n) => new Array(n).fill(0);
const isFiniteModel = (w) => w.every(Number.isFinite);
const ascending = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const columns = (W) => W[0].map((_, j) => W.map((w) => w[j]));

// The position of the smallest number, the first of equals.
function argmin(numbers) {
  let best = 0;
  numbers.forEach((x, i) => {
    if (x < numbers[best]) best = i;
  });
  return best;
}

// --- The paper's rule: Eq. (5), (6) and (3) ---------------------------------------------------------------------

// Eq. (5): c_l = r_l^-1 / sum_p r_p^-1, as min(r) / r normalised. Not finite: 0. Zero risks share all the weight.
function inverseRiskWeights(risks) {
  const finite = risks.filter(Number.isFinite);
  if (finite.length === 0) return zeros(risks.length);
  const best = Math.min(...finite);
  const c = risks.map((r) => (!Number.isFinite(r) ? 0 : r === best ? 1 : best / r));
  const total = sum(c);
  return c.map((x) => x / total);
}

// Eq. (6): Eq. (5) over N_k^+ = {l : r_l <= r_own}, 0 elsewhere.
function adaptiveWeights(risks, own) {
  if (!(own >= 0 && own < risks.length)) {
    throw new RangeError(`adaptiveWeights needs 0 <= own < n, got own=${own}, n=${risks.length}`);
  }
  const inNPlus = (r) => r <= risks[own] || !Number.isFinite(risks[own]);
  return orOwn(inverseRiskWeights(risks.map((r) => (inNPlus(r) ? r : Infinity))), own);
}

// Where all weights are 0, the receiver keeps its own model.
function orOwn(weights, own) {
  return weights.every((c) => c === 0) ? weights.map((_, l) => (l === own ? 1 : 0)) : weights;
}

// Eq. (3): w = sum_l c_l w_l. A model with weight 0 is left out, whatever it holds; one that is not finite and
// has a weight makes everything NaN.
function combine(weights, W) {
  const w = zeros(W[0].length);
  W.forEach((model, l) => {
    if (weights[l] === 0) return;
    const finite = isFiniteModel(model);
    for (let j = 0; j < w.length; j++) w[j] += finite ? weights[l] * model[j] : NaN;
  });
  return w;
}

// --- The paper's baselines --------------------------------------------------------------------------------------

const average = (W) => columns(W).map((column) => sum(column) / W.length);

// One coordinate's values in ascending order, NaN as +infinity.
const sorted = (column) => column.map((x) => (Number.isNaN(x) ? Infinity : x)).sort(ascending);

function coordinateMedian(W) {
  const n = W.length;
  return columns(W).map((column) => {
    const s = sorted(column);
    return (s[Math.floor((n - 1) / 2)] + s[Math.floor(n / 2)]) / 2;
  });
}

function requireTrimmable(n, f) {
  if (f < 0 || n < 2 * f + 1) throw new RangeError(`trimmed_mean needs f >= 0, n >= 2f + 1, got n=${n}, f=${f}`);
}

function trimmedMean(W, f) {
  const n = W.length;
  requireTrimmable(n, f);
  return columns(W).map((column) => sum(sorted(column).slice(f, n - f)) / (n - 2 * f));
}

// |a - b|^2, infinite if a or b is not finite or the square overflows.
function squaredDistance(a, b) {
  let total = 0;
  for (let j = 0; j < a.length; j++) total += (a[j] - b[j]) * (a[j] - b[j]);
  return Number.isFinite(total) ? total : Infinity;
}

// The model whose distances have the smallest sum: fewest infinite ones first, then the smallest finite sum.
function closest(W, distances) {
  const far = distances.map((row) => row.filter((x) => x === Infinity).length);
  const near = distances.map((row) => sum(row.filter((x) => x !== Infinity)));
  const fewest = Math.min(...far);
  return W[argmin(near.map((x, i) => (far[i] === fewest ? x : Infinity)))].slice();
}

function medoid(W) {
  const others = (i) => W.filter((_, j) => j !== i);
  return closest(W, W.map((w, i) => others(i).map((v) => Math.sqrt(squaredDistance(w, v)))));
}

function requireKrum(n, f) {
  if (f < 0 || n < 2 * f + 3) throw new RangeError(`krum needs f >= 0 and n >= 2f + 3 models, got n=${n}, f=${f}`);
}

function krum(W, f) {
  const n = W.length;
  requireKrum(n, f);
  const others = (i) => W.filter((_, j) => j !== i);
  const nearest = (w, i) => others(i).map((v) => squaredDistance(w, v)).sort(ascending).slice(0, n - f - 2);
  return closest(W, W.map(nearest));
}

// How many values the trimmed mean drops on each side: as many as attackers, a tenth if there are none.
const trim = (n, f) => (f > 0 ? f : Math.floor(n / 10));

const WEIGHTS = {
  adaptive: adaptiveWeights,
  "inverse-risk": (risks, own) => orOwn(inverseRiskWeights(risks), own),
};
const RULES = {
  average: (W, f) => average(W),
  medoid: (W, f) => medoid(W),
  "trimmed-mean": (W, f) => trimmedMean(W, trim(W.length, f)),
  median: (W, f) => coordinateMedian(W),
  krum,
};
const REQUIREMENTS = { "trimmed-mean": (n, f) => requireTrimmable(n, trim(n, f)), krum: requireKrum };

// --- Attacks ----------------------------------------------------------------------------------------------------

const signFlip = (W, sigma = 1) => W.map((w) => w.map((x) => -sigma * x));
const arbitrary = (W, signals) => W.map((w, i) => w.map((x, j) => signals[i][j] * x));
const fallOfEmpires = (honest, epsilon = 1) => average(honest).map((x) => -epsilon * x);

// mean - z std of each coordinate; the standard deviation divides by the number of honest models.
function aLittleIsEnough(honest, z) {
  return columns(honest).map((column) => {
    const mean = sum(column) / column.length;
    const variance = sum(column.map((x) => (x - mean) * (x - mean))) / column.length;
    return mean - z * Math.sqrt(variance);
  });
}

function alieZ(n, f) {
  if (!(f >= 0 && f < n)) throw new RangeError(`alie_z needs 0 <= f < n, got n=${n}, f=${f}`);
  const h = n - f;
  const s = Math.max(Math.floor(n / 2) + 1 - f, 1);
  return h > s ? normalQuantile((h - s) / h) : 0;
}

// Phi^-1(p): Newton's method on Phi(z) = 1/2 + phi(z) (z + z^3/3 + z^5/(3*5) + ...), from 0, where it converges.
function normalQuantile(p) {
  let z = 0;
  for (let i = 0; i < 100; i++) {
    const density = Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI);
    let term = z;
    let series = 0;
    for (let k = 3; series + term !== series; k += 2) {
      series += term;
      term *= (z * z) / k;
    }
    const step = (0.5 + density * series - p) / density;
    z -= step;
    if (Math.abs(step) < 1e-15) break;
  }
  return z;
}

const ATTACKS = {
  none: (own) => own,
  "sign-flip": (own) => signFlip(own),
  arbitrary: (own, honest, signals) => arbitrary(own, signals),
  foe: (own, honest) => own.map(() => fallOfEmpires(honest)),
  alie: (own, honest) => {
    const z = alieZ(own.length + honest.length, own.length);
    return own.map(() => aLittleIsEnough(honest, z));
  },
  "alie-corrupted": (own, honest) => {
    const z = alieZ(own.length + honest.length, own.length);
    return own.map(() => aLittleIsEnough(own, z));
  },
};

// --- Layers, for one sample: forward, and backward from dy, the derivative of the loss by the output ------------

// y = x W + b.
function affine(x, W, b) {
  return b.map((bias, j) => {
    let y = bias;
    for (let i = 0; i < x.length; i++) y += x[i] * W[i][j];
    return y;
  });
}

// Adds x^T dy to dW and dy to db, the sums over samples; returns dx = dy W^T.
function affineBackward(dy, x, W, dW, db) {
  dy.forEach((d, j) => {
    db[j] += d;
    for (let i = 0; i < x.length; i++) dW[i][j] += x[i] * d;
  });
  return W.map((row) => sum(row.map((weight, j) => dy[j] * weight)));
}

const relu = (x) => Math.max(x, 0); // NaN stays NaN
const reluBackward = (dy, y) => (y > 0 ? dy : 0);

// log(sum_j exp z_j) - z_y, 0 for padding (label -1).
function softmaxCrossEntropy(z, label) {
  if (label < 0) return 0;
  const top = Math.max(...z);
  return Math.log(sum(z.map((x) => Math.exp(x - top)))) - (z[label] - top);
}

// dz = softmax(z) - onehot(y), 0 for padding.
function softmaxCrossEntropyBackward(z, label) {
  if (label < 0) return zeros(z.length);
  const top = Math.max(...z);
  const e = z.map((x) => Math.exp(x - top));
  const total = sum(e);
  return e.map((x, j) => x / total - (j === label ? 1 : 0));
}

const image = (H, W, C) => range(H).map(() => range(W).map(() => zeros(C)));

// Calls visit(i, j, s, t) for every pixel (i, j) and every place (s, t) of the 3x3 kernel that lies inside.
function overKernel(H, W, visit) {
  for (let i = 0; i < H; i++) {
    for (let j = 0; j < W; j++) {
      for (let s = Math.max(0, 1 - i); s < Math.min(3, H + 1 - i); s++) {
        for (let t = Math.max(0, 1 - j); t < Math.min(3, W + 1 - j); t++) visit(i, j, s, t);
      }
    }
  }
}

// y[i][j][o] = sum_{s, t, c} x[i + s - 1][j + t - 1][c] K[s][t][c][o], x being 0 outside.
function conv2d(x, K) {
  const [H, W, C, O] = [x.length, x[0].length, K[0][0].length, K[0][0][0].length];
  const y = image(H, W, O);
  overKernel(H, W, (i, j, s, t) => {
    for (let c = 0; c < C; c++) {
      for (let o = 0; o < O; o++) y[i][j][o] += x[i + s - 1][j + t - 1][c] * K[s][t][c][o];
    }
  });
  return y;
}

// Adds to dK, the sum over samples; returns dx.
function conv2dBackward(dy, x, K, dK) {
  const [H, W, C, O] = [x.length, x[0].length, K[0][0].length, K[0][0][0].length];
  const dx = image(H, W, C);
  overKernel(H, W, (i, j, s, t) => {
    for (let c = 0; c < C; c++) {
      for (let o = 0; o < O; o++) {
        dK[s][t][c][o] += x[i + s - 1][j + t - 1][c] * dy[i][j][o];
        dx[i + s - 1][j + t - 1][c] += K[s][t][c][o] * dy[i][j][o];
      }
    }
  });
  return dx;
}

const WINDOW = [[0, 0], [0, 1], [1, 0], [1, 1]];

// The maximum of each 2x2 window; an odd last row or column is dropped.
function maxpool2d(x) {
  const [h, w, C] = [Math.floor(x.length / 2), Math.floor(x[0].length / 2), x[0][0].length];
  return range(h).map((i) =>
    range(w).map((j) => range(C).map((c) => Math.max(...WINDOW.map(([s, t]) => x[2 * i + s][2 * j + t][c]))))
  );
}

// dy goes to the first maximum of its window, in the order of WINDOW.
function maxpool2dBackward(dy, x) {
  const dx = image(x.length, x[0].length, x[0][0].length);
  dy.forEach((row, i) =>
    row.forEach((pixel, j) =>
      pixel.forEach((d, c) => {
        const values = WINDOW.map(([s, t]) => x[2 * i + s][2 * j + t][c]);
        const [s, t] = WINDOW[values.indexOf(Math.max(...values))] ?? WINDOW[0];
        dx[2 * i + s][2 * j + t][c] = d;
      })
    )
  );
  return dx;
}

// --- Models: a layout, and functions of (named tensors, one sample) ---------------------------------------------

// Lays tensors [name, shape, fanIn] one behind the other.
function layout(tensors) {
  let offset = 0;
  return tensors.map(([name, shape, fanIn]) => {
    const field = { name, offset, shape, fanIn, size: shape.reduce((a, b) => a * b, 1) };
    offset += field.size;
    return field;
  });
}

// Numbers in C order as a nested array of this shape.
function nested(numbers, shape) {
  if (shape.length === 0) return numbers[0];
  const step = numbers.length / shape[0];
  return range(shape[0]).map((i) => nested(numbers.slice(i * step, (i + 1) * step), shape.slice(1)));
}

const tensors = (model, w) =>
  Object.fromEntries(model.layout.map((f) => [f.name, nested(w.slice(f.offset, f.offset + f.size), f.shape)]));
const flat = (model, t) => model.layout.flatMap((f) => t[f.name].flat(Infinity));

function denseTensors(first, sizes) {
  return range(sizes.length - 1).flatMap((i) => [
    [`W${first + i}`, [sizes[i], sizes[i + 1]], sizes[i]],
    [`b${first + i}`, [sizes[i + 1]], sizes[i]],
  ]);
}

// Affine layers first ... last with ReLU between them; saves the input of each.
function dense(t, first, last, x, saved) {
  for (let i = first; i <= last; i++) {
    saved.push(x);
    x = affine(x, t[`W${i}`], t[`b${i}`]);
    if (i < last) x = x.map(relu);
  }
  return x;
}

// Adds to the tensors of dt; returns the derivative by the input, before the ReLU that it came from.
function denseBackward(t, first, last, saved, dy, dt) {
  for (let i = last; i >= first; i--) {
    const x = saved.pop();
    const dx = affineBackward(dy, x, t[`W${i}`], dt[`W${i}`], dt[`b${i}`]);
    dy = dx.map((d, j) => reluBackward(d, x[j]));
  }
  return dy;
}

function mlp(sizes) {
  if (sizes.length < 2) throw new RangeError(`mlp needs at least an input and an output width, got ${sizes}`);
  const last = sizes.length - 1;
  return withSize({
    layout: layout(denseTensors(1, sizes)),
    forward: (t, x, saved = []) => dense(t, 1, last, x, saved),
    backward: (t, saved, dz, dt) => void denseBackward(t, 1, last, saved, dz, dt),
  });
}

function cnn(side, channels, hidden, classes) {
  const depth = channels.length;
  if (depth < 1 || side < 2 ** depth) {
    throw new RangeError(`cnn needs channels and a side of at least 2^${depth}, got ${channels}, ${side}`);
  }
  const pooled = [side >> depth, side >> depth, channels[depth - 1]];
  const inputs = [1, ...channels];
  const kernels = channels.flatMap((O, i) => [
    [`K${i + 1}`, [3, 3, inputs[i], O], 9 * inputs[i]],
    [`b${i + 1}`, [O], 9 * inputs[i]],
  ]);
  const sizes = [pooled[0] * pooled[1] * pooled[2], hidden, classes];

  function forward(t, X, saved = []) {
    let x = X.map((row) => row.map((pixel) => [pixel]));
    for (let i = 1; i <= depth; i++) {
      const z = conv2d(x, t[`K${i}`]);
      saved.push(x, z);
      x = maxpool2d(z).map((row) => row.map((pixel) => pixel.map((value, o) => relu(value + t[`b${i}`][o]))));
    }
    return dense(t, depth + 1, depth + 2, x.flat(2), saved);
  }

  function backward(t, saved, dz, dt) {
    let dy = nested(denseBackward(t, depth + 1, depth + 2, saved, dz, dt), pooled);
    for (let i = depth; i >= 1; i--) {
      const [x, z] = saved.splice(-2);
      dy.flat().forEach((pixel) => pixel.forEach((d, o) => (dt[`b${i}`][o] += d)));
      const dx = conv2dBackward(maxpool2dBackward(dy, z), x, t[`K${i}`], dt[`K${i}`]);
      dy = dx.map((row, r) => row.map((pixel, s) => pixel.map((d, c) => reluBackward(d, x[r][s][c]))));
    }
  }

  return withSize({ layout: layout([...kernels, ...denseTensors(depth + 1, sizes)]), forward, backward });
}

const withSize = (model) => ({ ...model, size: sum(model.layout.map((field) => field.size)) });

function logits(model, w, X) {
  const t = tensors(model, w);
  return X.map((x) => model.forward(t, x));
}

// r(w): the mean loss over the rows that are not padding.
function risk(model, w, X, y) {
  const losses = logits(model, w, X).map((z, i) => softmaxCrossEntropy(z, y[i]));
  return sum(losses) / y.filter((label) => label >= 0).length;
}

function gradient(model, w, X, y) {
  const t = tensors(model, w);
  const dt = tensors(model, zeros(model.size));
  const rows = y.filter((label) => label >= 0).length;
  X.forEach((x, i) => {
    if (y[i] < 0) return;
    const saved = [];
    const z = model.forward(t, x, saved);
    model.backward(t, saved, softmaxCrossEntropyBackward(z, y[i]).map((d) => d / rows), dt);
  });
  return flat(model, dt);
}

// l2 |w|^2 / 2 is added to the risk, its derivative l2 w to the gradient; nothing if l2 is 0: 0 * Infinity is NaN.
const penalty = (w, l2) => (l2 ? (l2 / 2) * sum(w.map((x) => x * x)) : 0);
const regularised = (g, w, l2) => (l2 ? g.map((x, j) => x + l2 * w[j]) : g);

// The label with the highest logit, the lowest of equals; -1 where a logit is NaN.
function predict(model, w, X) {
  return logits(model, w, X).map((z) => (z.some(Number.isNaN) ? -1 : argmin(z.map((x) => -x))));
}

// --- Optimisers: step(w, g, state, lr) -> [w, state] ------------------------------------------------------------

const sgd = (w, g, state, lr) => [w.map((x, j) => x - lr * g[j]), null]; // Eq. (2)

function adam(w, g, state, lr, beta1 = 0.9, beta2 = 0.999, eps = 1e-8) {
  const before = state ?? { t: 0, m: zeros(w.length), v: zeros(w.length) };
  const t = before.t + 1;
  const m = before.m.map((x, j) => beta1 * x + (1 - beta1) * g[j]);
  const v = before.v.map((x, j) => beta2 * x + (1 - beta2) * g[j] * g[j]);
  const next = w.map((x, j) => {
    const mHat = m[j] / (1 - beta1 ** t);
    const vHat = v[j] / (1 - beta2 ** t);
    return x - (lr * mHat) / (Math.sqrt(vHat) + eps);
  });
  return [next, { t, m, v }];
}

const OPTIMIZERS = { sgd, adam };

// --- Graphs: A[k][l] is true if l is in N_k ---------------------------------------------------------------------

const complete = (n) => range(n).map(() => new Array(n).fill(true));
const ring = (n) => fromEdges(n, range(n).map((k) => [k, (k + 1) % n]));

function fromEdges(n, edges) {
  const A = range(n).map((k) => range(n).map((l) => k === l));
  for (const [i, j] of edges) {
    if (!(i in A && j in A)) throw new RangeError(`edge ${i} ${j} names a worker that is not one of 0 to ${n - 1}`);
    A[i][j] = A[j][i] = true;
  }
  return A;
}

// uniforms[i][j] in [0, 1) decides the edge i < j.
function erdosRenyi(n, p, uniforms) {
  const edges = range(n).flatMap((i) => range(n).filter((j) => i < j && uniforms[i][j] < p).map((j) => [i, j]));
  return fromEdges(n, edges);
}

// shuffle(stubs) returns them in random order; each next two are an edge, and those that cannot be try again.
function randomRegular(n, degree, shuffle) {
  if (!(degree >= 0 && degree < n) || (n * degree) % 2) {
    throw new RangeError(`randomRegular needs degree < n and n * degree even, got n=${n}, degree=${degree}`);
  }
  if (degree > Math.floor((n - 1) / 2)) {
    const complement = randomRegular(n, n - 1 - degree, shuffle);
    return complement.map((row, k) => row.map((there, l) => k === l || !there));
  }
  for (;;) {
    const A = fromEdges(n, []);
    let stubs = range(n).flatMap((k) => new Array(degree).fill(k));
    for (let stuck = 0; stubs.length > 0 && stuck < 10; ) {
      const order = shuffle(stubs);
      const left = [];
      for (let e = 0; e < order.length; e += 2) {
        const [i, j] = [order[e], order[e + 1]];
        if (A[i][j]) left.push(i, j);
        else A[i][j] = A[j][i] = true;
      }
      stuck = left.length === stubs.length ? stuck + 1 : 0;
      stubs = left;
    }
    if (stubs.length === 0) return A;
  }
}

function requireConnected(A) {
  const reached = [0];
  for (const k of reached) A[k].forEach((there, l) => there && !reached.includes(l) && reached.push(l));
  const lost = range(A.length).find((k) => !reached.includes(k));
  if (lost !== undefined) throw new RangeError(`the graph must be connected, but no path leads from 0 to ${lost}`);
}

// --- Algorithm 1 ------------------------------------------------------------------------------------------------
// A setting is {model, X, y, graph, attackers, rule, attack, risk, smoothing, optimizer, lr, [l2]}: X[k] and y[k]
// are worker k's samples and labels, lr is a step size, or one for each worker. A state is {W, optimizer, smoothed}:
// what one round hands to the next.

const honestWorkers = (setting) => range(setting.graph.length).filter((k) => !setting.attackers.includes(k));
const stepSize = (lr, k) => (Array.isArray(lr) ? lr[k] : lr); // mu_k^t
const neighbours = (graph, k) => range(graph.length).filter((l) => graph[k][l]);

function check(setting) {
  const { graph, attackers, rule, attack, risk, smoothing, optimizer } = setting;
  if (!(rule in WEIGHTS || rule in RULES || rule === "local")) throw new RangeError(`unknown rule ${rule}`);
  if (!(typeof attack === "function" || attack in ATTACKS)) throw new RangeError(`unknown attack ${attack}`);
  if (!["local", "batch"].includes(risk)) throw new RangeError(`unknown risk ${risk}`);
  if (!(optimizer in OPTIMIZERS)) throw new RangeError(`unknown optimizer ${optimizer}`);
  if (attackers.length >= graph.length) {
    throw new RangeError(`at least one worker must be normal, got ${attackers.length} attackers of ${graph.length} workers`);
  }
  if (!(smoothing > 0 && smoothing <= 1)) throw new RangeError(`smoothing must be in (0, 1], got ${smoothing}`);
  requireConnected(graph);
  for (const k of honestWorkers(setting)) {
    try {
      REQUIREMENTS[rule]?.(neighbours(graph, k).length, attackers.length);
    } catch (error) {
      throw new RangeError(`worker ${k}: ${error.message}`);
    }
  }
}

// One round, given its draws: batch[k], row numbers of worker k; signals[i], of the i-th attacker, if needed.
function round(setting, state, batch, signals) {
  const { model, X, y, graph, attackers, rule, attack, l2 = 0 } = setting;
  const workers = range(graph.length);
  const batchX = workers.map((k) => batch[k].map((row) => X[k][row]));
  const batchY = workers.map((k) => batch[k].map((row) => y[k][row]));

  // for all agents: local learning step, Eq. (2)
  const G = workers.map((k) => regularised(gradient(model, state.W[k], batchX[k], batchY[k]), state.W[k], l2));
  const steps = workers.map((k) =>
    OPTIMIZERS[setting.optimizer](state.W[k], G[k], state.optimizer?.[k], stepSize(setting.lr, k))
  );
  const local = steps.map(([w]) => w);
  const optimizer = steps.map(([, optimizerState]) => optimizerState);

  // attackers replace what they send: lies[i], or to receiver k lies[k][i]
  const honest = honestWorkers(setting);
  const send = typeof attack === "function" ? attack : ATTACKS[attack];
  const lies = send(attackers.map((k) => local[k]), honest.map((k) => local[k]), signals);
  const toEach = Array.isArray(lies[0]?.[0]);
  const among = (lies) => local.map((w, l) => (attackers.includes(l) ? lies[attackers.indexOf(l)] : w));
  const sent = toEach ? workers.map((k) => (honest.includes(k) ? among(lies[k]) : local)) : among(lies);

  // for all normal agents: model aggregation step; attackers go on from their own local step
  const W = local.slice();
  const table = (value) => workers.map(() => new Array(workers.length).fill(value));
  const [risks, smoothed, weights] = [table(NaN), table(NaN), table(0)];
  for (const k of honest) {
    if (rule === "local") continue;
    const N_k = neighbours(graph, k);
    const models = N_k.map((l) => (toEach ? sent[k] : sent)[l]);
    if (rule in RULES) {
      W[k] = RULES[rule](models, attackers.length);
      continue;
    }
    const data = setting.risk === "batch" ? [batchX[k], batchY[k]] : [X[k], y[k]];
    const r = models.map((w) => (isFiniteModel(w) ? risk(model, w, ...data) + penalty(w, l2) : Infinity));
    const L = r.map((x, i) => smooth(state.smoothed?.[k][N_k[i]], x, setting.smoothing));
    const c = WEIGHTS[rule](L, N_k.indexOf(k)); // Eq. (6), or (5)
    W[k] = combine(c, models); // Eq. (3)
    N_k.forEach((l, i) => ([risks[k][l], smoothed[k][l], weights[k][l]] = [r[i], L[i], c[i]]));
  }
  return { batchX, batchY, gradient: G, local, sent, risks, smoothed, weights, state: { W, optimizer, smoothed } };
}

// A running average that starts, or starts again after it was lost, at r.
function smooth(previous, r, share) {
  return Number.isFinite(previous) ? (1 - share) * previous + share * r : r;
}

// --- Draws, made into what a run needs --------------------------------------------------------------------------

// Initial parameters from uniforms in (-1, 1), one per parameter: times 1 / sqrt(fan-in of the layer).
const initial = (model, uniforms) =>
  model.layout.flatMap((f) => uniforms.slice(f.offset, f.offset + f.size).map((u) => u / Math.sqrt(f.fanIn)));

// Rounds in which the workers read, on average, their local data once.
const roundsPerEpoch = (sizes, batchSize) => Math.ceil(sum(sizes) / (sizes.length * batchSize));

// Row numbers (rounds, N, batchSize) for an epoch; order(n) returns 0 ... n - 1 in a random order.
function batches(sizes, batchSize, rounds, order) {
  const rows = sizes.map((n) => {
    const all = [];
    while (all.length < rounds * batchSize) all.push(...order(n));
    return all;
  });
  return range(rounds).map((t) => rows.map((all) => all.slice(t * batchSize, (t + 1) * batchSize)));
}

// The accuracy of the normal workers, worst and mean: on their own rows of the test set, and on all of it.
function evaluate(setting, W, XTest, yTest, ownTest) {
  const share = (flags) => flags.filter(Boolean).length / flags.length;
  const scores = honestWorkers(setting).map((k) => {
    const correct = predict(setting.model, W[k], XTest).map((label, i) => label === yTest[i]);
    return { own: share(correct.filter((_, i) => ownTest[k][i])), whole: share(correct) };
  });
  const [own, whole] = [scores.map((s) => s.own), scores.map((s) => s.whole)];
  return {
    worstOwn: Math.min(...own),
    meanOwn: sum(own) / own.length,
    worstWhole: Math.min(...whole),
    meanWhole: sum(whole) / whole.length,
  };
}

if (typeof module !== "undefined") {
  module.exports = {
    inverseRiskWeights, adaptiveWeights, combine, average, coordinateMedian, trimmedMean, medoid, krum, RULES,
    signFlip, arbitrary, fallOfEmpires, aLittleIsEnough, alieZ,
    affine, affineBackward, relu, reluBackward, softmaxCrossEntropy, softmaxCrossEntropyBackward,
    conv2d, conv2dBackward, maxpool2d, maxpool2dBackward, nested,
    mlp, cnn, logits, risk, gradient, penalty, regularised, predict, sgd, adam, stepSize,
    complete, ring, fromEdges, erdosRenyi, randomRegular, requireConnected,
    check, round, initial, roundsPerEpoch, batches, evaluate,
    ATTACKS, OPTIMIZERS,
  };
}
