// The official TypeScript client, `@modelcontextprotocol/client`, at the execute surface of several pods behind a balancer,
// with the catalog of tests/execute.
//
//   execute.mjs --era modern|legacy --http URL

import assert from 'node:assert/strict';
import { pinned, report, target } from './checks.mjs';

const { Client, StreamableHTTPClientTransport } = pinned('@modelcontextprotocol/client');
const SEEDS = [{ api: 'shop', entity: 'Item' }, { api: 'shop', entity: 'Order' }];
const LIST = 'Item | filter(price < 90)';
const at = target();
const modern = at.era === 'modern';

/** A client of that name, and the pods that answered it. `sessions: false` never sends an Mcp-Session-Id. */
async function connect(name = 'official-typescript-client', { sessions = true } = {}) {
    const pods = [];
    const answered = async (url, init) => {
        const headers = new Headers(init?.headers);
        if (!sessions) headers.delete('mcp-session-id');
        const response = await fetch(url, { ...init, headers });
        pods.push(response.headers.get('plasm-replica'));
        return response;
    };
    const client = new Client({ name, version: '1.2.3' }, { versionNegotiation: { mode: modern ? { pin: '2026-07-28' } : 'legacy' } });
    await client.connect(new StreamableHTTPClientTransport(new URL(at.http), { fetch: answered }));
    assert.equal(client.getProtocolEra(), at.era);
    const call = (tool, args, options) => client.callTool({ name: tool, arguments: args }, options);
    /** The facts of a result, by another pod than these. The session's own stream may answer in between: calls come last. */
    const elsewhere = async (avoid, tool, args) => {
        for (let i = 0; i < 30; i++) {
            const result = await call(tool, args);
            assert.ok(!result.isError, JSON.stringify(result.content));
            if (!avoid.includes(pods.at(-1))) return { facts: result.structuredContent, result, pod: pods.at(-1) };
        }
        throw new Error(`${tool}: only ${avoid} answer`);
    };
    return { client, call, elsewhere, close: () => client.close() };
}

/** Opened on one pod, planned on another, run on a third. */
async function ran({ elsewhere }, intent) {
    const context = await elsewhere([], 'plasm_context', { intent, seeds: SEEDS });
    const handle = context.facts.logical_session_ref;
    assert.equal(context.result.content[0].text.split('\n')[0], handle);
    const plan = await elsewhere([context.pod], 'plasm', { logical_session_ref: handle, program: LIST });
    const run = await elsewhere([context.pod, plan.pod], 'plasm_run', { logical_session_ref: handle, run_ref: plan.facts.run_ref });
    const [root] = run.facts.roots;
    assert.equal(root.rows, 90);
    assert.equal(new Set([context.pod, plan.pod, run.pod]).size, 3, 'three pods');
    return { handle, root, result: run.result, runner: run.pod };
}

const rows = read => JSON.parse(read.contents[0].text).rows.length;

const checks = {
    async 'opens on one pod, plans on another, runs on a third, and reads it both ways'(connection) {
        const { handle, root, runner } = await ran(connection, 'typescript');
        const page = await connection.elsewhere([runner], 'plasm_read_run_artifact', { logical_session_ref: handle, artifact_uri: root.artifact_uri });
        assert.equal(page.facts.total, 90);
        assert.equal(rows(await connection.client.readResource({ uri: root.artifact_uri })), 90);
    },
    async 'needs no session at all'() {
        const connection = await connect('official-typescript-client', { sessions: false });
        await ran(connection, 'typescript, no session');
        await connection.close();
    },
    async 'names the way that its client reads by'() {
        for (const [name, tool, resource] of [['cursor-vscode', modern, true], ['claude-ai', true, modern]]) {
            const connection = await connect(name);
            const { handle, root, result } = await ran(connection, `typescript as ${name}`);
            const said = result.content[0].text;
            assert.equal(said.includes('plasm_read_run_artifact'), tool, said);
            assert.equal(/resource plasm:|as a resource/.test(said), resource, said);
            if (resource) assert.equal(rows(await connection.client.readResource({ uri: root.artifact_uri })), 90);
            if (tool) {
                const page = await connection.call('plasm_read_run_artifact', { logical_session_ref: handle, artifact_uri: root.artifact_uri });
                assert.equal(page.structuredContent.total, 90);
            }
            await connection.close();
        }
    },
    async 'writes once by its plan, and is told the same again'(connection) {
        const context = await connection.elsewhere([], 'plasm_context', { intent: 'typescript, a write', seeds: SEEDS });
        const handle = context.facts.logical_session_ref;
        const program = 'Order.create(item = Item("i1"), note = "typescript")';
        const plan = await connection.elsewhere([context.pod], 'plasm', { logical_session_ref: handle, program });
        const once = await connection.call('plasm_run', { logical_session_ref: handle, run_ref: plan.facts.run_ref });
        assert.ok(!once.isError, JSON.stringify(once.content));
        const twice = await connection.call('plasm_run', { logical_session_ref: handle, run_ref: plan.facts.run_ref });
        assert.deepEqual(twice.structuredContent, once.structuredContent);
    },
    async 'hears how far a run is'(connection) {
        const context = await connection.elsewhere([], 'plasm_context', { intent: 'typescript, progress', seeds: SEEDS });
        const seen = [];
        const args = { logical_session_ref: context.facts.logical_session_ref, program: 'Item' };
        const result = await connection.call('plasm_run', args, { onprogress: note => seen.push(note.progress) });
        assert.equal(result.structuredContent.roots[0].rows, 300);
        assert.ok(seen.length > 0 && seen.every((n, i) => i === 0 || n >= seen[i - 1]), String(seen));
    }
};

await report(`typescript ${at.era}:`, Object.entries(checks), () => connect());
