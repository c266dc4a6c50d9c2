// What the official suite's client leg runs for each scenario: a gateway in front of the scenario's server, and the
// official TypeScript client driven through it as the scenario expects. What is judged is what the server saw, that is
// the gateway as a client. Without PLASM_MCP_BIN the client goes to the server itself.
//
//   client-leg.mjs URL      the suite says the scenario in MCP_CONFORMANCE_SCENARIO, and the version with it
//
// PLASM_MCP_CLIENT_ERA has the client speak that era whatever the scenario's server speaks.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import * as auth from './auth-leg.mjs';
import { pinned } from './checks.mjs';

const { Client, StreamableHTTPClientTransport } = pinned('@modelcontextprotocol/client');
const MODERN = '2026-07-28';
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const modern = (process.env.PLASM_MCP_CLIENT_ERA || eraOf(process.env.MCP_CONFORMANCE_PROTOCOL_VERSION)) === 'modern';
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
/** The tools of `http-invalid-tool-headers` that no client may call. */
const INVALID = ['empty_header', 'object_header', 'array_header', 'null_header', 'duplicate_same_case', 'duplicate_diff_case',
    'space_in_name', 'colon_in_name', 'non_ascii_name', 'control_char_name'].map(fault => `invalid_${fault}`);
const GIVE_UP = 10_000; // ms until a gateway must be ready

function eraOf(version) {
    return version === MODERN ? 'modern' : 'legacy';
}

/** Text of a result that is no failure. */
const text = result => {
    assert.ok(!result.isError, `the tool failed: ${JSON.stringify(result.content)}`);
    return result.content[0]?.text;
};

/** A client of the scenario's era. An elicitation is accepted with `content`; the client adds the defaults. */
function client(content, meanwhile = async () => {}, open = undefined) {
    const made = new Client(
        { name: 'official-typescript-client', version: '2.4.0' },
        {
            capabilities: { elicitation: { form: { applyDefaults: true }, ...(open ? { url: {} } : {}) }, sampling: {}, roots: { listChanged: true } },
            versionNegotiation: { mode: modern ? { pin: MODERN } : 'legacy' }
        }
    );
    made.setRequestHandler('elicitation/create', async ({ params }) => {
        if (params.mode === 'url') {
            await open(params.url);
            return { action: 'accept' };
        }
        await meanwhile(made);
        return { action: 'accept', content };
    });
    return made;
}

/** A `fetch` for which no server has a session's stream; streams that are gone on with pass. */
function withoutStandingStream(url, init) {
    if (init?.method === 'GET' && !new Headers(init.headers).has('last-event-id')) return new Response(null, { status: 405 });
    return fetch(url, init);
}

const scenarios = {
    async initialize(to) {
        await to.connect(client());
        await to.client.listTools();
    },
    async tools_call(to) {
        await to.connect(client());
        const { tools } = await to.client.listTools();
        assert.deepEqual(tools.map(tool => tool.name), ['add_numbers']);
        const sum = await to.client.callTool({ name: 'add_numbers', arguments: { a: 2, b: 3 } });
        assert.equal(text(sum), 'The sum of 2 and 3 is 5');
    },
    async 'elicitation-sep1034-client-defaults'(to) {
        await to.connect(client({}));
        await to.client.listTools();
        text(await to.client.callTool({ name: 'test_client_elicitation_defaults', arguments: {} }));
    },
    async 'sse-retry'(to) {
        // This server takes any GET for the one that goes on with the call's stream, so the session's own must not be open.
        await to.connect(client(), { fetch: withoutStandingStream });
        const done = await to.client.callTool({ name: 'test_reconnection', arguments: {} });
        assert.equal(text(done), 'Reconnection test completed successfully');
    },
    async 'request-metadata'(to) {
        await to.connect(client());
        await to.client.listTools();
        await to.client.callTool({ name: 'any', arguments: {} }).catch(() => {});
    },
    async 'sep-2322-client-request-state'(to) {
        // In mid-round another tool is called: it must carry nothing of this round.
        const unrelated = async it => {
            assert.equal(text(await it.callTool({ name: 'test_mrtr_unrelated', arguments: {} })), 'unrelated-ok');
        };
        await to.connect(client({ confirmed: true }, unrelated));
        await to.client.listTools();
        const says = { test_mrtr_echo_state: 'echo-state-ok', test_mrtr_no_state: 'no-state-ok', test_mrtr_no_result_type: 'no-result-type-test-ok' };
        for (const [name, said] of Object.entries(says))
            assert.equal(text(await to.client.callTool({ name, arguments: {} })), said);
    },
    async 'http-standard-headers'(to) {
        await to.connect(client());
        const { tools } = await to.client.listTools();
        for (const { name } of tools) text(await to.client.callTool({ name, arguments: {} }));
        const { resources } = await to.client.listResources();
        for (const { uri } of resources) await to.client.readResource({ uri });
        const { prompts } = await to.client.listPrompts();
        for (const { name } of prompts) await to.client.getPrompt({ name });
    },
    async 'http-custom-headers'(to) {
        await to.connect(client());
        await to.client.listTools();
        for (const call of context.toolCalls) text(await to.client.callTool(call));
    },
    async 'http-invalid-tool-headers'(to) {
        await to.connect(client());
        const { tools } = await to.client.listTools();
        const valid = tools.filter(tool => tool.name.startsWith('valid'));
        assert.deepEqual(tools.map(tool => tool.name), valid.map(tool => tool.name), 'an invalid tool is listed');
        for (const { name, inputSchema } of valid) {
            const given = Object.keys(inputSchema.properties).map(property => [property, 'us-west1']);
            text(await to.client.callTool({ name, arguments: Object.fromEntries(given) }));
        }
        // A gateway does not let them be called either. (A client that is asked to by its user may.)
        const args = { value: 'x', field1: 'x', field2: 'x', nil: null, items: [], data: {} };
        for (const name of to.gateway ? INVALID : [])
            await assert.rejects(to.client.callTool({ name, arguments: args }), error => error.code === -32602, name);
    },
    async 'json-schema-ref-no-deref'(to) {
        await to.connect(client());
        const { tools } = await to.client.listTools();
        assert.match(tools[0].inputSchema.properties.profile.$ref, /canary/);
    },
    async 'json-schema-2020-12-preservation'(to) {
        await to.connect(client());
        const { tools } = await to.client.listTools();
        const { inputSchema } = tools.find(tool => tool.name === 'json_schema_2020_12_tool');
        text(await to.client.callTool({ name: 'json_schema_echo', arguments: { schema: inputSchema } }));
    }
};

/** A client whose user opens links, through the scenario's login. */
async function connecting(to) {
    const open = auth.browser();
    await to.connect(client({}, undefined, open));
    await auth.run(scenario, to.client, open);
}

function freePort() {
    return new Promise((resolve, reject) => {
        const server = createServer().on('error', reject);
        server.listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

/** A gateway whose only upstream is at `url`, ready: where it is reached, and how it is ended. */
async function gateway(bin, url) {
    const folder = mkdtempSync(join(tmpdir(), 'plasm-mcp-leg.'));
    const file = join(folder, 'plasm.yaml');
    writeFileSync(file, JSON.stringify(auth.knows(scenario) ? auth.config(scenario, url, context) : { upstreams: { scenario: { url } } }));
    const [listen, admin] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
    const child = spawn(bin, ['serve', '--listen', listen, '--admin-listen', admin, '--config', file], { stdio: ['ignore', 'inherit', 'inherit'] });
    const gone = new Promise(resolve => child.once('close', resolve));
    const end = async () => {
        child.kill('SIGKILL'); // nothing to drain: the scenario is over
        await gone;
        rmSync(folder, { recursive: true, force: true });
    };
    for (const until = Date.now() + GIVE_UP; ; await delay(20)) {
        const ready = await fetch(`http://${admin}/readyz`).then(answer => answer.ok, () => false);
        if (ready) return { url: `http://${listen}/mcp`, end };
        if (child.exitCode !== null || Date.now() > until) {
            await end();
            throw new Error('the gateway is not ready');
        }
    }
}

const run = scenarios[scenario] ?? (auth.knows(scenario) ? connecting : undefined);
if (!run) throw new Error(`no scenario is called ${scenario}`);
const url = process.argv.at(-1);
const through = process.env.PLASM_MCP_BIN ? await gateway(process.env.PLASM_MCP_BIN, url) : undefined;
const to = {
    gateway: through !== undefined,
    async connect(made, options) {
        to.client = made;
        await made.connect(new StreamableHTTPClientTransport(new URL(through?.url ?? url), options));
    }
};
let failed = 0;
try {
    await run(to);
} catch (error) {
    failed = 1;
    console.error(error);
}
await Promise.race([Promise.resolve(to.client?.close()).catch(() => {}), delay(2_000)]);
await through?.end();
process.exit(failed);
