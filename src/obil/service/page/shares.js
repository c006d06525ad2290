// Find the share that a stream is watched for among the shares of its classes.
import { isNumber } from "./numbers.js";

// Classes are keys of JSON objects, hence text: 1 may be "1" or "1.0", true may be "True".
export function keyOf(shares, label) {
  const keys = Object.keys(shares ?? {});
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

// "good", "care" while evidence builds up, "bad" once the monitor objects
export function trustOf(summary) {
  if (!summary.trusted) return { state: "bad", sign: "▲", word: "Not trusted" };
  if (!summary.rows) return { state: "none", sign: "○", word: "No rows yet" };
  if (isNumber(summary.log_evidence) && summary.log_evidence >= Math.log(20)) {
    return { state: "care", sign: "◆", word: "Look again" };
  }
  return { state: "good", sign: "✓", word: "Trusted" };
}

// An estimate comes as {value, low, high, source} or as a bare number.
export function estimate(figure) {
  if (isNumber(figure)) return { value: figure, low: null, high: null, source: null };
  return { value: null, low: null, high: null, source: null, ...(figure ?? {}) };
}
