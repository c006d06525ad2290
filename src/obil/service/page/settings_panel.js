// Show how a stream decides, and who changed that from which row.
import { make } from "./elements.js";
import { count, moment } from "./numbers.js";

const MOST_COSTS = 6;
const spaced = (name) => name.replaceAll("_", " ");

export function settingsPanel({ settings, changes, classes }) {
  const known = Object.entries(settings ?? {}).filter(([, value]) => value !== null && value !== undefined);
  return [
    make("dl", { class: "settings" }, known.map(([name, value]) => [make("dt", {}, spaced(name)), make("dd", {}, settingText(value, classes))])),
    make("h3", {}, "Recent changes"),
    changes?.length ? make("ol", { class: "changes" }, changes.slice(0, 10).map((one) => change(one, classes))) : make("p", { class: "soft" }, "None since the stream began."),
  ];
}

function change({ at, by, row, before, after }, classes) {
  const names = Object.keys({ ...before, ...after }).filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name]));
  const text = (value) => settingText(value, classes);
  const whole = names.includes("name") || names.includes("matrix") || !names.length;
  const what = whole ? `${text(before)} → ${text(after)}` : names.map((name) => `${spaced(name)}: ${text(before?.[name])} → ${text(after?.[name])}`).join("; ");
  return make("li", {}, make("span", { class: "change" }, what), make("span", { class: "also" }, `${moment(at)}, by `, make("bdi", {}, by), `, from row ${count(row)} on`));
}

// A policy is {name, its setting}, or costs as {matrix, classes}; the rest is plain.
export function settingText(value, classes) {
  if (value === null || value === undefined) return "none";
  if (Array.isArray(value)) return value.map((one) => settingText(one, classes)).join(", ");
  if (typeof value === "number") return value >= 10000 ? count(value) : String(value);
  if (typeof value !== "object") return String(value);
  if (Array.isArray(value.matrix)) return costText(value.matrix, value.classes ?? classes ?? []);
  const { name, ...rest } = value;
  const parts = Object.entries(rest).filter(([, part]) => part !== null).map(([key, part]) => `${spaced(key)} ${settingText(part, classes)}`);
  return [name ? spaced(String(name)) : "", parts.join(", ")].filter(Boolean).join(": ") || "none";
}

// Rows are what was decided, columns what was true.
function costText(matrix, classes) {
  const costs = matrix.flatMap((row, decided) => row.map((cost, truth) => [cost, classes[decided] ?? decided, classes[truth] ?? truth])).filter(([cost]) => cost !== 0);
  if (costs.length > MOST_COSTS) return `costs: a matrix of ${matrix.length} × ${matrix.length}`;
  return `costs: ${costs.map(([cost, decided, truth]) => `${cost} for “${decided}” where “${truth}” is true`).join(", ")}`;
}
