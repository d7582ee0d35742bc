// Pictures in justified rows. Only those near the window are in the document, so tens of thousands scroll smoothly.

import { thumbnail } from "./api.js";

/**
 * Rows of one height each that fill the width and keep every picture's shape.
 * ratios: width / height. Appends to `rows`, from the first picture that is in none; the last row may be open (not full).
 */
export function justify(ratios, width, target, gap, rows = []) {
  if (rows.at(-1)?.open) rows.pop();
  let start = rows.at(-1)?.end ?? 0;
  let top = rows.length ? rows.at(-1).top + rows.at(-1).height + gap : 0;
  const close = (end, height, open = false) => {
    rows.push({ start, end, top, height, open });
    top += height + gap;
    start = end;
  };
  const filling = (end, sum) => (width - gap * (end - start - 1)) / sum;
  for (let i = start, sum = 0; i < ratios.length; i++) {
    sum += ratios[i];
    const height = filling(i + 1, sum);
    if (height > target) continue;
    const without = i > start ? filling(i, sum - ratios[i]) : Infinity;
    if (without - target < target - height) {
      close(i, without);
      sum = ratios[i];
      if (filling(i + 1, sum) > target) continue;
      close(i + 1, filling(i + 1, sum));
    } else close(i + 1, height);
    sum = 0;
  }
  if (start < ratios.length) close(ratios.length, target, true);
  return rows;
}

const shape = ({ width, height }) => (width && height ? Math.min(4, Math.max(0.3, width / height)) : 4 / 3);

export class Grid {
  /**
   * list: the <ul>. on.open(index), on.like(item), on.end(): more pictures are needed, on.leave(): upwards out of it.
   * link.open(item), link.like(item): the addresses of the same.
   */
  constructor(list, { on, link }) {
    Object.assign(this, { list, on, link, hits: [], ratios: [], rows: [], cells: new Map(), active: 0, more: false });
    list.addEventListener("keydown", (event) => this.#key(event));
    list.addEventListener("click", (event) => this.#click(event));
    list.addEventListener("focusin", ({ target }) => this.#activate(target.closest("li").index));
    addEventListener("scroll", () => this.#later(), { passive: true });
    new ResizeObserver(() => this.#resize()).observe(list);
  }

  get length() { return this.hits.length; }

  /** Shows other answers. fresh: make every picture anew (after the server was gone, broken ones would stay). */
  show(hits, more, { fresh = false } = {}) {
    if (fresh) for (const id of this.cells.keys()) this.#remove(id);
    this.hits = hits;
    this.ratios = hits.map(shape);
    Object.assign(this, { rows: [], active: 0, more });
    // What is on the screen first; what is near it must not make it wait.
    this.#layout(0);
    requestAnimationFrame(() => this.#later()); // in the frame after the one that shows them
  }

  append(hits, more) {
    // An index that grew meanwhile may answer with a picture that is here already.
    const known = new Set(this.hits.map(({ id }) => id));
    const others = hits.filter(({ id }) => !known.has(id));
    this.hits.push(...others);
    this.ratios.push(...others.map(shape));
    this.more = more;
    this.#layout();
  }

  focus(index) {
    index = Math.max(0, Math.min(index, this.length - 1));
    if (!this.length) return;
    const row = this.rows[this.#rowOf(index)];
    const above = this.list.getBoundingClientRect().top + row.top, header = this.#header();
    if (above < header) scrollBy(0, above - header);
    else if (above + row.height + 12 > innerHeight) scrollBy(0, above + row.height + 12 - innerHeight);
    this.#activate(index);
    this.#render();
    this.cells.get(this.hits[index].id).querySelector(".open").focus({ preventScroll: true });
  }

  #header() { return document.querySelector("header").offsetHeight + 12; }

  #resize() {
    const width = this.list.clientWidth;
    if (width === this.width) return;
    const anchor = this.rows.find((row) => this.list.getBoundingClientRect().top + row.top + row.height > this.#header());
    const keep = anchor && this.list.getBoundingClientRect().top < 0 ? anchor.start : null;
    this.rows = [];
    this.#layout();
    if (keep !== null) scrollBy(0, this.list.getBoundingClientRect().top + this.rows[this.#rowOf(keep)].top - this.#header());
  }

  #layout(margin) {
    this.width = this.list.clientWidth;
    this.gap = this.width < 600 ? 6 : 10;
    const target = this.width < 480 ? 130 : this.width < 900 ? 180 : this.width < 1700 ? 220 : 260;
    justify(this.ratios, this.width, target, this.gap, this.rows);
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

  /** The first row that ends below y. */
  #rowAt(y) {
    let low = 0, high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle].top + this.rows[middle].height < y) low = middle + 1; else high = middle;
    }
    return low;
  }

  #rowOf(index) {
    let low = 0, high = this.rows.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle].end <= index) low = middle + 1; else high = middle;
    }
    return low;
  }

  /** margin: how far beyond the window, in pixels. */
  #render(margin = innerHeight) {
    const top = -this.list.getBoundingClientRect().top;
    const first = this.#rowAt(top - margin), shown = [];
    for (let r = first; r < this.rows.length && this.rows[r].top < top + innerHeight + margin; r++) shown.push(this.rows[r]);
    const start = shown[0]?.start ?? 0, end = shown.at(-1)?.end ?? 0;
    const focused = this.list.contains(document.activeElement);
    // One picture is in the tab order: the one last used, or the first on the screen when that one is far away.
    if (!focused && (this.active < start || this.active >= end)) this.active = this.rows[this.#rowAt(top)]?.start ?? 0;

    const wanted = new Map();
    for (const row of shown) this.#place(row, wanted);
    const pinned = this.hits[this.active];
    if (focused && pinned && !wanted.has(pinned.id)) this.#place(this.rows[this.#rowOf(this.active)], wanted, this.active);
    for (const id of this.cells.keys()) if (!wanted.has(id)) this.#remove(id);
    let before = this.list.firstElementChild;
    for (const [id, cell] of wanted) {
      this.cells.set(id, cell);
      if (cell === before) before = before.nextElementSibling;
      else this.list.insertBefore(cell, before);
    }
    if (this.more && top + 3 * innerHeight > (this.rows.at(-1)?.top ?? 0)) this.on.end();
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
    cell.innerHTML = `
      <a class="open" tabindex="-1"><img decoding="async">
        <span class="caption"><span class="name" aria-hidden="true"></span><span class="score"></span></span></a>
      <a class="more" tabindex="-1" title="More like this (M)"><svg class="icon" aria-hidden="true"><use href="#i-like"/></svg></a>`;
    const image = cell.querySelector("img");
    image.alt = hit.captions[0] || hit.text || hit.name;
    cell.querySelector(".name").textContent = hit.name;
    cell.querySelector(".more").setAttribute("aria-label", `More like ${image.alt}`);
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
    for (const link of cell.querySelectorAll("a")) link.tabIndex = active ? 0 : -1;
    cell.setAttribute("aria-posinset", index + 1);
    cell.setAttribute("aria-setsize", this.more ? -1 : this.length);
    if (cell.hit === hit && cell.index === index) return;
    Object.assign(cell, { hit, index });
    cell.dataset.match = hit.match ?? "";
    cell.querySelector(".open").href = this.link.open(hit);
    cell.querySelector(".more").href = this.link.like(hit);
    cell.querySelector(".score").replaceChildren(...standing(hit));
    // The best comes first in every way.
    cell.querySelector("img").fetchPriority = index < 6 ? "high" : "auto";
  }

  #activate(index) {
    const old = this.cells.get(this.hits[this.active]?.id);
    this.active = index;
    for (const cell of [old, this.cells.get(this.hits[index]?.id)])
      for (const link of cell?.querySelectorAll("a") ?? []) link.tabIndex = cell.index === index ? 0 : -1;
  }

  #click(event) {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    const { index, hit } = link.closest("li");
    if (link.className === "more") this.on.like(hit); else this.on.open(index);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = this.#rowOf(this.active);
    const steps = {
      ArrowLeft: () => this.focus(this.active - 1),
      ArrowRight: () => this.focus(this.active + 1),
      ArrowUp: () => (row ? this.focus(this.#beneath(row - 1)) : this.on.leave()),
      ArrowDown: () => this.focus(row + 1 < this.rows.length ? this.#beneath(row + 1) : this.length - 1),
      Home: () => this.focus(0),
      End: () => this.focus(this.length - 1),
      m: () => this.on.like(this.hits[this.active]),
    };
    const step = steps[event.key] ?? steps[event.key.toLowerCase()];
    if (!step) return;
    event.preventDefault();
    step();
  }

  /** The picture of a row whose middle is nearest to the active one's. */
  #beneath(r) {
    const middles = (row) => {
      let left = 0;
      return this.ratios.slice(row.start, row.end).map((ratio) => (left += ratio * row.height + this.gap) - (ratio * row.height) / 2);
    };
    const here = this.rows[this.#rowOf(this.active)], x = middles(here)[this.active - here.start];
    const distances = middles(this.rows[r]).map((middle) => Math.abs(middle - x));
    return this.rows[r].start + distances.indexOf(Math.min(...distances));
  }
}

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
    bar.firstChild.style.width = `${Math.round(standing * 100)}%`;
  }
  if (score !== undefined) add("number", score.toFixed(3));
  return parts;
}
