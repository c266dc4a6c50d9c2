// The official TypeScript client of the legacy era, `@modelcontextprotocol/sdk`. Usage: see checks.mjs.

import { answers, pinned, run, target } from './checks.mjs';

const { Client } = pinned('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = pinned('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { SSEClientTransport } = pinned('@modelcontextprotocol/sdk/client/sse.js');
const { StdioClientTransport } = pinned('@modelcontextprotocol/sdk/client/stdio.js');
const types = pinned('@modelcontextprotocol/sdk/types.js');

function transport(at) {
    if (at.http) return new StreamableHTTPClientTransport(new URL(at.http));
    if (at.sse) return new SSEClientTransport(new URL(at.sse));
    return new StdioClientTransport({ command: at.command, args: at.args, stderr: 'ignore', env: process.env });
}

async function connect(at) {
    const client = new Client(
        { name: 'official-typescript-sdk', version: '1.32.2' },
        { capabilities: { elicitation: { form: {} }, sampling: {}, roots: { listChanged: true } } }
    );
    client.setRequestHandler(types.ElicitRequestSchema, answers.elicitation);
    client.setRequestHandler(types.CreateMessageRequestSchema, answers.sampling);
    client.setRequestHandler(types.ListRootsRequestSchema, answers.roots);
    const wire = transport(at);
    await client.connect(wire);
    return {
        standing: false,
        close: async () => {
            if (at.http) await wire.terminateSession();
            await client.close();
        },
        listTools: () => client.listTools(),
        listResources: () => client.listResources(),
        listTemplates: () => client.listResourceTemplates(),
        listPrompts: () => client.listPrompts(),
        readResource: uri => client.readResource({ uri }),
        getPrompt: (name, args) => client.getPrompt({ name, arguments: args }),
        complete: (name, argument, value) => client.complete({ ref: { type: 'ref/prompt', name }, argument: { name: argument, value } }),
        call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
        async onUpdated(uri, heard) {
            client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, note => heard(note.params.uri));
            await client.subscribeResource({ uri });
            return () => client.unsubscribeResource({ uri });
        },
        async onToolsChanged(heard) {
            client.setNotificationHandler(types.ToolListChangedNotificationSchema, () => heard());
            return async () => {};
        }
    };
}

if (target().era !== 'legacy') throw new Error('this client speaks the legacy era only');
await run('sdk', connect);
