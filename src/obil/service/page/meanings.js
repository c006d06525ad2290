// Explain a quantity in one plain sentence, behind a ? that can be reached by keyboard.
import { make, setText } from "./elements.js";

export const MEANINGS = {
  prior: ["the prevalence now", "The fraction of rows that belong to the positive class, estimated from recent rows without their labels."],
  shift: ["the shift", "How many times more or less common the positive class is now than it was in training; the middle means as in training."],
  interval: ["the credible interval", "The true prevalence lies between these two values with the probability given beside them, if only the prevalence has changed."],
  status: ["the status", "Alarm: a change of prevalence alone (label shift) no longer explains what arrives, so do not rely on the figures until labels confirm them. Look again: evidence for that is building up. Silent: no row for an hour. Too few rows: fewer than 1,000, too few to conclude anything from the absence of an alarm."],
  alerts: ["alerts", "How many rows were decided to belong to the positive class, and which fraction of all rows that is."],
  rows: ["rows", "How many rows have been decided in this stream so far."],
  labels: ["labels", "How many true labels have come back; they may be late and incomplete."],
  last_row: ["the last row", "When the last row was decided in this stream."],
  threshold: ["the threshold", "A row is alerted when its probability of the positive class is above this value, which moves with the prevalence so that the costs or the policy are respected."],
  alert_rate: ["the alert rate", "The fraction of rows that are alerted."],
  precision: ["expected precision", "The fraction of alerted rows that are expected to belong to the positive class, before any label has come."],
  recall: ["expected recall", "The fraction of the positive class that is expected to be alerted, before any label has come."],
  both: ["expected precision and recall", "Precision is the fraction of alerts expected to be right, recall the fraction of the positive class expected to be alerted."],
  evidence: ["the evidence against label shift", "How strongly recent rows contradict that only the prevalence has changed; where only the prevalence changes it reaches the alarm line in at most 1 of 100 streams, however long they run."],
  change: ["the change report", "What changed in this stream, since when, with which uncertainty, and what to do about it."],
  reliability: ["the reliability diagram", "For held-out rows, how often the class was true among rows given about the same probability; a calibrated model lies on the diagonal."],
  gate: ["the deployment gate", "Whether the model's probabilities are calibrated well enough for deployment, judged on held-out rows."],
  shadow: ["the shadow model", "Another version of the model that scores a sample of the rows after they were answered, with a prevalence of its own. It decides nothing: it shows what would change if it were activated."],
  performance: ["the performance", "What is expected of the next rows, beside what the labels so far show of the last ones."],
  settings: ["settings", "How this stream decides; a change applies from the row it names."],
};

export function whatIs(quantity) {
  const [name, sentence] = MEANINGS[quantity];
  const button = make("button", { type: "button", class: "what", "aria-label": `What is ${name}?`, "aria-expanded": "false" }, "?");
  button.addEventListener("click", () => toggleTip(button, sentence));
  return button;
}

let opener = null;

export function isTipOpen() {
  return document.getElementById("tip").matches(":popover-open");
}

function toggleTip(button, sentence) {
  const tip = document.getElementById("tip");
  if (opener === button && isTipOpen()) {
    tip.hidePopover();
    return;
  }
  if (isTipOpen()) tip.hidePopover();
  opener = button;
  tip.textContent = sentence;
  tip.showPopover({ source: button });
  place(tip, button);
  button.setAttribute("aria-expanded", "true");
  setText(document.getElementById("said"), sentence);
}

function place(tip, button) {
  const at = button.getBoundingClientRect();
  const [width, height, gap] = [tip.offsetWidth, tip.offsetHeight, 8];
  const left = Math.max(gap, Math.min(at.left + at.width / 2 - width / 2, window.innerWidth - width - gap));
  const below = at.bottom + gap + height < window.innerHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${below ? at.bottom + gap : Math.max(gap, at.top - gap - height)}px`;
}

export function listenToTips() {
  const tip = document.getElementById("tip");
  tip.addEventListener("toggle", (event) => {
    if (event.newState !== "closed") return;
    if (opener) opener.setAttribute("aria-expanded", "false");
    opener = null;
    setText(document.getElementById("said"), "");
  });
  window.addEventListener("scroll", () => isTipOpen() && tip.hidePopover(), { passive: true });
}
