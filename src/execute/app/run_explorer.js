// The run explorer: a tab for each root, its rows page by page, what they cover, and refs to copy.
(() => {
  const main = document.querySelector("main");
  const PAGE = 50;
  let asked = {}, steps = [], at = 0, serial = 0;
  const refsOf = (step) => [step.artifact_uri, step.next_run_ref, step.run_id].filter((ref) => typeof ref === "string" && ref);
  // Sections of the text, for hosts that hand over nothing else: "## label (n rows)" and TSV below.
  const fromText = (text) => {
    const found = [];
    for (const part of text.split(/^## /m).slice(1)) {
      const lines = part.split("\n");
      const end = lines.findIndex((line, n) => n > 0 && line.trim() === "");
      const table = lines.slice(1, end < 0 ? lines.length : end).map((line) => line.split("\t"));
      const said = /^(.*?)(?: \((\d+) rows?.*\))?\s*$/.exec(lines[0]);
      const head = table.shift() || [];
      if (head.length && table.length) found.push({ label: said[1], total: said[2] && Number(said[2]), columns: head.map((name) => ({ name })), rows: table });
      else found.push({ label: said[1], text: lines.slice(1).join("\n").trim() });
    }
    return found;
  };
  const read = (result) => {
    const said = result.structuredContent || {};
    const text = textOf(result), meta = list(metaOf(result).steps), written = fromText(text);
    let roots = list(said.roots);
    if (!roots.length) roots = meta;
    if (!roots.length) return written.length ? written : text ? [{ label: "result", text }] : [];
    return roots.map((root, n) => {
      const more = meta[n] || {}, plain = written.find((one) => one.label === root.label) || written[n] || {};
      // Values are the rows as they are; those of the text are escaped. Of a result of which none had room, a page is fetched.
      const whole = list(root.values).length || root.rows === 0 ? list(root.values) : undefined;
      return {
        ...plain, ...more, ...root,
        label: root.label || plain.label || more.expr_preview || `step ${n + 1}`,
        total: typeof root.rows === "number" ? root.rows : root.total !== undefined ? root.total : plain.total,
        columns: list(root.columns).length ? root.columns.map((c) => (typeof c === "string" ? { name: c } : c)) : plain.columns,
        rows: typeof root.text === "string" ? undefined : whole || plain.rows,
        run_id: root.run_id || more.run_id || (roots.length === 1 ? said.run_id : undefined),
        lossy: list(more.lossy_fields),
      };
    });
  };
  const page = async (step, offset, note) => {
    const mine = ++serial;
    note.textContent = "Reading…";
    const which = step.artifact_uri ? { artifact_uri: step.artifact_uri } : { run_id: step.run_id };
    try {
      const result = await Host.call("plasm_ui_read_run", { logical_session_ref: asked.logical_session_ref, ...which, offset, limit: PAGE });
      if (mine !== serial) return;
      if (result.isError) { showError(note, result); return; }
      const got = result.structuredContent || {};
      Object.assign(step, {
        columns: list(got.columns).length ? got.columns : step.columns, rows: list(got.rows), offset: got.offset || 0,
        total: got.total === undefined ? step.total : got.total, next: got.next_offset,
      });
      show();
    } catch (error) {
      if (mine !== serial) return;
      say(note, "bad", "The connection was lost", error.message.replace(/\.?$/, ".") + (step.rows ? " The rows above are still those that came." : ""));
      note.firstChild.append(el("button", { type: "button", onclick: () => page(step, offset, note) }, "Try again"));
    }
  };
  const body = (step) => {
    const parts = [], note = el("div", { "aria-live": "polite" });
    const from = step.offset || 0, shown = list(step.rows).length;
    const bar = el("div", { class: "bar" });
    if (step.coverage) bar.append(el("span", { class: "tag " + (["complete", "partial", "unknown"].includes(step.coverage) ? step.coverage : "") }, step.coverage));
    if (!step.rows && step.total !== undefined) bar.append(el("span", { class: "dim" }, `${step.total} rows`));
    if (step.rows) bar.append(el("span", { class: "dim" }, shown ? `rows ${from + 1}–${from + shown}` + (step.total !== undefined ? ` of ${step.total}` : "") : "no rows"));
    const stored = (step.artifact_uri || step.run_id) && asked.logical_session_ref;
    if (stored && Host.callsTools()) {
      const more = step.next !== undefined ? step.next !== null : step.total > from + shown;
      bar.append(el("button", { type: "button", onclick: () => page(step, Math.max(0, from - PAGE), note), ...(from ? {} : { disabled: "" }) }, "Previous"));
      bar.append(el("button", { type: "button", onclick: () => page(step, from + shown, note), ...(more ? {} : { disabled: "" }) }, "Next"));
    }
    if (list(step.lossy).length) bar.append(el("span", { class: "partial" }, "not of their type: " + step.lossy.join(", ")));
    parts.push(bar);
    if (step.rows && step.columns) parts.push(grid(step.columns, step.rows));
    else if (step.text) parts.push(el("pre", {}, step.text));
    else if (!step.rows && step.total !== 0) parts.push(el("p", { class: "dim" }, stored && Host.callsTools() ? "The rows are stored." : "The rows are stored; this host cannot fetch them here."));
    const refs = refsOf(step);
    if (refs.length) parts.push(el("div", { class: "bar" }, refs.map(copies)));
    parts.push(note);
    // Where nothing of a stored result came along, its first page is fetched, once.
    if (!step.rows && !step.text && stored && Host.callsTools() && !step.tried) {
      step.tried = true;
      page(step, 0, note);
    }
    return parts;
  };
  const show = () => {
    if (!steps.length) return say(main, "idle", "Nothing came back", "The run gave no rows.");
    at = Math.min(at, steps.length - 1);
    const choose = (n) => { at = n; serial++; show(); main.querySelector('[aria-selected="true"]').focus(); };
    const tabs = steps.map((step, n) => el("button", {
      type: "button", role: "tab", "aria-selected": String(n === at), tabindex: n === at ? "0" : "-1", onclick: () => choose(n),
      onkeydown: (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (by) choose((at + by + steps.length) % steps.length);
      },
    }, step.label));
    main.replaceChildren(el("div", { role: "tablist" }, tabs), ...body(steps[at]));
  };
  Host.on("input", (input) => { asked = input; });
  Host.on("cancelled", (why) => say(main, "idle", "Cancelled", typeof why === "string" ? why : "The run was given up."));
  Host.on("result", (result) => {
    serial++;
    if (result.isError) return showError(main, result);
    const said = result.structuredContent || {};
    const handle = said.logical_session_ref || (JSON.stringify(said.roots || "").match(/plasm:\/\/session\/(l_[a-z2-7]{26})\//) || [])[1];
    if (handle && !asked.logical_session_ref) asked = { ...asked, logical_session_ref: handle };
    at = 0;
    steps = read(result);
    show();
  });
  say(main, "idle", "Waiting for the run…");
  Host.start("plasm run explorer").catch((error) => say(main, "bad", "No connection to the host", error.message + " Open this view again."));
})();
