// Favourites and hidden pictures: said to the server, shown at once, taken back if it refuses or if the person does.

import { call } from "./api.js";
import { patiently, sentence } from "./patience.js";

const $ = (id) => document.getElementById(id);
const SECONDS = 8;
let undo = null;

/** A few words that go by themselves. action: [text, function]. */
export function toast(text, action = null) {
  clearTimeout(toast.timer);
  undo = action?.[1] ?? null;
  $("toast-text").textContent = text;
  $("toast-action").hidden = !action;
  $("toast-action").textContent = action?.[0] ?? "";
  // An open dialog makes all else inert.
  (document.querySelector("dialog[open]") ?? document.body).append($("toast"));
  $("toast").hidden = false;
  toast.timer = setTimeout(gone, 1000 * SECONDS);
}

function gone() {
  $("toast").hidden = true;
  undo = null;
}

function back() {
  const work = undo;
  gone();
  work?.();
}

$("toast-action").addEventListener("click", back);
document.addEventListener("close", () => document.body.append($("toast")), true);
addEventListener("said", ({ detail }) => toast(detail.text));
addEventListener("keydown", (event) => {
  const typed = event.target.matches?.("input:not([type=checkbox]), textarea");
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && undo && !typed) {
    event.preventDefault();
    back();
  }
});

/**
 * Marks pictures. marks: { favourite } or { hidden }, true or false. shown(items, marks): called when it is so, and again when
 * it was taken back.
 */
export async function mark(items, marks, shown) {
  const [[name, on]] = Object.entries(marks), set = (some, value) => {
    for (const item of some) if (value) item.meta[name] = true; else delete item.meta[name];
  };
  const send = (ids, value) => patiently(() => call("marks", { body: { ids, [name]: value } }));
  set(items, on);
  shown(items, marks);
  try {
    const { changed } = await send(items.map(({ id }) => id), on);
    const others = items.filter(({ id }) => changed.includes(id));
    toast(said(name, on, items.length), ["Undo", async () => {
      set(others, !on);
      if (changed.length) await send(changed, !on);
      shown(others, { [name]: !on });
      toast("As it was before.");
    }]);
  } catch (error) {
    set(items, !on);
    shown(items, { [name]: !on });
    toast(sentence(error.message));
  }
}

function said(name, on, n) {
  const what = n === 1 ? "Picture" : `${n.toLocaleString()} pictures`;
  if (name === "favourite") return on ? `${what} added to favourites.` : `${what} taken out of favourites.`;
  return on ? `${what} hidden.` : `${what} shown again.`;
}
