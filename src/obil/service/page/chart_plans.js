// Define what each chart of a stream shows, and how its values are written.
import { odds, percent, percentRange, isNumber } from "./numbers.js";

// Fractions start at 0 and leave some space above; a flat line of zeros still gets an axis.
const fractionScale = (extra) => (u, low, high) => {
  const top = Math.max(high ?? 0, extra ?? 0);
  return [0, Math.min(1, top > 0 ? top * 1.12 : 0.01)];
};

function percentTicks(u, ticks) {
  const step = ticks.length > 1 ? 100 * Math.abs(ticks[1] - ticks[0]) : 1;
  const digits = [0, 1, 2, 3, 4, 5].find((n) => Math.abs(step * 10 ** n - Math.round(step * 10 ** n)) < 1e-6) ?? 6;
  return ticks.map((tick) => `${(100 * tick).toFixed(digits)} %`);
}

const evidenceLimits = (alarm) => [LOWEST, 2 * (alarm ?? 2)];

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const powerOfTen = (n) => `10${[...String(n)].map((digit) => RAISED[digit]).join("")}`;

function oddsTicks(u, ticks) {
  return ticks.map((tick) => (Math.abs(tick) <= 3 ? odds(tick * Math.LN10) : tick > 0 ? `${powerOfTen(tick)}:1` : `1:${powerOfTen(-tick)}`));
}

const LOWEST = -2; // powers of ten of the evidence; the highest is twice the alarm's, so that its line is in the upper half

// Each: the columns drawn, lines that stay where they are, the scale, and the values of row i as text.
export function chartPlans({ positive, training, logAlarm }) {
  const alarm = isNumber(logAlarm) ? logAlarm / Math.LN10 : null;
  return [
    {
      id: "prior", title: `Prevalence of “${positive}”`, quantity: "prior", wide: true,
      lines: [{ column: "prior", label: "estimate", colour: "one" }],
      band: { low: "low", high: "high", label: "credible interval", colour: "one" },
      marks: isNumber(training) ? [{ at: training, label: `in training ${percent(training)}`, colour: "two" }] : [],
      scale: fractionScale(training), ticks: percentTicks,
      read: (at) => percent(at.prior) + (isNumber(at.low) ? ` (${percentRange(at.low, at.high)})` : ""),
    },
    {
      id: "alert_rate", title: "Alert rate", quantity: "alert_rate",
      lines: [{ column: "alert_rate", label: "alert rate", colour: "one" }], marks: [],
      scale: fractionScale(), ticks: percentTicks, read: (at) => percent(at.alert_rate),
    },
    {
      id: "threshold", title: "Threshold", quantity: "threshold",
      lines: [{ column: "threshold", label: "threshold", colour: "one" }], marks: [],
      scale: fractionScale(), ticks: percentTicks, read: (at) => percent(at.threshold),
    },
    {
      id: "performance", title: "Expected precision and recall", quantity: "both",
      lines: [{ column: "precision", label: "precision", colour: "one" }, { column: "recall", label: "recall", colour: "two", dash: [7, 4] }],
      marks: [], scale: () => [0, 1], ticks: percentTicks,
      read: (at) => `precision ${percent(at.precision)}, recall ${percent(at.recall)}`,
    },
    {
      id: "evidence", title: "Evidence against label shift", quantity: "evidence",
      lines: [{ column: "log_evidence", label: "evidence", colour: "one" }], divide: Math.LN10,
      marks: alarm === null ? [] : [{ at: alarm, label: `alarm at ${odds(logAlarm)}; what is beyond the scale runs along its edge`, colour: "bad" }],
      // one scale for all streams: 10^400:1 would hide the alarm line, and a calm stream looks calm
      limits: evidenceLimits(alarm), scale: () => evidenceLimits(alarm), steps: [1, 2, 5, 10],
      ticks: oddsTicks, read: (at) => odds(at.log_evidence),
    },
  ];
}
