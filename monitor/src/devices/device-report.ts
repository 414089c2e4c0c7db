// What a process is told that asks for its devices without wanting a session (NVML): those that a
// session of its tenant has, or would get, and what its tenant does on them. Nothing of others is in
// it. Pure functions.
import type {
  DeviceReport,
  DeviceSensors,
  DeviceState,
  Hello,
  ProcessState,
} from '../../../api-server/src/control.js';
import type { DeviceSnapshot } from '../../../api-server/src/native.js';
import type { Placement } from '../../policies/state.js';
import { OutboardError } from '../base/errors.js';
import { printable } from '../base/printable.js';
import type { SessionView } from '../base/view.js';

/** As many as fit into the report as the guest reads it (proto/control.options). */
const most = { devices: 8, processes: 128, name: 95, host: 63, program: 63 } as const;

export interface ReportedGpu {
  index: number;
  uuid: string;
  healthy: boolean;
  /** Bytes for sessions, all together, and for one that does not say how much it wants. */
  memory: bigint;
  usual: bigint;
  snapshot: DeviceSnapshot;
  sensors: DeviceSensors;
}

export interface Known {
  version: string;
  nvidiaDriver: string;
  nvmlVersion: string;
  gpus: readonly ReportedGpu[];
  /** Of the tenant that asks. */
  sessions: readonly SessionView[];
  /** GPUs that the tenant may use, by index; null: all. */
  allowed: readonly number[] | null;
  /** Where sessions of this Hello would run now; empty: nowhere, or not before it has waited. */
  placed: readonly Placement[];
}

export function deviceReport(hello: Hello, known: Known): DeviceReport {
  const gpus = chosen(hello, known);
  const others = shownBefore(hello, known)
    .filter((gpu) => !gpus.includes(gpu))
    .slice(0, most.devices);
  const own = ownSession(hello, known);
  const [first] = gpus;
  if (!first) throw new OutboardError('OB_NO_SLOT', 'no GPU is ready');
  return {
    serverVersion: known.version,
    driverVersion: first.snapshot.driverVersion,
    nvidiaDriver: known.nvidiaDriver,
    nvmlVersion: known.nvmlVersion,
    devices: gpus.map((gpu) => deviceState(gpu, hello, known, own)),
    others: others.map((gpu) => deviceState(gpu, hello, known, own)),
    processes: [...gpus, ...others]
      .flatMap((gpu, device) => on(gpu, known).map((session) => processState(session, device)))
      .slice(0, most.processes),
  };
}

/** What the process has handles of: they stay good, wherever its session runs. */
function shownBefore({ query }: Hello, { gpus, allowed }: Known): ReportedGpu[] {
  const shown = new Set(query?.shown.map(hex));
  return gpus.filter(
    ({ index, snapshot }) => shown.has(hex(snapshot.uuid)) && (allowed?.includes(index) ?? true),
  );
}

/** Somebody else's number is no better than none. */
function ownSession({ query }: Hello, { sessions }: Known): SessionView | undefined {
  const wanted = Number(query?.session ?? 0n);
  return sessions.find(({ id }) => id === wanted);
}

function on({ index }: ReportedGpu, { sessions }: Known): SessionView[] {
  return sessions.filter(({ gpu }) => gpu === index);
}

/**
 * Those of the program that asks, in the order in which it has them. Before it has any: as many as
 * it wants. Those that it was shown before stay; then come those where its tenant's sessions run,
 * then those where it would be placed.
 */
function chosen(hello: Hello, known: Known): ReportedGpu[] {
  const { gpus, allowed, placed } = known;
  const own = ownSession(hello, known);
  if (own) return own.group.gpus.flatMap((one) => gpus.filter(({ index }) => index === one));
  const shown = new Set(hello.query?.shown.map(hex));
  const rank = (gpu: ReportedGpu) => {
    if (shown.has(hex(gpu.snapshot.uuid))) return 0;
    if (on(gpu, known).length > 0) return 1;
    if (placed.some((one) => one.gpu === gpu.index)) return 2;
    return gpu.healthy ? 3 : 4;
  };
  return gpus
    .filter(({ index }) => allowed?.includes(index) ?? true)
    .sort((one, other) => rank(one) - rank(other) || one.index - other.index)
    .slice(0, Math.min(hello.devices || 1, most.devices))
    .sort((one, other) => one.index - other.index);
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

/** By CUdevice_attribute. */
const attribute = {
  clockRate: 13,
  memoryClockRate: 36,
  memoryBusWidth: 37,
  computeMajor: 75,
  computeMinor: 76,
} as const;

/** As 9.0. */
export function capabilityOf({ attributes }: DeviceSnapshot): string {
  return `${attributes[attribute.computeMajor] ?? 0}.${attributes[attribute.computeMinor] ?? 0}`;
}

function deviceState(
  gpu: ReportedGpu,
  hello: Hello,
  known: Known,
  own: SessionView | undefined,
): DeviceState {
  const { snapshot, sensors } = gpu;
  const here = on(gpu, known);
  const counted = own ? here.filter(({ group }) => group.session === own.group.session) : here;
  const sum = (value: (session: SessionView) => number) =>
    counted.reduce((total, session) => total + value(session), 0);
  const limits = BigInt(sum(({ memory }) => memory.limit));
  const used = BigInt(sum(({ memory }) => memory.used));
  const total = counted.length > 0 ? limits : expected(gpu, hello, known);
  const busy = here.reduce<number | null>(
    (all, { share: { received } }) => (all === null || received === null ? null : all + received),
    0,
  );
  const attributeOf = (index: number) => snapshot.attributes[index] ?? 0;
  return {
    ...fromDriver(attributeOf),
    ...sensors,
    name: printable(snapshot.name, most.name),
    uuid: snapshot.uuid,
    ...(snapshot.gpuUuid ? { gpuUuid: snapshot.gpuUuid } : {}),
    pciBusId: snapshot.pciBusId,
    computeMajor: attributeOf(attribute.computeMajor),
    computeMinor: attributeOf(attribute.computeMinor),
    memoryTotal: total,
    memoryUsed: used < total ? used : total,
    ...(busy === null ? {} : { busy: percent(busy) }),
  };
}

/** What a session would get that does not run yet. */
function expected({ index, memory, usual }: ReportedGpu, hello: Hello, { placed }: Known): bigint {
  const here = placed.find(({ gpu }) => gpu === index);
  if (here) return here.memory;
  const asked = hello.memory || usual;
  return asked < memory ? asked : memory;
}

/** Where the server has no NVML, its driver still tells this much. */
function fromDriver(attributeOf: (index: number) => number): DeviceSensors {
  const megahertz = (index: number) => Math.round(attributeOf(index) / 1000);
  const clock = megahertz(attribute.clockRate);
  const width = attributeOf(attribute.memoryBusWidth);
  return {
    maxClocks: [clock, clock, megahertz(attribute.memoryClockRate), 0],
    ...(width > 0 ? { memoryBusWidth: width } : {}),
  };
}

function processState(session: SessionView, device: number): ProcessState {
  const { id, pid, host, program, memory, share } = session;
  return {
    session: BigInt(id),
    device,
    pid,
    host: fitting(host, most.host),
    program: fitting(program, most.program),
    memory: BigInt(memory.used),
    ...(share.received === null ? {} : { busy: percent(share.received) }),
  };
}

/** Bytes count there, not characters. */
function fitting(text: string, bytes: number): string {
  let short = text;
  while (Buffer.byteLength(short) > bytes) short = [...short].slice(0, -1).join('');
  return short;
}

function percent(value: number): number {
  return Math.min(100, Math.max(0, Math.round(value)));
}
