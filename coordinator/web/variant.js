// One variant of the sandbox: the text that `reweave sim history --with` takes, with help to write it.

import { h } from "./dom.js";

/** Files that were opened: those that say of what kind they are are fabrics, all others variants that name these. */
export function opened(texts) {
  const isVariant = ([, text]) => !/^\s*kind\s*=/m.test(text);
  const files = Object.fromEntries(texts.filter((one) => !isVariant(one)));
  return texts.filter(isVariant).map(([name, variant]) => ({ name: name.replace(/\.toml$/, ""), variant, files }));
}

export function variantCard(known, variant, { changed, removed, promoted }) {
  const name = h("input", { "aria-label": "Name of the variant", oninput: () => { variant.name = name.value; changed(); } });
  const text = h("textarea", { rows: 5, spellcheck: "false", "aria-label": `Text of ${variant.name}`, oninput: () => write(text.value) });
  const plan = h("div", {});
  name.value = variant.name;
  text.value = variant.variant;

  function write(words) {
    variant.variant = words;
    text.value = words;
    changed();
  }

  const links = choice("Take out a link", known.fabric.links.map((link) => link.name), (link) => write(without(text.value, link)));
  const ways = choice("Routing", ["recorded", "even", "hashed"], (kind) => write(withKey(text.value, "routing", kind)));
  const hosts = known.fabric.nodes.filter((node) => node.role !== "switch").map((node) => node.name);
  let first = null;
  const places = choice("Swap two hosts", hosts, (host) => {
    if (first && first !== host) write(swapped(text.value, first, host));
    places.firstElementChild.textContent = first ? "Swap two hosts" : `${host} and…`;
    first = first ? null : host;
  });
  const mayChange = known.me.role === "operator";
  return h("article", { class: "card" },
    h("div", { class: "bar" }, name, links, places, ways),
    text, h("p", { class: "said" }, Object.keys(variant.files).length ? `Fabrics: ${Object.keys(variant.files).join(", ")}` : "fabric.toml is the cluster's own fabric, or the one above."),
    h("div", { class: "bar" },
      h("button", { type: "button", onclick: () => save(`${variant.name.replace(/[^\w.-]+/g, "-")}.toml`, variant.variant) }, "Save as a file"),
      h("button", { type: "button", disabled: !mayChange, onclick: () => promoted(variant, plan) }, "Make it a plan"),
      h("button", { type: "button", onclick: () => removed(variant) }, "Remove")), plan);
}

/** A list that does something with what is chosen, and is ready again. */
function choice(words, options, chosen) {
  const list = h("select", { "aria-label": words, onchange: () => { const value = list.value; list.selectedIndex = 0; if (value) chosen(value); } },
    h("option", { value: "" }, words), options.map((option) => h("option", { value: option }, option)));
  return list;
}

const quoted = (name) => JSON.stringify(name);

/** Keys stand before tables: right behind the first line. */
function withKey(text, key, value) {
  const line = `${key} = ${Array.isArray(value) ? `[${value.map(quoted).join(", ")}]` : quoted(value)}`;
  const there = new RegExp(`^${key}\\s*=.*$`, "m");
  if (there.test(text)) return text.replace(there, () => line);
  const first = /^recorded\s*=.*$/m;
  return first.test(text) ? text.replace(first, (recorded) => `${recorded}\n${line}`) : `${line}\n${text}`;
}

function without(text, link) {
  const there = /^without\s*=\s*\[(.*)\]\s*$/m.exec(text);
  const names = (there?.[1] ?? "").split(",").map((name) => name.trim().replace(/^"|"$/g, "")).filter(Boolean);
  return withKey(text, "without", [...new Set([...names, link])]);
}

function swapped(text, a, b) {
  const lines = `${quoted(a)} = ${quoted(b)}\n${quoted(b)} = ${quoted(a)}\n`;
  if (/^\[hosts\]\s*$/m.test(text)) return text.replace(/^\[hosts\]\s*$/m, (head) => `${head.trim()}\n${lines}`);
  return `${text.trimEnd()}\n\n[hosts]\n${lines}`;
}

export function save(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
