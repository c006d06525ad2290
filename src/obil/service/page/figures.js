// Show a stream's current figures, each beside its reference.
import { make, setText } from "./elements.js";
import { whatIs } from "./meanings.js";
import { NONE, count, isNumber, odds, oneIn, percent, percentRange } from "./numbers.js";
import { estimate, keyOf, positiveOf } from "./prevalence.js";
import { REASON, isUnknown } from "./unknown_figure.js";

const TILES = [
  ["prior", "Prevalence now"], ["alert_rate", "Alert rate"], ["threshold", "Threshold"],
  ["precision", "Expected precision"], ["recall", "Expected recall"], ["evidence", "Evidence"],
];

export class Figures {
  constructor() {
    this.tiles = new Map();
    this.element = make("dl", { class: "figures" }, TILES.map(([quantity, label]) => {
      const tile = { value: make("dd", { class: "value", id: `figure-${quantity}` }, NONE), also: make("dd", { class: "also" }) };
      this.tiles.set(quantity, tile);
      return make("div", { class: `tile ${quantity}` }, make("dt", {}, label, " ", whatIs(quantity)), tile.value, tile.also);
    }));
  }

  #set(quantity, value, ...also) {
    const tile = this.tiles.get(quantity);
    setText(tile.value, value);
    setText(tile.also, also.filter(Boolean).join("\n"));
  }

  // a summary is enough for what moves most; the detail fills in the rest
  show(stream) {
    const positive = positiveOf(stream);
    const interval = stream.interval?.[keyOf(stream.interval, positive.name)];
    const level = stream.change?.level ?? 0.9;
    this.#set("prior", percent(positive.now), [oneIn(positive.now), `in training ${percent(positive.training)}`].filter(Boolean).join(", "),
      interval ? `${percent(level)}: ${percentRange(...interval)}` : "");
    this.#set("evidence", odds(stream.log_evidence), ...evidenceTexts(stream));
    const now = stream.performance?.now;
    const soFar = stream.rows ? `${count(stream.alerts)} of ${count(stream.rows)} rows` : "no rows yet";
    const rate = estimate(stream.performance?.window?.alert_rate).value;
    this.#set("alert_rate", percent(rate ?? (stream.rows ? stream.alerts / stream.rows : null)), soFar);
    this.#set("threshold", ...thresholdTexts(stream));
    for (const quantity of ["precision", "recall"]) {
      const { value, low, high } = estimate(now?.[quantity]);
      const known = estimate(stream.performance?.window?.[quantity]);
      const seen = ["labels", "both"].includes(known.source) && isNumber(known.value) ? `from labels ${percent(known.value)}` : "";
      const unknown = isUnknown(now?.[quantity]);
      this.tiles.get(quantity).value.title = unknown ? REASON : "";
      this.#set(quantity, unknown ? "unknown" : percent(value), isNumber(low) ? `${percent(level)}: ${percentRange(low, high)}` : "", seen);
    }
  }
}

function evidenceTexts(stream) {
  const row = stream.evidence?.alarm_row;
  if (!isNumber(stream.log_evidence)) return ["not monitored"];
  return ["against label shift", isNumber(stream.log_alarm) ? `alarm at ${odds(stream.log_alarm)}` : "", isNumber(row) ? `alarm at row ${count(row)}` : ""];
}

function thresholdTexts({ threshold, classes }) {
  const { probability, log_ratio: logRatio } = threshold ?? {};
  if (isNumber(probability)) {
    if (probability >= 1) return ["100 %", "nothing is alerted"];
    if (probability <= 0) return ["0 %", "every row is alerted"];
    return [percent(probability), isNumber(logRatio) ? `evidence needed ${odds(logRatio)}` : ""];
  }
  if (classes?.length > 2) return [NONE, "none: the costs of all classes decide"];
  return [NONE, threshold ? "no threshold meets the policy" : ""];
}
