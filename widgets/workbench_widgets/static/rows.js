// Long lists of which only the rows in sight exist on the page.
import { element } from "./frame.js";

/** The rows that a list scrolled to `top` shows, with a few more above and below. */
export function rowsInSight(top, height, rowHeight, count, spare = 12) {
  const start = Math.max(0, Math.min(count, Math.floor(top / rowHeight)) - spare);
  const stop = Math.min(count, Math.ceil((top + height) / rowHeight) + spare);
  return [start, Math.max(start, stop)];
}

/**
 * A scrolling box of rows of one height.
 * @param {HTMLElement} box scrolls; gets one child as high as all rows
 * @param {number} rowHeight in pixels
 * @param {(index: number) => HTMLElement} make one row
 * @param {string} role of what holds the rows
 * @param {number} above pixels that a heading takes which stays in sight
 */
export function rowList(box, rowHeight, make, { role = "presentation", above = 0 } = {}) {
  const inner = element("div", { class: "wb-rows", role });
  box.append(inner);
  let count = 0;
  let planned = 0;

  function paint() {
    planned = 0;
    const [start, stop] = rowsInSight(box.scrollTop, box.clientHeight || 400, rowHeight, count);
    const made = [];
    for (let index = start; index < stop; index += 1) {
      const row = make(index);
      row.style.top = `${index * rowHeight}px`;
      row.style.height = `${rowHeight}px`;
      made.push(row);
    }
    inner.replaceChildren(...made);
  }
  function plan() {
    if (!planned) planned = requestAnimationFrame(paint);
  }
  const sizes = new ResizeObserver(plan);
  sizes.observe(box);
  box.addEventListener("scroll", plan, { passive: true });

  return {
    paint,
    plan,
    resize(rows) {
      count = rows;
      inner.style.height = `${rows * rowHeight}px`;
      paint();
    },
    /** How many rows fit. */
    page: () => Math.max(1, Math.floor((box.clientHeight - above) / rowHeight) - 1),
    /** Scroll as little as it takes to have a row in sight. */
    reveal(index) {
      const top = index * rowHeight;
      if (top < box.scrollTop) box.scrollTop = top;
      else if (top + rowHeight + above > box.scrollTop + box.clientHeight)
        box.scrollTop = top + rowHeight + above - box.clientHeight;
      paint();
    },
    stop() {
      sizes.disconnect();
      cancelAnimationFrame(planned);
    },
  };
}
