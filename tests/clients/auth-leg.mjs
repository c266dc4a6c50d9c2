// The `auth/*` scenarios of the suite's client leg: the gateway as OAuth client of the scenario's server, and a user who
// connects their account where the gateway asks for it. What is judged is what the two servers saw of the gateway.

import assert from 'node:assert/strict';

const CONNECT = 'plasm_connect';
/** The client metadata document that the suite knows. */
const DOCUMENT = 'https://conformance-test.local/client-metadata.json';
/** Scenarios whose servers are not to be trusted: a client does not go through with it. */
const UNTRUSTED = ['resource-mismatch', 'iss-supported-missing', 'iss-wrong-issuer', 'iss-unexpected', 'iss-normalized', 'metadata-issuer-mismatch'];
const HOPS = 12;

/** A browser: keeps cookies by host, follows redirects, and goes on where a page of the gateway says so. What it shows last. */
export function browser() {
    const jars = new Map();
    return async function open(url) {
        for (let hop = 0; hop < HOPS; hop++) {
            const at = new URL(url);
            const jar = jars.get(at.host) ?? jars.set(at.host, new Map()).get(at.host);
            const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
            const answer = await fetch(at, { redirect: 'manual', headers: cookie ? { cookie } : {} });
            for (const set of answer.headers.getSetCookie()) {
                const [name, ...value] = set.split(';')[0].split('=');
                jar.set(name, value.join('='));
            }
            const text = await answer.text();
            const next = answer.headers.get('location') ?? /href="(\/connect\/begin\?[^"]+)"/.exec(text.replaceAll('&#x2f;', '/').replaceAll('&amp;', '&'))?.[1];
            if (!next) return { status: answer.status, text };
            url = new URL(next, at).href;
        }
        throw new Error('the browser is sent round and round');
    };
}

/** The gateway's configuration for the scenario, with its server at `url`. */
export function config(scenario, url, context) {
    const auth = { kind: 'oauth', client_metadata_url: DOCUMENT };
    if (scenario.startsWith('auth/client-credentials')) {
        delete auth.client_metadata_url;
        auth.kind = 'client_credentials';
    }
    if (context.client_id) auth.client_id = context.client_id;
    if (context.client_secret) auth.client_secret = context.client_secret;
    if (context.private_key_pem) Object.assign(auth, { private_key: context.private_key_pem, signing_algorithm: context.signing_algorithm ?? 'ES256' });
    return { egress: { inside: ['127.0.0.0/8', '::1/128'] }, upstreams: { scenario: { url, auth } } };
}

/** Whether there is a way through `auth/*` scenarios of this name. */
export function knows(scenario) {
    return scenario.startsWith('auth/') && !['dpop', 'dpop-nonce', 'wif-jwt-bearer', 'enterprise-managed-authorization'].includes(scenario.slice(5));
}

/** Goes through a scenario: `client` is connected to the gateway, and opens links with `open`. */
export async function run(scenario, client, open) {
    const name = scenario.slice('auth/'.length);
    const pages = [];
    const visit = async url => { pages.push(await open(url)); };
    /** Calls a tool, and again where its user had to go to a link first. */
    const call = async tool => {
        for (let tries = 0; tries < 3; tries++) {
            const result = await client.callTool({ name: tool, arguments: {} }).catch(error => {
                if (error.code !== -32042) throw error;
                return { elicit: error.data.elicitations };
            });
            const urls = result.elicit?.map(asked => asked.url) ?? [result._meta?.['plasm/error']?.url].filter(Boolean);
            if (urls.length === 0) return result;
            for (const url of urls) await visit(url);
        }
        throw new Error(`the account is not connected: ${pages.at(-1)?.text}`);
    };
    const listed = async () => (await client.listTools()).tools.map(tool => tool.name);
    if (UNTRUSTED.includes(name)) {
        assert.deepEqual(await listed(), [CONNECT]);
        await assert.rejects(call(CONNECT), /not connected/);
        assert.ok(pages.every(page => page.status === 403 || page.status === 502), JSON.stringify(pages));
        assert.deepEqual(await listed(), [CONNECT]);
        return;
    }
    // Where the server moves to another authorisation server, once more.
    let tools = await listed();
    for (let tries = 0; tries < 2 && tools.includes(CONNECT); tries++) {
        assert.ok(!(await call(CONNECT)).isError);
        if (name === 'scope-retry-limit') {
            await assert.rejects(listed(), /does not allow/);
            return;
        }
        tools = await listed();
    }
    assert.deepEqual(tools, ['test-tool']);
    const { content, isError } = await call('test-tool');
    assert.ok(!isError, JSON.stringify(content));
    if (name.startsWith('client-credentials')) assert.equal(pages.length, 0);
}
