// One program per feature of CUDA: remoted, each must do and say what it does natively on the
// software device, at the cost in test/costs/features.json. What does not work yet stands in
// not-remoted.tsv, and must not work indeed. `npm run costs` writes the record again.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { features, nativeOutcome, notRemoted } from '../../support/features.js';
import { noPrograms, root } from '../../support/paths.js';
import { type Cost, counted, type Outcome, testProgram } from '../../support/program.js';
import { startServer, type TestServer } from '../../support/server.js';

/** Null: other in each run, as that of threads that wait for one another. */
type Costs = Record<string, Cost | null>;

const costFile = path.join(root, 'test', 'costs', 'features.json');
const callFile = path.join(root, 'test', 'costs', 'calls.tsv');
const recording = process.env['RECORD_COSTS'] === '1';
const runsToRecord = 4;
const recorded: Costs = existsSync(costFile) ? JSON.parse(readFileSync(costFile, 'utf8')) : {};
const measured: Costs = {};
/** By driver call, the programs that make it. */
const callers = new Map<string, string[]>();

let server: TestServer;
t.before(async () => {
  if (!noPrograms) server = await startServer();
});
t.teardown(async () => {
  if (!noPrograms) await server.stop();
});

t.test('what is not remoted is a feature, and has a reason', async (t) => {
  const names = features.map(({ name }) => name);
  const unknown = [...notRemoted].filter(([name]) => !names.includes(name));
  const silent = [...notRemoted].filter(([, reason]) => !/\w/.test(reason));
  t.same({ unknown, silent }, { unknown: [], silent: [] });
});

const said = ({ code, signal, stdout, stderr }: Outcome) => ({ code, signal, stdout, stderr });

for (const { name, shows } of features) {
  t.test(`${name}: ${shows}`, { skip: noPrograms }, async (t) => {
    const here = await nativeOutcome(name);
    t.equal(here.code, 0, `natively: ${here.stderr}`);
    const there = await counted(testProgram(name), server.address);
    if (notRemoted.has(name)) {
      t.notSame(said(there), here, 'it works remoted, too: take it out of not-remoted.tsv');
      return;
    }
    t.same(said(there), here);
    // The server has the program's modules now, and expects it to want them again.
    await server.rested();
    const again = await counted(testProgram(name), server.address);
    t.same(said(again), here, 'once more');
    const costs = [again.cost];
    await server.rested();
    for (let run = 1; recording && run < runsToRecord; run++) {
      costs.push((await counted(testProgram(name), server.address)).cost);
      await server.rested();
    }
    const steady = new Set(costs.map((cost) => JSON.stringify(cost))).size === 1;
    // What was ever seen to depend on timing stays out: a few runs that agree prove nothing.
    measured[name] = steady && recorded[name] !== null ? again.cost : null;
    for (const call of again.made) callers.set(call, [...(callers.get(call) ?? []), name]);
    if (!recording && recorded[name] !== null) t.same(again.cost, recorded[name], 'what it costs');
  });
}

t.test('the record', { skip: noPrograms || (!recording && 'nothing is recorded') }, async (t) => {
  writeFileSync(costFile, `${JSON.stringify(measured, null, 2)}\n`);
  const lines = [...callers].map(([call, programs]) => `${call}\t${programs.join(' ')}\n`);
  writeFileSync(callFile, lines.sort().join(''));
  t.ok(lines.length > 0, 'calls were made');
});
