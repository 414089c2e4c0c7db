// What each example costs in calls, commands, round trips and bytes, phase by phase: recorded in
// test/costs, and the same on every machine. `npm run costs`
// writes the record again after a change that is meant.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { listPrograms } from '../../../examples/build.mjs';
import { noPrograms, root } from '../../support/paths.js';
import { type Cost, counted, example } from '../../support/program.js';
import { startServer } from '../../support/server.js';

/** `again`: where the program has run on the server before. */
type Record_ = Record<
  string,
  { args: string[] } & Cost & { phases: Record<string, Cost>; again: Cost }
>;

const file = path.join(root, 'test', 'costs', 'examples.json');
const recording = process.env['RECORD_COSTS'] === '1';
const recorded: Record_ = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
const measured: Record_ = {};

for (const program of listPrograms(`${root}/examples`)) {
  t.test(`cost of ${program.name}`, { skip: noPrograms }, async (t) => {
    const args = program.testArgs;
    // A server of its own: what it already holds of a program's modules would change the cost.
    const server = await startServer();
    try {
      const run = await counted(example(program.name), server.address, { args });
      t.equal(run.code, 0, run.stderr);
      await server.rested();
      const again = await counted(example(program.name), server.address, { args });
      t.equal(again.code, 0, again.stderr);
      measured[program.name] = { args, ...run.cost, phases: run.phases, again: again.cost };
      if (!recording) t.same(measured[program.name], recorded[program.name]);
    } finally {
      await server.stop();
    }
  });
}

t.test('the marks hold', { skip: noPrograms }, async (t) => {
  const costs = recording ? measured : recorded;
  t.ok((costs['vector-add']?.roundTrips ?? 99) <= 4, 'vector-add: at most 4 round trips');
  for (const [name, { phases, roundTrips, again }] of Object.entries(costs)) {
    t.ok(again.roundTrips < roundTrips, `${name}: modules that are known cost none`);
    t.equal(phases['attach']?.roundTrips, 1, `${name}: one round trip to attach`);
    t.equal(phases['tear-down']?.roundTrips, 0, `${name}: none at the end`);
  }
  // Arguments on one line, as the formatter has them.
  const text = JSON.stringify(measured, null, 2).replace(/\[[^\]]*\]/g, (list) =>
    list.replace(/\s+/g, ' ').replace('[ ', '[').replace(' ]', ']'),
  );
  if (recording) writeFileSync(file, `${text}\n`);
});

t.test('k-means: one round trip per iteration', { skip: noPrograms }, async (t) => {
  const server = await startServer();
  try {
    const run = async (iterations: number) => {
      const args = ['--generate', '20000', '--k', '6', '--iterations', String(iterations)];
      const result = await counted(example('kmeans'), server.address, { args });
      t.equal(result.code, 0, result.stderr);
      return result.cost;
    };
    await run(2);
    const few = await run(4);
    const many = await run(14);
    t.equal(many.roundTrips - few.roundTrips, 10);
  } finally {
    await server.stop();
  }
});
