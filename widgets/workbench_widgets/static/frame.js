// What all views share: elements, keys, themes, numbers, words for a screen reader.
// A plain module without state; `assets.py` joins it with the views that import it.

/**
 * Make an element.  Children that are strings become text, never markup.
 * @param {string} tag
 * @param {Record<string, any>} [attributes] `on*` are listeners, null and false are left out
 * @param {...(Node|string|null)} children
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null) made.append(child);
  return made;
}

/** Set the text of an element, touching the page only when it differs. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Set an attribute, touching the page only when it differs; null takes it away. */
export function setAttribute(node, name, value) {
  if (value === null) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

/**
 * Whether a key belongs to a view and must not reach JupyterLab, which has shortcuts of one key:
 * `x` cuts a cell, arrows move between cells.  Escape, Shift+Enter and chords stay JupyterLab's.
 */
export function isOwnKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  return event.key !== "Escape" && !(event.shiftKey && event.key === "Enter");
}

/**
 * Make the root of a view inside the element that the notebook gave.  The layout is inside, because
 * a notebook without a kernel decorates the outer element.
 * @param {HTMLElement} outer
 * @param {string} name `panel` gives the classes `wb wb-panel`
 * @param {string} label what a screen reader calls the view
 */
export function frame(outer, name, label) {
  const root = element("section", { class: `wb wb-${name}`, role: "group", "aria-label": label });
  root.addEventListener("keydown", (event) => {
    if (isOwnKey(event)) event.stopPropagation();
  });
  outer.append(root);
  return root;
}

/** A region whose words a screen reader says when they change. */
export function liveRegion() {
  return element("div", { class: "wb-spoken", role: "status", "aria-live": "polite" });
}

/**
 * Call `changed` whenever the theme does; returns a function that ends that.
 * Custom properties can only be read once the view is attached, not while it is rendered.
 */
export function watchTheme(changed) {
  const observer = new MutationObserver(changed);
  const attributeFilter = ["data-jp-theme-light", "data-jp-theme-name", "class"];
  observer.observe(document.body, { attributes: true, attributeFilter });
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    system.removeEventListener("change", changed);
  };
}

/** Send a message to the kernel; returns whether there is one: a view outlives its kernel. */
export function tell(model, content) {
  try {
    model.send(content);
    return true;
  } catch {
    return false;
  }
}

/** Call `moved` when a person does anything on the page, and now; at most once in `everyMs`. */
export function watchPeople(moved, everyMs = 10_000) {
  let last = -Infinity;
  const heard = () => {
    const now = performance.now();
    if (now - last < everyMs) return;
    last = now;
    moved();
  };
  const kinds = ["pointermove", "pointerdown", "keydown", "wheel", "focus"];
  const how = { capture: true, passive: true };
  for (const kind of kinds) addEventListener(kind, heard, how);
  heard();
  return () => {
    for (const kind of kinds) removeEventListener(kind, heard, how);
  };
}

/** Call `done` when the page has taken in what was changed in the frame at hand. */
export function afterFrame(done) {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    done();
  };
  port2.postMessage(null);
}

/**
 * Call `changed` with whether an element can be seen, now and when that changes; returns what ends
 * it.  Nothing is known of what is not attached yet.
 */
export function watchSight(node, changed) {
  const observer = new IntersectionObserver((seen) => changed(seen.at(-1).isIntersecting));
  observer.observe(node);
  return () => observer.disconnect();
}

/** Return the values of custom properties, by name without the dashes. */
export function properties(node, names) {
  const style = getComputedStyle(node);
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** View the octets of a message as float32, copying only what is not aligned. */
export function asFloats(view) {
  const { buffer, byteOffset, byteLength } = view;
  const length = byteLength >> 2;
  if (byteOffset % 4 === 0) return new Float32Array(buffer, byteOffset, length);
  return new Float32Array(buffer.slice(byteOffset, byteOffset + 4 * length));
}

/** A number in few digits: 0.01234 is "0.0123", 1e30 is "1e+30". */
export function formatNumber(value, digits = 3) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e6) {
    const shown = value.toPrecision(digits);
    const plain = shown.includes("e") ? String(Number(shown)) : shown;
    return plain.includes(".") ? plain.replace(/\.?0+$/, "") : plain;
  }
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  return `${mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa}e${exponent}`;
}

/** A whole number with thin spaces between groups of three digits. */
export function formatCount(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

/** Bytes in the unit that leaves one to three digits before the point. */
export function formatBytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let power = 0;
  while (Math.abs(value) >= 1000 && power < units.length - 1) {
    value /= 1000;
    power += 1;
  }
  return `${power ? formatNumber(value) : Math.round(value)} ${units[power]}`;
}

/** Cut a text that is too long for its place; the whole of it belongs into a `title`. */
export function shortened(text, most = 60) {
  const signs = [...text];
  return signs.length <= most ? text : `${signs.slice(0, most - 1).join("")}…`;
}
