// Waiting for a server that is gone, busy, or asks for a token.

import { Gone, Problem, call } from "./api.js";

const $ = (id) => document.getElementById(id);
const waiting = new Map(); // why, by what waits
let gone = false;

/** Whether the server was gone since this was last asked: pictures that did not come then are still missing. */
export function wasGone() {
  const was = gone;
  gone = false;
  return was;
}

/** What the server says, as a sentence; further lines point at columns of what it was sent, which may not be what was typed. */
export const sentence = (text) => {
  const said = text.split("\n")[0].replace(/,? at column \d+/, "");
  return said.charAt(0).toUpperCase() + said.slice(1) + (/[.!?]$/.test(said) ? "" : ".");
};

/** Does it again for as long as the server is gone, busy, or asks for a token; the banner says why one waits. */
export async function patiently(work, signal) {
  const pause = async (why, seconds) => {
    waiting.set(work, why);
    banner();
    await sleep(seconds, signal);
  };
  try {
    for (let seconds = 1; ; seconds = Math.min(2 * seconds, 8)) {
      try {
        return await work();
      } catch (error) {
        if (error instanceof Gone) {
          gone = true;
          await pause("The server is not answering. This page goes on by itself when it is back.", seconds);
        } else if (error.status === 401) await token();
        else if (error.status === 429 || error.status === 503) {
          const why = error.status === 429 ? "That was a little fast for this server." : sentence(error.message);
          await pause(`${why} Going on in a moment.`, error.retryAfter ?? 2);
        } else throw error;
      }
    }
  } finally {
    waiting.delete(work);
    banner();
  }
}

function banner() {
  const text = [...waiting.values()].at(-1) ?? "";
  if ($("banner").textContent !== text) $("banner").textContent = text;
  $("banner").hidden = !text;
}

const sleep = (seconds, signal) => new Promise((resolve, reject) => {
  setTimeout(resolve, 1000 * seconds);
  addEventListener("online", resolve, { once: true });
  signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
});

function token() {
  token.asking ??= new Promise((resolve, reject) => {
    const dialog = $("token");
    dialog.onsubmit = async (event) => {
      event.preventDefault();
      try {
        await call("session", { body: { token: $("token-box").value } });
        dialog.onclose = null;
        dialog.close();
        resolve();
      } catch (error) {
        $("token-error").textContent = error instanceof Gone ? "The server is not answering." : sentence(error.message);
        $("token-box").select();
      }
    };
    dialog.onclose = () => reject(new Problem(401, { error: "This index asks for a token" }));
    $("token-error").textContent = "";
    dialog.showModal();
  }).finally(() => { token.asking = null; });
  return token.asking;
}
