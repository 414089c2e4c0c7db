// What policies decide, at the gates of a real server: what a session may use is in its quota page, in the policy's unit.
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { QuotaPage } from '../../../api-server/src/quota-page.js';
import { Ledger } from '../../policies/cluster/ledger.js';
import { parametersOf } from '../../policies/cluster/policy.js';
import { hasGpu } from '../../policies/cluster/scaling/has-gpu.js';
import {
  type ClusterEvent,
  type ClusterState,
  contractVersion,
  type Effect,
} from '../../policies/cluster/state.js';
import { Guest } from '../support/guest.js';
import { quotaPageOf } from '../support/quota-pages.js';
import { Serving } from '../support/serving.js';

async function begun(t: Test, args: string[], ...shares: [request: number, limit: number][]) {
  const serving = await Serving.start(t, args);
  const guests: { guest: Guest; session: number }[] = [];
  for (const [shareRequest, shareLimit] of shares) {
    const guest = Guest.hello(serving.address, { shareRequest, shareLimit });
    const { session } = await guest.welcome();
    guests.push({ guest, session: Number(session) });
  }
  const pid = serving.child.pid ?? 0;
  const pages = await Promise.all(guests.map(({ session }) => quotaPageOf(pid, session)));
  const leave = async () => {
    for (const { guest } of guests) await guest.leave();
  };
  return { serving, pages, sessions: guests.map(({ session }) => session), leave };
}

async function share({ http }: Serving, session: number, request: number, limit: number) {
  const answer = await fetch(new URL(`/v1/sessions/${session}/share`, http), {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ request, limit }),
  });
  if (!answer.ok) throw new Error(await answer.text());
}

/** Resolves when it is so, of memory that tells nobody when it changes; the test's own limit says when it never will be. */
async function until(holds: () => boolean) {
  while (!holds()) await pause(1);
}

/** Of what a session may use while it has used nothing: its limit's part of a window, less the period it is in. */
const fullWindow = (limit: number) => BigInt(limit * 400_000);

t.test("HAS-GPU's vertical scaling arrives at the gate, up and down", async (t) => {
  const { serving, pages, sessions, leave } = await begun(t, [], [30, 30]);
  const [session = 0] = sessions;
  const [page] = pages as [QuotaPage];
  t.equal(page.mode, 'device-time');
  await until(() => page.limit === fullWindow(30));

  // The session is an instance of a function with 30 % of the time of all SMs.
  const resources = { sm: 1000, smLimit: 1000, time: 300, memory: 1 };
  const device = { node: 0, server: '', gpu: 0, slice: null, memory: 16 };
  let ledger = new Ledger([device]);
  ledger.claim({
    instance: session,
    name: 'f',
    how: 'running',
    parts: [{ device: 0, resources }],
  });
  const about = { name: 'f', kind: 'inference', class: 'strict', slo: 200, devices: 1 } as const;
  const functions = new Map([['f', { ...about, resources, batch: 1, solo: 10 }]]);
  const parameters = parametersOf(hasGpu, { lift: 0, buffer: 0, cooldown: 0 });
  let memory = hasGpu.start();
  const tell = (event: ClusterEvent, now: number): readonly Effect[] => {
    const state: ClusterState = {
      ...{ version: contractVersion, revision: 0, now, ledger, functions, waiting: [] },
    };
    const decision = hasGpu.decide({ state, events: [event], memory, parameters });
    memory = decision.memory;
    return decision.effects;
  };
  // 10 ms with the whole GPU, and longer with less: 30 requests a second with 30 % of the time.
  for (let time = 100; time <= 1000; time += 100) {
    tell({ kind: 'timed', name: 'f', batch: 1, sm: 1000, time, latency: 10_000 / time }, 0);
  }
  const carryOut = async (effects: readonly Effect[]) => {
    const [effect] = effects;
    if (effects.length !== 1 || effect?.kind !== 'quota') {
      throw new Error(`expected one change of time, not ${JSON.stringify(effects)}`);
    }
    // A live server carries time; a part of the SMs nothing carries here.
    t.equal(effect.resources.sm, 1000);
    const percent = effect.resources.time / 10;
    await share(serving, effect.instance, percent, percent);
    ledger = new Ledger([device]);
    const parts = [{ device: 0, resources: effect.resources }];
    ledger.claim({ instance: session, name: 'f', how: 'running', parts });
    return percent;
  };
  const rate = (requests: number) => ({ kind: 'rate', name: 'f', requests, period: 1000 }) as const;

  let effects: readonly Effect[] = [];
  for (let second = 1; effects.length === 0; second++) effects = tell(rate(45), 1000 * second);
  const up = await carryOut(effects);
  t.ok(up > 30 && up < 100, `${up} percent`);
  await until(() => page.limit === fullWindow(up));
  effects = [];
  for (let second = 100; effects.length === 0; second++) effects = tell(rate(1), 1000 * second);
  const down = await carryOut(effects);
  t.ok(down < up, `${down} percent`);
  await until(() => page.limit === fullWindow(down));
  t.equal(page.limit, fullWindow(down));
  await leave();
});

t.test("windows of any length: a session's limit is a part of the server's own", async (t) => {
  for (const windowMs of [10, 500]) {
    const args = ['--quota-window', String(windowMs), '--servers-per-gpu', '1'];
    const { pages, leave } = await begun(t, args, [30, 30]);
    const [page] = pages as [QuotaPage];
    t.equal(page.mode, 'device-time');
    // Less the period it is in, which comes with each step.
    await until(() => page.limit === BigInt(windowMs * 300_000));
    t.equal(page.limit, BigInt(windowMs * 300_000));
    await leave();
  }
  const wrong = Serving.launch(t, ['--quota-window', '9']);
  t.equal(await wrong.exit, 2);
  t.match(wrong.log, /quota-window.*9.*milliseconds from 10 to 10000/s);
});

t.test("RCKM's quota is in blocks, and of each GPU its own", async (t) => {
  const args = ['--gpus', '2', '--servers-per-gpu', '1', '--quota', 'dilu-corrected'];
  const blocks = ['--max-blocks', '100000,1000', '--placement', 'spread'];
  const { serving, pages, leave } = await begun(t, [...args, ...blocks], [40, 80], [40, 80]);
  const { sessions } = await serving.state();
  t.same(
    sessions.map(({ gpu }) => gpu),
    [0, 1],
  );
  const [large, small] = pages;
  t.same([large?.mode, small?.mode], ['blocks', 'blocks']);
  // What was promised of that GPU's blocks, and the one at which work still starts.
  await until(() => large?.limit === 40_001n && small?.limit === 401n);
  await leave();
});

t.test('a share that changes under RCKM is in the page, too', async (t) => {
  const args = ['--servers-per-gpu', '1', '--quota', 'dilu-corrected', '--max-blocks', '100000'];
  const { serving, pages, sessions, leave } = await begun(t, args, [20, 40]);
  const [page] = pages as [QuotaPage];
  await until(() => page.limit === 20_001n);
  await share(serving, sessions[0] ?? 0, 50, 90);
  await until(() => page.limit === 50_001n);
  await share(serving, sessions[0] ?? 0, 10, 10);
  await until(() => page.limit === 10_001n);
  t.equal(page.limit, 10_001n);
  await leave();
});

t.test('numbers of blocks that do not fit the GPUs are refused at the start', async (t) => {
  const serving = Serving.launch(t, ['--gpus', '3', '--max-blocks', '10,20']);
  t.equal(await serving.exit, 3);
  t.match(serving.log, /OB_MAX_BLOCKS/);
  t.match(serving.log, /has 2 numbers, and 3 GPUs are served/);
  const wrong = Serving.launch(t, ['--max-blocks', '10,none']);
  t.equal(await wrong.exit, 2);
  t.match(wrong.log, /max-blocks/);
});
