import assert from "node:assert/strict";
import { test } from "node:test";

import { asker } from "../../widgets/workbench_widgets/static/asking.js";
import { lineOf, ordered, picked } from "../../widgets/workbench_widgets/static/placements.js";
import { rowsInSight } from "../../widgets/workbench_widgets/static/rows.js";
import { firstLevels, treeShape } from "../../widgets/workbench_widgets/static/shape.js";
import { sinceThen } from "../../widgets/workbench_widgets/static/standing.js";
import { channels, heatColours } from "../../widgets/workbench_widgets/static/value.js";

// root(0) has 1 and 4, 1 has 2 and 3, 4 has 5
const small = () => treeShape(Int32Array.from([2, 2, 0, 0, 1, 0]));

test("a tree's form gives parents, levels and positions", () => {
  const shape = small();
  assert.deepEqual([...shape.parent], [-1, 0, 1, 1, 0, 4]);
  assert.deepEqual([...shape.level], [0, 1, 2, 2, 1, 2]);
  assert.deepEqual([...shape.position], [0, 0, 0, 1, 1, 0]);
});

test("only what is below open places is in sight", () => {
  const shape = small();
  assert.deepEqual([...shape.visible()], [0]);
  shape.setOpen(0, true);
  assert.deepEqual([...shape.visible()], [0, 1, 4]);
  shape.openSiblings(1);
  assert.deepEqual([...shape.visible()], [0, 1, 2, 3, 4, 5]);
  shape.setOpen(1, false);
  assert.deepEqual([...shape.visible()], [0, 1, 4, 5]);
  assert.deepEqual([0, 1, 2, 4].map((place) => shape.indexOf(place)), [0, 1, -1, 2]);
});

test("revealing a place opens what is above it and nothing else", () => {
  const shape = small();
  shape.reveal(3);
  assert.deepEqual([...shape.visible()], [0, 1, 2, 3, 4]);
  shape.setAll(false);
  assert.deepEqual([...shape.visible()], [0]);
  shape.setAll(true, 1);
  assert.deepEqual([...shape.visible()], [0, 1, 4]);
});

test("a leaf cannot be opened, and one place alone is a tree", () => {
  const shape = treeShape(Int32Array.from([0]));
  shape.setOpen(0, true);
  assert.ok(!shape.isOpen(0));
  assert.deepEqual([...shape.visible()], [0]);
});

test("a chain of 20,000 places opens at once", () => {
  const below = new Int32Array(20000).fill(1);
  below[19999] = 0;
  const shape = treeShape(below);
  const began = performance.now();
  shape.setAll(true);
  assert.equal(shape.visible().length, 20000);
  assert.equal(shape.indexOf(19999), 19999);
  assert.ok(performance.now() - began < 100);
  assert.equal(shape.level[19999], 19999);
});

test("at first so many levels are open as fit", () => {
  assert.equal(firstLevels(small(), 3), 1);
  assert.equal(firstLevels(small(), 6), 2);
  assert.equal(firstLevels(treeShape(Int32Array.from([0]))), 1);
});

test("rows in sight stay within the list", () => {
  assert.deepEqual(rowsInSight(0, 240, 24, 10000, 2), [0, 12]);
  assert.deepEqual(rowsInSight(2400, 240, 24, 10000, 2), [98, 112]);
  assert.deepEqual(rowsInSight(999999, 240, 24, 10, 2), [8, 10]);
  assert.deepEqual(rowsInSight(0, 240, 24, 0), [0, 0]);
});

const side = (mode, code, size, readable = true) =>
  [mode, code, "because", size, `${size}`, readable ? "stored" : "no: Local", readable];
const lines = [
  ["x", side("on device", "37", 8), side("on device", "37", 8), false],
  ["hidden", side("local", "1", 4, false), side("on device", "66", 64), true],
  ["gone", side("virtual", "0", 0), null, true],
  ["abs", side("virtual", "0", 0), side("virtual", "0", 0), false],
].map(lineOf);
const names = (found) => found.map((line) => line.name);

test("lines are put in order, equal ones stay as they are", () => {
  assert.deepEqual(names(ordered(lines, "node", false)), ["abs", "gone", "hidden", "x"]);
  assert.deepEqual(names(ordered(lines, "bytes", true)), ["hidden", "x", "gone", "abs"]);
  assert.deepEqual(names(ordered(lines, "code", false)), ["gone", "abs", "x", "hidden"]);
  assert.deepEqual(names(ordered(lines, "", false)), ["x", "hidden", "gone", "abs"]);
});

test("lines are picked by mode on either side, by text and by change", () => {
  assert.deepEqual(names(picked(lines, { mode: "local" })), ["hidden"]);
  assert.deepEqual(names(picked(lines, { mode: "on device" })), ["x", "hidden"]);
  assert.deepEqual(names(picked(lines, { changed: true })), ["hidden", "gone"]);
  assert.deepEqual(names(picked(lines, { text: " ABS" })), ["abs"]);
  assert.deepEqual(names(picked(lines, {})), ["x", "hidden", "gone", "abs"]);
});

const palette = { surface: [0, 0, 0], positive: [200, 100, 0], negative: [0, 100, 200], bad: [9, 9, 9] };
const colours = (cells) => {
  const { pixels } = heatColours(Float32Array.from(cells), palette);
  return cells.map((_, at) => [...pixels.subarray(4 * at, 4 * at + 3)]);
};

test("numbers of both signs meet at the surface, what is no number stands out", () => {
  assert.deepEqual(colours([-2, 0, 2, NaN]), [[0, 100, 200], [0, 0, 0], [200, 100, 0], [9, 9, 9]]);
});

test("equal numbers, one sign and the whole range of numbers have colours", () => {
  assert.deepEqual(colours([3, 3]), [[100, 50, 0], [100, 50, 0]]);
  assert.deepEqual(colours([1, 2]), [[0, 0, 0], [200, 100, 0]]);
  assert.deepEqual(colours([-2, -1]), [[0, 100, 200], [0, 0, 0]]);
  assert.deepEqual(colours([-3.4e38, 3.4e38]), [[0, 100, 200], [200, 100, 0]]);
  assert.deepEqual(colours([NaN, NaN]), [[9, 9, 9], [9, 9, 9]]);
});

test("colours are read as the theme writes them", () => {
  assert.deepEqual(channels("#fff"), [255, 255, 255]);
  assert.deepEqual(channels("#0072b2"), [0, 114, 178]);
  assert.deepEqual(channels("rgb(1, 2, 3)"), [1, 2, 3]);
  assert.deepEqual(channels("var(--unknown)"), [128, 128, 128]);
});

/** A model that remembers what is sent and can be made to answer. */
function fakeModel() {
  const listeners = [];
  return {
    sent: [],
    on: (_, listener) => listeners.push(listener),
    off: () => listeners.splice(0),
    send(message) { this.sent.push(message); },
    tell: (message, buffers) => listeners.forEach((listener) => listener(message, buffers)),
  };
}

test("answers reach the question that they are for, in any order", async () => {
  const model = fakeModel();
  const questions = asker(model);
  const [first, second] = [questions.ask("rows"), questions.ask("rows")];
  model.tell({ t: "rows", req: "of another page" });
  model.tell(null);
  model.tell({ t: "rows", req: model.sent[1].req, rows: [2] });
  model.tell({ t: "rows", req: model.sent[0].req, rows: [1] }, [7]);
  assert.deepEqual((await first).rows, [1]);
  assert.deepEqual((await first).buffers, [7]);
  assert.deepEqual((await second).rows, [2]);
  questions.stop();
});

test("a refusal ends the question that it answers and no other of its name", async () => {
  const model = fakeModel();
  const questions = asker(model);
  const other = questions.ask("apply");
  const refused = questions.ask("apply");
  model.tell({ t: "refused", ask: "apply", req: "of another page", text: "not you" });
  model.tell({ t: "refused", ask: "apply", req: model.sent[1].req, text: "no; do that" });
  await assert.rejects(refused, /no; do that/);
  model.tell({ req: model.sent[0].req });
  await other;
  questions.stop();
});

test("a view of a run says how far the run has gone since it was read", () => {
  const at = (since, other = false) => sinceThen({ step: 1200, since, other });
  assert.equal(at(0), "");
  assert.equal(at(1), "The run has made 1 update since.");
  assert.equal(at(1200), "The run has made 1\u2009200 updates since.");
  assert.equal(at(-30), "The run stands at update 1\u2009200 now.");
  assert.match(at(5, true), /another step.*read again/);
});
