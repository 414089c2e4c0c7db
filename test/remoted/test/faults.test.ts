// Faults that a seed chooses, while sessions move and while connections are cut: no program says anything wrong. It goes
// on, or it ends with an error; and the server is afterwards what it was before, down to its descriptors.
// OUTBOARD_TEST_FAULTS says how many, OUTBOARD_TEST_SEED which is the first. At night 1,000, which no other night has.
import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import t, { type Test } from 'tap';
import { decodeHello } from '../../../api-server/src/control.js';
import { Guest } from '../../../monitor/test/support/guest.js';
import { type CuttingProxy, seeded, startCuttingProxy } from '../../support/cutting-proxy.js';
import { Operator, Steps, startTwoGpus } from '../../support/moving.js';
import { ended, kill, phases, until } from '../../support/moving-deaths.js';
import { noPrograms } from '../../support/paths.js';
import {
  example,
  native,
  type Outcome,
  outcome,
  startNative,
  startRemoted,
  testProgram,
} from '../../support/program.js';
import { startServer, type TestServer } from '../../support/server.js';

const night = Boolean(process.env['NIGHTLY']);
const faults = Number(process.env['OUTBOARD_TEST_FAULTS'] ?? (night ? 1000 : 8));
/** Each night others, which the names of what fails tell. */
const tonight = night ? Math.floor(Date.now() / 86_400_000) * 1000 : 1;
const firstSeed = Number(process.env['OUTBOARD_TEST_SEED'] ?? tonight);

const said = ({ code, signal, stdout }: Outcome) => ({ code, signal, stdout });
const error = /CUDA_ERROR|cudaError|OB_|unavailable/;

/** Right, or ended with an error behind what is right. `killed`: or by whoever has killed it. */
function nothingWrong(t: Test, is: Outcome, right: Outcome, what: string, killed = false): boolean {
  if (is.code === 0) {
    t.same(said(is), said(right), what);
    return true;
  }
  if (!killed || is.signal !== 'SIGKILL')
    t.match(is.stderr, error, `${what}: an error, with ${is.signal ?? is.code}`);
  t.ok(right.stdout.startsWith(is.stdout), `${what}: nothing wrong before, but ${is.stdout}`);
  return false;
}

/** Descriptors of a process. */
function descriptors(pid: number | undefined): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Grows by no more than what connections of ours to its API take, and what is opened once. */
class Descriptors {
  readonly #server: TestServer;
  #before = 0;

  constructor(server: TestServer) {
    this.#server = server;
  }

  /** When all has been used once. */
  begin() {
    this.#before ||= descriptors(this.#server.process.pid);
  }

  check(t: Test) {
    const now = descriptors(this.#server.process.pid);
    t.ok(
      this.#before === 0 || now <= this.#before + 8,
      `descriptors: ${this.#before}, then ${now}`,
    );
  }
}

// ---- while sessions move -----------------------------------------------------------------------

const whileMoving = ['source', 'target', 'asker', 'operator', 'program', 'second mover'] as const;
const words = ['step', 'load', 'late', 'step', 'load', 'step'];

async function moves(
  server: TestServer,
  operator: Operator,
  random: () => number,
): Promise<{ what: string; outcome: Outcome; killed: boolean }> {
  const one = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T;
  const fault = one(whileMoving);
  const phase = one(phases);
  const wish = random() < 0.3 ? { within: true } : {};
  const before = 1 + Math.floor(random() * (words.length - 1));
  const steps = new Steps(
    startRemoted(testProgram('moved-steps'), server.address, { writes: true }),
  );
  const { id } = await operator.session();
  for (const word of words.slice(0, before)) await steps.say(word);
  const gone = new AbortController();
  const place = `/v1/sessions/${id}/place`;
  const moving = operator.ask('PUT', place, wish, gone.signal).catch(() => {});
  await until(operator, id, phase, moving);
  if (fault === 'source' || fault === 'target') await kill(operator, id, fault);
  else if (fault === 'asker') gone.abort();
  else if (fault === 'operator') await operator.kill(id);
  else if (fault === 'program') steps.kill();
  else await operator.ask('PUT', place, {});
  await moving;
  for (const word of words.slice(before)) await steps.say(word);
  const what = `${fault} while ${phase}, ${JSON.stringify(wish)}, behind ${before} steps`;
  return { what, outcome: await steps.end(), killed: fault === 'program' };
}

t.test('while sessions move', { skip: noPrograms }, async (t) => {
  const { server, operator } = await startTwoGpus(t);
  const natively = new Steps(startNative(testProgram('moved-steps'), { writes: true }));
  for (const word of words) await natively.say(word);
  const here = await natively.end();
  const open = new Descriptors(server);
  let right = 0;
  for (let seed = firstSeed; seed < firstSeed + faults / 2; seed++) {
    const { what, outcome, killed } = await moves(server, operator, seeded(seed));
    if (nothingWrong(t, outcome, here, `seed ${seed}, ${what}`, killed)) right++;
    await operator.rested();
    const { gpus } = await operator.state();
    t.same(
      gpus.map(({ memory }) => memory.reserved),
      [0, 0],
      `seed ${seed}, ${what}: nothing stays reserved`,
    );
    if (seed === firstSeed + 10) open.begin();
  }
  t.ok(right > 0 || faults < 12, `${right} went on`);
  open.check(t);
  t.notMatch(server.log(), /"level":60/, 'the server goes on');
});

// ---- while connections are cut -----------------------------------------------------------------

const whileCut = ['again', 'once', 'replayed', 'thief', 'slot', 'program', 'full'] as const;
const programs: [path: string, args: string[]][] = [
  [testProgram('changed-after'), []],
  [testProgram('copies'), []],
  [testProgram('host-functions'), []],
  [example('reduction'), ['--size', '20001']],
  [example('kmeans'), ['--generate', '20000', '--k', '6']],
];
/** Launches and MiB: as much as fills everything between the program and the device, at night. */
const full = night ? ['5000', '300'] : ['2000', '40'];

function addressOf({ address }: { address: string }) {
  const [host = '', port] = address.split(':');
  return { host, port: Number(port) };
}

/** The Hello by which a guest has come back, once more. */
async function replayed(server: TestServer, hello: Buffer) {
  const guest = new Guest(addressOf(server));
  guest.send(hello);
  return await guest.refusal();
}

async function stolen(server: TestServer, session: number) {
  const resume = { session: BigInt(session), secret: randomBytes(16), epoch: 1000, received: 0n };
  const none = { windowBases: [], windowSize: 0n };
  return await Guest.hello(addressOf(server), { ...none, resumes: true, resume }).refusal();
}

/** Until it has cut so many, or the program ends; `cuts`: it does so whenever there is a connection. */
async function untilCut(proxy: CuttingProxy, over: Promise<unknown>, most: number, cuts = false) {
  let ends = false;
  void over.then(() => {
    ends = true;
  });
  while (!ends && proxy.cuts() < most) {
    if (cuts) proxy.cut();
    await new Promise(setImmediate);
  }
}

async function cut(
  t: Test,
  server: TestServer,
  operator: Operator,
  right: Map<string, Outcome>,
  seed: number,
) {
  const random = seeded(seed);
  const one = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T;
  const fault = one(whileCut);
  const [path, args] = fault === 'full' ? [testProgram('full-behind'), full] : one(programs);
  const key = `${path} ${args.join(' ')}`;
  const what = `seed ${seed}, ${fault}, ${key.replace(/^.*\//, '')}`;
  const byte = 9_000 + Math.floor(random() * 30_000);
  const after = (connection: number) => {
    // Deeper and deeper in what fills everything, and then at whatever is under way.
    if (fault === 'full') return connection < 3 ? Math.floor(random() * 20e6) + 4_000 : null;
    if (fault === 'once') return connection < 2 ? byte : null;
    // Within a Welcome there is no session yet to come back to. A first connection may only ask for the version.
    return (connection < 2 ? 9_000 : 1_000) + Math.floor(random() * 4_000 * 2 ** connection);
  };
  const proxy = await startCuttingProxy(server.address, { after, reset: () => random() < 0.5 });
  const child = startRemoted(path, proxy.address, { args, writes: fault === 'full' });
  const over = outcome(child);
  if (fault === 'full') {
    await new Promise<void>((held) => {
      child.stdout?.once('data', () => held());
      child.once('exit', () => held());
    });
    await untilCut(proxy, over, 4, true);
    child.stdin?.write('\n');
  } else if (fault !== 'again' && fault !== 'once') {
    await untilCut(proxy, over, 2);
    const [session] = (await operator.state()).sessions;
    const hello = proxy.firsts().find((one) => decodeHello(one.subarray(16)).resume);
    if (fault === 'thief' && session)
      t.match(await stolen(server, session.id), { code: 'OB_RESUME' }, what);
    if (fault === 'replayed' && hello)
      t.match(await replayed(server, hello), { code: 'OB_RESUME' }, what);
    if (fault === 'slot' && session?.slotPid) ended(session.slotPid);
    if (fault === 'program') child.kill('SIGKILL');
  }
  const there = await over;
  const here = right.get(key);
  if (!here) throw new Error(`nothing is known of ${key}`);
  if (fault === 'slot' || fault === 'program')
    nothingWrong(t, there, here, what, fault === 'program');
  else t.same(said(there), said(here), `${what}, ${proxy.cuts()} cuts: ${there.stderr}`);
  await proxy.close();
  await operator.rested();
}

t.test('while connections are cut', { skip: noPrograms }, async (t) => {
  const args = ['--device', 'software', '--gpus', '1', '--servers-per-gpu', '2'];
  const http = ['--http', '127.0.0.1:0'];
  const server = await startServer({ args: [...args, ...http, '--grace-disconnected', '20'] });
  t.teardown(() => server.stop());
  await server.logged(/"http":/);
  const operator = new Operator(server);
  const right = new Map<string, Outcome>();
  for (const [path, args] of programs)
    right.set(`${path} ${args.join(' ')}`, await native(path, { args }));
  const fills = startNative(testProgram('full-behind'), { args: full, writes: true });
  fills.stdin?.end('\n');
  right.set(`${testProgram('full-behind')} ${full.join(' ')}`, await outcome(fills));
  for (const [what, { code, stderr }] of right) t.equal(code, 0, `${what}: ${stderr}`);
  const open = new Descriptors(server);
  for (let seed = firstSeed; seed < firstSeed + faults / 2; seed++) {
    await cut(t, server, operator, right, seed);
    const { gpus } = await operator.state();
    t.equal(gpus[0]?.memory.reserved, 0, `seed ${seed}: nothing stays reserved`);
    if (seed === firstSeed + 10) open.begin();
  }
  open.check(t);
  t.notMatch(server.log(), /"level":60/, 'the server goes on');
});

// ---- while sessions move and connections are cut -----------------------------------------------

const whileBoth = ['cut', 'away', 'thief', 'replayed', 'source', 'target', 'program'] as const;

async function movesAndIsCut(t: Test, server: TestServer, operator: Operator, seed: number) {
  // By day the first ones have to do with cuts.
  const random = seeded(seed + 50);
  const one = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T;
  const fault = one(whileBoth);
  // Nobody is away for longer than a few seconds, and a process may take those to start.
  const phase = fault === 'away' ? 'transferring' : one(phases);
  const wish = random() < 0.3 ? { within: true } : {};
  const before = 1 + Math.floor(random() * (words.length - 1));
  const reset = random() < 0.5;
  const what = `seed ${seed}, ${fault} while ${phase}, ${JSON.stringify(wish)}, behind ${before} steps`;
  const proxy = await startCuttingProxy(server.address, { reset: () => reset });
  const steps = new Steps(
    startRemoted(testProgram('moved-steps'), proxy.address, { writes: true }),
  );
  const { id } = await operator.session();
  for (const word of words.slice(0, before)) await steps.say(word);
  const moving = operator.moveSoon(id, wish);
  await until(operator, id, phase, moving);
  proxy.refuse(fault === 'away');
  proxy.cut();
  const saying = steps.say(words[before] ?? 'step');
  if (fault === 'source' || fault === 'target') await kill(operator, id, fault);
  else if (fault === 'program') steps.kill();
  else if (fault === 'thief') t.match(await stolen(server, id), { code: 'OB_RESUME' }, what);
  await moving;
  proxy.refuse(false);
  await saying;
  const hello = proxy.firsts().find((one) => decodeHello(one.subarray(16)).resume);
  if (fault === 'replayed' && hello)
    t.match(await replayed(server, hello), { code: 'OB_RESUME' }, what);
  for (const word of words.slice(before + 1)) await steps.say(word);
  const outcome = await steps.end();
  await proxy.close();
  const ends = fault === 'source' || fault === 'target' || fault === 'program';
  return { what, outcome, killed: fault === 'program', ends };
}

t.test('while sessions move and connections are cut', { skip: noPrograms }, async (t) => {
  const { server, operator } = await startTwoGpus(t, ['--grace-disconnected', '20']);
  const natively = new Steps(startNative(testProgram('moved-steps'), { writes: true }));
  for (const word of words) await natively.say(word);
  const here = await natively.end();
  const open = new Descriptors(server);
  for (let seed = firstSeed; seed < firstSeed + faults / 4; seed++) {
    const { what, outcome, killed, ends } = await movesAndIsCut(t, server, operator, seed);
    if (ends) nothingWrong(t, outcome, here, what, killed);
    else t.same(said(outcome), said(here), `${what}: ${outcome.stderr}`);
    await operator.rested();
    const { gpus } = await operator.state();
    t.same(
      gpus.map(({ memory }) => memory.reserved),
      [0, 0],
      `${what}: nothing stays reserved`,
    );
    if (seed === firstSeed + 10) open.begin();
  }
  open.check(t);
  t.notMatch(server.log(), /"level":60/, 'the server goes on');
});
