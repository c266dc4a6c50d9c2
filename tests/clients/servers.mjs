// Real servers of the npm registry behind the gateway, all in one profile: `everything` over stdio, Streamable HTTP and
// HTTP+SSE, `filesystem` and `memory` over stdio. What they promise alone they must promise behind it.
//
//   servers.mjs --era modern|legacy --http URL --root DIR     DIR: what the file server may read (made by scripts/clients)

import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { join } from 'node:path';
import { report, target } from './checks.mjs';
import { connect } from './client.mjs';

const at = target();
const said = result => result.content.map(part => part.text ?? '').join('\n');
const fine = result => { assert.ok(!result.isError, said(result)); return said(result); };

const checks = {
    async 'lists the tools of every server'(client) {
        const names = (await client.listTools()).tools.map(tool => tool.name);
        for (const name of ['everything__echo', 'everything-http__echo', 'everything-sse__echo', 'filesystem__read_text_file', 'memory__read_graph'])
            assert.ok(names.includes(name), `${name} is not among ${names.length} tools`);
        assert.equal(new Set(names).size, names.length, 'a name stands twice');
    },
    async 'calls a tool of every kind of upstream'(client) {
        for (const server of ['everything', 'everything-http', 'everything-sse'])
            assert.match(fine(await client.call(`${server}__echo`, { message: 'grüße' })), /grüße/, server);
    },
    async 'keeps structured content'(client) {
        const { structuredContent } = await client.call('everything__get-structured-content', { location: 'New York' });
        assert.equal(typeof structuredContent.temperature, 'number');
    },
    async 'sees the progress of a stdio server'(client) {
        const seen = [];
        const onprogress = note => seen.push(note.progress);
        fine(await client.call('everything__trigger-long-running-operation', { duration: 0.4, steps: 4 }, { onprogress }));
        assert.ok(seen.length >= 3, `progress was ${seen}`);
    },
    async 'reads resources and prompts'(client) {
        const { resources } = await client.listResources();
        assert.ok(resources.length > 0);
        assert.ok((await client.readResource(resources[0].uri)).contents.length > 0, resources[0].uri);
        const { prompts } = await client.listPrompts();
        const prompt = prompts.find(each => !each.arguments?.some(argument => argument.required));
        assert.ok((await client.getPrompt(prompt.name, {})).messages.length > 0, prompt.name);
    },
    async 'reads and writes files'(client) {
        const path = join(at.root, `written-by-${at.era}.txt`);
        fine(await client.call('filesystem__write_file', { path, content: 'through the gateway' }));
        assert.match(fine(await client.call('filesystem__read_text_file', { path })), /through the gateway/);
    },
    async 'is refused what lies outside the root'(client) {
        for (const path of [join(at.root, '..', 'outside.txt'), `${at.root}/../outside.txt`, join(at.root, 'escape'), join(at.root, 'away', 'outside.txt')]) {
            const result = await client.call('filesystem__read_text_file', { path });
            assert.equal(result.isError, true, `${path} was read: ${said(result)}`);
            assert.ok(!said(result).includes('not for anybody'), `${path} was read`);
        }
    },
    async 'keeps a memory'(client) {
        const name = `entity-${at.era}-${Date.now()}`;
        fine(await client.call('memory__create_entities', { entities: [{ name, entityType: 'test', observations: ['seen'] }] }));
        assert.ok(fine(await client.call('memory__search_nodes', { query: name })).includes(name));
    }
};

// A server's tools depend on what its client declares, and it asks in the middle of a call: the legacy era only, so far.
if (at.era === 'legacy') {
    checks['answers what a stdio server asks'] = async client => {
        let names = [];
        for (let i = 0; i < 100 && !names.includes('everything__trigger-sampling-request'); i++) {
            if (i) await delay(100); // it registers these tools once it has seen our capabilities
            names = (await client.listTools()).tools.map(tool => tool.name);
        }
        assert.match(fine(await client.call('everything__trigger-sampling-request', { prompt: 'How many?', maxTokens: 10 })), /forty-two/);
    };
}

await report(`servers ${at.era}:`, Object.entries(checks), () => connect(at));
