// Both pages of the MCP App in a real browser, within the reference host: handshake, results whole and stripped, hostile
// text, paging, a lost connection, themes, size, teardown. Pictures go to the folder that is given.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright-core";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const given = (name) => { const at = process.argv.indexOf("--" + name); return at < 0 ? undefined : process.argv[at + 1]; };
const pictures = given("shots"), room = given("source");
if (pictures) mkdirSync(pictures, { recursive: true });

// As `concat!` in src/execute/app.rs puts them together.
const source = readFileSync(`${room}/app.rs`, "utf8");
const page = (name) => {
  const body = source.slice(source.indexOf(`pub const ${name}`)).match(/concat!\(([\s\S]*?)\n    \),/)[1];
  return [...body.matchAll(/include_str!\("([^"]+)"\)|"((?:[^"\\]|\\.)*)"/g)]
    .map(([, file, text]) => (file ? readFileSync(`${room}/${file}`, "utf8") : JSON.parse(`"${text}"`))).join("");
};
const CSP = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">`;
const html = (name) => page(name).replace("<head>", "<head>" + CSP);

const bundled = await build({ entryPoints: [at("host.js")], bundle: true, write: false, format: "iife", absWorkingDir: at(".") });
const browser = await chromium.launch({ executablePath: given("chromium"), args: ["--no-sandbox"] });
const HANDLE = "l_" + "a".repeat(26);
const EVIL = `<img src=x onerror="parent.hacked=1"><script>document.title='hacked'</script>`;
const columns = [{ name: "id", type: "int" }, { name: "title", type: "text" }, { name: "open", type: "bool" }, { name: "made", type: "datetime" }];
const rows = (from, many) => Array.from({ length: many }, (_, n) => [from + n, n === 1 ? EVIL : `Issue ${from + n}`, n % 2 === 0, n === 2 ? null : "2026-11-30T07:00:00Z"]);
const text = "## issues (120 rows)\nid\ttitle\topen\n1\tIssue one\ttrue\n2\t" + EVIL + "\tfalse\n\nmore in the artifact";
const run = {
  content: [{ type: "text", text }],
  structuredContent: { run_id: "r_1", roots: [
    { label: "issues", rows: 120, coverage: "partial", columns, values: [[1, "Issue one", true, null], [2, EVIL, false, "2026-11-30T07:00:00Z"]], artifact_uri: `plasm://session/${HANDLE}/r/1`, next_run_ref: "n_abc" },
    { label: "labels", rows: 0, coverage: "complete" },
  ] },
  _meta: { plasm: { steps: [{ run_id: "r_1", artifact_uri: `plasm://session/${HANDLE}/r/1`, expr_preview: "Issue", lossy_fields: ["made"] }] } },
};
const got = (from) => ({ content: [], structuredContent: { columns, rows: rows(from, 50), offset: from, total: 120, next_offset: from + 50 < 120 ? from + 50 : null } });
const nodes = [
  { id: 0, op: "query", api: "github", entity: "Issue", inputs: [], effect: "read", bounds: { rows: 100, requests: 4 } },
  { id: 1, op: "filter", inputs: [0], effect: "read", bounds: { rows: 100, requests: 0 } },
  { id: 2, op: "create", api: "github", entity: "Comment", inputs: [1], effect: { class: "write" }, bounds: { rows: 1, requests: 1 } },
];
const plan = {
  content: [{ type: "text", text: "verdict: review\n0 query github::Issue" }],
  structuredContent: { run_ref: "p_xyz", verdict: "review", effects: [{ class: "create", api: "github", entity: "Comment" }], bounds: { requests: 5 }, roots: [] },
  _meta: { plasm: { dry_run: true, plan: { nodes, warnings: ["title is compared here, not upstream"] } } },
};

async function open(what, name, { theme = "light", capabilities = { serverTools: {} } } = {}) {
  const tab = await browser.newPage({ viewport: { width: 760, height: 520 } });
  const faults = [];
  tab.on("pageerror", (error) => faults.push(String(error)));
  await tab.setContent("<!doctype html><body style='margin:0'></body>");
  await tab.addScriptTag({ content: bundled.outputFiles[0].text });
  await tab.evaluate(([html, given]) => window.open_page(html, given), [html(name), {
    context: { theme, containerDimensions: { maxHeight: 500 } }, capabilities, input: { logical_session_ref: HANDLE, run_ref: "p_xyz" },
  }]);
  const frame = tab.frames().find((frame) => frame !== tab.mainFrame());
  return {
    tab, frame,
    result: (result) => tab.evaluate((result) => window.bridge.sendToolResult(result), result),
    sees: (what) => frame.getByText(what).first().waitFor({ timeout: 5000 }),
    picture: async (name) => { if (pictures) await tab.screenshot({ path: `${pictures}/${name}.png` }); },
    close: async () => {
      assert.deepEqual(faults, [], "the page threw");
      assert.equal(await tab.evaluate(() => window.hacked), undefined, "text of rows ran");
      await tab.evaluate(() => window.bridge.teardownResource({}));
      await tab.close();
      console.log(`ok ${what}`);
    },
  };
}

for (const theme of ["light", "dark"]) {
  const view = await open(`a run, ${theme}: pages, a lost connection, tabs, within 500 px`, "RUN_EXPLORER", { theme });
  await view.result(run);
  await view.sees("Issue one");
  assert.equal(await view.frame.locator("td.null").count(), 1, "what is null is told from what is empty");
  await view.picture(`run-${theme}-first`);
  await view.tab.evaluate((answers) => { window.host.answers = answers; }, [got(2)]);
  await view.frame.getByRole("button", { name: "Next" }).click();
  await view.sees("rows 3–52 of 120");
  assert.equal(await view.frame.locator("img").count(), 0, "markup of a row was taken for markup");
  const calls = await view.tab.evaluate(() => window.host.calls);
  assert.deepEqual(calls[0].arguments, { logical_session_ref: HANDLE, artifact_uri: `plasm://session/${HANDLE}/r/1`, offset: 2, limit: 50 });
  await view.picture(`run-${theme}-page`);
  await view.frame.getByRole("button", { name: "Next" }).click();
  await view.sees("The connection was lost");
  await view.picture(`run-${theme}-lost`);
  await view.tab.evaluate((answers) => { window.host.answers = answers; }, [got(52)]);
  await view.frame.getByRole("button", { name: "Try again" }).click();
  await view.sees("rows 53–102 of 120");
  await view.frame.getByRole("tab", { name: "labels" }).click();
  await view.sees("complete");
  const sizes = await view.tab.evaluate(() => window.host.sizes);
  assert.ok(sizes.length > 0 && sizes.every((size) => size.height <= 500), JSON.stringify(sizes));
  await view.close();

  const review = await open(`a plan and its graph, ${theme}`, "PLAN_REVIEW", { theme });
  await review.result(plan);
  await review.sees("One write");
  assert.equal(await review.frame.locator("g.node").count(), 3);
  assert.equal(await review.frame.locator("g.node.write").count(), 1);
  await review.picture(`plan-${theme}`);
  await review.close();
}

for (const [what, result] of Object.entries({
  "without _meta": { content: run.content, structuredContent: run.structuredContent },
  "structuredContent alone": { content: [], structuredContent: run.structuredContent },
  "content alone": { content: run.content },
})) {
  const view = await open(`a run, ${what}, where the host calls no tools`, "RUN_EXPLORER", { capabilities: {} });
  await view.result(result);
  await view.frame.getByRole("tab", { name: "issues" }).waitFor({ timeout: 5000 });
  await view.picture("run " + what);
  await view.close();
}
for (const [what, result, sees] of [
  ["without _meta", { content: plan.content, structuredContent: plan.structuredContent }, "One write"],
  ["content alone", { content: plan.content }, "verdict: review"],
]) {
  const view = await open(`a plan, ${what}`, "PLAN_REVIEW");
  await view.result(result);
  await view.sees(sees);
  await view.picture("plan " + what);
  await view.close();
}
const alone = await open("a run of which no row had room fetches its first page", "RUN_EXPLORER");
const bare = run.structuredContent.roots.map(({ values, ...root }) => root);
await alone.tab.evaluate((answers) => { window.host.answers = answers; }, [got(0)]);
await alone.result({ content: [], structuredContent: { ...run.structuredContent, roots: bare } });
await alone.sees("rows 1–50 of 120");
await alone.picture("run-fetched");
await alone.close();
const failed = await open("an error is told, and a theme that changes is followed", "RUN_EXPLORER");
await failed.result({ isError: true, content: [], structuredContent: { error: { code: "session_expired", message: "the session has expired", hint: "call plasm_context", retryable: false } } });
await failed.sees("the session has expired");
await failed.picture("run-error");
await failed.tab.evaluate(() => window.bridge.setHostContext({ theme: "dark" }));
await failed.frame.locator(":root[data-theme=dark]").waitFor();
await failed.close();
const cancelled = await open("what was cancelled is told", "PLAN_REVIEW");
await cancelled.tab.evaluate(() => window.bridge.sendToolCancelled({ reason: "stopped by the person" }));
await cancelled.sees("stopped by the person");
await cancelled.close();

await browser.close();
