// Give the charts of a stream once more as a table, for those who would rather read.
import { make } from "./elements.js";
import { moment, count, odds, percent, percentRange } from "./numbers.js";

const MOST = 24;
const COLUMNS = [
  ["Time", (row) => moment(row.at)], ["Row", (row) => count(row.row)], ["Prevalence", (row) => percent(row.prior)],
  ["Interval", (row) => percentRange(row.low, row.high)], ["Alert rate", (row) => percent(row.alert_rate)], ["Threshold", (row) => percent(row.threshold)],
  ["Precision", (row) => percent(row.precision)], ["Recall", (row) => percent(row.recall)], ["Evidence", (row) => odds(row.log_evidence)],
];

export function valueTable(columns) {
  const n = columns.at.length;
  const shown = n <= MOST ? [...columns.at.keys()] : Array.from({ length: MOST }, (_, k) => Math.round((k * (n - 1)) / (MOST - 1)));
  const rowOf = (i) => Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, column[i]]));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The charts as a table" }, make("table", { class: "plain values" },
    make("thead", {}, make("tr", {}, COLUMNS.map(([name]) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, shown.reverse().map(rowOf).map((row) => make("tr", {}, COLUMNS.map(([, write], k) => make(k ? "td" : "th", k ? {} : { scope: "row" }, write(row))))))));
}
