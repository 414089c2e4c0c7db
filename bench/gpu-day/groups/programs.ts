// Programs and sequences of calls, natively and remoted: outputs are equal. First all natively, then all remoted, so that
// a GPU in exclusive mode serves both.
import path from 'node:path';
import { build } from '../../../bin/paths.mjs';
import { asksForMore, failsOnGpus, saysOther } from '../../../test/support/known-differences.js';
import type { Day, Group, Step } from '../day.js';
import { digest, isBuilt } from '../day.js';
import { ending, lastLine, type Ran } from '../processes.js';
import { type DayProgram, dayPrograms, fileOf, isNewer } from '../programs.js';
import type { Found } from '../results.js';

/** A program that takes longer hangs. */
const programSeconds = 25;
/** Alone, on a server that is new. */
const againSeconds = 15;
/**
 * Natively, as a server has it: a kernel that is loaded at its first launch waits for all work on the device, and programs
 * here let work wait for a later launch.
 */
const eager = { CUDA_MODULE_LOADING: 'EAGER' };
/** It is about an image that has nothing for the device, which is found at its kernel's launch, or when all is loaded. */
const lazily = ['no-ptx'];
/** So few that a step that is cut costs little. */
const inStep = 20;

interface Compared {
  name: string;
  argv: string[];
}

/** So many at a time, in order. */
async function pool<T>(items: T[], atOnce: number, work: (item: T) => Promise<void>) {
  const waiting = [...items];
  const worker = async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

/** A library of NVIDIA's that a program is linked with is not in a bundle. */
const loader = /error while loading shared libraries: (\S+?):/;

/** The first line that is not the same. */
function firstDifference(here: Ran, there: Ran): string {
  const [expected, got] = [here.stdout.split('\n'), there.stdout.split('\n')];
  const at = expected.findIndex((line, i) => line !== got[i]);
  if (at < 0) return `more output remoted: ${got[expected.length] ?? ''}`;
  return `line ${at + 1}: natively "${expected[at]?.slice(0, 120)}", remoted "${got[at]?.slice(0, 120) ?? ''}"`;
}

async function compare(day: Day, all: Compared[]): Promise<Found> {
  const found = { agrees: [] as string[], differs: [] as { name: string; how: string }[] };
  const left: { name: string; why: string }[] = [];
  const outputs: Record<string, string> = {};
  const natively = new Map<string, Ran>();
  const wrong: (Compared & { here: Ran })[] = [];
  const there = all.filter(({ name, argv: [file = ''] }) => {
    if (!isBuilt(file)) left.push({ name, why: 'not built' });
    return isBuilt(file);
  });
  if (day.driver.exclusive) await day.noServer();
  await pool(there, day.atOnce, async ({ name, argv }) => {
    natively.set(name, await day.native(argv, programSeconds, lazily.includes(name) ? {} : eager));
  });
  await pool(there, day.atOnce, async ({ name, argv }) => {
    const here = natively.get(name);
    if (!here) return;
    const [, library] = loader.exec(here.stderr) ?? [];
    if (library) {
      left.push({ name, why: `it needs ${library}` });
      return;
    }
    const more = asksForMore.get(name) ?? failsOnGpus.get(name);
    if (here.code !== 0 && more !== undefined) {
      left.push({ name, why: `${more}; natively it ${ending(here)}` });
      return;
    }
    outputs[name] = digest(here);
    const remote = await day.remoted(argv, programSeconds);
    const how = difference(name, here, remote);
    const same = here.code === remote.code && here.stdout === remote.stdout && !here.late;
    if (how === null) found.agrees.push(name);
    else if (same) found.differs.push({ name, how });
    else wrong.push({ name, argv, here });
  });
  // What one program has done to the server must not be held against another.
  for (const { name, argv, here } of wrong) {
    await day.noServer();
    const again = await day.remoted(argv, againSeconds);
    const how = difference(name, here, again);
    if (how === null) {
      found.agrees.push(name);
      continue;
    }
    day.keep(name, { natively: here, remoted: again });
    found.differs.push({ name, how });
  }
  // Programs end in any order.
  found.agrees.sort();
  found.differs.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { ...found, left, outputs: sorted(outputs) };
}

function difference(name: string, here: Ran, remote: Ran): string | null {
  if (here.late) return `natively it ${ending(here)}`;
  if (remote.late) return `remoted it ${ending(remote)}; natively it ${ending(here)}`;
  if (here.code !== remote.code || here.signal !== remote.signal) {
    const why = lastLine(remote.stderr || remote.stdout);
    return `natively ${ending(here)}, remoted ${ending(remote)}: ${why}`;
  }
  if (here.stdout !== remote.stdout && !saysOther.has(name)) return firstDifference(here, remote);
  if (here.code === 0) return null;
  // Wrong in the same way is not well.
  return `natively and remoted ${ending(here)}: ${lastLine(here.stderr || here.stdout)}`;
}

const sorted = (outputs: Record<string, string>) =>
  Object.fromEntries(Object.entries(outputs).sort(([a], [b]) => (a < b ? -1 : 1)));

function steps(wanted: (program: DayProgram) => boolean): Step[] {
  const all = dayPrograms().filter(wanted);
  const parts: DayProgram[][] = [];
  for (let i = 0; i < all.length; i += inStep) parts.push(all.slice(i, i + inStep));
  return parts.map((part, i) => ({
    name: `programs ${i + 1} of ${parts.length}`,
    seconds: 300,
    run: (day) =>
      compare(
        day,
        (day.options.short ? part.slice(0, 2) : part).map((program) => ({
          name: program.name,
          argv: [fileOf(program), ...program.args],
        })),
      ),
  }));
}

const sequences = path.join(build, 'test', 'sequences', 'driver-sequences');

/** Not a constant: the list is read when there is one. */
export const programs = (): Group => ({
  name: 'programs',
  what: 'every example and test program and random sequences of calls, natively and remoted',
  seconds: 420,
  steps: [
    ...steps((program) => !isNewer(program)),
    {
      name: 'sequences',
      seconds: 120,
      run: (day) =>
        compare(
          day,
          Array.from({ length: day.options.short ? 2 : 12 }, (_, i) => ({
            name: `driver-sequences ${i + 1}`,
            argv: [sequences, String(i + 1), '300', '1'],
          })),
        ),
    },
  ],
});

export const features = (): Group => ({
  name: 'features',
  what: 'tensor maps, clusters, dependent launches, cooperative groups, textures, printf',
  seconds: 240,
  steps: steps(isNewer),
});
