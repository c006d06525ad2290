// Say in one plain sentence what a quantity is, behind a ? that can be reached by keyboard.
import { make, setText } from "./elements.js";

export const MEANINGS = {
  prior: ["the share now", "The share of rows that belong to the watched class, estimated from recent rows without needing their labels."],
  training: ["the share in training", "The share of the watched class in the data that the model was trained on."],
  shift: ["the shift", "How many times more or less common the watched class is now than it was in training; the middle means as in training."],
  interval: ["the interval", "The true share lies between these two values with the chance given beside them, if only shares have changed."],
  trust: ["trust", "Whether a change of shares alone can still explain what arrives; if it cannot, the figures should not be relied on until labels confirm them."],
  alerts: ["alerts", "How many rows were decided to belong to the watched class, and what share of all rows that is."],
  rows: ["rows", "How many rows have been decided in this stream so far."],
  labels: ["labels", "How many true labels have come back, late and partial as they may be."],
  updated: ["updated", "When something last happened in this stream."],
  threshold: ["the threshold", "A row is alerted when its probability of the watched class is above this value, which follows the share so that the costs or the policy are respected."],
  alert_rate: ["the alert rate", "The share of rows that are alerted."],
  precision: ["expected precision", "Of the rows that are alerted, the share expected to be truly of the watched class, before any label has come."],
  recall: ["expected recall", "Of the rows truly of the watched class, the share expected to be alerted, before any label has come."],
  both: ["expected precision and recall", "Precision is the share of alerts expected to be right, recall the share of the watched class expected to be alerted."],
  evidence: ["the evidence against label shift", "How strongly recent rows speak against the idea that only the shares have changed; where only shares change it reaches the alarm line in at most 1 of 100 streams, however long they run."],
  change: ["the change report", "What changed in this stream, since when, how sure that is, and what to do about it."],
  reliability: ["the reliability diagram", "For held-out rows, how often the class was true among rows given about the same probability; a calibrated model lies on the diagonal."],
  gate: ["the gate's verdict", "Whether the model's probabilities were found honest enough to be deployed, judged on rows it was not trained on."],
  performance: ["how good the decisions are", "What is expected of the next rows, beside what the labels that came say of the last ones."],
  settings: ["settings", "How this stream decides; a change holds from the row it names."],
};

export function whatIs(quantity) {
  const [name, sentence] = MEANINGS[quantity];
  const button = make("button", { type: "button", class: "what", "aria-label": `What is meant by ${name}?`, "aria-expanded": "false" }, "?");
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

export function watchTips() {
  const tip = document.getElementById("tip");
  tip.addEventListener("toggle", (event) => {
    if (event.newState !== "closed") return;
    if (opener) opener.setAttribute("aria-expanded", "false");
    opener = null;
    setText(document.getElementById("said"), "");
  });
  window.addEventListener("scroll", () => isTipOpen() && tip.hidePopover(), { passive: true });
}
