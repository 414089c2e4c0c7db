// npm run test:corpus -- [--write] [PACKAGE...]: downloads packages that carry PTX (2 GB, into
// build/corpus), translates every kernel in them and says how many were refused, and for what.
// Exit status 1: some were refused for something else than what the device leaves out on purpose.
//   --write   writes docs/software-device/corpora.md (all packages only)
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build, root } from '../../../bin/paths.mjs';
import { fetchPackage, packages } from './packages.js';
import { check, type Verdict } from './verdict.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { write: { type: 'boolean' } },
});
const tool = path.join(build, 'software-device', 'software-device-check');
const rows: [string, Verdict][] = [];
for (const wanted of positionals.length > 0 ? positionals : packages) {
  const { name, libraries } = fetchPackage(wanted, path.join(build, 'corpus'));
  const verdict = await check(tool, libraries);
  rows.push([name, verdict]);
  console.log(
    `${name}: ${verdict.kernels} kernels, ${verdict.translated} translated, ` +
      `${sum(verdict.leftOut)} left out on purpose, ${verdict.faults.length} faults`,
  );
  for (const fault of verdict.faults.slice(0, 10)) console.log(`  ${fault}`);
}
if (values.write && positionals.length === 0) {
  writeFileSync(path.join(root, 'docs', 'software-device', 'corpora.md'), page(rows));
}
process.exitCode = rows.some(([, { faults }]) => faults.length > 0) ? 1 : 0;

function sum(counts: Map<string, number>): number {
  return [...counts.values()].reduce((total, count) => total + count, 0);
}

function page(rows: [string, Verdict][]): string {
  const cells = rows.map(([name, v]) => [
    ...[name, v.modules - v.withoutPtx, v.withoutPtx, v.kernels, v.translated],
    ...[sum(v.leftOut), v.faults.length, (v.ptxBytes / 1e6).toFixed(0)],
    (v.ptxBytes / 1e6 / Math.max(v.indexSeconds, 1e-9)).toFixed(0),
    ((v.translateSeconds / Math.max(v.kernels, 1)) * 1e6).toFixed(0),
    v.slowestMilliseconds.toFixed(0),
    (v.keptBytes / Math.max(v.kernels, 1) / 1024).toFixed(0),
  ]);
  const reasons = new Map<string, number>();
  for (const [, { leftOut }] of rows) {
    for (const [instruction, count] of leftOut) {
      reasons.set(instruction, (reasons.get(instruction) ?? 0) + count);
    }
  }
  const list = [...reasons].sort(([, a], [, b]) => b - a);
  return `# Kernels of real packages

Written by \`npm run test:corpus -- --write\`: every PTX module in the libraries of these packages is loaded as a device of
compute capability 12.0 would choose it, and every kernel translated. Times are processor time on the machine that wrote
this page.

| package | modules with PTX | without | kernels | translated | left out | faults | PTX, MB | index, MB/s | per kernel, us | slowest, ms | kept per kernel, KiB |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
${cells.map((row) => `| ${row.join(' | ')} |`).join('\n')}

*Without*: machine code only, which this device does not execute. *Left out*: the kernel needs an instruction that is not
portable between GPUs or not supported on purpose; it is refused when it is first wanted, with kernel, line and
instruction. *Faults*: everything else, which should be 0.

| left out for | kernels |
|---|--:|
${list.map(([instruction, count]) => `| \`${instruction}\` | ${count} |`).join('\n') || '| nothing | 0 |'}
`;
}
