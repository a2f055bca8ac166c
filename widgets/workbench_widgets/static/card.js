// Where a node lives, why, whether it can be read, and buttons for what can be done about it.
import { element } from "./frame.js";

/**
 * @param {object} card the message about it
 * @param {(offer: string|null) => Promise<void>} take takes an offer, or the latest one back (null)
 */
export function cardBlock(card, take) {
  const said = element("p", { class: "wb-refused", role: "alert" });
  const root = element("div", { class: "wb-card" });
  root.append(
    element("p", {}, card.sentence),
    element("p", { class: card.readable ? "wb-can" : "wb-cannot" },
      element("span", { "aria-hidden": "true" }, card.readable ? "✓ " : "⊘ "), card.answer),
  );
  if (card.path.length > 1) {
    const path = element("ol", { class: "wb-path", "aria-label": "from the node to what is at fault" });
    card.path.forEach((name, at) =>
      path.append(element("li", { class: at === card.path.length - 1 ? "wb-cannot" : null }, name)));
    root.append(path);
  }
  if (card.changes.length) {
    root.append(element("h4", {}, "What changed"), pairs(card.changes));
  } else if (card.routine !== null) {
    root.append(element("h4", {}, `What \`${card.routine}\` takes now`), pairs(card.cost));
  }
  const buttons = element("div", { class: "wb-offers" });
  const press = (offer) => async () => {
    root.setAttribute("aria-busy", "true");
    const idle = [...buttons.querySelectorAll("button:enabled")];
    for (const each of idle) each.disabled = true;
    said.textContent = "";
    try {
      await take(offer);
    } catch (fault) {
      said.textContent = fault.message;
      for (const each of idle) each.disabled = false;
    }
    root.removeAttribute("aria-busy");
  };
  for (const [name, label, expected, isRefused] of card.offers)
    buttons.append(
      element("div", {},
        element("button",
          { type: "button", "data-offer": name, disabled: isRefused, onclick: press(name) }, label),
        element("span", { class: "wb-muted" }, ` ${expected}`),
        isRefused ? null : element("code", {}, `.apply("${name}")`)));
  if (card.steps)
    buttons.append(element("div", {},
      element("button", { type: "button", "data-offer": "undo", onclick: press(null) }, "Undo"),
      element("span", { class: "wb-muted" }, " back to the context from before")));
  if (!card.offers.length && !card.readable && card.routine === null)
    buttons.append(element("p", { class: "wb-muted" },
      "The routine that computes it is not known here: name it with routine=…"));
  const isOffered = card.offers.some(([, , , isRefused]) => !isRefused);
  if (card.beside && isOffered && !card.changes.length)
    root.append(element("p", { class: "wb-muted" },
      "A what-if: it is tried on copies, beside the run, which goes on as it is."));
  if (card.changes.length)
    root.append(element("p", { class: "wb-muted" },
      card.beside
        ? "A what-if beside the run, on copies of its values: the run goes on as it was. "
        : "This view shows the new context. ",
      "The new context is this view's ", element("code", {}, ".context"),
      ", and the new step its ", element("code", {}, ".routine"), "."));
  root.append(buttons, said);
  return root;
}

function pairs(rows) {
  const list = element("dl", { class: "wb-costs" });
  for (const [name, text] of rows)
    list.append(element("dt", {}, name), element("dd", {}, text));
  return list;
}
