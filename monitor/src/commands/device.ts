import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { OfferedDevice } from '../../../api-server/src/native.js';
import { build as defaultBuild } from '../../../bin/paths.mjs';
import { ApiClient, apiOptions } from '../api/client.js';
import { OutboardError } from '../base/errors.js';
import type { GpuView } from '../base/view.js';
import { command, exitCodes } from '../cli/command.js';
import { bytes, type Column, clean, print, printJson, table } from '../cli/table.js';
import { chooseDriver, uuidOf } from '../devices/devices.js';
import { BadValue, type Option, UsageError, yesNo } from '../options/options.js';

const columns: Column<GpuView>[] = [
  { title: 'GPU', right: true, text: ({ index }) => String(index) },
  { title: 'NAME', text: ({ name }) => name },
  { title: 'UUID', text: ({ uuid }) => uuid },
  { title: 'PCI BUS', text: ({ pciBusId }) => pciBusId },
  { title: 'MEMORY', right: true, text: ({ memory }) => bytes(memory.total) },
  { title: 'FOR SESSIONS', right: true, text: ({ memory }) => bytes(memory.sessions) },
  { title: 'PINNED', right: true, text: ({ memory }) => bytes(memory.beside.pinned) },
  { title: 'MODULES', right: true, text: ({ memory }) => bytes(memory.beside.modules) },
  { title: 'STACKS', right: true, text: ({ memory }) => bytes(memory.beside.stacks) },
  { title: 'HEALTH', text: health },
];

function health({ healthy, problem, draining }: GpuView): string {
  if (!healthy) return problem ?? 'ill';
  return draining === null ? 'good' : 'good, being emptied';
}

type Offered = Omit<OfferedDevice, 'uuid' | 'gpuUuid'> & { uuid: string; gpuUuid: string | null };
const modes = ['default', 'exclusive thread', 'prohibited', 'exclusive process'];
const offeredColumns: Column<Offered>[] = [
  { title: 'NAME', text: ({ name }) => name },
  { title: 'UUID', text: ({ uuid }) => uuid },
  { title: 'PCI BUS', text: ({ pciBusId }) => pciBusId },
  { title: 'COMPUTE', right: true, text: ({ computeCapability }) => computeCapability },
  { title: 'SMS', right: true, text: ({ multiprocessors }) => String(multiprocessors) },
  { title: 'CLOCK', right: true, text: ({ clockKilohertz }) => `${clockKilohertz / 1000} MHz` },
  { title: 'MEMORY', right: true, text: ({ memory }) => bytes(memory) },
  { title: 'MODE', text: ({ computeMode }) => modes[computeMode] ?? String(computeMode) },
];

export const device = command({
  name: 'device',
  summary: 'show which GPUs a server has, or would have here',
  usage: '[check FILE...]',
  about: `Shows the GPUs of a server, and instances of GPUs in MIG mode, which are devices of their own. With --probe no server is asked: it looks which driver library
\`outboard serve\` would use on this machine, and what GPUs that has. Of the software device its
traits (SOFTWARE_DEVICE_TRAITS) are shown, too.

\`outboard device check FILE...\` asks no server either: it translates every kernel in programs,
libraries, objects, archives, fatbins, cubins and PTX files for the software device, and reports
those that it would refuse, and why. Exit status 0: all translate; 1: some do not, or a file could
not be read. PTX that a program only makes while it runs is not seen.`,
  words: ['check'],
  takes: { least: 0, most: Number.POSITIVE_INFINITY, what: 'nothing, or check FILE...' },
  options: {
    ...apiOptions,
    probe: yesNo('OUTBOARD_DEVICE_PROBE', 'look on this machine, without a server'),
    device: {
      env: 'OUTBOARD_DEVICE',
      value: 'auto|software|nvidia|PATH',
      help: 'with --probe: the driver library, as `outboard serve` takes it',
      parse: (text) => text,
      fallback: 'auto',
      shown: 'auto',
    } satisfies Option<string>,
    all: yesNo('OUTBOARD_DEVICE_ALL', 'check: list the kernels that translate, too'),
    'compute-capability': {
      env: 'OUTBOARD_DEVICE_COMPUTE_CAPABILITY',
      value: 'M.N',
      help: 'check: what the device claims to be, which decides which PTX it takes',
      parse: (text) => {
        if (!/^[1-9]\d?\.\d$/.test(text)) throw new BadValue('it is not like 12.0');
        return text;
      },
      fallback: '12.0',
      shown: '12.0',
    } satisfies Option<string>,
    build: {
      env: 'OUTBOARD_BUILD',
      value: 'DIR',
      help: 'where the native parts were built',
      parse: (text) => path.resolve(text),
      fallback: defaultBuild,
      hidden: true,
    } satisfies Option<string>,
  },
  async run(values, [action, ...files]) {
    if (action === 'check') return check(files, values);
    if (action !== undefined) throw new UsageError(`no action ${action}; there is check`);
    if (values.probe) {
      const { kind, library, file, instead, gpus, offered, left, traits } = await chooseDriver(
        values.device,
        null,
        values.build,
      );
      const devices = offered.map(({ ordinal, visible, ...one }) => ({
        ...one,
        uuid: uuidOf(one),
        gpuUuid: one.gpuUuid && uuidOf({ uuid: one.gpuUuid }),
      }));
      const out = left.map(({ code, message, remedy }) => ({ code, message, remedy }));
      if (values.json)
        printJson({ kind, library, file, instead, traits, gpus, left: out, devices });
      else {
        const head = `${kind} device: ${file ?? library}, ${gpus} ${gpus === 1 ? 'GPU' : 'GPUs'}`;
        const why = instead === null ? [] : [clean(`not NVIDIA's: ${instead}`)];
        for (const { message, remedy } of left)
          why.push(clean(`not served: ${message}. ${remedy}`));
        print([head, ...why, ...shown(traits), '', ...table(offeredColumns, devices)]);
      }
      return exitCodes.ok;
    }
    const { server, gpus } = await new ApiClient(values).state();
    const { device, traits } = server;
    if (values.json) printJson({ device, traits, gpus });
    else print([`${device} device`, ...shown(traits), '', ...table(columns, gpus)]);
    return exitCodes.ok;
  },
});

const shown = (traits: string | null) => (traits === null ? [] : [clean(`traits: ${traits}`)]);

interface CheckOptions {
  all: boolean;
  json: boolean;
  build: string;
  'compute-capability': string;
}

/** The work is done by a tool of the software device's; it writes to our stdout itself. */
async function check(files: string[], options: CheckOptions): Promise<number> {
  if (files.length === 0) throw new UsageError('device check takes the files to check');
  const tool = path.join(options.build, 'software-device', 'software-device-check');
  if (!existsSync(tool)) throw new OutboardError('OB_NOT_BUILT', tool);
  const args = ['--compute-capability', options['compute-capability']];
  if (options.all) args.push('--all');
  if (options.json) args.push('--json');
  const child = spawn(tool, [...args, '--', ...files], { stdio: ['ignore', 'inherit', 'inherit'] });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) => {
      if (code !== null) resolve(code);
      else reject(new Error(`${tool} was ended by ${signal}`));
    });
  });
}
