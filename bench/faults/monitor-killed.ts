// The monitor itself is killed, again and again, while it has sessions, a queue and people arriving.
// Its processes must go, its clients must hear of it, and the next one must find its port, its
// socket and all memory free.
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Guest } from '../../monitor/test/support/guest.js';
import { Serving } from '../../monitor/test/support/serving.js';
import { SharedMemory } from '../../monitor/test/support/shared-memory.js';
import { Random } from '../../simulator/server/random.js';
import { onDevice } from '../../test/support/device.js';
import { noPrograms } from '../../test/support/paths.js';
import { outcome, startRemoted, testProgram } from '../../test/support/program.js';
import type { Teardowns } from './scope.js';
import { childrenOf, isAlive, until } from './traces.js';

export interface MonitorKilledOptions {
  seed: number;
  rounds: number;
}

export interface MonitorKilledReport {
  rounds: number;
  /** Sessions and waiting guests that were there when it happened. */
  clients: number;
  /** Programs among them, which must end by themselves. */
  programs: number;
  /** What is left or not as it should be, in words. */
  left: string[];
}

const gpus = 2;
const serversPerGpu = 2;
const slots = gpus * serversPerGpu;

/** Nobody else takes a port of it while there is no server. */
const ownLoopback = `127.${[16, 8, 0].map((bits) => (process.pid >> bits) & 0xff).join('.')}`;

export async function killMonitor(
  scope: Teardowns,
  { seed, rounds }: MonitorKilledOptions,
): Promise<MonitorKilledReport> {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-killed-'));
  scope.teardown(() => rmSync(folder, { recursive: true }));
  const random = new Random(seed);
  const report: MonitorKilledReport = { rounds, clients: 0, programs: 0, left: [] };
  const shared = new SharedMemory();
  const socket = path.join(folder, 'guests');
  let port = 0;
  const start = () => {
    const args = [
      ...['serve', '--listen', `${ownLoopback}:${port},unix:${socket}`],
      ...['--http', '127.0.0.1:0', ...onDevice],
      ...['--gpus', String(gpus), '--servers-per-gpu', String(serversPerGpu), '--grace', '0'],
    ];
    return Serving.start(scope, args, { SOFTWARE_DEVICE_MEMORY: '1G', TMPDIR: folder });
  };
  for (let round = 0; round < rounds; round++) {
    const serving = await start();
    port = serving.address.port;
    await oneRound(serving, { path: socket }, random, report, shared);
  }
  const serving = await start();
  await allMemory(serving);
  const processes = childrenOf(serving.child.pid ?? 0);
  await serving.stop();
  report.left.push(
    ...processes.filter(isAlive).map((pid) => `process ${pid}`),
    ...shared.left,
    ...readdirSync(folder),
  );
  return report;
}

async function oneRound(
  serving: Serving,
  socket: { path: string },
  random: Random,
  report: MonitorKilledReport,
  shared: SharedMemory,
) {
  await allMemory(serving);
  const monitor = serving.child.pid ?? 0;
  const processes = childrenOf(monitor);
  if (processes.length !== slots) report.left.push(`${processes.length} processes before`);

  // Some that run for ever, over both ways in, and some that wait behind them.
  const { host, port } = serving.address;
  const endless = noPrograms ? [] : ['endless-launch', 'endless-copy'];
  const env = { OUTBOARD_LOG: 'silent', OUTBOARD_MEMORY: '96M' };
  const programs = endless.map((name) =>
    startRemoted(testProgram(name), `${host}:${port}`, { env }),
  );
  const ends = programs.map(outcome);
  await Promise.all(programs.map(said));
  const running = Array.from({ length: slots - programs.length }, () => Guest.hello(socket));
  for (const guest of running) await guest.welcome();
  const waiting = Array.from({ length: 4 }, (_, index) =>
    Guest.hello(index % 2 === 0 ? socket : serving.address),
  );
  for (const guest of waiting) await guest.position();
  // And some that are just coming, so that it is hit in the middle of a hand-over, too.
  running.pop()?.socket.destroy();
  const coming = Array.from({ length: 8 }, () => Guest.hello(serving.address));
  await new Promise((go) => setTimeout(go, random.between(0, 20)));

  shared.look([monitor, ...processes]);
  serving.child.kill('SIGKILL');
  await serving.exit;
  const guests = [...running, ...waiting, ...coming];
  // Whoever did not hear of it would wait here for ever.
  await Promise.all(guests.map((guest) => guest.rest()));
  const outcomes = await Promise.all(ends);
  await until(() => !processes.some(isAlive));
  report.clients += guests.length + programs.length;
  report.programs += programs.length;
  for (const [index, { signal, code, stdout }] of outcomes.entries()) {
    const name = endless[index];
    const right = name === 'endless-launch' ? /^then: cuda/m.test(stdout) : code !== 0 && !signal;
    if (!right) report.left.push(`${name}: ${signal ?? code}, having said ${stdout.trim()}`);
  }
}

/** Every GPU gives all its memory to one session, and every slot serves one. */
async function allMemory(serving: Serving) {
  const { memory } = await serving.logged({ msg: 'GPU' });
  for (const [count, each] of [
    [gpus, BigInt(Number(memory))],
    [slots, 0n],
  ] as const) {
    const guests = Array.from({ length: count }, () =>
      Guest.hello(serving.address, { memory: each }),
    );
    for (const guest of guests) await guest.welcome();
    for (const guest of guests) await guest.leave();
  }
}

/** The first thing a program says: it is at work. */
function said({ stdout }: ChildProcess): Promise<void> {
  return new Promise((resolve) => stdout?.once('data', () => resolve()));
}
