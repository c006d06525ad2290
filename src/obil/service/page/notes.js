// Write notes on a stream, acknowledge its alarm, and show what people did to it.
import { send } from "./ask.js";
import { make, setText } from "./elements.js";
import { count, moment } from "./numbers.js";

const KINDS = {
  acknowledged: "Alarm acknowledged", noted: "Note", restarted: "Monitor restarted", settings: "Settings changed",
  model: "New model version", forgotten: "Decisions erased",
};
let forms = 0;

// A form keeps what is being typed while the rest of the page is drawn afresh.
export function noteForm(address, { acknowledge, done }) {
  const id = `note-${(forms += 1)}`;
  const text = make("textarea", { id, rows: "2", maxlength: "2000", required: !acknowledge });
  const refusal = make("p", { class: "bad-text", role: "alert" });
  return make("form", { class: "note", onsubmit: async (event) => {
    event.preventDefault();
    try {
      await send("POST", `${address}/notes`, { text: text.value, acknowledge });
      text.value = "";
      setText(refusal, "");
      await done();
    } catch (error) {
      setText(refusal, `Not kept: ${error.message}.`);
    }
  } }, make("label", { for: id }, acknowledge ? "What you found or will do (may stay empty)" : "Note"), text,
  make("button", { type: "submit", class: acknowledge ? "main" : "" }, acknowledge ? "Acknowledge the alarm" : "Add the note"), refusal);
}

export function eventList(events) {
  if (!events?.length) return make("p", { class: "soft" }, "Nothing yet.");
  return make("ol", { class: "changes" }, events.map(({ at, by, row, kind, text }) => make("li", {},
    make("span", { class: "change" }, make("strong", {}, KINDS[kind] ?? kind), text ? ": " : "", text),
    make("span", { class: "also" }, `${moment(at)}, by `, make("bdi", {}, by), `, before row ${count(row)}`))));
}

// What the charts mark: when the alarm began, when the prevalence changed, and what people did.
export function marksOf(stream, columns) {
  const marks = (stream.events ?? []).map(({ at, kind }) => ({ at: Date.parse(at) / 1000, kind: ["noted", "acknowledged"].includes(kind) ? "note" : "action", label: KINDS[kind] ?? kind }));
  if (stream.alarm_since) marks.push({ at: Date.parse(stream.alarm_since) / 1000, kind: "alarm", label: "Alarm" });
  const since = stream.change?.changed ? stream.change.changed_since : null;
  const i = since === null ? -1 : columns.row.findIndex((row) => row >= since);
  if (i >= 0) marks.push({ at: columns.at[i], kind: "change", label: "Prevalence changed" });
  return marks.sort((a, b) => a.at - b.at);
}
