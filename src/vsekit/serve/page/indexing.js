// Indexing beside the server: how far it is, what may be indexed, and that there are new pictures.

import { call } from "./api.js";
import { counted } from "./messages.js";
import { sentence } from "./patience.js";

const $ = (id) => document.getElementById(id);
const BUSY = ["starting", "indexing"];
const SECONDS = { busy: 1, quiet: 4, hidden: 20 };

export class Indexing {
  /**
   * quiet(): whether the page may show new pictures by itself, since nobody is looking at one or choosing some.
   * refresh(): asks again for what is shown. changed(): the index is another; what was known of it is not true any more.
   */
  constructor(on) {
    Object.assign(this, { on, last: null, unseen: 0, due: false });
    $("indexing-action").addEventListener("click", () => this.act?.());
    addEventListener("visibilitychange", () => document.hidden || this.wake?.());
  }

  /** Looks again and again, unless this server does not index. */
  async begin() {
    for (;;) {
      // A server that is gone is told elsewhere; one that does not know the question does not index.
      const found = await call("indexing").catch((error) => error.status === 404 ? { state: "off" } : null);
      if (found?.state === "off") return;
      if (found) this.show(found);
      const busy = BUSY.includes(found?.state) || this.due;
      await new Promise((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, 1000 * (document.hidden ? SECONDS.hidden : busy ? SECONDS.busy : SECONDS.quiet));
      });
    }
  }

  show(found) {
    const { last } = this;
    this.last = found;
    if (last && (found.changes !== last.changes || found.pictures !== last.pictures)) {
      this.unseen += Math.max(0, found.pictures - last.pictures);
      this.due = true;
      this.on.changed();
    }
    if (this.due && this.on.quiet()) this.seen();
    this.#words();
    this.folders();
  }

  /** Shows what is new. */
  seen() {
    Object.assign(this, { unseen: 0, due: false });
    this.on.refresh();
    this.#words();
  }

  #words() {
    const { state, done, total, error, remedy, note } = this.last;
    const failed = state === "failed" || error, news = this.due;
    let text = "";
    if (failed) text = [error && sentence(error), remedy && sentence(remedy)].filter(Boolean).join(" ");
    else if (state === "indexing" && total) text = `Indexing ${done.toLocaleString()} of ${total.toLocaleString()}`;
    else if (BUSY.includes(state)) text = note ? sentence(note) : "Getting ready to index";
    else if (news) text = this.unseen ? counted(this.unseen, "new picture") : "Some pictures have changed";
    $("indexing").hidden = !text;
    $("indexing").classList.toggle("failed", Boolean(failed));
    if ($("indexing-text").textContent !== text) $("indexing-text").textContent = text;
    $("indexing-bar").hidden = !BUSY.includes(state) || Boolean(failed);
    $("indexing-bar").classList.toggle("unknown", !total);
    $("indexing-bar").firstElementChild.style.width = total ? `${(100 * done) / total}%` : "";
    this.act = failed ? (state === "failed" ? () => this.ask(this.asked ?? null) : () => this.dismiss()) : news ? () => this.seen() : null;
    $("indexing-action").hidden = !this.act;
    $("indexing-action").textContent = failed ? (state === "failed" ? "Try again" : "Dismiss") : "Show";
  }

  dismiss() {
    Object.assign(this.last, { error: null, remedy: null });
    this.#words();
  }

  /** The folders that may be indexed, where nothing is asked for. */
  folders() {
    const folders = this.last?.folders ?? [];
    $("allowed").hidden = !folders.length || !this.on.idle();
    const busy = BUSY.includes(this.last?.state), shown = JSON.stringify([folders, busy]);
    if (this.shown === shown) return;
    this.shown = shown;
    $("allowed-folders").replaceChildren(...folders.map(({ number, name, indexed }) => {
      const button = Object.assign(document.createElement("button"), { type: "button", className: "tag", disabled: busy });
      button.innerHTML = '<svg class="icon" aria-hidden="true"><use href="#i-folder"/></svg><span></span>';
      button.querySelector("span").textContent = `${indexed ? "Update" : "Index"} ${name}`;
      button.addEventListener("click", () => this.ask(number));
      return button;
    }));
  }

  /** Has a folder indexed. */
  async ask(number) {
    this.asked = number;
    try {
      this.show(await call("indexing", { body: number === null ? {} : { folder: number } }));
    } catch (error) {
      this.show({ ...this.last, error: error.message || "The server is not answering", remedy: error.remedy });
    }
    this.wake?.();
  }
}
