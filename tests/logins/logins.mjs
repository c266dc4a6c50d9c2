// Logins by official clients and `mcp-remote`, through a headless Chromium, a provider and the consent page, then calls in
// both eras.
//
//     logins.mjs --url URL --chromium PATH --python PATH --remote PATH [--shots DIR]
//
// Prints `ok NAME` or `FAIL NAME: why` a check.

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const { values: at } = parseArgs({
    options: Object.fromEntries(['url', 'chromium', 'python', 'modules', 'shots'].map(name => [name, { type: 'string' }]))
});
const HERE = dirname(fileURLToPath(import.meta.url));
const required = createRequire(pathToFileURL(join(at.modules, 'x.js')));
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = required('@modelcontextprotocol/client');
const { StdioClientTransport } = required('@modelcontextprotocol/client/stdio');
const legacySdk = { ...required('@modelcontextprotocol/sdk/client/index.js'), ...required('@modelcontextprotocol/sdk/client/streamableHttp.js') };
const { open } = await import(join(at.modules, 'person.mjs'));
const MODERN = '2026-07-28';
const ORIGIN = new URL(at.url).origin;
const LONGEST = 60_000;

const person = await open(at.chromium, at.shots);
let failed = false;

async function check(name, run) {
    try {
        let timer;
        const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error('too late')), LONGEST)));
        await Promise.race([run(), late]).finally(() => clearTimeout(timer));
        console.log(`ok ${name}`);
    } catch (error) {
        failed = true;
        console.log(`FAIL ${name}: ${String(error.stack ?? error).split('\n').slice(0, 4).join(' | ')}`);
    }
}

function holds(what, condition) {
    if (!condition) throw new Error(`it does not hold: ${what}`);
}

/** What the official clients keep of a login, and how they have a person log in. */
function provider(redirect, { seen, name }) {
    const kept = {};
    return {
        kept,
        redirectUrl: redirect,
        clientMetadata: { client_name: name, redirect_uris: [redirect], grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'], token_endpoint_auth_method: 'none' },
        state: () => 'a state',
        clientInformation: () => kept.client,
        saveClientInformation: client => { kept.client = client; },
        tokens: () => kept.tokens,
        saveTokens: tokens => { kept.tokens = tokens; },
        saveCodeVerifier: verifier => { kept.verifier = verifier; },
        codeVerifier: () => kept.verifier,
        invalidateCredentials: () => { delete kept.tokens; },
        async redirectToAuthorization(url) {
            const visited = await person.visit(url, { name: seen });
            kept.answer = new URL(visited.to).searchParams;
        }
    };
}

async function calls(client) {
    const { tools } = await client.listTools();
    holds('there are tools', tools.length > 0);
    const echo = tools.find(tool => /echo|say|add/.test(tool.name)) ?? tools[0];
    const result = await client.callTool({ name: echo.name, arguments: { text: 'ü', a: 1, b: 2, message: 'ü' } });
    holds('a call is answered', Array.isArray(result.content));
}

for (const era of ['modern', 'legacy']) {
    await check(`typescript client, ${era}: login and calls`, async () => {
        const auth = provider('http://localhost:3118/callback', { name: `TypeScript ${era}`, seen: at.shots && era === 'modern' ? 'consent' : undefined });
        const fresh = () => new Client({ name: 'ts', version: '1' }, { versionNegotiation: { mode: era === 'modern' ? { pin: MODERN } : 'legacy' } });
        const transport = () => new StreamableHTTPClientTransport(new URL(at.url), { authProvider: auth });
        const first = transport();
        const unauthorized = await fresh().connect(first).then(() => undefined, error => error);
        holds(`it must log in first: ${unauthorized}`, unauthorized && auth.kept.answer);
        holds('the state comes back', auth.kept.answer.get('state') === 'a state');
        await first.finishAuth(auth.kept.answer);
        const client = fresh();
        await client.connect(transport());
        await calls(client);
        // A refresh, as the client does it when its token is no good any more.
        const before = auth.kept.tokens.refresh_token;
        auth.kept.tokens = { ...auth.kept.tokens, access_token: 'worn' };
        const again = fresh();
        await again.connect(transport());
        await calls(again);
        holds('it refreshed', auth.kept.tokens.refresh_token && auth.kept.tokens.refresh_token !== before);
        await Promise.all([client.close(), again.close()]);
    });
}

await check('typescript sdk 1, legacy: login and calls', async () => {
    const auth = provider('http://127.0.0.1:33418/', { name: 'SDK 1' });
    const transport = () => new legacySdk.StreamableHTTPClientTransport(new URL(at.url), { authProvider: auth });
    const first = transport();
    await new legacySdk.Client({ name: 'sdk', version: '1' }).connect(first).catch(() => {});
    await first.finishAuth(auth.kept.answer.get('code'));
    const client = new legacySdk.Client({ name: 'sdk', version: '1' });
    await client.connect(transport());
    await calls(client);
    await client.close();
});

// The Python client asks this server to have a person visit an address.
const visits = createServer(async (request, response) => {
    const url = new URL(request.url, 'http://x').searchParams.get('url');
    try { response.end((await person.visit(url)).to); } catch (error) { response.writeHead(500).end(String(error)); }
});
await new Promise(done => visits.listen(0, '127.0.0.1', done));
for (const era of ['modern', 'legacy']) {
    await check(`python client, ${era}: login and calls`, () => new Promise((done, fail) => {
        const child = spawn(at.python, [join(HERE, 'login.py'), era, at.url, `http://127.0.0.1:${visits.address().port}/`], { stdio: ['ignore', 'pipe', 'pipe'] });
        let said = '';
        child.stdout.on('data', text => { said += text; });
        child.stderr.on('data', text => { said += text; });
        child.on('close', code => (code === 0 ? done() : fail(new Error(said.slice(-600)))));
    }));
}
visits.close();

await check('mcp-remote: login and calls', async () => {
    const script = join(at.modules, 'node_modules/mcp-remote/dist/proxy.js');
    const env = { ...process.env, MCP_REMOTE_CONFIG_DIR: mkdtempSync(join(tmpdir(), 'mcp-remote-')), BROWSER: '/bin/true' };
    const transport = new StdioClientTransport({ command: process.execPath, args: [script, at.url, '--allow-http'], env, stderr: 'pipe' });
    let said = '';
    let visited;
    transport.stderr.on('data', text => {
        said += text;
        const url = said.match(/https?:\/\/\S+\/authorize\?\S+/)?.[0];
        if (url && !visited) visited = person.visit(url).catch(error => { said += error; });
    });
    const client = new Client({ name: 'remote', version: '1' }, { versionNegotiation: { mode: 'legacy' } });
    try {
        await client.connect(transport, { timeout: LONGEST });
        await calls(client);
    } catch (error) {
        throw new Error(`${error}: ${said.slice(-500)}`);
    } finally {
        await client.close();
    }
});

// Clients that cannot be had here: their registration bodies and addresses, as recorded, in the real browser.
const recorded = [
    ['claude', 'https://claude.ai/api/mcp/auth_callback'],
    ['cursor', 'cursor://anysphere.cursor-mcp/oauth/callback'],
    ['vscode', 'https://vscode.dev/redirect'],
    ['vscode', 'http://127.0.0.1:59656/']
];
for (const [vendor, redirect] of recorded) {
    await check(`${vendor}'s ${redirect.split(':')[0]} address: consent in the browser`, async () => {
        const body = readFileSync(join(HERE, `../it/authorisation/bodies/${vendor}.json`));
        const registered = await fetch(`${ORIGIN}/register`, { method: 'POST', body, headers: { 'content-type': 'application/json' } }).then(r => r.json());
        const verifier = 'v'.repeat(64);
        const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier));
        const query = new URLSearchParams({
            response_type: 'code', client_id: registered.client_id, redirect_uri: redirect, state: 's', resource: at.url,
            code_challenge: Buffer.from(digest).toString('base64url'), code_challenge_method: 'S256'
        });
        const visited = await person.visit(`${ORIGIN}/authorize?${query}`, { name: at.shots && redirect.includes('claude') ? 'consent-claude' : undefined });
        holds('the page names the client', visited.said.includes(registered.client_name));
        holds('it fits a small screen', visited.small);
        holds('it has no script', visited.scripts === 0);
        const answer = new URL(visited.to);
        holds(`the answer says whose it is: ${visited.to}`, answer.searchParams.get('iss') === ORIGIN && answer.searchParams.get('state') === 's');
        const secret = registered.client_secret ? { client_secret: registered.client_secret } : {};
        const form = new URLSearchParams({
            grant_type: 'authorization_code', code: answer.searchParams.get('code'), client_id: registered.client_id, redirect_uri: redirect,
            code_verifier: verifier, ...secret
        });
        const tokens = await fetch(`${ORIGIN}/token`, { method: 'POST', body: form }).then(r => r.json());
        const headers = { authorization: `Bearer ${tokens.access_token}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
        const list = await fetch(at.url, { method: 'POST', headers, body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' });
        holds(`its token opens the endpoint: ${list.status}`, list.status === 200);
    });
}

await check('the own page lists what has access, and takes it away', async () => {
    const { said, after } = await person.account(ORIGIN, { name: at.shots ? 'account' : undefined, revoke: 'SDK 1' });
    holds('it lists the client', said.includes('SDK 1') && said.includes('Claude'));
    holds('it does not any more', !after.includes('SDK 1') && after.includes('Claude'));
});

await person.close();
process.exit(failed ? 1 : 0);
