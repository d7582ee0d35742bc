// Pictures that were chosen, and what can be done with them all.

import { stackOf } from "./groups.js";

const $ = (id) => document.getElementById(id);

export class Chosen {
  /** change(): called when other pictures are chosen. mark(items, marks). */
  constructor({ change, mark }) {
    Object.assign(this, { items: new Map(), last: null, change });
    const all = () => [...this.items.values()].flatMap(stackOf);
    $("chosen-favourite").addEventListener("click", () => {
      const loved = all().every(({ meta }) => meta.favourite);
      mark(all(), { favourite: !loved });
    });
    $("chosen-hide").addEventListener("click", () => {
      const hidden = all().every(({ meta }) => meta.hidden);
      mark(all(), { hidden: !hidden });
      this.clear();
    });
    $("chosen-download").addEventListener("click", () => download(all()));
    $("chosen-copy").addEventListener("click", () => copy(all()));
    $("chosen-clear").addEventListener("click", () => this.clear());
    addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.size && !document.querySelector("dialog[open]")) this.clear();
    });
  }

  get size() { return this.items.size; }

  has(id) { return this.items.has(id); }

  clear() {
    this.items.clear();
    this.last = null;
    this.#changed();
  }

  /** Chooses a picture or lets it go; with range, all from the last one chosen to it. hits: those that are shown. */
  pick(hits, index, { range = false } = {}) {
    const hit = hits[index], from = range ? hits.findIndex(({ id }) => id === this.last) : -1;
    if (from >= 0) {
      for (const one of hits.slice(Math.min(from, index), Math.max(from, index) + 1)) this.items.set(one.id, one);
    } else if (this.has(hit.id)) this.items.delete(hit.id);
    else this.items.set(hit.id, hit);
    this.last = hit.id;
    this.#changed();
  }

  all(hits) {
    for (const hit of hits) this.items.set(hit.id, hit);
    this.#changed();
  }

  #changed() {
    $("chosen").hidden = !this.size;
    document.body.classList.toggle("choosing", this.size > 0);
    this.refresh();
    this.change();
  }

  /** Shows anew what is known of them. */
  refresh() {
    const all = [...this.items.values()].flatMap(stackOf);
    $("chosen-count").textContent = `${all.length.toLocaleString()} chosen`;
    $("chosen-favourite").setAttribute("aria-pressed", this.size > 0 && all.every(({ meta }) => meta.favourite));
    $("chosen-hide").querySelector(".label").textContent = this.size && all.every(({ meta }) => meta.hidden) ? "Show again" : "Hide";
  }
}

/** One file as it is; many as an archive, which the browser writes to disk while it comes. */
export function download(items) {
  if (items.length === 1) {
    const link = Object.assign(document.createElement("a"), { href: `/api/items/${encodeURIComponent(items[0].id)}/file`, download: "" });
    link.click();
    return;
  }
  const form = Object.assign(document.createElement("form"), { method: "post", action: "/api/archive", hidden: true });
  form.append(Object.assign(document.createElement("input"), { name: "ids", value: items.map(({ id }) => id).join(",") }));
  document.body.append(form);
  form.submit();
  form.remove();
}

/** Folder and name of each, a line each. */
async function copy(items) {
  const text = items.map(({ meta, name }) => (meta.folder ? `${meta.folder}/${name}` : name)).join("\n");
  try {
    await navigator.clipboard.writeText(text);
  } catch { // not allowed here, or not a secure place
    const box = Object.assign(document.createElement("textarea"), { value: text, className: "visually-hidden" });
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
  dispatchEvent(new CustomEvent("said", { detail: { text: items.length === 1 ? "Path copied." : `${items.length.toLocaleString()} paths copied.` } }));
}
