// Show an HTTP call as a command that can be copied.
import { make } from "./elements.js";
import { storedKey } from "./key.js";

export function httpCall(method, path, body, label) {
  const key = storedKey() ? ' \\\n  -H "Authorization: Bearer $OBIL_KEY"' : "";
  const data = body === undefined ? "" : ` \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
  const line = `curl -X ${method} ${location.origin}${path}${key}${data}`;
  const copy = make("button", { type: "button", onclick: async () => {
    await navigator.clipboard.writeText(line);
    copy.textContent = "Copied";
  } }, "Copy");
  copy.hidden = !navigator.clipboard;
  return make("div", { class: "call" }, make("pre", { tabindex: "0", role: "region", "aria-label": label }, make("code", {}, line)), copy);
}
