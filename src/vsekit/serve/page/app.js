// The page: what is asked for stands in the address; this asks it, shows the answer, and listens.

import { arranged, page as pageOf } from "./answers.js";
import { Problem, call } from "./api.js";
import { listen } from "./bring.js";
import { Chosen } from "./chosen.js";
import { Detail } from "./detail.js";
import { Filters } from "./filters.js";
import { Grid } from "./grid.js";
import { LIKELY, stackOf } from "./groups.js";
import { Home } from "./home.js";
import { Indexing } from "./indexing.js";
import { mark } from "./marks.js";
import { counted, message, say } from "./messages.js";
import { patiently, sentence, wasGone } from "./patience.js";
import { keep } from "./pictures.js";
import { UNFILTERED, address, anything, filter, filterCount, query, read } from "./query.js";
import { Counts } from "./shelves.js";
import { Start } from "./start.js";
import { without, withAgain } from "./view.js";

const $ = (id) => document.getElementById(id);
const FIRST = 60, FURTHER = 200, TYPING_MS = 120, STATUS_MS = 6000;

let asked = read(location.search);
let index = null; // what /api/status said
let answer = null; // what is shown: { asked, hits, more, verdict, received, after, lined }
let search = new AbortController(); // of what is being asked
const answers = new Map(); // by address, so that going back is instant and finds its place again

const like = (item) => ({ q: "", picture: "", like: item.picture || item.id, item: "" });
const link = (change) => address({ ...asked, item: "", ...change });
const chosen = new Chosen({ change: () => grid.refresh(), mark: (items, marks) => mark(items, marks, marked) });
const grid = new Grid($("grid"), {
  on: {
    open: (i) => open(i), like: (item) => ask(like(item)), end: () => further(), leave: () => $("box").focus(),
    pick: (i, how) => chosen.pick(grid.hits, i, how), key: (key, item) => key_(key, item),
  },
  link: { open: (item) => address({ ...asked, item: item.id }), like: (item) => link(like(item)) },
  chosen,
});
const detail = new Detail({
  on: {
    step: (by) => step(by), member: (item) => open(shownAt(), item), close: () => closed(), like: (item) => ask(like(item)),
    mark: (item, marks) => mark([item], marks, marked), ask: (change) => ask(change),
  },
  like, link,
});
const filters = new Filters($("filters"), (change) => ask({ ...change, item: "" }, { replace: true }));
const home = new Home({ ask: (change) => ask({ item: "", ...change }), link });
const counts = new Counts((months, tree) => {
  filters.shelve(months, tree);
  home.shelve(tree);
});
const start = new Start({ page: (...given) => page(...given), status: () => status.then(() => index), ask: (change) => ask(change) });

const indexing = new Indexing({
  idle: () => !anything(asked) && !filterCount(asked),
  quiet: () => !anything(asked) && scrollY < 100 && !detail.open && !chosen.size && !$("grid").contains(document.activeElement),
  refresh: () => run(),
  changed: () => {
    answers.clear();
    counts.forget();
    home.forget();
    clearTimeout(learn.timer);
    learn.timer = setTimeout(learn, STATUS_MS); // until then the server may say what it said before
    if (index) index.pictures = indexing.last.pictures;
  },
});

// ---- asking

const key = (asked) => address({ ...asked, item: "" });

/** Asks for something else. replace: in place of what was asked before, not as a step to go back from. */
function ask(change, { replace = false, atOnce = true } = {}) {
  leave();
  asked = { ...asked, ...change };
  history[replace ? "replaceState" : "pushState"](null, "", address(asked));
  if (detail.open && !asked.item) detail.close();
  if (chosen.size) chosen.clear();
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
  const slow = setTimeout(() => $("busy").classList.add("on"), 150);
  signal.addEventListener("abort", () => clearTimeout(slow));
  try {
    const found = await page(mine, { top: FIRST, signal });
    if (signal.aborted) return;
    performance.mark("answer");
    const { hits, ...rest } = found;
    show(arranged({ asked: mine, received: hits.length, hits: [], ...rest }, hits));
  } catch (error) {
    if (error.name === "AbortError") return;
    if (gently && grid.length && error.status === 422 && !filterCount(mine)) say(sentence(error.message));
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
  return pageOf(asked, index?.fields ?? {}, options);
}

async function further() {
  if (!answer?.more || answer.loading) return;
  const mine = answer;
  mine.loading = true;
  try {
    const found = await page(mine.asked, { top: FURTHER, offset: mine.received, after: mine.after, signal: search.signal });
    if (mine !== answer) return;
    mine.received += found.hits.length;
    Object.assign(mine, { more: found.more && found.hits.length > 0, after: found.after, loading: false });
    grid.append(arranged(mine, found.hits).added, mine.more);
    grid.refresh();
    if (!mine.more) $("end").textContent = `That is all: ${counted(mine.received, "picture")}.`;
  } catch (error) {
    if (mine !== answer) return;
    mine.loading = false;
    if (error.name === "AbortError") return;
    grid.more = mine.more = false;
    const deep = `These are the best ${mine.received.toLocaleString()}. To see others, say more closely what you look for.`;
    $("end").textContent = error.status === 422 ? deep : sentence(error.message);
  }
  $("end").hidden = mine.more;
}

// ---- showing

function show(found, y = 0) {
  answer = found;
  const { hits, verdict, more, received } = found;
  message();
  home.hide();
  grid.show(hits, more, { fresh: wasGone() });
  scrollTo(0, y);
  $("end").hidden = true;
  if (!anything(found.asked)) idle();
  else if (!hits.length) nothing(verdict);
  else if (verdict) say(`${sentence(verdict)} These come nearest.`, true);
  else if (hits[0].match && !LIKELY.includes(hits[0].match)) say("No likely match; the nearest first");
  else say(`${counted(received, "picture")}, best first${more ? "; more follow" : ""}`);
  filters.error("");
  sync();
}

function nothing(verdict) {
  say("No pictures.");
  const filtered = filterCount(asked) > 0;
  message("No pictures", verdict ?? (filtered ? "Nothing passes these filters." : "Nothing was found."),
    filtered && ["Clear filters", () => ask({ ...UNFILTERED, item: "" })]);
}

/** Nothing is asked for: the newest pictures stand there. */
function idle() {
  if (!index) return;
  if (!index.pictures) {
    const allowed = !$("allowed").hidden;
    message("Nothing is indexed yet", allowed ? "Choose a folder above." : "Index a folder of pictures; they appear here by themselves:");
    if (!allowed) $("message").append(Object.assign(document.createElement("pre"), { textContent: "vse index FOLDER --out INDEX" }));
    say("");
    return;
  }
  home.show(asked, index);
  if (!answer) return;
  const alone = filterCount(asked) === 1, kind = asked.hidden ? "Hidden pictures, newest first" : asked.favourite ? "Favourites, newest first" : "Newest first";
  if (!answer.hits.length) nothing(asked.favourite ? "Nothing is a favourite here yet: open a picture and press F." : asked.hidden && alone ? "Nothing is hidden." : null);
  else say(filterCount(asked) ? kind : "");
}

function refused(error) {
  answer = null;
  grid.show([], false);
  home.hide();
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

/** Box, chip, filters and title as they are asked for. */
function showAsked() {
  if ($("box").value !== asked.q) $("box").value = asked.q;
  const count = filterCount(asked);
  $("filters-count").textContent = count;
  $("filters-count").hidden = !count;
  if (index) {
    filters.show(asked);
    counts.show(asked, index.fields);
  }
  indexing.folders();
  document.title = `${asked.q || (asked.like || asked.picture ? "Like a picture" : asked.folder.split("/").at(-1) || "Pictures")} · vsekit`;
  start.show(asked);
}

/** Pictures were marked, or that was taken back. */
function marked(items, marks) {
  answers.clear();
  counts.forget();
  if ("hidden" in marks && answer) {
    const at = shownAt(), gone = marks.hidden !== Boolean(asked.hidden);
    answer.hits = gone ? without(answer, items) : withAgain(answer);
    grid.show(answer.hits, answer.more);
    if (detail.open && gone) at >= 0 && answer.hits.length ? open(Math.min(at, answer.hits.length - 1)) : detail.close();
  }
  grid.refresh();
  chosen.refresh();
  detail.marked();
  if (index) counts.show(asked, index.fields);
}

// ---- one picture, large

const shownAt = () => grid.hits.findIndex((hit) => stackOf(hit).some(({ id }) => id === asked.item));

/** item: another of the stack there. */
function open(i, item = grid.hits[i]) {
  if (!item) return;
  const stepping = Boolean(asked.item);
  asked = { ...asked, item: item.id };
  history[stepping ? "replaceState" : "pushState"](stepping ? history.state : { opened: true }, "", address(asked));
  sync();
  if (i > grid.length - 8) further();
}

/** Says false where there is nothing further. */
function step(by) {
  const to = shownAt() + by;
  if (!grid.hits[to]) return false;
  open(to);
  return true;
}

/** Opens or closes the dialog as the address says. */
async function sync() {
  if (!asked.item) {
    if (detail.open) detail.close();
    return;
  }
  const i = shownAt(), words = asked.q.trim() ? query(asked) : "";
  if (i >= 0) {
    const stack = grid.hits[i], item = stackOf(stack).find(({ id }) => id === asked.item);
    return detail.show(item, { stack, query: words, first: i === 0, last: i === grid.length - 1 && !answer.more });
  }
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

// ---- listening

let typing = false; // words typed in one go are one step to go back from

/** Keys on a picture that the grid does not know. Says whether it was one. */
function key_(key, item) {
  if (key === "f") mark(stackOf(item), { favourite: !item.meta.favourite }, marked);
  else if (key === "h") mark(stackOf(item), { hidden: !item.meta.hidden }, marked);
  else return false;
  return true;
}

listen($("file"), (files) => {
  const file = [...files].find(({ type, name }) => type.startsWith("image/") || /\.(hei[cf]|tiff?)$/i.test(name));
  if (!file) return files.length && refused(new Problem(415, { error: "this page searches with pictures only" }));
  ask({ q: "", like: "", picture: keep(file), item: "" });
});
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
addEventListener("keydown", (event) => {
  if (event.target.matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "a" && $("grid").contains(document.activeElement)) chosen.all(grid.hits);
  else if (event.key === "/") {
    $("box").focus();
    $("box").select();
  } else return;
  event.preventDefault();
});
addEventListener("popstate", () => {
  typing = false;
  const next = read(location.search), same = key(next) === key(asked);
  if (!same) leave();
  asked = next;
  if (same) return sync();
  if (chosen.size) chosen.clear();
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
const learn = () => patiently(() => call("status")).then((found) => {
  index = found;
  if ($("filters").hidden) filters.build(index);
  $("filters-toggle").hidden = !index.pictures;
  showAsked();
  if (!anything(asked) && answer) idle();
});
const status = learn().then(() => { indexing.begin(); }, refused);
showAsked();
run();
