// The graph as a tree: rows in sight only, keys of the WAI-ARIA tree pattern, search, details.
import { element, frame, liveRegion, setAttribute, setText, shortened, watchTheme } from "./frame.js";
import { asker } from "./asking.js";
import { rowList } from "./rows.js";
import { firstLevels, treeShape } from "./shape.js";
import { valueBlock } from "./value.js";
import { cardBlock } from "./card.js";
import { standingLine } from "./standing.js";
import { keepRecord } from "./record.js";

const ROW_HEIGHT = 24;
const TYPING_MS = 700;
let trees = 0;

/** A row of a message, taken apart. */
export function takenApart([place, name, shape, mode, reading, readable, drawnAt]) {
  return { place, name, shape, mode, reading, readable, drawnAt };
}

function asInts(view) {
  const { buffer, byteOffset, byteLength } = view;
  return new Int32Array(buffer.slice(byteOffset, byteOffset + byteLength));
}

function render({ model, el }) {
  const own = `wb-tree-${(trees += 1)}`;
  const root = frame(el, "tree", model.get("label"));
  const questions = asker(model);
  let shape = treeShape(asInts(model.get("below")));
  const known = new Map();
  const wanted = new Set();
  const redraws = [];
  let active = 0;
  let chosen = -1;
  let matches = [];
  let match = -1;
  let typed = "";
  let typedAt = 0;
  let looked = 0;
  let searched = 0;

  // -- the page

  const search = element("input", {
    type: "search", placeholder: "name, operation or shape", "aria-label": "search the graph",
    spellcheck: "false",
  });
  const found = element("span", { class: "wb-found wb-muted" });
  const spoken = liveRegion();
  const button = (label, title, action) =>
    element("button", { type: "button", title, "aria-label": title, onclick: action }, label);
  const bar = element("div", { class: "wb-bar" },
    search,
    button("↑", "previous match", () => step(-1)),
    button("↓", "next match", () => step(1)),
    found,
    element("span", { class: "wb-gap" }),
    button("Open all", "open all", () => openAll(true)),
    button("Close all", "close all", () => openAll(false)));
  const box = element("div", {
    class: "wb-box", role: "tree", tabindex: "0", "aria-label": model.get("label"),
  });
  const pane = element("div", { class: "wb-pane", role: "region", "aria-label": "details", tabindex: "0" });
  const invite = () =>
    pane.replaceChildren(element("p", { class: "wb-muted" }, "Choose a node with Enter or a click."));
  invite();
  root.append(bar, element("div", { class: "wb-split" }, box, pane), spoken);

  // -- rows

  function learn(rows) {
    for (const row of rows) known.set(row[0], takenApart(row));
  }

  async function fetchRows() {
    const places = [...wanted].filter((place) => !known.has(place));
    wanted.clear();
    if (!places.length) return;
    try {
      learn((await questions.ask("rows", { places })).rows);
      list.paint();
      mark();
    } catch (fault) {
      setText(spoken, fault.message);
    }
  }

  function want(place) {
    if (!wanted.size) queueMicrotask(fetchRows);
    wanted.add(place);
  }

  function makeRow(index) {
    const place = shape.visible()[index];
    const row = known.get(place);
    const isOpen = shape.isOpen(place);
    const children = shape.below[place];
    const parent = shape.parent[place];
    const made = element("div", {
      class: "wb-row", role: "treeitem", id: `${own}-${place}`, "data-place": place,
      "aria-level": shape.level[place] + 1,
      "aria-posinset": shape.position[place] + 1,
      "aria-setsize": parent < 0 ? 1 : shape.below[parent],
      "aria-expanded": children ? String(isOpen) : null,
      "aria-selected": String(place === chosen),
    });
    if (place === active) made.classList.add("wb-active");
    if (matches.length && match >= 0 && matches[match] === place) made.classList.add("wb-match");
    // Deep trees would leave no room for names.
    made.style.paddingLeft = `${6 + 11 * Math.min(shape.level[place], 30)}px`;
    made.append(element("span", { class: "wb-twist", "aria-hidden": "true" },
      children ? (isOpen ? "▾" : "▸") : ""));
    if (!row) {
      want(place);
      made.append(element("span", { class: "wb-muted" }, "…"));
      return made;
    }
    const isReference = row.drawnAt !== place;
    made.dataset.readable = row.readable;
    made.append(
      element("span", { class: "wb-mark", "aria-hidden": "true" },
        isReference ? "↗" : row.readable ? "●" : "⊘"),
      element("span", { class: "wb-name" }, shortened(row.name, 80)));
    if (!isReference)
      made.append(
        element("span", { class: "wb-shape wb-muted" }, row.shape),
        element("span", { class: "wb-mode wb-muted" }, row.mode));
    made.title = `${row.name}  ${row.shape}  ${row.mode}  ${row.reading}`;
    made.setAttribute("aria-label", [
      row.name, row.shape, row.mode, isReference ? "drawn elsewhere" : row.reading,
    ].filter(Boolean).join(", "));
    return made;
  }
  const list = rowList(box, ROW_HEIGHT, makeRow);

  function mark() {
    setAttribute(box, "aria-activedescendant", `${own}-${active}`);
  }

  function redraw() {
    list.resize(shape.visible().length);
    mark();
  }

  function go(place) {
    active = place;
    if (shape.indexOf(place) < 0) {
      shape.reveal(place);
      list.resize(shape.visible().length);
    }
    list.reveal(shape.indexOf(place));
    mark();
  }

  function setOpen(place, isOpen) {
    shape.setOpen(place, isOpen);
    redraw();
  }

  function openAll(isOpen) {
    shape.setAll(isOpen);
    if (!isOpen) active = 0;
    redraw();
    go(active);
  }

  // -- details

  async function choose(place) {
    chosen = known.get(place)?.drawnAt ?? place;
    go(chosen);
    await ask();
  }

  /** Ask for the details of the chosen node, and show them scrolled to `top`. */
  async function ask(top = 0) {
    const number = (looked += 1);
    pane.setAttribute("aria-busy", "true");
    try {
      const [detail, card] = await Promise.all([
        questions.ask("detail", { place: chosen }),
        questions.ask("card", { place: chosen }),
      ]);
      if (number === looked) showDetail(detail, card, top);
    } catch (fault) {
      if (number === looked)
        pane.replaceChildren(element("p", { class: "wb-cannot" }, fault.message));
    }
    if (number === looked) pane.removeAttribute("aria-busy");
  }

  function links(title, rows, more = 0) {
    if (!rows.length) return null;
    const made = element("div", { class: "wb-links" }, element("h4", {}, title));
    learn(rows);
    for (const row of rows.map(takenApart))
      made.append(element("button", { type: "button", title: row.name,
        onclick: () => { choose(row.place); box.focus(); } }, shortened(row.name, 40)));
    if (more) made.append(element("span", { class: "wb-muted" }, ` and ${more} more`));
    return made;
  }

  function showDetail(detail, card, top = 0) {
    redraws.length = 0;
    const facts = element("p", { class: "wb-facts" },
      element("code", {}, detail.op), ` · ${detail.shape}`,
      ...detail.attributes.map(([name, text]) => ` · ${name} ${text}`));
    const block = (title, shown) =>
      [element("h4", {}, title), valueBlock(shown, detail.buffers, redraws)];
    const where = [
      element("h4", {}, "Where it lives"),
      cardBlock(card, (offer) => take(detail.place, offer)),
    ];
    // Why a value cannot be read is on the card already.
    const parts = [
      element("h3", { class: "wb-title" }, detail.name), facts,
      ...(detail.value.why ? where : block("Value", detail.value)),
      ...(detail.gradient ? block("Gradient", detail.gradient) : []),
      ...(detail.value.why ? [] : where),
    ];
    parts.push(links("Computed from", detail.operands),
      links("Read by", detail.readers, detail.more_readers));
    pane.replaceChildren(...parts.filter(Boolean));
    pane.scrollTop = top;
    setText(spoken, `${detail.name}, ${card.sentence} ${card.answer}`);
  }

  async function take(place, offer) {
    const card = offer === null
      ? await questions.ask("undo", { place })
      : await questions.ask("apply", { place, offer });
    const detail = await questions.ask("detail", { place });
    showDetail(detail, card);
  }

  // -- search

  async function look() {
    const text = search.value.trim();
    const number = (searched += 1);
    if (!text) {
      matches = [];
      match = -1;
      setText(found, "");
      list.paint();
      return;
    }
    try {
      const answer = await questions.ask("find", { text });
      if (number !== searched) return;
      matches = answer.places;
      match = -1;
      step(1);
    } catch (fault) {
      setText(found, fault.message);
    }
  }

  function step(by) {
    if (!matches.length) {
      setText(found, search.value.trim() ? "not found" : "");
      list.paint();
      return;
    }
    match = (match + by + matches.length) % matches.length;
    setText(found, `${match + 1} of ${matches.length}`);
    go(matches[match]);
  }
  let pending = 0;
  search.addEventListener("input", () => {
    clearTimeout(pending);
    pending = setTimeout(look, 150);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      step(1);
    } else if (event.key === "ArrowDown") {
      event.preventDefault();
      box.focus();
    }
  });

  async function typeAhead(sign) {
    const now = performance.now();
    typed = now - typedAt > TYPING_MS ? sign : typed + sign;
    typedAt = now;
    const text = typed;
    const { places } = await questions.ask("find", { text, starts: true });
    if (text !== typed) return;
    const inSight = places.filter((place) => shape.indexOf(place) >= 0);
    // While one goes on typing the same word, where one is may be right already.
    const from = text.length > 1 ? active : active + 1;
    const next = inSight.find((place) => place >= from) ?? inSight[0];
    if (next !== undefined) go(next);
  }

  // -- keys and clicks

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const visible = shape.visible();
    const index = shape.indexOf(active);
    const at = (wantedIndex) =>
      go(visible[Math.max(0, Math.min(visible.length - 1, wantedIndex))]);
    const row = known.get(active);
    const isReference = row !== undefined && row.drawnAt !== active;
    switch (event.key) {
      case "ArrowDown": at(index + 1); break;
      case "ArrowUp": at(index - 1); break;
      case "PageDown": at(index + list.page()); break;
      case "PageUp": at(index - list.page()); break;
      case "Home": at(0); break;
      case "End": at(visible.length - 1); break;
      case "ArrowRight":
        if (isReference) go(row.drawnAt);
        else if (shape.below[active] && !shape.isOpen(active)) setOpen(active, true);
        else if (shape.below[active]) at(index + 1);
        break;
      case "ArrowLeft":
        if (shape.below[active] && shape.isOpen(active)) setOpen(active, false);
        else if (shape.parent[active] >= 0) go(shape.parent[active]);
        break;
      case "Enter":
        if (event.shiftKey) return;
        choose(active);
        break;
      case " ": choose(active); break;
      case "*": shape.openSiblings(active); redraw(); break;
      default:
        if ([...event.key].length !== 1) return;
        typeAhead(event.key).catch((fault) => setText(spoken, fault.message));
    }
    event.preventDefault();
  }
  box.addEventListener("keydown", onKey);
  box.addEventListener("click", (event) => {
    const row = event.target.closest("[data-place]");
    if (!row) return;
    const place = Number(row.dataset.place);
    if (event.target.closest(".wb-twist") && shape.below[place]) {
      active = place;
      setOpen(place, !shape.isOpen(place));
    } else choose(place);
  });
  box.addEventListener("dblclick", (event) => {
    const row = event.target.closest("[data-place]");
    if (!row || event.target.closest(".wb-twist")) return;
    const place = Number(row.dataset.place);
    setOpen(place, !shape.isOpen(place));
  });

  // -- life

  function forget() {
    known.clear();
    learn(model.get("first"));
    list.paint();
  }
  /** Begin with another graph. */
  function replant() {
    shape = treeShape(asInts(model.get("below")));
    shape.setAll(true, firstLevels(shape));
    active = 0;
    chosen = -1;
    looked += 1;
    matches = [];
    match = -1;
    search.value = "";
    setText(found, "");
    pane.removeAttribute("aria-busy");
    invite();
    known.clear();
    learn(model.get("first"));
    redraw();
  }
  const name = () => {
    for (const each of [root, box]) setAttribute(each, "aria-label", model.get("label"));
  };
  const onShown = (message) => {
    if (message?.t === "shown") forget();
  };
  model.on("change:first", forget);
  model.on("change:below", replant);
  model.on("change:label", name);
  model.on("msg:custom", onShown);
  replant();
  const endStanding = standingLine(model, questions, root, () => {
    forget();
    // Where one was in the tree and in the details, one stays.
    if (chosen >= 0) ask(pane.scrollTop);
  });
  requestAnimationFrame(() => list.paint());
  const endTheme = watchTheme(() => redraws.forEach((draw) => draw()));
  return () => {
    model.off("change:first", forget);
    model.off("change:below", replant);
    model.off("change:label", name);
    model.off("msg:custom", onShown);
    endStanding();
    questions.stop();
    list.stop();
    endTheme();
  };
}

export default {
  initialize: ({ model }) => keepRecord(model, ({ t }) => t === "shown" || t === "again"),
  render,
};
