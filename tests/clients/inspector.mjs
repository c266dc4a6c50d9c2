// The official inspector's command line, `mcp-inspector --cli`: one process a check, as people use it in scripts.
//
//   inspector.mjs --era modern|legacy (--http URL | --sse URL | --stdio -- COMMAND… | --config FILE --server NAME)
//
// Prints `ok NAME` or `FAIL NAME: why` a check; exits non-zero if one failed.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { report, target } from './checks.mjs';

const at = target();
const program = join(process.env.PLASM_MCP_NPM, 'node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js');

/** Where to, as the inspector wants it said. */
function place() {
    if (at.config) return [['--config', at.config, '--server', at.server], []];
    if (at.http) return [['--server-url', at.http, '--transport', 'http'], []];
    if (at.sse) return [['--server-url', at.sse, '--transport', 'sse'], []];
    return [['--transport', 'stdio'], ['--', at.command, ...at.args]];
}

async function inspect(method, ...flags) {
    const [where, command] = place();
    const era = ['--protocol-era', at.era];
    const argv = [program, '--cli', ...where, ...era, '--method', method, ...flags, '--format', 'json', '--quiet', '--stored-auth-only', ...command];
    try {
        const { stdout } = await promisify(execFile)(process.execPath, argv, { timeout: 9_000, maxBuffer: 1 << 26 });
        return JSON.parse(stdout).result;
    } catch (error) {
        throw new Error(`${method}: ${error.stderr || error.stdout || error.message}`);
    }
}

/** What any server of ours must show, whatever its tools are. */
const anywhere = {
    async 'lists tools'() {
        const { tools } = await inspect('tools/list');
        assert.ok(tools.length > 0 && tools.every(tool => tool.inputSchema), 'no tools');
    }
};

const fixture = {
    ...anywhere,
    async 'calls a tool'() {
        const sent = { text: 'grüße, 世界', none: null, list: [1.5, true] };
        const { content } = await inspect('tools/call', '--tool-name', 'echo', '--tool-args-json', JSON.stringify(sent));
        assert.deepEqual(JSON.parse(content[0].text), sent);
    },
    async 'reads a resource'() {
        const { contents } = await inspect('resources/read', '--uri', 'test://static-text');
        assert.ok(contents[0].text.length > 0);
    },
    async 'lists resources and templates'() {
        assert.ok((await inspect('resources/list')).resources.length > 0);
        assert.ok((await inspect('resources/templates/list')).resourceTemplates.length > 0);
    },
    async 'gets a prompt'() {
        assert.ok((await inspect('prompts/list')).prompts.length > 0);
        const { messages } = await inspect('prompts/get', '--prompt-name', 'test_prompt_with_arguments', '--prompt-args', 'arg1=north', 'arg2=south');
        assert.ok(JSON.stringify(messages).includes('north'));
    }
};

const by = at.config ? 'config' : at.http ? 'http' : at.sse ? 'sse' : 'stdio';
await report(`inspector ${at.era} ${by}:`, Object.entries(at.config ? anywhere : fixture), async () => {});
