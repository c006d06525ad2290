// Draw the reliability diagram: predicted against observed frequency, on held-out rows.
import { make, makeSvg } from "./elements.js";
import { isNumber, percent, percentRange } from "./numbers.js";

const [SIZE, LEFT, BOTTOM, TOP, RIGHT] = [320, 52, 44, 12, 14];
const x = (fraction) => LEFT + fraction * (SIZE - LEFT - RIGHT);
const y = (fraction) => SIZE - BOTTOM - fraction * (SIZE - BOTTOM - TOP);

export function reliabilityDiagram(bins) {
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  const most = Math.max(...bins.map((bin) => bin.weight ?? 0), 1e-9);
  const gap = bins.reduce((worst, bin) => (Math.abs(bin.observed - bin.predicted) > Math.abs(worst.observed - worst.predicted) ? bin : worst));
  const description = `Reliability diagram of ${bins.length} groups of rows. Largest gap: predicted ${percent(gap.predicted)}, observed ${percent(gap.observed)}. The values follow as a table.`;
  const drawing = makeSvg("svg", { class: "reliability", viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": description },
    ticks.map((tick) => [
      makeSvg("line", { x1: x(0), x2: x(1), y1: y(tick), y2: y(tick), class: "grid" }),
      makeSvg("line", { x1: x(tick), x2: x(tick), y1: y(0), y2: y(1), class: "grid" }),
      makeSvg("text", { x: x(0) - 8, y: y(tick) + 4, "text-anchor": "end" }, `${100 * tick}`),
      makeSvg("text", { x: x(tick), y: y(0) + 18, "text-anchor": "middle" }, `${100 * tick}`),
    ]).flat(),
    makeSvg("text", { x: x(0.5), y: SIZE - 6, "text-anchor": "middle" }, "predicted, %"),
    makeSvg("text", { x: 14, y: y(0.5), "text-anchor": "middle", transform: `rotate(-90 14 ${y(0.5)})` }, "observed, %"),
    makeSvg("line", { x1: x(0), y1: y(0), x2: x(1), y2: y(1), class: "ideal" }),
    bins.filter((bin) => isNumber(bin.low)).map((bin) => makeSvg("line", { x1: x(bin.predicted), x2: x(bin.predicted), y1: y(bin.low), y2: y(bin.high), class: "bar" })),
    bins.map((bin) => makeSvg("circle", { cx: x(bin.predicted), cy: y(bin.observed), r: 3 + 4 * Math.sqrt((bin.weight ?? 0) / most), class: "dot" })));
  return make("div", { class: "reliability-box" }, drawing,
    make("p", { class: "soft" }, "Dots on the dashed line are calibrated; a larger dot means more rows, a bar is the 90 % confidence interval."),
    make("details", {}, make("summary", {}, "The same as a table"), table(bins)));
}

function table(bins) {
  const head = ["Predicted", "Observed", "90 % interval", "Fraction of rows"].map((name) => make("th", { scope: "col" }, name));
  return make("table", { class: "plain" }, make("thead", {}, make("tr", {}, head)), make("tbody", {}, bins.map((bin) => make("tr", {},
    make("td", {}, percent(bin.predicted)), make("td", {}, percent(bin.observed)),
    make("td", {}, isNumber(bin.low) ? percentRange(bin.low, bin.high) : "–"), make("td", {}, percent(bin.weight))))));
}
