// The first server on the driver: how soon it serves, what it takes, how long a program attaches.
import path from 'node:path';
import { build } from '../../../bin/paths.mjs';
import type { Day, Group } from '../day.js';
import { vectorAdd } from '../day.js';
import { ending, lastLine, type Ran } from '../processes.js';
import type { Found } from '../results.js';

const slots = 2;

async function freeMebibytes(day: Day): Promise<number> {
  const answers = await day.probe('memory');
  if (answers['error'] !== undefined) throw new Error(`${answers['error']}`);
  return Number(answers['free MiB']);
}

async function starts(day: Day): Promise<Found> {
  const exclusive = day.driver.exclusive;
  await day.noServer();
  const before = exclusive ? 0 : await freeMebibytes(day);
  const server = await day.startServer(slots);
  const figures: Found['figures'] = {
    'serve, until guests can connect, ms': Math.round(server.milliseconds),
  };
  try {
    const { gpus } = await server.view();
    figures['slots'] = gpus.reduce((sum, gpu) => sum + gpu.slots.length, 0);
    if (!exclusive)
      figures['context of a slot, MiB'] = Math.round((before - (await freeMebibytes(day))) / slots);
  } finally {
    await server.stop();
  }
  return { figures };
}

async function attaches(day: Day): Promise<Found> {
  const program = path.join(build, 'bench', 'bench-measure');
  const figures: Record<string, number> = {};
  for (const [name, run] of [
    ['natively', () => day.native([program, 'attach', '1', '1'], 60)],
    ['remoted', () => day.remoted([program, 'attach', '1', '1'], 60)],
    ['remoted, again', () => day.remoted([program, 'attach', '1', '1'], 60)],
  ] as const) {
    if (name === 'natively' && day.driver.exclusive) await day.noServer();
    const ran = await run();
    if (ran.code !== 0)
      return { figures, differs: [{ name, how: `${ending(ran)}: ${lastLine(ran.stderr)}` }] };
    const { value } = JSON.parse(ran.stdout.trim().split('\n')[0] ?? '') as { value: number };
    figures[`from cuInit to a first result, ${name}, ms`] = Number(value.toPrecision(4));
  }
  return { figures };
}

const smallest = [vectorAdd, '--size', '10000'];

/** What is said of a server on which the smallest program has run. */
function worked(day: Day, name: string, ran: Ran): Found {
  if (ran.code === 0) return { agrees: [name] };
  day.keep(name, { remoted: ran });
  return { differs: [{ name, how: `${ending(ran)}: ${lastLine(ran.stderr || ran.stdout)}` }] };
}

async function first(day: Day): Promise<Found> {
  return worked(day, 'the first remoted program', await day.remoted(smallest, 60));
}

/** Slots under Landlock and a filter of system calls: what the driver does there is known to its authors alone. */
async function confined(day: Day): Promise<Found> {
  const name = 'slots in the sandbox';
  await day.noServer();
  const server = await day.startServer(1, ['--sandbox', 'required']).catch((error: Error) => error);
  if (server instanceof Error) {
    const none = /Landlock|seccomp/.test(server.message);
    return none
      ? { left: [{ name, why: server.message }] }
      : { differs: [{ name, how: server.message }] };
  }
  try {
    const env = day.remoteEnvironment(server.address);
    return worked(day, name, await day.run(smallest, env, 60));
  } finally {
    await server.stop();
  }
}

export const serving: Group = {
  name: 'serving',
  what: 'outboard serve on the driver: attach time, MiB of a context',
  seconds: 150,
  steps: [
    { name: 'first', seconds: 90, run: first },
    { name: 'starts', seconds: 90, run: starts },
    { name: 'attach', seconds: 90, run: attaches },
    { name: 'confined', seconds: 90, run: confined },
  ],
};
