// `--device software|nvidia|PATH` of npm test, npm run bench and npm run test:clients: the driver library that programs have
// natively, and that servers serve. Those who need it read it from DEVICE_UNDER_TEST (test/support/device.ts).
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { SetupError } from './step.mjs';

/** Takes the option out of the arguments, which it returns. @param {string[]} args */
export function takeDevice(args) {
  const at = args.findIndex((arg) => arg === '--device' || arg.startsWith('--device='));
  if (at < 0) return args;
  const [, joined] = /^--device=(.*)$/.exec(args[at] ?? '') ?? [];
  const device = joined ?? args[at + 1] ?? '';
  const known = device === 'software' || device === 'nvidia';
  if (!known && !(device && existsSync(device))) {
    throw new SetupError(
      `--device ${device}: name software, nvidia, or the file of a driver library (libcuda.so.1).`,
    );
  }
  process.env['DEVICE_UNDER_TEST'] = known ? device : resolve(device);
  return args.toSpliced(at, joined === undefined ? 2 : 1);
}
