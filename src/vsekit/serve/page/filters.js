// The panel of filters: what people ask about first; all other fields of the index, folded away.

import { choosable, filterCount, range, UNFILTERED } from "./query.js";
import { element, folders, places, years } from "./shelves.js";

/** Fields that people know, by another name; the rest are for whoever made the collection. */
const PEOPLE = { camera: "Camera", orientation: "Orientation", type: "Kind" };
/** These have a section of their own. */
const ELSEWHERE = ["dated", "favourite", "hidden"];
const KILOMETRES = [1, 10, 50, 200];

export class Filters {
  /** panel: the <aside>. change({ fields, where, rerank, … }): called when a person changed something. */
  constructor(panel, change) {
    Object.assign(this, { panel, asked: UNFILTERED });
    this.change = (changed) => {
      clearTimeout(this.timer);
      change(changed);
    };
    panel.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => change(this.#read()), 200);
    });
  }

  build({ fields, reranker }) {
    this.fields = Object.fromEntries(Object.entries(fields).filter(([name]) => !ELSEWHERE.includes(name)));
    const section = (name, ...content) => element("fieldset", {}, element("legend", { textContent: name }), ...content);
    const check = (text) => {
      const input = element("input", { type: "checkbox" });
      return [input, element("label", { className: "value" }, input, element("span", { textContent: text }))];
    };
    const [favourite, favouriteRow] = check("Favourites"), [hidden, hiddenRow] = check("Hidden pictures");
    const day = (label) => element("input", { type: "date", ariaLabel: label });
    Object.assign(this, { favourite, hidden, from: day("From this day"), to: day("To this day") });
    this.years = element("div", { className: "shelves" });
    this.folders = element("div", { className: "shelves" });
    const dates = element("div", { className: "dates" }, this.from, this.to);
    const people = Object.entries(PEOPLE).filter(([name]) => this.fields[name] && this.#usable(this.fields[name], true))
      .map(([name, title]) => {
        const made = section(title, this.#controls(name, this.fields[name]));
        made.classList.toggle("spoken", name !== "camera"); // words of ours, not names
        return made;
      });
    this.folderSection = section("Folder", this.folders);
    this.panel.replaceChildren(section("Show only", favouriteRow, hiddenRow), section("Date", dates, this.years), this.folderSection,
      ...people, ...(fields.lat && fields.lon ? [this.#place()] : []), this.#more(reranker), this.#clear());
  }

  /** Years, months and folders, with counts. tree: see `shelves.tree`. */
  shelve(months, tree) {
    this.shelves = { months, tree };
    if (this.fields) this.#shelves();
  }

  #shelves() {
    const { from, to, folder } = this.asked, key = [from, to, folder].join("\n");
    if (!this.shelves || (this.shelved === this.shelves && this.shelvedFor === key)) return; // what was opened stays open
    Object.assign(this, { shelved: this.shelves, shelvedFor: key });
    const { months, tree } = this.shelves, choose = (changed) => this.change(changed);
    this.years.replaceChildren(...years(months, this.asked, choose));
    const shown = folders(tree, this.asked.folder, choose);
    this.folders.replaceChildren(...shown);
    this.folderSection.hidden = !shown.length;
  }

  #place() {
    this.at = element("input", { type: "text", placeholder: "48.2, 16.37", ariaLabel: "Latitude, longitude", spellcheck: false, inputMode: "decimal" });
    this.km = element("select", { ariaLabel: "How near" });
    for (const km of KILOMETRES) this.km.append(element("option", { value: km, textContent: `${km} km around` }));
    this.km.value = "10";
    const found = element("div", { className: "shelves places" }), box = element("details", {}, element("summary", { textContent: "Near a place" }));
    box.append(found, element("div", { className: "range" }, this.at, this.km));
    this.placeBox = box;
    const fill = () => places(found, () => this.asked.near, () => this.km.value, (changed) => this.change(changed))
      .catch(() => { found.textContent = "The places can't be read now."; });
    box.addEventListener("toggle", () => box.open && fill());
    this.refill = () => box.open && fill();
    return box;
  }

  #more(reranker) {
    const title = (name) => element("legend", { textContent: name.replaceAll("_", " ") });
    const others = Object.entries(this.fields).filter(([name, field]) => !(name in PEOPLE && this.#usable(field, true)) && this.#usable(field));
    const groups = others.map(([name, field]) => element("fieldset", {}, title(name), this.#controls(name, field)));
    this.where = element("textarea", { id: "where", rows: 2, spellcheck: false, placeholder: 'year >= 2020 and camera = "X100"' });
    this.where.setAttribute("aria-describedby", "where-error");
    this.problem = element("p", { id: "where-error", className: "error" });
    this.problem.setAttribute("role", "alert");
    const label = element("label", { htmlFor: "where", textContent: "Filter expression" });
    const written = element("fieldset", {}, element("legend", {}, label), this.where, this.problem);
    this.reread = element("input", { type: "checkbox" });
    const best = element("span", { textContent: "Read the best 50 again" }), by = element("small", { textContent: reranker ?? "" });
    const again = element("fieldset", { hidden: !reranker }, title("Order"), element("label", { className: "value" }, this.reread, best, by));
    this.moreBox = element("details", { className: "more-fields" }, element("summary", { textContent: "More fields" }), ...groups, again, written);
    return this.moreBox;
  }

  #clear() {
    this.clear = element("button", { type: "button", className: "button", textContent: "Clear filters", hidden: true });
    this.clear.addEventListener("click", () => this.change({ ...UNFILTERED, rerank: 0 }));
    return this.clear;
  }

  /** A field that is the same for all is no filter. chosen: whether it must be one to choose from. */
  #usable(field, chosen = false) {
    if (field.type === "number") return field.min < field.max && !chosen;
    return !chosen || (choosable(field) && field.values.length > 1);
  }

  #controls(name, field) {
    if (field.type === "number") {
      const end = (what, limit) => element("input", {
        type: "number", name, step: "any", placeholder: String(limit), inputMode: "decimal", ariaLabel: `${name}, ${what}`,
      });
      return element("div", { className: "range" }, end("from", field.min), element("span", { textContent: "to" }), end("to", field.max));
    }
    if (field.type === "boolean") {
      const select = element("select", { name, ariaLabel: name });
      for (const [value, textContent] of [["", "either"], ["true", "yes"], ["false", "no"]])
        select.append(element("option", { value, textContent }));
      return select;
    }
    if (!choosable(field)) {
      return element("input", { type: "text", name, ariaLabel: `${name} contains`, placeholder: "contains …", spellcheck: false });
    }
    return element("div", { className: "values" }, ...field.values.map(([value, count]) =>
      element("label", { className: "value" }, element("input", { type: "checkbox", name, value: String(value) }),
        element("span", { textContent: String(value) }), element("small", { textContent: count.toLocaleString() }))));
  }

  #named(name) { return [...this.panel.querySelectorAll("input, select")].filter((control) => control.name === name); }

  #read() {
    const fields = {};
    for (const [name, { type }] of Object.entries(this.fields)) {
      const controls = this.#named(name);
      let values;
      if (type === "number") values = controls.some((c) => c.value !== "") ? [controls.map((c) => c.value).join("..")] : [];
      else values = controls.filter((c) => c.type !== "checkbox" || c.checked).map((c) => c.value).filter((value) => value !== "");
      if (values.length) fields[name] = values;
    }
    const near = this.at?.value.trim() ? `${this.at.value.replace(/\s/g, "")},${this.km.value}` : "";
    // A month that was chosen stays one, unless one of its days was changed.
    const kept = (input, end, name) => (input.value === day(this.asked[name], end) ? this.asked[name] : input.value);
    return {
      fields, where: this.where.value.trim(), rerank: this.reread.checked ? 50 : 0, near,
      from: kept(this.from, false, "from"), to: kept(this.to, true, "to"),
      favourite: this.favourite.checked ? "1" : "", hidden: this.hidden.checked ? "1" : "",
    };
  }

  /** Sets every control to what is asked for. */
  show(asked) {
    this.asked = asked;
    for (const [name, { type }] of Object.entries(this.fields)) {
      const values = asked.fields[name] ?? [], ends = range(values[0]);
      this.#named(name).forEach((control, i) => {
        if (control.type === "checkbox") control.checked = values.includes(control.value);
        // Where one types just now may stand more than what is asked for yet.
        else if (control !== document.activeElement) control.value = type === "number" ? ends[i] : values[0] ?? "";
      });
      if (values.length && !(name in PEOPLE)) this.moreBox.open = true;
    }
    if (asked.where) this.moreBox.open = true;
    if (this.where !== document.activeElement) this.where.value = asked.where;
    if (this.from !== document.activeElement) this.from.value = day(asked.from, false);
    if (this.to !== document.activeElement) this.to.value = day(asked.to, true);
    this.favourite.checked = Boolean(asked.favourite);
    this.hidden.checked = Boolean(asked.hidden);
    if (this.at && this.at !== document.activeElement) {
      const [lat, lon, km] = asked.near.split(",");
      this.at.value = asked.near ? `${lat}, ${lon}` : "";
      if (km) this.km.value = km;
      if (asked.near) this.placeBox.open = true;
      this.refill();
    }
    this.reread.checked = Boolean(asked.rerank);
    this.clear.hidden = !filterCount(asked);
    this.#shelves();
    this.error("");
  }

  error(text) {
    if (!this.fields) return; // not built yet
    this.problem.textContent = text;
    this.where.toggleAttribute("aria-invalid", Boolean(text));
    if (text) this.moreBox.open = true;
  }
}

/** The first or the last day of a year, month or day; "" where it is none. */
function day(text, last) {
  if (!/^\d{4}(-\d\d(-\d\d)?)?$/.test(text)) return "";
  if (text.length === 10) return text;
  const [year, month] = text.split("-").map(Number);
  if (!last) return `${text}-01${month ? "" : "-01"}`;
  const end = new Date(Date.UTC(year, month || 12, 0));
  return end.toISOString().slice(0, 10);
}
