// Subscribe to the service's events by fetch, which can send a key, and reconnect after a loss.
import { RefusedError, open } from "./ask.js";

const MAX_IDLE = 40_000; // ms; the service sends a comment every 15 s
const LONGEST_WAIT = 30_000;

// onState is told "live", "lost" with the ms until the next try, or "refused" with the error; returns what stops it.
export function follow(path, { onEvent, onState }) {
  let stopped = false;
  let failures = 0;
  let hangUp = new AbortController();
  let wake = () => {};

  async function listen() {
    hangUp = new AbortController();
    let watchdog = setTimeout(() => hangUp.abort(), MAX_IDLE);
    try {
      const response = await open(path, { headers: { Accept: "text/event-stream" }, signal: hangUp.signal });
      failures = 0;
      if (!stopped) onState("live");
      for await (const event of readEvents(response.body, () => {
        clearTimeout(watchdog);
        watchdog = setTimeout(() => hangUp.abort(), MAX_IDLE);
      })) {
        if (stopped) return;
        onEvent(event.type, event.data);
      }
    } finally {
      clearTimeout(watchdog);
    }
  }

  async function keepListening() {
    while (!stopped) {
      try {
        await listen();
      } catch (error) {
        if (stopped) return;
        if (error instanceof RefusedError && error.status < 500 && error.status !== 429) {
          onState("refused", error);
          return;
        }
      }
      if (stopped) return;
      // random, so that a thousand pages do not reconnect at the same time
      const wait = Math.min(1000 * 2 ** failures, LONGEST_WAIT) * (0.75 + Math.random() / 2);
      failures += 1;
      onState("lost", wait);
      await new Promise((resolve) => {
        wake = resolve;
        setTimeout(resolve, wait);
      });
    }
  }

  const retry = () => wake();
  window.addEventListener("online", retry);
  keepListening();
  return () => {
    stopped = true;
    window.removeEventListener("online", retry);
    hangUp.abort();
    wake();
  };
}

// Read server-sent events from a body of text, piece by piece as it comes.
async function* readEvents(body, onBytes) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    onBytes();
    rest = `${rest}${value}`.replaceAll("\r\n", "\n");
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parse(block);
      if (event) yield event;
    }
  }
}

// A block without data, such as the comment that the service is alive, is no event.
function parse(block) {
  let type = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) type = line.slice(6).trim();
    if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  return data.length ? { type, data: JSON.parse(data.join("\n")) } : null;
}
