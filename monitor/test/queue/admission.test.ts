// The pure functions: who may come in, how much memory there is, who is next.
import fc from 'fast-check';
import t from 'tap';
import { decodeHello, encodeHello, type Hello, wire } from '../../../api-server/src/control.js';
import { usualParameters } from '../../policies/placement.js';
import type { GpuState, ServerState, SessionState } from '../../policies/state.js';
import { besideBytes, besideOf, sessionMemory } from '../../src/devices/memory.js';
import {
  formatMemoryRule,
  parseMemoryRule,
  roomForSlot,
  usualMemory,
  usualWithin,
} from '../../src/devices/memory-rule.js';
import { admit, withinTenant } from '../../src/queue/admission.js';
import { Queue } from '../../src/queue/queue.js';
import { parseTenants } from '../../src/tenants/file.js';

const GiB = 1n << 30n;
const MiB = 1n << 20n;

function gpu(index: number, { memory = 8n * GiB, reserved = 0n, free = [true] }): GpuState {
  return {
    index,
    uuid: `GPU-${index}`,
    name: 'test',
    healthy: true,
    memory,
    reserved,
    usual: memory / BigInt(free.length),
    free,
    sessions: [],
  };
}

const state = (gpus: GpuState[]): ServerState => ({ now: 0, gpus, queue: [], history: [] });
const hello = (given: Partial<Hello>) =>
  decodeHello(encodeHello(given).subarray(wire.prefaceBytes));
t.test('a model is part of the name of a GPU', async (t) => {
  const names = ['NVIDIA H100 80GB HBM3', 'NVIDIA L4', 'NVIDIA H100 PCIe'];
  const gpus = names.map((name, index) => ({ ...gpu(index, {}), name }));
  const allowed = (gpuModel: string, tenant: Parameters<typeof admit>[3] = null) =>
    admit(hello({ gpuModel }), state(gpus), usualParameters, tenant).allowed;
  t.equal(allowed(''), null);
  t.same(allowed('h100'), [0, 2]);
  t.same(allowed('L4'), [1]);
  t.throws(() => allowed('B200'), {
    code: 'OB_GPU_MODEL',
    message: /"B200"; what it can have here is NVIDIA H100 80GB HBM3, NVIDIA L4, NVIDIA H100 PCIe$/,
    result: 101,
  });
  const text = 'version: v1\ntenants:\n  - name: a\n    limits: {gpus: [1, 2]}\n';
  const tenant = parseTenants(text, 'f').tenants[0] ?? null;
  t.same(allowed('H100', tenant), [2], 'of those that its tenant may use');
  t.throws(() => allowed('HBM3', tenant), {
    message: /can have here is NVIDIA L4, NVIDIA H100 PCIe$/,
  });
  const two = hello({ gpuModel: 'L4', devices: 2 });
  const refused = { code: 'OB_TOO_MANY_GPUS' };
  t.throws(() => admit(two, state(gpus), usualParameters), refused);
});

t.test('who does not ask for memory gets what its tenant has left, or waits', async (t) => {
  const tenantWith = (memory: string) => {
    const text = `version: v1\ntenants:\n  - name: a\n    limits: {memory: ${memory}}\n`;
    return parseTenants(text, 'f').tenants[0] ?? null;
  };
  const tenant = tenantWith('8G');
  const one = gpu(0, { memory: 24n * GiB, free: [true, true, true, true] });
  const having = (...sessions: bigint[]) => {
    const ofTenant = (memory: bigint) => ({ tenant: 'a', memory, shareRequest: 0 });
    return state([{ ...one, sessions: sessions.map(ofTenant) as SessionState[] }]);
  };
  const asked = admit(hello({}), having(), usualParameters, tenant);
  const gets = (now: ServerState, halves: boolean, gpus = 1) =>
    withinTenant({ ...asked, gpus }, now, halves)?.usualMost;
  // An equal part would be 6 GiB, of the limit as of the GPU.
  t.equal(gets(having(), false), 6n * GiB);
  t.equal(gets(having(), false, 2), 4n * GiB, 'on each');
  t.equal(gets(having(2n * GiB), false), 6n * GiB);
  t.equal(gets(having(3n * GiB), false), undefined, 'it waits for so much');
  t.equal(gets(having(), true), 4n * GiB, 'where the usual is half, half of the limit');
  t.equal(gets(having(4n * GiB), true), 2n * GiB);
  t.equal(gets(having(7n * GiB + 896n * MiB), true), undefined, 'not less than a part of 32');
  t.equal(gets(having(7n * GiB + 768n * MiB), true), 256n * MiB);
  t.equal(gets(having(9n * GiB), true), undefined, 'the limit was higher once');
  const small = { ...asked, memory: GiB };
  t.equal(withinTenant(small, having(8n * GiB), true), small, 'who asks was looked at before');
  const free = { ...asked, tenantMemory: null };
  t.equal(withinTenant(free, having(8n * GiB), true), free);

  const admits = (limit: string, given: Partial<Hello>, now: ServerState) =>
    admit(hello(given), now, usualParameters, tenantWith(limit));
  t.equal(admits('8G', {}, having(8n * GiB)).memory, null, 'that it waits is no refusal');
  const refused = { code: 'OB_TENANT_MEMORY' };
  t.throws(() => admits('8G', { memory: 4n * GiB }, having(5n * GiB)), refused);
  t.throws(() => admits('1M', {}, having()), refused, 'it would wait for ever');

  // Whatever the rule and who is there, the limit holds.
  const property = fc.property(
    fc.bigInt(0n, 20n * GiB),
    fc.bigInt(0n, 20n * GiB),
    fc.bigInt(1n, 20n * GiB),
    fc.integer({ min: 1, max: 8 }),
    fc.boolean(),
    (limit, used, usual, gpus, halves) => {
      const most = usualWithin(limit, used, gpus, halves ? null : usual);
      return most === null || (most > 0n && used + BigInt(gpus) * most <= limit);
    },
  );
  fc.assert(property, { numRuns: 2000 });
});

t.test('what can never be had is refused', async (t) => {
  const gpus = [gpu(0, { memory: 4n * GiB }), gpu(1, { memory: 8n * GiB, reserved: 8n * GiB })];
  const code = (given: Partial<Hello>) => {
    try {
      admit(hello(given), state(gpus), usualParameters);
      return undefined;
    } catch (error) {
      return (error as { code: string }).code;
    }
  };
  t.equal(code({}), undefined);
  t.equal(code({ devices: 1 }), undefined);
  t.equal(code({ devices: 2 }), undefined);
  t.equal(code({ devices: 2, memory: 4n * GiB }), undefined, 'on each of them');
  t.equal(code({ devices: 2, memory: 5n * GiB }), 'OB_TOO_MUCH_MEMORY');
  t.throws(() => admit(hello({ devices: 3 }), state(gpus), usualParameters), {
    code: 'OB_TOO_MANY_GPUS',
    message: 'the program asks for 3 GPUs; it can have 2 here',
    result: 101,
  });
  t.equal(code({ devices: 0xffffffff }), 'OB_TOO_MANY_GPUS');
  const many = state(Array.from({ length: 20 }, (_, index) => gpu(index, {})));
  t.equal(admit(hello({ devices: 8 }), many, usualParameters).gpus, 8);
  t.throws(() => admit(hello({ devices: 9 }), many, usualParameters), {
    message: 'the program asks for 9 GPUs; it can have 8 here',
  });
  t.equal(code({ memory: 8n * GiB }), undefined, 'reserved now is not never');
  t.equal(code({ memory: 8n * GiB + 1n }), 'OB_TOO_MUCH_MEMORY');
  t.equal(code({ memory: (1n << 64n) - 1n }), 'OB_TOO_MUCH_MEMORY');
  t.equal(code({ shareRequest: 100, shareLimit: 100 }), undefined);
  t.equal(code({ shareRequest: 50 }), undefined);
  t.equal(code({ shareRequest: 101 }), 'OB_SHARE');
  t.equal(code({ shareLimit: 101 }), 'OB_SHARE');
  t.equal(code({ shareRequest: 30, shareLimit: 20 }), 'OB_SHARE');
});

t.test('memory is asked for in whole granules', async (t) => {
  const gpus = [gpu(0, {})];
  t.equal(admit(hello({ memory: 1n }), state(gpus), usualParameters).memory, wire.granule);
  t.equal(
    admit(hello({ memory: wire.granule }), state(gpus), usualParameters).memory,
    wire.granule,
  );
  t.equal(
    admit(hello({ memory: wire.granule + 1n }), state(gpus), usualParameters).memory,
    2n * wire.granule,
  );
  t.equal(admit(hello({}), state(gpus), usualParameters).memory, null);
});

t.test('what sessions may have fits into what is free', async (t) => {
  const run = fc.property(
    fc.bigInt(0n, 200n * GiB),
    fc.bigInt(1n, 200n * GiB),
    fc.integer({ min: 1, max: 64 }),
    fc.bigInt(0n, 1n << 20n),
    (free, total, slots, threads) => {
      const beside = besideOf(total, threads, { pinned: null, modules: null });
      const memory = sessionMemory(free, beside, slots);
      const usual = usualMemory({ kind: 'auto' }, { memory, reserved: 0n, slots });
      return (
        memory % wire.granule === 0n &&
        usual % wire.granule === 0n &&
        memory >= 0n &&
        usual * BigInt(slots) <= memory &&
        (memory === 0n || memory + besideBytes(beside) * BigInt(slots) <= free)
      );
    },
  );
  fc.assert(run, { numRuns: 1000 });
  const threads = 132n * 2048n;
  const usual = besideOf(80n * GiB, threads, { pinned: null, modules: null });
  const stacks = GiB + 32n * MiB;
  t.same(usual, { pinned: GiB / 4n, modules: GiB / 2n, stacks });
  t.equal(sessionMemory(80n * GiB, usual, 2), 78n * GiB + GiB / 2n - 2n * stacks);
  t.same(besideOf(4n * GiB, threads, { pinned: null, modules: null }), {
    pinned: GiB / 8n,
    modules: GiB / 16n,
    stacks: GiB / 8n,
  });
  const told = besideOf(80n * GiB, 0n, { pinned: 0n, modules: 3n * GiB });
  t.equal(sessionMemory(80n * GiB, told, 2), 74n * GiB);
});

t.test('what a session gets that does not ask', async (t) => {
  const gets = (rule: string, reserved = 0n, slots: number | null = null, memory = 1600n * MiB) =>
    usualMemory(parseMemoryRule(rule), { memory, reserved, slots });
  t.equal(gets('auto'), 800n * MiB);
  t.equal(gets('auto', 800n * MiB), 400n * MiB);
  t.equal(gets('auto', 1540n * MiB), 50n * MiB, 'no less than a part of 32');
  t.equal(gets('auto', 1540n * MiB, 4), 400n * MiB, 'with a number it is always the same');
  for (const slots of [4, null]) {
    t.equal(gets('25%', 1540n * MiB, slots), 400n * MiB);
    t.equal(gets('100%', 1540n * MiB, slots), 1600n * MiB);
    t.equal(gets('300M', 1540n * MiB, slots), 300n * MiB);
    t.equal(gets('301M', 0n, slots), 302n * MiB, 'in whole granules');
    t.equal(gets('2G', 0n, slots), 1600n * MiB, 'no more than there is');
    t.equal(gets('1%', 0n, slots, 64n * MiB), wire.granule, 'never nothing');
  }
  t.ok(roomForSlot(1600n * MiB, 1450n * MiB, 100n * MiB));
  t.notOk(roomForSlot(1600n * MiB, 1452n * MiB, 100n * MiB));

  for (const text of ['0%', '101%', '1.5%', '%', '-1', 'half', '0', '']) {
    t.throws(() => parseMemoryRule(text), { message: /^expected auto, percent/ }, text);
  }
  const shown = {
    auto: 'auto',
    '25%': '25%',
    '4G': '4 GiB',
    '1500MB': '1.5 GiB (1572864000 bytes)',
  };
  for (const [text, words] of Object.entries(shown)) {
    t.equal(formatMemoryRule(parseMemoryRule(text)), words);
  }
});

t.test('first come, first served, and everyone knows their place', async (t) => {
  const told: [string, number][] = [];
  const queue = new Queue<string>((one, position) => told.push([one, position]));
  const news = () => told.splice(0);
  for (const one of ['a', 'b', 'c', 'd']) queue.append(one);
  t.same(news(), [
    ['a', 1],
    ['b', 2],
    ['c', 3],
    ['d', 4],
  ]);
  t.ok(queue.remove('b'));
  t.same(news(), [], 'told when all is done, not after each step');
  t.notOk(queue.remove('b'));
  t.equal(queue.head, 'a');
  t.ok(queue.remove('a'));
  queue.tellAll();
  t.same(news(), [
    ['c', 1],
    ['d', 2],
  ]);
  queue.putBack('a', (other) => other > 'a');
  t.same([...queue], ['a', 'c', 'd']);
  queue.tellAll();
  t.same(news(), [
    ['a', 1],
    ['c', 2],
    ['d', 3],
  ]);
  t.same(queue.takeAll(), ['a', 'c', 'd']);
  t.equal(queue.length, 0);
  t.equal(queue.head, undefined);
});
