// The live panel of a run.
import {
  afterFrame,
  asFloats,
  element,
  formatBytes,
  formatCount,
  formatNumber,
  frame,
  liveRegion,
  setAttribute,
  setText,
  shortened,
  tell,
  watchPeople,
  watchSight,
  watchTheme,
} from "./frame.js";
import { Chart, readCharts, readLine } from "./chart.js";
import { pacer } from "./pace.js";
import { keepRecord } from "./record.js";

const STATES = {
  ready: ["○", "ready"],
  running: ["▶", "running"],
  paused: ["❚❚", "paused"],
  completed: ["✓", "completed"],
  stopped: ["■", "stopped"],
  interrupted: ["■", "interrupted"],
  failed: ["✗", "failed"],
};
const LOST_S = 5;
const GONE_S = 15;
const SHOWN_AT_FIRST = 3;
const SLIDER = { least: -6, greatest: 1, step: 0.02 };

/** Seconds without a word from the kernel as what is to be said of it: nothing, lost or gone. */
export function contact(seconds, alive) {
  if (!alive || seconds < LOST_S) return "";
  return seconds < GONE_S ? "lost" : "gone";
}

/** The line over the bar of the run. */
export function progressText(status) {
  const { epoch, epochs, done, total, rate } = status;
  const share = total ? ` · ${Math.floor((100 * done) / total)} %` : "";
  const speed = Number.isFinite(Number(rate)) ? ` · ${formatCount(Number(rate))} steps/s` : "";
  const left = status.left ? ` · ${status.left}` : "";
  const waiting = status.status === "running" && !status.left && !total ? " · compiling" : "";
  return `epoch ${formatCount(epoch)} of ${formatCount(epochs)}${share}${speed}${left}${waiting}`;
}

/** The numbers beside the curves: name, value, and more about it. */
export function tiles(status) {
  const number = (value) => formatNumber(Number(value), 4);
  const found = [["training loss", number(status.loss)]];
  for (const [name, value] of status.metrics) found.push([`val ${name}`, number(value)]);
  if (status.best) {
    const [name, value, epoch] = status.best;
    found.push([`best ${name}`, `${number(value)} (epoch ${epoch})`]);
  }
  found.push(["learning rate", number(status.lr) + (status.held ? " (held)" : "")]);
  found.push(["step", formatCount(status.step)]);
  if (status.patience !== null) {
    found.push(["without progress", `${status.waited} of ${status.patience}`]);
  }
  if (typeof status.skipped === "number") found.push(["skipped", formatCount(status.skipped)]);
  found.push(["memory", formatBytes(status.memory)]);
  return found;
}

/** What one model knows; its views share it. */
class Store {
  constructor() {
    this.status = null;
    this.charts = [];
    this.marks = [];
    this.actions = [];
    this.versions = [];
    this.late = false;
    this.heard = performance.now();
    this.views = new Set();
    this.messages = 0;
  }

  take(content, buffers) {
    this.heard = performance.now();
    this.messages += 1;
    if (content.t === "frame") {
      this.status = content.status;
      this.late = content.late;
      if (content.charts) {
        const octets = buffers[0] ?? new DataView(new ArrayBuffer(0));
        this.charts = readCharts(content.charts, asFloats(octets));
        this.marks = content.marks;
      }
      if (content.actions) {
        this.actions = content.actions;
        this.versions = content.versions;
      }
    }
    for (const view of this.views) view.take(content, buffers);
  }
}

class PanelView {
  constructor(model, store, outer) {
    this.model = model;
    this.store = store;
    this.id = Math.random().toString(36).slice(2);
    this.charts = new Map();
    this.options = { logarithmic: false, kept: 0 };
    this.chosen = new Map();
    this.said = "";
    this.milestone = 0;
    this.build(outer);
    store.views.add(this);
    this.isInSight = true;
    this.stopSight = watchSight(this.root, (isInSight) => {
      const comes = isInSight && !this.isInSight;
      this.isInSight = isInSight;
      if (comes) this.askPaint();
    });
    this.stopPeople = watchPeople(() => tell(this.model, { ask: "attended" }));
    this.drew = pacer((ms) => tell(this.model, { ask: "pace", ms }));
    this.stopTheme = watchTheme(() => this.charts.forEach((chart) => chart.forgetColours()));
    this.dog = setInterval(() => this.watchContact(), 1000);
    this.paint();
  }

  destroy() {
    clearInterval(this.dog);
    this.stopTheme();
    this.stopSight();
    this.stopPeople();
    this.store.views.delete(this);
    this.charts.forEach((chart) => chart.destroy());
  }

  ask(question, more = {}) {
    const sent = tell(this.model, { ask: question, ...more });
    this.refuse(sent ? "" : "The kernel is gone.");
  }

  // -- the page

  build(outer) {
    const root = frame(outer, "panel", "Training run");
    const button = (name, text, act, title) => {
      const made = element("button", { type: "button", title, onclick: act }, text);
      this[name] = made;
      return made;
    };
    this.root = root;
    this.badge = element("span", { class: "wb-badge" });
    this.reason = element("span", { class: "wb-muted wb-reason" });
    this.contact = element("span", { class: "wb-bad" });
    this.spoken = liveRegion();
    this.runBar = bar("Run");
    this.epochBar = bar("Epoch");
    this.tiles = element("dl", { class: "wb-tiles" });
    this.chartArea = element("div", { class: "wb-charts" });
    this.choice = element("div", { class: "wb-choice", role: "group", "aria-label": "Curves" });
    this.refusal = element("p", { class: "wb-bad wb-refusal", role: "alert" });
    this.log = element("ol", { class: "wb-log", "aria-label": "Actions as code" });
    this.logBox = element(
      "details",
      { class: "wb-people" },
      element("summary", {}, "Actions"),
      this.log,
    );
    this.versionList = element("ul", { class: "wb-versions" });
    this.versionBox = element(
      "details",
      { class: "wb-people" },
      element("summary", {}, "Versions of the step"),
      this.versionList,
    );
    const logarithmic = element("input", {
      type: "checkbox",
      onchange: (event) => this.setOption({ logarithmic: event.target.checked }),
    });
    const smoothing = element("input", {
      type: "range",
      min: 0,
      max: 0.98,
      step: 0.02,
      value: 0,
      oninput: (event) => {
        event.target.setAttribute("aria-valuetext", `${Math.round(100 * event.target.value)} %`);
        this.setOption({ kept: Number(event.target.value) });
      },
    });
    this.rate = element("input", {
      type: "range",
      class: "wb-rate",
      min: SLIDER.least,
      max: SLIDER.greatest,
      step: SLIDER.step,
      oninput: () => this.slide(),
    });
    this.rateText = element("input", {
      type: "text",
      class: "wb-number",
      inputmode: "decimal",
      "aria-label": "Learning rate as a number",
      onchange: () => this.typeRate(),
    });
    this.patience = element("input", {
      type: "number",
      class: "wb-number",
      min: 0,
      step: 1,
      onchange: () => this.ask("patience", { value: Number(this.patience.value) }),
    });
    this.patienceLabel = element("label", {}, "Patience", this.patience);
    root.append(
      element("div", { class: "wb-head" }, this.badge, this.reason, this.contact),
      this.runBar.root,
      this.epochBar.root,
      this.tiles,
      element(
        "div",
        { class: "wb-tools" },
        this.choice,
        element("label", {}, logarithmic, "logarithmic"),
        element("label", {}, "smoothing", smoothing),
      ),
      this.chartArea,
      element(
        "div",
        { class: "wb-controls", role: "group", "aria-label": "Controls" },
        button("pause", "Pause", () => this.togglePause(), "Wait after this batch"),
        button("stop", "Stop", () => this.end("batch"), "Stop after this batch"),
        button("stopEpoch", "Stop after epoch", () => this.end("epoch"), "Finish this epoch"),
        button("save", "Checkpoint", () => this.ask("checkpoint"), "Write a checkpoint now"),
        button("best", "Restore best", () => this.ask("best"), "Go on with the best parameters"),
      ),
      element(
        "div",
        { class: "wb-controls", role: "group", "aria-label": "Settings" },
        element("label", {}, "Learning rate", this.rate),
        this.rateText,
        button("follow", "Follow schedule", () => this.ask("follow"), "Let the schedule set it"),
        this.patienceLabel,
      ),
      this.refusal,
      this.versionBox,
      this.logBox,
      this.spoken,
    );
  }

  // -- what a person does

  togglePause() {
    this.ask(this.store.status?.status === "paused" ? "resume" : "pause");
  }

  end(after) {
    setText(this.badge, after === "batch" ? "… stopping" : "… stopping after this epoch");
    this.ask("stop", { after });
  }

  slide() {
    const value = Number((10 ** Number(this.rate.value)).toPrecision(3));
    this.showRate(value);
    this.ask("rate", { value });
  }

  typeRate() {
    const value = Number(this.rateText.value.trim().replace(",", "."));
    if (this.rateText.value.trim() === "" || !Number.isFinite(value)) {
      this.refuse(`“${shortened(this.rateText.value, 30)}” is not a number`);
    } else this.ask("rate", { value });
  }

  setOption(options) {
    Object.assign(this.options, options);
    this.charts.forEach((chart) => chart.set(options));
  }

  refuse(text) {
    setText(this.refusal, text);
  }

  // -- what the kernel says

  take(content, buffers) {
    if (content.t === "refused") this.refuse(content.text);
    else if (content.t === "window") this.takeWindow(content, buffers);
    else this.askPaint();
  }

  takeWindow(content, buffers) {
    const known = this.store.charts[content.chart];
    const chart = known && this.charts.get(known.name);
    if (content.view !== this.id || !chart?.zoom || !buffers[0]) return;
    if (chart.zoom[0] !== content.first || chart.zoom[1] !== content.last) return;
    const [line] = readLine(content.line, asFloats(buffers[0]), 0);
    chart.closer = line;
    this.fill(chart, known);
  }

  askPaint() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      const began = performance.now();
      this.paint();
      if (this.isInSight) afterFrame(() => this.drew(performance.now() - began));
    });
  }

  paint() {
    const { status } = this.store;
    if (status === null) {
      setText(this.badge, "… waiting for the kernel");
      return;
    }
    this.paintState(status);
    if (!this.isInSight) return; // of what is scrolled away only words for a screen reader change
    this.paintBars(status);
    this.paintTiles(status);
    this.paintControls(status);
    this.paintCharts();
    this.paintPeople();
  }

  paintState(status) {
    const [sign, word] = STATES[status.status] ?? ["?", status.status];
    setAttribute(this.root, "data-state", status.status);
    setText(this.badge, `${sign} ${word}`);
    setText(this.reason, shortened(status.reason, 200));
    if (!this.root.dataset.contact) {
      setText(this.contact, this.store.late ? "a step holds Python's lock: clicks wait for it" : "");
    }
    if (this.said !== status.status) {
      if (this.said) setText(this.spoken, `run ${word}${status.reason ? `: ${status.reason}` : ""}`);
      this.said = status.status;
    }
    const quarter = status.total ? Math.floor((4 * status.done) / status.total) : 0;
    if (quarter > this.milestone && status.status === "running") {
      setText(this.spoken, `${25 * quarter} percent, ${status.left ?? ""}`);
    }
    this.milestone = quarter;
  }

  paintBars(status) {
    this.runBar.show(status.done, status.total, progressText(status));
    const { batch, batches } = status;
    this.epochBar.show(batch, batches, `batch ${formatCount(batch)} of ${formatCount(batches)}`);
  }

  paintTiles(status) {
    const wanted = tiles(status);
    while (this.tiles.children.length > wanted.length) this.tiles.lastChild.remove();
    wanted.forEach(([name, value], place) => {
      let tile = this.tiles.children[place];
      if (!tile) {
        tile = element("div", {}, element("dt"), element("dd"));
        this.tiles.append(tile);
      }
      setText(tile.firstChild, shortened(name, 28));
      setAttribute(tile, "title", name.length > 28 ? name : null);
      setText(tile.lastChild, value);
    });
  }

  paintControls(status) {
    const gone = this.root.dataset.contact === "gone";
    const live = ["running", "paused"].includes(status.status) && !gone;
    const isPaused = status.status === "paused";
    this.pause.disabled = this.stop.disabled = this.stopEpoch.disabled = !live;
    this.save.disabled = this.best.disabled = gone;
    this.rate.disabled = this.rateText.disabled = this.patience.disabled = gone;
    setText(this.pause, isPaused ? "Resume" : "Pause");
    setAttribute(this.pause, "aria-pressed", isPaused);
    this.follow.hidden = !status.held;
    this.patienceLabel.hidden = status.patience === null;
    const isFocused = (node) => node.getRootNode().activeElement === node;
    if (!isFocused(this.patience)) this.patience.value = status.patience ?? "";
    if (!isFocused(this.rate) && !isFocused(this.rateText)) this.showRate(Number(status.lr));
  }

  showRate(value) {
    const shown = formatNumber(value);
    this.rate.value = value > 0 ? Math.log10(value) : SLIDER.least;
    setAttribute(this.rate, "aria-valuetext", shown);
    if (this.rateText.getRootNode().activeElement !== this.rateText) this.rateText.value = shown;
  }

  // -- curves

  paintCharts() {
    const { charts } = this.store;
    const names = charts.map(({ name }) => name);
    this.paintChoice(names);
    for (const [name, chart] of this.charts) {
      if (!this.isShown(name, names.indexOf(name))) {
        chart.destroy();
        chart.root.remove();
        this.charts.delete(name);
      }
    }
    charts.forEach((described, place) => {
      if (!this.isShown(described.name, place)) return;
      let chart = this.charts.get(described.name);
      if (!chart) {
        chart = new Chart(described.name, (zoom) => this.lookCloser(described.name, zoom));
        chart.set(this.options);
        this.charts.set(described.name, chart);
      }
      if (!chart.root.isConnected) this.chartArea.append(chart.root);
      this.fill(chart, described);
    });
  }

  /** Whether a curve is to be seen: as a person chose, else the first ones. */
  isShown(name, place) {
    return place >= 0 && (this.chosen.get(name) ?? place < SHOWN_AT_FIRST);
  }

  fill(chart, described) {
    const closer = chart.zoom ? chart.closer : null;
    const lines = described.lines.map((line) => (line.kind === "batches" && closer ? closer : line));
    const { origin, done } = this.store.status;
    chart.update(lines, this.store.marks, origin, done);
  }

  lookCloser(name, zoom) {
    const chart = this.charts.get(name);
    const place = this.store.charts.findIndex((each) => each.name === name);
    if (!chart || place < 0) return;
    chart.closer = null;
    if (zoom) this.ask("window", { view: this.id, chart: place, first: zoom[0], last: zoom[1] });
    this.fill(chart, this.store.charts[place]);
  }

  paintChoice(names) {
    if (this.choiceNames === names.join("\n")) return;
    this.choiceNames = names.join("\n");
    this.choice.replaceChildren(
      ...names.map((name, place) => {
        const box = element("input", {
          type: "checkbox",
          onchange: () => {
            this.chosen.set(name, box.checked);
            this.paint();
          },
        });
        box.checked = this.isShown(name, place);
        return element("label", { title: name }, box, shortened(name, 24));
      }),
    );
    this.choice.hidden = names.length < 2;
  }

  // -- what people did

  paintPeople() {
    const { actions, versions } = this.store;
    if (this.shownActions !== actions) {
      this.shownActions = actions;
      this.log.replaceChildren(
        ...actions.map(({ code, step }) =>
          element(
            "li",
            {},
            element("code", {}, code),
            element("span", { class: "wb-muted" }, ` at step ${formatCount(step)}`),
          ),
        ),
      );
      const last = actions.at(-1);
      const summary = last ? `Actions: ${shortened(last.code, 80)}` : "Actions";
      setText(this.logBox.firstChild, summary);
      this.logBox.hidden = !last;
    }
    if (this.shownVersions !== versions) {
      this.shownVersions = versions;
      this.versionBox.hidden = versions.length < 2;
      const newest = versions.at(-1);
      const failed = newest?.state === "failed";
      setText(
        this.versionBox.firstChild,
        failed ? `✗ ${shortened(newest.title, 160)}` : "Versions of the step",
      );
      this.versionBox.firstChild.classList.toggle("wb-bad", failed);
      if (failed && this.toldFailure !== newest.number) {
        this.toldFailure = newest.number;
        setText(this.spoken, newest.title);
      }
      this.versionList.replaceChildren(...versions.map((version) => this.versionItem(version)));
    }
  }

  versionItem(version) {
    const restore = element(
      "button",
      {
        type: "button",
        "aria-label": `Restore version ${version.number}`,
        onclick: () => this.ask("version", { number: version.number }),
      },
      "Restore",
    );
    restore.disabled = version.state !== "replaced";
    return element(
      "li",
      {},
      element(
        "details",
        {},
        element("summary", { class: version.error ? "wb-bad" : "" }, shortened(version.title, 200)),
        element("pre", { tabindex: 0 }, version.diff),
      ),
      restore,
    );
  }

  // -- the kernel may be gone

  watchContact() {
    const { status, heard } = this.store;
    const seconds = (performance.now() - heard) / 1000;
    const alive = status !== null && ["ready", "running", "paused"].includes(status.status);
    const state = contact(seconds, alive);
    if (state === "" && !this.root.dataset.contact) return;
    setAttribute(this.root, "data-contact", state || null);
    const said = state ? `no word from the kernel for ${Math.round(seconds)} s` : "";
    setText(this.contact, state ? `⚠ ${said}` : "");
    if (state && state !== this.toldContact) setText(this.spoken, said);
    this.toldContact = state;
    this.paintControls(status);
  }
}

/** A bar with words over it. */
function bar(name) {
  const fill = element("div", { class: "wb-fill" });
  const words = element("span", { class: "wb-bar-text" });
  const root = element(
    "div",
    { class: "wb-bar", role: "progressbar", "aria-label": name, "aria-valuemin": 0 },
    fill,
    words,
  );
  return {
    root,
    show(done, total, text) {
      fill.style.width = `${total ? Math.min(100, (100 * done) / total) : 0}%`;
      setText(words, text);
      setAttribute(root, "aria-valuemax", total || 1);
      setAttribute(root, "aria-valuenow", Math.min(done, total || 0));
      setAttribute(root, "aria-valuetext", text);
    },
  };
}

// Called once for each model: its views share what it heard.
export default () => {
  const store = new Store();
  return {
    initialize({ model }) {
      model.on("msg:custom", (content, buffers) => store.take(content, buffers ?? []));
      tell(model, { ask: "sync" });
      return keepRecord(model, ({ t }) => t === "frame");
    },
    render({ model, el }) {
      const view = new PanelView(model, store, el);
      return () => view.destroy();
    },
  };
};
