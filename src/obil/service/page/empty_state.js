// Show how to create the first stream: one command.
import { ask } from "./ask.js";
import { make } from "./elements.js";
import { httpCall } from "./http_call.js";

export async function emptyState() {
  const card = await ask("/v1/model").catch(() => ({}));
  const row = Array.isArray(card.columns)
    ? Object.fromEntries(card.columns.map(({ name, type }) => [name, type === "category" ? "…" : 0]))
    : Array(card.n_features ?? 2).fill(0);
  return [
    make("h2", {}, "No streams yet"),
    make("p", {}, "The first row creates a stream. This command creates one named “first”; change the values as you like:"),
    httpCall("POST", "/v1/streams/first/decisions", { row }, "A command that creates a stream"),
    make("p", { class: "soft" }, "It appears here within a second."),
  ];
}
