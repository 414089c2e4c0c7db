// A network that is cut without a word, between two network namespaces: frames go to an address that
// nobody has. Either side notices it by itself and says what it was.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import t from 'tap';
import { build } from '../../scripts/setup/paths.mjs';
import { Serving } from './support/serving.js';

const space = `outboard-${process.pid}`;
const [here, there] = [`ob${process.pid}a`.slice(-15), `ob${process.pid}b`.slice(-15)];
const network = `10.${200 + (process.pid % 50)}.${(process.pid >> 6) % 250}`;

function ip(...args: string[]) {
  execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

function connectSpaces(): string | false {
  try {
    ip('netns', 'add', space);
    ip('link', 'add', here, 'type', 'veth', 'peer', 'name', there, 'netns', space);
    ip('addr', 'add', `${network}.1/24`, 'dev', here);
    ip('link', 'set', here, 'up');
    ip('-n', space, 'addr', 'add', `${network}.2/24`, 'dev', there);
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

t.test('a cut network', { skip, timeout: 100_000 }, async (t) => {
  const tenants = path.join(t.testdir({}), 'tenants.yaml');
  const add = ['tenant', 'add', 'acme', '--tenants', tenants];
  const outboard = path.join(build, '..', 'bin', 'outboard.mjs');
  const token = execFileSync(process.execPath, [outboard, ...add], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }).trim();
  const seconds = { OUTBOARD_NETWORK_TIMEOUT: '2' };
  const usual = ['--http', 'none', '--device', 'software', '--grace', '0', '--tenants', tenants];
  const serving = await Serving.start(
    t,
    ['serve', '--listen', `${network}.1:0`, ...usual, '--servers-per-gpu', '1'],
    seconds,
  );
  const client = path.join(build, 'guest-lib', 'test', 'guest-client');
  const guest = spawn('ip', ['netns', 'exec', space, client, 'server-dies'], {
    env: {
      ...process.env,
      ...seconds,
      LD_LIBRARY_PATH: path.join(build, 'guest-lib'),
      OUTBOARD_SERVER: `${network}.1:${serving.address.port}`,
      OUTBOARD_TOKEN: token,
      OUTBOARD_NOTICES: '/dev/null',
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let out = '';
  let said = '';
  guest.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  guest.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const ended = once(guest, 'close');
  while (!/^ready$/m.test(out)) await once(guest.stdout, 'data');

  const nobody = ['lladdr', '02:00:00:00:00:99', 'nud', 'permanent', 'dev'];
  ip('neigh', 'replace', `${network}.2`, ...nobody, here);
  ip('-n', space, 'neigh', 'replace', `${network}.1`, ...nobody, there);
  const begun = performance.now();
  guest.stdin.end('go on\n');
  await ended;
  t.match(out, /CUDA_ERROR_DEVICE_UNAVAILABLE/);
  t.match(said, /^outboard: the connection to the server is lost: the network in between is gone/);
  const { msg } = await serving.logged({ session: 1, msg: /^session ends/ });
  t.equal(msg, "session ends: network lost: nothing comes from the guest's machine any more");
  t.ok(performance.now() - begun < 60_000, 'and not after a quarter of an hour');
});
