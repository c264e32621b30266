// Elements without markup: names and labels of any content are text.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** `h("p", { class: "x" }, "text", otherElement)` */
export function h(name, attributes, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for pictures. */
export function s(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** A table whose cells are texts or elements; `right` names the columns of figures. */
export function table(caption, headings, rows, right = []) {
  const side = (column) => (right.includes(column) ? "right" : null);
  const head = headings.map((words, column) => h("th", { scope: "col", class: side(column) }, words));
  const body = rows.map((row) => h("tr", {}, row.map((cell, column) => h("td", { class: side(column) }, clipped(cell)))));
  return h("div", { class: "scroll" },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

const LONGEST = 80;

/** A text that is too long for a row is cut there, and whole under the pointer or once it is chosen. */
function clipped(cell) {
  if (typeof cell !== "string" || cell.length <= LONGEST) return cell;
  const turn = () => text.setAttribute("aria-expanded", text.classList.toggle("whole"));
  const press = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    turn();
  };
  const text = h("span", { class: "clip", role: "button", tabindex: "0", "aria-expanded": "false", title: cell, onclick: turn, onkeydown: press }, cell);
  return text;
}

export function panel(title, ...children) {
  return h("section", { class: "panel", "aria-label": title }, h("h2", {}, title), children);
}

export function chip(words, kind) {
  return h("span", { class: `chip ${kind}` }, words);
}

/** Says what a view shows when there is nothing to show. */
export function nothing(words) {
  return h("p", { class: "nothing" }, words);
}
