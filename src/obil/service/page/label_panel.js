// Show what the labels that came back say, beside what was expected without them.
import { make } from "./elements.js";
import { count, isNumber, percent, percentRange } from "./numbers.js";
import { estimate, keyOf } from "./shares.js";

const SOURCES = { expected: "expected", labels: "from labels", both: "in part from labels", counted: "counted" };

export function labelPanel(stream) {
  const counts = Object.entries(stream.label_counts ?? {});
  const total = counts.reduce((sum, [, n]) => sum + n, 0);
  const report = stream.performance;
  return [
    total ? countTable(stream, counts, total) : make("p", { class: "soft" }, "No label has come back yet. Labels, even a few, tell whether the figures can be believed."),
    report?.window ? performanceTable(report) : null,
    report?.now?.one_class_labels ? make("p", { class: "care-text" }, "◆ All labels are of one class though others were to be expected: say what silence means, or feed other rows back too.") : null,
  ];
}

function countTable(stream, counts, total) {
  const row = ([name, n]) => make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, name)), make("td", {}, count(n)), make("td", {}, percent(n / total)),
    make("td", {}, percent(stream.prior?.[keyOf(stream.prior, name)])));
  const head = ["Class", "Labels", "Of the labels", "Share now"].map((name) => make("th", { scope: "col" }, name));
  return make("table", { class: "plain" }, make("caption", {}, "Labels by class"), make("thead", {}, make("tr", {}, head)), make("tbody", {}, counts.map(row)));
}

function performanceTable({ now, window }) {
  const cell = (figure) => {
    const { value, low, high, source } = estimate(figure);
    if (!isNumber(value)) return make("td", {}, "–");
    return make("td", {}, make("span", { class: "value" }, percent(value)), make("span", { class: "also" }, isNumber(low) ? percentRange(low, high) : ""), source ? make("span", { class: "also" }, SOURCES[source] ?? source) : null);
  };
  const rows = [["precision", "Precision"], ["recall", "Recall"], ["f1", "F1"], ["alert_rate", "Alert rate"]].filter(([name]) => now?.[name] !== undefined);
  const past = isNumber(window.n_rows) ? `Last ${count(Number(window.n_rows.toPrecision(2)))} rows` : "Last rows";
  return make("table", { class: "plain" }, make("caption", {}, "How good the decisions are"),
    make("thead", {}, make("tr", {}, ["", "Next rows", past].map((name) => (name ? make("th", { scope: "col" }, name) : make("td", {}))))),
    make("tbody", {}, rows.map(([name, label]) => make("tr", {}, make("th", { scope: "row" }, label), cell(now[name]), cell(window[name])))));
}
