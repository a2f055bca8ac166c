import assert from "node:assert/strict";
import { mock, test } from "node:test";

import {
  keepRecord,
  replaceOutputs,
  widgetOutputs,
  withRecords,
} from "../../widgets/workbench_widgets/static/record.js";

const VIEW = "application/vnd.jupyter.widget-view+json";
const STATE = "application/vnd.jupyter.widget-state+json";
const skip = "timers" in mock ? false : "this Node has no timers to mock";
const states = (widgets) => widgets?.[STATE]?.state ?? {};

function listOf(items) {
  return {
    items,
    get length() {
      return this.items.length;
    },
    get(place) {
      return this.items[place];
    },
    set(place, value) {
      this.items[place] = value;
    },
  };
}
const shows = (id) => ({ data: { [VIEW]: { model_id: id }, "text/plain": "a view" } });

test("a record is kept for what an output shows, and for nothing else", () => {
  const records = new Map([["a", "<p>one</p>"], ["gone", "<p>two</p>"]]);
  const kept = withRecords(undefined, records, new Set(["a"]));
  assert.deepEqual(Object.keys(states(kept)), ["a"]);
  assert.match(states(kept).a.state.value, /<p>one<\/p>/);
  assert.equal(states(kept).a.model_name, "HTMLModel");
});

test("a record that no output shows any more is dropped; other widgets' states stay", () => {
  const first = withRecords(undefined, new Map([["a", "x"]]), new Set(["a"]));
  first[STATE].state.slider = { model_name: "IntSliderModel", state: { value: 3 } };
  const later = withRecords({ ...first, others: 1 }, new Map([["b", "y"]]), new Set(["b"]));
  assert.deepEqual(Object.keys(states(later)).sort(), ["b", "slider"]);
  assert.equal(later.others, 1);
  const none = withRecords(withRecords(undefined, new Map([["a", "x"]]), new Set(["a"])), new Map(), new Set());
  assert.equal(none, undefined);
});

test("a record of an earlier kernel stays as long as its output does", () => {
  const first = withRecords(undefined, new Map([["a", "x"]]), new Set(["a"]));
  const later = withRecords(first, new Map([["b", "y"]]), new Set(["a", "b"]));
  assert.deepEqual(Object.keys(states(later)).sort(), ["a", "b"]);
});

test("each output of a widget, in whatever cell, becomes its record", () => {
  const cells = [
    { type: "markdown" },
    { type: "code", outputs: listOf([{ data: {} }, shows("a"), shows("b")]) },
    { type: "code", outputs: listOf([shows("a"), {}]) },
  ];
  assert.deepEqual([...widgetOutputs({ cells })].map(({ id }) => id), ["a", "b", "a"]);
  const record = { "text/plain": "over", "text/html": "<p>over</p>" };
  replaceOutputs({ cells }, "a", record);
  assert.deepEqual([...widgetOutputs({ cells })].map(({ id }) => id), ["b"]);
  assert.deepEqual(cells[2].outputs.get(0).data, record);
});

function modelIn(context) {
  const sent = [];
  let hear = null;
  return {
    sent,
    says: (content) => hear(content),
    widget_manager: context && { context },
    send: ({ ask }) => sent.push(ask),
    on: (_, listener) => { hear = listener; },
    off: () => { hear = null; },
  };
}

test("a front end that does not tell its document is asked for no record, and still lets go", { skip }, (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const model = modelIn(null);
  const end = keepRecord(model);
  t.mock.timers.tick(100_000);
  assert.deepEqual(model.sent, ["here"]);
  model.says({ t: "sealed", model: "a", record: {} });
  t.mock.timers.tick(1000);
  assert.deepEqual(model.sent, ["here", "sealed"]);
  end();
});

test("a record is asked for again only after news, and at most twice a minute", { skip }, (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  let saving = null;
  const metadata = {};
  const notebook = {
    cells: [{ type: "code", outputs: listOf([shows("a")]) }],
    getMetadata: (name) => metadata[name],
    setMetadata: (name, value) => { metadata[name] = value; },
    deleteMetadata: (name) => { delete metadata[name]; },
  };
  const context = { model: notebook, saveState: { connect: (slot) => { saving = slot; } } };
  const model = modelIn(context);
  const end = keepRecord(model, ({ t: kind }) => kind === "frame");
  t.mock.timers.tick(2000);
  assert.deepEqual(model.sent, ["here", "record"]);
  model.says({ t: "record", model: "a", record: { "text/html": "<p>now</p>" } });
  saving(null, "started");
  assert.match(states(metadata.widgets).a.state.value, /now/);
  t.mock.timers.tick(100_000);
  assert.equal(model.sent.length, 2);
  for (let second = 0; second < 60; second += 1) {
    model.says({ t: "frame" });
    t.mock.timers.tick(1000);
  }
  assert.deepEqual(model.sent.slice(2), ["record", "record"]);
  model.says({ t: "sealed", model: "a", record: { "text/plain": "over" } });
  t.mock.timers.tick(1000);
  saving(null, "started");
  assert.equal(metadata.widgets, undefined);
  assert.deepEqual(notebook.cells[0].outputs.get(0).data, { "text/plain": "over" });
  end();
});
