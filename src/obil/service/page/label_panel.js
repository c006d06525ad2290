// Show which labels came, and what they show beside what was expected without them.
import { make } from "./elements.js";
import { lastRows } from "./figures.js";
import { count, isNumber, percent, percentRange } from "./numbers.js";
import { REASON, estimate, isUnknown } from "./prevalence.js";

const SOURCES = { expected: "expected", labels: "from labels", both: "partly from labels", counted: "counted" };
const OUTCOMES = [
  ["labelled", "Decisions with a label"], ["pending", "Decisions that still wait for a label"],
  ["unlabeled", "Decisions without a label at the horizon"], ["replaced", "Labels that corrected an earlier one"],
  ["repeated", "Labels that came twice"], ["unknown", "Labels without a decision"],
  ["superseded", "Decisions whose id was used again"],
];
const ALWAYS = ["labelled", "pending"];

export function labelPanel({ label_counts: counts = {}, performance, change, labels, trusted }) {
  const shown = OUTCOMES.filter(([name]) => counts[name] || (ALWAYS.includes(name) && name in counts));
  return [
    make("div", {},
      labels ? null : make("p", { class: "soft" }, "No label has come back yet. Even a few labels show whether the figures are right."),
      shown.length ? outcomeTable(shown, counts) : null,
      change?.one_class_labels ? make("p", { class: "care-text" }, "◆ All labels are of one class although others were expected: do not rely on figures from labels.") : null),
    performance?.window ? performanceTable(performance, trusted) : null,
  ];
}

function outcomeTable(shown, counts) {
  return make("table", { class: "plain" }, make("caption", {}, "Decisions and labels"),
    make("tbody", {}, shown.map(([name, text]) => make("tr", {}, make("th", { scope: "row" }, text), make("td", {}, count(counts[name]))))));
}

function performanceTable({ now, window }, trusted) {
  const cell = (figure) => {
    const { value, low, high, source } = estimate(figure);
    const range = make("span", { class: "also" }, isNumber(low) ? percentRange(low, high) : "");
    if (isUnknown(figure)) return make("td", { title: REASON }, make("span", { class: "value" }, "unknown"), range);
    if (!isNumber(value)) return make("td", {}, "–");
    const doubtful = trusted === false && source === "expected";
    const origin = source ? make("span", { class: "also" }, (SOURCES[source] ?? source) + (doubtful ? ", not reliable" : "")) : null;
    return make("td", { class: doubtful ? "untrusted" : "" }, make("span", { class: "value" }, percent(value)), range, origin);
  };
  const rows = [["precision", "Precision"], ["recall", "Recall"], ["f1", "F1"], ["alert_rate", "Alert rate"]].filter(([name]) => now?.[name]);
  const past = lastRows(window.rows).replace("l", "L");
  return make("table", { class: "plain" }, make("caption", {}, "Performance"),
    make("thead", {}, make("tr", {}, make("td", {}), ["Next rows", past].map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, rows.map(([name, label]) => make("tr", {}, make("th", { scope: "row" }, label), cell(now[name]), cell(window[name])))));
}
