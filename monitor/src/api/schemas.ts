// What goes over the HTTP API, as schemas: requests are checked with them, answers are written with
// them, and the OpenAPI document is made of them. The types of view.ts are the same thing seen by
// the compiler; `Same` below does not compile when the two differ.
import { type Static, Type } from 'typebox';
import type {
  GpuDrainView,
  GpuView,
  KernelView,
  LogLine,
  QueueView,
  SensorsView,
  SessionView,
  TenantView,
  View,
  WhyView,
} from '../base/view.js';

const nullableNumber = (description: string) =>
  Type.Unsafe<number | null>({ type: ['number', 'null'], description });
const nullableString = (description: string) =>
  Type.Unsafe<string | null>({ type: ['string', 'null'], description });
const notMeasured = 'it is not measured';
const bytes = (description: string) => Type.Number({ description, minimum: 0 });
const seconds = (description: string) => Type.Number({ description, minimum: 0 });
const percent = (description: string) => Type.Number({ description });
const moment = (description: string) => Type.String({ description, format: 'date-time' });
const choice = <const T extends string>(...values: T[]) =>
  Type.Unsafe<T>({ type: 'string', enum: values });

const sessionClass = choice('latency-strict', 'best-effort');

export const Slot = Type.Object({
  gpu: Type.Integer(),
  index: Type.Integer(),
  state: choice('starting', 'free', 'reserved', 'busy', 'ended'),
  pid: nullableNumber('of the API server process'),
  startSeconds: nullableNumber('from the start of the process until its context was warm'),
  hostMemory: nullableNumber('resident bytes of the process'),
  idleCpu: nullableNumber('processor seconds per second while it waits'),
  served: Type.Integer({ description: 'sessions it has served' }),
  contextMemory: nullableNumber('bytes of the device that its context takes'),
});

const draining = Type.Union([Type.Literal('moves'), Type.Literal('waits'), Type.Null()], {
  description: 'it gets nobody new: its sessions are moved, or waited for; null: it serves',
});

export const Gpu = Type.Object({
  index: Type.Integer(),
  uuid: Type.String(),
  name: Type.String(),
  pciBusId: Type.String(),
  healthy: Type.Boolean(),
  problem: nullableString('why it is not healthy'),
  draining,
  memory: Type.Object({
    total: bytes('of the device'),
    sessions: bytes('that sessions may have, all together'),
    reserved: bytes('promised to sessions'),
    usual: bytes('that a session gets now that does not say how much it wants'),
    used: bytes('mapped by sessions'),
    overhead: bytes('of contexts, and kept back for what sessions have beside'),
    beside: Type.Object({
      pinned: bytes('of pinned memory that kernels of a session reach; more counts as mapped'),
      modules: bytes('that the modules of a session may take'),
      stacks: bytes('of stacks of its kernels, beyond those of its context; more counts as mapped'),
    }),
  }),
  share: Type.Object({
    requested: percent('promised to its sessions, all together'),
    busy: nullableNumber(
      `percent of the last second in which work of sessions was on it; null: ${notMeasured}`,
    ),
  }),
  slots: Type.Array(Slot),
});

export const Sensors = Type.Object({
  gpu: Type.Integer(),
  uuid: Type.String(),
  computeCapability: nullableString('as 9.0'),
  driver: nullableString("NVIDIA's own number of its driver"),
  temperature: nullableNumber('degrees Celsius'),
  power: nullableNumber('milliwatts drawn'),
  powerLimit: nullableNumber('milliwatts it may draw'),
  fanSpeed: nullableNumber('percent'),
});

export const Session = Type.Object({
  id: Type.Integer(),
  group: Type.Object({
    session: Type.Integer({ description: "number of the first of its program's sessions" }),
    ordinal: Type.Integer({
      description: "which of its program's sessions on this server this is, from 0",
    }),
    gpus: Type.Array(Type.Integer(), { description: 'of all of them, in order' }),
  }),
  tenant: Type.String(),
  name: Type.String(),
  program: Type.String(),
  class: sessionClass,
  peer: Type.String(),
  host: Type.String(),
  pid: Type.Integer({ description: "of the program, in its machine's numbering" }),
  gpu: Type.Integer(),
  uuid: Type.String({ description: 'of the GPU' }),
  slot: Type.Integer(),
  slotPid: nullableNumber('of the API server process'),
  state: choice('starting', 'running', 'moving', 'ending'),
  away: Type.Union(
    [
      Type.Object({
        since: moment('when its connection was cut'),
        until: moment('when the session ends, unless it has come back'),
      }),
      Type.Null(),
    ],
    { description: 'its guest is, and may come back (docs/surviving-a-cut.md); null: it is there' },
  ),
  moving: Type.Union([choice('starting', 'preparing', 'transferring'), Type.Null()], {
    description: 'what is being done to move it to another process',
  }),
  moves: Type.Integer({ description: 'how often it has moved' }),
  started: moment('when it got its slot'),
  seconds: seconds('since then'),
  waitedSeconds: seconds('in the queue before'),
  memory: Type.Object({
    limit: bytes('it may map'),
    used: bytes('it has mapped'),
    peak: bytes('it had mapped at most'),
  }),
  share: Type.Object({
    request: percent('of a GPU promised'),
    limit: percent('of a GPU never exceeded'),
    received: nullableNumber(`percent of the last second it had; null: ${notMeasured}`),
    owed: nullableNumber(`percent of the last second it had a right to; null: ${notMeasured}`),
    deviceNs: nullableNumber(`nanoseconds of device time since it began; null: ${notMeasured}`),
    gateWaits: Type.Number({ description: 'times its work was held back' }),
    gateSeconds: seconds('its work was held back, all together'),
    held: Type.Boolean({ description: 'whether its work is held back now' }),
    beyondLimit: Type.Boolean({
      description: "whether an operator has promised it more than its tenant's limit had left",
    }),
  }),
  hindrances: Type.Array(Type.String(), {
    description: 'what keeps it from going on on another GPU (docs/moving.md)',
  }),
  counters: Type.Record(Type.String(), Type.Number(), { description: 'of the executor' }),
});

const place = Type.Object({ gpu: Type.Integer(), slot: Type.Integer() });
export const Move = Type.Object({
  session: Type.Integer(),
  from: place,
  to: place,
  seconds: seconds('from when it was asked for'),
  stoppedSeconds: seconds('its commands were not carried out; 0: not known'),
});

export const MoveWish = Type.Object(
  {
    gpu: Type.Optional(
      Type.Integer({ minimum: 0, description: 'by index; absent: any other that it fits on' }),
    ),
    within: Type.Optional(
      Type.Boolean({ description: 'to another process on the same GPU', default: false }),
    ),
  },
  { additionalProperties: false },
);

export const Kernel = Type.Object({
  name: Type.String({
    description: 'as the module has it, mangled; [copy] and [set] beside kernels',
  }),
  launches: Type.Integer(),
  blocks: Type.Integer({ description: 'of all launches' }),
  seconds: nullableNumber("of the GPU's time; null: not all launches were measured"),
});

export const Why = Type.Object({
  session: Type.Integer(),
  tenant: Type.String(),
  name: Type.String(),
  state: choice('waiting', 'running', 'ended'),
  now: Type.Array(Type.String(), { description: 'why it is so at this moment' }),
  decisions: Type.Array(
    Type.Object({
      time: moment('when it was made first'),
      last: moment('when the same was decided again last, with nothing else between'),
      times: Type.Integer({ description: 'how often' }),
      kind: choice('admission', 'queue', 'placement', 'policy', 'quota', 'end'),
      text: Type.String({ description: 'what, and why' }),
    }),
    { description: 'oldest first' },
  ),
  leftOut: Type.Integer({ description: 'decisions in the middle that are not kept' }),
});

export const Queued = Type.Object({
  id: Type.Integer(),
  position: Type.Integer({ description: 'from 1, the next' }),
  tenant: Type.String(),
  name: Type.String(),
  program: Type.String(),
  class: sessionClass,
  peer: Type.String(),
  gpus: Type.Integer({ description: 'it asks for' }),
  memory: nullableNumber('bytes it asks for on each; null: the usual'),
  shareRequest: percent('of each it asks for'),
  shareLimit: percent('of each it never exceeds'),
  waitedSeconds: seconds('it has waited'),
});

export const Tenant = Type.Object({
  name: Type.String(),
  priority: sessionClass,
  limits: Type.Object({
    sessions: nullableNumber('at a time; null: no limit'),
    memory: nullableNumber('bytes of all its sessions; null: no limit'),
    share: nullableNumber('percent of GPUs promised to its sessions; null: no limit'),
    gpus: Type.Unsafe<number[] | null>({
      type: ['array', 'null'],
      items: { type: 'integer' },
      description: 'it may use; null: all',
    }),
  }),
  moves: Type.Boolean({ description: 'whether its sessions may be moved (docs/moving.md)' }),
  expires: nullableString('when its access token stops being valid'),
  sessions: Type.Integer({ description: 'running' }),
  queued: Type.Integer({ description: 'waiting' }),
  memory: bytes('reserved for its sessions'),
  share: percent('promised to its sessions'),
});

export const Server = Type.Object({
  version: Type.String(),
  pid: Type.Integer(),
  host: Type.String(),
  started: moment('when the server started'),
  now: moment('when this was written'),
  listen: Type.Array(Type.String(), { description: 'where guests connect' }),
  device: Type.String(),
  traits: Type.Union([Type.String(), Type.Null()], {
    description: "SOFTWARE_DEVICE_TRAITS: what the software device does as NVIDIA's driver does",
  }),
  placement: Type.String(),
  queuePolicy: Type.String({ description: 'who of those that wait has the turn' }),
  admission: Type.String({ description: 'who may join whom on a GPU' }),
  migration: Type.String({ description: 'which moves sessions while they run, or none' }),
  quota: Type.String(),
  sessionMemory: Type.String({
    description: 'for sessions that do not say how much memory they want: auto, 25%, 4 GiB',
  }),
  draining: Type.Boolean({ description: 'no new sessions are taken' }),
  tenants: Type.Boolean({ description: 'whether a tenants file is in force' }),
});

export const State = Type.Object({
  server: Server,
  gpus: Type.Array(Gpu),
  sessions: Type.Array(Session),
  queue: Type.Array(Queued),
  tenants: Type.Array(Tenant),
});

export const Line = Type.Object(
  {
    time: Type.Number({ description: 'milliseconds since 1970' }),
    level: Type.String(),
    msg: Type.String(),
  },
  { additionalProperties: true },
);

const numbers = (description: string) => Type.Array(Type.Number(), { description });
const nullableNumbers = (description: string) =>
  Type.Array(Type.Union([Type.Number(), Type.Null()]), {
    description: `${description}; null: ${notMeasured}`,
  });

export const History = Type.Object({
  times: numbers('milliseconds since 1970, of each sample, oldest first'),
  gpus: Type.Array(
    Type.Object({
      index: Type.Integer(),
      uuid: Type.String(),
      reserved: numbers('bytes promised to sessions'),
      used: numbers('bytes mapped by sessions'),
      requested: numbers('percent promised to sessions'),
      busy: nullableNumbers('percent of the second before'),
    }),
  ),
  sessions: Type.Array(
    Type.Object({
      id: Type.Integer(),
      from: Type.Integer({ description: 'index in `times` of its first sample' }),
      used: numbers('bytes mapped'),
      received: nullableNumbers('percent of the second before'),
      owed: nullableNumbers('percent of the second before that it had a right to'),
    }),
    { description: 'those that run now' },
  ),
});

export const Share = Type.Object(
  {
    request: Type.Number({ minimum: 0, maximum: 100, description: 'percent of a GPU promised' }),
    limit: Type.Number({ minimum: 1, maximum: 100, description: 'percent never exceeded' }),
    beyondLimit: Type.Optional(
      Type.Boolean({
        description: "true: also where its tenant's sessions are promised more than its limit then",
      }),
    ),
  },
  { additionalProperties: false },
);

export const Drain = Type.Object({
  draining: Type.Boolean(),
  sessions: Type.Integer({ description: 'that still run' }),
  queued: Type.Integer({ description: 'that still wait' }),
});

export const GpuDrain = Type.Object({
  gpu: Type.Integer(),
  draining,
  sessions: Type.Integer({ description: 'that are there still' }),
  staying: Type.Array(Type.Object({ session: Type.Integer(), why: Type.String() }), {
    description: 'those of them that are not moved for now, where they are to be',
  }),
});

export const GpuDrainWish = Type.Object(
  { move: Type.Boolean({ default: false, description: 'its sessions to other GPUs' }) },
  { additionalProperties: false },
);

export const Policies = Type.Object({
  queue: Type.Array(Type.Object({ name: Type.String(), summary: Type.String() })),
  admission: Type.Array(Type.Object({ name: Type.String(), summary: Type.String() })),
  placement: Type.Array(Type.Object({ name: Type.String(), summary: Type.String() })),
  migration: Type.Array(Type.Object({ name: Type.String(), summary: Type.String() })),
  quota: Type.Array(
    Type.Object({
      name: Type.String(),
      summary: Type.String(),
      unit: Type.String({ description: 'of its quota tokens' }),
      periodMs: Type.Number(),
    }),
  ),
});

export const Problem = Type.Object({
  code: Type.String({ description: 'as in docs/errors.md' }),
  message: Type.String(),
  remedy: Type.String({ description: 'what to do' }),
});

export type HistoryView = Static<typeof History>;
export type DrainView = Static<typeof Drain>;
export type PoliciesView = Static<typeof Policies>;
export type ProblemView = Static<typeof Problem>;

type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : never) : never;
true satisfies Same<Static<typeof State>, View>;
true satisfies Same<Static<typeof Gpu>, GpuView>;
true satisfies Same<Static<typeof GpuDrain>, GpuDrainView>;
true satisfies Same<Static<typeof Sensors>, SensorsView>;
true satisfies Same<Static<typeof Session>, SessionView>;
true satisfies Same<Static<typeof Kernel>, KernelView>;
true satisfies Same<Static<typeof Why>, WhyView>;
true satisfies Same<Static<typeof Queued>, QueueView>;
true satisfies Same<Static<typeof Tenant>, TenantView>;
true satisfies Same<Static<typeof Line>, Pick<LogLine, 'time' | 'level' | 'msg'>>;
