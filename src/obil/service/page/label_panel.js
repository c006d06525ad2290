// Show what became of the labels, and what they say beside what was expected without them.
import { make } from "./elements.js";
import { count, isNumber, percent, percentRange } from "./numbers.js";
import { estimate } from "./shares.js";

const SOURCES = { expected: "expected", labels: "from labels", both: "in part from labels", counted: "counted" };
const OUTCOMES = [
  ["labelled", "Decisions that got a label"], ["pending", "Decisions that a label may still reach"],
  ["unlabeled", "Decisions taken by their unlabeled_as"], ["replaced", "Labels that contradicted an earlier one"],
  ["repeated", "Labels that said the same again"], ["unknown", "Labels for no decision that is remembered"],
  ["superseded", "Decisions whose id a newer one took over"],
];
const ALWAYS = ["labelled", "pending"];

export function labelPanel({ label_counts: counts = {}, performance, change, labels }) {
  const told = OUTCOMES.filter(([name]) => counts[name] || (ALWAYS.includes(name) && name in counts));
  return [
    make("div", {},
      labels ? null : make("p", { class: "soft" }, "No label has come back yet. Labels, even a few, tell whether the figures can be believed."),
      told.length ? outcomeTable(told, counts) : null,
      change?.one_class_labels ? make("p", { class: "care-text" }, "◆ All labels are of one class though others were to be expected, so do not trust what they say.") : null),
    performance?.window ? performanceTable(performance) : null,
  ];
}

function outcomeTable(told, counts) {
  return make("table", { class: "plain" }, make("caption", {}, "What became of them"),
    make("tbody", {}, told.map(([name, words]) => make("tr", {}, make("th", { scope: "row" }, words), make("td", {}, count(counts[name]))))));
}

function performanceTable({ now, window }) {
  const cell = (figure) => {
    const { value, low, high, source } = estimate(figure);
    if (!isNumber(value)) return make("td", {}, "–");
    return make("td", {}, make("span", { class: "value" }, percent(value)), make("span", { class: "also" }, isNumber(low) ? percentRange(low, high) : ""), source ? make("span", { class: "also" }, SOURCES[source] ?? source) : null);
  };
  const rows = [["precision", "Precision"], ["recall", "Recall"], ["f1", "F1"], ["alert_rate", "Alert rate"]].filter(([name]) => now?.[name]);
  const past = isNumber(window.rows) && window.rows >= 1 ? `Last ${count(window.rows < 100 ? window.rows : Number(window.rows.toPrecision(2)))} rows` : "Last rows";
  return make("table", { class: "plain" }, make("caption", {}, "How good the decisions are"),
    make("thead", {}, make("tr", {}, make("td", {}), ["Next rows", past].map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, rows.map(([name, label]) => make("tr", {}, make("th", { scope: "row" }, label), cell(now[name]), cell(window[name])))));
}
