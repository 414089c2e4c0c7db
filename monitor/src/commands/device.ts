import path from 'node:path';
import { build as defaultBuild } from '../../../scripts/setup/paths.mjs';
import { ApiClient, apiOptions } from '../api/client.js';
import { command, exitCodes } from '../command.js';
import { chooseDriver } from '../devices.js';
import { type Option, yesNo } from '../options.js';
import { bytes, type Column, print, printJson, table } from '../table.js';
import type { GpuView } from '../view.js';

const columns: Column<GpuView>[] = [
  { title: 'GPU', right: true, text: ({ index }) => String(index) },
  { title: 'NAME', text: ({ name }) => name },
  { title: 'UUID', text: ({ uuid }) => uuid },
  { title: 'PCI BUS', text: ({ pciBusId }) => pciBusId },
  { title: 'MEMORY', right: true, text: ({ memory }) => bytes(memory.total) },
  { title: 'FOR SESSIONS', right: true, text: ({ memory }) => bytes(memory.sessions) },
  { title: 'HEALTH', text: ({ healthy, problem }) => (healthy ? 'good' : (problem ?? 'ill')) },
];

export const device = command({
  name: 'device',
  summary: 'show which GPUs a server has, or would have here',
  about: `Shows the GPUs of a server. With --probe no server is asked: it looks which driver library
\`outboard serve\` would use on this machine, and how many GPUs that has.`,
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
    build: {
      env: 'OUTBOARD_BUILD',
      value: 'DIR',
      help: 'where the native parts were built',
      parse: (text) => path.resolve(text),
      fallback: defaultBuild,
      hidden: true,
    } satisfies Option<string>,
  },
  async run(values) {
    if (values.probe) {
      const { kind, library, gpus } = await chooseDriver(values.device, null, values.build);
      if (values.json) printJson({ kind, library, gpus });
      else print([`${kind} device: ${library}, ${gpus} ${gpus === 1 ? 'GPU' : 'GPUs'}`]);
      return exitCodes.ok;
    }
    const { server, gpus } = await new ApiClient(values).state();
    if (values.json) printJson({ device: server.device, gpus });
    else print([`${server.device} device`, '', ...table(columns, gpus)]);
    return exitCodes.ok;
  },
});
