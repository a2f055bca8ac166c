import assert from "node:assert/strict";
import { test } from "node:test";

import { describe, freeRow, readCharts, within } from "../../widgets/workbench_widgets/static/chart.js";
import {
  decimate,
  extent,
  logTicks,
  makeScale,
  nearest,
  smoothed,
  stretch,
  ticks,
} from "../../widgets/workbench_widgets/static/scale.js";

const line = (values) => ({
  at: Float64Array.from(values, (_, i) => i),
  least: Float32Array.from(values),
  greatest: Float32Array.from(values),
  mean: Float32Array.from(values),
});

test("a scale goes from 0 to 1 and back", () => {
  for (const logarithmic of [false, true]) {
    const scale = makeScale(0.01, 100, logarithmic);
    assert.ok(Math.abs(scale.place(0.01)) < 1e-12);
    assert.ok(Math.abs(scale.place(100) - 1) < 1e-12);
    assert.ok(Math.abs(scale.value(scale.place(3)) - 3) < 1e-9);
  }
  assert.ok(Math.abs(makeScale(0.01, 100, true).place(1) - 0.5) < 1e-12);
});

test("a scale of one value has that value in its middle", () => {
  for (const value of [0, 3, -2, 1e-30]) {
    const scale = makeScale(value, value);
    assert.ok(Math.abs(scale.place(value) - 0.5) < 1e-6, String(value));
  }
});

test("a scale over all that float32 holds gives finite places", () => {
  const scale = makeScale(-3.4e38, 3.4e38);
  assert.ok(Math.abs(scale.place(0) - 0.5) < 1e-12);
  const thin = makeScale(1e-30, 1e30, true);
  assert.ok(Math.abs(thin.place(1) - 0.5) < 1e-12);
});

test("ticks are round and lie within", () => {
  assert.deepEqual(ticks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(ticks(-3, 7, 5), [-2, 0, 2, 4, 6]);
  assert.deepEqual(ticks(2, 2), [2]);
  assert.deepEqual(ticks(NaN, NaN), []);
});

test("ticks of a logarithmic scale are powers of ten", () => {
  assert.deepEqual(logTicks(0.01, 100), [0.01, 0.1, 1, 10, 100]);
  assert.ok(logTicks(1e-30, 1e30).length <= 9);
  assert.ok(logTicks(2, 3).length >= 2);
});

test("smoothing keeps a constant, follows a trend and leaves gaps", () => {
  const constant = smoothed(Float32Array.from([2, 2, 2]), 0.9);
  assert.ok(constant.every((value) => Math.abs(value - 2) < 1e-6));
  const gap = smoothed(Float32Array.from([1, NaN, 3]), 0.5);
  assert.ok(Number.isNaN(gap[1]));
  assert.ok(gap[2] > 1 && gap[2] < 3);
  const values = Float32Array.from([1, 2]);
  assert.equal(smoothed(values, 0), values);
});

test("an extent leaves out what is not finite, and for a logarithm what is not above 0", () => {
  assert.deepEqual(extent([Float32Array.from([NaN, 1, -2, Infinity])]), [-2, 1]);
  assert.deepEqual(extent([Float32Array.from([0, 4, -2, 2])], true), [2, 4]);
  assert.equal(extent([Float32Array.from([NaN])]), null);
  assert.equal(extent([]), null);
});

test("the nearest place is found at both ends and between", () => {
  const at = [0, 10, 20, 30];
  assert.deepEqual([-5, 4, 6, 14, 99].map((wanted) => nearest(at, wanted)), [0, 0, 1, 1, 3]);
  assert.equal(nearest([], 3), -1);
});

test("no spike is lost when there are more points than pixels", () => {
  const values = new Float32Array(100_000);
  values[77_777] = 5;
  values[22_222] = -5;
  const made = decimate(line(values), 500, 0, 100_000);
  assert.ok(made.at.length <= 501);
  assert.deepEqual(extent([made.least, made.greatest]), [-5, 5]);
});

test("few points stay as they are", () => {
  const values = line([1, 2, 3]);
  assert.equal(decimate(values, 500, 0, 3).mean, values.mean);
});

test("a stretch of gaps stays a gap when points become fewer", () => {
  const made = decimate(line(new Float32Array(10_000).fill(NaN)), 100, 0, 10_000);
  assert.ok(made.mean.every(Number.isNaN));
});

test("a drag gives a stretch within bounds, a click gives none", () => {
  assert.deepEqual(stretch(80, 20, 0, 50), [20, 50]);
  assert.equal(stretch(20, 20.5, 0, 50), null);
});

test("a view of a part has a point beyond each edge, so that lines reach the edges", () => {
  const seen = within(line([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), 3, 6);
  assert.ok(seen.at[0] <= 3 && seen.at.at(-1) >= 6);
  assert.ok(seen.at.length < 10);
});

test("charts are read from what a message describes", () => {
  const described = [
    {
      name: "loss",
      lines: [
        { kind: "batches", label: "loss", n: 2, first: 4, width: 2 },
        { kind: "points", label: "evaluated", n: 1 },
      ],
    },
  ];
  const [chart] = readCharts(described, Float32Array.from([1, 2, 3, 4, 2, 3, 7, 0.5, 0.5, 0.5]));
  assert.deepEqual([...chart.lines[0].at], [4.5, 6.5]);
  assert.deepEqual([...chart.lines[0].mean], [2, 3]);
  assert.deepEqual([...chart.lines[1].at], [7]);
  assert.equal(
    describe("loss", chart.lines),
    "loss: loss, last 3, between 1 and 4; evaluated, last 0.5, between 0.5 and 0.5",
  );
});

test("a chart of nothing says so", () => {
  assert.equal(describe("loss", []), "loss: no value yet");
});

test("labels that would overlap stand below each other", () => {
  const taken = [];
  const rows = [[0, 40], [30, 70], [50, 90], [35, 60]].map((place) => freeRow(taken, ...place));
  assert.deepEqual(rows, [0, 1, 0, 2]);
});
