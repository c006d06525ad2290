// Show whether what is on the page is of now.
import { setText } from "./elements.js";
import { clock } from "./numbers.js";

let lastHeard = null;

export function showConnection(state, detail) {
  const sign = document.getElementById("connection");
  const lost = document.getElementById("lost");
  sign.dataset.state = state;
  if (state === "live") lastHeard = Date.now() / 1000;
  const words = { connecting: "Connecting…", live: "Live", lost: "Connection lost", refused: "Not connected" };
  setText(sign, words[state]);
  lost.hidden = state !== "lost";
  if (state === "lost") {
    const since = lastHeard === null ? "" : ` What you see is of ${clock(lastHeard)}.`;
    setText(lost, `The connection to the service is lost.${since} Trying again in ${Math.ceil(detail / 1000)} s.`);
  }
}

export function heard() {
  lastHeard = Date.now() / 1000;
}
