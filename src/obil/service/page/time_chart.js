// Draw one chart over time: lines, a band, fixed marks and events, with its values as text and a range to drag.
import { make, makeSvg, redraw, setText } from "./elements.js";
import { whatIs } from "./meanings.js";
import { isNumber, moment } from "./numbers.js";

const SPARE = [null, null, null, null, null, null];
const TIMES = [
  [31536000, "{YYYY}", ...SPARE, 1],
  [2419200, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
  [0.001, "{ss}.{fff}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM} {HH}:{mm}", null, "\n{HH}:{mm}", null, 1],
];
const EVENTS = { alarm: ["▲", "bad"], change: ["◆", "two"], action: ["■", "soft"], note: ["●", "soft"], start: ["▲", "bad"] }; // after an alarm the chart is grey; `start` is the alarm of one stream of many
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export class TimeChart {
  // select([from, to]) is told of a dragged range, step({by, zoom}) of one asked for by keys
  constructor(plan, { select, step }) {
    this.plan = plan;
    this.events = [];
    this.eventKey = make("ul", { class: "key" });
    this.select = select;
    this.reading = make("p", { class: "reading" });
    this.box = make("div", { class: "plot", tabindex: "0", role: "img" });
    this.nothing = make("p", { class: "nothing", hidden: true }, "No rows in this stretch of time.");
    this.element = make("figure", { class: `chart panel${plan.wide ? " wide" : ""}`, id: `chart-${plan.id}` },
      make("figcaption", {}, make("h3", {}, plan.title, " ", whatIs(plan.quantity)), this.reading), this.#key(), this.eventKey, this.box, this.nothing);
    this.box.addEventListener("keydown", (event) => this.#onKey(event, step));
    this.resizing = new ResizeObserver(() => this.plot?.setSize(this.#size()));
    this.resizing.observe(this.box);
  }

  // columns as the service gives them; between: the ends of the time axis; events: {at, kind, label}
  show(columns, between, events = []) {
    this.columns = columns;
    this.between = between;
    this.events = events.filter(({ at }) => at >= between[0] && at <= between[1]);
    redraw(this.eventKey, [...new Map(this.events.map(({ kind, label }) => [label, [EVENTS[kind][0], label]])).values()], (shown) =>
      shown.map(([sign, label]) => make("li", {}, make("span", { "aria-hidden": "true" }, sign), ` ${label}`)));
    const { divide = 1, limits: [least, most] = [-Infinity, Infinity] } = this.plan;
    const drawn = this.#names().map((name) => (columns[name] ?? []).map((value) => (isNumber(value) ? Math.min(most, Math.max(least, value / divide)) : null)));
    const data = [columns.at, ...drawn];
    this.nothing.hidden = columns.at.length > 0;
    if (this.plot) this.plot.setData(data);
    else this.plot = this.#draw(data);
    this.#read(null);
    this.box.setAttribute("aria-label", this.#inWords());
  }

  restyle() {
    if (!this.plot) return;
    this.plot.destroy();
    this.plot = null;
    this.show(this.columns, this.between, this.events);
  }

  close() {
    this.resizing.disconnect();
    this.plot?.destroy();
  }

  #names() {
    const { band, lines } = this.plan;
    return [...(band ? [band.low, band.high] : []), ...lines.map((line) => line.column)];
  }

  #size() {
    return { width: Math.max(200, this.box.clientWidth), height: this.plan.wide ? 270 : 210 };
  }

  #draw(data) {
    const { plan } = this;
    const axis = { stroke: colour("soft"), font: "12px system-ui, sans-serif", grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false } };
    const edge = { stroke: "transparent", width: 0, points: { show: false } };
    const lines = plan.lines.map((line) => ({ label: line.label, stroke: colour(line.colour), width: 2, dash: line.dash, points: { size: 5 } }));
    return new window.uPlot({
      ...this.#size(),
      padding: [16, 26, 0, 0],
      legend: { show: false },
      series: [{}, ...(plan.band ? [edge, edge] : []), ...lines],
      bands: plan.band ? [{ series: [2, 1], fill: `${colour(plan.band.colour)}33` }] : [],
      scales: { x: { time: true, range: () => this.between }, y: { range: plan.scale } },
      axes: [
        { ...axis, space: 70, values: TIMES },
        { ...axis, size: 62, space: 28, values: plan.ticks, ...(plan.steps ? { incrs: plan.steps } : {}) },
      ],
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false, dist: 5 },
        points: { size: 7 },
        // a drag is told once, by the chart it happened on
        sync: { key: "stream", scales: ["x", null], filters: { pub: (type) => ["mousemove", "mouseleave", "mouseenter"].includes(type) } },
        bind: { dblclick: () => () => this.select(null) },
      },
      hooks: {
        setSelect: [(u) => this.#selected(u)],
        setCursor: [(u) => this.#read(u.cursor.idx)],
        drawClear: [(u) => this.events.filter(({ kind }) => kind === "alarm").forEach(({ at }) => shadeAfter(u, at))],
        draw: [(u) => plan.marks.forEach((mark) => drawMark(u, mark)), (u) => this.events.forEach((event) => drawEvent(u, event))],
        ready: [(u) => letFingersDrag(u)],
      },
    }, data, this.box);
  }

  #selected(u) {
    const { left, width } = u.select;
    if (width < 5) return;
    const range = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
    u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.select(range);
  }

  #row(i) {
    return Object.fromEntries(Object.entries(this.columns).map(([name, column]) => [name, column[i]]));
  }

  #last() {
    const { at } = this.columns;
    for (let i = at.length - 1; i >= 0; i -= 1) {
      if (this.plan.lines.some((line) => isNumber(this.columns[line.column]?.[i]))) return i;
    }
    return null;
  }

  #read(i) {
    const pointed = i !== null && i !== undefined && i < this.columns.at.length;
    // the current values stand above: a chart says what was at the time that is pointed at
    setText(this.reading, pointed ? `${moment(this.columns.at[i])}: ${this.plan.read(this.#row(i))}` : "");
  }

  #inWords() {
    const row = this.#last();
    if (row === null) return `Chart of ${this.plan.title}: nothing in this stretch of time.`;
    const values = (this.columns[this.plan.lines[0].column] ?? []).map((value, i) => [value, i]).filter(([value]) => isNumber(value));
    const tell = (name, better) => {
      if (!values.length) return "";
      const [, i] = values.reduce((one, two) => (better(two[0], one[0]) ? two : one));
      return ` ${name}: ${this.plan.read(this.#row(i))} at ${moment(this.columns.at[i])}.`;
    };
    const marks = [...this.plan.marks.map(({ label }) => ` ${label}.`), ...this.events.map(({ at, label }) => ` ${label}: ${moment(at)}.`)].join("");
    return `Chart of ${this.plan.title}. Last: ${this.plan.read(this.#row(row))}.${tell("Lowest", (a, b) => a < b)}${tell("Highest", (a, b) => a > b)}${marks}`;
  }

  #key() {
    const { band, lines, marks } = this.plan;
    const swatch = (kind, name) => makeSvg("svg", { class: `swatch ${name}`, viewBox: "0 0 26 10", width: 26, height: 10, "aria-hidden": "true" },
      kind === "band" ? makeSvg("rect", { x: 0, y: 1, width: 26, height: 8, class: "band" })
        : makeSvg("line", { x1: 0, x2: 26, y1: 5, y2: 5, class: kind, "stroke-dasharray": { mark: "3 3", dash: "7 4" }[kind] }));
    const entries = [
      ...(lines.length + marks.length > 1 || band ? lines.map((line) => [swatch(line.dash ? "dash" : "line", line.colour), line.label]) : []),
      ...(band ? [[swatch("band", band.colour), band.label]] : []),
      ...marks.map((mark) => [swatch("mark", mark.colour), mark.label]),
    ];
    return make("ul", { class: "key", hidden: !entries.length }, entries.map(([sign, label]) => make("li", {}, sign, ` ${label}`)));
  }

  #onKey(event, step) {
    const asked = { ArrowLeft: { by: -0.25 }, ArrowRight: { by: 0.25 }, "+": { zoom: 0.5 }, "=": { zoom: 0.5 }, "-": { zoom: 2 } }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (!asked && event.key !== "0") return;
    event.preventDefault();
    if (asked) step(asked);
    else this.select(null);
  }
}

function drawMark(u, mark) {
  const y = u.valToPos(mark.at, "y", true);
  const { ctx } = u;
  if (y < u.bbox.top || y > u.bbox.top + u.bbox.height) return;
  ctx.save();
  ctx.strokeStyle = colour(mark.colour);
  ctx.lineWidth = 1.5 * window.devicePixelRatio;
  ctx.setLineDash([3, 3].map((dash) => dash * window.devicePixelRatio));
  ctx.beginPath();
  ctx.moveTo(u.bbox.left, y);
  ctx.lineTo(u.bbox.left + u.bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

function drawEvent(u, { at, kind }) {
  const [sign, name] = EVENTS[kind];
  const x = u.valToPos(at, "x", true);
  const { ctx } = u;
  const ratio = window.devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour(name);
  ctx.lineWidth = (kind === "alarm" ? 2 : 1.2) * ratio;
  ctx.setLineDash(kind === "alarm" ? [] : [2 * ratio, 3 * ratio]);
  ctx.beginPath();
  ctx.moveTo(x, u.bbox.top);
  ctx.lineTo(x, u.bbox.top + u.bbox.height);
  ctx.stroke();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  ctx.fillText(sign, x, u.bbox.top - 1 * ratio);
  ctx.restore();
}

// Grey what came after the alarm: it is not reliable.
function shadeAfter(u, at) {
  const x = Math.max(u.bbox.left, u.valToPos(at, "x", true));
  u.ctx.save();
  u.ctx.fillStyle = colour("shade");
  u.ctx.fillRect(x, u.bbox.top, u.bbox.left + u.bbox.width - x, u.bbox.height);
  u.ctx.restore();
}

// uPlot listens to the mouse alone. A finger that moves sideways selects; up and down still scrolls the page.
function letFingersDrag(u) {
  let start = null;
  const within = (event) => Math.max(0, Math.min(u.over.clientWidth, event.clientX - u.over.getBoundingClientRect().left));
  u.over.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse") start = within(event);
  });
  u.over.addEventListener("pointermove", (event) => {
    if (start === null) return;
    const here = within(event);
    u.setSelect({ left: Math.min(start, here), width: Math.abs(here - start), top: 0, height: u.over.clientHeight }, false);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    u.over.addEventListener(end, () => {
      if (start === null) return;
      start = null;
      u.setSelect(end === "pointerup" ? u.select : { left: 0, width: 0, top: 0, height: 0 }, end === "pointerup");
    });
  }
}
