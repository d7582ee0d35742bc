// What belongs together on the page: copies and bursts in stacks, months under headings, and where what is likely ends.

/** Puts hits that are of the stack of another under it. known: those that are shown already. Gives those that are left. */
export function fold(hits, known = []) {
  const first = new Map(known.map((hit) => [hit.id, hit]));
  const left = [];
  for (const hit of hits) {
    const on = hit.stack && first.get(hit.stack);
    if (on) (on.others ??= []).push(hit);
    else {
      first.set(hit.id, hit);
      left.push(hit);
    }
  }
  return left;
}

/** A picture and those stacked with it. */
export const stackOf = (hit) => [hit, ...(hit.others ?? [])];

const named = (month) => new Intl.DateTimeFormat(undefined, { month, year: "numeric", timeZone: "UTC" });
const LONG = named("long"), SHORT = named("short");

/** "2021-07" in words. */
export const monthName = (month, format = LONG) => format.format(new Date(`${month}-01T00:00:00Z`));

/** Gives the first picture of every month a heading. before: the last picture that is shown already. */
export function byMonth(hits, before = null) {
  let last = before && month(before);
  for (const hit of hits) {
    const own = month(hit);
    if (own !== last) hit.head = /^\d{4}-\d\d$/.test(own) ? { title: monthName(own), short: monthName(own, SHORT) } : { title: "Without a date" };
    last = own;
  }
  return hits;
}

const month = ({ meta }) => String(meta.dated ?? "").slice(0, 7);

export const LIKELY = ["strong", "likely"];

/** A quiet line behind the last likely one; where none is likely, behind the last that may be right. done: whether it was drawn
 * before. before: the last one that is shown already. */
export function lineUnderLikely(hits, { done = false, before = null } = {}) {
  const judged = hits.length && hits[0].match;
  if (done || !judged) return done;
  const first = before ?? hits[0], good = LIKELY.includes(first.match) ? LIKELY : [...LIKELY, "weak"];
  const last = hits.findLastIndex(({ match }) => good.includes(match));
  if ((last < 0 && !good.includes(before?.match)) || last === hits.length - 1) return false;
  hits[last + 1].head = { title: "Less likely from here", line: true };
  return true;
}
