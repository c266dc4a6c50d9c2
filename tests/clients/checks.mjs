// What an official client must be able to do at the fixture, directly or through the gateway, said once for both
// TypeScript clients. It knows the fixture's tools and nothing of any client: each is handed in as an adapter.
//
//   DRIVER --era modern|legacy [--plain] (--http URL | --sse URL | --stdio -- COMMAND…)
//
// --plain leaves out what a server asks of its client.
//
// Prints `ok NAME` or `FAIL NAME: why` a check; exits non-zero if one failed.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const LONGEST = 10_000; // ms that a check may take, whatever it waits for
const WATCHED = 'test://watched-resource';

/** The packages stand in the cache folder that scripts/lib.sh made, not beside this file. */
export const pinned = createRequire(join(process.env.PLASM_MCP_NPM ?? '.', 'package.json'));

/** Where the server is: `{ era, http }`, `{ era, sse }` or `{ era, command, args }`. */
export function target(argv = process.argv.slice(2)) {
    const at = { era: 'modern' };
    for (let i = 0; i < argv.length; i++) {
        if (argv[i] === '--') [at.command, ...at.args] = argv.splice(i + 1);
        else if (argv[i] === '--plain') at.plain = true;
        else if (argv[i] !== '--stdio') at[argv[i].replace(/^--/, '')] = argv[++i];
    }
    if (!at.http && !at.sse && !at.command && !at.config) throw new Error('usage: DRIVER --era ERA [--plain] (--http URL | --sse URL | --stdio -- COMMAND…)');
    return at;
}

/** The client's side of what a server may ask. `text` is what the fixture hands back. */
export const answers = {
    elicitation: () => ({ action: 'accept', content: { text: 'blue' } }),
    sampling: () => ({ role: 'assistant', model: 'test-model', content: { type: 'text', text: 'forty-two' } }),
    roots: () => ({ roots: [{ uri: 'file:///test-root', name: 'root' }] })
};

/** Waits for a promise, no longer than a check may take. */
async function within(promise, what) {
    const over = new AbortController();
    const late = delay(LONGEST, undefined, { signal: over.signal }).then(() => { throw new Error(`${what}: not within ${LONGEST} ms`); });
    late.catch(() => {});
    try { return await Promise.race([promise, late]); } finally { over.abort(); }
}

const text = result => {
    assert.ok(!result.isError, `the tool failed: ${JSON.stringify(result.content)}`);
    return result.content[0].text;
};

/**
 * A way to cause a change again and again until it is heard of: before 2026-07-28 no client can know when its standing
 * stream has reached the server.
 */
async function until(heard, cause) {
    let done = false;
    const settled = heard.then(() => { done = true; });
    for (let i = 0; !done && i < LONGEST / 250; i++) {
        await cause(i);
        await Promise.race([settled, delay(250)]);
    }
    assert.ok(done, 'no notification came');
}

const checks = {
    async 'lists tools'(client) {
        const { tools } = await client.listTools();
        const names = tools.map(tool => tool.name);
        for (const name of ['echo', 'progress', 'test_simple_text']) assert.ok(names.includes(name), `${name} is not listed`);
        assert.ok(tools.every(tool => tool.inputSchema?.type === 'object'), 'a tool without its schema');
    },
    async 'calls a tool'(client) {
        const sent = { text: 'grüße, 世界', big: 9007199254740991, none: null, list: [1.5, true] };
        assert.deepEqual(JSON.parse(text(await client.call('echo', sent))), sent);
        assert.equal(text(await client.call('test_simple_text')), 'This is a simple text response for testing.');
    },
    async 'sees a tool fail'(client) {
        const result = await client.call('test_error_handling');
        assert.equal(result.isError, true);
    },
    async 'is told of an unknown tool'(client) {
        await assert.rejects(client.call('no_such_tool'), error => error.code === -32602);
    },
    async 'reads a resource'(client) {
        const { resources } = await client.listResources();
        assert.ok(resources.some(resource => resource.uri === 'test://static-text'), 'it is not listed');
        const { contents } = await client.readResource('test://static-text');
        assert.equal(contents[0].uri, 'test://static-text');
        assert.ok(contents[0].text.length > 0);
        const binary = await client.readResource('test://static-binary');
        assert.ok(binary.contents[0].blob.length > 0);
    },
    async 'reads through a template'(client) {
        const { resourceTemplates } = await client.listTemplates();
        assert.ok(resourceTemplates.some(template => template.uriTemplate === 'test://template/{id}/data'), 'it is not listed');
        const { contents } = await client.readResource('test://template/17/data');
        assert.ok(contents[0].text.includes('17'));
    },
    async 'gets a prompt'(client) {
        const { prompts } = await client.listPrompts();
        assert.ok(prompts.some(prompt => prompt.name === 'test_prompt_with_arguments'), 'it is not listed');
        const { messages } = await client.getPrompt('test_prompt_with_arguments', { arg1: 'north', arg2: 'south' });
        const said = JSON.stringify(messages);
        assert.ok(said.includes('north') && said.includes('south'), said);
    },
    async 'completes an argument'(client) {
        const { completion } = await client.complete('test_prompt_with_arguments', 'arg1', 'p');
        assert.ok(Array.isArray(completion.values));
    },
    async 'sees progress'(client) {
        const seen = [];
        const result = await client.call('progress', { steps: 4, ms: 30 }, { onprogress: note => seen.push(note.progress) });
        text(result);
        assert.deepEqual(seen, [1, 2, 3, 4]);
    },
    async 'cancels a call and the server sees it'(client) {
        const steps = 1_000_000 + Math.floor(Math.random() * 1_000_000);
        const abort = new AbortController();
        let begun;
        const running = new Promise(resolve => { begun = resolve; });
        const call = client.call('progress', { steps, ms: 20 }, { onprogress: () => begun(), signal: abort.signal });
        call.catch(() => {});
        await Promise.race([running, call]);
        abort.abort();
        await assert.rejects(call);
        for (;;) {
            const stats = JSON.parse(text(await client.call('stats')));
            if (stats.cancels.some(cancel => cancel.arguments?.steps === steps)) break;
            await delay(50);
        }
    },
    async 'subscribes to a resource'(client) {
        let hear;
        const heard = new Promise(resolve => { hear = resolve; });
        const end = await client.onUpdated(WATCHED, uri => { if (uri === WATCHED) hear(); });
        if (client.standing) { await client.call('touch_resource', { uri: WATCHED }); await heard; }
        else await until(heard, () => client.call('touch_resource', { uri: WATCHED }));
        await end();
    },
    async 'hears that the tools have changed'(client) {
        let hear;
        const heard = new Promise(resolve => { hear = resolve; });
        const name = `added_${process.pid}_${Date.now().toString(36)}`;
        const end = await client.onToolsChanged(() => hear());
        if (client.standing) { await client.call('add_tool', { name }); await heard; }
        else await until(heard, i => client.call(i % 2 ? 'remove_tool' : 'add_tool', { name }));
        await client.call('add_tool', { name });
        const { tools } = await client.listTools();
        assert.ok(tools.some(tool => tool.name === name), 'the new tool is not listed');
        await client.call('remove_tool', { name });
        await end();
    },
    async 'answers an elicitation'(client) {
        assert.match(text(await client.call('ask_elicitation', { message: 'Which colour?' })), /blue/);
    },
    async 'answers a sampling request'(client) {
        assert.match(text(await client.call('ask_sampling', { prompt: 'How many?' })), /forty-two/);
    },
    async 'tells its roots'(client) {
        assert.match(text(await client.call('ask_roots')), /test-root/);
    }
};

const ASKS = ['answers an elicitation', 'answers a sampling request', 'tells its roots'];

/** Runs every check on a fresh connection of its own, so that one failure spoils no other. */
export async function run(client, connect) {
    const at = target();
    const by = at.http ? 'http' : at.sse ? 'sse' : 'stdio';
    await report(`${client} ${at.era} ${by}:`, Object.entries(checks).filter(([what]) => !(at.plain && ASKS.includes(what))), () => connect(at));
}

/** Runs checks one by one, each with what `open` gives, prints a line each, and ends the process. */
export async function report(name, checks, open) {
    let failed = 0;
    for (const [what, check] of checks) {
        const label = `${name} ${what}`;
        let client;
        try {
            client = await within(open(), 'connecting');
            await within(check(client), what);
            console.log(`ok ${label}`);
        } catch (error) {
            failed++;
            console.log(`FAIL ${label}: ${String(error?.message ?? error).replaceAll(/\s+/g, ' ').slice(0, 300)}`);
            if (process.env.PLASM_MCP_TRACE) console.error(error);
        }
        await Promise.race([Promise.resolve(client?.close?.()).catch(() => {}), delay(2_000)]);
    }
    process.exit(failed ? 1 : 0);
}
