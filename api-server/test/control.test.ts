// The control messages, and that both languages agree on their numbers.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { root } from '../../bin/paths.mjs';
import { decodeAnswer, decodeHello, encodeAnswer, encodeHello, wire } from '../src/control.js';

t.test('the constants are those of wire.h', async (t) => {
  const header = readFileSync(path.join(root, 'proto', 'wire', 'wire.h'), 'utf8');
  const defined = (name: string) =>
    new RegExp(`^#define ${name} (.*)$`, 'm').exec(header)?.[1]?.trim();
  t.equal(defined('WIRE_PROTOCOL'), String(wire.protocol));
  t.equal(defined('WIRE_PREFACE_MAGIC'), `"${wire.magic}"`);
  t.equal(defined('WIRE_PREFACE_BYTES'), String(wire.prefaceBytes));
  t.equal(defined('WIRE_CONTROL_MAX'), String(wire.controlMax));
  t.equal(defined('WIRE_GRANULE'), '(2ull << 20)');
  t.equal(wire.granule, 2n << 20n);
  const options = readFileSync(path.join(root, 'proto', 'control.options'), 'utf8');
  t.match(options, `Welcome.tickets max_count:${wire.devicesMost - 1} `, 'beside the first GPU');
});

t.test('every answer comes back as it went', async (t) => {
  const device = {
    name: 'GPU',
    uuid: Buffer.from('0123456789abcdef'),
    gpuUuid: Buffer.from('a GPU above that'),
    totalMemory: (1n << 37n) + 1n,
    attributes: [0, 1024, -1, 0x7fffffff],
    limits: [1n, (1n << 64n) - 1n],
    leastPriority: 0,
    greatestPriority: -5,
    pciBusId: '0000:01:00.0',
    peers: [
      {
        uuid: Buffer.from('fedcba9876543210'),
        performanceRank: 1,
        nativeAtomics: true,
        atomics: [0x1f, 0, 3],
      },
    ],
  };
  const welcome = {
    session: (1n << 63n) + 1n,
    driverVersion: 13000,
    devices: [device],
    windowBase: 0x400000000000n,
    windowSize: 1n << 40n,
    memoryLimit: 5n << 30n,
    serverVersion: '1.2.3',
    tickets: ['11'.repeat(24)],
    uploadCache: 4n << 20n,
    region: true,
    resumeSecret: Buffer.from('sixteen bytes of'),
    resumeSeconds: 60,
    expected: [{ hash: Buffer.alloc(32, 7), size: (1n << 33n) + 8n }],
    pinnedMemory: 1n << 28n,
    errorTexts: true,
    memoryRoom: true,
    shareEnds: true,
    lateUploads: true,
    streamOperations: 1023,
    granularity: 65536n,
    cublas: 130002,
    learnt: true,
  };
  const refusal = { code: 'OB_X', sentence: 'a — b', remedy: '', result: -1 };
  const state = {
    name: 'GPU',
    uuid: device.uuid,
    gpuUuid: Buffer.alloc(0),
    pciBusId: device.pciBusId,
    computeMajor: 9,
    computeMinor: 0,
    memoryTotal: (1n << 40n) + 1n,
    memoryUsed: 1n << 33n,
    busy: 100,
    memoryBusWidth: 5120,
    temperature: 0,
    temperatureSlowdown: 87,
    temperatureShutdown: 92,
    power: 700_000,
    powerLimit: 700_000,
    fanSpeed: 0,
    performanceState: 0,
    clocks: [1980, 1980, 2619, 0],
    maxClocks: [],
    brand: 14,
    pciDeviceId: 0xffffffff,
    pciSubsystemId: 1,
  };
  const row = { pid: 1, host: 'h', program: 'p', memory: 1n << 34n, busy: 7 };
  const report = {
    serverVersion: '1.2.3',
    driverVersion: 13000,
    nvidiaDriver: '580.65.06',
    nvmlVersion: '',
    devices: [state],
    others: [{ ...state, name: 'other' }],
    processes: [{ session: 1n << 40n, device: 0, ...row }],
    room: null,
  };
  const queued = { position: 3, warning: '' };
  const resumed = { received: (1n << 63n) + 1n };
  for (const answer of [{ welcome }, { queued }, { refusal }, { report }, { resumed }]) {
    const bytes = encodeAnswer(answer);
    t.equal(bytes.subarray(0, 8).toString(), 'OUTBOARD');
    t.equal(bytes.readUInt32LE(8), wire.protocol);
    t.equal(bytes.readUInt32LE(12), bytes.length - wire.prefaceBytes);
    t.same(decodeAnswer(bytes.subarray(wire.prefaceBytes)), answer);
  }
});

t.test('a Hello, and one of a guest that knows fewer fields', async (t) => {
  const said = { name: 'resize', sessionClass: 'best-effort', traceparent: '00-1', token: 'x' };
  t.match(decodeHello(encodeHello(said).subarray(wire.prefaceBytes)), said);
  const older = decodeHello(encodeHello({ program: 'old' }).subarray(wire.prefaceBytes));
  t.match(older, { program: 'old', name: '', sessionClass: '', traceparent: '', query: null });
  const resume = { session: 7n, secret: Buffer.from('sixteen bytes of'), epoch: 2, received: 9n };
  const back = decodeHello(encodeHello({ resumes: true, resume }).subarray(wire.prefaceBytes));
  t.match(back, { resumes: true, resume });
  const query = { session: 7n, shown: [Buffer.from('0123456789abcdef')] };
  t.match(decodeHello(encodeHello({ query }).subarray(wire.prefaceBytes)).query, query);
});

t.test('a message that is too long is never sent', async (t) => {
  t.throws(() => encodeHello({ token: 'x'.repeat(wire.controlMax) }), {
    message: /the most is 65536/,
  });
});
