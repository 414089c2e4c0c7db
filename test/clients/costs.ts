// What steps of scripts cost, as these tell it: recorded in test/costs.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../support/paths.js';

/** From the guest's own counters; bytes without images, whose size is the compiler's matter. */
export interface StepCost {
  /** Of a graph that it ran. */
  nodes?: number;
  calls: number;
  commands: number;
  roundTrips: number;
  bytesSent: number;
  bytesReceived: number;
  /** Round trips by the calls that made them. */
  waiting: Record<string, number>;
}

/** A library's call that travels whole is one command, and so is a kernel: what a graph has of more is little. */
export const BESIDE_NODES = 10;

/** By what was done in the step. */
export type StepCosts = Record<string, StepCost>;

const at = (name: string) => path.join(root, 'test', 'costs', name);

export function recordedSteps(name: string): StepCosts {
  const file = at(name);
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
}

/** What the page says of all of it. */
export interface Recorded {
  /** Of PyTorch's host side. */
  steps: StepCosts;
  /** By whose cuBLAS they call. */
  inferences: Record<string, StepCosts>;
}

export const recorded = (): Recorded => ({
  steps: recordedSteps('torch.json'),
  inferences: {
    "the program's own": recordedSteps('onnx.json'),
    "the server's": recordedSteps('onnx-served.json'),
  },
});

export function recordSteps(name: string, costs: StepCosts) {
  writeFileSync(at(name), `${JSON.stringify(costs, null, 2)}\n`);
}

/** What differs from the record, for a person; nothing if all is as recorded. */
export function differences(costs: StepCosts, recorded: StepCosts): string[] {
  const names = [...new Set([...Object.keys(recorded), ...Object.keys(costs)])];
  return names
    .filter((name) => JSON.stringify(costs[name]) !== JSON.stringify(recorded[name]))
    .map(
      (name) =>
        `${name}: cost ${JSON.stringify(costs[name])}, recorded ${JSON.stringify(recorded[name])}. ` +
        'Where that is meant: npm run test:clients -- --write, and the name of the script',
    );
}
