// What the two processes of a move say comes over two ways, in any order; or does not come. The processes are played.
import { openSync } from 'node:fs';
import { mock } from 'node:test';
import t from 'tap';
import type { SessionEnd } from '../../../api-server/src/native.js';
import type { Placement } from '../../policies/state.js';
import { Running, type RunningOptions } from '../../src/sessions/running.js';

const nothing = () => {};
const log = { child: () => log, info: nothing, warn: nothing, error: nothing, debug: nothing };

class PlayedSlot {
  readonly index = 0;
  readonly log = log;
  readonly counters = { hindrances: 0n };
  readonly away = null;
  readonly window = { base: 0n, size: 0n };
  readonly quotaPage = { read: () => ({ counted: 0n, deviceNs: 0n, held: 0n, inflightNs: 0n }) };
  begun = 0;
  killed = 0;
  constructor(readonly gpu: number) {}
  look = async () => {};
  offer = nothing;
  end = nothing;
  begin = () => this.begun++;
  move = () => true;
  kill = () => this.killed++;
}

function visitor(id: number, tenant: string) {
  return {
    ...{ id, arrived: performance.now(), lost: 0, decisions: { add: nothing } },
    client: { peer: 'p', takeBack: nothing, release: nothing },
    hello: { program: 'p', windowBases: [], windowSize: 0n, expectsModules: false },
    request: {
      ...{ tenant, name: 'n', class: 'best-effort', shareRequest: 0, shareLimit: 100 },
      ...{ allowed: null, memory: null, gpus: 1 },
    },
  };
}

/** Two GPUs with a slot each, and a session of `id` 1 on the first that is being moved to the second. */
async function moving(warm: (target: PlayedSlot) => Promise<PlayedSlot | null>) {
  const [source, target] = [new PlayedSlot(0), new PlayedSlot(1)];
  const free = new Set<number>([1]);
  const ends: string[] = [];
  const descriptor = () => openSync('/dev/null', 'r');
  const pool = {
    reserve: ({ gpu }: Placement) => free.delete(gpu),
    release: ({ gpu }: Placement) => free.add(gpu),
    giveBack: ({ gpu }: Placement) => free.add(gpu),
    slot: ({ gpu }: Placement) => (gpu === 0 ? source : target),
    beside: () => ({ pinned: 0n, modules: 0n, stacks: 0n }),
    uuid: () => 'u',
    slotsMost: () => 2,
    native: { socketPair: () => ({ here: descriptor(), there: descriptor() }) },
    freshFor() {
      free.delete(1);
      return { placement: { gpu: 1, slot: 0, memory: 1n }, warm: warm(target) };
    },
  };
  const gpu = { name: 'g', healthy: true, memory: 10n, reserved: 0n, free: [true], sessions: [] };
  const options = {
    ...{ pool, log, tenants: null, gated: {}, measure: 'always', migration: null, traces: null },
    ...{ kernelSeconds: 0, idleSeconds: 0, graceDisconnectedSeconds: 0, uploads: null },
    stopping: () => false,
    gpus: () => [0, 1].map((index) => ({ ...gpu, index })),
    quota: {
      policy: 'x',
      countsAll: false,
      begin: async () => {},
      end: nothing,
      slotEnded: nothing,
    },
    observer: {
      ...{ began: nothing, refused: nothing, moved: (how: string) => ends.push(how) },
      ended: ({ id }: { id: number }, reason: string) => ends.push(`${id} ${reason}`),
    },
    waiting: {
      gone: { add: nothing },
      release: nothing,
      refuse: nothing,
      reservations: { open: nothing, dropUnclaimed: nothing },
    },
  };
  const running = new Running(options as unknown as RunningOptions);
  const begin = async (id: number, slot: PlayedSlot) => {
    const seat = { group: { id, gpus: [slot.gpu] }, ordinal: 0 };
    const detached = { handle: { fd: 9 }, leftover: Buffer.alloc(0) };
    const placement = { gpu: slot.gpu, slot: 0, memory: 1n };
    running.handOver(
      ...([visitor(id, `tenant ${id}`), seat, placement, detached] as unknown as Parameters<
        Running['handOver']
      >),
    );
    running.prepared(slot as never);
  };
  await begin(1, source);
  const session = running.sessions.get(source as never);
  if (!session) throw new Error('it has not begun');
  const moved = running.mover.move(session, { gpu: 1 });
  moved.catch(nothing);
  await new Promise((resolve) => setImmediate(resolve));
  const end = (reason: string) =>
    ({
      reason,
      message: reason,
      reusable: true,
      modules: [],
      learnt: new Uint8Array(),
    }) as unknown as SessionEnd;
  const ended = (slot: PlayedSlot, reason: string) =>
    running.ended(slot as never, end(reason), { hindrances: 0n } as never);
  return {
    ...{ running, source, target, free, ends, begin, ended, moved },
    prepared: () => running.prepared(target as never),
    says: {
      moved: () => running.mover.moved(source as never, 5),
      arrived: () => running.mover.arrived(target as never),
    },
    ids: () => [...running.sessions.values()].map(({ id }) => id),
  };
}

t.test('nobody gets the place of one that has left until it has arrived', async (t) => {
  const { running, source, target, free, begin, ended, moved, prepared, says, ids } = await moving(
    async (slot) => slot,
  );
  prepared();
  says.moved();
  ended(source, 'moved');
  t.same([...free], [], 'it may still come back to nobody');
  t.same(ids(), [1], 'and can be found meanwhile');
  says.arrived();
  t.same([...free], [0]);
  t.match(await moved, { session: 1, from: { gpu: 0 }, to: { gpu: 1 }, stoppedSeconds: 0.005 });
  await begin(2, source);
  t.same(ids().sort(), [1, 2]);
  ended(source, 'closed');
  t.same([...free], [0]);
  ended(target, 'closed');
  t.same([...free].sort(), [0, 1]);
  t.equal(running.sessions.size, 0);
});

t.test('one whose two processes are gone is over, and both places are free', async (t) => {
  const { running, source, target, free, ends, ended, moved, prepared, says } = await moving(
    async (slot) => slot,
  );
  let idle = 0;
  running.onIdle = () => idle++;
  prepared();
  says.moved();
  running.lost(target as never, 'exit 1');
  t.equal(running.sessions.size, 0);
  t.equal(idle, 1);
  await t.rejects(moved, /both processes ended/);
  t.same([...free], [1]);
  ended(source, 'moved');
  t.same([...free].sort(), [0, 1]);
  t.same(ends, ['lost', '1 lost']);
});

t.test('a process that cannot be started, and an error on the way', async (t) => {
  for (const [warm, why] of [
    [async () => null, /no process could be started/],
    [() => Promise.reject(new Error('EMFILE')), /EMFILE/],
  ] as const) {
    const { moved, ids, ends, ended, source, free } = await moving(warm);
    await t.rejects(moved, why);
    t.same([ids(), ends, [...free]], [[1], ['stayed'], [1]]);
    ended(source, 'closed');
    t.ok(free.has(0));
  }
});

t.test('who says nothing is ended', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const { moved, prepared, running, source, target, ids, ends, free } = await moving(
    async (slot) => slot,
  );
  prepared();
  mock.timers.tick(600_000);
  t.same([source.killed, target.killed], [0, 1], 'the target first');
  running.lost(target as never, 'SIGKILL');
  mock.timers.tick(600_000);
  t.equal(source.killed, 1);
  running.lost(source as never, 'SIGKILL');
  await t.rejects(moved, /more than 600 seconds/);
  t.same(ids(), []);
  t.same(ends, ['lost', '1 lost']);
  t.same([...free].sort(), [0, 1]);
});
