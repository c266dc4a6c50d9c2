// Compares two runs of the official conformance suite check by check, or counts one.
//   node compare-conformance.mjs SUITE REVISION DIRECT [THROUGH]
// SUITE is the suite's package folder (its requirements name what is scored); DIRECT and THROUGH are output folders.
// A check is lost if its status through is worse than direct, if it is missing, or if it is a new warning or failure.
// One line a scenario and one a lost check; the last line has the counts. Exit 1 if anything is lost, or if a scenario
// of the direct run fails.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [suite, revision, direct, through] = process.argv.slice(2);
const { parse } = createRequire(join(suite, 'package.json'))('yaml');
const requirements = parse(readFileSync(join(suite, 'requirements', `${revision}.yaml`), 'utf8'));
const scored = requirements.server;
const unscored = requirements.not_scored.filter(entry => entry.leg === 'server').map(entry => entry.scenario);

const RANK = { SUCCESS: 3, SKIPPED: 2, INFO: 2, WARNING: 1, FAILURE: 0 };
// The suite's own trace of requests and events: it records them as checks, and their number varies.
const TRACE = new Set(['outgoing-request', 'incoming-response', 'incoming-sse-event', 'stream-closed']);

// The checks of one scenario by id, name and occurrence; undefined if the scenario left none.
function checksOf(run, scenario) {
  const folder = readdirSync(run).find(name => name.replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '') === `server-${scenario}`);
  if (!folder || !existsSync(join(run, folder, 'checks.json'))) return undefined;
  const checks = new Map();
  for (const check of JSON.parse(readFileSync(join(run, folder, 'checks.json'), 'utf8'))) {
    if (TRACE.has(check.id) && check.status === 'INFO') continue;
    let nth = 1;
    while (checks.has(`${check.id} ${check.name} ${nth}`)) nth += 1;
    checks.set(`${check.id} ${check.name} ${nth}`, check);
  }
  return checks;
}

const passes = checks => checks !== undefined && [...checks.values()].every(check => check.status !== 'FAILURE');

function count(run) {
  const of = list => `${list.filter(scenario => passes(checksOf(run, scenario))).length}/${list.length}`;
  const all = [...scored, ...unscored].flatMap(scenario => [...(checksOf(run, scenario) ?? []).values()]);
  const good = all.filter(check => check.status === 'SUCCESS').length;
  return `${of(scored)} scored, ${of(unscored)} unscored, ${good} checks passed`;
}

const why = check => (check?.errorMessage ? `: ${check.errorMessage.split('\n')[0].slice(0, 400)}` : '');

// The lines that say what a scenario lost.
function losses(before, after) {
  if (after === undefined) return ['did not run through the gateway'];
  const lost = [];
  for (const [key, check] of before) {
    const now = after.get(key);
    if (now === undefined) lost.push(`${check.id}: ${check.status} direct, missing through`);
    else if (RANK[now.status] < RANK[check.status])
      lost.push(`${check.id}: ${check.status} direct, ${now.status} through${why(now)}`);
  }
  for (const [key, check] of after)
    if (!before.has(key) && RANK[check.status] < RANK.SKIPPED)
      lost.push(`${check.id}: absent direct, ${check.status} through${why(check)}`);
  return lost;
}

let lost = 0;
let failed = 0;
for (const scenario of [...scored, ...unscored]) {
  const before = checksOf(direct, scenario);
  if (!passes(before)) {
    failed += 1;
    const bad = [...(before ?? []).values()].find(check => check.status === 'FAILURE');
    console.log(`FAIL ${scenario}: direct, ${bad ? `${bad.id}${why(bad)}` : 'it did not run'}`);
    continue;
  }
  const lines = through ? losses(before, checksOf(through, scenario)) : [];
  for (const line of lines) console.log(`FAIL ${scenario}: ${line}`);
  if (lines.length === 0) console.log(`ok   ${scenario}: ${before.size} checks`);
  lost += lines.length;
}
console.log(
  `${revision}: direct ${count(direct)}` + (through ? `; through ${count(through)}; ${lost} checks lost` : '')
);
process.exitCode = lost + failed > 0 ? 1 : 0;
