// Pictures in justified rows. Only those near the window are in the document, so tens of thousands scroll smoothly.

import { thumbnail } from "./api.js";
import { justify, rowAt, rowOf, shape } from "./layout.js";

const HEAD = 56, LINE = 44; // pixels above a month, and above what is less likely
const NARROW = 140; // pixels that the longest name of a month takes
const CELL = `
  <a class="open" tabindex="-1"><img decoding="async">
    <span class="caption"><span class="name" aria-hidden="true"></span><span class="score"></span></span></a>
  <button type="button" class="pick" role="checkbox" tabindex="-1"><svg class="icon" aria-hidden="true"><use href="#i-check"/></svg></button>
  <a class="more" tabindex="-1" title="More like this (M)"><svg class="icon" aria-hidden="true"><use href="#i-like"/></svg></a>
  <svg class="icon heart" aria-hidden="true"><use href="#i-heart"/></svg>
  <span class="said" hidden></span>
  <span class="stack" aria-hidden="true"><svg class="icon"><use href="#i-stack"/></svg><span></span></span>`;

export class Grid {
  /**
   * list: the <ul>. on.open(index), on.like(item), on.end(): more pictures are needed, on.leave(): upwards out of it,
   * on.pick(index, { range }): chosen or not, on.key(key, item): a key that is not its own.
   * link.open(item), link.like(item): the addresses of the same. chosen.has(id), chosen.size.
   */
  constructor(list, { on, link, chosen }) {
    Object.assign(this, { list, on, link, chosen, hits: [], ratios: [], rows: [], active: 0, more: false });
    Object.assign(this, { cells: new Map(), heads: new Map(), heights: new Map(), titles: new Map() });
    list.addEventListener("keydown", (event) => this.#key(event));
    list.addEventListener("click", (event) => this.#click(event));
    list.addEventListener("contextmenu", (event) => this.#held(event));
    list.addEventListener("focusin", ({ target }) => this.#activate(target.closest("li").index));
    addEventListener("scroll", () => this.#later(), { passive: true });
    new ResizeObserver(() => this.#resize()).observe(list);
    // What stands above may come or go without a scroll.
    new ResizeObserver(() => this.#later()).observe(document.body);
  }

  get length() { return this.hits.length; }

  /** Shows other answers. hits may have a `head`: { title, short, line } above them. fresh: make every picture anew (after the server
   * was gone, broken ones would stay). */
  show(hits, more, { fresh = false } = {}) {
    if (fresh) for (const id of this.cells.keys()) this.#remove(id);
    this.hits = hits;
    this.ratios = hits.map(shape);
    Object.assign(this, { rows: [], active: 0, more });
    this.heights.clear();
    for (const head of this.heads.values()) head.remove();
    this.heads.clear();
    this.#measure(0);
    // What is on the screen first; what is near it must not make it wait.
    this.#layout(0);
    requestAnimationFrame(() => this.#later()); // in the frame after the one that shows them
  }

  append(hits, more) {
    // An index that grew meanwhile may answer with a picture that is here already.
    const known = new Set(this.hits.map(({ id }) => id)), before = this.length;
    const others = hits.filter(({ id }) => !known.has(id));
    this.hits.push(...others);
    this.ratios.push(...others.map(shape));
    this.more = more;
    this.#measure(before);
    this.#layout();
  }

  /** Shows anew what is known of pictures: marks, stacks, what is chosen. */
  refresh() {
    for (const cell of this.cells.values()) this.#state(cell);
    this.list.classList.toggle("choosing", Boolean(this.chosen.size));
  }

  focus(index) {
    index = Math.max(0, Math.min(index, this.length - 1));
    if (!this.length) return;
    const row = this.rows[rowOf(this.rows, index)];
    const above = this.list.getBoundingClientRect().top + row.top, header = this.#header() + row.room;
    if (above < header) scrollBy(0, above - header);
    else if (above + row.height + 12 > innerHeight) scrollBy(0, above + row.height + 12 - innerHeight);
    this.#activate(index);
    this.#render();
    this.cells.get(this.hits[index].id).querySelector(".open").focus({ preventScroll: true });
  }

  #header() { return document.querySelector("header").offsetHeight + 12; }

  #measure(from) {
    for (let i = from; i < this.length; i++) if (this.hits[i].head) this.heights.set(i, this.hits[i].head.line ? { room: LINE, alone: true } : { room: HEAD });
  }

  #resize() {
    const width = this.list.clientWidth;
    if (width === this.width) return;
    const anchor = this.rows.find((row) => this.list.getBoundingClientRect().top + row.top + row.height > this.#header());
    const keep = anchor && this.list.getBoundingClientRect().top < 0 ? anchor.start : null;
    this.rows = [];
    this.#layout();
    if (keep !== null) scrollBy(0, this.list.getBoundingClientRect().top + this.rows[rowOf(this.rows, keep)].top - this.#header());
  }

  #layout(margin) {
    this.width = this.list.clientWidth;
    this.gap = this.width < 600 ? 4 : 8;
    const target = this.width < 480 ? 130 : this.width < 900 ? 180 : this.width < 1700 ? 220 : 260;
    justify(this.ratios, this.width, target, this.gap, this.rows, this.heights);
    const last = this.rows.at(-1);
    this.list.style.height = last ? `${last.top + last.height}px` : "0";
    this.#render(margin);
  }

  #later() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.#render();
    });
  }

  /** margin: how far beyond the window, in pixels. */
  #render(margin = innerHeight) {
    const top = -this.list.getBoundingClientRect().top;
    const first = rowAt(this.rows, top - margin), shown = [];
    for (let r = first; r < this.rows.length && this.rows[r].top < top + innerHeight + margin; r++) shown.push(this.rows[r]);
    const start = shown[0]?.start ?? 0, end = shown.at(-1)?.end ?? 0;
    const focused = this.list.contains(document.activeElement);
    // One picture is in the tab order: the one last used, or the first on the screen when that one is far away.
    if (!focused && (this.active < start || this.active >= end)) this.active = this.rows[rowAt(this.rows, top)]?.start ?? 0;

    const wanted = new Map();
    for (const row of shown) this.#place(row, wanted);
    const pinned = this.hits[this.active];
    if (focused && pinned && !wanted.has(pinned.id)) this.#place(this.rows[rowOf(this.rows, this.active)], wanted, this.active);
    for (const id of this.cells.keys()) if (!wanted.has(id)) this.#remove(id);
    this.#headings(shown);
    let before = this.list.firstElementChild;
    for (const [id, cell] of wanted) {
      this.cells.set(id, cell);
      if (this.heads.has(cell.index)) before = this.#put(this.heads.get(cell.index), before);
      before = this.#put(cell, before);
    }
    if (this.more && top + 3 * innerHeight > (this.rows.at(-1)?.top ?? 0)) this.on.end();
  }

  #put(element, before) {
    if (element === before) return before.nextElementSibling;
    this.list.insertBefore(element, before);
    return before;
  }

  #headings(rows) {
    const wanted = new Map();
    for (const row of rows) {
      let left = 0, last = null;
      for (let i = row.start; i < row.end; i++) {
        if (this.hits[i].head) {
          if (last) last.right = left - this.gap;
          wanted.set(i, (last = { row, left, right: this.width }));
        }
        left += this.ratios[i] * row.height + this.gap;
      }
    }
    for (const [i, head] of this.heads) if (!wanted.has(i)) {
      head.remove();
      this.heads.delete(i);
    }
    for (const [i, { row, left, right }] of wanted) {
      const { title, short = title, line } = this.hits[i].head;
      if (!this.heads.has(i)) {
        const head = document.createElement("li");
        head.className = line ? "head line" : "head";
        head.append(document.createElement("h2"));
        this.heads.set(i, head);
      }
      this.heads.get(i).firstChild.textContent = right - left < NARROW ? short : title;
      Object.assign(this.heads.get(i).style, {
        transform: `translate(${Math.round(left)}px, ${Math.round(row.top - row.room)}px)`, height: `${row.room}px`, width: `${Math.round(right - left)}px`,
      });
    }
  }

  #place(row, wanted, only = null) {
    let left = 0;
    for (let i = row.start; i < row.end; i++) {
      const right = Math.min(left + this.ratios[i] * row.height, this.width);
      if (only === null || only === i) {
        const hit = this.hits[i], pixels = Math.max(right - left, row.height) * devicePixelRatio;
        const cell = this.cells.get(hit.id) ?? this.#cell(hit, pixels);
        this.#update(cell, hit, i);
        Object.assign(cell.style, {
          transform: `translate(${Math.round(left)}px, ${Math.round(row.top)}px)`,
          width: `${Math.round(right) - Math.round(left)}px`, height: `${Math.round(row.height)}px`,
        });
        wanted.set(hit.id, cell);
      }
      left = right + this.gap;
    }
  }

  #cell(hit, pixels) {
    const cell = document.createElement("li");
    cell.innerHTML = CELL;
    const image = cell.querySelector("img");
    image.alt = hit.captions[0] || hit.text || hit.name;
    cell.querySelector(".name").textContent = hit.name;
    cell.querySelector(".more").setAttribute("aria-label", `More like ${image.alt}`);
    cell.querySelector(".pick").setAttribute("aria-label", `Choose ${image.alt}`);
    const source = thumbnail(hit, pixels * 0.9);
    image.addEventListener("error", () => cell.classList.add("broken"), { once: true });
    if (source) image.src = source; else cell.classList.add("broken");
    return cell;
  }

  #remove(id) {
    const cell = this.cells.get(id), image = cell.querySelector("img");
    // What is scrolled past before it came need not come.
    if (!image.complete) image.removeAttribute("src");
    cell.remove();
    this.cells.delete(id);
  }

  #update(cell, hit, index) {
    const active = index === this.active;
    for (const control of cell.querySelectorAll("a, button")) control.tabIndex = active ? 0 : -1;
    cell.setAttribute("aria-posinset", index + 1);
    cell.setAttribute("aria-setsize", this.more ? -1 : this.length);
    if (cell.hit === hit && cell.index === index) return;
    Object.assign(cell, { hit, index });
    cell.dataset.match = hit.match ?? "";
    cell.querySelector(".open").href = this.link.open(hit);
    cell.querySelector(".more").href = this.link.like(hit);
    cell.querySelector(".score").replaceChildren(...standing(hit));
    const why = cell.querySelector(".said");
    why.hidden = !(why.textContent = said(hit));
    // The best comes first in every way.
    cell.querySelector("img").fetchPriority = index < 6 ? "high" : "auto";
    this.#state(cell);
  }

  #state(cell) {
    const { hit } = cell, chosen = this.chosen.has(hit.id), others = hit.others?.length ?? 0;
    cell.classList.toggle("chosen", chosen);
    cell.querySelector(".pick").setAttribute("aria-checked", chosen);
    cell.classList.toggle("favourite", Boolean(hit.meta.favourite));
    cell.querySelector(".stack").hidden = !others;
    cell.querySelector(".stack span").textContent = others + 1;
    const said = [others && `, and ${others} like it`, hit.meta.favourite && ", favourite"].filter(Boolean).join("");
    cell.querySelector("img").alt = (hit.captions[0] || hit.text || hit.name) + said;
  }

  #activate(index) {
    const old = this.cells.get(this.hits[this.active]?.id);
    this.active = index;
    for (const cell of [old, this.cells.get(this.hits[index]?.id)])
      for (const control of cell?.querySelectorAll("a, button") ?? []) control.tabIndex = cell.index === index ? 0 : -1;
  }

  #click(event) {
    const control = event.target.closest("a, button");
    if (!control || event.ctrlKey || event.metaKey || event.button) return;
    const { index, hit } = control.closest("li"), picking = control.className === "pick" || (this.chosen.size && control.className === "open");
    if (event.shiftKey && !picking) return;
    event.preventDefault();
    if (picking) this.on.pick(index, { range: event.shiftKey });
    else if (control.className === "more") this.on.like(hit);
    else this.on.open(index);
  }

  /** A finger that stays chooses. */
  #held(event) {
    if (event.pointerType !== "touch" || !event.target.closest(".open")) return;
    event.preventDefault();
    this.on.pick(event.target.closest("li").index, { range: false });
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = rowOf(this.rows, this.active), key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const steps = {
      ArrowLeft: () => this.focus(this.active - 1),
      ArrowRight: () => this.focus(this.active + 1),
      ArrowUp: () => (row ? this.focus(this.#beneath(row - 1)) : this.on.leave()),
      ArrowDown: () => this.focus(row + 1 < this.rows.length ? this.#beneath(row + 1) : this.length - 1),
      Home: () => this.focus(0),
      End: () => this.focus(this.length - 1),
      m: () => this.on.like(this.hits[this.active]),
      x: () => this.on.pick(this.active, { range: event.shiftKey }),
    };
    if (!steps[key] && !this.on.key(key, this.hits[this.active])) return;
    event.preventDefault();
    steps[key]?.();
  }

  /** The picture of a row whose middle is nearest to the active one's. */
  #beneath(r) {
    const middles = (row) => {
      let left = 0;
      return this.ratios.slice(row.start, row.end).map((ratio) => (left += ratio * row.height + this.gap) - (ratio * row.height) / 2);
    };
    const here = this.rows[rowOf(this.rows, this.active)], x = middles(here)[this.active - here.start];
    const distances = middles(this.rows[r]).map((middle) => Math.abs(middle - x));
    return this.rows[r].start + distances.indexOf(Math.min(...distances));
  }
}

/** The words a hit was found by: "file name: invoice, 4711 · text in the picture: acme". */
export const said = (hit) => (hit.said ?? []).map(({ where, words }) => `${where}: ${words.join(", ")}`).join(" · ");

/** How much of the bar: a fifth for each tenth part of unrelated pictures that score as high. 0.9 is as far from 0.99 as that
 * from 0.999, and even the first of the unrelated have 0.99. */
const share = (standing) => Math.min(1, -Math.log10(Math.max(1 - standing, 1e-5)) / 5);

/** A score, quietly: what it means in a word, a bar for how it stands against known negatives, and the number. */
export function standing({ score, standing, match }) {
  const parts = [];
  const add = (name, text = "") => {
    const part = document.createElement("span");
    part.className = name;
    part.textContent = text;
    parts.push(part);
    return part;
  };
  if (match) add("match", match === "none" ? "no match" : `${match} match`);
  if (standing !== null && standing !== undefined) {
    const bar = add("bar");
    bar.append(document.createElement("i"));
    bar.firstChild.style.width = `${Math.round(share(standing) * 100)}%`;
  }
  if (score !== undefined) add("number", score.toFixed(3));
  return parts;
}
