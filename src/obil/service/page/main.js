// Show the view that the address names, keep it live, and let the keyboard move between views.
import { ask } from "./ask.js";
import { heard, showConnection } from "./connection.js";
import { make, setText } from "./elements.js";
import { askForKey, forgetKey, storedKey } from "./key.js";
import { follow } from "./live.js";
import { isTipOpen, listenToTips } from "./meanings.js";
import { CompareView } from "./compare_view.js";
import { StreamView } from "./stream_view.js";
import { StreamsView } from "./streams_view.js";

const main = document.getElementById("main");
let view = null;
let place = null;
let stopFollowing = () => {};

function viewOf(hash) {
  const [path, query] = hash.slice(1).split("?");
  const compared = path === "/compare" ? (new URLSearchParams(query).get("streams") ?? "").split(",").filter(Boolean) : [];
  if (compared.length) return new CompareView(compared);
  const stream = path.match(/^\/streams\/(.+)$/);
  return stream ? new StreamView(decoded(stream[1]), query ?? "") : new StreamsView();
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a % that stands for itself
  }
}

async function show({ again = false } = {}) {
  const [path] = location.hash.split("?");
  const here = (path === "#/compare" ? location.hash : path) || "#/"; // a range of time is no other place
  if (here === place && !again) return;
  const moved = place !== null && !again;
  place = here;
  stopFollowing();
  view?.close();
  const current = (view = viewOf(location.hash));
  main.replaceChildren(view.element);
  document.title = view.title;
  showConnection("connecting");
  if (moved) {
    window.scrollTo(0, 0);
    main.querySelector("h1")?.focus();
  }
  try {
    await current.start();
  } catch (error) {
    if (!error.status) console.error(error); // it may be a fault of the page
    if (current === view) showRefusal(error);
    if (!error.status || error.status >= 500) setTimeout(() => current === view && show({ again: true }), 5000);
    return;
  }
  if (current !== view) return;
  current.onMoved = () => listenTo(current); // another page of the list has other events
  listenTo(current);
  showModel();
}

function listenTo(current) {
  stopFollowing();
  stopFollowing = follow(current.path, {
    onEvent: (type, data) => {
      heard();
      current.onEvent(type, data);
    },
    onState: (state, detail) => {
      showConnection(state, detail);
      if (state === "live") current.refresh().catch(() => {}); // what was missed while disconnected
    },
  });
}

function showRefusal(error) {
  showConnection("refused", error);
  const title = { 401: "A key is needed", 403: "This key cannot read", 404: "There is no such stream" }[error.status];
  const again = make("button", { type: "button", class: "main", onclick: () => show({ again: true }) }, "Try again");
  const other = make("button", { type: "button", onclick: () => askForKey(false).catch(() => {}) }, "Use another key");
  main.replaceChildren(make("section", { class: "panel" },
    make("h1", { tabindex: "-1" }, title ?? (error.status && error.status < 500 ? "The service refuses the request" : "The service does not respond")),
    make("p", {}, error.status ? sentence(error.message) : "It may be restarting, or this machine cannot reach it."),
    make("p", { class: "buttons" }, again, error.status === 403 ? other : null, make("a", { href: "#/" }, "All streams"))));
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

async function showModel() {
  const card = await ask("/v1/model").catch(() => null);
  if (card) setText(document.getElementById("model"), `Model ${card.version}`);
}

function onKey(event) {
  const typing = event.target.closest("input, select, textarea, dialog");
  if (event.key === "Escape" && !isTipOpen() && !event.target.closest("dialog")) {
    if (place !== "#/") location.hash = "#/";
    else if (typing) typing.blur();
  } else if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    const search = document.getElementById("search");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  }
}

function listenToKey() {
  const button = document.getElementById("forget-key");
  const update = () => {
    button.hidden = !storedKey();
  };
  button.addEventListener("click", () => {
    forgetKey();
    show({ again: true });
  });
  window.addEventListener("obil-key", () => {
    update();
    if (storedKey() && document.getElementById("connection").dataset.state === "refused") show({ again: true });
  });
  update();
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address after # names the view
  main.focus();
});
window.addEventListener("hashchange", () => show());
document.addEventListener("keydown", onKey);
listenToTips();
listenToKey();
show();
