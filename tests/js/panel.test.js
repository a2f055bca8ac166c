import assert from "node:assert/strict";
import { test } from "node:test";

import { contact, progressText, tiles } from "../../widgets/workbench_widgets/static/panel.js";

const status = {
  status: "running",
  epoch: 3,
  epochs: 20,
  done: 135,
  total: 900,
  step: 135,
  rate: 12345,
  left: "4 s left",
  lr: 0.002,
  loss: "NaN",
  metrics: [["accuracy", 0.98125]],
  best: ["accuracy", 0.98125, 2],
  memory: 479104,
  patience: 8,
  waited: 1,
  held: false,
};

test("the bar tells epoch, share, speed and time left", () => {
  assert.equal(progressText(status), "epoch 3 of 20 · 15 % · 12\u2009345 steps/s · 4 s left");
});

test("what is not known is left out of the bar", () => {
  const begun = { ...status, epoch: 0, done: 0, total: 0, rate: "NaN", left: null };
  assert.equal(progressText(begun), "epoch 0 of 20 · compiling");
});

test("numbers that are none are named", () => {
  assert.deepEqual(tiles(status).slice(0, 3), [
    ["training loss", "NaN"],
    ["val accuracy", "0.9812"],
    ["best accuracy", "0.9812 (epoch 2)"],
  ]);
});

test("a rate that is held against a schedule says so", () => {
  const rate = (held) => tiles({ ...status, held }).find(([name]) => name === "learning rate")[1];
  assert.deepEqual([rate(false), rate(true)], ["0.002", "0.002 (held)"]);
});

test("a kernel that says nothing is lost, then gone; one of a finished run may be silent", () => {
  assert.deepEqual([1, 5, 20].map((seconds) => contact(seconds, true)), ["", "lost", "gone"]);
  assert.equal(contact(100, false), "");
});
