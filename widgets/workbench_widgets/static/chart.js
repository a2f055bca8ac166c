// A chart of a metric on a canvas: curves with their spread, marks, zoom by drag, a read-out.
import { element, formatCount, formatNumber, properties, setAttribute, setText, shortened } from "./frame.js";
import {
  decimate,
  extent,
  logTicks,
  makeScale,
  nearest,
  smoothed,
  stretch,
  ticks,
} from "./scale.js";

const LEFT = 54;
const RIGHT = 10;
const TOP = 20;
const BOTTOM = 20;
const RETRY_MS = 250;
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [10, 4], [4, 2, 1, 2]];
const NAMES = ["wb-text", "wb-muted", "wb-line", "wb-edge", "wb-surface", "wb-bad", "wb-accent-soft"];
const COLOURS = [0, 1, 2, 3, 4, 5].map((number) => `wb-data-${number}`);

/** Which dash a line has: another one in each round of colours. */
function dashOf({ colour }) {
  return (colour + Math.floor(colour / COLOURS.length)) % DASHES.length;
}

/** Make the line of a chart from what a message says of it and the floats that belong to it. */
export function readLine(described, floats, offset) {
  const { n, kind } = described;
  const part = (k) => floats.subarray(offset + k * n, offset + (k + 1) * n);
  if (kind === "points") {
    return [{ ...described, at: part(0), least: part(1), greatest: part(2), mean: part(3) }, 4 * n];
  }
  const at = new Float64Array(n);
  const middle = (described.width - 1) / 2;
  for (let i = 0; i < n; i += 1) at[i] = described.first + i * described.width + middle;
  return [{ ...described, at, least: part(0), greatest: part(1), mean: part(2) }, 3 * n];
}

/** Make all charts of a message: `[{name, lines}]`. */
export function readCharts(described, floats) {
  let offset = 0;
  return described.map(({ name, lines }) => ({
    name,
    lines: lines.map((each) => {
      const [line, used] = readLine(each, floats, offset);
      offset += used;
      return line;
    }),
  }));
}

/** What a chart shows, in words, for those who do not see it. */
export function describe(name, lines) {
  if (!lines.some((line) => line.n)) return `${name}: no value yet`;
  const said = lines.filter((line) => line.n).map((line) => {
    const range = extent([line.least, line.greatest]);
    const last = line.mean[line.n - 1];
    const bounds = range ? `, between ${formatNumber(range[0])} and ${formatNumber(range[1])}` : "";
    return `${line.label}, last ${formatNumber(last)}${bounds}`;
  });
  return `${name}: ${said.join("; ")}`;
}

/**
 * A chart.  `onZoom([first, last] | null)` is told what is looked at.
 */
export class Chart {
  constructor(name, onZoom = () => {}) {
    this.name = name;
    this.unit = "batch";
    this.onZoom = onZoom;
    this.lines = [];
    this.marks = [];
    this.begin = 0;
    this.end = 1;
    this.zoom = null;
    this.logarithmic = false;
    this.kept = 0;
    this.cursor = null;
    this.drag = null;
    this.queued = false;
    this.palette = this.font = null;
    this.canvas = element("canvas", { class: "wb-canvas", role: "img", tabindex: 0 });
    this.readout = element("output", { class: "wb-readout" });
    this.reset = element(
      "button",
      { type: "button", class: "wb-reset", onclick: () => this.look(null) },
      "Show all",
    );
    this.reset.hidden = true;
    const title = element("span", { class: "wb-chart-name", title: name }, shortened(name, 40));
    this.root = element(
      "div",
      { class: "wb-chart" },
      element("div", { class: "wb-chart-head" }, title, this.readout, this.reset),
      this.canvas,
    );
    this.listen();
    // Asking an element for its size while it is drawn would have the page laid out once more.
    this.size = [0, 0];
    this.observer = new ResizeObserver(([{ contentRect }]) => {
      this.size = [contentRect.width, contentRect.height];
      this.ask();
    });
    this.observer.observe(this.canvas);
  }

  /** Show other lines and marks, over the batches `begin` to `end`, in the frame at hand. */
  update(lines, marks, begin, end) {
    this.lines = lines;
    this.marks = marks;
    this.begin = begin;
    this.end = Math.max(end, begin + 1);
    if (this.size[0] && this.canvas.isConnected) this.draw();
    else this.ask();
  }

  set(options) {
    Object.assign(this, options);
    this.ask();
  }

  look(zoom) {
    this.zoom = zoom;
    this.reset.hidden = zoom === null;
    this.onZoom(zoom);
    this.ask();
  }

  forgetColours() {
    this.palette = this.font = null;
    this.ask();
  }

  destroy() {
    this.observer.disconnect();
  }

  ask() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      if (this.queued && this.canvas.isConnected) this.draw();
      this.queued = false;
    });
  }

  // -- looking closer

  get bounds() {
    return this.zoom ?? [this.begin, this.end];
  }

  batchAt(x) {
    const [first, last] = this.bounds;
    const share = (x - LEFT) / Math.max(1, this.size[0] - LEFT - RIGHT);
    return first + Math.min(1, Math.max(0, share)) * (last - first);
  }

  listen() {
    const { canvas } = this;
    const x = (event) => event.clientX - canvas.getBoundingClientRect().left;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      this.drag = { from: this.batchAt(x(event)), to: this.batchAt(x(event)) };
    });
    canvas.addEventListener("pointermove", (event) => {
      this.point(this.batchAt(x(event)));
      if (this.drag) this.drag.to = this.cursor;
    });
    canvas.addEventListener("pointerup", () => {
      const { drag } = this;
      this.drag = null;
      if (!drag) return;
      const [first, last] = this.bounds;
      const chosen = stretch(drag.from, drag.to, first, last, (last - first) / 50);
      if (chosen) this.look(chosen);
      else this.ask();
    });
    canvas.addEventListener("pointercancel", () => {
      this.drag = null;
    });
    canvas.addEventListener("pointerleave", () => this.point(null));
    canvas.addEventListener("dblclick", () => this.look(null));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.point(null));
  }

  key(event) {
    const [first, last] = this.bounds;
    const span = last - first;
    const here = this.cursor ?? (first + last) / 2;
    const moves = { ArrowLeft: -0.02, ArrowRight: 0.02, PageDown: -0.2, PageUp: 0.2 };
    if (event.key in moves) {
      this.point(Math.min(last, Math.max(first, here + moves[event.key] * span)));
    } else if (event.key === "Home") this.point(first);
    else if (event.key === "End") this.point(last);
    else if (event.key === "+" || event.key === "=") {
      this.look(stretch(here - span / 4, here + span / 4, first, last));
    } else if (event.key === "-") {
      const wider = stretch(here - span, here + span, this.begin, this.end);
      this.look(wider && wider[1] - wider[0] < this.end - this.begin ? wider : null);
    } else if (event.key === "0") this.look(null);
    else return;
    event.preventDefault();
  }

  point(batch) {
    this.cursor = batch;
    this.ask();
  }

  told() {
    if (this.cursor === null) return "";
    const said = [];
    let at = null;
    for (const line of this.lines) {
      const place = nearest(line.at, this.cursor);
      if (place < 0) continue;
      // A curve over batches counts them from 0, people count from 1.
      at ??= line.at[place] + (line.kind === "batches" ? 1 : 0);
      const value = formatNumber(line.mean[place], 4);
      const [low, high] = [line.least[place], line.greatest[place]];
      const spread = high > low ? ` (${formatNumber(low)} to ${formatNumber(high)})` : "";
      said.push(`${line.short} ${value}${spread}`);
    }
    return at === null ? "" : `${this.unit} ${formatCount(at)}: ${said.join(", ")}`;
  }

  // -- drawing

  draw() {
    const { canvas } = this;
    const [width, height] = this.size;
    this.queued = false;
    if (!width || !height) {
      // Hidden, or between two style sheets as a theme changes: that resizes nothing in the end.
      setTimeout(() => this.ask(), RETRY_MS);
      return;
    }
    this.palette ??= properties(canvas, [...NAMES, ...COLOURS]);
    this.font ??= `11px ${getComputedStyle(canvas).fontFamily}`;
    const ratio = globalThis.devicePixelRatio || 1;
    const size = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = this.font;
    setAttribute(canvas, "aria-label", describe(this.name, this.lines));
    setText(this.readout, this.told());
    const [first, last] = this.bounds;
    const columns = Math.max(1, width - LEFT - RIGHT);
    const shown = this.lines.map((line) => {
      const seen = within(line, first, last);
      return { ...line, ...decimate(seen, columns, first, last) };
    });
    const positive = this.logarithmic;
    const range = extent(shown.flatMap((line) => [line.least, line.greatest]), positive);
    if (range === null) {
      this.say(pen, this.lines.some((line) => line.n) ? "no finite value here" : "no value yet", height);
      return;
    }
    const y = makeScale(range[0], range[1], positive);
    const X = (batch) => LEFT + ((batch - first) / Math.max(last - first, 1e-9)) * columns;
    const Y = (value) => TOP + (1 - y.place(value)) * (height - TOP - BOTTOM);
    this.drawAxes(pen, y, X, Y, width, height);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT - 1, TOP - 4, columns + 3, height - TOP - BOTTOM + 8);
    pen.clip();
    shown.forEach((line) => this.drawLine(pen, line, X, Y));
    pen.restore();
    this.drawMarks(pen, X, first, last, height);
    this.drawLegend(pen, width);
    this.drawCursor(pen, X, height);
  }

  say(pen, text, height) {
    pen.fillStyle = this.palette["wb-muted"];
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillText(text, LEFT + 8, height / 2);
  }

  drawAxes(pen, y, X, Y, width, height) {
    const { palette } = this;
    pen.strokeStyle = palette["wb-line"];
    pen.fillStyle = palette["wb-muted"];
    pen.lineWidth = 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const wanted = Math.max(2, Math.round((height - TOP - BOTTOM) / 36));
    const values = y.logarithmic ? logTicks(y.low, y.high, wanted) : ticks(y.low, y.high, wanted);
    for (const value of values) {
      const at = Math.round(Y(value)) + 0.5;
      pen.beginPath();
      pen.moveTo(LEFT, at);
      pen.lineTo(width - RIGHT, at);
      pen.stroke();
      pen.fillText(formatNumber(value), LEFT - 6, at);
    }
    pen.textBaseline = "top";
    const [first, last] = this.bounds;
    const places = ticks(first, last, Math.max(2, Math.round(width / 120)));
    for (const batch of places) {
      const at = X(batch);
      pen.textAlign = at > width - RIGHT - 24 ? "right" : at < LEFT + 12 ? "left" : "center";
      pen.fillText(formatCount(batch), at, height - BOTTOM + 5);
    }
  }

  drawLine(pen, line, X, Y) {
    const colour = this.palette[`wb-data-${line.colour % COLOURS.length}`];
    const { at, least, greatest } = line;
    const mean = smoothed(line.mean, this.kept);
    // A value that a logarithm does not have is a gap, as one that is not finite.
    const known = (value) => Number.isFinite(value) && !(this.logarithmic && value <= 0);
    let start = 0;
    const runs = [];
    for (let i = 0; i <= mean.length; i += 1) {
      if (i < mean.length && known(mean[i])) continue;
      if (i > start) runs.push([start, i]);
      start = i + 1;
    }
    pen.fillStyle = pen.strokeStyle = colour;
    for (const [from, to] of runs) {
      pen.globalAlpha = 0.22;
      pen.beginPath();
      for (let i = from; i < to; i += 1) pen.lineTo(X(at[i]), Y(greatest[i]));
      for (let i = to - 1; i >= from; i -= 1) {
        pen.lineTo(X(at[i]), Y(known(least[i]) ? least[i] : mean[i]));
      }
      pen.fill();
      if (this.kept) {
        pen.globalAlpha = 0.4;
        pen.lineWidth = 1;
        this.stroke(pen, at, line.mean, from, to, X, Y, []);
      }
      pen.globalAlpha = 1;
      pen.lineWidth = 1.75;
      this.stroke(pen, at, mean, from, to, X, Y, DASHES[dashOf(line)]);
      if (line.kind === "points" || to - from === 1) this.dots(pen, at, mean, from, to, X, Y);
    }
    this.drawGaps(pen, line, X);
  }

  stroke(pen, at, values, from, to, X, Y, dash) {
    pen.setLineDash(dash);
    pen.beginPath();
    for (let i = from; i < to; i += 1) pen.lineTo(X(at[i]), Y(values[i]));
    pen.stroke();
    pen.setLineDash([]);
  }

  dots(pen, at, values, from, to, X, Y) {
    if (to - from > 60) return;
    for (let i = from; i < to; i += 1) {
      pen.beginPath();
      pen.arc(X(at[i]), Y(values[i]), 2.5, 0, 2 * Math.PI);
      pen.fill();
    }
  }

  /** A cross at the top where a value was not finite. */
  drawGaps(pen, line, X) {
    pen.strokeStyle = this.palette["wb-bad"];
    pen.lineWidth = 1.5;
    let last = -Infinity;
    for (let i = 0; i < line.mean.length; i += 1) {
      const x = X(line.at[i]);
      if (Number.isFinite(line.mean[i]) || x - last < 7) continue;
      last = x;
      pen.beginPath();
      pen.moveTo(x - 3, TOP - 2);
      pen.lineTo(x + 3, TOP + 4);
      pen.moveTo(x + 3, TOP - 2);
      pen.lineTo(x - 3, TOP + 4);
      pen.stroke();
    }
  }

  drawMarks(pen, X, first, last, height) {
    const { palette } = this;
    const bottom = height - BOTTOM;
    pen.textBaseline = "top";
    pen.textAlign = "left";
    const taken = [];
    for (const { kind, at, short } of this.marks) {
      if (at < first || at > last) continue;
      const x = X(at);
      pen.strokeStyle = pen.fillStyle = palette[kind === "error" ? "wb-bad" : "wb-edge"];
      pen.lineWidth = 1;
      if (kind === "checkpoint") {
        pen.beginPath();
        pen.moveTo(x, bottom - 6);
        pen.lineTo(x - 4, bottom);
        pen.lineTo(x + 4, bottom);
        pen.fill();
        continue;
      }
      pen.setLineDash(kind === "best" ? [] : [3, 3]);
      pen.beginPath();
      pen.moveTo(x, TOP);
      pen.lineTo(x, bottom);
      pen.stroke();
      pen.setLineDash([]);
      pen.fillStyle = palette[kind === "error" ? "wb-bad" : "wb-text"];
      const wide = pen.measureText(short).width + 8;
      const left = x + wide > this.size[0] ? x - wide : x;
      const row = freeRow(taken, left, left + wide);
      pen.fillText(short, left + 4, TOP + 2 + 13 * row);
    }
  }

  drawLegend(pen, width) {
    let x = LEFT;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    for (const line of this.lines) {
      const label = shortened(line.label, 36);
      const used = 30 + pen.measureText(label).width + 16;
      if (x + used > width) return;
      pen.strokeStyle = this.palette[`wb-data-${line.colour % COLOURS.length}`];
      pen.lineWidth = 2;
      pen.setLineDash(DASHES[dashOf(line)]);
      pen.beginPath();
      pen.moveTo(x, 8);
      pen.lineTo(x + 24, 8);
      pen.stroke();
      pen.setLineDash([]);
      pen.fillStyle = this.palette["wb-text"];
      pen.fillText(label, x + 30, 8);
      x += used;
    }
  }

  drawCursor(pen, X, height) {
    if (this.cursor === null) return;
    if (this.drag) {
      pen.fillStyle = this.palette["wb-accent-soft"];
      pen.globalAlpha = 0.5;
      const from = X(this.drag.from);
      pen.fillRect(from, TOP, X(this.drag.to) - from, height - TOP - BOTTOM);
      pen.globalAlpha = 1;
    }
    pen.strokeStyle = this.palette["wb-edge"];
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(X(this.cursor), TOP);
    pen.lineTo(X(this.cursor), height - BOTTOM);
    pen.stroke();
  }
}

/** The first row where the place from `left` to `right` is free; it is taken from now on. */
export function freeRow(taken, left, right) {
  let row = 0;
  while ((taken[row] ?? []).some(([from, to]) => left < to && right > from)) row += 1;
  (taken[row] ??= []).push([left, right]);
  return row;
}

/** The points of a line from one before `first` to one after `last`. */
export function within(line, first, last) {
  let from = 0;
  let to = line.at.length;
  while (from + 1 < to && line.at[from + 1] < first) from += 1;
  while (to - 1 > from && line.at[to - 2] > last) to -= 1;
  const cut = (values) => values.subarray(from, to);
  return {
    at: cut(line.at),
    least: cut(line.least),
    greatest: cut(line.greatest),
    mean: cut(line.mean),
  };
}
