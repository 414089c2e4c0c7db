// Modules on disk: a server that starts again knows what programs sent to the one before, believes
// nothing that is damaged, and keeps no more than it was told to.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { noPrograms } from '../../support/paths.js';
import { counted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';

/** Its module is too large to travel unasked. */
const program = 'separate-compilation';
const few = ['--device', 'software', '--gpus', '1', '--servers-per-gpu', '1'];

/** Runs the program on a server of its own; what it sent of its image, and what the server logged. */
async function run(t: Test, folder: string, name = program, args: string[] = []) {
  const server = await startServer({ args: [...few, '--module-cache', folder, ...args] });
  try {
    const { code, imageBytes, stderr, cost } = await counted(testProgram(name), server.address);
    t.equal(code, 0, stderr);
    return { imageBytes, roundTrips: cost.roundTrips, log: server.log };
  } finally {
    await server.stop();
  }
}

const images = (folder: string) =>
  readdirSync(folder).filter((name) => /^[0-9a-f]{64}$/.test(name));

function theImage(t: Test, folder: string): string {
  const [name = '', ...others] = images(folder);
  t.same(others, []);
  return path.join(folder, name);
}

/** Bytes of device code that a program was built with. */
function builtWith(name: string): number {
  const sections = execFileSync('readelf', ['-SW', testProgram(name)], { encoding: 'utf8' });
  const [, size = ''] = /\.nv_fatbin +PROGBITS +\S+ +\S+ +(\S+)/.exec(sections) ?? [];
  return Number.parseInt(size, 16);
}

t.test('only what the device can use is sent', { skip: noPrograms }, async (t) => {
  const name = 'several-architectures';
  const { imageBytes } = await run(t, path.join(t.testdir(), 'modules'), name);
  t.ok(imageBytes > 0, 'its module is sent');
  t.ok(imageBytes < builtWith(name) / 4, `${imageBytes} of ${builtWith(name)} bytes`);
});

t.test('a known module is not sent again after a restart', { skip: noPrograms }, async (t) => {
  const folder = path.join(t.testdir(), 'a', 'b');
  const first = await run(t, folder);
  t.ok(first.imageBytes > 65536, `${first.imageBytes} bytes are sent at first`);
  const file = theImage(t, folder);
  t.equal(statSync(folder).mode & 0o777, 0o700);
  t.equal(statSync(file).mode & 0o777, 0o600);
  t.equal((await run(t, folder)).imageBytes, 0);
});

t.test('what is damaged is sent again, and mended', { skip: noPrograms }, async (t) => {
  const folder = t.testdir();
  chmodSync(folder, 0o700);
  const whole = (await run(t, folder)).imageBytes;
  const file = theImage(t, folder);
  const good = readFileSync(file);
  const damage: Record<string, () => void> = {
    'a byte': () => {
      const spoilt = Buffer.from(good);
      spoilt[good.length >> 1] = ~(good[good.length >> 1] ?? 0);
      writeFileSync(file, spoilt);
    },
    'all of it': () => writeFileSync(file, Buffer.alloc(good.length)),
    'the end': () => truncateSync(file, good.length - 8),
    everything: () => truncateSync(file, 0),
  };
  for (const [what, spoil] of Object.entries(damage)) {
    spoil();
    const { imageBytes, log } = await run(t, folder);
    t.equal(imageBytes, whole, what);
    if (what === 'a byte') t.match(log(), /damaged/);
    t.same(readFileSync(file), good, 'mended');
  }
  t.equal((await run(t, folder)).imageBytes, 0);
});

t.test('what is no file of the server is not believed', { skip: noPrograms }, async (t) => {
  const folder = t.testdir();
  chmodSync(folder, 0o700);
  const whole = (await run(t, folder)).imageBytes;
  const file = theImage(t, folder);
  const elsewhere = path.join(folder, 'elsewhere');
  writeFileSync(elsewhere, readFileSync(file));
  unlinkSync(file);
  symlinkSync(elsewhere, file);
  t.equal((await run(t, folder)).imageBytes, whole, 'a link, even to the right bytes');
  t.ok(statSync(elsewhere).size > 0, 'which is left alone');
});

t.test('the oldest go when it is too much', { skip: noPrograms }, async (t) => {
  const folder = t.testdir();
  chmodSync(folder, 0o700);
  const { imageBytes } = await run(t, folder);
  const file = theImage(t, folder);
  const foreign = path.join(folder, 'notes.txt');
  writeFileSync(foreign, 'x'.repeat(imageBytes));
  const partial = path.join(folder, 'partial-1-0');
  writeFileSync(partial, 'x');
  utimesSync(partial, 0, 0);
  utimesSync(file, 1, 1);
  await run(t, folder, 'double-math', ['--module-cache-size', String(imageBytes)]);
  t.notOk(images(folder).includes(path.basename(file)));
  t.equal(images(folder).length, 1);
  t.notOk(readdirSync(folder).includes('partial-1-0'), 'nor what a process left half');
  t.ok(readdirSync(folder).includes('notes.txt'), 'what is not its own stays');
});

t.test('variables that were asked for once', { skip: noPrograms }, async (t) => {
  const folder = t.testdir();
  chmodSync(folder, 0o700);
  const trips = async () => (await run(t, folder, 'device-symbols')).roundTrips;
  const first = await trips();
  const second = await trips();
  t.ok(second < first, `${second} round trips, not ${first}`);
  const file = `${theImage(t, folder)}.names`;
  t.equal(statSync(file).mode & 0o777, 0o600);
  writeFileSync(file, `no such variable\n\n\0\n${'x'.repeat(100_000)}`);
  t.equal(await trips(), first, 'nonsense is no name of anything');
});

t.test('a folder that others may read', { skip: noPrograms }, async (t) => {
  const folder = t.testdir({ open: {} });
  const open = path.join(folder, 'open');
  chmodSync(open, 0o755);
  await t.rejects(run(t, open), /OB_MODULE_CACHE.*others may read/);
  mkdirSync(path.join(folder, 'cache', 'modules'), { recursive: true, mode: 0o755 });
  const server = await startServer({
    args: few,
    env: { OUTBOARD_MODULE_CACHE: undefined as never, CACHE_DIRECTORY: path.join(folder, 'cache') },
  });
  // The usual one is done without.
  await server.logged(/modules are not kept on disk/);
  await server.stop();
});
