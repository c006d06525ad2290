// Show whether the page is up to date.
import { setText } from "./elements.js";
import { clock } from "./numbers.js";

let lastHeard = null;

export function showConnection(state, detail) {
  const sign = document.getElementById("connection");
  const lost = document.getElementById("lost");
  sign.dataset.state = state;
  if (state === "live") lastHeard = Date.now() / 1000;
  const texts = { connecting: "Connecting…", live: "Live", lost: "Connection lost", refused: "Not connected" };
  setText(sign, texts[state]);
  lost.hidden = state !== "lost";
  if (state === "lost") {
    const since = lastHeard === null ? "" : ` You see the state of ${clock(lastHeard)}.`;
    setText(lost, `The connection to the service is lost.${since} Trying again in ${Math.ceil(detail / 1000)} s.`);
  }
}

export function heard() {
  lastHeard = Date.now() / 1000;
}
