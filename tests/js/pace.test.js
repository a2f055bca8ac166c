import assert from "node:assert/strict";
import { test } from "node:test";

import { pacer } from "../../widgets/workbench_widgets/static/pace.js";

test("the median of the last drawings is told, and again only when it is another", () => {
  const told = [];
  const drew = pacer((ms) => told.push(ms));
  for (const ms of [4, 90, 4]) drew(ms);
  assert.deepEqual(told, [4]);
  for (const ms of [5, 4, 5, 4, 5]) drew(ms);
  assert.deepEqual(told, [4]);
  for (const ms of [12, 12, 12, 12]) drew(ms);
  assert.deepEqual(told, [4, 12]);
});
