// What is known of a picture, beside it: for people first, the rest folded away.

import { degrees } from "./shelves.js";

const $ = (id) => document.getElementById(`detail-${id}`);
/** Said in other words above them, or of no use to people. */
const TOLD = ["taken", "dated", "year", "month", "camera", "lens", "lat", "lon", "width", "height", "folder", "name", "favourite", "hidden"];
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "long", timeStyle: "short", timeZone: "UTC" });

/** link(change): an address. ask(change): goes there. */
export function facts(item, { link, ask }) {
  const { captions, meta, width, height } = item;
  section("captions", "Captions", captions.length && list("ul", captions.map((text) => [text])));
  const known = [], at = meta.dated && new Date(`${String(meta.dated).replace(" ", "T")}Z`);
  if (at && !Number.isNaN(at.getTime())) known.push([meta.taken ? "Taken" : "Changed", DAY.format(at)]);
  if (meta.camera) known.push(["Camera", [meta.camera, meta.lens].filter(Boolean).join(", ")]);
  if (typeof meta.lat === "number" && typeof meta.lon === "number")
    known.push(["Place", [degrees(meta.lat, meta.lon), " ", goes("Near here", { near: `${meta.lat},${meta.lon},10` }, link, ask)]]);
  if (meta.folder) known.push(["Folder", path(String(meta.folder), item, link, ask)]);
  if (width && height) known.push(["Size", `${width} × ${height}`]);
  section("meta", "", known.length && list("dl", known));
  const said = (value) => (value === true ? "yes" : value === false ? "no" : String(value));
  const others = Object.entries(meta).filter(([name]) => !TOLD.includes(name)).map(([name, value]) => [name.replaceAll("_", " "), said(value)]);
  const open = $("others").querySelector("details")?.open ?? false;
  $("others").hidden = !others.length;
  const box = document.createElement("details");
  box.append(Object.assign(document.createElement("summary"), { textContent: "More fields" }), list("dl", others));
  box.open = open;
  $("others").replaceChildren(box);
}

/** A folder as links: each leads to what lies there, the last with this picture open in it. */
function path(folder, item, link, ask) {
  const names = folder.split("/");
  return names.flatMap((name, i) => {
    const at = names.slice(0, i + 1).join("/");
    return [...(i ? [" › "] : []), goes(name, { folder: at, item: i === names.length - 1 ? item.picture || item.id : "" }, link, ask)];
  });
}

function goes(text, change, link, ask) {
  const there = { q: "", like: "", picture: "", item: "", ...change };
  const made = Object.assign(document.createElement("a"), { href: link(there), textContent: text });
  made.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    ask(there);
  });
  return made;
}

export function section(id, title, content) {
  $(id).hidden = !content;
  if (!content) return;
  const heading = title ? [Object.assign(document.createElement("h3"), { textContent: title })] : [];
  $(id).replaceChildren(...heading, ...[content].flat());
}

function list(name, rows) {
  const made = document.createElement(name), cells = name === "dl" ? ["dt", "dd"] : ["li"];
  for (const row of rows) row.forEach((content, i) => {
    const cell = document.createElement(cells[i]);
    cell.append(...[content].flat());
    made.append(cell);
  });
  return made;
}
