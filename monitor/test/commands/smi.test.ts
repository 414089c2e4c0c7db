// `outboard smi`, as guests and operators see it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import t from 'tap';
import { encodeAnswer } from '../../../api-server/src/control.js';
import { smiCsv, smiFields, smiLines } from '../../src/cli/smi.js';
import { formatAddress } from '../../src/options/values.js';
import { TestApi } from '../support/api.js';
import { Guest } from '../support/guest.js';
import { outboard, Serving } from '../support/serving.js';

async function smi(args: string[], env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, [outboard, 'smi', ...args], {
    env: { ...process.env, ...env },
  });
  const parts = [child.stdout, child.stderr].map((stream) => stream.setEncoding('utf8').toArray());
  const [[status], stdout, stderr] = await Promise.all([once(child, 'close'), ...parts]);
  return { status, stdout: (stdout as string[]).join(''), stderr: (stderr as string[]).join('') };
}

t.test('an operator sees all, with what NVML says', async (t) => {
  const api = await TestApi.start(t);
  const { status, stdout } = await smi(['--api', api.url]);
  t.equal(status, 0);
  const lines = stdout.trimEnd().split('\n');
  t.same([...new Set(lines.filter(Boolean).map((line) => line.length))], [91], 'a frame');
  t.match(lines[1], /^\| Outboard 0\.1\.0 {3}http:.* Driver 580\.65\.06 +\|$/);
  t.match(stdout, /^\| +0 {2}Software Device +0000:00:00\.0 \|$/m);
  t.match(stdout, /^\| +N\/A +45C +123W \/ 700W +1\.0 GiB \/ 7\.0 GiB +55% +\|$/m);
  t.match(stdout, /^\| +N\/A +N\/A +N\/A \/ N\/A +1\.0 GiB \/ 7\.0 GiB +55% +\|$/m);
  t.match(stdout, /^\| +0 +1 +worker-7:4242 +resize +1\.0 GiB +29% \|$/m);
  const query = ['--query', 'index,uuid,temperature.gpu,power.draw,memory.used,utilization.gpu'];
  t.equal(
    (await smi(['--api', api.url, ...query, '--format', 'csv'])).stdout,
    'index, uuid, temperature.gpu, power.draw [W], memory.used [MiB], utilization.gpu [%]\n' +
      '0, GPU-00000000-0000-0000-0000-000000000000, 45, 123.46 W, 1024 MiB, 55 %\n' +
      '1, GPU-00000000-0000-0000-0000-000000000001, [N/A], [N/A], 1024 MiB, 55 %\n',
  );
  const bare = await smi(['--api', api.url, ...query, '--format', 'csv,noheader,nounits']);
  t.match(bare.stdout, /^0, GPU-\S+, 45, 123\.46, 1024, 55\n1, /);
  const json = JSON.parse((await smi(['--api', api.url, '--json'])).stdout);
  t.match(json, {
    gpus: [{ index: 0, power: 123_456 }, { index: 1 }],
    processes: [{ session: 1 }],
  });
});

t.test('a guest sees what it has or would get, and its own sessions', async (t) => {
  const serving = await Serving.start(t, ['--gpus', '2', '--servers-per-gpu', '1']);
  const server = ['--server', formatAddress(serving.address)];
  const nothing = await smi(server);
  t.match(nothing, { status: 0, stderr: '' });
  t.match(nothing.stdout, /^\| Outboard \d.* CUDA \d+\.\d +\|$/m);
  t.match(nothing.stdout, /no sessions/);
  const guest = Guest.hello(serving.address, { program: 'train.py', host: 'worker', pid: 77 });
  await guest.welcome();
  const { stdout } = await smi(server);
  t.match(stdout, /^\| +\d +1 +worker:77 +train\.py /m);
  const csv = await smi([...server, '--query', 'index,name,temperature.gpu']);
  t.match(csv.stdout, /^index, name, temperature\.gpu\n0, Software Device, \[N\/A\]\n1, /);
  await guest.leave();

  const operator = { OUTBOARD_API: 'http://127.0.0.1:1' };
  t.match(await smi(server, operator), nothing, 'an option is more than a variable');
  const both = await smi([...server, '--api', '127.0.0.1:1']);
  t.match(both, { status: 3, stderr: /no outboard server answers at http:\/\/127\.0\.0\.1:1/ });
});

t.test('mistakes', async (t) => {
  t.match(await smi(['--server', '127.0.0.1:1']), {
    status: 3,
    stdout: '',
    stderr: /^outboard: no connection to 127\.0\.0\.1:1: nobody listens there\nSee whether/,
  });
  t.match(await smi(['--query', 'colour']), {
    status: 2,
    stderr: /no field colour; there are index/,
  });
  t.match(await smi(['--format', 'xml']), { status: 2, stderr: /expected csv/ });
});

t.test('a server’s words lead no terminal', async (t) => {
  const refusal = { code: 'OB_TEST', sentence: 'a\x1b[2Jb', remedy: 'c\nd', result: 0 };
  const server = createServer((socket) => {
    socket.once('data', () => socket.end(encodeAnswer({ refusal })));
  }).listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const { status, stderr } = await smi(['--server', `127.0.0.1:${port}`]);
  t.equal(status, 3);
  t.match(stderr, /a\?\[2Jb/);
  t.match(stderr, /c\?d/);
  t.notMatch(stderr, '\x1b');
});

t.test('names of guests stay in the frame', async (t) => {
  const gpu = {
    ...{ index: 0, name: 'A GPU', uuid: 'GPU-0', pciBusId: '0', computeCapability: null },
    ...{ driver: null, memoryTotal: 0, memoryUsed: 0, busy: null, temperature: null },
    ...{ power: null, powerLimit: null, fanSpeed: null },
  };
  const process = {
    ...{ gpu: 0, session: 1, host: 'h'.repeat(99), pid: 1, memory: 0, busy: null },
    name: `\x1b[2J${'n'.repeat(99)}`,
  };
  const lines = smiLines({ head: 'x'.repeat(200), gpus: [gpu], processes: [process] });
  t.ok(lines.every((line) => line === '' || [...line].length === 91));
  t.notMatch(lines.join(''), '\x1b');
  const [row] = smiCsv([gpu], Object.keys(smiFields), { header: false, units: true });
  t.match(row, /^0, A GPU, GPU-0, 0, \[N\/A\], /);
});
