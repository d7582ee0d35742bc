// The HTTP API. What the server refuses becomes a Problem; a server that is not there becomes Gone.

import { query } from "./query.js";

export class Problem extends Error {
  constructor(status, { error, remedy } = {}, retryAfter = null) {
    super(error ?? `The server answered ${status}.`);
    Object.assign(this, { status, remedy, retryAfter });
  }
}

export class Gone extends Error {}

export async function call(path, { body, signal, method = body ? "POST" : "GET" } = {}) {
  const form = body instanceof FormData;
  let response, data;
  try {
    response = await fetch(`/api/${path}`, {
      method,
      signal,
      body: !body || form ? body : JSON.stringify(body),
      headers: !body || form ? {} : { "Content-Type": "application/json" },
    });
    data = await response.text();
  } catch (error) {
    throw error.name === "AbortError" ? error : new Gone();
  }
  if (response.ok) return data ? JSON.parse(data) : null;
  const retryAfter = Number(response.headers.get("Retry-After")) || null;
  // A proxy before a server that is not there, or a server that is not ready; a busy one says when to come back.
  if ([502, 503, 504].includes(response.status) && !retryAfter) throw new Gone();
  let reason;
  try { reason = JSON.parse(data); } catch { /* not ours: a proxy's page */ }
  throw new Problem(response.status, reason, retryAfter);
}

/** One page of answers. asked: see query.js. picture: the File of an uploaded picture. */
export function find(asked, filter, { top, offset = 0, kind = "image", signal, picture }) {
  const options = { top, offset, kind, stack: kind === "image" };
  if (filter) options.filter = filter;
  if (picture) {
    const form = new FormData();
    for (const [name, value] of Object.entries(options)) form.append(name, value);
    form.append("file", picture, picture.name || "picture");
    return call("search/picture", { body: form, signal });
  }
  if (asked.like && !asked.q) return call(`items/${encodeURIComponent(asked.like)}/similar?${new URLSearchParams(options)}`, { signal });
  return call("search", { body: { query: query(asked), rerank: asked.rerank, ...options }, signal });
}

/** One page of all pictures, the newest first. after: what the page before it gave. */
export function browse(filter, { top, after, signal }) {
  const options = new URLSearchParams({ top, stack: true });
  if (filter) options.set("filter", filter);
  if (after) options.set("after", after);
  return call(`items?${options}`, { signal });
}

/** The address of a picture at most `pixels` on its longer side, from a few sizes so that caches are hit. */
export function thumbnail(item, pixels) {
  if (!item.thumbnail) return null;
  const size = [128, 256, 512, 1024].find((size) => size >= pixels) ?? 1024;
  return `${item.thumbnail}${item.thumbnail.includes("?") ? "&" : "?"}size=${size}`;
}
