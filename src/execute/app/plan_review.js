// The plan review: the verdict, what is written, the graph of steps with their bounds, and the ref to run.
(() => {
  const main = document.querySelector("main");
  const NS = "http://www.w3.org/2000/svg";
  const svg = (tag, props, ...kids) => {
    const node = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(props)) node.setAttribute(name, value);
    node.append(...kids);
    return node;
  };
  const W = 220, H = 44, GAP = 34;
  const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  const graph = (nodes) => {
    const depth = new Map(), rows = [], place = new Map();
    for (const node of nodes.slice(0, 200)) {
      const deep = list(node.inputs).reduce((most, id) => Math.max(most, (depth.has(id) ? depth.get(id) : -1) + 1), 0);
      depth.set(node.id, deep);
      rows[deep] = rows[deep] || [];
      place.set(node.id, { x: deep * (W + GAP) + 4, y: rows[deep].length * (H + 12) + 4 });
      rows[deep].push(node);
    }
    const tall = Math.max(...rows.map((row) => row.length)) * (H + 12) + 4, wide = rows.length * (W + GAP);
    const root = svg("svg", { width: wide, height: tall, role: "img", "aria-label": "The steps of the plan" });
    for (const node of nodes) {
      const to = place.get(node.id);
      for (const id of list(node.inputs)) {
        const from = place.get(id);
        if (!from || !to) continue;
        const a = [from.x + W, from.y + H / 2], b = [to.x, to.y + H / 2], m = (a[0] + b[0]) / 2;
        root.append(svg("path", { class: "edge", d: `M${a} C${m},${a[1]} ${m},${b[1]} ${b}` }));
      }
    }
    for (const node of nodes) {
      const at = place.get(node.id);
      if (!at) continue;
      const effect = typeof node.effect === "object" ? (node.effect || {}).class : node.effect;
      const writes = effect && effect !== "read" && effect !== "none";
      const title = svg("text", { x: 10, y: 18 }), sub = svg("text", { class: "sub", x: 10, y: 34 }), tip = svg("title", {});
      const what = [node.op, [node.api, node.entity].filter(Boolean).join("::")].filter(Boolean).join(" ");
      const bounds = node.bounds || {};
      const sizes = [["rows", bounds.rows], ["requests", bounds.requests]].filter((one) => one[1] !== undefined && one[1] !== null && one[1] !== 0);
      title.textContent = cut(what, 30);
      sub.textContent = cut((writes ? "writes · " : "") + sizes.map(([name, n]) => `≤ ${n} ${n === 1 ? name.slice(0, -1) : name}`).join(", "), 36);
      tip.textContent = what;
      root.append(svg("g", { class: writes ? "node write" : "node", transform: `translate(${at.x},${at.y})` },
        tip, svg("rect", { width: W, height: H, rx: 6 }), title, sub));
    }
    return el("div", { class: "scroll", tabindex: "0" }, root);
  };
  const words = (one) => (typeof one === "string" ? one : one.message || [one.class || one.effect, one.api, one.entity, one.method || one.operation].filter(Boolean).join(" ") || JSON.stringify(one));
  const show = (result) => {
    if (result.isError) return showError(main, result);
    const said = result.structuredContent || {}, meta = metaOf(result), text = textOf(result);
    const plan = said.plan || meta.plan || {};
    const verdict = said.verdict || plan.verdict, effects = list(said.effects).length ? said.effects : list(plan.effects);
    const parts = [], bar = el("div", { class: "bar" });
    if (verdict) bar.append(el("span", { class: "tag " + (["ok", "review", "blocked"].includes(verdict) ? verdict : "") }, verdict));
    const bounds = said.bounds || {};
    for (const [name, n] of Object.entries(bounds)) if (["number", "string"].includes(typeof n)) bar.append(el("span", { class: "dim" }, `≤ ${n} ${name}`));
    if (typeof said.run_ref === "string") bar.append(copies(said.run_ref));
    if (bar.childNodes.length) parts.push(bar);
    if (effects.length) parts.push(el("div", { class: "state" }, el("strong", { class: "review" }, effects.length === 1 ? "One write" : effects.length + " writes"), effects.map((one) => el("p", {}, words(one)))));
    const nodes = list(plan.nodes).length ? plan.nodes : list(said.nodes);
    if (nodes.length) parts.push(graph(nodes));
    for (const warning of list(said.warnings).concat(list(plan.warnings))) parts.push(el("div", { class: "partial" }, words(warning)));
    if (!nodes.length && text) parts.push(el("pre", {}, text));
    if (!parts.length) return say(main, "idle", "No plan came back");
    main.replaceChildren(...parts);
  };
  Host.on("cancelled", (why) => say(main, "idle", "Cancelled", typeof why === "string" ? why : "No plan was made."));
  Host.on("result", show);
  say(main, "idle", "Waiting for the plan…");
  Host.start("plasm plan review").catch((error) => say(main, "bad", "No connection to the host", error.message + " Open this view again."));
})();
