// A bar of two sections, each of which opens a view of the run below itself.
import { element, frame, liveRegion, setAttribute, setText, tell } from "./frame.js";
import { asker } from "./asking.js";
import { keepRecord } from "./record.js";

const SECTIONS = [
  ["graph", "Graph", "what a step computes, with its values, and why each is where it is", "tree"],
  ["placements", "Placements", "where each node of a step lives, and who decided so", "placements"],
];
let bars = 0;

/** What a press of a section's button does, by how the section stands. */
export function pressed(state) {
  return { folded: "opening", opening: "folded", open: "folded" }[state];
}

/** One section: its button, and the place that its view is put into. */
class Section {
  constructor(bar, [name, title, about, call]) {
    this.call = call;
    this.bar = bar;
    this.name = name;
    this.title = title;
    this.state = "folded";
    this.shown = null;
    const id = `wb-inspection-${bar.number}-${name}`;
    this.button = element(
      "button",
      { type: "button", "aria-expanded": "false", "aria-controls": id, title: about,
        "data-section": name, onclick: () => this.press() },
      element("span", { class: "wb-fold", "aria-hidden": "true" }), title);
    this.place = element("div", { id, class: "wb-section", role: "region", "aria-label": title });
    this.place.hidden = true;
  }

  press() {
    const next = pressed(this.state);
    if (next === "opening") this.open();
    else this.fold(`${this.title} closed`);
  }

  stand(state) {
    this.state = state;
    setAttribute(this.button, "aria-expanded", String(state === "open"));
    setAttribute(this.button, "aria-busy", state === "opening" ? "true" : null);
    this.place.hidden = state !== "open";
  }

  async open() {
    const { bar } = this;
    const shown = (this.shown = new AbortController());
    this.stand("opening");
    bar.refuse("");
    bar.say(`Opening ${this.title}`);
    try {
      if (!bar.host)
        throw new Error(
          `This front end shows no view inside another. Run wb.${this.call}(run) in a cell.`);
      const { view } = await bar.questions.ask("open", { section: this.name });
      this.isCounted = true;
      if (shown.signal.aborted) return this.count();
      const widget = await bar.host.getWidget(view);
      if (shown.signal.aborted) return;
      const inner = element("div", {});
      this.place.replaceChildren(inner);
      this.stand("open"); // first, so that the view finds out how large it is
      await widget.render({ el: inner, signal: shown.signal });
      if (!shown.signal.aborted) bar.say(`${this.title} open`);
    } catch (fault) {
      if (shown.signal.aborted) return;
      this.fold("");
      bar.refuse(fault.message);
    }
  }

  fold(said) {
    this.shown?.abort();
    this.shown = null;
    this.place.replaceChildren();
    this.stand("folded");
    this.count();
    this.bar.say(said);
  }

  /** Tell the kernel, once, that this page does not look any more. */
  count() {
    if (this.isCounted) tell(this.bar.model, { ask: "closed", section: this.name });
    this.isCounted = false;
  }
}

class Bar {
  constructor({ model, el, host }) {
    this.number = bars += 1;
    this.model = model;
    this.host = host;
    this.questions = asker(model);
    const root = frame(el, "inspection", "look into the run");
    this.spoken = liveRegion();
    this.refusal = element("p", { class: "wb-refused", role: "alert" });
    this.sections = SECTIONS.map((section) => new Section(this, section));
    root.append(
      element("div", { class: "wb-bar" }, ...this.sections.map(({ button }) => button)),
      this.refusal, ...this.sections.map(({ place }) => place), this.spoken);
  }

  say(text) {
    setText(this.spoken, text);
  }

  refuse(text) {
    setText(this.refusal, text);
  }

  destroy() {
    for (const section of this.sections) section.fold("");
    this.questions.stop();
  }
}

export default {
  initialize: ({ model }) => keepRecord(model, ({ t }) => t === "opened"),
  render(given) {
    const bar = new Bar(given);
    return () => bar.destroy();
  },
};
