// The programs of the day: all examples and test programs, as nvcc has built them. A bundle has a list of them, for it
// has none of their sources.
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { build, root } from '../../bin/paths.mjs';
import { listPrograms } from '../../examples/build.mjs';
import { elsewhere } from '../../test/support/elsewhere.js';

export interface DayProgram {
  name: string;
  folder: 'examples' | 'test-programs';
  args: string[];
}

/** In a bundle. */
const listFile = path.join(root, 'gpu-day-programs.json');

export function dayPrograms(): DayProgram[] {
  if (existsSync(listFile)) return JSON.parse(readFileSync(listFile, 'utf8')) as DayProgram[];
  return listed();
}

/** Of a checkout. */
export function listed(): DayProgram[] {
  const of = (folder: DayProgram['folder'], sources: string) =>
    listPrograms(path.join(root, ...sources.split('/')))
      .filter(({ name }) => !elsewhere.includes(name))
      .map(({ name, testArgs }): DayProgram => ({ name, folder, args: testArgs }));
  return [...of('examples', 'examples'), ...of('test-programs', 'test/programs')];
}

/** What of CUDA is new or rare: a group of its own, behind more urgent ones. */
const newer =
  /tensor|wgmma|cluster|dependent|cooperative|grid-sync|thread-groups|group-copies|bulk|pipeline|barrier|texture|surface|printf|wmma|mma-|launch-(?:attributes|forms)/;

export const isNewer = ({ name }: DayProgram) => newer.test(name);

export const fileOf = ({ folder, name }: DayProgram) => path.join(build, folder, name);
