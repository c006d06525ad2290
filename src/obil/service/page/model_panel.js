// Show whether the model is calibrated: the gate's verdict, its reasons, and the reliability diagram.
import { make } from "./elements.js";
import { whatIs } from "./meanings.js";
import { isNumber } from "./numbers.js";
import { reliabilityDiagram } from "./reliability.js";

const VERDICTS = {
  deploy: ["good", "✓", "Deploy"], warn: ["care", "◆", "Deploy with care"],
  refuse: ["bad", "▲", "Refused"], "too few": ["care", "◆", "Too few rows to tell"],
};

const FIGURES = { offset: "Offset of the log ratios", slope_error: "Error of the slope", balanced_ece: "Calibration error, classes weighted equally" };

export function modelPanel(card) {
  const gate = card.gate ?? {};
  const verdict = gate.verdict ?? gate.decision;
  const [state, sign, text] = VERDICTS[verdict] ?? ["none", "○", verdict ?? "Not judged"];
  return [
    make("div", {}, make("h3", {}, "Deployment gate ", whatIs("gate")),
      make("p", {}, make("span", { class: `badge ${state}` }, make("span", { "aria-hidden": "true" }, sign), ` ${text}`)),
      gate.sentence ? make("p", {}, gate.sentence) : null,
      gate.reasons?.length && !gate.sentence?.includes(gate.reasons[0]) ? make("ul", {}, gate.reasons.map((reason) => make("li", {}, reason))) : null,
      figures(gate.figures ?? {}), make("p", { class: "soft" }, "Model ", make("code", {}, card.version))),
    make("div", {}, make("h3", {}, "Reliability ", whatIs("reliability")),
      card.reliability?.length ? reliabilityDiagram(card.reliability) : make("p", { class: "soft" }, "This model has no held-out rows to draw it from.")),
  ];
}

// a value of 4e-8 against a limit of 0.35 is shown as 0
const short = (value) => (isNumber(value) ? String(Math.abs(value) < 5e-4 ? 0 : Number(value.toPrecision(2))) : "–");

function figures(known) {
  const rows = Object.entries(known).filter(([, figure]) => isNumber(figure) || isNumber(figure?.value));
  if (!rows.length) return null;
  const full = rows.some(([, figure]) => isNumber(figure?.allowed));
  const columns = full ? ["Measured", "Allowed", "Chance level"] : ["Measured"];
  return make("table", { class: "plain" },
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Figure"), columns.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, rows.map(([name, figure]) => make("tr", {}, make("th", { scope: "row" }, FIGURES[name] ?? name.replaceAll("_", " ")),
      make("td", {}, short(figure?.value ?? figure)), full ? [make("td", {}, short(figure?.allowed)), make("td", {}, short(figure?.chance))] : []))));
}
