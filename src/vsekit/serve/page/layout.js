// Justified rows, and where headings stand between them.

/**
 * Rows of one height each that fill the width and keep every picture's shape.
 * ratios: width / height. Appends to `rows`, from the first picture that is in none; the last row may be open (not full).
 * heads: places of pictures that begin a group → { room above them in pixels, whether they begin a row in any case }. A row that
 * is mostly full ends before a group, and is hardly stretched; else the group goes on in it.
 */
export function justify(ratios, width, target, gap, rows = [], heads = new Map()) {
  if (rows.at(-1)?.open) rows.pop();
  let start = rows.at(-1)?.end ?? 0;
  let top = rows.length ? rows.at(-1).top + rows.at(-1).height + gap : 0;
  const close = (end, height, open = false) => {
    let room = 0;
    for (let i = start; i < end; i++) room = Math.max(room, heads.get(i)?.room ?? 0);
    top += room;
    rows.push({ start, end, top, height, open, room });
    top += height + gap;
    start = end;
  };
  const filling = (end, sum) => (width - gap * (end - start - 1)) / sum;
  let sum = 0;
  for (let i = start; i < ratios.length; i++) {
    const full = (sum * target + gap * (i - start)) / width;
    if (heads.has(i) && i > start && (heads.get(i).alone || full > 0.6)) {
      close(i, Math.min(filling(i, sum), 1.15 * target));
      sum = 0;
    }
    sum += ratios[i];
    const height = filling(i + 1, sum);
    if (height > target) continue;
    const without = i > start ? filling(i, sum - ratios[i]) : Infinity;
    if (without - target < target - height) {
      close(i, without);
      sum = ratios[i];
      if (filling(i + 1, sum) > target) continue;
      close(i + 1, filling(i + 1, sum));
    } else close(i + 1, height);
    sum = 0;
  }
  if (start < ratios.length) close(ratios.length, Math.min(target, filling(ratios.length, sum)), true);
  return rows;
}

/** The shape of a picture, within bounds; that of most where it is not known. */
export const shape = ({ width, height }) => (width && height ? Math.min(4, Math.max(0.3, width / height)) : 4 / 3);

/** The first row that ends below y. */
export function rowAt(rows, y) {
  let low = 0, high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].top + rows[middle].height < y) low = middle + 1; else high = middle;
  }
  return low;
}

/** The row that a picture is in. */
export function rowOf(rows, index) {
  let low = 0, high = rows.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].end <= index) low = middle + 1; else high = middle;
  }
  return low;
}
