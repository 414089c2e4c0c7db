// What the machine's own NVML says of a device, from a made-up one.
import path from 'node:path';
import t from 'tap';
import { build } from '../../bin/paths.mjs';
import { loadNative } from '../src/native.js';
import { openMessage } from './support/messages.js';
import { startSlot } from './support/slot.js';

const native = loadNative(build);
const library = path.join(build, 'nvml', 'test', 'server-nvml.so');
const uuid = 'GPU-00010203-0405-0607-0809-0a0b0c0d0e0f';

const facts = {
  nvidiaDriver: '580.65.06',
  nvmlVersion: '13.580.65.06',
  // What it does not support, and functions it does not have, are left out.
  sensors: {
    temperature: 41,
    temperatureSlowdown: 87,
    temperatureShutdown: 92,
    power: 123456,
    brand: 14,
    pciDeviceId: 0x233510de,
    pciSubsystemId: 0x18be10de,
    clocks: [1000, 1001, 1002, 0],
    maxClocks: [0, 0, 0, 0],
  },
};

t.test('of a device that it knows', async (t) => {
  t.same(native.nvmlFacts(library, uuid), facts);
  t.same(native.nvmlFacts(library, uuid), facts, 'it is opened once');
  t.equal(native.nvmlFacts(library, uuid.replace('f', 'e')), null);
});

t.test('of an instance, what it says of the GPU', async (t) => {
  const instance = 'MIG-30313233-3435-3637-3839-3a3b3c3d3e3f';
  t.equal(native.nvmlFacts(library, instance)?.sensors.temperature, 55);
});

t.test('which GPUs and instances there are', async (t) => {
  t.same(native.machineGpus(library), [
    { uuid, mig: false, instances: [] },
    {
      uuid: 'GPU-10111213-1415-1617-1819-1a1b1c1d1e1f',
      mig: true,
      // A place between them is free.
      instances: [
        'MIG-20212223-2425-2627-2829-2a2b2c2d2e2f',
        'MIG-30313233-3435-3637-3839-3a3b3c3d3e3f',
      ],
    },
  ]);
  t.equal(native.machineGpus('/nowhere/libnvidia-ml.so.1'), null);
});

t.test('where there is none', async (t) => {
  t.equal(native.nvmlFacts('/nowhere/libnvidia-ml.so.1', uuid), null);
  const other = path.join(build, 'software-device', 'libcuda.so.1');
  t.equal(native.nvmlFacts(other, uuid), null, 'it is something else');
  t.throws(() => native.nvmlFacts(library, 7 as unknown as string));
});

t.test('as the monitor asks for it', async (t) => {
  const { ask, exit, leave } = startSlot();
  t.same(await ask({ type: 'nvml', library, uuid }), { type: 'nvml', facts: null }, 'too early');
  const driver = path.join(build, 'software-device', 'libcuda.so.1');
  t.match(await ask(openMessage({ build, library: driver })), { type: 'ready' });
  t.same(await ask({ type: 'nvml', library, uuid }), { type: 'nvml', facts });
  leave();
  t.equal(await exit, 0);
});
