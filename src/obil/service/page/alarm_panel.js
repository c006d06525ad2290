// Tell of an alarm as a person would: since when, what changed, and what to do here.
import { send } from "./ask.js";
import { make, redraw, setText } from "./elements.js";
import { httpCall } from "./http_call.js";
import { noteForm } from "./notes.js";
import { count, isNumber, moment, odds } from "./numbers.js";

// The sentences change with every snapshot; whoever has opened them keeps them open.
export class FullReport {
  constructor() {
    this.list = make("ul", {});
    this.element = make("details", {}, make("summary", {}, "The report in full"), this.list);
  }

  show(sentences) {
    this.element.hidden = sentences.length < 3; // all is told already
    redraw(this.list, sentences, () => sentences.map((sentence) => make("li", {}, sentence)));
  }
}

export class AlarmPanel {
  // done() is called after something was changed here
  constructor(address, done) {
    this.address = address;
    this.headline = make("h2", { id: "alarm-headline" });
    this.seen = make("p", { class: "seen", role: "status" });
    this.form = noteForm(address, { acknowledge: true, done });
    this.facts = make("div", {});
    this.report = new FullReport();
    this.calls = make("div", {});
    this.refusal = make("p", { class: "bad-text", role: "alert" });
    const restart = make("button", { type: "button", onclick: () => this.#restart(done) }, "Restart the monitor");
    this.restart = make("details", {}, make("summary", {}, "Once the cause is fixed: restart the monitor"),
      make("p", {}, "It drops the evidence so far and starts a new monitoring run with the next row. If the cause is still there, the alarm comes back."),
      make("p", { class: "buttons" }, restart), this.refusal, httpCall("POST", `${address}/monitor/restart`, undefined, "The same as a command"));
    this.element = make("section", { class: "panel alarm", "aria-labelledby": "alarm-headline", hidden: true }, this.headline,
      make("p", {}, "A change of prevalence alone cannot explain it: do not rely on the greyed figures below until the cause is found or labels confirm them."),
      make("div", { class: "columns" }, make("div", {}, this.facts, this.report.element, this.calls),
        make("div", {}, make("h3", {}, "Who looks after it"), this.seen, this.form, this.restart)));
  }

  show(stream) {
    this.element.hidden = stream.trusted;
    if (stream.trusted) return;
    setText(this.headline, `▲ Alarm since ${moment(stream.alarm_since)}: what arrives no longer looks like the data this model was tested on.`);
    const seen = stream.events?.find(({ kind }) => kind === "acknowledged");
    const by = stream.acknowledged_by;
    this.form.hidden = Boolean(by);
    setText(this.seen, by ? `Acknowledged by ${by}${seen ? `, ${moment(seen.at)}${seen.text ? `: ${seen.text}` : "."}` : "."}` : "Nobody has acknowledged it yet.");
    const { evidence, change } = stream;
    redraw(this.facts, [evidence?.where, evidence?.alarm_row, odds(stream.log_evidence)], () => [
      make("h3", {}, "What changed"),
      make("p", {}, ["The scores of the model are distributed differently now.", evidence?.where, isNumber(evidence?.alarm_row) ? `The evidence passed the alarm line of ${odds(stream.log_alarm)} at row ${count(evidence.alarm_row)}; now it is ${odds(stream.log_evidence)}.` : ""].filter(Boolean).join(" ")),
    ]);
    this.report.show(change.sentences);
    redraw(this.calls, [change.action, change.sentences.at(-1), stream.positive], () => [
      make("h3", {}, "What to do here"),
      make("ol", {},
        make("li", {}, "Find out what changed at about that time in what feeds this stream: a sensor, a unit, a column, a release."),
        make("li", {}, change.sentences.at(-1), httpCall("POST", `${this.address}/labels`, { labels: [{ id: "…", label: stream.positive }] }, "A command that sends a label")),
        make("li", {}, "Write down what you find: it is kept with the stream.")),
    ]);
  }

  async #restart(done) {
    try {
      await send("POST", `${this.address}/monitor/restart`);
      setText(this.refusal, "");
      this.restart.open = false;
      await done();
    } catch (error) {
      setText(this.refusal, `Not restarted: ${error.message}.`);
    }
  }
}
