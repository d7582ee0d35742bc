// One picture, large: what is known of it, why it was found, and what can be done with it.

import { call, thumbnail } from "./api.js";
import { facts } from "./facts.js";
import { said, standing } from "./grid.js";
import { stackOf } from "./groups.js";
import { Slideshow } from "./slideshow.js";
import { Why } from "./why.js";

const $ = (id) => document.getElementById(`detail-${id}`);
const SWIPE = 50; // pixels

export class Detail {
  /** on.step(±1), on.member(item): another of its stack, on.close(), on.like(item), on.mark(item, marks), on.ask(change);
   * link(change): an address. */
  constructor({ on, like, link }) {
    Object.assign(this, { on, like, link, dialog: document.getElementById("detail"), why: new Why() });
    this.show_ = new Slideshow(this.dialog, { step: () => on.step(1), changed: (playing) => this.#played(playing) });
    this.dialog.addEventListener("close", () => {
      if (this.open) return; // the event comes late, and by now it may be open again
      this.show_.stop();
      this.abort?.abort();
      this.item = null;
      on.close();
    });
    // A click beside the dialog is one on the dialog itself: its content fills it.
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
    // Wherever the focus is: what had it may be gone.
    document.addEventListener("keydown", (event) => this.open && this.#key(event));
    const clicked = { back: () => on.step(-1), next: () => on.step(1), close: () => this.dialog.close(), play: () => this.show_.toggle() };
    clicked.favourite = () => on.mark(this.item, { favourite: !this.item.meta.favourite });
    clicked.hide = () => on.mark(this.item, { hidden: !this.item.meta.hidden });
    for (const [name, work] of Object.entries(clicked)) $(name).addEventListener("click", work);
    $("like").addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      on.like(this.item);
    });
    this.#swipes(this.dialog.querySelector(".stage"));
  }

  get open() { return this.dialog.open; }

  close() { this.dialog.close(); }

  /** item: a hit, or an item that was not searched for. stack: the hit whose stack it is in. query: what it was found with, ""
   * when that had no words. */
  show(item, { stack = item, query, first, last }) {
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
    $("name").textContent = item.name;
    $("score").replaceChildren(...("score" in item ? standing(item) : []));
    $("score").dataset.match = item.match ?? "";
    $("said").hidden = !($("said").textContent = said(item) && `Found by words: ${said(item)}`);
    $("like").href = this.link(this.like(item));
    $("open").hidden = $("download").hidden = !item.picture_url;
    if (item.picture_url) {
      $("open").href = item.picture_url;
      $("download").href = `/api/items/${encodeURIComponent(item.picture || item.id)}/file`;
    }
    $("back").disabled = first;
    $("next").disabled = last;
    this.marked();
    this.#stack(stack);
    facts(item, { link: this.link, ask: this.on.ask });
    this.why.show(item, query, this.abort.signal);
    if (!this.open) {
      this.dialog.showModal();
      $("close").focus();
    } else if (document.activeElement === document.body) $("close").focus(); // the button that was used is now disabled
    this.dialog.querySelector(".facts").scrollTop = 0;
    this.show_.again();
    // Hits come without all captions.
    const whole = call(`items/${encodeURIComponent(item.id)}`, { signal: this.abort.signal });
    whole.then((found) => facts({ ...item, captions: found.captions }, { link: this.link, ask: this.on.ask }), () => {});
  }

  /** Shows anew whether it is a favourite or hidden. */
  marked() {
    if (!this.item) return;
    const { favourite, hidden } = this.item.meta;
    $("favourite").setAttribute("aria-pressed", Boolean(favourite));
    $("hide").setAttribute("aria-pressed", Boolean(hidden));
  }

  #stack(stack) {
    const members = stackOf(stack);
    $("stack").hidden = members.length < 2;
    $("stack").replaceChildren(...(members.length < 2 ? [] : members.map((member, i) => {
      const image = Object.assign(document.createElement("img"), { src: thumbnail(member, 128) ?? "", alt: `${i + 1} of ${members.length}: ${member.name}` });
      const button = Object.assign(document.createElement("button"), { type: "button" });
      button.append(image);
      if (member.id === this.item.id) button.setAttribute("aria-current", "true");
      button.addEventListener("click", () => this.on.member(member));
      return button;
    })));
    this.members = members;
  }

  #played(playing) {
    $("play").setAttribute("aria-pressed", playing);
    $("play").setAttribute("aria-label", playing ? "Stop the slideshow" : "Slideshow");
    $("play").querySelector("use").setAttribute("href", playing ? "#i-pause" : "#i-play");
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const at = this.members.findIndex(({ id }) => id === this.item.id), member = (by) => this.members[at + by] && this.on.member(this.members[at + by]);
    const keys = {
      ArrowLeft: () => this.on.step(-1), ArrowRight: () => this.on.step(1),
      m: () => this.on.like(this.item), f: () => $("favourite").click(), h: () => $("hide").click(),
      d: () => $("download").hidden || $("download").click(), s: () => this.show_.toggle(),
      ...(this.members.length > 1 ? { ArrowUp: () => member(-1), ArrowDown: () => member(1) } : {}),
    };
    if (key === "Escape" && this.show_.playing) keys.Escape = () => this.show_.stop();
    if (!keys[key]) return;
    event.preventDefault();
    keys[key]();
  }

  #swipes(stage) {
    let start = null;
    stage.addEventListener("touchstart", ({ touches }) => { start = touches.length === 1 ? touches[0] : null; }, { passive: true });
    stage.addEventListener("touchend", ({ changedTouches: [end] }) => {
      if (!start || !end) return;
      const x = end.clientX - start.clientX, y = end.clientY - start.clientY;
      if (Math.abs(x) > SWIPE && Math.abs(x) > 2 * Math.abs(y)) this.on.step(x < 0 ? 1 : -1);
      start = null;
    }, { passive: true });
  }
}
