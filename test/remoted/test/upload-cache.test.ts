// Uploads that the server has kept are not sent again: by another process, in another slot, after a
// restart; for the tenant who sent them and nobody else, and only where it is wanted.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { noPrograms } from '../../support/paths.js';
import { type CountedOutcome, counted, native, testProgram } from '../../support/program.js';
import { startServer, type TestServer } from '../../support/server.js';

const program = testProgram('upload-twice');
const payload = 64 << 20;
const part = 1 << 20;
const device = ['--device', 'software', '--gpus', '1', '--servers-per-gpu', '2'];

async function run(t: Test, server: TestServer, token = ''): Promise<CountedOutcome> {
  const outcome = await counted(program, server.address, { env: { OUTBOARD_TOKEN: token } });
  t.equal(outcome.code, 0, outcome.stderr);
  t.equal(outcome.stdout, (await native(program)).stdout, 'the output');
  return outcome;
}

async function withServer(args: string[], use: (server: TestServer) => Promise<void>) {
  const server = await startServer({ args: [...device, ...args] });
  try {
    await use(server);
  } finally {
    await server.stop();
  }
}

const parts = (folder: string) =>
  existsSync(folder) ? readdirSync(folder).filter((name) => /^[0-9a-f]{64}$/.test(name)) : [];

/** They are written behind the session's back. */
async function written(folder: string, count: number) {
  while (parts(folder).length < count) await sleep(10);
}

/** A folder that only its owner reads. */
function folderOf(t: Test): string {
  const folder = path.join(t.testdir(), 'uploads');
  mkdirSync(folder, { mode: 0o700 });
  return folder;
}

t.test('another process sends nothing again', { skip: noPrograms }, async (t) => {
  const folder = folderOf(t);
  const kept = path.join(folder, 'everybody');
  const costs: CountedOutcome[] = [];
  await withServer(['--upload-cache', folder], async (server) => {
    const first = await run(t, server);
    t.ok(first.cost.bytesSent > payload, 'all of it at first');
    // Of the second upload of the process a part was changed.
    await written(kept, payload / part + 1);
    t.equal(statSync(kept).mode & 0o777, 0o700);
    t.equal(statSync(path.join(kept, parts(kept)[0] ?? '')).mode & 0o777, 0o600);
    await server.rested();
    costs.push(await run(t, server), await run(t, server));
  });
  // Which modules to expect, a server knows once the program has run.
  await withServer(['--upload-cache', folder], async (server) => {
    await run(t, server);
    await server.rested();
    costs.push(await run(t, server));
  });
  await withServer([], async (server) => {
    await run(t, server);
    await server.rested();
    const { cost: plain } = await run(t, server);
    // Instead of the parts there is a question for each eight of them: frames and hashes.
    const sent = (2 * payload) / part;
    const questions = sent / 8;
    const expected = {
      ...plain,
      commands: plain.commands - sent + questions,
      roundTrips: plain.roundTrips + questions,
      bytesSent: plain.bytesSent - sent * (32 + part) + questions * (48 + 8 * 32),
      bytesReceived: plain.bytesReceived + questions * 32,
    };
    for (const { cachedBytes, cost } of costs) {
      t.equal(cachedBytes, 2 * payload);
      t.same(cost, expected, 'the same in every slot, and after a restart');
    }
  });
  t.equal(parts(kept).length, payload / part + 1, 'and nothing is kept twice');
});

t.test('it is off unless somebody wants it', { skip: noPrograms }, async (t) => {
  const costs: CountedOutcome[] = [];
  for (const args of [[], ['--upload-cache', 'none']]) {
    await withServer(args, async (server) => {
      costs.push(await run(t, server));
    });
  }
  for (const { cachedBytes, cost } of costs) {
    t.equal(cachedBytes, 0);
    t.ok(cost.bytesSent > 2 * payload);
    t.same(cost, costs[0]?.cost);
  }
});

t.test('the oldest parts go when it is too much', { skip: noPrograms }, async (t) => {
  const folder = folderOf(t);
  const kept = path.join(folder, 'everybody');
  const most = 16;
  await withServer(
    ['--upload-cache', folder, '--upload-cache-size', `${most * part}`],
    async (server) => {
      await run(t, server);
      await written(kept, most - 1);
      const { cachedBytes } = await run(t, server);
      t.ok(cachedBytes < 2 * payload, `${cachedBytes} bytes were known`);
    },
  );
  t.ok(parts(kept).length <= most, `${parts(kept).length} parts`);
});

t.test('tenants know nothing of each other', { skip: noPrograms }, async (t) => {
  const folder = folderOf(t);
  const file = path.join(t.testdirName, 'tenants.yaml');
  const entries = ['ann', 'bob', 'cid'].map((name) => {
    const hash = createHash('sha256').update(`token of ${name}`).digest('hex');
    return { name, tokens: [{ hash: `sha256:${hash}` }], uploadCache: name !== 'cid' };
  });
  writeFileSync(file, JSON.stringify({ version: 'v1', tenants: entries }));
  await withServer(['--tenants', file, '--upload-cache', folder], async (server) => {
    const as = (name: string) => run(t, server, `token of ${name}`);
    await as('ann');
    await written(path.join(folder, 'tenant-ann'), payload / part + 1);
    t.equal((await as('ann')).cachedBytes, 2 * payload);
    const other = await as('bob');
    t.ok(other.cost.bytesSent > payload, 'what ann has sent, bob has to send');
    t.ok(other.cachedBytes <= payload, 'and may only find what bob himself sent before');
    t.equal((await as('cid')).cachedBytes, 0, 'who does not want it has none');
  });
  t.same(readdirSync(folder).sort(), ['tenant-ann', 'tenant-bob']);
});

t.test('a folder that cannot be used', { skip: noPrograms }, async (t) => {
  const folder = folderOf(t);
  writeFileSync(path.join(folder, 'file'), '');
  await t.rejects(
    withServer(['--upload-cache', path.join(folder, 'file', 'x')], async () => {}),
    {
      message: /OB_UPLOAD_CACHE/,
    },
  );
  // What has become of one while the server runs is nothing that a program notices.
  writeFileSync(path.join(folder, 'everybody'), '');
  await withServer(['--upload-cache', folder], async (server) => {
    t.equal((await run(t, server)).cachedBytes, 0);
  });
});
