// npm run bench -- dgsf [--scale 50] [--seed 1] [--simulated | --working]
//
// The shape of DGSF's own experiment, on real servers with software GPUs and on the simulated one,
// beside the paper's figures. --simulated: without the real ones, which take ten minutes. --working: only the functions that
// work, of section 7.5, which take three of them.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../../bin/paths.mjs';
import {
  arrivals,
  type Done,
  fourSettings,
  mean,
  type Result,
  resultOf,
  type Setting,
  settings,
} from '../../simulator/dgsf/plan.js';
import { simulate } from '../../simulator/dgsf/simulated.js';
import { shared, undisturbed } from '../../simulator/server/co-run.js';
import { Scope } from '../faults/scope.js';
import { machine } from '../src/machine.js';
import { record } from '../src/record.js';
import { page } from './page.js';
import { serve } from './real.js';
import { type Worked, type Working, work } from './working.js';

const { values } = parseArgs({
  options: {
    scale: { type: 'string', default: '25' },
    seed: { type: 'string', default: '1' },
    simulated: { type: 'boolean', default: false },
    working: { type: 'boolean', default: false },
  },
});
const scale = Number(values.scale);
const seed = Number(values.seed);
if (!(scale >= 1) || !Number.isInteger(seed)) throw new Error('expected numbers');

/** The gain with which 7.5's worst fit comes out nearest; see the page. */
const gain = 1.2;
const orders = 50;
/** Of the functions that work: memory is so many times less than in the paper. */
const memoryScale = 8;

export interface Row {
  setting: Setting;
  /** On real servers; null: not run. */
  real: Result | null;
  /** Simulated, of the same order: nobody slows anybody down, as on the real servers here. */
  apart: Result;
  /** Simulated, with processor sharing. */
  together: Result;
  /** The GPUs of the functions on the real servers, in the order of arrival. */
  gpus: string;
}

async function measure(setting: Setting): Promise<Row> {
  const plan = arrivals(setting.load, seed);
  const real = values.simulated
    ? null
    : await Scope.with((scope) => serve(scope, setting, plan, scale));
  const row = {
    setting,
    real: real && resultOf(real),
    apart: resultOf(simulate(setting, plan, undisturbed)),
    together: resultOf(simulate(setting, plan, shared(gain))),
    gpus: (real ?? []).map(({ gpu }: Done) => gpu).join(' '),
  };
  const { load, gpus, servers, policy } = setting;
  const seconds = (result: Result | null) => result?.done.toFixed(1) ?? '-';
  console.log(
    `${load}, ${gpus} GPUs, ${servers} servers each, ${policy}: done after ${seconds(row.real)} s; simulated ${seconds(row.apart)}, with contention ${seconds(row.together)}`,
  );
  return row;
}

/** Sharing against none, over many orders: [least, mean, most] of the change. */
function changes(load: 'heavy' | 'low', gpus: number, policy: Setting['policy'], gain: number) {
  const of = (which: (result: Result) => number) => {
    const all = Array.from({ length: orders }, (_, index) => {
      const plan = arrivals(load, 1000 + index);
      const [none, two] = [1, 2].map((servers) => {
        return which(resultOf(simulate({ load, gpus, servers, policy }, plan, shared(gain))));
      });
      return (two ?? 0) / (none ?? 1) - 1;
    });
    return { least: Math.min(...all), mean: mean(all), most: Math.max(...all) };
  };
  return {
    ...{ load, gpus, policy, gain },
    done: of(({ done }) => done),
    queue: of(({ queue }) => queue),
    blocked: of(({ blocked }) => blocked),
    whole: of(({ whole }) => whole),
    resnet: of(({ resnet }) => resnet.whole),
    resnetBlocked: of(({ resnet }) => resnet.blocked),
  };
}

export type Change = ReturnType<typeof changes>;

/** A row of the functions that work. */
export interface WorkingRow extends Working {
  date: string;
  functions: Worked[];
}

async function workingRows(): Promise<WorkingRow[]> {
  const found: WorkingRow[] = [];
  const plan = arrivals('four', 0);
  const best = fourSettings.find(({ policy }) => policy === 'best-fit');
  const all = fourSettings.map((setting) => ({ setting, migration: false, memoryScale }));
  if (best) all.push({ setting: best, migration: true, memoryScale });
  for (const one of all) {
    const functions = await work(one, plan);
    found.push({ ...one, date: new Date().toISOString(), functions });
    console.log(
      `${one.setting.policy}, ${one.setting.servers} servers each${one.migration ? ', migration' : ''}:`,
      functions.map(({ gpus, ended }) => `${ended.toFixed(1)} s on ${gpus.join(', ')}`).join('; '),
    );
  }
  return found;
}

const working = values.simulated ? [] : await workingRows();
if (values.working) process.exit();
const rows: Row[] = [];
for (const setting of [...fourSettings, ...settings()]) rows.push(await measure(setting));
const compared = [1.2, 1.4].flatMap((gain) =>
  (['best-fit', 'worst-fit'] as const).map((policy) => changes('heavy', 4, policy, gain)),
);
const date = new Date().toISOString();
const result = { date, machine: machine(), scale, seed, gain, orders, rows, compared, working };
const text = page(result);
console.log(`\n${text}`);
const whole = !values.simulated && scale === 25 && seed === 1;
const folder = whole ? record : path.join(build, 'bench');
mkdirSync(folder, { recursive: true });
writeFileSync(path.join(folder, 'dgsf.json'), `${JSON.stringify(result, null, 2)}\n`);
writeFileSync(path.join(folder, 'dgsf.md'), text);
console.log(
  `Written to ${path.relative(process.cwd(), path.join(folder, 'dgsf.md'))} and dgsf.json.`,
);
