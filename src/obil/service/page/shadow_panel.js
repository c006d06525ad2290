// Show how the shadow model compares with the active one on this stream.
import { ask } from "./ask.js";
import { make, redraw } from "./elements.js";
import { httpCall } from "./http_call.js";
import { whatIs } from "./meanings.js";
import { count, isNumber, moment, percent, plural } from "./numbers.js";
import { keyOf, positiveOf } from "./prevalence.js";

const SECONDS = 15; // between two looks, while there is one

export class ShadowPanel {
  constructor(address) {
    this.address = address;
    this.body = make("div", {});
    this.element = make("section", { class: "panel", hidden: true }, make("h2", {}, "Shadow model ", whatIs("shadow")), this.body);
    this.timer = setInterval(() => this.element.hidden || this.refresh().catch(() => {}), SECONDS * 1000);
  }

  close() {
    clearInterval(this.timer);
  }

  async refresh() {
    this.shadow = await ask(`${this.address}/shadow`);
    this.#draw();
  }

  show(stream) {
    this.stream = stream;
    this.#draw();
  }

  #draw() {
    const { shadow, stream } = this;
    if (!shadow || !stream) return;
    this.element.hidden = !shadow.version;
    if (shadow.version) redraw(this.body, [shadow, stream.prior], () => comparison(shadow, stream));
  }
}

function comparison(shadow, stream) {
  const calls = httpCall("POST", `/v1/models/${shadow.version}/activate`, undefined, "A command that activates it");
  const names = [make("code", {}, shadow.version), " beside the active ", make("code", {}, shadow.active)];
  if (!shadow.rows) return [make("p", {}, ...names, ": no row has been compared yet."), calls];
  const positive = positiveOf(stream);
  const difference = shadow.log_ratio_difference[keyOf(shadow.log_ratio_difference, positive.name)];
  const alerts = (n) => `${count(n)} (${percent(n / shadow.rows)})`;
  return [
    make("p", {}, ...names, ` on ${plural(shadow.rows, "row")} since ${moment(shadow.since)}: `, make("strong", {}, `${percent(shadow.agreement)} decided alike`),
      `; its log ratio of “${positive.name}” is ${signed(difference)} on average.`),
    shadow.trusted ? null : make("p", { class: "bad-text" }, "▲ The shadow model's own monitor has raised an alarm."),
    make("table", { class: "plain" }, make("thead", {}, make("tr", {}, make("td", {}), ["Active", "Shadow"].map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, row("Alerts among these rows", alerts(shadow.active_alerts), alerts(shadow.alerts)),
        row("Prevalence now", percent(positive.now), percent(shadow.prior[keyOf(shadow.prior, positive.name)])))),
    calls,
  ];
}

const row = (title, ...cells) => make("tr", {}, make("th", { scope: "row" }, title), cells.map((text) => make("td", {}, text)));

function signed(difference) {
  if (!isNumber(difference) || Math.abs(difference) < 5e-3) return "the same";
  return `${Math.abs(difference).toFixed(2)} ${difference > 0 ? "higher" : "lower"}`;
}
