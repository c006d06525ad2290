// Show trust by a sign, a text and a colour, never by colour alone.
import { make } from "./elements.js";
import { trustOf } from "./prevalence.js";

export function trustBadge(summary) {
  const { state, sign, text } = trustOf(summary);
  return make("span", { class: `badge ${state}` }, make("span", { "aria-hidden": "true" }, sign), ` ${text}`);
}
