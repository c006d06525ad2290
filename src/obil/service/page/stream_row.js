// Show one stream as one row of the list, and keep the row up to date.
import { make, redraw, setText } from "./elements.js";
import { ago, count, moment, oneIn, percent, times } from "./numbers.js";
import { shiftGauge } from "./shift_gauge.js";
import { positiveOf } from "./prevalence.js";
import { trustBadge } from "./trust_badge.js";

// On a phone the rows are cards, which takes a table's meaning away: the roles give it back.
const cell = (label, kind = "") => make("td", { role: "cell", "data-label": label, class: kind });

export const addressOf = (name) => `#/streams/${encodeURIComponent(name)}`;

export class StreamRow {
  constructor(summary) {
    this.link = make("a", { href: addressOf(summary.name), tabindex: "-1" }, make("bdi", {}, summary.name));
    const head = make("th", { role: "rowheader", scope: "row", class: "name" }, this.link);
    this.prior = cell("Prevalence now", "number");
    this.training = cell("In training", "number");
    this.shift = cell("Shift", "shift");
    this.trust = cell("Trust", "trust");
    this.alerts = cell("Alerts", "number");
    this.rows = cell("Rows", "number");
    this.labels = cell("Labels", "number");
    this.updated = cell("Updated", "number updated");
    this.element = make("tr", { role: "row" }, head, this.trust, this.prior, this.training, this.shift, this.alerts, this.rows, this.labels, this.updated);
    // the whole row is a target for the mouse; the link is the one for keyboard and screen reader
    this.element.addEventListener("click", (event) => event.target.closest("a") ?? this.link.click());
    this.show(summary);
  }

  show(summary) {
    this.summary = summary;
    const positive = positiveOf(summary);
    const rate = summary.rows ? summary.alerts / summary.rows : null;
    redraw(this.prior, [positive.now, positive.name], () => [
      make("span", { class: "value" }, percent(positive.now)),
      make("span", { class: "also" }, oneIn(positive.now)),
    ]);
    redraw(this.training, positive.training, (training) => make("span", { class: "value" }, percent(training)));
    redraw(this.shift, [positive.now, positive.training], () => [
      shiftGauge(positive.now, positive.training),
      make("span", { class: "also" }, positive.training ? times(positive.now / positive.training) : ""),
    ]);
    redraw(this.trust, [summary.trusted, summary.rows > 0, summary.log_evidence], () => trustBadge(summary));
    redraw(this.alerts, [summary.alerts, rate], () => [
      make("span", { class: "value" }, count(summary.alerts)),
      make("span", { class: "also" }, rate === null ? "" : percent(rate)),
    ]);
    setText(this.rows, count(summary.rows));
    setText(this.labels, count(summary.labels));
    this.showAge();
    this.element.classList.toggle("alarmed", !summary.trusted);
  }

  showAge() {
    setText(this.updated, ago(this.summary.updated));
    this.updated.title = moment(this.summary.updated);
  }
}
