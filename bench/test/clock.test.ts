// Wall clocks jump. Nothing that the server measures may follow them: what is compared with them is
// named here, and pure functions are given moments that jump.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { root } from '../../bin/paths.mjs';
import { placementPolicies } from '../../monitor/policies/index.js';
import { usualParameters } from '../../monitor/policies/placement.js';
import { deviceTime } from '../../monitor/policies/quota/device-time.js';
import { priority } from '../../monitor/policies/quota/priority.js';
import type { ServerState, SessionRequest } from '../../monitor/policies/state.js';
import type { Tenant } from '../../monitor/src/tenants/file.js';
import { identify } from '../../monitor/src/tenants/tenants.js';

/** Where the wall clock is what is meant: dates in files and for people. */
const meant = new Map([
  ['monitor/src/tenants/tenants.ts', 'access tokens expire at a date'],
  ['monitor/src/tenants/edit.ts', 'dates written into the file'],
  ['monitor/src/commands/tenant.ts', 'dates given by people'],
  ['monitor/src/tls/shaking.ts', 'what time it is for a certificate'],
  ['monitor/src/tls/tls.ts', 'what time it is for a certificate'],
  ['monitor/src/queue/decisions.ts', 'when something was decided, for people'],
  ['monitor/src/slots/slot.ts', 'since when a guest is away, and until when, for people'],
  ['monitor/src/server/tracing.ts', 'when spans were; how long they took comes from performance'],
]);

t.test('nothing is measured with the wall clock', async (t) => {
  const found: string[] = [];
  for (const folder of ['monitor/src', 'monitor/policies', 'api-server/src']) {
    for (const file of readdirSync(path.join(root, folder), { recursive: true })) {
      const name = path.join(folder, String(file));
      if (!name.endsWith('.ts')) continue;
      const text = readFileSync(path.join(root, name), 'utf8');
      if (/\bDate\.now\b|\.getTime\(\)|\+new Date|Number\(new Date/.test(text)) found.push(name);
    }
  }
  t.ok(found.includes('monitor/src/tenants/tenants.ts'), 'the search finds what is there');
  t.same(
    found.filter((name) => !meant.has(name)),
    [],
    'performance.now() is for how long something takes',
  );
});

t.test('a policy has no clock: whatever time it is, it decides the same', async (t) => {
  const request: SessionRequest = {
    ...{ tenant: '', name: 'f', class: 'latency-strict', gpus: 1, allowed: null },
    ...{ memory: 10n, shareRequest: 0, shareLimit: 100 },
  };
  const gpu = {
    ...{ uuid: '', name: '', healthy: true, memory: 100n, usual: 50n, sessions: [] },
    ...{ free: [true, true], reserved: 0n },
  };
  const state = (now: number): ServerState => ({
    ...{ now, history: [] },
    gpus: [
      { index: 0, ...gpu },
      { index: 1, ...gpu, reserved: 60n },
    ],
    queue: [{ id: 1, request, arrived: 1e6 }],
  });
  for (const policy of placementPolicies.values()) {
    const decided = [0, 1e6, 1e12, -1e12].map((now) =>
      policy.place(state(now), request, usualParameters),
    );
    for (const other of decided) t.same(other, decided[0], policy.name);
  }
});

t.test('a tenant comes back when the clock does', async (t) => {
  const certificate = { cn: 'shop', dns: [], uris: [] };
  const tenant: Tenant = {
    ...{ name: 'shop', accessTokens: [], certificates: ['CN=shop'], class: 'latency-strict' },
    ...{ expires: 1000, uploadCache: false, moves: true },
    limits: {
      ...{ sessions: null, memory: null, share: null, gpus: null },
      ...{ kernelSeconds: null, idleSeconds: null, graceDisconnectedSeconds: null },
    },
  };
  const at = (now: number) =>
    identify({ tenants: [tenant], operators: [] }, { accessToken: '', certificate }, now).name;
  t.equal(at(0), 'shop');
  t.throws(() => at(1e15), { code: 'OB_TENANT_EXPIRED' });
  t.equal(at(999), 'shop');
});

for (const policy of [deviceTime(), priority()]) {
  t.test(`${policy.name}: a clock that jumps starves nobody`, async (t) => {
    const period = BigInt(policy.periodMs * 1e6);
    const hour = 3_600_000_000_000n;
    const charged = [0n, 0n];
    let memory = policy.start();
    let now = 10n * hour;
    for (let step = 0; step < 600; step++) {
      // Back an hour, later forth a day; then it goes on from there.
      now += step === 200 ? -hour : step === 400 ? 24n * hour : period;
      const sessions = charged.map((charged, id) => ({
        ...({ id, class: 'latency-strict', shareRequest: 30, shareLimit: 100 } as const),
        ...{ charged, wants: true },
      }));
      const { limits, memory: next } = policy.step({ now, sessions, memory });
      memory = next;
      for (const [id, before] of charged.entries()) {
        const limit = limits.get(id);
        if (limit === null || limit === undefined) throw new Error('two sessions, and no limit');
        // Half of a period each, if it may.
        if (limit > before) charged[id] = before + period / 2n;
      }
      if (step % 200 === 199) {
        const [one = 0n, other = 0n] = charged;
        const least = (BigInt(step) * period) / 4n;
        t.ok(one > least && other > least, `after ${step} periods: ${one}, ${other}`);
        t.ok(one - other < 2n * period && other - one < 2n * period, 'and both the same');
      }
    }
  });
}
