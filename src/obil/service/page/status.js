// Say how a stream is by a sign, a text and a colour, never by colour alone; and which streams need somebody first.
import { make } from "./elements.js";
import { clock, day, isNumber, secondsOf } from "./numbers.js";

export const ROWS_TO_TELL = 1000; // as in stream_facts.py: before, the absence of an alarm tells nothing
export const SILENT_AFTER = 3600; // seconds without a row
const BUILDING_UP = Math.log(20); // as in change_advice.py
export const URGENT = 2; // up to this rank somebody is needed

export function statusOf(summary, now = Date.now() / 1000) {
  const { trusted, rows, acknowledged_by: seen, log_evidence: evidence } = summary;
  const lastRow = secondsOf(summary.last_row);
  const silent = lastRow !== null && now - lastRow >= SILENT_AFTER;
  if (!trusted && !seen) return { rank: 0, state: "bad", sign: "▲", text: "Alarm" };
  if (!trusted) return { rank: silent ? 2 : 3, state: "bad", sign: "▲", text: "Alarm, acknowledged" };
  if (isNumber(evidence) && evidence >= BUILDING_UP) return { rank: 1, state: "care", sign: "◆", text: "Look again" };
  if (silent) return { rank: 2, state: "none", sign: "○", text: `Silent since ${now - lastRow < 72000 ? clock(lastRow, { seconds: false }) : day(lastRow)}` };
  if (!rows) return { rank: 4, state: "none", sign: "○", text: "No rows yet" };
  if (rows < ROWS_TO_TELL) return { rank: 4, state: "none", sign: "○", text: "Too few rows" };
  if (!isNumber(evidence)) return { rank: 4, state: "none", sign: "○", text: "Not monitored" };
  return { rank: 4, state: "good", sign: "✓", text: "Trusted" };
}

export function badge({ state, sign, text }) {
  return make("span", { class: `badge ${state}` }, make("span", { "aria-hidden": "true" }, sign), ` ${text}`);
}

const known = new Map();

// Announce once when an alarm begins or ends; return whether any did.
export function tellOfAlarms(summaries) {
  const news = [];
  let other = false;
  for (const { name, trusted } of summaries) {
    if (known.has(name) && known.get(name) !== trusted) news.push(trusted ? `The alarm of stream ${name} is over.` : `Alarm: stream ${name} is no longer trusted.`);
    other ||= known.has(name) ? known.get(name) !== trusted : !trusted;
    known.set(name, trusted);
  }
  if (news.length) document.getElementById("news").textContent = news.slice(0, 5).join(" ");
  return other;
}
