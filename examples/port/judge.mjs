// The port as a program that the judge asks: python -m refimpl.audit --run 'node examples/port/judge.mjs' --as krum
// It reads lines {"kind": ..., "inputs": {...}} and answers each with {"answer": ...} or {"error": "..."}.
import { createInterface } from "node:readline";
import { metropolisWeights } from "./related.mjs";
import p2p from "./resilient.js";

const KINDS = {
  "adaptive-weights": ({ risks, own }) => p2p.adaptiveWeights(risks, own),
  "inverse-risk-weights": ({ risks }) => p2p.inverseRiskWeights(risks),
  combine: ({ weights, W }) => p2p.combine(weights, W),
  average: ({ W }) => p2p.average(W),
  medoid: ({ W }) => p2p.medoid(W),
  median: ({ W }) => p2p.coordinateMedian(W),
  "trimmed-mean": ({ W, f }) => p2p.trimmedMean(W, f),
  krum: ({ W, f }) => p2p.krum(W, f),
  "sign-flip": ({ W, sigma }) => p2p.signFlip(W, sigma),
  arbitrary: ({ W, signals }) => p2p.arbitrary(W, signals),
  "fall-of-empires": ({ honest, epsilon }) => p2p.fallOfEmpires(honest, epsilon),
  alie: ({ honest, z }) => p2p.aLittleIsEnough(honest, z),
  "alie-z": ({ n, f }) => p2p.alieZ(n, f),
  "softmax-cross-entropy": ({ z, y }) => z.map((row, i) => p2p.softmaxCrossEntropy(row, y[i])),
  sgd: ({ w, g, mu }) => p2p.sgd(w, g, null, mu)[0],
  adam: ({ w, gradients, mu }) => gradients.reduce(([v, state], g) => p2p.adam(v, g, state, mu), [w, null])[0],
  "metropolis-weights": ({ graph }) => metropolisWeights(graph),
};

const NOT_FINITE = ["NaN", "Infinity", "-Infinity"];
const decoded = (_, value) =>
  NOT_FINITE.includes(value) ? Number(value) : value?.shape ? p2p.nested(value.data, value.shape) : value;
const encoded = (_, value) => (typeof value === "number" && !Number.isFinite(value) ? String(value) : value);

for await (const line of createInterface({ input: process.stdin })) {
  const { kind, inputs } = JSON.parse(line, decoded);
  let said;
  try {
    said = { answer: KINDS[kind](inputs) };
  } catch (error) {
    said = { error: error.message };
  }
  console.log(JSON.stringify(said, encoded));
}
