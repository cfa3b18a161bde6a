// The attacks that know Eq. (6), in plain JavaScript: docs/PORTING.md, "related". Optional, like related.mjs, and
// checked against the same file of vectors. A lie is for one receiver: `w` is its model, r(w) the risk on its rows.
import p2p from "./resilient.js";

const range = (n) => Array.from({ length: n }, (_, i) => i);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const negated = (w) => w.map((x) => -x);
const MARGIN = 2 ** -26;
const [TRIES, STEPS] = [8, 20];

const below = (risk) => (1 - MARGIN) * risk;

// The point nearest to `goal` within the limit that a bisection finds on the way there from w.
export function farthest(w, goal, r, limit) {
  if (r(goal) <= limit) return goal;
  const at = (share) => w.map((x, j) => x + share * (goal[j] - x));
  let [low, high] = [0, 1];
  for (let i = 0; i < TRIES; i++) {
    const middle = (low + high) / 2;
    if (r(at(middle)) <= limit) low = middle;
    else high = middle;
  }
  return low ? at(low) : w;
}

// w after Polyak's steps, each by `share` of the risk, until that is within the limit. One that climbs is taken back.
export function descended(w, r, g, limit, share = 1) {
  for (let i = 0; i < STEPS; i++) {
    const [risk, along] = [r(w), g(w)];
    const slope = sum(along.map((x) => x * x));
    if (risk <= limit || !(slope > 0)) break;
    const trial = w.map((x, j) => x - ((share * risk) / slope) * along[j]);
    if (r(trial) < risk) [w, share] = [trial, Math.min(1, 2 * share)];
    else share /= 2;
  }
  return w;
}

function fitted(w, r, g, share = 1) {
  const limit = below(share * r(w));
  const fit = descended(w, r, g, limit / 2);
  return r(fit) <= limit ? farthest(fit, negated(w), r, limit) : fit;
}

// The last three features, or the last three rows and columns of an image, set to 3.
export const withTrigger = (x) =>
  x.map((entry, i) => (i < x.length - 3 ? entry : Array.isArray(entry) ? withTrigger(entry) : 3));

// `triggered` are the risk and its gradient on the rows with the trigger.
function captureBackdoor(w, r, g, triggered) {
  const limit = below(r(w));
  const both = (v) => r(v) + triggered.r(v);
  const along = (v) => {
    const [clean, dirty] = [g(v), triggered.g(v)];
    return clean.map((x, j) => x + dirty[j]);
  };
  return farthest(w, descended(w, both, along, limit / 100), r, limit);
}

// The number of units of the last hidden layer, 0 if there is none.
const hidden = ({ layout }) => (layout.length < 4 ? 0 : layout.at(-3).size);

// The network with the units of its last hidden layer moved by so many places, the last ones to the front.
function turned(model, w, places) {
  const made = w.slice();
  if (hidden(model) === 0) return made;
  const [into, bias, out] = model.layout.slice(-4, -1);
  const units = hidden(model);
  const to = (j) => (j + places) % units;
  const move = (field, from, target) => (made[field.offset + target] = w[field.offset + from]);
  const [inputs, classes] = [into.size / units, out.size / units];
  for (const j of range(units)) {
    move(bias, j, to(j));
    for (const i of range(inputs)) move(into, i * units + j, i * units + to(j));
    for (const c of range(classes)) move(out, j * classes + c, to(j) * classes + c);
  }
  return made;
}

function permuted(model, w, r, g, count) {
  const v = descended(w, r, g, below(r(w)), 4 * MARGIN);
  const turns = Math.max(hidden(model) - 1, 1);
  return range(count).map((i) => turned(model, v, 1 + (i % turns)));
}

// What the attack of this name sends: a model, or of `permuted` and in a patient attacker's honest rounds one for each.
export function tailored({ attack, model, receiver: w, X, y, own = [w], round = 1, l2 = 0 }) {
  const riskOn = (samples, labels) => (v) =>
    v.every(Number.isFinite) ? p2p.risk(model, v, samples, labels) + p2p.penalty(v, l2) : Infinity;
  const gradientOn = (samples, labels) => (v) => p2p.regularised(p2p.gradient(model, v, samples, labels), v, l2);
  if (attack === "boundary-own") {
    const risks = X.map((rows, i) => riskOn(rows, y[i]));
    const mean = (v) => sum(risks.map((r) => r(v))) / risks.length;
    return farthest(w, negated(w), mean, below(mean(w)));
  }
  const [r, g] = [riskOn(X, y), gradientOn(X, y)];
  const dirty = [X.map(withTrigger), y.map(() => 0)];
  const lies = {
    echo: () => w,
    boundary: () => farthest(w, negated(w), r, below(r(w))),
    "boundary-fitted": () => fitted(w, r, g),
    capture: () => fitted(w, r, g, 1 / 100),
    "capture-backdoor": () => captureBackdoor(w, r, g, { r: riskOn(...dirty), g: gradientOn(...dirty) }),
    permuted: () => permuted(model, w, r, g, own.length),
    "patient-permuted": () => (round <= 300 ? own : permuted(model, w, r, g, own.length)),
  };
  return lies[attack]();
}
