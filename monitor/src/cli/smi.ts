// GPUs and what runs on them in the form that people know from nvidia-smi: a table in a frame, or the values of named
// fields. What a server has not said, as temperatures where there is no NVML, is [N/A].
import { bytes, clean, short } from './table.js';

export interface SmiGpu {
  index: number;
  name: string;
  uuid: string;
  pciBusId: string;
  /** As 9.0; null here and below: it is not known. */
  computeCapability: string | null;
  /** NVIDIA's own number. */
  driver: string | null;
  /** Bytes. */
  memoryTotal: number;
  memoryUsed: number;
  /** Percent of the last second. */
  busy: number | null;
  /** Degrees Celsius. */
  temperature: number | null;
  /** Milliwatts. */
  power: number | null;
  powerLimit: number | null;
  /** Percent. */
  fanSpeed: number | null;
}

export interface SmiProcess {
  /** The index of its GPU. */
  gpu: number;
  session: number;
  host: string;
  pid: number;
  name: string;
  /** Bytes. */
  memory: number;
  busy: number | null;
}

export interface Smi {
  /** Which server, and who answers there. */
  head: string;
  gpus: SmiGpu[];
  processes: SmiProcess[];
}

interface Field {
  unit: string;
  /** Null: it is not known. */
  of(gpu: SmiGpu): string | number | null;
}

const text = (of: Field['of']): Field => ({ unit: '', of });
const mebibytes = (of: (gpu: SmiGpu) => number): Field => ({
  unit: 'MiB',
  of: (gpu) => Math.round(of(gpu) / 2 ** 20),
});
const watts = (of: (gpu: SmiGpu) => number | null): Field => ({
  unit: 'W',
  of: (gpu) => {
    const milliwatts = of(gpu);
    return milliwatts === null ? null : (milliwatts / 1000).toFixed(2);
  },
});

/** By the names that nvidia-smi has for them. */
export const smiFields: Readonly<Record<string, Field>> = {
  index: text(({ index }) => index),
  name: text(({ name }) => name),
  uuid: text(({ uuid }) => uuid),
  'pci.bus_id': text(({ pciBusId }) => pciBusId),
  driver_version: text(({ driver }) => driver),
  compute_cap: text(({ computeCapability }) => computeCapability),
  'temperature.gpu': text(({ temperature }) => temperature),
  'power.draw': watts(({ power }) => power),
  'power.limit': watts(({ powerLimit }) => powerLimit),
  'fan.speed': { unit: '%', of: ({ fanSpeed }) => fanSpeed },
  'memory.total': mebibytes(({ memoryTotal }) => memoryTotal),
  'memory.used': mebibytes(({ memoryUsed }) => memoryUsed),
  'memory.free': mebibytes(({ memoryTotal, memoryUsed }) => memoryTotal - memoryUsed),
  'utilization.gpu': {
    unit: '%',
    of: ({ busy }) => (busy === null ? null : Math.round(busy)),
  },
};

const unknown = '[N/A]';

/** Lines of comma-separated values, as `nvidia-smi --query-gpu=... --format=csv` writes them. */
export function smiCsv(
  gpus: readonly SmiGpu[],
  names: readonly string[],
  { header, units }: { header: boolean; units: boolean },
): string[] {
  const fields = names.flatMap((name) => {
    const field = smiFields[name];
    return field ? [{ name, ...field }] : [];
  });
  const titles = fields.map(({ name, unit }) => (units && unit ? `${name} [${unit}]` : name));
  const rows = gpus.map((gpu) =>
    fields.map(({ unit, of }) => {
      const value = of(gpu);
      if (value === null) return unknown;
      return clean(units && unit ? `${value} ${unit}` : String(value));
    }),
  );
  return [...(header ? [titles] : []), ...rows].map((cells) => cells.join(', '));
}

/** The table, `width` characters wide. */
export function smiLines({ head, gpus, processes }: Smi, width = 91): string[] {
  const inner = width - 4;
  const line = (left: string, right = '') => {
    const room = Math.max(0, inner - right.length - (right ? 1 : 0));
    const cut = short(clean(left), room);
    return `| ${cut}${' '.repeat(inner - [...cut].length - right.length)}${right} |`;
  };
  const rule = (of = '-') => `+${of.repeat(width - 2)}+`;
  const or = (value: number | null, unit: string) =>
    value === null ? 'N/A' : `${Math.round(value)}${unit}`;
  const rows = gpus.flatMap((gpu) => {
    const { memoryUsed, memoryTotal, power, powerLimit } = gpu;
    const watts = (milliwatts: number | null) =>
      or(milliwatts === null ? null : milliwatts / 1000, 'W');
    const drawn = `${watts(power)} / ${watts(powerLimit)}`;
    const figures = [
      or(gpu.fanSpeed, '%').padStart(5),
      or(gpu.temperature, 'C').padStart(6),
      drawn.padStart(13),
      `${bytes(memoryUsed)} / ${bytes(memoryTotal)}`.padStart(22),
      or(gpu.busy, '%').padStart(7),
    ];
    return [
      line(`${String(gpu.index).padStart(3)}  ${gpu.name}`, gpu.pciBusId),
      line(figures.join('  ')),
      rule(),
    ];
  });
  const titles = ['  Fan', '  Temp', '  Power / Cap', '                Memory', '   Busy'];
  const none = [line('no sessions')];
  const running = processes.map(({ gpu, session, host, pid, name, memory, busy }) =>
    line(
      `${String(gpu).padStart(3)}  ${String(session).padStart(7)}  ${short(clean(`${host}:${pid}`), 24).padEnd(24)}  ${name}`,
      `${bytes(memory).padStart(10)}  ${or(busy, '%').padStart(5)}`,
    ),
  );
  return [
    rule(),
    line(head),
    rule(),
    line('GPU  Name', 'Bus-Id'),
    line(titles.join('  ')),
    rule('='),
    ...rows,
    '',
    rule(),
    line('GPU  Session  Host:PID                  Name', '    Memory   Busy'),
    rule('='),
    ...(running.length > 0 ? running : none),
    rule(),
  ];
}
