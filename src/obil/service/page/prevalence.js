// Find the prevalence of the positive class, and whether the stream is trusted.
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

// "good", "care" while evidence builds up, "bad" once the monitor has raised an alarm
export function trustOf(summary) {
  if (!summary.trusted) return { state: "bad", sign: "▲", text: "Not trusted" };
  if (!summary.rows) return { state: "none", sign: "○", text: "No rows yet" };
  if (isNumber(summary.log_evidence) && summary.log_evidence >= Math.log(20)) {
    return { state: "care", sign: "◆", text: "Look again" };
  }
  return { state: "good", sign: "✓", text: "Trusted" };
}

// An estimate comes as {value, low, high, source} or as a bare number.
export function estimate(figure) {
  if (isNumber(figure)) return { value: figure, low: null, high: null, source: null };
  return { value: null, low: null, high: null, source: null, ...(figure ?? {}) };
}
