// What each step from a server with nothing warm to one as it is saves a program that calls the server's cuBLAS, in the
// form of DGSF's Fig. 4: each adds one thing to those before it.
import { performance } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import type { Warm } from '../../api-server/src/ipc.js';
import { real, serve } from '../../libraries/test/support.js';
import { counted, outcome, type RunOptions, startRemoted } from '../../test/support/program.js';
import type { TestServer } from '../../test/support/server.js';
import { overLink } from '../src/link.js';
import { median } from '../src/row.js';

/** A program that says a line when its first result is there, and another one when it has done its rounds. */
export interface Steady {
  what: string;
  file: string;
  options: RunOptions;
}

interface Step {
  name: string;
  /** `--warm` of the server, and OUTBOARD_ABLATION of the guest (guest-lib/src/base/ablation.h). */
  server: Warm;
  guest: string;
}

const alone = 'local,handles';
const waiting = `posted,batching,deferred,${alone}`;
const all = `descriptors,${waiting}`;
export const steps: readonly Step[] = [
  { name: 'none', server: 'none', guest: all },
  { name: '+ warm context', server: 'context', guest: all },
  { name: '+ warm handles', server: 'handles', guest: all },
  { name: "+ descriptors of the guest's own", server: 'handles', guest: waiting },
  { name: '+ batching', server: 'handles', guest: alone },
  { name: '+ local answers, minted handles: as it is', server: 'handles', guest: '' },
];

/** Seconds of one run: until its first result is there, and from there to the last. */
export interface Taken {
  first: number;
  steady: number;
}

export interface Stepped {
  program: string;
  step: string;
  commands: number;
  roundTrips: number;
  /** For each distance; ratios are of pairs with the first step. */
  times: (Taken & { firstRatio: number; steadyRatio: number })[];
}

/** Runs it once. Both lines must come, and it must end well. */
export async function take({ what, file, options }: Steady, address: string): Promise<Taken> {
  const began = performance.now();
  const child = startRemoted(file, address, options);
  const lines: number[] = [];
  createInterface({ input: child.stdout as Readable }).on('line', () =>
    lines.push(performance.now()),
  );
  const { code, stdout, stderr } = await outcome(child);
  const [first, last] = lines;
  if (code !== 0 || lines.length !== 2 || first === undefined || last === undefined)
    throw new Error(`${what} ended with ${code}: ${stdout}${stderr}`);
  return { first: (first - began) / 1e3, steady: (last - first) / 1e3 };
}

const without = ({ options, ...program }: Steady, step: Step): Steady => ({
  ...program,
  options: { ...options, env: { ...options.env, OUTBOARD_ABLATION: step.guest } },
});

/** A server for each way of being warm, which all have seen every program once. */
async function withServers<T>(
  programs: readonly Steady[],
  use: (of: (step: Step) => TestServer) => Promise<T>,
): Promise<T> {
  const servers = new Map<Warm, TestServer>();
  try {
    for (const { server } of steps) {
      if (servers.has(server)) continue;
      const started = await serve(real ?? '', ['--module-memory', '1G', '--warm', server]);
      servers.set(server, started);
      for (const program of programs) {
        await take(program, started.address);
        await started.rested();
      }
    }
    return await use(({ server }) => servers.get(server) as TestServer);
  } finally {
    await Promise.all([...servers.values()].map((server) => server.stop()));
  }
}

/** In turn, so that whatever else the machine does hits all steps. */
export function measureSteps(
  programs: readonly Steady[],
  distances: readonly number[],
  rate: number,
  repeat: number,
): Promise<Stepped[]> {
  return withServers(programs, async (serverOf) => {
    const rows: Stepped[] = [];
    for (const program of programs) {
      const own: Stepped[] = [];
      for (const step of steps) {
        const { file, options } = without(program, step);
        const { cost, code, stderr } = await counted(file, serverOf(step).address, options);
        if (code !== 0) throw new Error(`${program.what}, ${step.name}: ${stderr}`);
        await serverOf(step).rested();
        const { commands, roundTrips } = cost;
        own.push({ program: program.what, step: step.name, commands, roundTrips, times: [] });
      }
      for (const roundTrip of distances) {
        const taken = steps.map((): Taken[] => []);
        for (let i = 0; i < repeat; i++) {
          for (const [s, step] of steps.entries()) {
            const server = serverOf(step);
            const one = await overLink({ roundTrip, rate }, server.address, (through) =>
              take(without(program, step), through),
            );
            taken[s]?.push(one);
            await server.rested();
          }
        }
        const [base = []] = taken;
        for (const [s, runs] of taken.entries()) {
          const of = (what: keyof Taken) => ({
            value: median(runs.map((one) => one[what])),
            ratio: median(runs.map((one, i) => one[what] / (base[i]?.[what] ?? Number.NaN))),
          });
          const [first, steady] = [of('first'), of('steady')];
          own[s]?.times.push({
            first: first.value,
            firstRatio: first.ratio,
            steady: steady.value,
            steadyRatio: steady.ratio,
          });
        }
      }
      for (const row of own) console.log(JSON.stringify(row));
      rows.push(...own);
    }
    return rows;
  });
}
