// Build elements whose text is never read as markup.

export function make(tag, attributes = {}, ...children) {
  return dress(document.createElement(tag), attributes, children);
}

export function makeSvg(tag, attributes = {}, ...children) {
  return dress(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text; // what did not change is not read out again
}

const shown = new WeakMap();

// Draw a part afresh only when what it shows has changed, so that focus and open details stay.
export function redraw(element, facts, draw) {
  const text = JSON.stringify(facts) ?? "";
  if (shown.get(element) === text) return;
  shown.set(element, text);
  element.replaceChildren(...[draw(facts)].flat(Infinity).filter(Boolean));
}
