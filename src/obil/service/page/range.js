// Choose the time range of all charts: all, the last hours or days, or between two times.
import { make, setText } from "./elements.js";
import { clock, day, isNumber, zone } from "./numbers.js";

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
  return `${day(range.from)}, ${clock(range.from)} to ${sameDay ? "" : `${day(range.to)}, `}${clock(range.to)} ${zone(range.to)}`;
}

// What + - and the arrow keys do: `by` moves by a fraction of the width, `zoom` multiplies it. Outside the known is all.
export function moved([from, to], [first, final], { by = 0, zoom = 1 }) {
  const half = ((to - from) * zoom) / 2;
  const middle = (from + to) / 2 + by * (to - from);
  const width = Math.max(half, 0.5);
  const slack = 1e-3; // seconds: + and then - come back to all, whatever is rounded
  if (middle - width <= first + slack && middle + width >= final - slack) return ALL;
  const kept = Math.max(first - width, Math.min(final + width, middle)); // some of the known stays in sight
  return between(kept - width, kept + width);
}

export class RangeBar {
  constructor(choose) {
    const button = (text, range, label) => make("button", { type: "button", "aria-pressed": "false", "aria-label": `${text}: ${label}`, onclick: () => choose(range) }, text);
    this.buttons = new Map(Object.keys(LASTS).map((name) => [name, button(name, last(name), describeRange(last(name)))]));
    this.buttons.set("all", button("all", ALL, describeRange(ALL)));
    this.text = make("p", { class: "range-text", role: "status" });
    this.clear = make("button", { type: "button", class: "quiet", hidden: true, onclick: () => choose(ALL) }, "Show all");
    this.from = make("input", { type: "datetime-local", step: "1", id: "from" });
    this.to = make("input", { type: "datetime-local", step: "1", id: "to" });
    const form = make("form", { class: "moments", onsubmit: (event) => {
      event.preventDefault();
      const [from, to] = [this.from, this.to].map((input) => Date.parse(input.value) / 1000);
      if (from < to) choose(between(from, to));
      else this.to.setCustomValidity("The end must be after the beginning."), this.to.reportValidity();
    } }, make("label", { for: "from" }, "From ", this.from), make("label", { for: "to" }, "to ", this.to), make("button", { type: "submit" }, "Show"));
    this.to.addEventListener("input", () => this.to.setCustomValidity(""));
    this.from.addEventListener("input", () => this.to.setCustomValidity(""));
    this.element = make("div", { class: "range", role: "group", "aria-label": "Time shown" },
      make("div", { class: "buttons" }, [...this.buttons.values()]), this.text, this.clear,
      make("details", { class: "between" }, make("summary", {}, "Between two times"), form));
  }

  show(range, known) {
    for (const [name, button] of this.buttons) {
      button.setAttribute("aria-pressed", String(name === (range.kind === "last" ? range.name : range.kind)));
    }
    setText(this.text, describeRange(range));
    this.clear.hidden = range.kind !== "between";
    if (this.element.contains(document.activeElement) && document.activeElement.matches("input")) return; // being typed in
    const [from, to] = ends(range);
    this.from.value = local(from ?? known?.[0]);
    this.to.value = local(to ?? known?.[1]);
  }
}

function local(seconds) {
  if (!seconds) return "";
  const date = new Date(Math.floor(seconds) * 1000);
  return new Date(date - date.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}
