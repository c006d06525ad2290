// Show one stream in detail, live, over the chosen time range: always one snapshot of it, never parts of two.
import { AlarmPanel, FullReport } from "./alarm_panel.js";
import { ask } from "./ask.js";
import { chartPlans } from "./chart_plans.js";
import { make, redraw, setText } from "./elements.js";
import { Figures } from "./figures.js";
import { labelPanel } from "./label_panel.js";
import { whatIs } from "./meanings.js";
import { modelPanel } from "./model_panel.js";
import { eventList, marksOf, noteForm } from "./notes.js";
import { ago, clock, isNumber, percent, percentRange, plural, secondsOf, zone } from "./numbers.js";
import { ALL, RangeBar, between, ends, fromQuery, moved, toQuery } from "./range.js";
import { settingsPanel } from "./settings_panel.js";
import { ShadowPanel } from "./shadow_panel.js";
import { badge, statusOf, tellOfAlarms } from "./status.js";
import { estimate, keyOf, positiveOf } from "./prevalence.js";
import { TimeChart } from "./time_chart.js";
import { valueTable } from "./value_table.js";

const POINTS = 400;

export class StreamView {
  constructor(name, query) {
    this.name = name;
    this.title = `${name} · obil`;
    this.address = `/v1/streams/${encodeURIComponent(name)}`;
    this.path = `${this.address}/events`;
    this.range = fromQuery(query);
    this.charts = [];
    this.element = this.#skeleton();
    this.dark = window.matchMedia("(prefers-color-scheme: dark)");
    this.restyle = () => this.charts.forEach((chart) => chart.restyle());
    this.dark.addEventListener("change", this.restyle);
  }

  async start() {
    await Promise.all([this.refresh(), this.#showModel(), this.shadow.refresh()]);
  }

  close() {
    this.closed = true;
    clearInterval(this.ageing);
    this.shadow.close();
    this.dark.removeEventListener("change", this.restyle);
    this.charts.forEach((chart) => chart.close());
  }

  async refresh() {
    const asked = this.range;
    const [start, end] = ends(asked);
    const query = new URLSearchParams({ points: String(POINTS) });
    if (start !== null) query.set("start", String(start));
    if (end !== null && asked.kind === "between") query.set("end", String(end)); // "the last hour" ends now
    const [stream, series] = await Promise.all([ask(this.address), ask(`${this.address}/history?${query}`)]);
    if (this.closed || asked !== this.range || stream.seq < this.stream?.seq) return; // something newer is shown
    this.history = series;
    this.#showAsOf(stream);
  }

  // an event has all that changed: nothing is asked for again
  onEvent(type, data) {
    if ((data.name ?? data.stream) !== this.name || !this.history) return;
    if (type === "points") {
      const [start] = ends(this.range);
      if (this.range.kind !== "between") this.history.columns = joined(this.history.columns, data.columns, start);
    } else if (data.seq > this.stream.seq) {
      if (data.model !== this.version) this.#showModel(data.model).catch(() => {});
      this.#showAsOf(data);
      if (this.history.columns.at?.length > 2 * POINTS) this.refresh().catch(() => {}); // to be thinned out
    }
  }

  #showAsOf(stream) {
    this.series = { ...this.history, columns: asOf(stream, this.history.columns, this.range.kind !== "between") };
    this.#show(stream);
  }

  #skeleton() {
    const refresh = () => this.refresh();
    const panel = (title, quantity, body) => make("section", { class: "panel" }, make("h2", {}, title, " ", whatIs(quantity)), body);
    this.badge = make("span", {});
    this.alarm = new AlarmPanel(this.address, refresh);
    this.events = make("div", {});
    this.facts = make("p", { class: "soft facts" });
    this.report = make("div", {}, make("p", { class: "soft" }, "Loading…"));
    this.full = new FullReport();
    this.full.element.hidden = true;
    this.changed = panel("What changed", "change", [this.report, this.full.element]);
    this.changed.classList.add("report");
    this.figures = new Figures();
    this.bar = new RangeBar((range) => this.#choose(range));
    this.plots = make("div", { class: "charts" });
    this.table = make("details", { class: "as-table" }, make("summary", {}, "The charts as a table"));
    this.table.addEventListener("toggle", () => this.#showTable());
    this.classes = make("section", { class: "panel", hidden: true, "aria-label": "Prevalence of all classes" });
    this.labels = make("div", { class: "columns" });
    this.model = make("div", { class: "columns" });
    this.shadow = new ShadowPanel(this.address);
    this.settings = make("div", {});
    this.ageing = setInterval(() => this.#showFacts(), 5000);
    return make("div", { class: "stream-view" },
      make("nav", { "aria-label": "Back" }, make("a", { href: "#/", class: "back" }, "← All streams")),
      make("div", { class: "heading" }, make("h1", { tabindex: "-1" }, make("bdi", {}, this.name)), this.badge), this.facts,
      this.alarm.element, this.changed,
      make("section", { "aria-label": "Current figures" }, this.figures.element), this.classes,
      make("section", { "aria-label": "Over time" }, this.bar.element, this.plots, this.table),
      make("section", { class: "panel" }, make("h2", {}, "Notes and events"), this.events, noteForm(this.address, { acknowledge: false, done: refresh })),
      panel("Labels and performance", "performance", this.labels),
      make("section", { class: "panel" }, make("h2", {}, "Is the model calibrated?"), this.model),
      this.shadow.element,
      panel("Settings", "settings", this.settings));
  }

  #show(stream) {
    this.stream = stream;
    tellOfAlarms([stream]);
    this.#showFacts();
    this.alarm.show(stream);
    this.figures.show(stream);
    this.shadow.show(stream);
    this.changed.hidden = !stream.trusted; // the alarm tells of it
    redraw(this.report, [stream.change.action, stream.change.sentences, statusOf(stream).text], () => changeReport(stream));
    this.full.show(stream.change.sentences);
    redraw(this.events, stream.events, eventList);
    redraw(this.labels, [stream.label_counts, stream.performance, stream.labels, stream.trusted], () => labelPanel(stream));
    redraw(this.settings, { settings: stream.settings, changes: stream.changes, classes: stream.classes }, settingsPanel);
    this.classes.hidden = stream.classes.length <= 2;
    if (!this.classes.hidden) redraw(this.classes, [stream.prior, stream.interval], () => classTable(stream));
    this.#showCharts();
  }

  #showFacts() {
    if (!this.stream) return;
    const { rows, labels, last_row: lastRow, updated } = this.stream;
    redraw(this.badge, statusOf(this.stream), badge);
    setText(this.facts, `As of ${clock(updated)} ${zone(updated)} · ${plural(rows, "row")}${rows ? `, the last ${ago(lastRow)}` : ""} · ${plural(labels, "label")}`);
  }

  async #showModel(version) {
    const card = await ask("/v1/model");
    this.version = version ?? card.version; // of the stream: loaded once per change
    redraw(this.model, card, modelPanel);
  }

  #showCharts() {
    const { columns, training_prior: training, log_alarm: logAlarm } = this.series;
    if (!this.charts.length) {
      const positive = positiveOf(this.stream).name;
      const moves = { select: (range) => this.#choose(range ? between(...range) : ALL), step: (asked) => this.#step(asked) };
      this.charts = chartPlans({ positive, training, logAlarm }).map((plan) => new TimeChart(plan, moves));
      this.plots.append(...this.charts.map((chart) => chart.element));
    }
    const at = columns.at ?? [];
    if (this.range.kind === "all" && at.length) this.known = [at[0], at.at(-1)];
    this.bar.show(this.range, this.known);
    if (this.drawn === this.series) return;
    this.drawn = this.series;
    const marks = marksOf(this.stream, columns);
    this.charts.forEach((chart) => chart.show({ ...columns, at }, this.#axis(at), marks));
    this.#showTable();
  }

  #axis(at) {
    const [from, to] = ends(this.range);
    const now = Date.now() / 1000;
    const [first, final] = [from ?? at[0] ?? now - 3600, to ?? at.at(-1) ?? now];
    return final - first < 1 ? [first - 30, final + 30] : [first, final];
  }

  #showTable() {
    if (!this.table.open || !this.series) return;
    this.table.querySelector(".scroll")?.remove();
    this.table.append(valueTable({ ...this.series.columns, at: this.series.columns.at ?? [] }));
  }

  #choose(range) {
    this.range = range;
    history.replaceState(null, "", `${location.hash.split("?")[0]}${toQuery(range)}`);
    this.bar.show(range, this.known);
    this.refresh().catch(() => {});
  }

  // from what was asked for, not from what is drawn: keys may come faster than answers
  #step(asked) {
    const { created, updated } = this.stream;
    const known = this.known ?? [secondsOf(created), secondsOf(updated)];
    this.#choose(moved(this.range.kind === "all" ? known : ends(this.range), known, asked));
  }
}

const ACTIONS = { nothing: ["good", "✓", "Nothing to do"], "get labels": ["care", "◆", "Get labels"], recalibrate: ["bad", "▲", "Recalibrate"], retrain: ["bad", "▲", "Retrain"] };

function changeReport(stream) {
  const { action, sentences: [first, ...rest], changed, reasons } = stream.change;
  const status = statusOf(stream);
  const [state, sign, text] = ACTIONS[action] ?? ["none", "○", action];
  const sure = state !== "good" || status.state === "good"; // nothing is to be done as far as too few rows can tell
  return [
    make("p", { class: "sentences" }, first),
    make("p", {}, make("span", { class: "soft" }, "To do: "), badge(sure ? { state, sign, text } : { state: "none", sign: "○", text: `Nothing so far (${status.text.toLowerCase()})` }),
      changed || reasons.length ? ` ${rest.at(-1)}` : null), // else no sentence is advice
  ];
}

// A history from a time on, and the points that came after it.
function joined(known, recent, start) {
  const last = known.row?.at(-1) ?? -1;
  const places = (columns, keep) => [...(columns.at ?? []).keys()].filter((i) => (start === null || columns.at[i] >= start) && keep(i));
  const [kept, added] = [places(known, () => true), places(recent, (i) => recent.row[i] > last)];
  return Object.fromEntries(Object.keys(recent).map((name) => [name, [...kept.map((i) => known[name][i]), ...added.map((i) => recent[name][i])]]));
}

// The history up to a snapshot, which is its last point: so a chart ends at the figure that stands beside it.
function asOf(stream, { at = [], ...others }, withNow) {
  const kept = [...at.keys()].filter((i) => others.row[i] < stream.rows || (!withNow && others.row[i] === stream.rows));
  const last = withNow ? at.findIndex((_, i) => others.row[i] === stream.rows) : -1; // a point as new as the snapshot
  const columns = Object.fromEntries(Object.entries({ at, ...others }).map(([name, column]) => [name, kept.map((i) => column[i])]));
  if (!withNow || !stream.last_row) return columns;
  const positive = positiveOf(stream);
  const [low, high] = stream.interval?.[keyOf(stream.interval, positive.name)] ?? [null, null];
  const [precision, recall] = ["precision", "recall"].map((name) => estimate(stream.performance?.now?.[name]).value);
  const now = { at: Math.max(secondsOf(stream.last_row), columns.at.at(-1) ?? 0), row: stream.rows, prior: positive.now, low, high, threshold: stream.threshold?.probability, precision, recall, log_evidence: stream.log_evidence, alert_rate: others.alert_rate[last] };
  for (const [name, column] of Object.entries(columns)) column.push(now[name] ?? null);
  return columns;
}

function classTable(stream) {
  const head = ["Class", "Prevalence now", "Credible interval", "In training"].map((name) => make("th", { scope: "col" }, name));
  const rows = Object.entries(stream.prior).map(([name, prevalence]) => {
    const interval = stream.interval?.[name];
    return make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, name)), make("td", {}, percent(prevalence)),
      make("td", {}, interval && isNumber(interval[0]) ? percentRange(...interval) : "–"), make("td", {}, percent(stream.training_prior?.[keyOf(stream.training_prior, name)])));
  });
  return [make("h2", {}, "Prevalence of all classes ", whatIs("prior")), make("table", { class: "plain" }, make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows))];
}
