// Hold the time range: all, the last hours or days, or between two times.
import { clock, day, isNumber } from "./numbers.js";

export const LASTS = { "1h": 3600, "24h": 86400, "7d": 7 * 86400 };
export const ALL = { kind: "all" };

export const last = (name) => ({ kind: "last", name });
export const between = (from, to) => ({ kind: "between", from: Math.min(from, to), to: Math.max(from, to) });

// Seconds since 1970; null where it is open
export function ends(range, now = Date.now() / 1000) {
  if (range.kind === "last") return [now - LASTS[range.name], now];
  if (range.kind === "between") return [range.from, range.to];
  return [null, null];
}

export function fromQuery(text) {
  const query = new URLSearchParams(text);
  if (query.get("range") in LASTS) return last(query.get("range"));
  const [from, to] = [Number(query.get("from")), Number(query.get("to"))];
  return query.has("from") && isNumber(from) && isNumber(to) && from < to ? between(from, to) : ALL;
}

export function toQuery(range) {
  if (range.kind === "last") return `?range=${range.name}`;
  return range.kind === "between" ? `?from=${range.from.toFixed(3)}&to=${range.to.toFixed(3)}` : "";
}

export function describeRange(range) {
  if (range.kind === "all") return "Since the beginning";
  if (range.kind === "last") return { "1h": "The last hour", "24h": "The last 24 hours", "7d": "The last 7 days" }[range.name];
  const sameDay = day(range.from) === day(range.to);
  return `${day(range.from)}, ${clock(range.from)} to ${sameDay ? "" : `${day(range.to)}, `}${clock(range.to)}`;
}

// What + - and the arrow keys do: `by` moves by a fraction of the width, `zoom` multiplies it. Outside the known is all.
export function moved([from, to], [first, final], { by = 0, zoom = 1 }) {
  const half = ((to - from) * zoom) / 2;
  const middle = (from + to) / 2 + by * (to - from);
  const width = Math.max(half, 0.5);
  if (middle - width <= first && middle + width >= final) return ALL;
  const kept = Math.max(first - width, Math.min(final + width, middle)); // some of the known stays in sight
  return between(kept - width, kept + width);
}
