// Questions to the kernel, each with its own answer.

import { tell } from "./frame.js";

const LIMIT_MS = 20000;

/**
 * Return `ask(question, content)`, a promise of the answer, and `stop()`.
 * Two pages may show one view: each knows its own answers by a number that it made up.
 */
export function asker(model) {
  const own = Math.random().toString(36).slice(2);
  const waiting = new Map();
  let asked = 0;

  function settle(id, how, value) {
    const one = waiting.get(id);
    if (!one) return;
    waiting.delete(id);
    clearTimeout(one.timer);
    one[how](value);
  }

  function receive(message, buffers) {
    if (!message || typeof message !== "object") return;
    if (message.t === "refused") {
      settle(message.req, "reject", new Error(message.text));
    } else if (waiting.has(message.req)) {
      settle(message.req, "resolve", { ...message, buffers: buffers ?? [] });
    }
  }
  model.on("msg:custom", receive);

  return {
    ask(question, content = {}) {
      const req = `${own}-${(asked += 1)}`;
      return new Promise((resolve, reject) => {
        const late = () =>
          settle(req, "reject", new Error("The kernel does not answer. Run the cell again."));
        waiting.set(req, { resolve, reject, timer: setTimeout(late, LIMIT_MS) });
        if (!tell(model, { ask: question, req, ...content })) {
          settle(req, "reject", new Error("The kernel is gone. Run the cell again."));
        }
      });
    },
    stop() {
      model.off("msg:custom", receive);
      for (const one of waiting.values()) clearTimeout(one.timer);
      waiting.clear();
    },
  };
}
