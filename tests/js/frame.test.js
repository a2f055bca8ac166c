import assert from "node:assert/strict";
import { test } from "node:test";

import {
  asFloats,
  formatBytes,
  formatCount,
  formatNumber,
  isOwnKey,
  shortened,
  tell,
} from "../../widgets/workbench_widgets/static/frame.js";

const key = (name, held = {}) => ({ key: name, ...held });

test("plain keys stay in the view", () => {
  for (const name of ["x", "d", "ArrowDown", " ", "Enter"]) assert.ok(isOwnKey(key(name)), name);
});

test("Escape, Shift+Enter and chords are the notebook's", () => {
  assert.ok(!isOwnKey(key("Escape")));
  assert.ok(!isOwnKey(key("Enter", { shiftKey: true })));
  assert.ok(!isOwnKey(key("s", { ctrlKey: true })));
  assert.ok(!isOwnKey(key("s", { metaKey: true })));
});

test("numbers are short, and nothing is lost of what is no number", () => {
  const shown = [0, 0.5, 0.012345, 1e-30, -1e30, 123456, 1234567, NaN, Infinity, -Infinity];
  const texts = ["0", "0.5", "0.0123", "1e-30", "-1e+30", "123000", "1.23e+6", "NaN", "inf", "-inf"];
  assert.deepEqual(shown.map((value) => formatNumber(value)), texts);
});

test("counts are grouped by thousands", () => {
  assert.equal(formatCount(1234567), "1\u2009234\u2009567");
  assert.equal(formatCount(999), "999");
});

test("bytes have the unit that leaves few digits", () => {
  assert.deepEqual([0, 999, 12345, 1.5e9].map(formatBytes), ["0 B", "999 B", "12.3 kB", "1.5 GB"]);
});

test("a long text is cut between characters, not within one", () => {
  assert.equal(shortened("abc", 3), "abc");
  assert.equal([...shortened("😀".repeat(100), 10)].length, 10);
});

test("octets are read as floats wherever they begin", () => {
  const octets = new Uint8Array(13);
  new Float32Array(octets.buffer, 0, 3).set([1.5, -2, NaN]);
  assert.deepEqual([...asFloats(new DataView(octets.buffer, 0, 12))], [1.5, -2, NaN]);
  octets.copyWithin(1, 0, 12);
  assert.deepEqual([...asFloats(new DataView(octets.buffer, 1, 12))], [1.5, -2, NaN]);
});

test("a message to a kernel that is gone is told, and raises nothing", () => {
  const sent = [];
  assert.equal(tell({ send: (content) => sent.push(content) }, { ask: "x" }), true);
  const gone = { send: () => { throw new Error("Cannot send"); } };
  assert.equal(tell(gone, { ask: "x" }), false);
  assert.deepEqual(sent, [{ ask: "x" }]);
});
