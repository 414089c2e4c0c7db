// What a day has found, in a file that is whole at any time: each state is written aside and renamed. A day that was cut
// goes on from it.
import {
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import type { Machine } from '../src/machine.js';
import { DayError } from './day-error.js';

export type Figure = number | string;

/** What one step has found. */
export interface Found {
  /** Figures and facts by name, in words with the unit. */
  figures?: Record<string, Figure>;
  /** What is the same natively and remoted. */
  agrees?: string[];
  /** What is not, or did not work. */
  differs?: { name: string; how: string }[];
  /** What was not tried, and why. */
  left?: { name: string; why: string }[];
  /** Of programs: the first digits of what their output hashes to, natively. */
  outputs?: Record<string, string>;
}

export interface Done extends Found {
  group: string;
  seconds: number;
}

export interface Device {
  kind: string;
  name: string;
  driver: string;
  traits: string | null;
}

export interface Results {
  format: 1;
  version: string;
  begun: string;
  /** Only a part of each group. */
  short?: true;
  device: Device;
  machine: Machine;
  /** By group and name of the step. */
  steps: Record<string, Done>;
  /** How often a step was begun and not ended. */
  cut: Record<string, number>;
}

/** A step that was cut so often is not begun again. */
export const mostCuts = 2;

export class Journal {
  readonly results: Results;
  readonly file: string;

  private constructor(file: string, results: Results) {
    this.file = file;
    this.results = results;
  }

  /** Goes on with what is there of the same device and version, unless everything is to be new. */
  static open(file: string, now: Omit<Results, 'steps' | 'cut' | 'format'>, fresh: boolean) {
    const before = fresh ? undefined : read(file);
    if (before && !same(before, now)) {
      throw new DayError(
        `${file} has the results of ${before.device.name}, driver ${before.device.driver}` +
          `${before.device.traits ? ` (${before.device.traits})` : ''}, Outboard ${before.version}${before.short ? ', --short' : ''}, not of such a run.`,
        'Begin anew with --fresh, or write elsewhere with --out DIR.',
      );
    }
    const journal = new Journal(file, before ?? { format: 1, ...now, steps: {}, cut: {} });
    journal.save();
    return journal;
  }

  begin(step: string) {
    this.results.cut[step] = (this.results.cut[step] ?? 0) + 1;
    this.save();
  }

  end(step: string, done: Done) {
    delete this.results.cut[step];
    this.results.steps[step] = done;
    this.save();
  }

  /** It was stopped by somebody, which says nothing of the step. */
  forget(step: string) {
    delete this.results.cut[step];
    this.save();
  }

  save() {
    writeWhole(this.file, `${JSON.stringify(this.results, null, 1)}\n`);
  }
}

/** All of it or nothing: who looks, or goes on after a cut, never sees a part. */
export function writeWhole(file: string, text: string) {
  const aside = `${file}.new`;
  try {
    mkdirSync(path.dirname(file), { recursive: true });
    // Others may write to the folder: a link that lies there is not followed.
    rmSync(aside, { force: true });
    const { O_CREAT, O_EXCL, O_WRONLY } = constants;
    const descriptor = openSync(aside, O_WRONLY | O_CREAT | O_EXCL, 0o666);
    try {
      let rest = Buffer.from(text);
      while (rest.length > 0) rest = rest.subarray(writeSync(descriptor, rest));
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(aside, file);
  } catch (error) {
    rmSync(aside, { force: true });
    const { code, message } = error as NodeJS.ErrnoException;
    const kept = existsSync(file) ? ` What was written before is still in ${file}.` : '';
    throw new DayError(
      code === 'ENOSPC' || code === 'EDQUOT'
        ? `There is no room left for the results.${kept}`
        : `The results cannot be written: ${message}.${kept}`,
      'Make room, or name another folder with --out DIR; then run the same command again, and it goes on.',
    );
  }
}

export function read(file: string): Results | undefined {
  if (!existsSync(file)) return undefined;
  try {
    const results = JSON.parse(readFileSync(file, 'utf8')) as Results;
    if (results.format === 1) return results;
  } catch {
    // Said below.
  }
  throw new DayError(
    `${file} is no results of this command.`,
    'Begin anew with --fresh, or write elsewhere with --out DIR.',
  );
}

function same(before: Results, now: Pick<Results, 'device' | 'version' | 'short'>) {
  const what = ({ device, version, short }: typeof now) =>
    JSON.stringify([
      device.kind,
      device.name,
      device.driver,
      device.traits,
      version,
      short === true,
    ]);
  return what(before) === what(now);
}
