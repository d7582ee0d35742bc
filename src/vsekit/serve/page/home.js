// What stands above the pictures when nothing is asked for: how many there are, what can be asked, and folders.

import { call } from "./api.js";
import { patiently } from "./patience.js";
import { filterCount } from "./query.js";
import { element, inside, top } from "./shelves.js";

const $ = (id) => document.getElementById(id);
const FOLDERS = 40; // chips at most

export class Home {
  /** ask(change): asks for something else. link(change): the address of that. */
  constructor({ ask, link }) {
    Object.assign(this, { ask, link, tree: null });
    this.examples = null;
  }

  /** The index has changed; there may be other examples now. */
  forget() { this.examples = null; }

  hide() { $("home").hidden = true; }

  /** index: what /api/status said. */
  show(asked, index) {
    $("home").hidden = false;
    $("home-title").hidden = $("home-examples").hidden = filterCount(asked) > 0;
    $("home-title").textContent = `Search ${index.pictures.toLocaleString()} picture${index.pictures === 1 ? "" : "s"} in your own words`;
    this.asked = asked;
    this.#folders();
    if (!filterCount(asked)) this.#examples();
  }

  /** The folders of the index, see `shelves.tree`. */
  shelve(tree) {
    this.tree = tree;
    if (!$("home").hidden) this.#folders();
  }

  async #examples() {
    // Asked for once; an index that is being made has others later.
    this.examples ??= patiently(() => call("examples")).catch(() => []);
    const found = await this.examples;
    $("home-examples").replaceChildren(...found.map((q) => this.#chip(q, { q })));
  }

  #folders() {
    if (!this.tree) return;
    const { folder } = this.asked, base = top(this.tree);
    let at = base;
    const path = [];
    if (folder) {
      at = this.tree;
      for (const name of folder.split("/")) {
        at = at?.inside.get(name);
        if (at) path.push(at);
      }
    }
    const above = path.filter((one) => one.path.length > base.path.length || one === at);
    const trail = folder ? [this.#link("All pictures", { folder: "" }), ...above.flatMap((one) => [" › ",
      one === at ? element("strong", { textContent: one.name }) : this.#link(one.name, { folder: one.path })])] : [];
    $("home-trail").replaceChildren(...trail);
    $("home-trail").hidden = !trail.length;
    const shown = at ? inside(at).slice(0, FOLDERS) : [];
    $("home-folders").replaceChildren(...shown.map((one) => this.#chip(one.name, { folder: one.path }, one.count)));
    $("home-folders").hidden = !shown.length;
  }

  #chip(text, change, count = null) {
    const made = this.#link("", change);
    made.className = "tag";
    if (count !== null) made.innerHTML = '<svg class="icon" aria-hidden="true"><use href="#i-folder"/></svg>';
    made.append(element("span", { textContent: text }));
    if (count !== null) made.append(element("small", { textContent: count.toLocaleString() }));
    return made;
  }

  #link(text, change) {
    const made = element("a", { href: this.link(change), textContent: text });
    made.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.ask(change);
    });
    return made;
  }
}
