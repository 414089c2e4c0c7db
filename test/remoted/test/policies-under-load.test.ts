// Run nightly: programs share the GPU for twenty seconds and more, and want the machine for themselves.
// Policies decide while real programs keep a real server busy: RCKM as it was corrected, windows of another length, and
// an order of the queue. What each program has received is counted by its own kernels; whatever else runs on the machine
// slows all of them down alike.
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { onlySoftware } from '../../support/device.js';
import { noPrograms } from '../../support/paths.js';
import { startRemoted, testProgram } from '../../support/program.js';
import { startServer, type TestServer } from '../../support/server.js';

const skip = noPrograms || onlySoftware;

interface Busy {
  program: ChildProcess;
  /** So many times its kernels have ended. */
  lines: number;
  /** Resolves at the next time. */
  next(): Promise<void>;
}

function busy(t: Test, { address }: TestServer, env: Record<string, string>, args: string[]): Busy {
  const program = startRemoted(testProgram('busy-kernels'), address, { args, env });
  let errors = '';
  program.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const calls: { resolve: () => void; reject: (error: Error) => void }[] = [];
  let ended: Error | null = null;
  const one: Busy = {
    program,
    lines: 0,
    next: () =>
      new Promise((resolve, reject) => {
        if (ended) reject(ended);
        else calls.push({ resolve, reject });
      }),
  };
  createInterface({ input: program.stdout as NodeJS.ReadableStream }).on('line', () => {
    one.lines++;
    for (const { resolve } of calls.splice(0)) resolve();
  });
  program.once('exit', (code, signal) => {
    ended = new Error(`the program ended with ${signal ?? code}: ${errors}`);
    for (const { reject } of calls.splice(0)) reject(ended);
  });
  t.teardown(() => program.kill('SIGKILL'));
  return one;
}

/** How many each did, of `all` that both did together, from the moment on when both work. */
async function counted(one: Busy, other: Busy, all: number): Promise<[number, number]> {
  await Promise.all([one, other].map((each) => each.next()));
  const before = [one.lines, other.lines] as const;
  const done = (): [number, number] => [one.lines - before[0], other.lines - before[1]];
  for (let [a, b] = done(); a + b < all; [a, b] = done()) {
    await Promise.race([one.next(), other.next()]);
  }
  return done();
}

async function serving(t: Test, ...args: string[]) {
  const server = await startServer({
    args: ['--device', 'software', '--http', '127.0.0.1:0', ...args],
  });
  t.teardown(() => server.stop());
  const [, http = ''] = /"http":\["([\d.:]+)"\]/.exec(server.log()) ?? [];
  return { server, http: `http://${http}` };
}

interface State {
  sessions: { id: number; name: string; share: { deviceNs: number | null } }[];
  queue: { name: string }[];
}

async function state(http: string): Promise<State> {
  return (await (await fetch(`${http}/v1/state`)).json()) as State;
}

async function sessions(http: string) {
  return new Map((await state(http)).sessions.map((session) => [session.name, session]));
}

/** Resolves when these wait, in the order of their turns. */
async function waiting(http: string, ...names: string[]) {
  for (;;) {
    const { queue } = await state(http);
    if (queue.map(({ name }) => name).join() === names.join()) return;
    await pause(20);
  }
}

async function share(http: string, session: number, request: number, limit: number) {
  const answer = await fetch(`${http}/v1/sessions/${session}/share`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ request, limit }),
  });
  if (!answer.ok) throw new Error(await answer.text());
}

t.test('dilu-corrected: blocks by limits, and by new ones while both run', { skip }, async (t) => {
  // Three blocks in 5 ms for one and one for the other: fewer than they would launch, so the gate is what holds them.
  const { server, http } = await serving(
    t,
    ...['--servers-per-gpu', '2', '--quota', 'dilu-corrected', '--max-blocks', '5'],
  );
  // Each line is four kernels of 8 blocks.
  const start = (name: string, share: string) =>
    busy(t, server, { OUTBOARD_NAME: name, OUTBOARD_SHARE: share, OUTBOARD_CLASS: 'best-effort' }, [
      '100',
      '4',
    ]);
  const large = start('large', '30:60');
  const small = start('small', '10:20');
  const [most, least] = await counted(large, small, 80);
  t.ok(most / least > 2 && most / least < 4.5, `${most} to ${least} with 60 and 20 percent`);
  const all = await sessions(http);
  await share(http, all.get('large')?.id ?? 0, 10, 20);
  await share(http, all.get('small')?.id ?? 0, 30, 60);
  // What was under way under the old shares is let pass.
  await counted(large, small, 30);
  const [fewer, more] = await counted(large, small, 80);
  t.ok(more / fewer > 2 && more / fewer < 4.5, `${more} to ${fewer} when they were changed over`);
  t.notMatch(server.log(), /"level":(50|60)/, 'the server has met no error');
});

for (const window of [10, 500]) {
  t.test(`limits of a window of ${window} ms hold under load`, { skip }, async (t) => {
    const { server, http } = await serving(
      t,
      ...['--servers-per-gpu', '2', '--quota-window', String(window)],
    );
    const start = (name: string, share: string) =>
      busy(t, server, { OUTBOARD_NAME: name, OUTBOARD_SHARE: share }, ['400000', '1']);
    const large = start('large', '1:6');
    const small = start('small', '1:2');
    await Promise.all([large.next(), small.next()]);
    const begun = performance.now();
    const before = await sessions(http);
    const [most, least] = await counted(large, small, 60);
    const after = await sessions(http);
    const wall = performance.now() - begun;
    // Of some dozens of kernels, none of which can be cut.
    t.ok(most / least > 1.8 && most / least < 7, `${most} to ${least} with 6 and 2 percent`);
    for (const [name, limit] of [
      ['large', 6],
      ['small', 2],
    ] as const) {
      const at = (all: typeof before) => (all.get(name)?.share.deviceNs ?? Number.NaN) / 1e6;
      const used = at(after) - at(before);
      // Figures are a second old at most. Beyond its part of the time a window may have been saved, and a kernel begun.
      const may = (limit / 100) * (wall + 1000 + window) + 50;
      t.ok(used <= may, `${name} used ${used.toFixed(0)} ms of ${may.toFixed(0)}`);
    }
    t.notMatch(server.log(), /"level":(50|60)/, 'the server has met no error');
  });
}

t.test('strict-first, while programs keep the GPU busy', { skip }, async (t) => {
  const { server, http } = await serving(
    t,
    ...['--servers-per-gpu', '1', '--queue-policy', 'strict-first'],
  );
  const start = (name: string, kind: string) =>
    busy(t, server, { OUTBOARD_NAME: name, OUTBOARD_CLASS: kind }, ['2000', '1']);
  const first = start('first', 'best-effort');
  await first.next();
  const effort = start('effort', 'best-effort');
  await waiting(http, 'effort');
  const strict = start('strict', 'latency-strict');
  await waiting(http, 'strict', 'effort');
  const order: string[] = [];
  const begun = [effort, strict].map((one, index) =>
    one.next().then(() => order.push(index === 0 ? 'effort' : 'strict')),
  );
  first.program.kill('SIGKILL');
  await begun[1];
  t.same(order, ['strict'], 'it came later, and has its turn first');
  strict.program.kill('SIGKILL');
  await begun[0];
  t.same(order, ['strict', 'effort']);
});
