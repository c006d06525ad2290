// Draw how far the prevalence is from training: the middle is as in training, each mark a factor of four.
import { makeSvg } from "./elements.js";
import { isNumber } from "./numbers.js";

const [WIDTH, HEIGHT, EDGE] = [112, 20, 6];
const FARTHEST = Math.log(16);

export function shiftGauge(now, training) {
  const middle = WIDTH / 2;
  const reach = middle - EDGE;
  const marks = [-1, -0.5, 0.5, 1].map((part) => {
    const x = middle + part * reach;
    return makeSvg("line", { x1: x, x2: x, y1: HEIGHT / 2 - 3, y2: HEIGHT / 2 + 3, class: "mark" });
  });
  const parts = [
    makeSvg("line", { x1: EDGE, x2: WIDTH - EDGE, y1: HEIGHT / 2, y2: HEIGHT / 2, class: "mark" }),
    ...marks,
    makeSvg("line", { x1: middle, x2: middle, y1: 2, y2: HEIGHT - 2, class: "training" }),
  ];
  if (isNumber(now) && isNumber(training) && now > 0 && training > 0) {
    const shift = Math.max(-1, Math.min(1, Math.log(now / training) / FARTHEST));
    const x = middle + shift * reach;
    parts.push(makeSvg("line", { x1: middle, x2: x, y1: HEIGHT / 2, y2: HEIGHT / 2, class: "shift" }));
    parts.push(makeSvg("circle", { cx: x, cy: HEIGHT / 2, r: 5, class: "now" }));
  }
  // the factor is written beside it
  return makeSvg("svg", { class: "gauge", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, "aria-hidden": "true" }, ...parts);
}
