// The client leg of the official conformance suite, scenario by scenario, with client-leg.mjs as the client.
//   node conformance-client.mjs SUITE RESULTS [SCENARIO…]
// SUITE is the suite's package folder: its requirements say what each revision asks for. Of `auth/*` the extensions are left
// out that the gateway does not speak, and all of it where there is no gateway. A scenario passes if the client came through and every check is a SUCCESS; SKIPPED only where
// NOT_SENT says so. One line a scenario and revision, `ok` or `FAIL`; RESULTS keeps what the suite wrote.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as auth from './auth-leg.mjs';

const [suite, results, ...only] = process.argv.slice(2);
const { parse } = createRequire(join(suite, 'package.json'))('yaml');
const leg = fileURLToPath(new URL('client-leg.mjs', import.meta.url));

// What the modern era does not send: the suite skips these by itself.
const NOT_SENT = new Set(['ClientMcpMethodHeader_initialize', 'ClientMcpMethodHeader_notifications_initialized']);

// Extensions stand on no revision's list; the suite runs them where it is told to.
const extensions = new Set();

// The scenarios of a revision, scored or not, in the suite's order.
function asked(revision) {
    const requirements = parse(readFileSync(join(suite, 'requirements', `${revision}.yaml`), 'utf8'));
    const entries = requirements.not_scored.filter(entry => entry.leg === 'client');
    for (const entry of entries) if (entry.reason === 'extension') extensions.add(entry.scenario);
    const unscored = entries.map(entry => entry.scenario);
    const through = Boolean(process.env.PLASM_MCP_BIN);
    const all = [...requirements.client, ...unscored].filter(scenario => !scenario.startsWith('auth/') || (through && auth.knows(scenario)));
    return only.length === 0 ? all : all.filter(scenario => only.includes(scenario));
}

// What is wrong with a check; undefined if nothing is. INFO is the suite's own trace.
function fault(check) {
    if (check.status === 'SUCCESS' || check.status === 'INFO') return undefined;
    if (check.status === 'SKIPPED' && NOT_SENT.has(check.name)) return undefined;
    return `${check.id} (${check.name}): ${check.status} ${check.errorMessage ?? ''}`.trim();
}

function run(scenario, revision) {
    const out = join(results, `${revision}-${scenario.replaceAll('/', '-')}`);
    mkdirSync(out, { recursive: true });
    const args = ['client', '--command', `"${process.execPath}" "${leg}"`, '--scenario', scenario, '--spec-version', revision, '--output-dir', out, ...(extensions.has(scenario) ? ['--force'] : [])];
    const ran = spawnSync(process.execPath, [join(suite, 'dist/index.js'), ...args], { encoding: 'utf8', timeout: 90_000 });
    const said = `${ran.stdout}${ran.stderr}`;
    const file = join(out, readdirSync(out, { recursive: true }).find(name => name.endsWith('checks.json')) ?? 'checks.json');
    if (!existsSync(file)) return { faults: [`the suite did not come to an end: ${said.trim().split('\n').at(-1)}`] };
    const checks = JSON.parse(readFileSync(file, 'utf8')).filter(check => check.status !== 'INFO');
    const faults = checks.map(fault).filter(Boolean);
    const client = /Client (exited with code|timed out).*/.exec(said);
    if (client) faults.push(`${client[0]}: ${/^\S*(Error|Assertion).*/m.exec(said)?.[0] ?? 'it said nothing'}`);
    if (checks.length === 0) faults.push('no check');
    return { faults, count: checks.length };
}

let failed = 0;
for (const revision of ['2025-11-25', '2026-07-28'])
    for (const scenario of asked(revision)) {
        const { faults, count } = run(scenario, revision);
        const name = `${revision} ${scenario}`;
        if (faults.length === 0) console.log(`ok ${name}: ${count} checks`);
        else { failed += 1; console.log(`FAIL ${name}: ${faults.join('; ').slice(0, 1200)}`); }
    }
process.exitCode = failed > 0 ? 1 : 0;
