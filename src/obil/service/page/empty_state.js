// Show how to create the first stream: one command.
import { ask } from "./ask.js";
import { make } from "./elements.js";
import { storedKey } from "./key.js";

export async function emptyState() {
  const card = await ask("/v1/model").catch(() => ({}));
  const line = curlLine(card);
  const copy = make("button", { type: "button", onclick: async () => {
    await navigator.clipboard.writeText(line);
    copy.textContent = "Copied";
  } }, "Copy");
  copy.hidden = !navigator.clipboard;
  return [
    make("h2", {}, "No streams yet"),
    make("p", {}, "The first row creates a stream. This command creates one named “first”; change the values as you like:"),
    make("pre", { tabindex: "0", "aria-label": "A command that creates a stream" }, make("code", {}, line)),
    copy,
    make("p", { class: "soft" }, "It appears here within a second."),
  ];
}

function curlLine(card) {
  const row = Array.isArray(card.columns)
    ? Object.fromEntries(card.columns.map(({ name, type }) => [name, type === "category" ? "…" : 0]))
    : Array(card.n_features ?? 2).fill(0);
  const body = JSON.stringify({ row }).replaceAll("'", "'\\''");
  const key = storedKey() ? ' \\\n  -H "Authorization: Bearer $OBIL_KEY"' : "";
  return `curl -X POST ${location.origin}/v1/streams/first/decisions${key} \\\n  -H 'Content-Type: application/json' \\\n  -d '${body}'`;
}
