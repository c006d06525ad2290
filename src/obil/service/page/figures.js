// Show a stream's current figures, each beside its reference; grey and say so where they are not reliable.
import { make, setText } from "./elements.js";
import { whatIs } from "./meanings.js";
import { NONE, count, isNumber, odds, oneIn, percent, percentRange } from "./numbers.js";
import { REASON, estimate, isUnknown, keyOf, positiveOf } from "./prevalence.js";

const TILES = [
  ["prior", "Prevalence now"], ["alert_rate", "Alert rate"], ["threshold", "Threshold"],
  ["precision", "Expected precision"], ["recall", "Expected recall"], ["evidence", "Evidence"],
];

// those that hold only as long as a change of prevalence explains the stream
const BY_PRIOR = ["prior", "threshold", "precision", "recall"];

export class Figures {
  constructor() {
    this.tiles = new Map();
    this.element = make("dl", { class: "figures" }, TILES.map(([quantity, label]) => {
      const tile = { value: make("dd", { class: "value", id: `figure-${quantity}` }, NONE), also: make("dd", { class: "also" }), warning: make("dd", { class: "warning" }) };
      this.tiles.set(quantity, tile);
      return make("div", { class: `tile ${quantity}` }, make("dt", {}, label, " ", whatIs(quantity)), tile.value, tile.warning, tile.also);
    }));
  }

  #set(quantity, value, ...also) {
    const tile = this.tiles.get(quantity);
    setText(tile.value, value);
    setText(tile.also, also.filter(Boolean).join("\n"));
  }

  // where labels find the scores wrong, the prevalence is the one by labels, as in the report
  #showPrior(stream, level) {
    const positive = positiveOf(stream);
    const { by_labels: byLabels, class_name: about, prior_now: now, interval: ends } = stream.change ?? {};
    const labelled = byLabels && about === positive.name;
    const shown = labelled ? now : positive.now;
    const interval = labelled ? ends : stream.interval?.[keyOf(stream.interval, positive.name)];
    this.#set("prior", percent(shown), [oneIn(shown), `in training ${percent(positive.training)}`].filter(Boolean).join(", "),
      interval ? `${percent(level)}: ${percentRange(...interval)}` : "", labelled ? "by labels; the charts and the list show what the scores say" : "");
  }

  show(stream) {
    const level = stream.change?.level ?? 0.9;
    this.#showPrior(stream, level);
    for (const quantity of BY_PRIOR) {
      const tile = this.tiles.get(quantity);
      tile.value.parentElement?.classList.toggle("untrusted", stream.trusted === false);
      setText(tile.warning, stream.trusted === false ? "not reliable" : "");
    }
    this.#set("evidence", odds(stream.log_evidence), ...evidenceTexts(stream));
    const now = stream.performance?.now;
    const window = stream.performance?.window;
    const rate = estimate(window?.alert_rate).value;
    this.#set("alert_rate", ...(isNumber(rate) ? [percent(rate), lastRows(window.rows)]
      : [percent(stream.rows ? stream.alerts / stream.rows : null), stream.rows ? "all rows so far" : "no rows yet"]));
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

export function lastRows(n) {
  return isNumber(n) && n >= 1 ? `last ${count(n < 100 ? n : Number(n.toPrecision(2)))} rows` : "last rows";
}

function evidenceTexts(stream) {
  const row = stream.evidence?.alarm_row;
  if (!isNumber(stream.log_evidence)) return ["not monitored"];
  return [isNumber(stream.log_alarm) ? `alarm at ${odds(stream.log_alarm)}` : "", isNumber(row) ? `alarm at row ${count(row)}` : ""];
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
