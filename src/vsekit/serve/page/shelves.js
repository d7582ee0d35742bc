// Where pictures stand: years and their months, folders in folders, places. Each is made of buttons that choose one.

import { call, thumbnail } from "./api.js";
import { monthName } from "./groups.js";
import { patiently } from "./patience.js";
import { filter } from "./query.js";

export const element = (name, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};

const row = (text, count, pressed, choose) => {
  const made = element("button", { type: "button", className: "shelf" }, element("span", { textContent: text }),
    element("small", { textContent: count.toLocaleString() }));
  made.setAttribute("aria-pressed", pressed);
  made.addEventListener("click", () => choose(!pressed));
  return made;
};

/** Months and folders with how many pictures they have, among what passes all other filters. shown(months, tree). */
export class Counts {
  constructor(shown) { this.shown = shown; }

  /** They have changed. */
  forget() { this.of = null; }

  /** fields: of the index. */
  async show(asked, fields) {
    const others = filter({ ...asked, from: "", to: "", folder: "" }, fields);
    if (this.of === others) return;
    this.of = others;
    try {
      const found = await patiently(() => call(others ? `facets?${new URLSearchParams({ filter: others })}` : "facets"));
      if (this.of === others) this.shown(found.months, tree(found.folders));
    } catch { /* a filter that can't be read is told elsewhere */ }
  }
}

/** months: [["2021-07", 12], …], the newest first. choose({ from, to }). */
export function years(months, { from, to }, choose) {
  const by = new Map();
  for (const [month, count] of months) {
    const year = month.slice(0, 4);
    if (/^\d{4}$/.test(year)) by.set(year, [...(by.get(year) ?? []), [month, count]]);
  }
  const is = (text) => from === text && to === text;
  const span = (text) => (on) => choose(on ? { from: text, to: text } : { from: "", to: "" });
  return [...by].map(([year, own]) => {
    const total = own.reduce((sum, [, count]) => sum + count, 0);
    const open = from.startsWith(year) && to.startsWith(year);
    const inside = own.map(([month, count]) => row(monthName(month).replace(year, "").trim(), count, is(month), span(month)));
    return branch(row(year, total, is(year), span(year)), inside, open, `Months of ${year}`);
  });
}

/** folders: [["album/2019", 12], …] → { name, path, count (with all below), inside }; the ones that hold all are left out. */
export function tree(folders) {
  const root = { name: "", path: "", count: 0, inside: new Map() };
  for (const [path, count] of folders) {
    let at = root;
    at.count += count;
    for (const name of path.split("/")) {
      if (!at.inside.has(name)) at.inside.set(name, { name, path: at.path ? `${at.path}/${name}` : name, count: 0, inside: new Map() });
      at = at.inside.get(name);
      at.count += count;
    }
    at.own = (at.own ?? 0) + count;
  }
  return root;
}

/** The first folder that is not all there is: what people would call the top. */
export function top(root) {
  let at = root;
  while (at.inside.size === 1 && !at.own) [at] = at.inside.values();
  return at;
}

const names = new Intl.Collator(undefined, { numeric: true });
export const inside = (folder) => [...folder.inside.values()].sort((a, b) => names.compare(a.name, b.name));

/** choose({ folder }). */
export function folders(root, chosen, choose) {
  const branches = (folder) => inside(folder).map((one) => {
    const shown = row(one.name, one.count, chosen === one.path, (on) => choose({ folder: on ? one.path : "" }));
    const open = chosen === one.path || chosen.startsWith(`${one.path}/`);
    return one.inside.size ? branch(shown, () => branches(one), open, `Folders in ${one.name}`) : element("div", { className: "branch leaf" }, shown);
  });
  return branches(top(root));
}

const opened = new Set(); // by people; counts that come anew don't close what they opened

/** A row that opens onto others. content: those, or a function that makes them when it is opened first. */
function branch(head, content, open, label) {
  const toggle = element("button", { type: "button", className: "twist", ariaLabel: label });
  toggle.innerHTML = '<svg class="icon" aria-hidden="true"><use href="#i-next"/></svg>';
  const below = element("div", { className: "below", hidden: true });
  const set = (on) => {
    if (on && !below.childElementCount) below.append(...(typeof content === "function" ? content() : content));
    below.hidden = !on;
    toggle.setAttribute("aria-expanded", on);
  };
  toggle.addEventListener("click", () => {
    if (below.hidden) opened.add(label); else opened.delete(label);
    set(below.hidden);
  });
  set(open || opened.has(label));
  return element("div", { className: "branch" }, toggle, head, below);
}

export const degrees = (lat, lon) =>
  `${Math.abs(lat).toFixed(2)}° ${lat < 0 ? "S" : "N"}, ${Math.abs(lon).toFixed(2)}° ${lon < 0 ? "W" : "E"}`;

/** Fills `box` with the places of most pictures. choose({ near }). */
export async function places(box, near, km, choose) {
  const found = await call("places");
  box.replaceChildren(...found.map(({ lat, lon, count, item }) => {
    const value = `${lat},${lon},${km()}`, pressed = near().startsWith(`${lat},${lon},`);
    const image = element("img", { src: thumbnail(item, 128) ?? "", alt: "", loading: "lazy" });
    const made = row(degrees(lat, lon), count, pressed, (on) => choose({ near: on ? value : "" }));
    made.prepend(image);
    return made;
  }));
  if (!found.length) box.textContent = "No picture says where it was taken.";
}
