// A front end that is not JupyterLab: a page with a model, and nothing of a notebook around it.
// `window.toKernel(content)` gives what the kernel answers or has to say since it was last called.
window.openView = async (source, style, state) => {
  const listeners = [];
  const model = {
    get: (name) => state[name],
    on: (name, listener) => listeners.push([name, listener]),
    off: (name, listener) => {
      const place = listeners.findIndex(([known, each]) => known === name && each === listener);
      if (place >= 0) listeners.splice(place, 1);
    },
    send: (content) => void pass(content),
  };
  const bytes = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const view = (text) => new DataView(bytes(text).buffer);
  for (const [name, value] of Object.entries(state)) {
    if (value !== null && typeof value === "object" && "base64" in value) state[name] = view(value.base64);
  }
  async function pass(content) {
    for (const [message, buffers] of await window.toKernel(content)) {
      for (const [name, listener] of [...listeners]) {
        if (name === "msg:custom") listener(message, buffers.map(view));
      }
    }
  }
  const sheet = document.createElement("style");
  sheet.textContent = style;
  document.head.append(sheet);
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const { default: made } = await import(url);
  const widget = typeof made === "function" ? await made() : made;
  await widget.initialize?.({ model });
  widget.render({ model, el: document.querySelector("main") });
  setInterval(() => pass(null), 50);
};
