// Show one stream as one row of the list, and keep the row up to date.
import { make, redraw, setText } from "./elements.js";
import { ago, count, moment, oneIn, percent, times } from "./numbers.js";
import { shiftGauge } from "./shift_gauge.js";
import { positiveOf } from "./prevalence.js";
import { badge, statusOf } from "./status.js";

// On a phone the rows are cards, which takes a table's meaning away: the roles give it back.
const cell = (label, kind = "") => make("td", { role: "cell", "data-label": label, class: kind });

export const addressOf = (name) => `#/streams/${encodeURIComponent(name)}`;

export class StreamRow {
  // choose(name, chosen) is told of a stream to be compared
  constructor(summary, chosen, choose) {
    this.link = make("a", { href: addressOf(summary.name), tabindex: "-1" }, make("bdi", {}, summary.name));
    this.chosen = make("input", { type: "checkbox", tabindex: "-1", "aria-label": `Compare ${summary.name}`, onchange: () => choose(summary.name, this.chosen.checked) });
    this.chosen.checked = chosen;
    const head = make("th", { role: "rowheader", scope: "row", class: "name" }, this.chosen, this.link);
    this.prior = cell("Prevalence now", "number");
    this.shift = cell("Shift", "shift");
    this.status = cell("Status", "status");
    this.alerts = cell("Alerts", "number");
    this.rows = cell("Rows", "number");
    this.labels = cell("Labels", "number");
    this.lastRow = cell("Last row", "number last-row");
    this.element = make("tr", { role: "row" }, head, this.status, this.prior, this.shift, this.alerts, this.rows, this.labels, this.lastRow);
    // the whole row is a target for the mouse; the link is the one for keyboard and screen reader
    this.element.addEventListener("click", (event) => event.target.closest("a, input") ?? this.link.click());
    this.show(summary);
  }

  get rank() {
    return statusOf(this.summary).rank;
  }

  show(summary) {
    this.summary = summary;
    const positive = positiveOf(summary);
    const rate = summary.rows ? summary.alerts / summary.rows : null;
    redraw(this.prior, [positive.now, positive.name, summary.trusted], () => [
      make("span", { class: "value" }, percent(positive.now)),
      make("span", { class: "also" }, summary.trusted ? oneIn(positive.now) : "not reliable"),
    ]);
    redraw(this.shift, [positive.now, positive.training], () => [
      shiftGauge(positive.now, positive.training),
      make("span", { class: "also" }, positive.training ? times(positive.now / positive.training) : ""),
    ]);
    redraw(this.alerts, [summary.alerts, rate], () => [
      make("span", { class: "value" }, count(summary.alerts)),
      make("span", { class: "also" }, rate === null ? "" : percent(rate)),
    ]);
    setText(this.rows, count(summary.rows));
    setText(this.labels, count(summary.labels));
    this.showAge();
    this.element.classList.toggle("alarmed", !summary.trusted);
    for (const figure of [this.prior, this.shift]) figure.classList.toggle("untrusted", !summary.trusted);
  }

  showAge() {
    redraw(this.status, statusOf(this.summary), badge);
    setText(this.lastRow, ago(this.summary.last_row));
    this.lastRow.title = moment(this.summary.last_row);
  }
}
