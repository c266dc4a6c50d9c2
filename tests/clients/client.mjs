// The official TypeScript client of both eras, `@modelcontextprotocol/client`. Usage: see checks.mjs.

import { fileURLToPath } from 'node:url';
import { answers, pinned, run } from './checks.mjs';

const { Client, SSEClientTransport, StreamableHTTPClientTransport } = pinned('@modelcontextprotocol/client');
const { StdioClientTransport } = pinned('@modelcontextprotocol/client/stdio');
const MODERN = '2026-07-28';

function transport(at) {
    if (at.http) return new StreamableHTTPClientTransport(new URL(at.http));
    if (at.sse) return new SSEClientTransport(new URL(at.sse));
    return new StdioClientTransport({ command: at.command, args: at.args, stderr: 'ignore', env: process.env });
}

/** An adapter (see checks.mjs) on a new connection. */
export async function connect(at) {
    const modern = at.era === 'modern';
    const client = new Client(
        { name: 'official-typescript-client', version: '2.4.0' },
        {
            capabilities: { elicitation: { form: {} }, sampling: {}, roots: { listChanged: true } },
            versionNegotiation: { mode: modern ? { pin: MODERN } : 'legacy' }
        }
    );
    client.setRequestHandler('elicitation/create', answers.elicitation);
    client.setRequestHandler('sampling/createMessage', answers.sampling);
    client.setRequestHandler('roots/list', answers.roots);
    await client.connect(transport(at));
    if (client.getProtocolEra() !== at.era) throw new Error(`the era is ${client.getProtocolEra()}`);

    // Modern: one listen stream, acknowledged before we go on. Legacy: what the session's stream brings.
    const listen = async filter => {
        if (!modern) return async () => {};
        const subscription = await client.listen(filter);
        return () => subscription.close();
    };
    return {
        standing: modern,
        close: () => client.close(),
        listTools: () => client.listTools(),
        listResources: () => client.listResources(),
        listTemplates: () => client.listResourceTemplates(),
        listPrompts: () => client.listPrompts(),
        readResource: uri => client.readResource({ uri }),
        getPrompt: (name, args) => client.getPrompt({ name, arguments: args }),
        complete: (name, argument, value) => client.complete({ ref: { type: 'ref/prompt', name }, argument: { name: argument, value } }),
        call: (name, args, options) => client.callTool({ name, arguments: args }, options),
        async onUpdated(uri, heard) {
            client.setNotificationHandler('notifications/resources/updated', note => heard(note.params.uri));
            if (!modern) await client.subscribeResource({ uri });
            const end = await listen({ resourceSubscriptions: [uri] });
            return async () => { if (!modern) await client.unsubscribeResource({ uri }); await end(); };
        },
        async onToolsChanged(heard) {
            client.setNotificationHandler('notifications/tools/list_changed', () => heard());
            return listen({ toolsListChanged: true });
        }
    };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await run('client', connect);
