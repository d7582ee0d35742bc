// Words above the pictures, and in place of them.

const $ = (id) => document.getElementById(id);

export const counted = (n, what) => `${n.toLocaleString()} ${what}${n === 1 ? "" : "s"}`;

/** What is read out, and stands above the pictures. */
export function say(text, verdict = false) {
  $("status").textContent = text;
  $("status").classList.toggle("verdict", verdict);
}

/** A few words in place of pictures, or nothing. action: [text, function]. */
export function message(title, text, action) {
  $("message").hidden = !title;
  $("message").replaceChildren();
  if (!title) return;
  $("message").append(Object.assign(document.createElement("h1"), { textContent: title }));
  if (text) $("message").append(Object.assign(document.createElement("p"), { textContent: text }));
  if (!action) return;
  const button = Object.assign(document.createElement("button"), { className: "button", textContent: action[0] });
  button.addEventListener("click", action[1]);
  $("message").append(button);
}
