// A value in figures, as a histogram, as a picture.
import { asFloats, element, properties } from "./frame.js";

const COLOURS = ["wb-surface", "wb-data-0", "wb-data-1", "wb-bad"];

/** Take `#abc`, `#aabbcc` or `rgb(...)` apart. */
export function channels(colour) {
  const short = /^#([\da-f])([\da-f])([\da-f])$/i.exec(colour);
  if (short) return short.slice(1).map((digit) => parseInt(digit + digit, 16));
  const long = /^#([\da-f]{2})([\da-f]{2})([\da-f]{2})$/i.exec(colour);
  if (long) return long.slice(1).map((digits) => parseInt(digits, 16));
  const parts = (colour.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number);
  return parts.length === 3 ? parts : [128, 128, 128];
}

const between = (from, to, share) => from.map((start, at) => start + (to[at] - start) * share);

/**
 * Colours for the cells of a heat map: from the surface to one colour, or from one to another
 * through the surface where there are numbers of both signs.
 * @returns {Uint8ClampedArray} red, green, blue, alpha
 */
export function heatColours(cells, palette) {
  let low = Infinity;
  let high = -Infinity;
  for (const cell of cells) {
    if (cell < low) low = cell;
    if (cell > high) high = cell;
  }
  const widest = Math.max(-low, high);
  const pixels = new Uint8ClampedArray(cells.length * 4);
  cells.forEach((cell, at) => {
    let colour = palette.bad;
    if (!Number.isNaN(cell)) {
      if (low < 0 && high > 0)
        colour = between(palette.surface, cell < 0 ? palette.negative : palette.positive,
          Math.abs(cell) / widest);
      // Halved first: the width of the whole range of numbers is none itself.
      else if (low === high) colour = between(palette.surface, palette.positive, 0.5);
      else {
        const share = (cell / 2 - low / 2) / (high / 2 - low / 2);
        const end = high <= 0 ? palette.negative : palette.positive;
        colour = between(palette.surface, end, high <= 0 ? 1 - share : share);
      }
    }
    pixels.set([...colour, 255], at * 4);
  });
  return { pixels, low, high };
}

function palette(node, drawn) {
  const found = properties(node, COLOURS);
  // A theme may say `white`; a canvas knows all names and gives them back as digits.
  const colour = (name) => {
    drawn.fillStyle = "#808080";
    drawn.fillStyle = found[name];
    return channels(drawn.fillStyle);
  };
  return {
    surface: colour("wb-surface"),
    positive: colour("wb-data-1"),
    negative: colour("wb-data-0"),
    bad: colour("wb-bad"),
  };
}

function drawPicture(canvas, picture, cells) {
  const drawn = canvas.getContext("2d");
  const pixels = drawn.createImageData(picture.columns, picture.rows);
  if (picture.is_image) {
    for (let at = 0; at < picture.rows * picture.columns; at += 1) {
      const colour = [0, 1, 2].map((channel) => cells[at * 3 + channel] * 255);
      pixels.data.set([...colour, 255], at * 4);
    }
  } else pixels.data.set(heatColours(cells, palette(canvas, drawn)).pixels);
  drawn.putImageData(pixels, 0, 0);
}

function pictureFigure(picture, cells, redraws) {
  const scale = Math.max(1,
    Math.min(12, Math.floor(256 / picture.columns), Math.floor(160 / picture.rows)));
  const said = `${picture.of}, ${picture.rows} by ${picture.columns} cells`;
  const canvas = element("canvas", {
    class: "wb-picture", role: "img", "aria-label": said,
    width: picture.columns, height: picture.rows,
  });
  canvas.style.width = `${picture.columns * scale}px`;
  canvas.style.height = `${Math.max(12, picture.rows * scale)}px`;
  const draw = () => drawPicture(canvas, picture, cells);
  redraws.push(draw);
  requestAnimationFrame(draw);
  const notes = [picture.of];
  if (!picture.is_image) {
    const isSigned = cells.some((cell) => cell < 0) && cells.some((cell) => cell > 0);
    if (isSigned) notes.push("blue below 0, orange above");
    if (cells.some(Number.isNaN)) notes.push("red: not finite");
  }
  return element("figure", {}, canvas, element("figcaption", {}, notes.join(" · ")));
}

function histogramFigure(histogram) {
  const { counts, edges } = histogram;
  const most = Math.max(...counts);
  const said = `histogram from ${edges[0]} to ${edges[1]}, most in a bin: ${most}`;
  const bars = element("div", { class: "wb-bars", role: "img", "aria-label": said });
  counts.forEach((count) => {
    const bar = element("span", {});
    bar.style.height = count ? `${Math.max(3, (100 * count) / most)}%` : "0";
    bars.append(bar);
  });
  const ends = element("div", { class: "wb-ends", "aria-hidden": "true" },
    element("span", {}, edges[0]), element("span", {}, edges[1]));
  return element("figure", {}, bars, ends, element("figcaption", {}, "histogram"));
}

/**
 * What there is to see of a value.
 * @param {object} shown the message about it
 * @param {DataView[]} buffers of the whole message
 * @param {Array<() => void>} redraws gets what must be drawn again in another theme
 */
export function valueBlock(shown, buffers, redraws) {
  if (shown.why) return element("p", { class: "wb-muted" }, shown.why);
  const figures = element("dl", { class: "wb-figures" });
  for (const [name, text] of shown.figures) {
    const isBad = (name === "NaN" || name === "inf") && text !== "0";
    figures.append(
      element("div", { class: isBad ? "wb-bad" : null },
        element("dt", {}, name), element("dd", {}, isBad ? `${text} !` : text)),
    );
  }
  const pictures = element("div", { class: "wb-pictures" });
  if (shown.histogram) pictures.append(histogramFigure(shown.histogram));
  const { picture } = shown;
  if (picture && buffers[picture.buffer])
    pictures.append(pictureFigure(picture, asFloats(buffers[picture.buffer]), redraws));
  const grid = element("pre", { class: "wb-grid", tabindex: "0", "aria-label": "elements" },
    shown.grid);
  return element("div", {}, figures, pictures, grid);
}
