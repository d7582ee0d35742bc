// What is asked for, and how it stands in the address, so that back, forward, reload and sharing work:
//   q        the words, or arithmetic over quoted words
//   like     the id of an indexed picture to start from; words then move away from it
//   picture  the key of a picture the person gave; its bytes stay in this tab
//   f.NAME   a filter: "2020..2023", "2020.." or "..2023" for numbers; a part of a text that has too many values to choose
//            from; else a value, once for each that is chosen
//   where    a filter expression, as written
//   rerank   how many of the best are read again
//   item     the picture that is open

export function read(search) {
  const params = new URLSearchParams(search);
  const fields = {};
  for (const [name, value] of params) if (name.startsWith("f.")) (fields[name.slice(2)] ??= []).push(value);
  const get = (name) => params.get(name) ?? "";
  return {
    q: get("q"), like: get("like"), picture: get("picture"), where: get("where"), item: get("item"),
    rerank: Number(get("rerank")) || 0, fields,
  };
}

export function address(asked) {
  const params = new URLSearchParams();
  for (const name of ["q", "like", "picture", "where", "rerank", "item"]) if (asked[name]) params.set(name, asked[name]);
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

/** The filter expression of all fields and of `where`; "" when there is none. types: the fields of the index. */
export function filter({ fields, where }, types) {
  const parts = [];
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

export function range(value = "") {
  const [low, high = ""] = value.split("..");
  return [low, high].map((end) => (end.trim() !== "" && Number.isFinite(Number(end)) ? end.trim() : ""));
}
