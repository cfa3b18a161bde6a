// Runs the test vectors against the port: node examples/port/check.mjs [--answers FOLDER] [FAMILY ...]
//
// Prints a line per file (all, or those of the named families) and, for each case that fails, its comment and the
// first number that differs. Exit status: 0 if all agree, 1 if not, 2 for a bad command line.
// --answers also writes the port's own numbers, for `python -m refimpl.vectors check FOLDER/*.json`.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import * as related from "./related.mjs";
import p2p from "./resilient.js";
import { tailored } from "./tailored.mjs";

const VECTORS = new URL("../../refimpl/vectors/v1/", import.meta.url);
const NOT_FINITE = { NaN: NaN, Infinity: Infinity, "-Infinity": -Infinity };

// --- The format: docs/PORTING.md --------------------------------------------------------------------------------

const isArray = (value) => value !== null && typeof value === "object" && "shape" in value && "data" in value;

function decode(value) {
  if (typeof value === "string") return value in NOT_FINITE ? NOT_FINITE[value] : value;
  if (Array.isArray(value)) return value.map(decode);
  if (value === null || typeof value !== "object") return value;
  if (isArray(value)) return p2p.nested(value.data.map(decode), value.shape);
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, decode(entry)]));
}

function shapeOf(value) {
  return Array.isArray(value) ? [value.length, ...(value.length ? shapeOf(value[0]) : [])] : [];
}

const number = (x) => (typeof x === "number" && !Number.isFinite(x) ? String(x) : x);

// The answer in the form of the expected value: {shape, data} where that is an array.
function encode(answer, expected) {
  if (isArray(expected)) return { shape: shapeOf(answer), data: [answer].flat(Infinity).map(number) };
  if (Array.isArray(expected)) return answer.map((entry, i) => encode(entry, expected[i] ?? 0));
  return number(answer);
}

function close(expected, answer, tolerance) {
  if (Number.isNaN(expected)) return Number.isNaN(answer);
  if (tolerance === "exact" || !Number.isFinite(expected)) return expected === answer;
  return Math.abs(answer - expected) <= tolerance.atol + tolerance.rtol * Math.abs(expected);
}

// The first difference between encoded values, as text, or undefined.
function difference(where, expected, answer, tolerance) {
  if (isArray(expected)) {
    if (String(expected.shape) !== String(answer.shape)) {
      return `${where}: expected shape [${expected.shape}], got [${answer.shape}]`;
    }
    const i = expected.data.findIndex((e, j) => !close(decode(e), decode(answer.data[j]), tolerance));
    if (i < 0) return undefined;
    const index = expected.shape.map((n, axis) => Math.floor(i / product(expected.shape.slice(axis + 1))) % n);
    return `${where}[${index.join(", ")}]: expected ${expected.data[i]}, got ${answer.data[i]}`;
  }
  if (Array.isArray(expected)) {
    if (expected.length !== answer.length) {
      return `${where}: expected ${expected.length} entries, got ${answer.length}`;
    }
    return first(expected.map((entry, i) => difference(`${where}[${i}]`, entry, answer[i], tolerance)));
  }
  if (close(decode(expected), decode(answer), tolerance)) return undefined;
  return `${where}: expected ${expected}, got ${answer}`;
}

const product = (numbers) => numbers.reduce((a, b) => a * b, 1);
const first = (texts) => texts.find((text) => text !== undefined);

// --- The functions that cases name ------------------------------------------------------------------------------

const build = (m) => (m.kind === "mlp" ? p2p.mlp(m.sizes) : p2p.cnn(m.side, m.channels, m.hidden, m.classes));
const replay = (draws) => () => draws.shift();
const zerosLike = (value) => (Array.isArray(value) ? value.map(zerosLike) : 0);

function affineBackward({ dy, x, W }) {
  const [dW, db] = [zerosLike(W), zerosLike(W[0])];
  return { dx: dy.map((d, i) => p2p.affineBackward(d, x[i], W, dW, db)), dW, db };
}

function conv2dBackward({ dy, x, K }) {
  const dK = zerosLike(K);
  return { dx: dy.map((d, i) => p2p.conv2dBackward(d, x[i], K, dK)), dK };
}

function layout({ model }) {
  const { layout: fields, size } = build(model);
  return {
    names: fields.map((f) => f.name),
    offsets: fields.map((f) => f.offset),
    shapes: fields.map((f) => f.shape),
    fan_in: fields.map((f) => f.fanIn),
    size,
  };
}

function adam({ W, gradients, lr, beta1, beta2, eps }) {
  const path = [];
  const workers = Array.isArray(W[0]) ? W : [W];
  let states = workers.map(() => null);
  let now = workers;
  for (const G of gradients) {
    const steps = now.map((w, k) => p2p.adam(w, Array.isArray(W[0]) ? G[k] : G, states[k], lr, beta1, beta2, eps));
    [now, states] = [steps.map((step) => step[0]), steps.map((step) => step[1])];
    path.push(now);
  }
  const outputs = { W: path, m: states.map((s) => s.m), v: states.map((s) => s.v) };
  return Array.isArray(W[0]) ? outputs : { W: path.map(([w]) => w), m: outputs.m[0], v: outputs.v[0] };
}

function settingOf(inputs) {
  const attack = inputs.attack === "given" ? () => inputs.messages : inputs.attack;
  const setting = { ...inputs, model: build(inputs.model), attack };
  p2p.check(setting);
  return setting;
}

function round(inputs) {
  const { W, batch, signals, smoothed, optimizer_state: given } = inputs;
  const optimizer = given && W.map((_, k) => ({ t: given.t, m: given.m[k], v: given.v[k] }));
  const made = p2p.round(settingOf(inputs), { W, optimizer, smoothed }, batch, signals);
  const { W: next, optimizer: after } = made.state;
  const adamState = after[0] && { t: after[0].t, m: after.map((s) => s.m), v: after.map((s) => s.v) };
  return { ...made, batch_X: made.batchX, batch_y: made.batchY, W: next, ...adamState };
}

function trajectory(inputs) {
  const setting = settingOf(inputs);
  let state = { W: inputs.W };
  const path = inputs.batches.map((batch, t) => {
    const lr = Array.isArray(inputs.lr) ? inputs.lr[t] : inputs.lr;
    state = p2p.round({ ...setting, lr }, state, batch, inputs.signals?.[t]).state;
    return state.W;
  });
  return { W: path };
}

function evaluate({ model, X_test, y_test, own_test, attackers, W }) {
  const setting = { model: build(model), graph: p2p.complete(W.length), attackers };
  const scores = p2p.evaluate(setting, W, X_test, y_test, own_test);
  return {
    worst_own: scores.worstOwn,
    mean_own: scores.meanOwn,
    worst_whole: scores.worstWhole,
    mean_whole: scores.meanWhole,
  };
}

const FUNCTIONS = {
  inverse_risk_weights: ({ risks }) => ({ weights: p2p.inverseRiskWeights(risks) }),
  adaptive_weights: ({ risks, own }) => ({ weights: p2p.adaptiveWeights(risks, own) }),
  combine: ({ weights, W }) => ({ w: p2p.combine(weights, W) }),
  average: ({ W }) => ({ w: p2p.average(W) }),
  coordinate_median: ({ W }) => ({ w: p2p.coordinateMedian(W) }),
  trimmed_mean: ({ W, f }) => ({ w: p2p.trimmedMean(W, f) }),
  medoid: ({ W }) => ({ w: p2p.medoid(W) }),
  krum: ({ W, f }) => ({ w: p2p.krum(W, f) }),
  rule: ({ rule, W, f }) => ({ w: p2p.RULES[rule](W, f) }),
  sign_flip: ({ W, sigma }) => ({ sent: p2p.signFlip(W, sigma) }),
  arbitrary: ({ W, signals }) => ({ sent: p2p.arbitrary(W, signals) }),
  fall_of_empires: ({ honest, epsilon }) => ({ sent: p2p.fallOfEmpires(honest, epsilon) }),
  a_little_is_enough: ({ honest, z }) => ({ sent: p2p.aLittleIsEnough(honest, z) }),
  alie_z: ({ n, f }) => ({ z: p2p.alieZ(n, f) }),
  affine: ({ x, W, b }) => ({ y: x.map((row) => p2p.affine(row, W, b)) }),
  affine_backward: affineBackward,
  relu: ({ x }) => ({ y: x.map((row) => row.map(p2p.relu)) }),
  relu_backward: ({ dy, y }) => ({ dx: dy.map((row, i) => row.map((d, j) => p2p.reluBackward(d, y[i][j]))) }),
  softmax_cross_entropy: ({ z, y }) => ({ losses: z.map((row, i) => p2p.softmaxCrossEntropy(row, y[i])) }),
  softmax_cross_entropy_backward: ({ z, y }) => ({
    dz: z.map((row, i) => p2p.softmaxCrossEntropyBackward(row, y[i])),
  }),
  conv2d: ({ x, K }) => ({ y: x.map((sample) => p2p.conv2d(sample, K)) }),
  conv2d_backward: conv2dBackward,
  maxpool2d: ({ x }) => ({ y: x.map(p2p.maxpool2d) }),
  maxpool2d_backward: ({ dy, x }) => ({ dx: dy.map((d, i) => p2p.maxpool2dBackward(d, x[i])) }),
  layout,
  initial: ({ model, uniforms }) => ({ W: uniforms.map((u) => p2p.initial(build(model), u)) }),
  logits: ({ model, w, X }) => ({ logits: p2p.logits(build(model), w, X) }),
  risk: ({ model, w, X, y }) => ({ risk: p2p.risk(build(model), w, X, y) }),
  gradient: ({ model, w, X, y }) => ({ gradient: p2p.gradient(build(model), w, X, y) }),
  predict: ({ model, w, X }) => ({ labels: p2p.predict(build(model), w, X) }),
  sgd: ({ W, G, lr }) => ({ W: W.map((w, k) => p2p.sgd(w, G[k], null, lr)[0]) }),
  adam,
  complete: ({ n }) => ({ graph: p2p.complete(n) }),
  ring: ({ n }) => ({ graph: p2p.ring(n) }),
  from_edges: ({ n, edges }) => ({ graph: p2p.fromEdges(n, edges) }),
  erdos_renyi: ({ n, p, uniforms }) => ({ graph: p2p.erdosRenyi(n, p, uniforms) }),
  random_regular: ({ n, degree, shuffled }) => ({ graph: p2p.randomRegular(n, degree, replay(shuffled)) }),
  require_connected: ({ graph }) => p2p.requireConnected(graph),
  rounds_per_epoch: ({ sizes, batch_size }) => ({ rounds: p2p.roundsPerEpoch(sizes, batch_size) }),
  batches: ({ sizes, batch_size, rounds, orders }) => ({
    batches: p2p.batches(sizes, batch_size, rounds, replay(orders)),
  }),
  evaluate,
  round,
  trajectory,
  ...related.FUNCTIONS,
  tailored: (inputs) => ({ sent: tailored({ ...inputs, model: build(inputs.model) }) }),
  related_rounds: (inputs) => related.relatedRounds({ ...inputs, model: build(inputs.model) }),
};

// --- Running ----------------------------------------------------------------------------------------------------

// The port's answer to a case, in the form of the vector files.
function answer(entry) {
  try {
    const made = FUNCTIONS[entry.function](decode(entry.inputs));
    if (entry.error) return { id: entry.id, error: { kind: "none" } };
    const outputs = Object.entries(entry.expected).map(([key, expected]) => [key, encode(made[key], expected)]);
    return { id: entry.id, expected: Object.fromEntries(outputs) };
  } catch (error) {
    const kind = error instanceof RangeError ? "invalid argument" : error.name;
    return { id: entry.id, error: { kind, message: error.message } };
  }
}

// The first difference in the order of the outputs, which is that of the computation.
function failure(entry, { expected, error }, outputs) {
  if (entry.error) {
    if (error.kind !== entry.error.kind) return `expected the error "${entry.error.kind}", got "${error.kind}"`;
    const lacking = entry.error.facts.find((fact) => !error.message.includes(fact));
    return lacking && `no ${lacking} in the message: ${error.message}`;
  }
  if (error) return `unexpected ${error.kind}: ${error.message}`;
  const keys = outputs.filter((key) => key in entry.expected);
  return first(keys.map((key) => difference(key, entry.expected[key], expected[key], entry.tolerances[key])));
}

const known = readdirSync(VECTORS).flatMap((name) => name.match(/^(.*)\.json$/)?.[1] ?? []).sort();
const asked = process.argv.slice(2);
const folder = asked[0] === "--answers" ? asked.splice(0, 2)[1] ?? "" : undefined;
const unknown = asked.find((name) => !known.includes(name));
if (folder === "" || unknown !== undefined) {
  console.error(unknown ? `no family ${unknown}, choose from ${known.join(", ")}` : "--answers needs a folder");
  process.exit(2);
}
let failed = 0;
for (const name of known.filter((family) => asked.length === 0 || asked.includes(family))) {
  const file = JSON.parse(readFileSync(new URL(`${name}.json`, VECTORS), "utf8"));
  const entries = [...file.cases, ...file.errors];
  const answers = entries.map(answer);
  const failures = entries.map((entry, i) => failure(entry, answers[i], file.outputs[entry.function]));
  const bad = failures.filter(Boolean).length;
  failed += bad;
  console.log(`${file.name}: ${entries.length - bad} of ${entries.length} cases agree`);
  failures.forEach((text, i) => text && console.log(`  ${entries[i].id}: ${entries[i].comment}\n    ${text}`));
  if (folder) {
    mkdirSync(folder, { recursive: true });
    const [cases, errors] = [answers.slice(0, file.cases.length), answers.slice(file.cases.length)];
    const content = { name: file.name, version: file.version, cases, errors };
    writeFileSync(`${folder}/${name}.json`, JSON.stringify(content));
  }
}
process.exit(failed ? 1 : 0);
