// One page of answers after another, and how they are put in order for the eye.

import { Problem, browse, find } from "./api.js";
import { byMonth, fold, lineUnderLikely } from "./groups.js";
import { patiently } from "./patience.js";
import { restored } from "./pictures.js";
import { anything, filter } from "./query.js";

/** One page of answers, or of all pictures when nothing is asked for. fields: of the index. options: top, offset or after,
 * kind, signal. */
export async function page(asked, fields, { after, ...options }) {
  const expression = filter(asked, fields);
  if (!anything(asked)) {
    const found = await patiently(() => browse(expression, { after, ...options }), options.signal);
    return { hits: found.items, more: Boolean(found.after), after: found.after, verdict: null };
  }
  const picture = asked.picture ? restored(asked.picture) : undefined;
  if (asked.picture && !picture) {
    const remedy = "It stayed in the tab it was dropped into. Drop it here once more.";
    throw new Problem(0, { error: "The picture of this search is not here", remedy });
  }
  return patiently(() => find(asked, expression, { picture, ...options }), options.signal);
}

/** Adds hits to an answer: in stacks, with headings. Gives it, with those that are new and stand for themselves as `added`. */
export function arranged(found, hits) {
  const before = found.hits.at(-1) ?? null;
  found.added = fold(hits, found.hits);
  if (!anything(found.asked)) byMonth(found.added, before);
  else if (!found.verdict) found.lined = lineUnderLikely(found.added, { done: found.lined, before });
  if (!found.hits.length) found.hits = found.added;
  return found;
}
