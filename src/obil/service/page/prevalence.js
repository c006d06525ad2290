// Find the prevalence of the positive class, and read estimates, which may be unknown.
import { isNumber } from "./numbers.js";

// Classes are keys of JSON objects, hence text: 1 may be "1" or "1.0", true may be "True".
export function keyOf(byClass, label) {
  const keys = Object.keys(byClass ?? {});
  const text = String(label);
  return (
    keys.find((key) => key === text) ??
    keys.find((key) => key.toLowerCase() === text.toLowerCase()) ??
    keys.find((key) => typeof label === "number" && Number(key) === label) ??
    keys.at(-1)
  );
}

export function positiveOf(summary) {
  const key = keyOf(summary.prior, summary.positive);
  return {
    name: key ?? "positive",
    now: summary.prior?.[key] ?? null,
    training: summary.training_prior?.[key] ?? null,
  };
}

// An estimate comes as {value, low, high, source} or as a bare number.
export function estimate(figure) {
  if (isNumber(figure)) return { value: figure, low: null, high: null, source: null };
  return { value: null, low: null, high: null, source: null, ...(figure ?? {}) };
}

const ENOUGH_LABELS = 30; // as in outcome_tally.py

export const REASON = `Nothing bounds this figure well enough: its interval, or that of a figure it is made of, is too wide for an answer. Feed back the labels of ${ENOUGH_LABELS} alerts, and of other rows at random until ${ENOUGH_LABELS} positives are among them.`;

export function isUnknown(figure) {
  const { value, source } = estimate(figure);
  return source === "unknown" && !isNumber(value);
}
