// All nodes in a table: put in order, picked by mode, compared with another context.
import { element, frame, liveRegion, setAttribute, setText, shortened } from "./frame.js";
import { asker } from "./asking.js";
import { rowList } from "./rows.js";
import { cardBlock } from "./card.js";
import { standingLine } from "./standing.js";
import { keepRecord } from "./record.js";

const LINE_HEIGHT = 26;
const HEAD_HEIGHT = 32;
const COLUMNS = [
  ["node", "node"], ["mode", "mode"], ["code", "rule"], ["reason", "who decided"],
  ["bytes", "bytes"], ["how", "readable"],
];
let tables = 0;

function sideOf(side) {
  if (!side) return null;
  const [mode, code, reason, size, bytes, how, readable] = side;
  return { mode, code, reason, size, bytes, how, readable };
}

/** A line of a message, taken apart. */
export function lineOf([name, before, after, isChanged], number) {
  const sides = [sideOf(before), sideOf(after)];
  return { number, name, before: sides[0], after: sides[1], isChanged, shown: sides[1] ?? sides[0] };
}

const KEYS = {
  node: (line) => line.name,
  mode: (line) => line.shown.mode,
  code: (line) => Number(line.shown.code) || 0,
  reason: (line) => line.shown.reason,
  bytes: (line) => line.shown.size,
  how: (line) => `${line.shown.readable ? 1 : 0}${line.shown.how}`,
};

/** Lines in the order of a column; lines that are equal in it stay as they are. */
export function ordered(lines, column, isDescending) {
  const key = KEYS[column];
  if (!key) return [...lines];
  const sign = isDescending ? -1 : 1;
  return [...lines].sort((one, other) => {
    const [a, b] = [key(one), key(other)];
    return a < b ? -sign : a > b ? sign : one.number - other.number;
  });
}

/** Lines of one mode ("" is any), with a text in their name or reason, or changed ones only. */
export function picked(lines, { mode = "", text = "", changed = false }) {
  const wanted = text.trim().toLowerCase();
  return lines.filter((line) =>
    (!mode || line.shown.mode === mode || line.before?.mode === mode) &&
    (!changed || line.isChanged) &&
    (!wanted || line.name.toLowerCase().includes(wanted) ||
      line.shown.reason.toLowerCase().includes(wanted)));
}

function render({ model, el }) {
  const own = `wb-placements-${(tables += 1)}`;
  const root = frame(el, "placements", "placements");
  const questions = asker(model);
  let all = [];
  let lines = [];
  let column = "";
  let isDescending = false;
  let active = 0;
  let chosen = -1;
  let chosenName = "";
  let looked = 0;

  const modes = element("select", { "aria-label": "mode", onchange: arrange });
  const search = element("input", {
    type: "search", placeholder: "node or reason", "aria-label": "search the table",
    spellcheck: "false", oninput: arrange,
  });
  const changedOnly = element("input", { type: "checkbox", onchange: arrange });
  const changedLabel = element("label", {}, changedOnly, " changed only");
  const total = element("span", { class: "wb-muted" });
  const head = element("div", { class: "wb-line wb-head", role: "row" });
  const grid = element("div", {
    class: "wb-table", role: "grid", tabindex: "0", "aria-label": "placements",
  }, element("div", { class: "wb-top", role: "rowgroup" }, head));
  const pane = element("div", { class: "wb-pane", role: "region", "aria-label": "details" });
  pane.hidden = true;
  const spoken = liveRegion();
  root.append(
    element("div", { class: "wb-bar" }, search, modes, changedLabel,
      element("span", { class: "wb-gap" }), total),
    grid, pane, spoken);

  for (const [name, title] of COLUMNS) {
    const sort = element("button", { type: "button", onclick: () => sortBy(name) }, title);
    head.append(element("div", { role: "columnheader", class: `wb-${name}`, "data-column": name }, sort));
  }

  function cell(name, line) {
    const made = element("div", { role: "gridcell", class: `wb-${name}` });
    if (name === "node") {
      made.append(
        element("span", { class: "wb-changed", "aria-hidden": "true" }, line.isChanged ? "◆" : ""),
        element("span", { title: line.name }, shortened(line.name, 60)));
      if (line.isChanged) made.append(element("span", { class: "wb-spoken" }, " changed"));
      return made;
    }
    const side = name === "bytes" ? "bytes" : name;
    const now = line.after?.[side] ?? "–";
    const was = line.before?.[side] ?? "–";
    const isOther = line.isChanged && now !== was;
    if (isOther && name !== "reason")
      made.append(element("s", {}, was), element("span", { class: "wb-spoken" }, " before, now"), " ");
    made.append(element(isOther ? "b" : "span",
      { class: name === "how" && line.after && !line.after.readable ? "wb-cannot" : null }, now));
    made.title = isOther ? `${was} → ${now}` : now;
    return made;
  }

  function makeLine(index) {
    const line = lines[index];
    const made = element("div", {
      class: "wb-line", role: "row", id: `${own}-${line.number}`, "data-line": line.number,
      "aria-rowindex": index + 2, "aria-selected": String(line.number === chosen),
    });
    made.classList.toggle("wb-active", index === active);
    made.classList.toggle("wb-is-changed", line.isChanged);
    for (const [name] of COLUMNS) made.append(cell(name, line));
    return made;
  }
  const list = rowList(grid, LINE_HEIGHT, makeLine, { role: "rowgroup", above: HEAD_HEIGHT });

  function arrange() {
    const wanted = { mode: modes.value, text: search.value, changed: changedOnly.checked };
    lines = ordered(picked(all, wanted), column, isDescending);
    active = Math.max(0, Math.min(active, lines.length - 1));
    setAttribute(grid, "aria-rowcount", lines.length + 1);
    const unread = lines.filter((line) => !line.shown.readable).length;
    const changes = lines.filter((line) => line.isChanged).length;
    setText(total, [
      lines.length === all.length ? `${all.length} nodes` : `${lines.length} of ${all.length} nodes`,
      `${unread} cannot be read`, model.get("compared") ? `${changes} changed` : "",
    ].filter(Boolean).join(" · "));
    for (const each of head.children)
      setAttribute(each, "aria-sort", each.dataset.column !== column ? "none"
        : isDescending ? "descending" : "ascending");
    list.resize(lines.length);
    mark();
  }

  function sortBy(name) {
    // The third time the order is again that in which nodes were decided.
    if (column !== name) [column, isDescending] = [name, name === "bytes"];
    else if (isDescending === (name === "bytes")) isDescending = !isDescending;
    else [column, isDescending] = ["", false];
    active = 0;
    arrange();
    setText(spoken, column ? `sorted by ${name}` : "in the order of decision");
  }

  function mark() {
    setAttribute(grid, "aria-activedescendant", lines.length ? `${own}-${lines[active].number}` : null);
  }

  function go(index) {
    active = Math.max(0, Math.min(lines.length - 1, index));
    list.reveal(active);
    mark();
  }

  async function choose() {
    const line = lines[active];
    if (!line) return;
    chosen = line.number;
    chosenName = line.name;
    list.paint();
    const number = (looked += 1);
    try {
      const card = await questions.ask("card", { line: chosen });
      if (number === looked) showCard(card, line.number);
    } catch (fault) {
      pane.hidden = false;
      pane.replaceChildren(element("p", { class: "wb-cannot" }, fault.message));
    }
  }

  /** The card after the table was read again; of a node that is not there any more, none. */
  function renew() {
    if (chosen < 0) return;
    active = lines.findIndex((line) => line.number === chosen && line.name === chosenName);
    if (active >= 0) choose();
    else {
      active = 0;
      chosen = -1;
      looked += 1;
      pane.hidden = true;
      arrange();
    }
  }

  function showCard(card, number) {
    pane.hidden = false;
    pane.replaceChildren(
      element("h3", { class: "wb-title" }, card.name),
      cardBlock(card, async (offer) => {
        const content = { line: number, offer };
        showCard(await questions.ask(offer === null ? "undo" : "apply", content), number);
      }));
    setText(spoken, `${card.sentence} ${card.answer}`);
  }

  grid.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== grid) return;
    switch (event.key) {
      case "ArrowDown": go(active + 1); break;
      case "ArrowUp": go(active - 1); break;
      case "PageDown": go(active + list.page()); break;
      case "PageUp": go(active - list.page()); break;
      case "Home": go(0); break;
      case "End": go(lines.length - 1); break;
      case "Enter":
        if (event.shiftKey) return;
        choose();
        break;
      case " ": choose(); break;
      default: return;
    }
    event.preventDefault();
  });
  grid.addEventListener("click", (event) => {
    const row = event.target.closest("[data-line]");
    if (!row) return;
    go(lines.findIndex((line) => line.number === Number(row.dataset.line)));
    choose();
  });

  function load() {
    all = JSON.parse(model.get("lines")).map(lineOf);
    const found = [...new Set(all.flatMap((line) =>
      [line.before?.mode, line.after?.mode]).filter(Boolean))].sort();
    const was = modes.value;
    modes.replaceChildren(element("option", { value: "" }, "all modes"),
      ...found.map((mode) => element("option", { value: mode }, mode)));
    modes.value = found.includes(was) ? was : "";
    changedLabel.hidden = !model.get("compared");
    root.classList.toggle("wb-compared", model.get("compared"));
    if (!model.get("compared")) changedOnly.checked = false;
    arrange();
  }
  model.on("change:lines", load);
  model.on("change:compared", load);
  load();
  const endStanding = standingLine(model, questions, root, renew);
  requestAnimationFrame(() => list.paint());
  return () => {
    model.off("change:lines", load);
    model.off("change:compared", load);
    endStanding();
    questions.stop();
    list.stop();
  };
}

export default {
  initialize: ({ model }) => keepRecord(model, ({ t }) => t === "shown" || t === "again"),
  render,
};
