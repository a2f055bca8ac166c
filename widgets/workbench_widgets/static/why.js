// The card of one node by itself, with its value where it has one.
import { element, frame, liveRegion, setText, watchTheme } from "./frame.js";
import { asker } from "./asking.js";
import { valueBlock } from "./value.js";
import { cardBlock } from "./card.js";
import { standingLine } from "./standing.js";
import { keepRecord } from "./record.js";

function render({ model, el }) {
  const root = frame(el, "why", model.get("label"));
  const questions = asker(model);
  const redraws = [];
  const title = element("h3", { class: "wb-title" });
  const card = element("div", {});
  const value = element("div", {});
  const spoken = liveRegion();
  root.append(title, card, value, spoken);
  let looked = 0;

  async function showValue(readable) {
    const number = (looked += 1);
    redraws.length = 0;
    value.replaceChildren();
    if (!readable) return;
    try {
      const answer = await questions.ask("value");
      if (number === looked)
        value.replaceChildren(element("h4", {}, "Value"),
          valueBlock(answer.value, answer.buffers, redraws));
    } catch (fault) {
      if (number === looked)
        value.replaceChildren(element("p", { class: "wb-cannot" }, fault.message));
    }
  }

  function show(said) {
    setText(title, said.name);
    card.replaceChildren(cardBlock({ changes: [], steps: 0, ...said }, take));
    showValue(said.readable);
  }

  async function take(offer) {
    const said = offer === null ? await questions.ask("undo") : await questions.ask("apply", { offer });
    show(said);
    setText(spoken, `${said.answer} ${said.changes.map((pair) => pair.join(": ")).join(". ")}`);
    card.querySelector("button")?.focus();
  }

  const fresh = () => show(model.get("said"));
  model.on("change:said", fresh);
  fresh();
  const endStanding = standingLine(model, questions, root, fresh);
  const endTheme = watchTheme(() => redraws.forEach((draw) => draw()));
  return () => {
    model.off("change:said", fresh);
    endStanding();
    questions.stop();
    endTheme();
  };
}

export default {
  initialize: ({ model }) => keepRecord(model, ({ t }) => t === "shown" || t === "again"),
  render,
};
