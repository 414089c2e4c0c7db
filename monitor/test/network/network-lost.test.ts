// A network that is cut without a word, between two network namespaces: frames go to an address that
// nobody has. Either side notices it by itself and says what it was.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import t, { type Test } from 'tap';
import { build } from '../../../bin/paths.mjs';
import { mustBeBuilt } from '../../../test/support/paths.js';
import { Serving } from '../support/serving.js';

const space = `outboard-${process.pid}`;
const [here, there] = [`ob${process.pid}a`.slice(-15), `ob${process.pid}b`.slice(-15)];
// Four addresses of each process: 22 bits are enough for its number.
const four = [14, 6].map((bits) => (process.pid >> bits) & 0xff).join('.');
const oneOf = (which: number) => `10.${four}.${((process.pid & 0x3f) << 2) | which}`;
const [ours, theirs] = [oneOf(1), oneOf(2)];

function ip(...args: string[]) {
  execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

function connectSpaces(): string | false {
  try {
    ip('netns', 'add', space);
    ip('link', 'add', here, 'type', 'veth', 'peer', 'name', there, 'netns', space);
    ip('addr', 'add', `${ours}/30`, 'dev', here);
    ip('link', 'set', here, 'up');
    ip('-n', space, 'addr', 'add', `${theirs}/30`, 'dev', there);
    ip('-n', space, 'link', 'set', there, 'up');
    return false;
  } catch (error) {
    removeSpace();
    return `no network namespaces: ${(error as Error).message.split('\n')[0]}`;
  }
}

function removeSpace() {
  try {
    ip('netns', 'del', space);
  } catch {
    // There was none.
  }
}

const skip = connectSpaces();
t.teardown(removeSpace);

const seconds = { OUTBOARD_NETWORK_TIMEOUT: '2' };

/** A server with one slot, on this side. */
async function serve(t: Test) {
  mustBeBuilt('api-server/executor.node', 'software-device/libcuda.so.1');
  mustBeBuilt('guest-lib/libcuda.so.1', 'guest-lib/test/guest-client');
  const tenants = path.join(t.testdir({}), 'tenants.yaml');
  const add = ['tenant', 'add', 'acme', '--tenants', tenants];
  const outboard = path.join(build, '..', 'bin', 'outboard.mjs');
  const token = execFileSync(process.execPath, [outboard, ...add], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }).trim();
  const usual = ['--http', 'none', '--device', 'software', '--grace', '0', '--tenants', tenants];
  const serving = await Serving.start(t, [
    'serve',
    '--listen',
    `${ours}:0`,
    ...usual,
    '--servers-per-gpu',
    '1',
    '--network-timeout',
    '2',
  ]);
  return { serving, token };
}

/** A guest on the other side, which has said that it is ready. */
async function startGuest(does: string, { serving, token }: Awaited<ReturnType<typeof serve>>) {
  const client = path.join(build, 'guest-lib', 'test', 'guest-client');
  const process_ = spawn('ip', ['netns', 'exec', space, client, does], {
    env: {
      ...process.env,
      ...seconds,
      LD_LIBRARY_PATH: path.join(build, 'guest-lib'),
      OUTBOARD_SERVER: `${ours}:${serving.address.port}`,
      OUTBOARD_TOKEN: token,
      OUTBOARD_NOTICES: '/dev/null',
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const guest = { process: process_, out: '', said: '', ended: once(process_, 'close') };
  process_.stdout.setEncoding('utf8').on('data', (text: string) => {
    guest.out += text;
  });
  process_.stderr.setEncoding('utf8').on('data', (text: string) => {
    guest.said += text;
  });
  const ended = guest.ended.then(() => 'ended');
  while (!/^ready$/m.test(guest.out)) {
    if ((await Promise.race([once(process_.stdout, 'data'), ended])) === 'ended') {
      throw new Error(`the guest ended before it was ready: ${guest.out}${guest.said}`);
    }
  }
  return guest;
}

const nobody = ['lladdr', '02:00:00:00:00:99', 'nud', 'permanent', 'dev'];

function cut(t: Test) {
  ip('neigh', 'replace', theirs, ...nobody, here);
  ip('-n', space, 'neigh', 'replace', ours, ...nobody, there);
  t.teardown(() => {
    ip('neigh', 'del', theirs, 'dev', here);
    ip('-n', space, 'neigh', 'del', ours, 'dev', there);
  });
}

const lost = /^outboard: the connection to the server is lost: the network in between is gone/;
const ends = "session ends: network lost: nothing comes from the guest's machine any more";

t.test('a cut network', { skip, timeout: 100_000 }, async (t) => {
  const server = await serve(t);
  const guest = await startGuest('server-dies', server);
  cut(t);
  guest.process.stdin.end('go on\n');
  await guest.ended;
  t.match(guest.out, /CUDA_ERROR_DEVICE_UNAVAILABLE/);
  t.match(guest.said, lost);
  const { msg } = await server.serving.logged({ session: 1, msg: /^session ends/ });
  t.equal(msg, ends);
});

for (const does of ['works-unasked', 'awaits-a-call']) {
  t.test(`a cut network, and a guest that ${does}`, { skip, timeout: 100_000 }, async (t) => {
    const server = await serve(t);
    const guest = await startGuest(does, server);
    cut(t);
    guest.process.stdin.write('go on\n');
    // It makes no call any more: the library's own threads wait.
    while (!lost.test(guest.said)) await once(guest.process.stderr, 'data');
    guest.process.stdin.end('end\n');
    await guest.ended;
    t.notMatch(guest.out, /^called$/m);
    const { msg } = await server.serving.logged({ session: 1, msg: /^session ends/ });
    t.equal(msg, ends);
  });
}

t.test(
  'a cut network with data of the server on its way',
  { skip, timeout: 100_000 },
  async (t) => {
    const server = await serve(t);
    const guest = await startGuest('takes-much', server);
    // The window is shut, as the guest takes nothing.
    const [pid] = execFileSync('ip', ['netns', 'pids', space], { encoding: 'utf8' }).split('\n');
    process.kill(Number(pid), 'SIGSTOP');
    cut(t);
    const { msg } = await server.serving.logged({ session: 1, msg: /^session ends/ });
    t.equal(msg, ends);
    process.kill(Number(pid), 'SIGCONT');
    await guest.ended;
    t.match(guest.out, /^cuMemcpyDtoH_v2 CUDA_ERROR_DEVICE_UNAVAILABLE$/m);
    t.match(guest.said, lost);
  },
);
