// Runs a program once, through Outboard or natively, and reads the figures it prints.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { build } from '../../bin/paths.mjs';
import type { Measurement } from './figures.js';
import { type Processors, placed } from './placement.js';
import { measuredDevice, type Serving } from './serving.js';

/** Values by figure and side; both sides of a figure have as many. */
export class Samples {
  readonly #values = new Map<string, number[]>();

  of(figure: string, side: string): number[] {
    const key = `${figure} ${side}`;
    const values = this.#values.get(key) ?? [];
    this.#values.set(key, values);
    return values;
  }
}

/** More than any of them takes on a slow machine. */
const timeLimit = 120_000;

export interface Surroundings {
  serving: Serving;
  processors: Processors;
  /** A file for the guest library's counters. */
  stats: string;
}

export function sample(measurement: Measurement, where: Surroundings, into: Samples) {
  const { serving } = where;
  const add = (lines: Line[], as?: string) => {
    for (const { figure, side, value } of lines)
      into.of(measurement.unix ? `${figure}.unix` : figure, as ?? side).push(value);
  };
  if (measurement.unix) {
    add(remote(measurement, serving.unixAddress, [], where));
    add(remote(measurement, serving.address, [], where), 'tcp');
  } else {
    const peer = measurement.program === 'measure' ? [serving.peerPort] : [];
    add(remote(measurement, serving.address, peer, where));
  }
  add(run(measurement, [], measuredDevice.folder, {}, where), 'native');
}

function remote(measurement: Measurement, address: string, peer: string[], where: Surroundings) {
  const env = { OUTBOARD_SERVER: address, OUTBOARD_STATS: where.stats, OUTBOARD_LOG: 'warn' };
  return run(measurement, peer, path.join(build, 'guest-lib'), env, where);
}

interface Line {
  figure: string;
  side: string;
  value: number;
}

function run(
  { program, argument, repetitions, count }: Measurement,
  peer: string[],
  library: string | null,
  env: NodeJS.ProcessEnv,
  { processors }: Surroundings,
): Line[] {
  const file = path.join(build, 'bench', `bench-${program}`);
  const alone = program === 'memory' || (program === 'runtime' && argument === 'attach');
  const counts = alone ? [] : [repetitions, count].map(String);
  const words = [argument, ...counts, ...peer].filter((word) => word !== '');
  const [command, ...args] = placed(processors.guest, [file, ...words]);
  const started = performance.now();
  const { status, signal, stdout, stderr, error } = spawnSync(command, args, {
    env: { ...process.env, ...(library === null ? {} : { LD_LIBRARY_PATH: library }), ...env },
    encoding: 'utf8',
    timeout: timeLimit,
  });
  const took = performance.now() - started;
  if (error) throw error;
  const name = `${path.basename(file)} ${words.join(' ')}`;
  if (status !== 0) throw new Error(`${name} ended with ${signal ?? status}:\n${stderr}`);
  // Nothing goes wrong without a line in the log.
  if (stderr) throw new Error(`${name} had something to say:\n${stderr}`);
  const lines: Line[] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  return [...lines, { figure: `${program}-${argument}-process`, side: 'cuda', value: took }];
}
