"use strict";
// The way to the host that shows this page: JSON-RPC over postMessage. Whatever a host does not offer is done without.
const Host = (() => {
  const WAIT = 30000, HANDSHAKE = 5000;
  const waiting = new Map(), heard = {};
  let next = 1, context = {}, can = {}, ended = false;
  const send = (message) => window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const tell = (method, params) => send({ method, params: params || {} });
  const ask = (method, params, wait) => new Promise((done, fail) => {
    const id = next++;
    const timer = setTimeout(() => { waiting.delete(id); fail(new Error("The host did not answer.")); }, wait || WAIT);
    waiting.set(id, { done, fail, timer });
    send({ id, method, params });
  });
  const emit = (what, value) => { if (heard[what]) heard[what](value); };
  const dress = (more) => {
    context = { ...context, ...more };
    const root = document.documentElement;
    if (context.theme === "light" || context.theme === "dark") {
      root.dataset.theme = context.theme;
      root.style.colorScheme = context.theme;
    }
    const styles = (context.styles && context.styles.variables) || {};
    for (const [name, value] of Object.entries(styles)) {
      if (/^--[a-z0-9-]+$/.test(name) && typeof value === "string" && !/url\s*\(/i.test(value)) root.style.setProperty(name, value);
    }
    const box = context.containerDimensions || {};
    const most = box.height || box.maxHeight;
    root.style.setProperty("--most", (typeof most === "number" ? Math.max(160, most) : 500) + "px");
  };
  window.addEventListener("message", (event) => {
    const message = event.data;
    if (event.source !== window.parent || !message || message.jsonrpc !== "2.0" || ended) return;
    if (message.method === undefined) {
      const one = waiting.get(message.id);
      if (!one) return;
      waiting.delete(message.id);
      clearTimeout(one.timer);
      if (message.error) one.fail(new Error(String(message.error.message || "The host refused.")));
      else one.done(message.result || {});
      return;
    }
    const params = message.params || {};
    switch (message.method) {
      case "ui/notifications/tool-input": emit("input", params.arguments || {}); break;
      case "ui/notifications/tool-result": emit("result", params); break;
      case "ui/notifications/tool-cancelled": emit("cancelled", params.reason); break;
      case "ui/notifications/host-context-changed": dress(params); break;
      case "ui/resource-teardown":
        send({ id: message.id, result: {} });
        ended = true;
        watch.disconnect();
        for (const one of waiting.values()) clearTimeout(one.timer);
        waiting.clear();
        return;
      case "ping": send({ id: message.id, result: {} }); break;
      default:
        if (message.id !== undefined) send({ id: message.id, error: { code: -32601, message: "not offered" } });
    }
  });
  let told = "";
  const measure = () => {
    const box = document.documentElement.getBoundingClientRect();
    const size = { width: Math.ceil(window.innerWidth), height: Math.ceil(Math.max(box.height, document.body.scrollHeight)) };
    const now = size.width + "x" + size.height;
    if (now !== told && !ended) { told = now; tell("ui/notifications/size-changed", size); }
  };
  const watch = new ResizeObserver(measure);
  return {
    on: (what, then) => { heard[what] = then; },
    callsTools: () => Boolean(can.serverTools),
    call: (name, args) => ask("tools/call", { name, arguments: args }),
    async start(name) {
      const params = {
        protocolVersion: "2026-01-26",
        appInfo: { name, version: "1" },
        appCapabilities: { availableDisplayModes: ["inline"] },
      };
      const answer = await ask("ui/initialize", params, HANDSHAKE);
      can = answer.hostCapabilities || {};
      dress(answer.hostContext || {});
      tell("ui/notifications/initialized");
      watch.observe(document.body);
      measure();
    },
  };
})();

// An element with text in it. Text of rows goes nowhere else: never into markup.
const el = (tag, props, ...kids) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  for (const kid of kids.flat()) {
    if (kid !== null && kid !== undefined) node.append(kid instanceof Node ? kid : document.createTextNode(String(kid)));
  }
  return node;
};
const say = (where, kind, title, more) => {
  where.replaceChildren(el("div", { class: "state " + kind, role: kind === "bad" ? "alert" : "status" },
    el("strong", {}, title), more ? el("p", {}, more) : null));
};
const copies = (text) => {
  const button = el("button", { class: "copy", type: "button", title: "Copy" }, text);
  button.addEventListener("click", async () => {
    let done = true;
    try { await navigator.clipboard.writeText(text); } catch {
      const area = el("textarea", {});
      area.value = text;
      document.body.append(area);
      area.select();
      try { done = document.execCommand("copy"); } catch { done = false; }
      area.remove();
    }
    button.classList.add(done ? "copied" : "failed");
    button.setAttribute("aria-label", done ? "Copied" : "Select and copy by hand");
    setTimeout(() => button.classList.remove("copied", "failed"), 1500);
  });
  return button;
};
const textOf = (result) => (Array.isArray(result.content) ? result.content : [])
  .filter((part) => part && part.type === "text" && typeof part.text === "string").map((part) => part.text).join("\n");
const list = (value) => (Array.isArray(value) ? value : []);
const metaOf = (result) => (result._meta && result._meta.plasm) || {};
const showError = (where, result) => {
  const error = result.structuredContent && result.structuredContent.error;
  if (!error) return say(where, "bad", "This did not work", textOf(result) || "No reason was given.");
  const place = error.line ? ` (line ${error.line}, column ${error.col || 1})` : "";
  say(where, "bad", String(error.message || error.code || "This did not work") + place, error.hint);
  if (error.fix) where.firstChild.append(el("pre", {}, error.fix));
  if (error.retryable) where.firstChild.append(el("p", { class: "dim" }, "The same call may work later."));
  if (error.code) where.firstChild.append(el("code", { class: "dim" }, error.code));
};
// A cell: by its column's type where that is known, else by its value's.
const cell = (value, type) => {
  if (value === null || value === undefined || value === "") return el("td", { class: "null" }, value === "" ? "" : "null");
  if (typeof value === "boolean") return el("td", { class: "bool" }, value ? "true" : "false");
  if (typeof value === "number" || type === "int" || type === "float") return el("td", { class: "num" }, value);
  if (typeof value === "object") return el("td", { class: "json" }, JSON.stringify(value));
  return el("td", { class: type || "text", title: value.length > 60 ? value : "" }, value);
};
const grid = (columns, rows) => {
  const head = columns.map((column) => el("th", { scope: "col" }, column.name, column.type ? el("small", {}, column.type) : null));
  const line = (row) => el("tr", {}, columns.map((column, at) => cell(Array.isArray(row) ? row[at] : (row || {})[column.name], column.type)));
  return el("div", { class: "scroll", tabindex: "0" }, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows.map(line))));
};
