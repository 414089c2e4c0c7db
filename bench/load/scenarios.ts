// What the server is put through. Each scenario says what it saw, and the marks it is held to.
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { preface, wire } from '../../api-server/src/control.js';
import { Guest } from '../../monitor/test/support/guest.js';
import { Loaded } from './serving.js';

export interface Figure {
  name: string;
  what: string;
  unit: string;
  value: number;
  /** What it must be; null: only shown. */
  mark: { least?: number; most?: number } | null;
}

export interface Scenario {
  name: string;
  run(): Promise<Figure[]>;
}

const figure = (
  name: string,
  what: string,
  unit: string,
  value: number,
  mark: Figure['mark'] = null,
): Figure => ({ name, what, unit, value, mark });

/** Guests arrive at a fixed rate, whether those before them have been served or not. */
async function attachRate(): Promise<Figure[]> {
  const perSecond = 200;
  const arrivals = 2000;
  const server = await Loaded.start(1, 8);
  await server.warm(64);
  const waited: number[] = [];
  const begun = performance.now();
  const one = async (index: number) => {
    const due = begun + (index * 1000) / perSecond;
    await sleep(Math.max(0, due - performance.now()));
    const asked = performance.now();
    const guest = await server.attach();
    waited.push(performance.now() - asked);
    await guest.leave();
  };
  await Promise.all(Array.from({ length: arrivals }, (_, index) => one(index)));
  const seconds = (performance.now() - begun) / 1000;
  const figures = [
    figure(
      'attach.rate',
      `${arrivals} guests at ${perSecond}/s, served`,
      '1/s',
      arrivals / seconds,
      {
        least: perSecond * 0.98,
      },
    ),
    figure('attach.median', 'from connect to Welcome', 'ms', quantile(waited, 0.5)),
    figure('attach.p99', 'from connect to Welcome', 'ms', quantile(waited, 0.99), { most: 20 }),
  ];
  let left = arrivals;
  const again = performance.now();
  const next = async () => {
    while (left-- > 0) await (await server.attach()).leave();
  };
  await Promise.all(Array.from({ length: 4 }, next));
  const most = arrivals / ((performance.now() - again) / 1000);
  await server.stop();
  return [...figures, figure('attach.most', 'four guests, one session after another', '1/s', most)];
}

/** All want in at the same time; the server must serve them in the order in which they came. */
async function queued(): Promise<Figure[]> {
  const count = 1000;
  // One slot: with two, the second of two Welcomes may well be the first to be read.
  const server = await Loaded.start(1, 1, ['--queue-limit', '2000']);
  const first = await server.attach();
  const order: number[] = [];
  const guests: Guest[] = [];
  for (let index = 0; index < count; index++) {
    const guest = Guest.hello(server.address);
    // In the queue before the next one comes, so that there is an order to keep.
    await guest.position();
    guests.push(guest);
  }
  const begun = performance.now();
  const served = guests.map(async (guest, index) => {
    await guest.welcome();
    order.push(index);
    await guest.leave();
  });
  await first.leave();
  await Promise.all(served);
  const seconds = (performance.now() - begun) / 1000;
  const late = order.filter((index, at) => index !== at).length;
  await server.stop();
  return [
    figure('queue.served', `of ${count} that waited`, '', order.length, { least: count }),
    figure('queue.disorder', 'served out of turn', '', late, { most: 0 }),
    figure('queue.rate', 'served from the queue', '1/s', count / seconds),
  ];
}

async function concurrent(): Promise<Figure[]> {
  const begun = performance.now();
  const server = await Loaded.start(2, 32);
  const warm = (performance.now() - begun) / 1000;
  const guests = await Promise.all(Array.from({ length: 64 }, () => server.attach()));
  const { memory } = server.monitor;
  await Promise.all(guests.map((guest) => guest.leave()));
  await server.stop();
  return [
    figure('concurrent.sessions', 'at a time on two GPUs', '', guests.length, { least: 64 }),
    figure('concurrent.start', 'until 64 processes were warm', 's', warm),
    figure('concurrent.monitor', 'resident memory of the monitor', 'MB', memory / 1e6, {
      most: 150,
    }),
  ];
}

async function many(): Promise<Figure[]> {
  const count = 10_000;
  const server = await Loaded.start(2, 2);
  await server.warm(500);
  const before = server.monitor;
  let left = count;
  const next = async () => {
    while (left-- > 0) await (await server.attach()).leave();
  };
  await Promise.all(Array.from({ length: 4 }, next));
  // The last guests' connections are closed by then.
  await sleep(1000);
  const after = server.monitor;
  await server.stop();
  return [
    figure('many.memory', `of the monitor after ${count} sessions`, 'MB', after.memory / 1e6, {
      most: 150,
    }),
    figure('many.growth', 'against 500 sessions', 'MB', (after.memory - before.memory) / 1e6),
    figure('many.descriptors', 'more than before', '', after.descriptors - before.descriptors, {
      most: 0,
    }),
  ];
}

/** Connections that say nothing, half of something, or nonsense, while others are served. */
async function hostile(): Promise<Figure[]> {
  const count = 10_000;
  const server = await Loaded.start(1, 2, ['--hello-timeout', '5']);
  await server.warm(64);
  const before = server.monitor;
  const half = preface(wire.protocol, 100);
  let open = 0;
  let refused = 0;
  const sockets = Array.from({ length: count }, (_, index) => {
    const socket = connect(server.address);
    socket.on('connect', () => {
      open++;
      if (index % 3 === 1) socket.write(half.subarray(0, 1 + (index % 15)));
      if (index % 3 === 2) socket.write(Buffer.alloc(64, index % 251));
    });
    socket.on('error', () => {});
    socket.on('close', () => refused++);
    socket.resume();
    return socket;
  });
  const waited: number[] = [];
  while (open < count) await sleep(10);
  const peak = server.monitor;
  for (let index = 0; index < 200; index++) {
    const asked = performance.now();
    await (await server.attach()).leave();
    waited.push(performance.now() - asked);
  }
  // The server ends them all, by itself.
  while (refused < count) await sleep(10);
  for (const socket of sockets) socket.destroy();
  await sleep(1000);
  const after = server.monitor;
  await server.stop();
  return [
    figure('hostile.open', 'connections that never become sessions', '', count),
    figure(
      'hostile.median',
      'a session in between, from connect to end',
      'ms',
      quantile(waited, 0.5),
    ),
    figure('hostile.memory', 'of the monitor while they were there', 'MB', peak.memory / 1e6),
    figure('hostile.descriptors', 'more than before', '', after.descriptors - before.descriptors, {
      most: 0,
    }),
  ];
}

function quantile(values: number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}

export const scenarios: Scenario[] = [
  { name: 'attach', run: attachRate },
  { name: 'queue', run: queued },
  { name: 'concurrent', run: concurrent },
  { name: 'many', run: many },
  { name: 'hostile', run: hostile },
];
