// Pictures people bring along. They stay in this tab: the address holds a key, and a small copy outlives a reload.

const pictures = new Map();

export function keep(file) {
  const name = Math.random().toString(36).slice(2, 10);
  pictures.set(name, file);
  return name;
}

/** A small copy as a data: address, kept in this tab so that a reload can search with it again; null if it can't be drawn. */
export async function preview(name) {
  const kept = sessionStorage.getItem(`picture ${name}`);
  if (kept) return JSON.parse(kept).source;
  const file = pictures.get(name), bitmap = file && (await createImageBitmap(file).catch(() => null));
  if (!bitmap) return null;
  const scale = Math.min(1, 512 / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: bitmap.width * scale, height: bitmap.height * scale });
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const source = canvas.toDataURL("image/jpeg", 0.9);
  try { sessionStorage.setItem(`picture ${name}`, JSON.stringify({ name: file.name, source })); } catch { /* full: not kept */ }
  return source;
}

/** The File someone gave, or after a reload the small copy of it. */
export function restored(name) {
  const kept = !pictures.has(name) && sessionStorage.getItem(`picture ${name}`);
  if (kept) {
    const { name: called, source } = JSON.parse(kept);
    const bytes = Uint8Array.from(atob(source.split(",")[1]), (c) => c.charCodeAt(0));
    pictures.set(name, new File([bytes], called, { type: "image/jpeg" }));
  }
  return pictures.get(name);
}
