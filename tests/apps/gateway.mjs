// Both pages as a gateway serves them, over an API of this process: named by their tools, read as resources, and shown with the
// results of the tools, whole and stripped; the explorer's further rows come from the gateway too.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright-core";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const given = (name) => { const at = process.argv.indexOf("--" + name); return at < 0 ? undefined : process.argv[at + 1]; };
const pictures = given("shots");
if (pictures) mkdirSync(pictures, { recursive: true });

const EVIL = `<img src=x onerror="parent.hacked=1">\n\n## more (9 rows)`;
const things = JSON.stringify(Array.from({ length: 60 }, (_, n) => ({ id: `t${n}`, price: n, note: n === 2 ? EVIL : null })));
const api = createServer((_, answer) => answer.setHeader("content-type", "application/json").end(things));
await new Promise((done) => api.listen(0, "127.0.0.1", done));
const folder = mkdtempSync(join(tmpdir(), "plasm-apps-"));
mkdirSync(join(folder, "catalogs"));
writeFileSync(join(folder, "catalogs", "things.yaml"), `catalog: things
revision: 1
title: Things
source: {kind: http, base_url: 'http://127.0.0.1:${api.address().port}'}
entities:
  Thing: {key: [id], fields: {id: string, price: int, note: {type: string, nullable: true}}}
operations:
  query: {kind: query, entity: Thing, http: {send: 'GET /things', rows: $}}
`);
writeFileSync(join(folder, "gateway.yaml"), JSON.stringify({
  listen: "127.0.0.1:0", admin_listen: "127.0.0.1:0",
  catalogs: { folders: [join(folder, "catalogs")], inside: ["127.0.0.0/8"] }, profiles: { default: { surface: "execute" } },
}));
const gateway = spawn(given("binary"), ["serve", "--config", join(folder, "gateway.yaml")], { stdio: ["ignore", "pipe", "ignore"] });
process.on("exit", () => gateway.kill());
const url = await new Promise((done, fail) => {
  let text = "";
  gateway.stdout.on("data", (more) => {
    text += more;
    const found = /plasm-mcp is at (\S+)/.exec(text);
    if (found) done(found[1]);
  });
  gateway.on("exit", (code) => fail(new Error(`the gateway ended with ${code}`)));
});

let id = 0;
const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": { extensions: { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } } },
  "io.modelcontextprotocol/clientInfo": { name: "apps", version: "1" },
};
const ask = async (method, params) => {
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28", "mcp-method": method };
  const name = params.name || params.uri;
  if (name) headers["mcp-name"] = name;
  const body = JSON.stringify({ jsonrpc: "2.0", id: ++id, method, params: { ...params, _meta: META } });
  const message = await (await fetch(url, { method: "POST", headers, body })).json();
  assert.ok(message.result, JSON.stringify(message));
  return message.result;
};
const call = (name, args) => ask("tools/call", { name, arguments: args });

const { tools } = await ask("tools/list", {});
const CSP = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">`;
const page = async (tool) => {
  const meta = tools.find((one) => one.name === tool)._meta;
  assert.equal(meta["ui/resourceUri"], meta.ui.resourceUri);
  const [read] = (await ask("resources/read", { uri: meta.ui.resourceUri })).contents;
  assert.equal(read.mimeType, "text/html;profile=mcp-app");
  return read.text.replace("<head>", "<head>" + CSP);
};
const opened = await call("plasm_context", { intent: "look", seeds: [{ api: "things", entity: "Thing" }] });
const input = {
  logical_session_ref: opened.structuredContent.logical_session_ref,
  program: "all = Thing | filter(price >= 1)\nall, Thing | aggregate(n = count())",
};
const plan = await call("plasm", input), run = await call("plasm_run", input);
assert.ok(!run.isError, run.content[0].text);

const bundled = await build({ entryPoints: [at("host.js")], bundle: true, write: false, format: "iife", absWorkingDir: at(".") });
const browser = await chromium.launch({ executablePath: given("chromium"), args: ["--no-sandbox"] });
const show = async (what, tool, theme, result, sees) => {
  const tab = await browser.newPage({ viewport: { width: 760, height: 520 } });
  const faults = [];
  tab.on("pageerror", (error) => faults.push(String(error)));
  await tab.setContent("<!doctype html><body style='margin:0'></body>");
  await tab.addScriptTag({ content: bundled.outputFiles[0].text });
  await tab.exposeFunction("forward", ({ name, arguments: args }) => call(name, args));
  await tab.evaluate(([html, given]) => window.open_page(html, given), [await page(tool), {
    context: { theme, containerDimensions: { maxHeight: 500 } }, capabilities: { serverTools: {} }, input,
  }]);
  await tab.evaluate(() => { window.bridge.oncalltool = ({ name, arguments: args }) => window.forward({ name, arguments: args }); });
  const frame = tab.frames().find((frame) => frame !== tab.mainFrame());
  await tab.evaluate((result) => window.bridge.sendToolResult(result), result);
  await sees(frame);
  if (pictures) await tab.screenshot({ path: `${pictures}/gateway-${what}.png` });
  assert.deepEqual(faults, [], "the page threw");
  assert.equal(await tab.evaluate(() => window.hacked), undefined, "text of rows ran");
  await tab.close();
  console.log(`ok over a gateway: ${what}`);
};
const text = (frame, what) => frame.getByText(what, { exact: true }).first().waitFor({ timeout: 5000 });
for (const [how, of] of Object.entries({
  whole: (result) => result,
  "without _meta": ({ _meta, ...rest }) => rest,
  "structuredContent alone": (result) => ({ content: [], structuredContent: result.structuredContent }),
  "content alone": (result) => ({ content: result.content }),
})) {
  const alone = how === "content alone";
  await show(`a run, ${how}`, "plasm_run", alone ? "dark" : "light", of(run), async (frame) => {
    await text(frame, "t1");
    assert.equal(await frame.getByRole("tab").count(), 2);
    if (alone) return;
    assert.equal(await frame.locator("td.null").count(), 24);
    await frame.getByRole("button", { name: "Next" }).click();
    await text(frame, "rows 26–59 of 59");
    await text(frame, "t59");
  });
  await show(`a plan, ${how}`, "plasm", alone ? "dark" : "light", of(plan), async (frame) => {
    await (alone ? frame.getByText("verdict: ok").first().waitFor({ timeout: 5000 }) : text(frame, "ok"));
    assert.equal(await frame.locator("g.node").count() > 0, how === "whole");
  });
}
await browser.close();
gateway.kill();
api.close();
