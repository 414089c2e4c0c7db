import type { DeviceReport } from '../../../api-server/src/control.js';
import { ApiClient, apiOptions } from '../api/client.js';
import type { SensorsView, View } from '../base/view.js';
import { command, exitCodes } from '../cli/command.js';
import { type Smi, type SmiGpu, smiCsv, smiFields, smiLines } from '../cli/smi.js';
import { clean, print, printJson } from '../cli/table.js';
import { uuidOf } from '../devices/devices.js';
import { BadValue, type Option, yesNo } from '../options/options.js';
import { parseCount } from '../options/values.js';
import { accessTokenEnvironment, requireAccessToken } from '../run/access-token.js';
import { reportOf } from '../run/doctor.js';
import { askedBy, options as runOptions } from './run.js';

const { server, 'token-file': accessTokenFile, build } = runOptions;

/** As many as a guest can be told of. */
const gpusMost = 8;

const options = {
  server,
  'token-file': accessTokenFile,
  api: {
    ...apiOptions.api,
    help: 'ask the HTTP API of a server, as an operator, who sees what all tenants do',
    shown: 'none: --server is asked, as a program would ask it',
    yieldsTo: 'server',
  },
  'operator-token-file': { ...apiOptions['token-file'] },
  query: {
    env: 'OUTBOARD_SMI_QUERY',
    value: 'FIELD,...',
    help: `print these fields of each GPU in place of the table: ${Object.keys(smiFields).join(', ')}`,
    parse: parseFields,
    fallback: null,
  } satisfies Option<string[] | null>,
  format: {
    env: 'OUTBOARD_SMI_FORMAT',
    value: 'csv[,noheader][,nounits]',
    help: 'how --query prints them',
    parse: parseFormat,
    fallback: { header: true, units: true },
    shown: 'csv',
  } satisfies Option<{ header: boolean; units: boolean }>,
  timeout: {
    env: 'OUTBOARD_CONNECT_TIMEOUT',
    value: 'SECONDS',
    help: 'how long to connect and be answered may take',
    parse: parseCount(1, 3600),
    fallback: 10,
    shown: '10',
  } satisfies Option<number>,
  json: yesNo('OUTBOARD_JSON', 'write JSON, whose form is stable, for programs'),
  build,
};

export const smi = command({
  name: 'smi',
  summary: "show GPUs and what runs on them in nvidia-smi's form",
  about: `Shows the GPUs of a server in the form of nvidia-smi: those that a session of ours has or would get, with what
our own sessions use of them; with --api all GPUs, and the sessions of all tenants. Needs no GPU, no NVIDIA
software and no session. Temperature, power and fans are what the NVML of the GPU machine says; N/A where it has
none, as with software devices. Busy: the part of the last second in which work of sessions was on the GPU.

  outboard smi --query index,name,memory.used,temperature.gpu --format csv,noheader

NVIDIA's own nvidia-smi works, too, under \`outboard run\`, where it is installed.`,
  options,
  async run(values) {
    const shown =
      values.api === null
        ? await asGuest(values)
        : await asOperator({ ...values, api: values.api });
    if (shown === null) return exitCodes.unable;
    if (values.json) printJson(shown);
    else if (values.query) print(smiCsv(shown.gpus, values.query, values.format));
    else print(smiLines(shown));
    return exitCodes.ok;
  },
});

interface GuestValues {
  server: string;
  'token-file': string | null;
  timeout: number;
  build: string;
}

/** Null: there is nothing to show, and why is on stderr. */
async function asGuest(values: GuestValues): Promise<Smi | null> {
  requireAccessToken(values['token-file'], process.argv, process.env);
  const env = { ...process.env, ...accessTokenEnvironment(process.argv) };
  const nothing = { gpus: gpusMost, 'gpu-model': null, memory: null, share: null, class: null };
  const patience = { connectSeconds: values.timeout, waitSeconds: 0 };
  const found = await reportOf(askedBy({ ...values, ...nothing }, env, patience));
  if ('devices' in found.answer) return ofReport(found.answer, found.server);
  const { text, remedy } = found.answer;
  process.stderr.write(`outboard: ${clean(text)}\n${remedy === null ? '' : `${clean(remedy)}\n`}`);
  return null;
}

function ofReport(report: DeviceReport, server: string): Smi {
  const { serverVersion, driverVersion, nvidiaDriver, devices, processes } = report;
  return {
    head: headOf(serverVersion, server, nvidiaDriver, driverVersion),
    gpus: devices.map((device, index): SmiGpu => {
      const { computeMajor, computeMinor } = device;
      return {
        index,
        name: device.name,
        uuid: uuidOf(device),
        pciBusId: device.pciBusId,
        computeCapability: `${computeMajor}.${computeMinor}`,
        driver: nvidiaDriver || null,
        memoryTotal: Number(device.memoryTotal),
        memoryUsed: Number(device.memoryUsed),
        busy: device.busy ?? null,
        temperature: device.temperature ?? null,
        power: device.power ?? null,
        powerLimit: device.powerLimit ?? null,
        fanSpeed: device.fanSpeed ?? null,
      };
    }),
    processes: processes.map(({ session, device, host, pid, program, memory, busy }) => ({
      gpu: device,
      session: Number(session),
      host,
      pid,
      name: program,
      memory: Number(memory),
      busy: busy ?? null,
    })),
  };
}

async function asOperator(values: {
  api: string;
  'operator-token-file': string | null;
}): Promise<Smi> {
  const client = new ApiClient({ api: values.api, 'token-file': values['operator-token-file'] });
  const [view, sensors] = await Promise.all([
    client.state(),
    client.ask('GET', '/v1/sensors') as Promise<SensorsView[]>,
  ]);
  return ofView(view, sensors, client.where);
}

function ofView(
  { server, gpus, sessions }: View,
  sensors: readonly SensorsView[],
  where: string,
): Smi {
  const driver = sensors.find((one) => one.driver !== null)?.driver ?? '';
  return {
    head: headOf(server.version, where, driver, null),
    gpus: gpus.map((gpu): SmiGpu => {
      const sensed = sensors.find(({ uuid }) => uuid === gpu.uuid);
      return {
        index: gpu.index,
        name: gpu.name,
        uuid: gpu.uuid,
        pciBusId: gpu.pciBusId,
        computeCapability: sensed?.computeCapability ?? null,
        driver: sensed?.driver ?? null,
        memoryTotal: gpu.memory.sessions,
        memoryUsed: gpu.memory.used,
        busy: gpu.share.busy,
        temperature: sensed?.temperature ?? null,
        power: sensed?.power ?? null,
        powerLimit: sensed?.powerLimit ?? null,
        fanSpeed: sensed?.fanSpeed ?? null,
      };
    }),
    processes: sessions.map(({ id, gpu, host, pid, name, program, memory, share }) => ({
      gpu,
      session: id,
      host,
      pid,
      name: name || program,
      memory: memory.used,
      busy: share.received,
    })),
  };
}

/** `cuda` as cuDriverGetVersion has it. */
function headOf(version: string, server: string, driver: string, cuda: number | null): string {
  const facts = [`Outboard ${version}`, server];
  if (driver !== '') facts.push(`Driver ${driver}`);
  if (cuda !== null)
    facts.push(`CUDA ${Math.floor(cuda / 1000)}.${Math.floor((cuda % 1000) / 10)}`);
  return facts.join('   ');
}

function parseFields(text: string): string[] {
  const names = text.split(',').map((name) => name.trim());
  const wrong = names.find((name) => !Object.hasOwn(smiFields, name));
  if (wrong !== undefined) {
    throw new BadValue(
      `there is no field ${wrong}; there are ${Object.keys(smiFields).join(', ')}`,
    );
  }
  return names;
}

function parseFormat(text: string) {
  const [kind, ...how] = text.split(',').map((word) => word.trim());
  const wrong = how.find((word) => word !== 'noheader' && word !== 'nounits');
  if (kind !== 'csv' || wrong !== undefined) {
    throw new BadValue('expected csv, optionally followed by ,noheader and ,nounits');
  }
  return { header: !how.includes('noheader'), units: !how.includes('nounits') };
}
