// What a step of PyTorch's host side costs (torch_host_side.py), recorded in test/costs/torch.json.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../support/paths.js';

/** From the guest's own counters; bytes without images, whose size is the compiler's matter. */
export interface StepCost {
  calls: number;
  commands: number;
  roundTrips: number;
  bytesSent: number;
  bytesReceived: number;
  /** Round trips by the calls that made them. */
  waiting: Record<string, number>;
}

/** By what was done in the step. */
export type StepCosts = Record<string, StepCost>;

const file = path.join(root, 'test', 'costs', 'torch.json');

export function recordedSteps(): StepCosts {
  return JSON.parse(readFileSync(file, 'utf8'));
}

export function recordSteps(costs: StepCosts) {
  writeFileSync(file, `${JSON.stringify(costs, null, 2)}\n`);
}

/** What differs from the record, for a person; nothing if all is as recorded. */
export function differences(costs: StepCosts, recorded: StepCosts): string[] {
  const names = [...new Set([...Object.keys(recorded), ...Object.keys(costs)])];
  return names
    .filter((name) => JSON.stringify(costs[name]) !== JSON.stringify(recorded[name]))
    .map(
      (name) =>
        `${name}: cost ${JSON.stringify(costs[name])}, recorded ${JSON.stringify(recorded[name])}. ` +
        'Where that is meant: npm run test:clients -- --write torch_host_side',
    );
}
