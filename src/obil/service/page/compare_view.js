// Compare some streams: their figures side by side, and their prevalence, alert rate and evidence on common axes.
import { ask } from "./ask.js";
import { chartPlans } from "./chart_plans.js";
import { make, redraw, setText } from "./elements.js";
import { ago, clock, count, isNumber, odds, percent, percentRange, times, zone } from "./numbers.js";
import { estimate, keyOf, positiveOf } from "./prevalence.js";
import { badge, statusOf } from "./status.js";
import { addressOf } from "./stream_row.js";
import { MOST_COMPARED } from "./streams_view.js";
import { TimeChart } from "./time_chart.js";

const LINES = [{ colour: "one" }, { colour: "two", dash: [7, 4] }, { colour: "three", dash: [2, 3] }, { colour: "four", dash: [10, 3, 2, 3] }];
const CHARTS = [
  ["prior", "prior", "Prevalence", percent], ["alert_rate", "alert_rate", "Alert rate", percent],
  ["evidence", "log_evidence", "Evidence against label shift", odds],
];
const REST = 2000; // ms between two looks

// each a name and what it is of a stream; those that an alarm makes unreliable are marked
const ROWS = [
  ["Status", (stream) => badge(statusOf(stream))],
  ["Prevalence now", (stream) => percent(positiveOf(stream).now), true],
  ["Credible interval", (stream) => {
    const interval = stream.interval?.[keyOf(stream.interval, positiveOf(stream).name)];
    return interval ? percentRange(...interval) : "–";
  }, true],
  ["In training", (stream) => percent(positiveOf(stream).training)],
  ["Shift", (stream) => times(positiveOf(stream).now / positiveOf(stream).training) || "–", true],
  ["Alert rate", (stream) => percent(estimate(stream.performance?.window?.alert_rate).value)],
  ["Threshold", (stream) => percent(stream.threshold?.probability), true],
  ["Expected precision", (stream) => percent(estimate(stream.performance?.now?.precision).value), true],
  ["Expected recall", (stream) => percent(estimate(stream.performance?.now?.recall).value), true],
  ["Evidence", (stream) => odds(stream.log_evidence)],
  ["Rows", (stream) => count(stream.rows)],
  ["Labels", (stream) => count(stream.labels)],
  ["Last row", (stream) => ago(stream.last_row)],
];

export class CompareView {
  title = "Compare streams · obil";

  constructor(names) {
    this.names = names.slice(0, MOST_COMPARED);
    this.path = `/v1/streams/${encodeURIComponent(this.names[0])}/events`;
    this.charts = [];
    this.when = make("p", { class: "soft", role: "status" });
    this.table = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Figures of the streams" });
    this.plots = make("div", { class: "charts" });
    this.element = make("div", { class: "compare-view" },
      make("nav", { "aria-label": "Back" }, make("a", { href: "#/", class: "back" }, "← All streams")),
      make("h1", { tabindex: "-1" }, "Compare streams"), this.when, make("section", { class: "panel" }, make("h2", {}, "Figures"), this.table),
      make("section", {}, make("h2", {}, "Over time"), this.plots));
    this.dark = window.matchMedia("(prefers-color-scheme: dark)");
    this.restyle = () => this.charts.forEach((chart) => chart.restyle());
    this.dark.addEventListener("change", this.restyle);
  }

  async start() {
    await this.refresh();
    this.looking = setInterval(() => this.refresh().catch(() => {}), REST);
  }

  close() {
    this.closed = true;
    clearInterval(this.looking);
    this.dark.removeEventListener("change", this.restyle);
    this.charts.forEach((chart) => chart.close());
  }

  onEvent() {} // it looks again by itself: no event covers several named streams

  async refresh() {
    const address = (name) => `/v1/streams/${encodeURIComponent(name)}`;
    const [streams, series] = await Promise.all([
      Promise.all(this.names.map((name) => ask(address(name)))),
      Promise.all(this.names.map((name) => ask(`${address(name)}/history?points=200`))),
    ]);
    if (this.closed) return;
    const now = Date.now() / 1000;
    setText(this.when, `As of ${clock(now)} ${zone(now)}`);
    redraw(this.table, [streams, Math.floor(now / 10)], () => figureTable(streams)); // what is told as "10 s ago" ages
    this.#showCharts(streams, series);
  }

  #showCharts(streams, series) {
    if (!this.charts.length) {
      const moves = { select: () => {}, step: () => {} };
      const plans = chartPlans({ positive: "", training: null, logAlarm: streams[0].log_alarm });
      this.charts = CHARTS.map(([id, column, title, write]) => new TimeChart({
        ...plans.find((plan) => plan.id === id), title, band: null,
        lines: this.names.map((name, k) => ({ column: `${column} ${k}`, label: name, ...LINES[k] })),
        read: (row) => this.names.map((name, k) => (isNumber(row[`${column} ${k}`]) ? `${name} ${write(row[`${column} ${k}`])}` : "")).filter(Boolean).join(", "),
      }, moves));
      this.plots.append(...this.charts.map((chart) => chart.element));
    }
    const columns = joined(series.map((one) => one.columns));
    const events = streams.filter(({ alarm_since: since }) => since).map(({ name, alarm_since: since }) => ({ at: Date.parse(since) / 1000, kind: "start", label: `Alarm of ${name}` }));
    const between = columns.at.length > 1 ? [columns.at[0], columns.at.at(-1)] : [Date.now() / 1000 - 60, Date.now() / 1000];
    this.charts.forEach((chart) => chart.show(columns, between, events));
  }
}

function figureTable(streams) {
  return make("table", { class: "plain" },
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Figure"), streams.map(({ name }) => make("th", { scope: "col" }, make("a", { href: addressOf(name) }, make("bdi", {}, name)))))),
    make("tbody", {}, ROWS.map(([title, write, byPrior]) => make("tr", {}, make("th", { scope: "row" }, title),
      streams.map((stream) => (byPrior && !stream.trusted ? make("td", { class: "untrusted" }, write(stream), make("span", { class: "also" }, "not reliable")) : make("td", {}, write(stream))))))));
}

// One time axis for all: each stream has its value at the last point before.
function joined(all) {
  const at = [...new Set(all.flatMap((columns) => columns.at))].sort((a, b) => a - b);
  const found = { at };
  all.forEach((columns, k) => {
    for (const [, column] of CHARTS) {
      let i = -1;
      found[`${column} ${k}`] = at.map((moment) => {
        while (columns.at[i + 1] <= moment) i += 1;
        return i < 0 || moment > columns.at.at(-1) ? null : columns[column][i];
      });
    }
  });
  return found;
}
