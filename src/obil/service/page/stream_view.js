// Show one stream in detail, live, over the chosen time range.
import { tellOfAlarms } from "./alarm_news.js";
import { ask } from "./ask.js";
import { chartPlans } from "./chart_plans.js";
import { make, redraw, setText } from "./elements.js";
import { Figures } from "./figures.js";
import { labelPanel } from "./label_panel.js";
import { whatIs } from "./meanings.js";
import { modelPanel } from "./model_panel.js";
import { ago, isNumber, percent, percentRange, plural, secondsOf } from "./numbers.js";
import { ALL, between, ends, fromQuery, moved, toQuery } from "./range.js";
import { RangeBar } from "./range_bar.js";
import { settingsPanel } from "./settings_panel.js";
import { keyOf, positiveOf } from "./prevalence.js";
import { TimeChart } from "./time_chart.js";
import { trustBadge } from "./trust_badge.js";
import { valueTable } from "./value_table.js";

const POINTS = 400;
const REST = 1500; // ms between two reloads of the whole stream while events come

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
    await Promise.all([this.refresh(), this.#showModel()]);
  }

  close() {
    this.closed = true;
    clearTimeout(this.soon);
    clearInterval(this.ageing);
    this.dark.removeEventListener("change", this.restyle);
    this.charts.forEach((chart) => chart.close());
  }

  async refresh() {
    const [detail] = await Promise.all([ask(this.address), this.#showHistory()]);
    if (!this.closed) this.#show(detail);
  }

  onEvent(type, data) {
    const summary = type === "streams" ? data.streams?.find(({ name }) => name === this.name) : data;
    if (!summary || summary.name !== this.name) return;
    tellOfAlarms([summary]);
    this.#show({ ...this.stream, ...summary });
    this.soon ??= setTimeout(() => {
      this.soon = null;
      if (summary.model !== this.version) this.#showModel(summary.model).catch(() => {});
      this.refresh().catch(() => {});
    }, REST);
  }

  #skeleton() {
    this.badge = make("span", {});
    this.facts = make("p", { class: "soft facts" });
    this.report = make("div", {}, make("p", { class: "soft" }, "Loading…"));
    this.figures = new Figures();
    this.bar = new RangeBar((range) => this.#choose(range));
    this.plots = make("div", { class: "charts" });
    this.table = make("details", { class: "as-table" }, make("summary", {}, "The charts as a table"));
    this.table.addEventListener("toggle", () => this.#showTable());
    this.classes = make("section", { class: "panel", hidden: true, "aria-label": "Prevalence of all classes" });
    this.labels = make("div", { class: "columns" });
    this.model = make("div", { class: "columns" });
    this.settings = make("div", {});
    this.ageing = setInterval(() => this.#showFacts(), 5000);
    const panel = (title, quantity, body) => make("section", { class: "panel" }, make("h2", {}, title, " ", whatIs(quantity)), body);
    return make("div", { class: "stream-view" },
      make("nav", { "aria-label": "Back" }, make("a", { href: "#/", class: "back" }, "← All streams")),
      make("div", { class: "heading" }, make("h1", { tabindex: "-1" }, make("bdi", {}, this.name)), this.badge), this.facts,
      make("section", { class: "panel report" }, make("h2", {}, "What changed ", whatIs("change")), this.report),
      make("section", { "aria-label": "Current figures" }, this.figures.element), this.classes,
      make("section", { "aria-label": "Over time" }, this.bar.element, this.plots, this.table),
      panel("Labels and performance", "performance", this.labels),
      make("section", { class: "panel" }, make("h2", {}, "Is the model calibrated?"), this.model),
      panel("Settings", "settings", this.settings));
  }

  #show(stream) {
    this.stream = stream;
    tellOfAlarms([stream]);
    redraw(this.badge, [stream.trusted, stream.rows > 0, stream.log_evidence], () => trustBadge(stream));
    this.#showFacts();
    this.figures.show(stream);
    if (stream.change) redraw(this.report, stream.change, changeReport);
    if (stream.classes) {
      redraw(this.labels, [stream.label_counts, stream.performance, stream.labels], () => labelPanel(stream));
      redraw(this.settings, { settings: stream.settings, changes: stream.changes, classes: stream.classes }, settingsPanel);
      this.classes.hidden = stream.classes.length <= 2;
      if (!this.classes.hidden) redraw(this.classes, [stream.prior, stream.interval], () => classTable(stream));
    }
    if (this.series) this.#showCharts();
  }

  #showFacts() {
    const { rows, labels, updated } = this.stream ?? {};
    if (this.stream) setText(this.facts, `${plural(rows, "row")} · ${plural(labels, "label")} · ${rows ? "last changed" : "created"} ${ago(updated)}`);
  }

  async #showModel(version) {
    const card = await ask("/v1/model");
    this.version = version ?? card.version; // of the stream: loaded once per change
    redraw(this.model, card, modelPanel);
  }

  async #showHistory() {
    const asked = this.range;
    const [start, end] = ends(asked);
    const query = new URLSearchParams({ points: String(POINTS) });
    if (start !== null) query.set("start", String(start));
    if (end !== null && asked.kind === "between") query.set("end", String(end)); // "the last hour" ends now
    const series = await ask(`${this.address}/history?${query}`);
    if (this.closed || asked !== this.range) return; // another range was chosen meanwhile
    this.series = series;
    if (this.stream) this.#showCharts();
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
    this.charts.forEach((chart) => chart.show({ ...columns, at }, this.#axis(at)));
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
    this.#showHistory().catch(() => {});
  }

  // from what was asked for, not from what is drawn: keys may come faster than answers
  #step(asked) {
    const { created, updated } = this.stream;
    const known = this.known ?? [secondsOf(created), secondsOf(updated)];
    this.#choose(moved(this.range.kind === "all" ? known : ends(this.range), known, asked));
  }
}

const ACTIONS = { nothing: ["good", "✓", "Nothing to do"], "get labels": ["care", "◆", "Get labels"], recalibrate: ["bad", "▲", "Recalibrate"], retrain: ["bad", "▲", "Retrain"] };

function changeReport(change) {
  const [state, sign, text] = ACTIONS[change.action] ?? ["none", "○", change.action ?? "Unknown"];
  const sentences = change.sentences ?? [change.paragraph ?? ""];
  return [
    make("p", { class: "sentences" }, sentences.join(" ")),
    make("p", {}, make("span", { class: "soft" }, "To do: "), make("span", { class: `badge ${state}` }, make("span", { "aria-hidden": "true" }, sign), ` ${text}`)),
  ];
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
