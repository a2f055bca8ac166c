// Recorded runs over each other.
import {
  asFloats,
  element,
  frame,
  liveRegion,
  setText,
  shortened,
  tell,
  watchTheme,
} from "./frame.js";
import { Chart, readCharts } from "./chart.js";
import { keepRecord } from "./record.js";

const CHOSEN_AT_FIRST = 6;

/** The names that are chosen now: those of before that are still there, or the latest ones. */
export function stillChosen(before, names) {
  if (before === null) return names.slice(-CHOSEN_AT_FIRST);
  return names.filter((name) => before.includes(name));
}

class OverlayView {
  constructor(model, outer) {
    this.model = model;
    this.names = [];
    this.rows = [];
    this.columns = [];
    this.chosen = null;
    this.chart = null;
    this.root = frame(outer, "overlay", "Recorded runs");
    this.metric = element("select", { onchange: () => this.askCurves() });
    const logarithmic = element("input", {
      type: "checkbox",
      onchange: (event) => this.chart?.set({ logarithmic: event.target.checked }),
    });
    this.logarithmic = logarithmic;
    this.place = element("div");
    this.table = element("table");
    this.refusal = element("p", { class: "wb-bad", role: "alert" });
    this.spoken = liveRegion();
    this.root.append(
      element(
        "div",
        { class: "wb-tools" },
        element("label", {}, "Metric", this.metric),
        element("label", {}, logarithmic, "logarithmic"),
        element("button", { type: "button", onclick: () => this.ask("sync") }, "Read again"),
      ),
      this.place,
      element("div", { class: "wb-table", tabindex: 0, role: "group", "aria-label": "Runs" }, this.table),
      this.refusal,
      this.spoken,
    );
    this.hear = (content, buffers) => this.take(content, buffers ?? []);
    model.on("msg:custom", this.hear);
    this.stopTheme = watchTheme(() => this.chart?.forgetColours());
    this.ask("sync");
  }

  destroy() {
    this.model.off("msg:custom", this.hear);
    this.stopTheme();
    this.chart?.destroy();
  }

  ask(question, more = {}) {
    const sent = tell(this.model, { ask: question, ...more });
    if (!sent) setText(this.refusal, "The kernel is gone. Run the cell again.");
  }

  take(content, buffers) {
    if (content.t === "refused") setText(this.refusal, content.text);
    else if (content.t === "runs") this.takeRuns(content);
    else if (content.t === "curves") this.takeCurves(content, buffers);
  }

  takeRuns({ metrics, columns, rows, names }) {
    setText(this.refusal, "");
    const before = this.metric.value;
    this.metric.replaceChildren(...metrics.map((name) => element("option", {}, name)));
    if (metrics.includes(before)) this.metric.value = before;
    Object.assign(this, { columns, rows, names });
    this.chosen = stillChosen(this.chosen, names);
    this.paintTable();
    this.askCurves();
    setText(this.spoken, `${names.length} runs`);
  }

  askCurves() {
    if (this.metric.value) this.ask("curves", { metric: this.metric.value, names: this.chosen });
  }

  takeCurves(content, buffers) {
    // Another page may have asked for something else: messages go to all of them.
    if (content.metric !== this.metric.value || `${content.names}` !== `${this.chosen}`) return;
    setText(this.refusal, "");
    const octets = buffers[0] ?? new DataView(new ArrayBuffer(0));
    const [{ name, lines }] = readCharts([content.chart], asFloats(octets));
    if (this.chart?.name !== name) {
      this.chart?.destroy();
      this.chart = new Chart(name);
      this.chart.set({ unit: content.unit, logarithmic: this.logarithmic.checked });
      this.place.replaceChildren(this.chart.root);
    }
    const ends = lines.filter((line) => line.n).map((line) => line.at[line.n - 1]);
    this.chart.update(lines, [], 0, Math.max(1, ...ends));
  }

  paintTable() {
    const head = element(
      "tr",
      {},
      element("th", { scope: "col" }, "shown"),
      ...this.columns.map((name) => element("th", { scope: "col" }, shortened(name, 30))),
    );
    const body = this.rows.map((row, place) => {
      const name = this.names[place];
      const box = element("input", {
        type: "checkbox",
        "aria-label": `Show ${row[0]}`,
        onchange: () => {
          const others = this.chosen.filter((each) => each !== name);
          this.chosen = stillChosen(box.checked ? [...others, name] : others, this.names);
          this.paintColours();
          this.askCurves();
        },
      });
      box.checked = this.chosen.includes(name);
      const swatch = element("span", { class: "wb-swatch" });
      const cells = row.map((cell, column) =>
        column === 0
          ? element("th", { scope: "row", title: cell }, shortened(cell, 40))
          : element("td", { title: cell }, shortened(cell, 30)),
      );
      return element("tr", {}, element("td", {}, box, swatch), ...cells);
    });
    this.table.replaceChildren(
      element("thead", {}, head),
      element("tbody", {}, ...body),
    );
    if (!this.rows.length) setText(this.refusal, "There is no recorded run in the folder yet.");
    this.paintColours();
  }

  paintColours() {
    this.table.querySelectorAll(".wb-swatch").forEach((swatch, place) => {
      const number = this.chosen.indexOf(this.names[place]);
      swatch.style.background = number < 0 ? "transparent" : `var(--wb-data-${number % 6})`;
    });
  }
}

export default () => ({
  initialize: ({ model }) => keepRecord(model, ({ t }) => t === "runs"),
  render({ model, el }) {
    const view = new OverlayView(model, el);
    return () => view.destroy();
  },
});
