// Show all streams at a glance, those that need somebody first: searched, filtered and a page at a time.
import { ask } from "./ask.js";
import { make, redraw, setText } from "./elements.js";
import { emptyState } from "./empty_state.js";
import { MEANINGS, whatIs } from "./meanings.js";
import { count, plural } from "./numbers.js";
import { URGENT, tellOfAlarms } from "./status.js";
import { StreamRow } from "./stream_row.js";

const PAGE = 50;
export const MOST_COMPARED = 4;
const COLUMNS = [
  ["Status", "status"], ["Prevalence now", "prior"], ["Shift", "shift"], ["Alerts", "alerts"],
  ["Rows", "rows"], ["Labels", "labels"], ["Last row", "last_row"],
];
let remembered = { search: "", alarmed: false, afters: [null], focus: null, compared: [] }; // to come back to where one was

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
    // alarms of all pages come first; they are few
    const [page, alarms] = await Promise.all([ask(`/v1/streams?${query}`), ask(`/v1/streams?alarmed=true&limit=${PAGE}`)]);
    if (query === this.#query() && !this.closed) this.#show(page, alarms); // else another page is wanted by now
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
    this.#order();
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
    const group = (title) => {
      const head = make("tr", { role: "row", class: "group" }, make("th", { role: "rowheader", scope: "rowgroup", colspan: String(COLUMNS.length + 1) }, title));
      return { head, body: make("tbody", { role: "rowgroup" }) };
    };
    this.groups = [group("Need somebody"), group("All others")];
    this.table = make("table", { role: "table", class: "streams", "aria-label": "Streams", hidden: true },
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" },
        make("th", { role: "columnheader", scope: "col" }, "Stream"),
        COLUMNS.map(([label, quantity]) => make("th", { role: "columnheader", scope: "col", class: quantity }, `${label} `, whatIs(quantity))))),
      this.groups.map(({ body }) => body));
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
    this.ageing = setInterval(() => {
      this.rows.forEach((row) => row.showAge());
      this.#order();
    }, 5000);
    this.counting = setInterval(() => this.refresh().catch(() => {}), 15_000); // alarms on other pages, streams erased
    this.compare = make("a", { class: "compare" });
    this.#showCompared();
    this.tools = make("form", { role: "search", class: "tools", onsubmit: (event) => event.preventDefault() },
      make("label", { for: "search" }, make("span", {}, "Search"), this.search),
      make("label", { for: "alarmed", class: "check" }, this.alarmed, make("span", {}, "Only alarms")), this.compare);
    return make("div", { class: "streams-view" },
      make("div", { class: "heading" }, make("h1", { tabindex: "-1" }, "Streams"), this.count), this.tools, this.table, this.empty, this.pages, this.glossary);
  }

  #show(page, alarms) {
    const first = remembered.afters.length === 1 && !remembered.search && !remembered.alarmed;
    const newest = new Map();
    for (const summary of [...(first ? alarms.streams : []), ...page.streams]) {
      if (!(newest.get(summary.name)?.seq > summary.seq)) newest.set(summary.name, summary);
    }
    tellOfAlarms([...newest.values()]);
    this.total = page.total;
    this.next = page.next;
    const kept = new Map();
    for (const summary of newest.values()) {
      const row = this.rows.get(summary.name) ?? new StreamRow(summary, remembered.compared.includes(summary.name), (...chosen) => this.#choose(...chosen));
      row.show(summary);
      kept.set(summary.name, row);
    }
    this.rows = kept;
    this.#order();
    this.#letTabReachOne();

    const nothing = page.streams.length === 0;
    const filtered = Boolean(remembered.search) || remembered.alarmed;
    this.table.hidden = nothing;
    this.glossary.hidden = nothing;
    this.tools.hidden = nothing && !filtered;
    this.empty.hidden = !nothing;
    if (nothing) this.#sayWhy(filtered);
    const from = PAGE * (remembered.afters.length - 1) + 1;
    setText(this.where, nothing ? "" : `${count(from)} to ${count(from + page.streams.length - 1)} of ${count(page.total)}`);
    this.before.disabled = remembered.afters.length === 1;
    this.after.disabled = !page.next;
    this.pages.hidden = this.before.disabled && this.after.disabled;
    const found = filtered ? `${plural(page.total, "stream")} found` : plural(page.total, "stream");
    redraw(this.count, nothing && !filtered ? null : [found, alarms.total], (facts) =>
      facts && [`${found} · `, make("span", { class: alarms.total ? "alarms" : "" }, alarms.total ? `▲ ${plural(alarms.total, "alarm")}` : "no alarms")]);
    document.title = alarms.total ? `(${alarms.total}) obil` : "obil";
  }

  async #sayWhy(filtered) {
    if (filtered) {
      const what = remembered.search ? `No stream name contains “${remembered.search}”` : "No stream has an alarm";
      this.empty.replaceChildren(make("p", {}, `${what}${remembered.search && remembered.alarmed ? " and has an alarm" : ""}.`));
    } else {
      this.empty.replaceChildren(...(await emptyState()));
    }
  }

  // Those that need somebody first, by urgency and then by name; a row is moved only when its place has changed.
  #order() {
    const compare = (a, b) => a.rank - b.rank || (a.summary.name < b.summary.name ? -1 : 1);
    const rows = [...this.rows.values()].sort(compare);
    this.rows = new Map(rows.map((row) => [row.summary.name, row]));
    const parts = [rows.filter(({ rank }) => rank <= URGENT), rows.filter(({ rank }) => rank > URGENT)];
    const focused = document.activeElement;
    this.groups.forEach(({ head, body }, k) => {
      const wanted = parts[k].length && parts[0].length ? [head] : []; // where nobody is needed there is one group
      wanted.push(...parts[k].map((row) => row.element));
      if (wanted.length !== body.children.length || wanted.some((one, i) => one !== body.children[i])) body.replaceChildren(...wanted);
    });
    if (focused !== document.activeElement && this.element.contains(focused)) focused.focus();
  }

  #choose(name, chosen) {
    const others = remembered.compared.filter((one) => one !== name);
    remembered = { ...remembered, compared: chosen ? [...others, name].slice(-MOST_COMPARED) : others };
    for (const row of this.rows.values()) row.chosen.checked = remembered.compared.includes(row.summary.name);
    this.#showCompared();
  }

  #showCompared() {
    const { compared } = remembered;
    this.compare.hidden = compared.length < 2;
    this.compare.href = `#/compare?streams=${compared.map(encodeURIComponent).join(",")}`;
    setText(this.compare, `Compare ${compared.length} streams`);
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
    const rows = [...this.rows.values()];
    const current = chosen ?? rows.find(({ link }) => link === document.activeElement)?.link ?? rows[0]?.link;
    for (const { link, chosen: box } of rows) [link, box].forEach((one) => one.setAttribute("tabindex", link === current ? "0" : "-1"));
  }

  #listenToKeys() {
    this.table.addEventListener("keydown", (event) => {
      const links = [...this.rows.values()].map((row) => row.link);
      const here = links.indexOf(document.activeElement);
      if (event.key === "c" && here >= 0 && !event.ctrlKey && !event.metaKey) {
        [...this.rows.values()][here].chosen.click();
        return;
      }
      const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: links.length - 1, PageDown: here + 10, PageUp: here - 10 }[event.key];
      if (here < 0 || to === undefined) return;
      event.preventDefault();
      links[Math.max(0, Math.min(links.length - 1, to))].focus();
    });
    this.table.addEventListener("focusin", (event) => {
      if (event.target.matches("tbody a")) {
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
