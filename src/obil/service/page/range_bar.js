// Choose the time range of all charts: by button, or by two times.
import { make, setText } from "./elements.js";
import { ALL, LASTS, between, ends, describeRange, last } from "./range.js";

export class RangeBar {
  constructor(choose) {
    const button = (text, range, label) => make("button", { type: "button", "aria-pressed": "false", "aria-label": label, onclick: () => choose(range) }, text);
    this.buttons = new Map(Object.keys(LASTS).map((name) => [name, button(name, last(name), describeRange(last(name)))]));
    this.buttons.set("all", button("all", ALL, describeRange(ALL)));
    this.text = make("p", { class: "range-text", role: "status" });
    this.clear = make("button", { type: "button", class: "quiet", hidden: true, onclick: () => choose(ALL) }, "Show all");
    this.from = make("input", { type: "datetime-local", step: "1", id: "from" });
    this.to = make("input", { type: "datetime-local", step: "1", id: "to" });
    const form = make("form", { class: "moments", onsubmit: (event) => {
      event.preventDefault();
      const [from, to] = [this.from, this.to].map((input) => Date.parse(input.value) / 1000);
      if (from < to) choose(between(from, to));
      else this.to.setCustomValidity("The end must be after the beginning."), this.to.reportValidity();
    } }, make("label", { for: "from" }, "From ", this.from), make("label", { for: "to" }, "to ", this.to), make("button", { type: "submit" }, "Show"));
    this.to.addEventListener("input", () => this.to.setCustomValidity(""));
    this.from.addEventListener("input", () => this.to.setCustomValidity(""));
    this.element = make("div", { class: "range", role: "group", "aria-label": "Time shown" },
      make("div", { class: "buttons" }, [...this.buttons.values()]), this.text, this.clear,
      make("details", { class: "between" }, make("summary", {}, "Between two times"), form));
  }

  show(range, known) {
    for (const [name, button] of this.buttons) {
      button.setAttribute("aria-pressed", String(name === (range.kind === "last" ? range.name : range.kind)));
    }
    setText(this.text, describeRange(range));
    this.clear.hidden = range.kind !== "between";
    if (this.element.contains(document.activeElement) && document.activeElement.matches("input")) return; // being typed in
    const [from, to] = ends(range);
    this.from.value = local(from ?? known?.[0]);
    this.to.value = local(to ?? known?.[1]);
  }
}

function local(seconds) {
  if (!seconds) return "";
  const date = new Date(Math.floor(seconds) * 1000);
  return new Date(date - date.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}
