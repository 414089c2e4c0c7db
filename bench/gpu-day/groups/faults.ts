// What ends a context or a program; the next session works.
import { once } from 'node:events';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { build } from '../../../bin/paths.mjs';
import { type Day, type Group, isBuilt, type Server, type Step, vectorAdd } from '../day.js';
import { end, ending, lastLine } from '../processes.js';
import type { Found } from '../results.js';

const program = (name: string) => path.join(build, 'test-programs', name);

/** Milliseconds until the next session has worked, on a server of one slot. */
async function next(day: Day, server: Server): Promise<number | string> {
  const begun = performance.now();
  const env = day.remoteEnvironment(server.address);
  const ran = await day.run([vectorAdd, '--size', '10000'], env, 60);
  if (ran.code === 0) return Math.round(performance.now() - begun);
  return `${ending(ran)}: ${lastLine(ran.stderr || ran.stdout)}`;
}

async function onOneSlot(
  day: Day,
  name: string,
  use: (server: Server) => Promise<string | null>,
): Promise<Found> {
  const server = await day.startServer(1);
  try {
    const wrong = await use(server);
    if (wrong !== null) return { differs: [{ name, how: wrong }] };
    const took = await next(day, server);
    if (typeof took === 'string') return { differs: [{ name, how: `the next session ${took}` }] };
    return { agrees: [name], figures: { [`the next session after ${name}, ms`]: took } };
  } finally {
    await server.stop();
  }
}

/** It fails by itself, natively and remoted in the same words. */
function fails(name: string, file: string): Step {
  return {
    name,
    seconds: 90,
    async run(day) {
      if (!isBuilt(program(file))) return { left: [{ name, why: 'not built' }] };
      if (day.driver.exclusive) await day.noServer();
      const here = await day.native([program(file)], 30);
      return onOneSlot(day, name, async (server) => {
        const env = day.remoteEnvironment(server.address);
        const there = await day.run([program(file)], env, 30);
        if (here.code === there.code && here.stdout === there.stdout) return null;
        return `natively ${ending(here)}, remoted ${ending(there)}: ${lastLine(there.stdout)}`;
      });
    },
  };
}

/** In the middle of a kernel that never ends, or of a wait, the program is killed. */
function killed(name: string, way: string): Step {
  return {
    name,
    seconds: 90,
    async run(day) {
      const file = program('endless-kernel');
      if (!isBuilt(file)) return { left: [{ name, why: 'not built' }] };
      return onOneSlot(day, name, async (server) => {
        const env = day.remoteEnvironment(server.address);
        const { child, done } = day.processes.start([file, way], { env, seconds: 60 });
        const works = child.stdout ? once(child.stdout, 'data') : Promise.resolve();
        await Promise.race([works, done]);
        // So that the kernel is under way, and not only its launch.
        await sleep(500);
        end(child, 'SIGKILL');
        const ran = await done;
        return ran.signal === 'SIGKILL' && !ran.late ? null : `the program ${ending(ran)}`;
      });
    },
  };
}

export const faults: Group = {
  name: 'faults',
  what: 'illegal address, assertion, endless kernel, kill -9; the next session works',
  seconds: 240,
  steps: [
    fails('an illegal address', 'out-of-bounds'),
    fails('an assertion', 'assertion'),
    killed('an endless kernel, killed', 'waits'),
    killed('kill -9 while nothing runs', 'idle'),
  ],
};
