import assert from "node:assert/strict";
import { test } from "node:test";

import { pressed } from "../../widgets/workbench_widgets/static/inspection.js";

test("a press opens what is folded and folds what is open or about to be", () => {
  assert.equal(pressed("folded"), "opening");
  assert.equal(pressed("opening"), "folded");
  assert.equal(pressed("open"), "folded");
});
