// One picture, large: what is known of it, and why it was found.

import { call, thumbnail } from "./api.js";
import { standing } from "./grid.js";

const $ = (id) => document.getElementById(`detail-${id}`);
const SVG = "http://www.w3.org/2000/svg";

export class Detail {
  /** on.step(±1), on.close(), on.like(item); link.like(item): an address. */
  constructor({ on, link }) {
    Object.assign(this, { on, link, dialog: document.getElementById("detail") });
    this.dialog.addEventListener("close", () => {
      if (this.open) return; // the event comes late, and by now it may be open again
      this.abort?.abort();
      this.item = null;
      on.close();
    });
    // A click beside the dialog is one on the dialog itself: its content fills it.
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
    this.dialog.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) on.step(step);
      else if (event.key.toLowerCase() === "m") on.like(this.item);
      else return;
      event.preventDefault();
    });
    $("back").addEventListener("click", () => on.step(-1));
    $("next").addEventListener("click", () => on.step(1));
    $("close").addEventListener("click", () => this.dialog.close());
    $("like").addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      on.like(this.item);
    });
  }

  get open() { return this.dialog.open; }

  close() { this.dialog.close(); }

  /** item: a hit, or an item that was not searched for. query: what it was found with, "" when that had no words. */
  show(item, { query, first, last }) {
    this.item = item;
    this.abort?.abort();
    this.abort = new AbortController();
    const image = $("image");
    image.alt = item.captions[0] || item.text || item.name;
    image.removeAttribute("src");
    const [width, height] = item.width && item.height ? [item.width, item.height] : [800, 600];
    image.parentNode.style.setProperty("--ratio", width / height);
    image.parentNode.style.setProperty("--wide", width);
    image.src = thumbnail(item, 1024) ?? item.picture_url ?? "";
    $("boxes").replaceChildren();
    $("name").textContent = item.name;
    $("score").replaceChildren(...("score" in item ? standing(item) : []));
    $("score").dataset.match = item.match ?? "";
    $("like").href = this.link.like(item);
    $("open").hidden = !item.picture_url;
    if (item.picture_url) $("open").href = item.picture_url;
    $("back").disabled = first;
    $("next").disabled = last;
    this.#facts(item);
    this.#why(item, query);
    if (!this.open) {
      this.dialog.showModal();
      $("close").focus();
    } else if (document.activeElement === document.body) $("close").focus(); // the button that was used is now disabled
    this.dialog.querySelector(".facts").scrollTop = 0;
    // Hits come without all captions.
    call(`items/${encodeURIComponent(item.id)}`, { signal: this.abort.signal }).then((whole) => this.#facts({ ...item, ...whole }), () => {});
  }

  #facts({ name: title, captions, meta, width, height }) {
    section("captions", "Captions", captions.length && list("ul", captions.map((text) => [text])));
    const said = (value) => (value === true ? "yes" : value === false ? "no" : String(value));
    const others = Object.entries(meta).filter(([, value]) => value !== title);
    const known = others.map(([name, value]) => [name.replaceAll("_", " "), said(value)]);
    if (width && height) known.unshift(["size", `${width} × ${height}`]);
    section("meta", "Details", known.length && list("dl", known));
  }

  async #why(item, query) {
    section("why", "", null);
    if (!query) return;
    let why;
    try {
      why = await call("why", { body: { query, id: item.id }, signal: this.abort.signal });
    } catch {
      return; // the picture and its facts stand without it
    }
    const most = Math.max(...why.words.map(({ weight }) => Math.abs(weight)), 1e-9);
    const words = document.createElement("p");
    words.className = "words";
    for (const { word, weight } of why.words) {
      const boxes = why.boxes[word] ?? [];
      const mark = document.createElement(boxes.length ? "button" : "span");
      mark.className = weight < 0 ? "word against" : "word";
      mark.textContent = word;
      mark.title = `${weight < 0 ? "−" : "+"}${Math.abs(weight).toFixed(3)}`;
      mark.style.setProperty("--weight", Math.abs(weight) / most);
      const said = document.createElement("span");
      said.className = "visually-hidden";
      said.textContent = ` (${mark.title})`;
      mark.append(said);
      if (boxes.length) {
        mark.type = "button";
        for (const [event, on] of [["mouseenter", true], ["focus", true], ["mouseleave", false], ["blur", false]])
          mark.addEventListener(event, () => this.#mark(word, on));
      }
      words.append(mark, " ");
    }
    const mostBoxed = Math.max(...Object.values(why.boxes).flat().map((box) => box[4]), 1e-9);
    for (const [word, boxes] of Object.entries(why.boxes)) for (const [x0, y0, x1, y1, weight] of boxes) {
      const box = document.createElementNS(SVG, "rect");
      for (const [name, value] of Object.entries({ x: x0, y: y0, width: x1 - x0, height: y1 - y0 })) box.setAttribute(name, value);
      box.dataset.word = word;
      box.style.setProperty("--weight", Math.max(0, weight) / mostBoxed);
      $("boxes").append(box);
    }
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = Object.keys(why.boxes).length
      ? "Stronger shading: the match falls more without the word. Point at a word to see where it was found."
      : "Stronger shading: the match falls more without the word.";
    section("why", "Why it was found", [words, note]);
  }

  #mark(word, on) {
    $("boxes").classList.toggle("pointing", on);
    for (const box of $("boxes").children) box.classList.toggle("marked", on && box.dataset.word === word);
  }
}

function section(id, title, content) {
  $(id).hidden = !content;
  if (!content) return;
  const heading = Object.assign(document.createElement("h3"), { textContent: title });
  $(id).replaceChildren(heading, ...[content].flat());
}

function list(name, rows) {
  const made = document.createElement(name), cells = name === "dl" ? ["dt", "dd"] : ["li"];
  for (const row of rows) row.forEach((text, i) => made.append(Object.assign(document.createElement(cells[i]), { textContent: text })));
  return made;
}
