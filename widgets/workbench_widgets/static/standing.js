// Of which moment of a run a view shows the values, and a button that reads those of now.
import { element, formatCount, liveRegion, setText } from "./frame.js";

const EVERY_MS = 2000;

/** How far a run has gone since it was read, in words; nothing if it has not. */
export function sinceThen({ step, since, other }) {
  if (other) return "The run has another step in force since: read again to see its graph.";
  if (since < 0) return `The run stands at update ${formatCount(step)} now.`;
  if (since === 0) return "";
  return `The run has made ${formatCount(since)} update${since === 1 ? "" : "s"} since.`;
}

/**
 * Put a line with what was read and when on top of a view of a run; of a context there is none.
 * @param {any} model
 * @param {{ask: Function}} questions
 * @param {HTMLElement} root the view
 * @param {() => void} renewed called when the view was read again, from whichever page
 * @returns {() => void} ends it
 */
export function standingLine(model, questions, root, renewed) {
  const caption = element("span", { class: "wb-caption" });
  const note = element("span", { class: "wb-muted" });
  const said = element("span", { class: "wb-refused", role: "alert" });
  const spoken = liveRegion();
  const button = element("button", { type: "button", onclick: read }, "Read again");
  const line = element("div", { class: "wb-when" }, caption, button, note, said, spoken);
  let timer = 0;
  let isOver = false;

  async function read() {
    button.disabled = true;
    setText(said, "");
    try {
      await questions.ask("again");
      setText(spoken, `Read again: ${model.get("caption")}`);
    } catch (fault) {
      setText(said, fault.message);
    }
    button.disabled = false;
    // Where the keyboard was, unless it went elsewhere meanwhile.
    if (root.isConnected && document.activeElement === document.body) button.focus();
  }

  async function look() {
    clearTimeout(timer);
    // Nobody sees it: another tab is in front, or the cell is folded away.
    if (line.isConnected && !document.hidden && line.offsetParent !== null) {
      try {
        const standing = await questions.ask("standing");
        const text = sinceThen(standing);
        if (standing.other && note.textContent !== text) setText(spoken, text);
        line.classList.toggle("wb-other", standing.other);
        setText(note, text);
      } catch (fault) {
        setText(note, fault.message);
        return;
      }
    }
    if (!isOver) timer = setTimeout(look, EVERY_MS);
  }

  function show() {
    const text = model.get("caption");
    setText(caption, text);
    line.hidden = !text;
  }
  const hear = (message) => {
    if (message?.t !== "again") return;
    setText(note, "");
    line.classList.remove("wb-other");
    renewed();
    look();
  };
  root.prepend(line);
  show();
  model.on("change:caption", show);
  model.on("msg:custom", hear);
  if (model.get("caption")) timer = setTimeout(look, EVERY_MS);
  return () => {
    isOver = true;
    clearTimeout(timer);
    model.off("change:caption", show);
    model.off("msg:custom", hear);
  };
}
