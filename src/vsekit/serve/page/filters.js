// The panel of filters, made from the fields of the index.

import { choosable, range } from "./query.js";

const element = (name, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};

export class Filters {
  /** panel: the <aside>. change({ fields, where, rerank }): called when a person changed something. */
  constructor(panel, change) {
    this.panel = panel;
    panel.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => change(this.#read()), 200);
    });
  }

  build({ fields, reranker }) {
    this.fields = fields;
    const title = (name) => element("legend", { textContent: name.replaceAll("_", " ") });
    // A number that is always the same is no filter.
    const groups = Object.entries(fields).filter(([, { type, min, max }]) => type !== "number" || min < max).map(([name, field]) => {
      return element("fieldset", {}, title(name), this.#controls(name, field));
    });
    this.where = element("textarea", { id: "where", rows: 2, spellcheck: false, placeholder: 'year >= 2020 and camera = "X100"' });
    this.where.setAttribute("aria-describedby", "where-error");
    this.problem = element("p", { id: "where-error", className: "error" });
    this.problem.setAttribute("role", "alert");
    const label = element("label", { htmlFor: "where", textContent: "Filter expression" });
    const written = element("fieldset", {}, element("legend", {}, label), this.where, this.problem);
    this.reread = element("input", { type: "checkbox" });
    const best = element("span", { textContent: "Read the best 50 again" }), by = element("small", { textContent: reranker ?? "" });
    const choice = element("label", { className: "value" }, this.reread, best, by);
    const again = element("fieldset", { hidden: !reranker }, title("Order"), choice);
    this.clear = element("button", { type: "button", className: "button", textContent: "Clear filters", hidden: true });
    this.clear.addEventListener("click", () => {
      this.show({ fields: {}, where: "", rerank: 0 });
      this.panel.dispatchEvent(new Event("input"));
    });
    this.panel.replaceChildren(...groups, again, written, this.clear);
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
    return { fields, where: this.where.value.trim(), rerank: this.reread.checked ? 50 : 0 };
  }

  /** Sets every control to what is asked for. */
  show(asked) {
    for (const [name, { type }] of Object.entries(this.fields)) {
      const values = asked.fields[name] ?? [], ends = range(values[0]);
      this.#named(name).forEach((control, i) => {
        if (control.type === "checkbox") control.checked = values.includes(control.value);
        // Where one types just now may stand more than what is asked for yet.
        else if (control !== document.activeElement) control.value = type === "number" ? ends[i] : values[0] ?? "";
      });
    }
    if (this.where !== document.activeElement) this.where.value = asked.where;
    this.reread.checked = Boolean(asked.rerank);
    this.clear.hidden = !Filters.count(asked);
    this.error("");
  }

  static count({ fields, where }) { return Object.keys(fields).length + Boolean(where.trim()); }

  error(text) {
    if (!this.fields) return; // not built yet
    this.problem.textContent = text;
    this.where.toggleAttribute("aria-invalid", Boolean(text));
  }
}
