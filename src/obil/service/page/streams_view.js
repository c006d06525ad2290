// Show all streams at a glance: searched, filtered and a page at a time, for 100,000 of them.
import { tellOfAlarms } from "./alarm_news.js";
import { ask } from "./ask.js";
import { make, redraw, setText } from "./elements.js";
import { emptyState } from "./empty_state.js";
import { MEANINGS, whatIs } from "./meanings.js";
import { count, plural } from "./numbers.js";
import { StreamRow } from "./stream_row.js";

const PAGE = 50;
const COLUMNS = [
  ["Trust", "trust"], ["Prevalence now", "prior"], ["In training", "training"], ["Shift", "shift"], ["Alerts", "alerts"],
  ["Rows", "rows"], ["Labels", "labels"], ["Updated", "updated"],
];
let remembered = { search: "", alarmed: false, afters: [null], focus: null }; // to come back to where one was

export class StreamsView {
  title = "All streams";

  constructor() {
    this.rows = new Map();
    this.total = 0;
    this.next = null;
    this.element = this.#skeleton();
    this.#listenToKeys();
  }

  async start() {
    await this.refresh();
    const row = this.rows.get(remembered.focus);
    if (row) row.link.focus();
    remembered.focus = null;
  }

  close() {
    this.closed = true;
    clearTimeout(this.searching);
    clearTimeout(this.soon);
    clearInterval(this.ageing);
    clearInterval(this.counting);
  }

  async refresh() {
    const query = this.#query();
    const [page, alarms] = await Promise.all([ask(`/v1/streams?${query}`), ask("/v1/streams?alarmed=true&limit=1")]);
    if (query === this.#query() && !this.closed) this.#show(page, alarms.total); // else another page is wanted by now
  }

  // events come of the streams on this page alone
  get path() {
    return `/v1/events?${this.#query()}`;
  }

  #query() {
    const { afters, search, alarmed } = remembered;
    const query = new URLSearchParams({ limit: String(PAGE) });
    if (afters.at(-1)) query.set("after", afters.at(-1));
    if (search) query.set("search", search);
    if (alarmed) query.set("alarmed", "true");
    return query.toString();
  }

  onEvent(type, data) {
    const changed = type === "stream" ? [data] : (data.streams ?? []);
    let news = tellOfAlarms(changed);
    for (const summary of changed) {
      const row = this.rows.get(summary.name);
      if (row) row.show(summary);
      else news = true;
    }
    // a new stream or alarm changes what belongs on this page: look again, but not at every one of them
    if (news && !this.soon) {
      this.soon = setTimeout(() => {
        this.soon = null;
        this.refresh().catch(() => {});
      }, this.rows.size ? 2000 : 0);
    }
  }

  #skeleton() {
    this.search = make("input", { type: "search", id: "search", placeholder: "Part of a name", autocomplete: "off", spellcheck: "false", value: remembered.search });
    this.alarmed = make("input", { type: "checkbox", id: "alarmed" });
    this.alarmed.checked = remembered.alarmed;
    this.count = make("p", { class: "count", role: "status" });
    this.body = make("tbody", { role: "rowgroup" });
    this.table = make("table", { role: "table", class: "streams", "aria-label": "Streams", hidden: true },
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" },
        make("th", { role: "columnheader", scope: "col" }, "Stream"),
        COLUMNS.map(([label, quantity]) => make("th", { role: "columnheader", scope: "col", class: quantity }, `${label} `, whatIs(quantity))))),
      this.body);
    this.before = make("button", { type: "button", onclick: () => this.#turn(-1) }, "← Previous");
    this.after = make("button", { type: "button", onclick: () => this.#turn(1) }, "Next →");
    this.where = make("span", {});
    this.pages = make("nav", { class: "pages", hidden: true, "aria-label": "Pages of streams" }, this.before, this.where, this.after);
    this.empty = make("section", { class: "panel empty", hidden: true });
    this.glossary = make("details", { class: "glossary", hidden: true }, make("summary", {}, "What these figures mean"),
      make("dl", {}, COLUMNS.map(([label, quantity]) => [make("dt", {}, label), make("dd", {}, MEANINGS[quantity][1])])));
    this.search.addEventListener("input", () => {
      clearTimeout(this.searching);
      this.searching = setTimeout(() => this.#filter(), 200);
    });
    this.alarmed.addEventListener("change", () => this.#filter());
    this.ageing = setInterval(() => this.rows.forEach((row) => row.showAge()), 5000);
    this.counting = setInterval(() => this.refresh().catch(() => {}), 15_000); // alarms on other pages, streams erased
    this.tools = make("form", { role: "search", class: "tools", onsubmit: (event) => event.preventDefault() },
      make("label", { for: "search" }, make("span", {}, "Search"), this.search),
      make("label", { for: "alarmed", class: "check" }, this.alarmed, make("span", {}, "Only alarms")));
    return make("div", { class: "streams-view" },
      make("div", { class: "heading" }, make("h1", { tabindex: "-1" }, "Streams"), this.count), this.tools, this.table, this.empty, this.pages, this.glossary);
  }

  #show(page, alarms) {
    const focused = document.activeElement?.closest?.("tbody tr");
    const focusedName = [...this.rows.values()].find((row) => row.element === focused)?.summary.name;
    tellOfAlarms(page.streams);
    this.total = page.total;
    this.next = page.next;
    const kept = new Map();
    for (const summary of page.streams) {
      const row = this.rows.get(summary.name) ?? new StreamRow(summary);
      row.show(summary);
      kept.set(summary.name, row);
    }
    const same = kept.size === this.rows.size && [...kept.keys()].every((name, k) => name === [...this.rows.keys()][k]);
    this.rows = kept;
    if (!same) this.body.replaceChildren(...[...kept.values()].map((row) => row.element));
    if (focusedName && kept.has(focusedName)) kept.get(focusedName).link.focus();
    this.#letTabReachOne();

    const nothing = page.streams.length === 0;
    const filtered = Boolean(remembered.search) || remembered.alarmed;
    this.table.hidden = nothing;
    this.glossary.hidden = nothing;
    this.tools.hidden = nothing && !filtered;
    this.empty.hidden = !nothing;
    if (nothing) this.#sayWhy(filtered);
    const first = PAGE * (remembered.afters.length - 1) + 1;
    setText(this.where, nothing ? "" : `${count(first)} to ${count(first + page.streams.length - 1)} of ${count(page.total)}`);
    this.before.disabled = remembered.afters.length === 1;
    this.after.disabled = !page.next;
    this.pages.hidden = this.before.disabled && this.after.disabled;
    const found = filtered ? `${plural(page.total, "stream")} found` : plural(page.total, "stream");
    redraw(this.count, nothing && !filtered ? null : [found, alarms], (facts) =>
      facts && [`${found} · `, make("span", { class: alarms ? "alarms" : "" }, alarms ? `▲ ${plural(alarms, "alarm")}` : "no alarms")]);
    document.title = alarms ? `(${alarms}) obil` : "obil";
  }

  async #sayWhy(filtered) {
    if (filtered) {
      const what = remembered.search ? `No stream name contains “${remembered.search}”` : "No stream has an alarm";
      this.empty.replaceChildren(make("p", {}, `${what}${remembered.search && remembered.alarmed ? " and has an alarm" : ""}.`));
    } else {
      this.empty.replaceChildren(...(await emptyState()));
    }
  }

  #filter() {
    remembered = { ...remembered, search: this.search.value.trim(), alarmed: this.alarmed.checked, afters: [null] };
    this.#move().catch(() => {});
  }

  async #turn(step) {
    const afters = step > 0 ? [...remembered.afters, this.next] : remembered.afters.slice(0, -1);
    remembered = { ...remembered, afters };
    await this.#move();
    [...this.rows.values()][0]?.link.focus();
  }

  async #move() {
    await this.refresh();
    this.onMoved?.();
  }

  // One stop for Tab, arrows within: nobody wants to press Tab 50 times.
  #letTabReachOne(chosen = null) {
    const links = [...this.rows.values()].map((row) => row.link);
    const current = chosen ?? links.find((link) => link === document.activeElement) ?? links[0];
    links.forEach((link) => link.setAttribute("tabindex", link === current ? "0" : "-1"));
  }

  #listenToKeys() {
    this.body.addEventListener("keydown", (event) => {
      const links = [...this.rows.values()].map((row) => row.link);
      const here = links.indexOf(document.activeElement);
      const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: links.length - 1, PageDown: here + 10, PageUp: here - 10 }[event.key];
      if (here < 0 || to === undefined) return;
      event.preventDefault();
      links[Math.max(0, Math.min(links.length - 1, to))].focus();
    });
    this.body.addEventListener("focusin", (event) => {
      if (event.target.matches("a")) {
        this.#letTabReachOne(event.target);
        remembered.focus = [...this.rows.values()].find((row) => row.link === event.target)?.summary.name;
      }
    });
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") {
        event.preventDefault();
        [...this.rows.values()][0]?.link.focus();
      }
    });
  }
}
