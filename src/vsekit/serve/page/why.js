// Why a picture was found: how much each word weighs, and where in the picture it was found.

import { call } from "./api.js";
import { section } from "./facts.js";

const $ = (id) => document.getElementById(`detail-${id}`);
const SVG = "http://www.w3.org/2000/svg";

export class Why {
  /** query: the words; "" where there were none. */
  async show(item, query, signal) {
    $("boxes").replaceChildren();
    section("why", "", null);
    if (!query) return;
    let why;
    try {
      why = await call("why", { body: { query, id: item.id }, signal });
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
