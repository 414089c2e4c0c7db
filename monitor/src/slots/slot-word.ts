// What a slot's process may say, as schemas. A tenant may have taken it over, so its messages are checked
// like any that come from outside. `Same` does not compile where the schemas differ from ipc.ts.
import { type Static, type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import type { FromSlot } from '../../../api-server/src/ipc.js';
import {
  counterNames,
  kernelNameMost,
  kernelsMost,
  learntMost,
} from '../../../api-server/src/native.js';
import { printable } from '../base/printable.js';
import { mostModules } from './usual-modules.js';

const whole = { additionalProperties: false } as const;
const name = Type.String({ maxLength: 256 });
const textMost = 16 << 10;
const sentence = Type.String({ maxLength: textMost });
const code = Type.Union([name, Type.Null()]);
const number = Type.Number();
const word = Type.Refine(Type.BigInt(), (value) => value >= 0n && value < 1n << 64n);

/** A text of bounded length, which is looked at before its characters are. */
function few<T extends TSchema>(item: T, most: number) {
  const one = Compile(item);
  const fits = (value: unknown[]) =>
    Array.isArray(value) && value.length <= most && value.every((element) => one.Check(element));
  return Type.Refine(Type.Unsafe<Static<T>[]>({}), fits);
}

/** A list with at most so many elements. */
function elements<T extends NodeJS.TypedArray>(
  kind: new (elements: number) => T,
  least: number,
  most: number,
) {
  const fits = (value: T) => value instanceof kind && value.length >= least && value.length <= most;
  return Type.Refine(Type.Unsafe<T>({}), fits);
}

const numbers = few(number, 64);
const uuid = elements<Uint8Array>(Uint8Array, 16, 16);
const module = Type.Object({ hash: elements<Uint8Array>(Uint8Array, 32, 32), size: word }, whole);

const snapshot = Type.Object(
  {
    name,
    uuid,
    gpuUuid: Type.Union([uuid, Type.Null()]),
    totalMemory: word,
    freeMemory: word,
    attributes: elements<Int32Array>(Int32Array, 1, 1024),
    limits: elements<BigUint64Array>(BigUint64Array, 1, 256),
    leastPriority: number,
    greatestPriority: number,
    pciBusId: name,
    peers: few(
      Type.Object(
        { uuid, performanceRank: number, nativeAtomics: Type.Boolean(), atomics: numbers },
        whole,
      ),
      256,
    ),
    driverVersion: number,
    windowBase: word,
    windowSize: word,
    streamOperations: Type.Integer({ minimum: 0, maximum: 4096 }),
    granularity: word,
    cublas: Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1 }),
  },
  whole,
);

const kernel = Type.Object(
  {
    name: Type.String({ maxLength: kernelNameMost }),
    launches: word,
    blocks: word,
    ns: word,
    unmeasured: word,
  },
  whole,
);

const sensors = Type.Object(
  {
    temperature: Type.Optional(number),
    temperatureSlowdown: Type.Optional(number),
    temperatureShutdown: Type.Optional(number),
    power: Type.Optional(number),
    powerLimit: Type.Optional(number),
    fanSpeed: Type.Optional(number),
    performanceState: Type.Optional(number),
    clocks: Type.Optional(numbers),
    maxClocks: Type.Optional(numbers),
    brand: Type.Optional(number),
    pciDeviceId: Type.Optional(number),
    pciSubsystemId: Type.Optional(number),
    memoryBusWidth: Type.Optional(number),
  },
  whole,
);
const nvml = Type.Object({ nvidiaDriver: name, nvmlVersion: name, sensors }, whole);

/** Later than ever, and still a date. */
const milliseconds = Type.Integer({ minimum: 0, maximum: 2 ** 42 });
const away = Type.Object({ passedMs: milliseconds, leftMs: milliseconds }, whole);

const end = Type.Object(
  {
    reason: Type.Union([
      Type.Literal('closed'),
      Type.Literal('violation'),
      Type.Literal('device'),
      Type.Literal('stopped'),
      Type.Literal('limit'),
      Type.Literal('moved'),
    ]),
    message: sentence,
    reusable: Type.Boolean(),
    modules: few(module, mostModules),
    learnt: elements<Uint8Array>(Uint8Array, 0, learntMost),
  },
  whole,
);

type CounterSchemas = Record<(typeof counterNames)[number], typeof word>;
const counters = Type.Object(
  Object.fromEntries(counterNames.map((name) => [name, word])) as CounterSchemas,
  whole,
);

function message<T extends string, P extends Record<string, TSchema>>(type: T, properties: P) {
  return Type.Object({ type: Type.Literal(type), ...properties }, whole);
}

const fromSlot = Type.Union([
  message('ready', { snapshot }),
  message('failed', { code, message: sentence }),
  message('measured', { freeMemory: word }),
  message('pong', { counters: Type.Union([counters, Type.Null()]) }),
  message('kernels', { kernels: few(kernel, kernelsMost) }),
  message('nvml', { facts: Type.Union([nvml, Type.Null()]) }),
  message('prepared', { windowBase: word, windowSize: word }),
  message('arrived', {}),
  message('moved', { stoppedNs: word }),
  message('stays', { why: sentence }),
  message('declined', { code, message: sentence }),
  message('used', { session: word, module }),
  message('away', { away: Type.Union([away, Type.Null()]) }),
  message('closing', {}),
  message('ended', { end, counters }),
]);

type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : never) : never;
true satisfies Same<Static<typeof fromSlot>, FromSlot>;

// Compiled once, because every session sends some of them.
const words = Compile(fromSlot);

/** Throws where it is none of these messages. Texts of the result can be shown in logs, terminals and pages. */
export function asWord(value: unknown): FromSlot {
  if (!words.Check(value)) throw new Error('it is no message that there is');
  return shown(value) as FromSlot;
}

function shown(value: unknown): unknown {
  if (typeof value === 'string') return printable(value, textMost);
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value;
  if (Array.isArray(value)) return value.map(shown);
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shown(one)]));
}
