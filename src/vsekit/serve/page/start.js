// The picture a query starts from, in the box and beside the captions nearest to it.

import { call, thumbnail } from "./api.js";
import { standing } from "./grid.js";
import { patiently } from "./patience.js";
import { preview, restored } from "./pictures.js";
import { address } from "./query.js";

const $ = (id) => document.getElementById(id);
const CAPTIONS = 5;
const make = (name, properties) => Object.assign(document.createElement(name), properties);

export class Start {
  /** page(asked, options): one page of answers. status: what the server says of its index, once it has. ask(change). */
  constructor({ page, status, ask }) { Object.assign(this, { page, status, ask }); }

  async show(asked) {
    const { like, picture, q } = asked, start = like || picture;
    $("chip").hidden = !start;
    $("box").placeholder = start ? (like ? "Add or - take away" : "") : "Describe a picture";
    if (this.shown === `${start} ${!q}`) return;
    this.shown = `${start} ${!q}`;
    $("like").hidden = true;
    this.abort?.abort();
    if (!start) return;
    const { signal } = (this.abort = new AbortController());
    $("chip-image").hidden = true;
    $("chip-text").textContent = like ? "Like this" : restored(picture)?.name ?? "Picture";
    try {
      const item = like
        ? await patiently(() => call(`items/${encodeURIComponent(like)}`, { signal }), signal)
        : { name: restored(picture)?.name ?? "Picture", captions: [] };
      const source = like ? thumbnail(item, 512) : await preview(picture);
      if (signal.aborted) return;
      $("chip-text").textContent = item.name;
      $("chip-image").hidden = !source;
      if (source) $("chip-image").src = source;
      const index = await this.status();
      if (q || !index?.captions || signal.aborted) return;
      const plain = { ...asked, fields: {}, where: "", rerank: 0, from: "", to: "", folder: "", favourite: "", hidden: "", near: "" };
      const { hits } = await this.page(plain, { top: CAPTIONS, kind: "caption", signal });
      if (!signal.aborted && hits.length) this.#captions(asked, hits, item, source);
    } catch { /* the search itself says what is wrong */ }
  }

  #captions(asked, hits, item, source) {
    const list = make("ol", {});
    for (const hit of hits) {
      const words = { like: "", picture: "", q: hit.text, item: "" };
      const link = make("a", { href: address({ ...asked, ...words }), textContent: hit.text, title: "Search with these words" });
      link.addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        this.ask(words);
      });
      const row = make("li", {}), score = make("span", { className: "score" });
      score.append(...standing(hit));
      row.dataset.match = hit.match ?? "";
      row.append(link, score);
      list.append(row);
    }
    const words = make("div", {});
    words.append(make("h2", { textContent: "Nearest captions" }), list);
    $("like").replaceChildren(...(source ? [make("img", { src: source, alt: item.captions[0] || item.name })] : []), words);
    $("like").hidden = false;
  }
}
