// The search page: what is asked for stands in the address; this asks it, shows the answer, and listens.

import { Problem, call, find, thumbnail } from "./api.js";
import { Detail } from "./detail.js";
import { Filters } from "./filters.js";
import { Grid, standing } from "./grid.js";
import { patiently, sentence, wasGone } from "./patience.js";
import { keep, preview, restored } from "./pictures.js";
import { address, anything, filter, query, read } from "./query.js";

const $ = (id) => document.getElementById(id);
const FIRST = 60, FURTHER = 200, CAPTIONS = 5, TYPING_MS = 120;

let asked = read(location.search);
let index = null; // what /api/status said
let answer = null; // what is shown: { asked, hits, more, verdict, received }
let search = new AbortController(); // of what is being asked
const answers = new Map(); // by address, so that going back is instant and finds its place again

const like = (item) => ({ q: "", picture: "", like: item.picture || item.id, item: "" });
const grid = new Grid($("grid"), {
  on: { open: (i) => open(i), like: (item) => ask(like(item)), end: () => further(), leave: () => $("box").focus() },
  link: { open: (item) => address({ ...asked, item: item.id }), like: (item) => address({ ...asked, ...like(item) }) },
});
const detail = new Detail({
  on: { step: (by) => open(shownAt() + by), close: () => closed(), like: (item) => ask(like(item)) },
  link: { like: (item) => address({ ...asked, ...like(item) }) },
});
const filters = new Filters($("filters"), (change) => ask({ ...change, item: "" }, { replace: true }));

// ---- asking

const key = (asked) => address({ ...asked, item: "" });

/** Asks for something else. replace: in place of what was asked before, not as a step to go back from. */
function ask(change, { replace = false, atOnce = true } = {}) {
  leave();
  asked = { ...asked, ...change };
  history[replace ? "replaceState" : "pushState"](null, "", address(asked));
  if (detail.open) detail.close();
  showAsked();
  clearTimeout(ask.timer);
  if (atOnce) run();
  else ask.timer = setTimeout(run, TYPING_MS, true);
}

/** Remembers where on the page one was. */
function leave() {
  if (!answer) return;
  answers.delete(key(answer.asked));
  answers.set(key(answer.asked), Object.assign(answer, { y: scrollY }));
  if (answers.size > 20) answers.delete(answers.keys().next().value);
}

/** Lets go of what is being asked; its answer, if it comes, is dropped. */
function drop() {
  search.abort();
  search = new AbortController();
  clearTimeout(ask.timer);
  $("busy").classList.remove("on");
}

/** gently: while someone types, half an expression is no mistake yet, and what was found before stays. */
async function run(gently = false) {
  drop();
  const { signal } = search, mine = asked;
  if (!anything(mine)) return idle();
  const slow = setTimeout(() => $("busy").classList.add("on"), 150);
  signal.addEventListener("abort", () => clearTimeout(slow));
  try {
    const found = await page(mine, { top: FIRST, signal });
    if (signal.aborted) return;
    performance.mark("answer");
    show({ asked: mine, received: found.hits.length, ...found });
  } catch (error) {
    if (error.name === "AbortError") return;
    if (gently && grid.length && error.status === 422 && !Filters.count(mine)) say(sentence(error.message));
    else refused(error);
  } finally {
    if (!signal.aborted) {
      clearTimeout(slow);
      $("busy").classList.remove("on");
    }
  }
}

async function page(asked, options) {
  // Filters can't be written down before the types of the fields are known.
  if (Object.keys(asked.fields).length && !index) await status;
  const picture = asked.picture ? restored(asked.picture) : undefined;
  if (asked.picture && !picture) {
    const remedy = "It stayed in the tab it was dropped into. Drop it here once more.";
    throw new Problem(0, { error: "The picture of this search is not here", remedy });
  }
  return patiently(() => find(asked, filter(asked, index?.fields ?? {}), { picture, ...options }), options.signal);
}

async function further() {
  if (!answer?.more || answer.loading) return;
  const mine = answer;
  mine.loading = true;
  try {
    const found = await page(mine.asked, { top: FURTHER, offset: mine.received, signal: search.signal });
    if (mine !== answer) return;
    mine.received += found.hits.length;
    mine.more = found.more && found.hits.length > 0;
    mine.loading = false;
    grid.append(found.hits, mine.more);
    if (!mine.more) $("end").textContent = `That is all: ${counted(grid.length, "picture")}.`;
  } catch (error) {
    if (mine !== answer) return;
    mine.loading = false;
    if (error.name === "AbortError") return;
    grid.more = mine.more = false;
    const deep = `These are the best ${grid.length.toLocaleString()}. To see others, say more closely what you look for.`;
    $("end").textContent = error.status === 422 ? deep : sentence(error.message);
  }
  $("end").hidden = mine.more;
}

// ---- showing

const counted = (n, what) => `${n.toLocaleString()} ${what}${n === 1 ? "" : "s"}`;

/** What is read out, and stands above the pictures. */
function say(text, verdict = false) {
  $("status").textContent = text;
  $("status").classList.toggle("verdict", verdict);
}

function show(found, y = 0) {
  answer = found;
  const { hits, verdict, more } = found;
  message();
  grid.show(hits, more, { fresh: wasGone() });
  scrollTo(0, y);
  $("end").hidden = true;
  if (!hits.length) {
    say("No pictures.");
    const filtered = Filters.count(asked) > 0;
    message("No pictures", verdict ?? (filtered ? "Nothing passes these filters." : "Nothing was found."),
      filtered && ["Clear filters", () => ask({ fields: {}, where: "", item: "" })]);
  } else if (verdict) say(`${sentence(verdict)} These come nearest.`, true);
  else say(`${counted(hits.length, "picture")}, best first${more ? "; more follow" : ""}`);
  filters.error("");
  sync();
}

function idle() {
  answer = null;
  grid.show([], false);
  say("");
  $("end").hidden = true;
  if (!index) return message();
  if (!index.pictures) {
    message("Nothing is indexed yet", "Index a folder of pictures, then reload this page:");
    const command = Object.assign(document.createElement("pre"), { textContent: "vse index FOLDER --out INDEX" });
    $("message").append(command);
  } else {
    message(`Search ${counted(index.pictures, "picture")} in your own words`,
      "Say what is in the picture. Or drop a picture anywhere, or paste one, to find others like it.");
    const examples = document.createElement("p");
    examples.className = "examples";
    for (const q of ["a dog running on sand", "children playing in the snow", '"a street" - "cars"']) {
      const link = Object.assign(document.createElement("a"), { href: address({ ...asked, q }), textContent: q });
      link.addEventListener("click", (event) => {
        event.preventDefault();
        ask({ q });
      });
      examples.append(link);
    }
    $("message").append(examples);
  }
  sync();
}

function refused(error) {
  answer = null;
  grid.show([], false);
  $("end").hidden = true;
  const written = asked.where && (error.status === 400 || error.status === 422);
  if (written) filters.error(sentence(error.message));
  const titles = { 413: "That picture is too large", 415: "That is no picture", 404: "That picture is not in the index" };
  const title = titles[error.status];
  const words = error instanceof Problem ? error.message : `The page made a mistake: ${error.message}`;
  message(title ?? sentence(words).replace(/\.$/, ""), [title && sentence(words), error.remedy].filter(Boolean).join(" "),
    error.status === 401 || error.status >= 500 ? ["Try again", () => run()] : null);
  say($("message").querySelector("h1").textContent);
}

/** A few words in place of pictures, or nothing. action: [text, function]. */
function message(title, text, action) {
  $("message").hidden = !title;
  $("message").replaceChildren();
  if (!title) return;
  $("message").append(Object.assign(document.createElement("h1"), { textContent: title }));
  if (text) $("message").append(Object.assign(document.createElement("p"), { textContent: text }));
  if (!action) return;
  const button = Object.assign(document.createElement("button"), { className: "button", textContent: action[0] });
  button.addEventListener("click", action[1]);
  $("message").append(button);
}

/** Box, chip, filters and title as they are asked for. */
function showAsked() {
  if ($("box").value !== asked.q) $("box").value = asked.q;
  const count = Filters.count(asked);
  $("filters-count").textContent = count;
  $("filters-count").hidden = !count;
  if (index) filters.show(asked);
  document.title = `${asked.q || (asked.like || asked.picture ? "Like a picture" : "Search")} · vsekit`;
  showStart();
}

/** The picture a query starts from, in the box and beside the captions nearest to it. */
async function showStart() {
  const { like, picture, q } = asked, start = like || picture;
  $("chip").hidden = !start;
  $("box").placeholder = start ? (like ? "Add or - take away" : "") : "Describe a picture";
  if (showStart.shown === `${start} ${!q}`) return;
  showStart.shown = `${start} ${!q}`;
  $("like").hidden = true;
  showStart.abort?.abort();
  if (!start) return;
  const { signal } = (showStart.abort = new AbortController());
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
    await status;
    if (q || !index.captions || signal.aborted) return;
    const { hits } = await page({ ...asked, fields: {}, where: "", rerank: 0 }, { top: CAPTIONS, kind: "caption", signal });
    if (!signal.aborted && hits.length) showCaptions(hits, item, source);
  } catch { /* the search itself says what is wrong */ }
}

function showCaptions(hits, item, source) {
  const make = (name, properties) => Object.assign(document.createElement(name), properties);
  const list = make("ol", {});
  for (const hit of hits) {
    const words = { like: "", picture: "", q: hit.text, item: "" };
    const link = make("a", { href: address({ ...asked, ...words }), textContent: hit.text, title: "Search with these words" });
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      ask(words);
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

// ---- one picture, large

const shownAt = () => grid.hits.findIndex(({ id }) => id === asked.item);

function open(i) {
  const item = grid.hits[i];
  if (!item) return;
  const stepping = Boolean(asked.item);
  asked = { ...asked, item: item.id };
  history[stepping ? "replaceState" : "pushState"](stepping ? history.state : { opened: true }, "", address(asked));
  sync();
  if (i > grid.length - 8) further();
}

/** Opens or closes the dialog as the address says. */
async function sync() {
  if (!asked.item) {
    if (detail.open) detail.close();
    return;
  }
  const i = shownAt(), words = asked.q.trim() ? query(asked) : "";
  if (i >= 0) return detail.show(grid.hits[i], { query: words, first: i === 0, last: i === grid.length - 1 && !answer.more });
  const id = asked.item;
  try {
    const item = await patiently(() => call(`items/${encodeURIComponent(id)}`));
    if (asked.item === id) detail.show(item, { query: words, first: true, last: true });
  } catch (error) {
    if (!grid.length) refused(error);
  }
}

function closed() {
  if (!asked.item) return; // it was closed because something else is asked for
  const i = shownAt();
  asked = { ...asked, item: "" };
  if (history.state?.opened) history.back();
  else history.replaceState(null, "", address(asked));
  if (i >= 0) grid.focus(i);
}

// ---- pictures people bring along

function bring(files) {
  const file = [...files].find(({ type, name }) => type.startsWith("image/") || /\.(hei[cf]|tiff?)$/i.test(name));
  if (!file) return files.length && refused(new Problem(415, { error: "this page searches with pictures only" }));
  ask({ q: "", like: "", picture: keep(file), item: "" });
}

// ---- listening

let typing = false; // words typed in one go are one step to go back from

$("box").addEventListener("input", () => {
  // Words after an indexed picture change it; a brought one gives way to them.
  ask({ q: $("box").value, picture: "", item: "" }, { replace: typing, atOnce: false });
  typing = true;
});
$("box").addEventListener("change", () => { typing = false; });
$("box").addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" && grid.length) {
    event.preventDefault();
    grid.focus(0);
  } else if (event.key === "Backspace" && !$("box").value && (asked.like || asked.picture)) $("chip-remove").click();
});
$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  typing = false;
  if (matchMedia("(pointer: coarse)").matches) $("box").blur();
  run();
});
$("chip-remove").addEventListener("click", () => {
  ask({ like: "", picture: "", item: "" });
  $("box").focus();
});
$("file").addEventListener("change", () => {
  bring($("file").files);
  $("file").value = "";
});
addEventListener("paste", (event) => {
  if (!event.clipboardData.files.length) return;
  event.preventDefault();
  bring(event.clipboardData.files);
});
const files = (event) => event.dataTransfer.types.includes("Files") && !dragged;
let dragged = false; // a picture of this page, on its way out
addEventListener("dragstart", () => { dragged = true; });
addEventListener("dragend", () => { dragged = false; });
addEventListener("dragover", (event) => {
  if (!files(event)) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = "copy";
  document.body.classList.add("dropping");
});
addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("dropping"); });
addEventListener("drop", (event) => {
  document.body.classList.remove("dropping");
  if (!files(event)) return;
  event.preventDefault();
  bring(event.dataTransfer.files);
});
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  $("box").focus();
  $("box").select();
});
addEventListener("popstate", () => {
  typing = false;
  const next = read(location.search), same = key(next) === key(asked);
  if (!same) leave();
  asked = next;
  if (same) return sync();
  showAsked();
  const known = answers.get(key(asked));
  if (!known) return run();
  drop();
  show(Object.assign(known, { loading: false }), known.y);
});
$("theme").addEventListener("click", toggleTheme);
$("filters-toggle").addEventListener("click", () => {
  const shown = $("filters").hidden;
  $("filters").hidden = !shown;
  $("filters-toggle").setAttribute("aria-expanded", shown);
});
document.querySelector(".wordmark").addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  ask(read(""));
  $("box").focus();
});

// ---- beginning

history.scrollRestoration = "manual";
const status = patiently(() => call("status")).then((found) => {
  index = found;
  filters.build(index);
  $("filters-toggle").hidden = !Object.keys(index.fields).length;
  showAsked();
  if (!anything(asked)) idle();
}, refused);
showAsked();
if (anything(asked)) run();
