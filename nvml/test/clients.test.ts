// nvidia-ml-py, unpatched, against a real server: before and during a session of the same tenant,
// beside what CUDA says in that session, and beside another tenant's.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { build, cli, nvmlLibrary, root } from '../../test/support/paths.js';
import { startServer } from '../../test/support/server.js';

const folder = path.join(build, 'nvml-client');
const python = path.join(folder, 'bin', 'python');
const skip = existsSync(path.join(folder, 'outboard-packages.txt'))
  ? false
  : 'nvidia-ml-py is not installed';

interface Device {
  name: string;
  uuid: string;
  pci: string;
  total: number;
  used: number;
  processes: { pid: number; memory: number; name: string }[];
}

interface Look {
  error?: string;
  driver: string;
  cuda: number;
  devices: Device[];
}

interface View {
  pid: number;
  cuda: number;
  devices: { name: string; uuid: string; pci: string }[];
  total: number;
  used: number;
  /** Used on each of the devices. */
  memory: number[];
}

interface Both {
  before: Look;
  attached: { cuda: View; nvml: Look };
  cuda: View;
  nvml: Look;
}

/** A script that answers each line with a line of JSON. */
class Asked<T> {
  readonly child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #ended: Promise<unknown>;
  #stderr = '';

  constructor(script: string, env: Record<string, string>) {
    this.child = spawn(python, [path.join(root, 'nvml', 'test', 'clients', script)], {
      env: {
        ...process.env,
        LD_LIBRARY_PATH: path.dirname(nvmlLibrary),
        PYTHONNOUSERSITE: '1',
        PYTHONPYCACHEPREFIX: path.join(folder, 'pycache'),
        ...env,
      },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#ended = once(this.child, 'exit');
    const { stdout, stderr } = this.child;
    if (!stdout || !stderr) throw new Error('no pipes');
    stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    this.#lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  }

  async ask(): Promise<T> {
    this.child.stdin?.write('\n');
    const { value, done } = await this.#lines.next();
    if (done) throw new Error(`it ended:\n${this.#stderr}`);
    return JSON.parse(value) as T;
  }

  async end() {
    this.child.stdin?.end();
    await this.#ended;
  }
}

async function look(env: Record<string, string>): Promise<Look> {
  const asked = new Asked<Look>('look.py', env);
  const seen = await asked.ask();
  await asked.end();
  return seen;
}

/** Asks again and again until it is so: the monitor hears of a session's memory each second. */
async function until(asked: Asked<Look>, so: (device: Device | undefined) => boolean) {
  for (;;) {
    const seen = await asked.ask();
    if (so(seen.devices[0])) return seen;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const busId = (text: string) => text.toLowerCase().replace(/^0+(?=[0-9a-f]{4}:)/, '');
const allocated = 64 << 20;

t.test('before, during and after a session, and what CUDA says in it', { skip }, async (t) => {
  const server = await startServer({
    args: ['--device', 'software', '--gpus', '2', '--servers-per-gpu', '1'],
  });
  t.teardown(() => server.stop());
  const env = { OUTBOARD_SERVER: server.address };
  const observer = new Asked<Look>('look.py', { ...env, OUTBOARD_MEMORY: '256M' });
  t.teardown(() => observer.end());

  const before = await observer.ask();
  t.match(before.devices, [{ used: 0, total: 256 << 20, processes: [], graphics: 0 }]);
  t.match(before.devices, [{ temperature: null, power: null, fan: null, mig: null }]);
  t.match(await look({ ...env, OUTBOARD_GPUS: '2' }), { devices: [{}, {}] });

  const session = new Asked<Both>('session.py', { ...env, OUTBOARD_MEMORY: '256M' });
  t.teardown(() => session.end());
  const told = await session.ask();
  t.equal(told.before.devices.length, told.cuda.devices.length, 'known before there is a session');
  for (const { cuda, nvml } of [told.attached, told]) {
    t.equal(nvml.devices.length, cuda.devices.length);
    t.equal(nvml.cuda, cuda.cuda);
    const [ofCuda] = cuda.devices;
    const [ofNvml] = nvml.devices;
    t.equal(ofNvml?.name, ofCuda?.name);
    t.equal(ofNvml?.uuid, ofCuda?.uuid);
    t.equal(busId(ofNvml?.pci ?? ''), busId(ofCuda?.pci ?? ''));
    t.equal(ofNvml?.total, cuda.total);
    t.equal(ofNvml?.used, cuda.used, 'at once, and to the byte');
    t.match(ofNvml?.processes, [{ pid: cuda.pid, memory: cuda.used, name: 'session.py' }]);
  }
  t.ok(told.cuda.used >= allocated);
  t.ok(told.attached.cuda.used < allocated);

  const during = await until(observer, (device) => (device?.used ?? 0) >= allocated);
  const [seen] = during.devices;
  t.equal(seen?.uuid, told.cuda.devices[0]?.uuid);
  t.equal(seen?.total, told.cuda.total);
  t.equal(seen?.used, told.cuda.used);
  t.match(seen?.processes, [{ pid: told.cuda.pid, memory: told.cuda.used, name: 'session.py' }]);
  t.notMatch(seen?.processes[0]?.name, hostname(), 'it is on this machine');

  const hidden = await look({ ...env, CUDA_VISIBLE_DEVICES: '' });
  t.equal(hidden.devices.length, 1, 'which is a matter of CUDA, and not of NVML');
  await session.end();
  const after = await until(observer, (device) => device?.processes.length === 0);
  t.match(after.devices, [{ used: 0 }]);
});

t.test('an instance of a GPU in MIG mode', { skip }, async (t) => {
  const server = await startServer({
    args: ['--device', 'software', '--servers-per-gpu', '1'],
    env: { SOFTWARE_DEVICE_TRAITS: 'mig=2g', SOFTWARE_DEVICE_MEMORY: '16G' },
  });
  t.teardown(() => server.stop());
  const session = new Asked<Both>('session.py', { OUTBOARD_SERVER: server.address });
  t.teardown(() => session.end());
  const { before, cuda, nvml } = await session.ask();
  const instance = {
    name: 'Software Device MIG 2g.4gb',
    uuid: 'MIG-5000de71-ce00-4c50-955d-0ec0de000100',
  };
  for (const { devices } of [before, cuda, nvml]) t.match(devices, [instance]);
  await session.end();
});

t.test('devices of several servers, numbered as CUDA does', { skip }, async (t) => {
  const pair = await startServer({
    args: ['--device', 'software', '--gpus', '2', '--servers-per-gpu', '1'],
  });
  const other = await startServer();
  t.teardown(() => Promise.all([pair.stop(), other.stop()]));
  const both = `${pair.address},${other.address}`;
  const env = { OUTBOARD_SERVER: both, OUTBOARD_GPUS: '3', OUTBOARD_MEMORY: '256M' };
  t.match(await look(env), { devices: [{ used: 0 }, { used: 0 }, { used: 0 }] });
  t.equal((await look({ ...env, OUTBOARD_GPUS: '1' })).devices.length, 1);
  const spare = { ...env, OUTBOARD_SERVER: `127.0.0.1:1,${both}`, OUTBOARD_GPUS: '2' };
  t.equal((await look(spare)).devices.length, 2, 'who cannot be had is stood in for');

  const somebody = new Asked<Both>('session.py', { OUTBOARD_SERVER: other.address });
  t.teardown(() => somebody.end());
  const elsewhere = await somebody.ask();
  const session = new Asked<Both>('session.py', env);
  t.teardown(() => session.end());
  const told = await session.ask();
  t.equal(told.before.devices.length, 3);
  for (const { cuda, nvml } of [told.attached, told]) {
    t.equal(nvml.devices.length, 3);
    for (const [i, ofCuda] of cuda.devices.entries()) {
      const ofNvml = nvml.devices[i];
      t.equal(ofNvml?.name, ofCuda.name);
      t.equal(ofNvml?.uuid, ofCuda.uuid);
      t.equal(busId(ofNvml?.pci ?? ''), busId(ofCuda.pci));
      t.equal(ofNvml?.total, cuda.total);
      t.equal(ofNvml?.used, cuda.memory[i], 'of each, at once');
      const own = ofNvml?.processes.filter(({ pid }) => pid === cuda.pid);
      t.match(own, [{ memory: cuda.memory[i], name: 'session.py' }]);
    }
  }
  t.equal(new Set(told.cuda.memory).size, 3);
  const processes = told.nvml.devices.map(({ processes }) => processes.length);
  t.same(processes, [1, 1, 2], 'another program is on the last');
  const last = told.nvml.devices[2]?.processes.map(({ pid }) => pid);
  t.same(new Set(last), new Set([told.cuda.pid, elsewhere.cuda.pid]));

  await other.stop();
  const after = new Asked<Look>('look.py', env);
  t.same(await after.ask(), { error: 'NVMLError_DriverNotLoaded' }, 'as cuInit would fail');
  await after.end();
});

t.test('tenants see their own, and nobody else sees anything', { skip }, async (t) => {
  const file = path.join(t.testdir(), 'tenants.yaml');
  const add = (name: string) =>
    execFileSync(process.execPath, [cli, 'tenant', 'add', name, '--tenants', file], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  const [ours, theirs] = [add('ours'), add('theirs')];
  const server = await startServer({
    args: ['--device', 'software', '--gpus', '1', '--servers-per-gpu', '2', '--tenants', file],
  });
  t.teardown(() => server.stop());
  const log = path.join(t.testdir(), 'log');
  const env = { OUTBOARD_SERVER: server.address, OUTBOARD_LOG: `error:${log}` };

  const session = new Asked<Both>('session.py', { ...env, OUTBOARD_TOKEN: ours });
  t.teardown(() => session.end());
  const { cuda } = await session.ask();
  const observer = new Asked<Look>('look.py', { ...env, OUTBOARD_TOKEN: ours });
  t.teardown(() => observer.end());
  const seen = await until(observer, (device) => (device?.used ?? 0) >= allocated);
  t.match(seen.devices, [{ processes: [{ pid: cuda.pid, memory: cuda.used }] }]);
  const unseen = await look({ ...env, OUTBOARD_TOKEN: theirs });
  t.match(unseen.devices, [{ uuid: seen.devices[0]?.uuid, used: 0, busy: 0, processes: [] }]);
  t.notOk(existsSync(log) && readFileSync(log, 'utf8'), 'nothing to complain about');

  t.same(await look({ ...env, OUTBOARD_TOKEN: 'wrong' }), { error: 'NVMLError_NoPermission' });
  const lines = readFileSync(log, 'utf8').trim().split('\n');
  t.equal(lines.length, 1);
  t.match(lines[0], /the server refused \(OB_TOKEN_UNKNOWN\): no tenant of this server has/);
});

t.test('no server', { skip }, async (t) => {
  const log = path.join(t.testdir(), 'log');
  const env = { OUTBOARD_SERVER: '127.0.0.1:1', OUTBOARD_LOG: `error:${log}` };
  t.same(await look(env), { error: 'NVMLError_DriverNotLoaded' });
  const lines = readFileSync(log, 'utf8').trim().split('\n');
  t.equal(lines.length, 1);
  t.match(lines[0], /no connection to 127\.0\.0\.1:1: Connection refused/);
});
