// What slots' processes say, as the monitor takes it in.
import t from 'tap';
import { counterNames } from '../../../api-server/src/native.js';
import { asWord } from '../../src/slots/slot-word.js';

const hostile = 'a\n{"level":60}\u001b[2J\u202e';
const shown = 'a\\u{a}{"level":60}\\u{1b}[2J\\u{202e}';

const counters = Object.fromEntries(counterNames.map((name) => [name, 1n]));
const snapshot = {
  ...{ name: hostile, uuid: new Uint8Array(16), gpuUuid: null, totalMemory: 1n, freeMemory: 1n },
  ...{ attributes: new Int32Array(140), limits: new BigUint64Array(8), leastPriority: 0 },
  ...{ greatestPriority: 0, pciBusId: hostile, peers: [], driverVersion: 13000 },
  ...{ windowBase: 0n, windowSize: 1n, streamOperations: 0, granularity: 0n, cublas: 0 },
};
const end = {
  ...{ reason: 'violation', message: hostile, reusable: true },
  ...{ modules: [], learnt: new Uint8Array() },
};
const times = { launches: 1n, blocks: 1n, ns: 1n, unmeasured: 0n };
const nvml = { nvidiaDriver: hostile, nvmlVersion: hostile, sensors: { clocks: [1, 2] } };

t.test('its texts say nothing in the name of the monitor', async (t) => {
  const said = (word: object) => asWord(structuredClone(word)) as unknown;
  t.same(said({ type: 'failed', code: hostile, message: hostile }), {
    type: 'failed',
    code: shown,
    message: shown,
  });
  t.match(said({ type: 'declined', code: null, message: hostile }), { code: null, message: shown });
  t.strictSame(said({ type: 'ended', end, counters }), {
    type: 'ended',
    end: { ...end, message: shown },
    counters,
  });
  t.strictSame(said({ type: 'ready', snapshot }), {
    type: 'ready',
    snapshot: { ...snapshot, name: shown, pciBusId: shown },
  });
  t.match(said({ type: 'kernels', kernels: [{ name: hostile, ...times }] }), {
    kernels: [{ name: shown, ...times }],
  });
  t.strictSame(said({ type: 'nvml', facts: nvml }), {
    type: 'nvml',
    facts: { ...nvml, nvidiaDriver: shown, nvmlVersion: shown },
  });
});
