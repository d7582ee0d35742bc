// What is asked for, and how it stands in the address, so that back, forward, reload and sharing work:
//   q        the words, or arithmetic over quoted words
//   like     the id of an indexed picture to start from; words then move away from it
//   picture  the key of a picture the person gave; its bytes stay in this tab
//   from, to the first and the last day, like 2021-07-04, or a month or year
//   folder   a folder, with all below it
//   favourite, hidden   1: only these
//   near     a place and how far from it: latitude, longitude, kilometres
//   f.NAME   a filter: "2020..2023", "2020.." or "..2023" for numbers; a part of a text that has too many values to choose
//            from; else a value, once for each that is chosen
//   where    a filter expression, as written
//   rerank   how many of the best are read again
//   item     the picture that is open

const SIMPLE = ["from", "to", "folder", "favourite", "hidden", "near"];
/** Asks for no filter at all. */
export const UNFILTERED = Object.freeze({ ...Object.fromEntries(SIMPLE.map((name) => [name, ""])), fields: {}, where: "" });

export function read(search) {
  const params = new URLSearchParams(search);
  const fields = {};
  for (const [name, value] of params) if (name.startsWith("f.")) (fields[name.slice(2)] ??= []).push(value);
  const get = (name) => params.get(name) ?? "";
  return {
    q: get("q"), like: get("like"), picture: get("picture"), where: get("where"), item: get("item"),
    rerank: Number(get("rerank")) || 0, fields, ...Object.fromEntries(SIMPLE.map((name) => [name, get(name)])),
  };
}

export function address(asked) {
  const params = new URLSearchParams();
  for (const name of ["q", "like", "picture", ...SIMPLE, "where", "rerank", "item"]) if (asked[name]) params.set(name, asked[name]);
  for (const [name, values] of Object.entries(asked.fields)) for (const value of values) params.append(`f.${name}`, value);
  const text = params.toString();
  return text ? `?${text}` : location.pathname;
}

export const anything = (asked) => Boolean(asked.q.trim() || asked.like || asked.picture);

/** The query as the API takes it: words, or the picture it starts from and words that move away from it. */
export function query({ q, like }) {
  const words = q.trim();
  if (!like) return words;
  if (!words) return `item:${like}`;
  const [, sign, rest] = words.match(/^([+-]?)\s*(.*)$/s);
  const terms = /^(["“(]|item:|[\d.]+\s*\*)/.test(rest) ? rest : quote(rest);
  return `item:${like} ${sign || "+"} ${terms}`;
}

/** Whether one can choose from a text field's values: there are few, and they are most of what there is. */
export function choosable({ count, values }) {
  const listed = values.reduce((sum, [, n]) => sum + n, 0);
  return values.length > 0 && listed > values.length && listed * 2 > count;
}

const quote = (text) => `"${text.replace(/[\\"]/g, "\\$&")}"`;

const RESERVED = /^(and|or|not|in|has|contains|like|true|false)$/i;

/** How many filters are set. */
export const filterCount = (asked) =>
  Object.keys(asked.fields).length + Boolean(asked.where.trim()) + Boolean(asked.from || asked.to)
  + ["folder", "favourite", "hidden", "near"].filter((name) => asked[name]).length;

/** The filter expression of all that is asked for; "" when there is none. types: the fields of the index. */
export function filter(asked, types) {
  const { fields, where } = asked, parts = people(asked);
  for (const [field, values] of Object.entries(fields)) {
    const type = types[field]?.type;
    const name = /^[a-z_]\w*$/i.test(field) && !RESERVED.test(field) ? field : quote(field);
    if (type === "number") {
      const [low, high] = range(values[0]);
      if (low !== "") parts.push(`${name} >= ${low}`);
      if (high !== "") parts.push(`${name} <= ${high}`);
    } else if (type === "text" && !choosable(types[field])) {
      parts.push(`${name} contains ${quote(values[0])}`);
    } else {
      const written = type === "boolean" ? values : values.map(quote);
      parts.push(written.length > 1 ? `${name} in (${written.join(", ")})` : `${name} = ${written[0]}`);
    }
  }
  if (where.trim()) parts.push(parts.length ? `(${where.trim()})` : where.trim());
  return parts.join(" and ");
}

/** The parts of the expression that are no fields of their own. */
function people({ from, to, folder, favourite, hidden, near }) {
  const parts = [];
  if (from) parts.push(`dated >= ${quote(from)}`);
  // The first text behind all that begin with it: a day goes on until its last second.
  if (to) parts.push(`dated < ${quote(`${to}~`)}`);
  if (folder) parts.push(`(folder = ${quote(folder)} or folder >= ${quote(`${folder}/`)} and folder < ${quote(`${folder}0`)})`);
  if (favourite) parts.push("favourite = true");
  if (hidden) parts.push("hidden = true");
  const place = near && placeOf(near);
  if (place) parts.push(box(place));
  return parts;
}

/** "48.2,16.37,10" as numbers; null where they are none, or no place on earth. */
export function placeOf(text) {
  const [lat, lon, km = 10] = text.split(",").map((part) => (part.trim() === "" ? NaN : Number(part)));
  const sound = Math.abs(lat) <= 90 && Math.abs(lon) <= 180 && km > 0 && km < 20000;
  return sound ? { lat, lon, km } : null;
}

/** All within a box around a place; degrees of longitude are shorter further from the equator, and go round. */
function box({ lat, lon, km }) {
  const high = km / 111.32, wide = Math.min(180, high / Math.max(0.01, Math.cos((lat * Math.PI) / 180)));
  const number = (value) => String(Number(value.toFixed(5)));
  const between = (name, low, top) => `${name} >= ${number(low)} and ${name} <= ${number(top)}`;
  const [west, east] = [lon - wide, lon + wide], across = between("lat", lat - high, lat + high);
  if (wide >= 180) return across;
  if (west < -180) return `${across} and (lon >= ${number(west + 360)} or lon <= ${number(east)})`;
  if (east > 180) return `${across} and (lon >= ${number(west)} or lon <= ${number(east - 360)})`;
  return `${across} and ${between("lon", west, east)}`;
}

export function range(value = "") {
  const [low, high = ""] = value.split("..");
  return [low, high].map((end) => (end.trim() !== "" && Number.isFinite(Number(end)) ? end.trim() : ""));
}
