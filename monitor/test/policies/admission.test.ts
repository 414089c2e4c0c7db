// Who may join whom: SMORE's admission by a table, the file it goes by, and a policy that fails.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { none } from '../../policies/admission/none.js';
import { smore } from '../../policies/admission/smore.js';
import {
  type AdmissionPolicy,
  type FunctionProfile,
  type FunctionsTable,
  nothingProfiled,
} from '../../policies/admission.js';
import { admissionPolicies, placementPolicies } from '../../policies/index.js';
import { obstacle } from '../../policies/placement/candidates.js';
import { placeAll, usualParameters } from '../../policies/placement.js';
import type { GpuState, SessionRequest, SessionState } from '../../policies/state.js';
import { parseFunctions, readFunctionsFile } from '../../src/queue/functions-file.js';
import { admissionBy } from '../../src/queue/guarded-admission.js';

const table = parseFunctions(
  `version: v1
unknown: 4
functions:
  train: { bears: 10, slowed: { light: 3, heavy: 25, train: 50 } }
  light: { slo: 100, solo: 20, slowed: { train: 40 } }
  heavy: { slo: 30, solo: 20, slowed: { train: 60 } }
  hopeless: { slo: 5, solo: 20 }
`,
  'f.yaml',
);
const named = (...names: string[]) => names.map((name) => ({ name }));

t.test('neither the newcomer nor any of those there becomes slower than it bears', async (t) => {
  const against = (name: string, ...there: string[]) =>
    smore.against({ name }, named(...there), table);
  t.equal(against('train'), null, 'nobody is there');
  t.equal(against('light', 'train'), null);
  t.equal(against('heavy', 'train'), 'heavy would become 60 % slower, and bears 50 %');
  t.equal(against('train', 'heavy'), 'train would become 25 % slower, and bears 10 %');
  t.equal(against('train', 'train'), 'train would become 50 % slower, and bears 10 %');
  // With more than two, sums are taken twice: 2 * (3 + 3) of the job, and of what was never measured 4 each.
  t.equal(against('light', 'train', 'light'), 'train would become 12 % slower, and bears 10 %');
  t.equal(against('light', 'other', 'light'), 'other would become 16 % slower, and bears 10 %');
  t.equal(against('other', 'new'), null, 'of which nothing is known: 4 %, of 10 that are borne');
});

t.test('an objective that is shorter than its time alone can never be kept', async (t) => {
  t.equal(
    smore.never({ name: 'hopeless' }, table),
    'hopeless takes longer than its objective even alone',
  );
  for (const name of ['train', 'light', 'never heard of'])
    t.equal(smore.never({ name }, table), null);
  t.match(smore.against({ name: 'hopeless' }, named('light'), table), /hopeless.*bears 0 %/);
});

const names = ['a', 'b', 'c', 'constructor', '__proto__', 'unknown'];
const name = fc.constantFrom(...names);
const part = fc.constantFrom(0, 0.05, 0.1, 0.5, 3);
const profile: fc.Arbitrary<FunctionProfile> = fc.record({
  bears: fc.constantFrom(-0.5, 0, 0.1, 1, Number.POSITIVE_INFINITY),
  slowed: fc.array(fc.tuple(name, part)).map((pairs) => new Map(pairs)),
  sm: fc.constant(null),
});
const tables: fc.Arbitrary<FunctionsTable> = fc.record({
  functions: fc.array(fc.tuple(name, profile)).map((all) => new Map(all)),
  ...{ unknown: part, bound: part, safety: fc.constantFrom(1, 2, 5) },
});
const there = fc.array(name, { maxLength: 6 }).map((all) => named(...all));

t.test(
  'of all admission policies: the same again, changes nothing, alone one may come',
  async (t) => {
    for (const policy of admissionPolicies.values()) {
      const run = fc.property(name, there, tables, (name, there, table) => {
        const first = policy.against({ name }, Object.freeze(there), table);
        if (policy.against({ name }, there, table) !== first) return false;
        return policy.against({ name }, [], table) === null;
      });
      t.doesNotThrow(() => fc.assert(run), policy.name);
    }
  },
);

t.test('SMORE: never over what anybody bears, and more neighbours never help', async (t) => {
  const slower = (table: FunctionsTable, all: readonly string[], self: number) => {
    const sum = all.reduce((sum, other, at) => {
      if (at === self) return sum;
      return sum + (table.functions.get(all[self] ?? '')?.slowed.get(other) ?? table.unknown);
    }, 0);
    return all.length > 2 ? table.safety * sum : sum;
  };
  const run = fc.property(name, there, name, tables, (name, there, one, table) => {
    const why = smore.against({ name }, there, table);
    const all = [name, ...there.map((other) => other.name)];
    const over = all.some((its, self) => {
      const bears = Math.max(0, table.functions.get(its)?.bears ?? table.bound);
      return all.length > 1 && slower(table, all, self) > bears;
    });
    if ((why !== null) !== over) return false;
    return why === null || smore.against({ name }, [...there, { name: one }], table) !== null;
  });
  t.doesNotThrow(() => fc.assert(run, { numRuns: 500 }));
});

const GiB = 1n << 30n;

function session(name: string, slot: number): SessionState {
  return {
    ...{ id: slot + 1, group: slot + 1, tenant: '', name, class: 'latency-strict', slot },
    ...{ memory: GiB, used: 0n, shareRequest: 0, shareLimit: 100, started: 0 },
  };
}

function gpu(index: number, ...names: string[]): GpuState {
  return {
    ...{ index, uuid: `GPU-${index}`, name: 'x', healthy: true, memory: 64n * GiB, usual: GiB },
    reserved: BigInt(names.length) * GiB,
    free: [...names.map(() => false), true],
    sessions: names.map(session),
  };
}

const request = (name: string, gpus = 1): SessionRequest => ({
  ...{ tenant: '', name, class: 'latency-strict', gpus, memory: GiB, allowed: null },
  ...{ shareRequest: 0, shareLimit: 10 },
});

t.test('every placement policy goes by it', async (t) => {
  const admission = admissionBy(smore, table, () => t.fail('it does not fail'));
  const parameters = { ...usualParameters, gamma: 10, admission };
  const state = {
    now: 0,
    queue: [],
    history: [],
    gpus: [gpu(0, 'train'), gpu(1, 'heavy'), gpu(2)],
  };
  for (const policy of placementPolicies.values()) {
    const place = (name: string, gpus = 1) =>
      placeAll(policy, state, request(name, gpus), parameters)?.map((one) => one.gpu);
    t.same(place('train'), [2], policy.name);
    t.same(place('train', 2), undefined, 'a second one has no place');
    t.same(place('light', 3), [0, 1, 2]);
    const full = { ...state, gpus: [gpu(0, 'train')] };
    t.equal(placeAll(policy, full, request('heavy'), parameters), null);
    t.equal(obstacle(policy, gpu(0, 'train'), request('heavy'), parameters), 'admission');
  }
});

t.test('a policy that throws keeps nobody out, and is told of', async (t) => {
  const failures: string[] = [];
  const failed = (policy: string, why: string, what: string) =>
    void failures.push(`${policy} ${why}: ${what}`);
  const broken: AdmissionPolicy = {
    ...smore,
    against: () => {
      throw new Error('lost its table');
    },
  };
  const admission = admissionBy(broken, table, failed);
  t.equal(admission?.against({ name: 'train' }, named('heavy')), null);
  t.same(failures, ['smore threw: lost its table']);
  t.equal(admission?.never({ name: 'light' }), null);
  t.equal(admissionBy(none, table, failed), null, 'who keeps nobody out is not asked');
});

t.test('the functions file: what it says', async (t) => {
  t.match(table, { unknown: 0.04, bound: 0.1, safety: 2 });
  t.equal(table.functions.get('light')?.bears, 4);
  t.equal(table.functions.get('hopeless')?.bears, -0.75);
  t.equal(table.functions.get('train')?.slowed.get('heavy'), 0.25);
  const more = parseFunctions(
    'version: v1\nbound: 7\nfunctions:\n  __proto__: { sm: 30 }\n  constructor: { bears: 0 }\n',
    'f.yaml',
  );
  t.same(more.functions.get('__proto__'), { bears: 0.07, slowed: new Map(), sm: 30 });
  t.equal(more.functions.get('toString'), undefined);
  t.same(nothingProfiled.functions.size, 0);
});

t.test('the functions file: what is wrong, and where', async (t) => {
  const wrong: [string, RegExp][] = [
    ['', /f\.yaml:1: the file: expected names and values/],
    ['a: [', /f\.yaml:1: /],
    ['functions: {}', /f\.yaml:1: the line `version: v1` is missing/],
    ['version: v2\nfunctions: {}', /f\.yaml:1: the line `version: v1`/],
    ['version: v1', /functions: expected names and values/],
    ['version: v1\nfunctions: {}\nfunction: {}', /f\.yaml:3: the file: there is no function;/],
    ['version: v1\nfunctions:\n  a: 3', /f\.yaml:3: a: expected names and values/],
    ['version: v1\nfunctions:\n  a: { sl: 3 }', /f\.yaml:3: a: there is no sl; did you mean slo\?/],
    ['version: v1\nfunctions:\n  a: { slo: 3 }', /f\.yaml:3: a: slo and solo.* together/],
    ['version: v1\nfunctions:\n  a: { slo: 3, solo: 0 }', /solo: expected a number from 0\.001/],
    ['version: v1\nfunctions:\n  a: { slo: 3, solo: 1, bears: 1 }', /slo with solo, or bears/],
    ['version: v1\nfunctions:\n  a: { slowed: [b] }', /slowed of a: expected names and values/],
    ['version: v1\nfunctions:\n  a: { slowed: { b: -1 } }', /b: expected a number from 0/],
    ['version: v1\nfunctions:\n  a: { sm: 101 }', /sm: expected a number from 1 to 100/],
    ['version: v1\nfunctions: { a: {}, a: {} }', /f\.yaml:2: .*unique/],
    ['version: v1\nfunctions: {}\nsafety: much', /f\.yaml:3: safety: expected a number from 1/],
  ];
  for (const [text, message] of wrong)
    t.throws(() => parseFunctions(text, 'f.yaml'), { code: 'OB_FUNCTIONS_FILE', message }, text);
  const folder = mkdtempSync(path.join(os.tmpdir(), 'functions-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'f.yaml');
  t.throws(() => readFunctionsFile(file), { code: 'OB_FUNCTIONS_FILE', message: /ENOENT/ });
  writeFileSync(file, 'version: v1\nfunctions: { a: {} }\n');
  t.equal(readFunctionsFile(file).functions.size, 1);
});
