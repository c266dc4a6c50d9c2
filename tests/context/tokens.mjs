// How many tokens (o200k) lists of tools take, and what the execute surface takes in their place.
//
//   tokens.mjs --surface FILE --table FILE NAME=FILE…     FILE: a `tools/list` result; of --table, a teaching table
//
// Prints a table in Markdown, and ends with 1 where the surface takes more than a tenth.

import { readFileSync } from 'node:fs';
import { encode } from 'gpt-tokenizer/encoding/o200k_base';

const GOAL = 0.1;
const given = process.argv.slice(2);
const flag = name => given.splice(given.indexOf(name), 2)[1];
const [surface, table] = [flag('--surface'), readFileSync(flag('--table'), 'utf8')];

const tokens = text => encode(text).length;
// What every host shows its model; output schemas and annotations are for hosts, and some show them too.
const shown = ({ name, description, inputSchema }) => ({ name, description, inputSchema });
// What is for a host's app alone, no model sees.
const seen = ({ _meta }) => _meta?.ui?.visibility?.includes('model') ?? true;
const of = file => {
    const tools = JSON.parse(readFileSync(file, 'utf8')).tools.filter(seen);
    return { tools: tools.length, whole: tokens(JSON.stringify({ tools })), shown: tokens(JSON.stringify(tools.map(shown))) };
};
const row = (name, { tools, whole, shown }) => console.log(`| ${name} | ${tools} | ${whole.toLocaleString('en')} | ${shown.toLocaleString('en')} |`);
const sum = all => all.reduce((a, b) => ({ tools: a.tools + b.tools, whole: a.whole + b.whole, shown: a.shown + b.shown }));

console.log('| What | tools | `tools/list` whole | names, descriptions and input schemas alone |\n| --- | --- | --- | --- |');
const servers = given.map(each => each.split('=')).map(([name, file]) => [name, of(file)]);
for (const [name, counted] of servers) row(name, counted);
const all = sum(servers.map(([, counted]) => counted));
row('all of them', all);
const own = of(surface);
row('the execute surface', own);
const taught = { tools: '', whole: tokens(table), shown: tokens(table) };
row(`a teaching table (${table.trim().split('\n').length} rows)`, taught);
const both = { tools: own.tools, whole: own.whole + taught.whole, shown: own.shown + taught.shown };
row('both', both);
const part = key => both[key] / all[key];
console.log(`| of all tools | | ${(part('whole') * 100).toFixed(1)} % | ${(part('shown') * 100).toFixed(1)} % |`);
const worst = Math.max(part('whole'), part('shown'));
console.log(`${worst <= GOAL ? 'ok' : 'FAIL'} context: at most ${(worst * 100).toFixed(1)} % of what the tools take (goal: ${GOAL * 100} %)`);
process.exitCode = worst <= GOAL ? 0 : 1;
