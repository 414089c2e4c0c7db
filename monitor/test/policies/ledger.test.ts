// The book of a cluster: whatever is claimed, moved, changed, ended or lost, its sums and indexes are those of what is
// there, and nothing is there that was refused.
import fc from 'fast-check';
import t from 'tap';
import { Ledger, type Part } from '../../policies/cluster/ledger.js';
import type { Device, Resources } from '../../policies/cluster/resources.js';

const device = (node: number, gpu: number): Device => {
  return { node, server: 'one', gpu, slice: null, memory: 40 };
};
const devices = [device(0, 0), device(0, 1), device(1, 0), device(1, 1), device(1, 2)];
const some = (sm = 300, memory = 10, smLimit = 500): Resources => {
  return { sm, smLimit, time: 1000, memory };
};
const all = { sm: 1000, smLimit: 1500 };

t.test('what is claimed counts until it is released', async (t) => {
  const ledger = new Ledger(devices);
  const parts = [2, 3].map((device) => ({ device, resources: some() }));
  ledger.claim({ instance: 1, name: 'f', how: 'starting', parts });
  t.same([...ledger.sm], [0, 0, 300, 300, 0]);
  t.same(ledger.used, [2, 3]);
  t.same(ledger.unused, [0, 1, 4]);
  t.same([...ledger.of('f')], [1]);
  t.notOk(ledger.fits(2, some(701), all), 'SMs');
  t.notOk(ledger.fits(2, some(0, 31), all), 'memory');
  t.notOk(ledger.fits(2, some(0, 0, 1001), all), 'limits');
  t.ok(ledger.fits(2, some(700, 30, 1000), all), 'to the last');
  t.same(ledger.release(1)?.parts, parts);
  t.same(ledger.unused, [0, 1, 4, 2, 3], 'freed ones come last');
  t.equal(ledger.release(1), undefined);
});

t.test('a move counts twice until it has arrived', async (t) => {
  const ledger = new Ledger(devices);
  const at = (device: number) => [{ device, resources: some() }];
  ledger.claim({ instance: 1, name: 'f', how: 'running', parts: at(0) });
  ledger.move(1, at(4));
  t.same([...ledger.sm], [300, 0, 0, 0, 300]);
  t.throws(() => ledger.move(1, at(3)), /moves already/);
  t.throws(() => ledger.become(1, 'running'), /moves/);
  t.throws(() => ledger.arrived(1, new Set([2])), /does not move there/);
  ledger.arrived(1, new Set([4]));
  t.same([...ledger.sm], [0, 0, 0, 0, 300]);
  t.equal(ledger.entry(1)?.how, 'running');
  t.throws(() => ledger.move(1, at(4)), /is on device 4 already/);
});

t.test('what makes no sense is refused, and changes nothing', async (t) => {
  const ledger = new Ledger(devices);
  const claim = (parts: Part[], instance = 1) => {
    ledger.claim({ instance, name: 'f', how: 'reserved', parts });
  };
  t.throws(() => claim([]), /at least one device/);
  t.throws(() => claim([{ device: 9, resources: some() }]), /no device 9/);
  const twice = [0, 0].map((device) => ({ device, resources: some() }));
  t.throws(() => claim(twice), /named twice/);
  t.throws(() => claim([{ device: 0, resources: some(0.5) }]), /sm is 0.5/);
  t.throws(() => claim([{ device: 0, resources: some(-1) }]), /sm is -1/);
  t.throws(() => claim([{ device: 0, resources: some(600, 1, 500) }]), /below 600/);
  t.throws(() => ledger.resize(1, some()), /no instance 1/);
  t.throws(() => ledger.lose(7), /no device 7/);
  t.same([...ledger.sm], [0, 0, 0, 0, 0]);
  claim([{ device: 0, resources: some() }]);
  t.throws(() => claim([{ device: 1, resources: some() }]), /its place already/);
  t.equal(ledger.size, 1);
});

t.test('a device that vanishes takes its instances along, on all their devices', async (t) => {
  const ledger = new Ledger(devices);
  const on = (...at: number[]) => at.map((device) => ({ device, resources: some(100) }));
  ledger.claim({ instance: 1, name: 'f', how: 'running', parts: on(0, 1) });
  ledger.claim({ instance: 2, name: 'f', how: 'running', parts: on(1) });
  t.same(ledger.lose(0), [1]);
  t.same([...ledger.sm], [0, 100, 0, 0, 0]);
  t.notOk(ledger.fits(0, some(), all));
  ledger.regain(0);
  t.ok(ledger.fits(0, some(), all));
});

type Step =
  | { do: 'claim' | 'move'; instance: number; at: number[]; sm: number }
  | { do: 'release' | 'resize' | 'arrive'; instance: number; sm: number }
  | { do: 'lose' | 'regain'; device: number };

const instance = fc.integer({ min: 1, max: 6 });
const sm = fc.integer({ min: 0, max: 400 });
const at = fc.uniqueArray(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 3 });
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    fc.record({
      do: fc.constantFrom('claim' as const, 'claim' as const, 'move' as const),
      instance,
      at,
      sm,
    }),
    fc.record({
      do: fc.constantFrom('release' as const, 'resize' as const, 'arrive' as const),
      instance,
      sm,
    }),
    fc.record({
      do: fc.constantFrom('lose' as const, 'regain' as const),
      device: fc.integer({ min: 0, max: 4 }),
    }),
  ),
  { maxLength: 40 },
);

t.test('sums and indexes are those of the entries, after any steps', async (t) => {
  let accepted = 0;
  const run = fc.property(steps, (steps) => {
    const ledger = new Ledger(devices);
    for (const step of steps) {
      try {
        take(ledger, step);
        accepted++;
      } catch (error) {
        if (!/instance|device/.test(String(error))) throw error;
      }
      check(ledger);
    }
  });
  fc.assert(run, { numRuns: 1000 });
  t.ok(accepted > 1500, `${accepted} steps`);
});

function take(ledger: Ledger, step: Step) {
  switch (step.do) {
    case 'claim':
    case 'move': {
      const { instance, at, sm } = step;
      const parts = at.map((device) => ({ device, resources: some(sm, 1) }));
      if (step.do === 'move') return ledger.move(instance, parts);
      return ledger.claim({ instance, name: `f${instance % 2}`, how: 'running', parts });
    }
    case 'release':
      return void ledger.release(step.instance);
    case 'resize':
      return ledger.resize(step.instance, some(step.sm, 2));
    case 'arrive': {
      const last = ledger.entry(step.instance)?.parts.at(-1)?.device ?? -1;
      return ledger.arrived(step.instance, new Set([last]));
    }
    case 'lose':
      return void ledger.lose(step.device);
    case 'regain':
      return ledger.regain(step.device);
  }
}

function check(ledger: Ledger) {
  const sums = devices.map(() => ({ sm: 0, smLimit: 0, memory: 0, there: new Set<number>() }));
  const of = new Map<string, Set<number>>([
    ['f0', new Set()],
    ['f1', new Set()],
  ]);
  for (let instance = 1; instance <= 6; instance++) {
    const entry = ledger.entry(instance);
    if (entry) of.get(entry.name)?.add(instance);
    for (const { device, resources } of entry?.parts ?? []) {
      const sum = sums[device];
      if (!sum) throw new Error('a part on no device');
      sum.sm += resources.sm;
      sum.smLimit += resources.smLimit;
      sum.memory += resources.memory;
      sum.there.add(instance);
    }
  }
  const same = (what: string, one: readonly number[], other: readonly number[]) => {
    const [a, b] = [one, other].map((some) => [...some].sort((x, y) => x - y).join());
    if (a !== b) throw new Error(`${what}: ${a} instead of ${b}`);
  };
  for (const [device, { sm, smLimit, memory, there }] of sums.entries()) {
    same('sums', [ledger.sm[device] ?? 0], [sm]);
    same('limits', [ledger.smLimit[device] ?? 0], [smLimit]);
    same('memory', [ledger.memory[device] ?? 0], [memory]);
    same('there', [...ledger.on(device)], [...there]);
  }
  const busy = [...devices.keys()].filter((device) => (sums[device]?.there.size ?? 0) > 0);
  same('used', ledger.used, busy);
  same('unused', [...ledger.unused, ...busy], [...devices.keys()]);
  const ofNode = [0, 1].map(
    (node) => busy.filter((device) => devices[device]?.node === node).length,
  );
  same(
    'used of nodes',
    [...ledger.usedOf].map((count, node) => 10 * node + count),
    ofNode.map((count, node) => 10 * node + count),
  );
  for (const [name, instances] of of) same(name, [...ledger.of(name)], [...instances]);
}
