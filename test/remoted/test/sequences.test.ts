// Sequences of driver calls do the same natively and remoted, call by call (test/sequences).
import path from 'node:path';
import t, { type Test } from 'tap';
import { onDevice, onlySoftware } from '../../support/device.js';
import { build } from '../../support/paths.js';
import { native, type Outcome, remoted } from '../../support/program.js';
import { startServer } from '../../support/server.js';

const program = path.join(build, 'test', 'sequences', 'driver-sequences');
const usual = process.env['NIGHTLY'] ? '1-60' : '1-10';
const [from = 1, to = 10] = (process.env['SEQUENCES'] ?? usual).split('-').map(Number);
const seeds = Array.from({ length: to - from + 1 }, (_, i) => String(from + i));

const gpusOfOne = (gpus: number) => {
  return [...onDevice, '--gpus', `${gpus}`, '--servers-per-gpu', '1'];
};
const oneGpu = [...onDevice, '--gpus', '1', '--servers-per-gpu', '2'];

/** The lines around the first that differs: after it the two have different objects. */
function difference(here: Outcome, there: Outcome) {
  const [expected, got] = [here, there].map(({ stdout }) => stdout.split('\n')) as [
    string[],
    string[],
  ];
  const at = expected.findIndex((line, i) => line !== got[i]);
  const end = { code: there.code, signal: there.signal };
  return at < 0 && got.length === expected.length
    ? end
    : { ...end, expected: expected[at], got: got[at] };
}

interface Where {
  /** Of the servers' devices. */
  env?: Record<string, string>;
  /** The same of the device that a program has natively. */
  native?: Record<string, string>;
  /** Each on a server of its own. */
  devices?: number;
  /** All on one server, where they reach each other's memory. */
  peers?: boolean;
}

async function compare(t: Test, { env = {}, native: told, devices = 1, peers = false }: Where) {
  const servers = await Promise.all(
    peers
      ? [startServer({ env, args: gpusOfOne(devices) })]
      : Array.from({ length: devices }, () => startServer({ env, args: oneGpu })),
  );
  const address = servers.map((server) => server.address).join(',');
  const asMany = `${devices}`;
  try {
    for (const seed of seeds) {
      const args = [seed, '300', asMany, ...(peers ? ['peers'] : [])];
      const here = await native(program, {
        args,
        env: { ...told, SOFTWARE_DEVICE_GPUS: asMany },
      });
      t.same(
        { code: here.code, signal: here.signal },
        { code: 0, signal: null },
        `natively: ${seed}`,
      );
      t.ok(here.stdout.split('\n').length > 100, 'enough was there to work with');
      const there = await remoted(program, address, { args, env: { OUTBOARD_GPUS: asMany } });
      const run = `driver-sequences ${args.join(' ')}`;
      t.same(difference(here, there), { code: 0, signal: null }, run);
    }
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

t.test('in order', { timeout: 3_600_000 }, (t) => compare(t, {}));

/** Reordering and a number of devices are what the software device is told. */
const elsewhere = { timeout: 3_600_000, skip: onlySoftware };

t.test('on a device that reorders what CUDA leaves unordered', elsewhere, (t) =>
  compare(t, { env: { SOFTWARE_DEVICE_DISORDER: '5' } }),
);

t.test('on a device that behaves as NVIDIA’s driver does', elsewhere, (t) => {
  const traits = { SOFTWARE_DEVICE_TRAITS: 'nvidia-like' };
  return compare(t, { env: traits, native: traits });
});

t.test('on two devices', elsewhere, (t) => compare(t, { devices: 2 }));

t.test('on three that reorder it', elsewhere, (t) =>
  compare(t, { devices: 3, env: { SOFTWARE_DEVICE_DISORDER: '6' } }),
);

t.test('on two devices that reach each other', elsewhere, (t) =>
  compare(t, { devices: 2, peers: true }),
);

t.test('on three that reach each other and reorder', elsewhere, (t) =>
  compare(t, { devices: 3, peers: true, env: { SOFTWARE_DEVICE_DISORDER: '6' } }),
);

// Nothing is compared: each finds other memory, and other captures, at other times.
t.test('several at once, in threads', { timeout: 3_600_000 }, async (t) => {
  const server = await startServer({ args: oneGpu });
  try {
    for (const seed of seeds.slice(0, Math.ceil(seeds.length / 3))) {
      const args = ['--threads', '6', seed, '1000'];
      for (const { code, signal, stdout } of [
        await native(program, { args }),
        await remoted(program, server.address, { args }),
      ]) {
        const run = `driver-sequences ${args.join(' ')}`;
        t.same({ code, signal }, { code: 0, signal: null }, run);
        t.equal(stdout, '6 sequences of 1000 steps\n', run);
      }
    }
  } finally {
    await server.stop();
  }
});
