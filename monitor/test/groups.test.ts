// Programs with several GPUs: placed together, a connection and a session for each.
import t from 'tap';
import type { Hello, Welcome } from '../../api-server/src/control.js';
import type { View } from '../src/view.js';
import { asking, Guest } from './support/guest.js';
import { Serving } from './support/serving.js';

const MiB = 1n << 20n;

function uuidOf({ devices }: Welcome): string {
  return Buffer.from(devices[0]?.uuid ?? []).toString('hex');
}

/** A guest that is welcomed, and its tickets. */
async function begin(serving: Serving, devices: number, hello: Partial<Hello> = {}) {
  const guest = Guest.hello(serving.address, { devices, ...hello });
  const welcome = await guest.welcome();
  return { guest, welcome, tickets: welcome.tickets ?? [] };
}

/** The whole program: each of its GPUs connected. */
async function beginAll(serving: Serving, devices: number, hello: Partial<Hello> = {}) {
  const { guest, welcome, tickets } = await begin(serving, devices, hello);
  const others = tickets.map((ticket) => Guest.hello(serving.address, { ...hello, ticket }));
  const welcomes = [welcome, ...(await Promise.all(others.map((other) => other.welcome())))];
  return { guests: [guest, ...others], welcomes };
}

async function stateOf(serving: Serving): Promise<View> {
  return (await fetch(`${serving.http}v1/state`)).json() as Promise<View>;
}

/** Waits until nobody has anything. */
async function allFree(serving: Serving) {
  for (;;) {
    const { gpus, sessions, queue } = await stateOf(serving);
    const slots = gpus.flatMap((gpu) => gpu.slots);
    const free = slots.every(({ state }) => state === 'free');
    const reserved = gpus.some(({ memory, share }) => memory.reserved > 0 || share.requested > 0);
    if (free && !reserved && sessions.length === 0 && queue.length === 0) return;
    await new Promise((again) => setTimeout(again, 20));
  }
}

t.test('each GPU has a session, with what was asked for on each', async (t) => {
  const serving = await Serving.start(t, ['--gpus', '3', '--servers-per-gpu', '2']);
  const asked = { memory: 64n * MiB, shareRequest: 20, program: 'gang' };
  const { guests, welcomes } = await beginAll(serving, 3, asked);
  t.equal(new Set(welcomes.map(uuidOf)).size, 3, 'all different');
  t.same(
    welcomes.map(({ session, memoryLimit }) => [session, memoryLimit]),
    [1n, 2n, 3n].map((session) => [session, 64n * MiB]),
  );
  t.same(
    welcomes.map(({ tickets }) => tickets?.length),
    [2, 0, 0],
  );
  const { sessions, gpus } = await stateOf(serving);
  t.match(
    sessions.toSorted((a, b) => a.id - b.id),
    [0, 1, 2].map((lane) => ({
      id: lane + 1,
      gpu: lane,
      program: 'gang',
      group: { session: 1, lane, gpus: [0, 1, 2] },
      share: { request: 20 },
    })),
  );
  for (const { memory } of gpus) t.equal(memory.reserved, Number(64n * MiB));
  const report = await Guest.hello(serving.address, asking(2n)).report();
  t.same(
    report.devices.map(({ uuid }) => Buffer.from(uuid).toString('hex')),
    welcomes.map(uuidOf),
    'a query tells of all of them',
  );
  for (const guest of guests) await guest.leave();
  await allFree(serving);
});
