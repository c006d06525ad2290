// Show trust by a sign, a word and a colour, never by colour alone.
import { make } from "./elements.js";
import { trustOf } from "./shares.js";

export function trustBadge(summary) {
  const { state, sign, word } = trustOf(summary);
  return make("span", { class: `badge ${state}` }, make("span", { "aria-hidden": "true" }, sign), ` ${word}`);
}
