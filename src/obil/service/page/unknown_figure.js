// Say that a figure is unknown, and what would settle it.
import { isNumber } from "./numbers.js";
import { estimate } from "./prevalence.js";

const ENOUGH_LABELS = 30; // as in outcome_tally.py

export const REASON = `Nothing bounds this figure well enough: its interval, or that of a figure it is made of, is too wide for an answer. Feed back the labels of ${ENOUGH_LABELS} alerts, and of other rows at random until ${ENOUGH_LABELS} positives are among them.`;

export function isUnknown(figure) {
  const { value, source } = estimate(figure);
  return source === "unknown" && !isNumber(value);
}
