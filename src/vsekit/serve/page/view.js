// What is shown after pictures were hidden, and after that was taken back.

import { byMonth, stackOf } from "./groups.js";
import { anything } from "./query.js";

/** The hits of an answer but for these; what is left of a stack stays. */
export function without(answer, items) {
  const gone = new Set(items.map(({ id }) => id));
  answer.before = answer.hits;
  const left = [];
  for (const hit of answer.hits) {
    const members = stackOf(hit).filter(({ id }) => !gone.has(id));
    if (!members.length) continue;
    const [first, ...others] = members;
    left.push(first === hit && others.length === (hit.others?.length ?? 0) ? hit : { ...first, others, head: first === hit ? hit.head : undefined });
  }
  return headed(answer, left);
}

/** The hits as they were before, and what came since. */
export function withAgain(answer) {
  const { before = [], hits } = answer, known = new Set(before.flatMap(stackOf).map(({ id }) => id));
  delete answer.before;
  const since = hits.filter(({ id }) => !known.has(id));
  return before.length ? headed(answer, [...before, ...since]) : hits;
}

/** Headings of months belong to what is first now. */
function headed(answer, hits) {
  if (anything(answer.asked)) return hits;
  for (const hit of hits) delete hit.head;
  return byMonth(hits);
}
