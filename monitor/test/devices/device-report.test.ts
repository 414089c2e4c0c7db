// What a process is told that asks for its devices: a pure function.
import fc from 'fast-check';
import t from 'tap';
import {
  decodeAnswer,
  decodeHello,
  encodeAnswer,
  encodeHello,
  type Hello,
  wire,
} from '../../../api-server/src/control.js';
import type { DeviceSnapshot } from '../../../api-server/src/native.js';
import type { SessionView } from '../../src/base/view.js';
import { deviceReport, type Known, type ReportedGpu } from '../../src/devices/device-report.js';
import { uuidOf as textOf } from '../../src/devices/devices.js';
import { asking } from '../support/guest.js';

const GiB = 1n << 30n;
const uuidOf = (index: number) => Uint8Array.from({ length: 16 }, () => index + 1);

function gpu(index: number, given: Partial<ReportedGpu> = {}): ReportedGpu {
  const attributes = new Int32Array(128);
  Object.assign(attributes, { 13: 1_980_000, 36: 2_619_000, 37: 5120, 75: 9, 76: 0 });
  const snapshot = {
    name: `GPU ${index}`,
    uuid: uuidOf(index),
    totalMemory: 80n * GiB,
    attributes,
    pciBusId: `0000:0${index + 1}:00.0`,
    driverVersion: 13000,
  } as DeviceSnapshot;
  const uuid = textOf(snapshot);
  const memory = { memory: 64n * GiB, usual: 16n * GiB };
  return { index, uuid, healthy: true, ...memory, snapshot, sensors: {}, ...given };
}

function session(id: number, on: number, given: Partial<SessionView> = {}): SessionView {
  const share = { received: 30 } as SessionView['share'];
  const memory = { limit: Number(4n * GiB), used: Number(GiB), peak: 0 };
  const who = { host: 'here', pid: 1000 + id, program: 'train' };
  const group = { session: id, ordinal: 0, gpus: [on] };
  return { id, group, gpu: on, ...who, memory, share, ...given } as SessionView;
}

const known = (given: Partial<Known> = {}): Known => ({
  version: '1.2.3',
  nvidiaDriver: '',
  nvmlVersion: '',
  gpus: [gpu(0), gpu(1), gpu(2)],
  sessions: [],
  allowed: null,
  placed: [],
  ...given,
});
const hello = (given: Partial<Hello> = {}) =>
  decodeHello(encodeHello({ ...asking(), ...given }).subarray(wire.prefaceBytes));
const names = (given: Partial<Known>, asked: Partial<Hello> = {}) =>
  deviceReport(hello(asked), known(given)).devices.map(({ name }) => name);

t.test('without a session: the device that one would get', async (t) => {
  const placed = [{ gpu: 1, slot: 0, memory: 8n * GiB }];
  const report = deviceReport(hello(), known({ placed }));
  t.match(report, { serverVersion: '1.2.3', driverVersion: 13000, processes: [] });
  t.match(report.devices, [
    {
      name: 'GPU 1',
      uuid: uuidOf(1),
      pciBusId: '0000:02:00.0',
      computeMajor: 9,
      memoryTotal: 8n * GiB,
      memoryUsed: 0n,
      busy: 0,
      memoryBusWidth: 5120,
      maxClocks: [1980, 1980, 2619, 0],
    },
  ]);
  t.equal(deviceReport(hello(), known()).devices[0]?.memoryTotal, 16n * GiB);
  const asked = deviceReport(hello({ memory: 2n * GiB }), known()).devices[0];
  t.equal(asked?.memoryTotal, 2n * GiB, 'what the environment asks for');
  const toomuch = deviceReport(hello({ memory: 99n * GiB }), known()).devices[0];
  t.equal(toomuch?.memoryTotal, 64n * GiB);
});

t.test('which devices', async (t) => {
  const placed = [{ gpu: 2, slot: 0, memory: GiB }];
  t.same(names({}), ['GPU 0']);
  t.same(names({ placed }), ['GPU 2']);
  t.same(names({ gpus: [gpu(0, { healthy: false }), gpu(1)] }), ['GPU 1']);
  t.same(names({ placed, sessions: [session(5, 1)] }), ['GPU 1'], 'where the tenant is');
  t.same(names({ placed, sessions: [session(5, 1)] }, { devices: 2 }), ['GPU 1', 'GPU 2']);
  t.same(names({}, { devices: 64 }), ['GPU 0', 'GPU 1', 'GPU 2']);
  t.same(names({ allowed: [1, 2] }, { devices: 3 }), ['GPU 1', 'GPU 2']);
  const shown = asking(0n, [uuidOf(2)]);
  t.same(names({ sessions: [session(5, 1)] }, shown), ['GPU 2'], 'what was shown stays');
  t.same(names({ allowed: [1] }, shown), ['GPU 1'], 'but not against the tenants file');
  t.throws(() => names({ allowed: [] }), { code: 'OB_NO_SLOT' });
});

t.test('handles from before a session', async (t) => {
  const sessions = [session(5, 1), session(6, 0)];
  const asked = hello(asking(5n, [uuidOf(0), uuidOf(1), uuidOf(2), uuidOf(9)]));
  const report = deviceReport(asked, known({ sessions, allowed: [0, 1] }));
  t.match(report.devices, [{ name: 'GPU 1', memoryTotal: 4n * GiB }]);
  t.match(report.others, [{ name: 'GPU 0', memoryUsed: 0n, busy: 30 }]);
  t.equal(report.others?.length, 1, 'not what the tenant may not use, and not what is not there');
  const on = report.processes.map(({ session, device }) => [session, device]);
  t.same(on, [
    [5n, 0],
    [6n, 1],
  ]);
  const answer = decodeAnswer(encodeAnswer({ report }).subarray(wire.prefaceBytes));
  t.match(answer, { report: { others: [{ name: 'GPU 0' }] } }, 'it travels');
  t.same(deviceReport(hello(asking(5n)), known({ sessions })).others, [], 'nobody asks');
});

t.test('with sessions of the tenant: what they have, together', async (t) => {
  const sessions = [session(5, 0), session(6, 0), session(7, 1)];
  const report = deviceReport(hello(), known({ sessions }));
  t.match(report.devices, [{ memoryTotal: 8n * GiB, memoryUsed: 2n * GiB, busy: 60 }]);
  t.match(report.processes, [
    { session: 5n, device: 0, pid: 1005, host: 'here', program: 'train', memory: GiB, busy: 30 },
    { session: 6n, device: 0, pid: 1006 },
  ]);
  const both = deviceReport(hello({ devices: 2 }), known({ sessions }));
  t.same(
    both.processes.map(({ session, device }) => [session, device]),
    [
      [5n, 0],
      [6n, 0],
      [7n, 1],
    ],
  );
});

t.test('how busy is not said of what is not measured', async (t) => {
  const quiet = session(5, 0);
  const share = { ...quiet.share, received: null };
  const report = deviceReport(hello(), known({ sessions: [{ ...quiet, share }] }));
  t.notOk(report.devices.some((device) => 'busy' in device));
  t.notOk(report.processes.some((process) => 'busy' in process));
});

t.test('the session of the process itself', async (t) => {
  const sessions = [session(5, 0), session(6, 1), session(7, 1)];
  const report = deviceReport(hello(asking(6n)), known({ sessions }));
  t.match(report.devices, [{ name: 'GPU 1', memoryTotal: 4n * GiB, memoryUsed: GiB, busy: 60 }]);
  t.same(
    report.processes.map(({ session }) => session),
    [6n, 7n],
    'the others of its tenant are there, too',
  );
  t.same(names({ sessions }, { ...asking(6n), devices: 3 }), ['GPU 1']);
  const foreign = deviceReport(hello(asking(99n)), known({ sessions: [session(5, 0)] }));
  t.same(foreign.devices.length, 1, 'somebody else’s number is none');
  t.equal(foreign.devices[0]?.name, 'GPU 0');
});

t.test('the sessions of a program with several GPUs', async (t) => {
  const group = (ordinal: number) => ({ session: 5, ordinal, gpus: [2, 0, 1] });
  const first = session(5, 2, { group: group(0) });
  const second = session(6, 0, { group: group(1) });
  const other = session(7, 0);
  const sessions = [first, second, other];
  for (const asker of [5n, 6n]) {
    const report = deviceReport(hello(asking(asker)), known({ sessions }));
    t.same(
      report.devices.map(({ name, memoryTotal }) => [name, memoryTotal]),
      [
        ['GPU 2', 4n * GiB],
        ['GPU 0', 4n * GiB],
        ['GPU 1', 16n * GiB],
      ],
      'in its order; of the last one its session has not begun',
    );
    t.same(
      report.processes.map(({ session, device }) => [session, device]),
      [
        [5n, 0],
        [6n, 1],
        [7n, 1],
      ],
    );
  }
  const shown = asking(5n, [uuidOf(1)]);
  t.same(names({ sessions }, shown), ['GPU 2', 'GPU 0', 'GPU 1'], 'what it has comes first');
  t.same(names({ sessions }, asking(7n)), ['GPU 0'], 'another program has its own');
  const placed = [1, 2].map((gpu) => ({ gpu, slot: 0, memory: 3n * GiB }));
  t.match(deviceReport(hello({ devices: 2 }), known({ placed })).devices, [
    { name: 'GPU 1', memoryTotal: 3n * GiB },
    { name: 'GPU 2', memoryTotal: 3n * GiB },
  ]);
});

t.test('whatever sessions say of themselves, the report fits and makes sense', async (t) => {
  const any = fc.record({
    id: fc.nat(1000),
    gpu: fc.nat(2),
    host: fc.string({ unit: 'binary', maxLength: 255 }),
    program: fc.string({ unit: 'binary', maxLength: 255 }),
    used: fc.nat(),
    received: fc.double({ min: -1, max: 300, noNaN: true }),
  });
  const run = fc.property(fc.array(any, { maxLength: 300 }), fc.nat(9), (list, devices) => {
    const sessions = list.map(({ id, gpu, host, program, used, received }) =>
      session(id, gpu, {
        host,
        program,
        memory: { limit: 1000, used, peak: 0 },
        share: { received } as SessionView['share'],
      }),
    );
    const report = deviceReport(hello({ devices }), known({ sessions }));
    t.ok(encodeAnswer({ report }).length <= wire.controlMax);
    t.ok(report.processes.length <= 128);
    for (const { device, host, program, busy = -1 } of report.processes) {
      t.ok(device < report.devices.length && busy >= 0 && busy <= 100);
      t.ok(Buffer.byteLength(host) < 64 && Buffer.byteLength(program) < 64);
    }
    for (const { memoryTotal, memoryUsed, busy = -1 } of report.devices) {
      t.ok(memoryUsed <= memoryTotal && busy >= 0 && busy <= 100);
    }
  });
  fc.assert(run, { numRuns: 50 });
});
