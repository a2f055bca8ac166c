// What a notebook's file holds of a view, for when there is no kernel to show it.
//
// A file names a widget and cannot show it alone.  JupyterLab restores what stands in the notebook's
// metadata under that name, so that is where a view's record goes whenever the notebook is saved: as
// a plain widget of HTML, which every front end has.  A view that is over is not a widget any more:
// its outputs become the record themselves.

import { tell } from "./frame.js";

const VIEW = "application/vnd.jupyter.widget-view+json";
const STATE = "application/vnd.jupyter.widget-state+json";
const MARK = '<div class="wb-record">';
const RECORDS = Symbol.for("workbench.records");
const FRESH_MS = 30_000;
const FIRST_MS = 1_500;

/**
 * Return a notebook's metadata about widgets with `records` in it, HTML by the widget's id, and
 * without those of earlier views that no output shows any more; undefined if nothing is left.
 * @param {Record<string, any> | undefined} widgets
 * @param {Map<string, string>} records
 * @param {Set<string>} shown the widgets that outputs of the notebook show
 */
export function withRecords(widgets, records, shown) {
  const { [STATE]: saved, ...others } = widgets ?? {};
  const state = {};
  for (const [id, model] of Object.entries(saved?.state ?? {})) {
    const isOurs = String(model?.state?.value ?? "").startsWith(MARK);
    if (!isOurs || shown.has(id)) state[id] = model;
  }
  for (const [id, html] of records) {
    if (!shown.has(id)) continue;
    state[id] = {
      model_name: "HTMLModel",
      model_module: "@jupyter-widgets/controls",
      model_module_version: "2.0.0",
      state: { value: `${MARK}${html}</div>` },
    };
  }
  if (Object.keys(state).length) {
    return { ...others, [STATE]: { version_major: 2, version_minor: 0, ...saved, state } };
  }
  return Object.keys(others).length ? others : undefined;
}

/** The outputs of a notebook that show a widget: whose list, at which place, which widget. */
export function* widgetOutputs(notebook) {
  for (const cell of notebook.cells) {
    const outputs = cell.type === "code" ? cell.outputs : null;
    for (let place = 0; place < (outputs?.length ?? 0); place += 1) {
      const id = outputs.get(place).data?.[VIEW]?.model_id;
      if (id) yield { outputs, place, id };
    }
  }
}

/** Put a record in the place of each output that shows the widget `id`. */
export function replaceOutputs(notebook, id, record) {
  for (const { outputs, place, id: shown } of [...widgetOutputs(notebook)]) {
    if (shown !== id) continue;
    outputs.set(place, { output_type: "display_data", data: record, metadata: {} });
  }
}

function write(notebook, records) {
  const before = notebook.getMetadata("widgets");
  const shown = new Set([...widgetOutputs(notebook)].map(({ id }) => id));
  const after = withRecords(before, records, shown);
  if (JSON.stringify(before) === JSON.stringify(after)) return;
  if (after === undefined) notebook.deleteMetadata("widgets");
  else notebook.setMetadata("widgets", after);
}

/** The records of the views of one notebook, put into its metadata whenever it is saved. */
function recordsOf(context) {
  if (!context[RECORDS]) {
    const records = new Map();
    context[RECORDS] = records;
    context.saveState.connect((_, state) => {
      if (state === "started" && context.model) write(context.model, records);
    });
  }
  return context[RECORDS];
}

/** The document that a view is in; null where a front end has none, or does not tell. */
function documentOf(model) {
  const context = model.widget_manager?.context;
  return context?.saveState?.connect && context.model?.cells ? context : null;
}

/**
 * Keep the record of a model for the file, and leave the record in the page when the view is over.
 * To be called once a model; returns what ends it.
 * @param {any} model
 * @param {(content: any) => boolean} [isNews] whether after a message the record is another
 */
export function keepRecord(model, isNews = () => true) {
  const context = documentOf(model);
  let isStale = true;
  const ask = () => {
    if (!isStale) return;
    isStale = !tell(model, { ask: "record" });
  };
  const hear = (content) => {
    if (content?.t === "record" && context) {
      recordsOf(context).set(content.model, content.record["text/html"]);
    } else if (content?.t === "sealed") {
      clearInterval(timer);
      // The kernel replaces the outputs of the page that ran the cell; only others are left to us.
      setTimeout(() => {
        if (context?.model) {
          recordsOf(context).delete(content.model);
          replaceOutputs(context.model, content.model, content.record);
        }
        tell(model, { ask: "sealed" });
      }, 200);
    } else if (isNews(content)) isStale = true;
  };
  model.on("msg:custom", hear);
  tell(model, { ask: "here" });
  const first = context ? setTimeout(ask, FIRST_MS) : 0;
  const timer = context ? setInterval(ask, FRESH_MS) : 0;
  return () => {
    clearTimeout(first);
    clearInterval(timer);
    model.off("msg:custom", hear);
  };
}
