// A server of instances in MIG mode, and of GPUs in other compute modes than the usual one: the software
// device has them by traits, and machines of several kinds by a file of settings.
import { execFileSync } from 'node:child_process';
import { symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { build } from '../../../bin/paths.mjs';
import { uuidOf } from '../../src/devices/devices.js';
import { asking, Guest } from '../support/guest.js';
import { outboard, Serving } from '../support/serving.js';

const whole = 'GPU-50f7de71-ce00-4c50-955d-0ec0de000000';
const second = 'GPU-52f7de71-ce00-4c50-955d-0ec0de000002';
const small = 'MIG-5100de71-ce00-4c50-955d-0ec0de000101';
const large = 'MIG-5101de71-ce00-4c50-955d-0ec0de000201';
const parted = 'GPU-51f7de71-ce00-4c50-955d-0ec0de000001';

const parts = (instances: string) => `
memory = 8G
[device]
name = First
[device]
name = Parted
mig = ${instances}
[device]
name = Third
[device]
name = Empty
mig = none
`;

/** Two whole GPUs, one with two instances, and one that has none. */
function machine(t: Test) {
  const SOFTWARE_DEVICE_CONFIG = path.join(t.testdir({ machine: parts('1g+2g') }), 'machine');
  return { SOFTWARE_DEVICE_CONFIG };
}

const ended = async (t: Test, env: NodeJS.ProcessEnv, args: string[] = []) => {
  const serving = Serving.launch(t, args, env);
  t.equal(await serving.exit, 3);
  return serving.lines.find(({ level }) => level === 60);
};

const one = ['--servers-per-gpu', '1'];
const four = ['--gpus', '4', ...one];
const GiB = 2 ** 30;

t.test('instances are devices of their own beside whole GPUs', async (t) => {
  const serving = await Serving.start(t, four, machine(t));
  const { gpus, server } = await serving.state();
  t.same(
    gpus.map(({ index, name, uuid, memory, pciBusId, healthy }) => [
      ...[index, name, uuid, memory.total / GiB, pciBusId, healthy],
    ]),
    [
      [0, 'First', whole, 8, '0000:01:00.0', true],
      [1, 'Third', second, 8, '0000:03:00.0', true],
      [2, 'Parted MIG 1g.1gb', small, 1, '0000:02:00.0', true],
      [3, 'Parted MIG 2g.2gb', large, 2, '0000:02:00.0', true],
    ],
  );
  t.equal(server.device, 'software');
  await serving.logged({ level: 40, code: 'OB_MIG_EMPTY', msg: /^GPU-53f7.* has no instances$/ });

  // A session on each, with the UUID that the driver says, and the GPU of an instance.
  const guests = [0, 1, 2, 3].map(() => Guest.hello(serving.address, { memory: 64n << 20n }));
  const welcomes = await Promise.all(guests.map((guest) => guest.welcome()));
  const devices = welcomes.flatMap(({ devices }) => devices);
  t.same(new Set(devices.map(uuidOf)), new Set([whole, second, small, large]));
  const gpuOf = (wanted: string) => devices.find((one) => uuidOf(one) === wanted)?.gpuUuid;
  t.equal(uuidOf({ uuid: gpuOf(small) ?? [] }), parted);
  t.equal(uuidOf({ uuid: gpuOf(large) ?? [] }), parted);
  t.notOk(gpuOf(whole)?.length);
  const waiting = Guest.hello(serving.address);
  t.equal(await waiting.position(), 1, 'all are taken');
  await waiting.leave();
  // What they are asked for is metered for each by itself.
  const { sessions } = await serving.state();
  t.same(new Set(sessions.map(({ uuid }) => uuid)), new Set([whole, second, small, large]));
  for (const guest of guests) await guest.leave();

  const report = await Guest.hello(serving.address, { ...asking(), devices: 4 }).report();
  t.same(report.devices.map(uuidOf), [whole, second, small, large]);

  const api = ['--api', serving.http];
  const cli = (...args: string[]) =>
    execFileSync(process.execPath, [outboard, ...args], { encoding: 'utf8' });
  t.match(cli('device', ...api), new RegExp(`Parted MIG 1g\\.1gb +${small}`));
  t.match(cli('status', ...api), /Parted MIG 2g\.2gb/);
  const { host, port } = serving.address as { host: string; port: number };
  t.match(cli('doctor', '--server', `${host}:${port}`, '--gpus', '4'), /Parted MIG 2g\.2gb/);
  const metrics = await (await fetch(`${serving.http}metrics`)).text();
  t.match(metrics, new RegExp(`UUID="${large}",modelName="Parted MIG 2g.2gb"`));
});

t.test('only whole GPUs are peers', async (t) => {
  const serving = await Serving.start(t, four, machine(t));
  const guest = Guest.hello(serving.address, { devices: 4, memory: 64n << 20n });
  const welcome = await guest.welcome();
  const others = (welcome.tickets ?? []).map((ticket) => Guest.hello(serving.address, { ticket }));
  const all = [welcome, ...(await Promise.all(others.map((other) => other.welcome())))];
  const peers = all.flatMap(({ devices }) =>
    devices.map((device) => [uuidOf(device), (device.peers ?? []).map(uuidOf)] as const),
  );
  t.same(
    new Map(peers),
    new Map<string, string[]>([
      [whole, [second]],
      [second, [whole]],
      [small, []],
      [large, []],
    ]),
  );
  for (const one of [guest, ...others]) await one.leave();
});

t.test('an instance is destroyed while others are served', async (t) => {
  const env = machine(t);
  const serving = await Serving.start(t, four, env);
  const guests = [0, 1, 2, 3].map(() => Guest.hello(serving.address, { memory: 64n << 20n }));
  await Promise.all(guests.map((guest) => guest.welcome()));
  const before = await serving.state();
  const pid = before.gpus[3]?.slots[0]?.pid;
  writeFileSync(env.SOFTWARE_DEVICE_CONFIG, parts('1g'));
  process.kill(pid ?? 0, 'SIGKILL');
  const { msg } = await serving.logged({ level: 50, code: 'OB_DEVICE_GONE', slot: '3.0' });
  t.match(msg, /^GPU 3 is not there any more: the driver has no device 5101de71-/);
  await serving.logged({ level: 50, slot: '3.0', msg: /tried again in/ });
  const after = await serving.state();
  t.match(after.gpus, [
    { healthy: true },
    { healthy: true },
    { healthy: true },
    { healthy: false, problem: msg },
  ]);
  t.equal(after.sessions.length, 3, 'the other sessions go on');
  const next = Guest.hello(serving.address);
  t.equal(await next.position(), 1, 'nobody is placed there');
  await next.leave();
  // Made anew under the same UUID it is used again.
  writeFileSync(env.SOFTWARE_DEVICE_CONFIG, parts('1g+2g'));
  const again = Guest.hello(serving.address, { memory: 64n << 20n });
  t.same((await again.welcome()).devices.map(uuidOf), [large]);
  for (const guest of [...guests, again]) await guest.leave();
});

t.test('which instances there are, from the NVML of the driver', async (t) => {
  // The software device under NVIDIA's names.
  const folder = t.testdir({});
  const device = path.join(build, 'software-device');
  symlinkSync(path.join(device, 'libcuda.so.1'), path.join(folder, 'libcuda.so.1'));
  symlinkSync(path.join(device, 'software-device-nvml.so'), path.join(folder, 'libnvidia-ml.so.1'));
  const config = path.join(folder, 'machine');
  writeFileSync(config, parts('1g+2g'));
  const env = { SOFTWARE_DEVICE_CONFIG: config, LD_LIBRARY_PATH: folder };
  const offered = (choice: string, more: NodeJS.ProcessEnv = {}) => {
    const args = [outboard, 'device', '--probe', '--json', '--device', choice];
    const text = execFileSync(process.execPath, args, {
      encoding: 'utf8',
      env: { ...process.env, ...env, ...more },
    });
    return JSON.parse(text);
  };
  const all = [whole, second, small, large];
  for (const choice of ['nvidia', 'auto']) {
    const { kind, devices, left } = offered(choice);
    t.equal(kind, 'nvidia');
    t.same(
      devices.map(({ uuid }: { uuid: string }) => uuid),
      all,
    );
    t.match(left, [{ code: 'OB_MIG_EMPTY' }]);
  }
  t.match(offered('nvidia', { CUDA_VISIBLE_DEVICES: `2,${large}` }), {
    devices: [
      { uuid: second, gpuUuid: null },
      { uuid: large, gpuUuid: parted },
    ],
    left: [],
  });
  const serving = await Serving.start(
    t,
    ['serve', '--listen', '127.0.0.1:0', '--http', '127.0.0.1:0', '--device', 'nvidia', ...one],
    env,
  );
  t.same(
    (await serving.state()).gpus.map(({ uuid }) => uuid),
    all,
  );
});

t.test('instances that there are not', async (t) => {
  const none = { SOFTWARE_DEVICE_TRAITS: 'mig=none' };
  t.match(await ended(t, none), { code: 'OB_MIG_EMPTY', remedy: /nvidia-smi mig -cgi/ });
  const unknown = { SOFTWARE_DEVICE_TRAITS: 'mig=1g', CUDA_VISIBLE_DEVICES: large };
  const { code, msg } = (await ended(t, unknown)) ?? {};
  t.equal(code, 'OB_MIG_UNKNOWN');
  t.equal(
    msg,
    `CUDA_VISIBLE_DEVICES names ${large}, and this machine has other instances: MIG-5000de71-ce00-4c50-955d-0ec0de000100`,
  );
  const few = { SOFTWARE_DEVICE_TRAITS: 'mig=1g,prohibited' };
  t.match(await ended(t, few), {
    code: 'OB_DEVICE_PROHIBITED',
    msg: /^MIG-5000.* is in prohibited/,
  });
});

t.test('a GPU in exclusive-process mode has one slot', async (t) => {
  const SOFTWARE_DEVICE_TRAITS = `exclusive-process=${path.join(t.testdir({}), 'device')}`;
  const serving = await Serving.start(t, ['--gpus', '2', '--servers-per-gpu', '2'], {
    SOFTWARE_DEVICE_TRAITS,
  });
  const { gpus } = await serving.state();
  t.same(
    gpus.map(({ slots }) => slots.length),
    [1, 1],
  );
  const [{ memory } = { memory: { usual: 0, sessions: 1 } }] = gpus;
  t.equal(memory.usual, memory.sessions, 'whose session has all of it');
  const guests = [0, 1].map(() => Guest.hello(serving.address, { memory: 64n << 20n }));
  for (const guest of guests) await guest.welcome();
  const third = Guest.hello(serving.address, { memory: 64n << 20n });
  t.equal(await third.position(), 1);
  await guests[0]?.leave();
  await third.welcome();
  for (const guest of [...guests, third]) await guest.leave();
});

t.test('another process has a GPU in that mode', async (t) => {
  const SOFTWARE_DEVICE_TRAITS = `exclusive-process=${path.join(t.testdir({}), 'device')}`;
  const env = { SOFTWARE_DEVICE_TRAITS };
  const other = await Serving.start(t, ['--gpus', '1'], env);
  t.match(await ended(t, env), {
    code: 'OB_DEVICE_HELD',
    msg: 'GPU 0 is in exclusive-process mode, and another process has it',
    remedy: /nvidia-smi -i GPU -c 0/,
  });
  // Others are served without it, and it is when it is let go.
  const serving = await Serving.start(t, ['--gpus', '2'], env);
  await serving.logged({ level: 50, code: 'OB_DEVICE_HELD', slot: '0.0' });
  const { gpus } = await serving.state();
  t.match(gpus, [{ healthy: false, problem: /another process has it/ }, { healthy: true }]);
  t.equal(gpus[0]?.uuid, whole, 'it is named all the same');
  const guest = Guest.hello(serving.address);
  t.not(uuidOf((await guest.welcome()).devices[0] ?? { uuid: [] }), whole);
  const next = Guest.hello(serving.address);
  t.equal(await next.position(), 1);
  await other.stop();
  t.equal(uuidOf((await next.welcome()).devices[0] ?? { uuid: [] }), whole);
  await serving.logged({ msg: 'the GPU is there now', gpu: 0 });
  t.match((await serving.state()).gpus, [{ healthy: true, problem: null }, { healthy: true }]);
  for (const one of [guest, next]) await one.leave();
});

t.test('a GPU that comes later and is too small', async (t) => {
  const folder = t.testdir({ machine: '[device]\nmemory = 2M\n[device]\n' });
  const SOFTWARE_DEVICE_TRAITS = `exclusive-process=${path.join(folder, 'device')}`;
  const other = await Serving.start(t, ['--gpus', '1'], { SOFTWARE_DEVICE_TRAITS });
  const SOFTWARE_DEVICE_CONFIG = path.join(folder, 'machine');
  const env = { SOFTWARE_DEVICE_TRAITS, SOFTWARE_DEVICE_CONFIG };
  const serving = await Serving.start(t, ['--gpus', '2'], env);
  await other.stop();
  const { msg } = await serving.logged({ level: 50, code: 'OB_DEVICE_SMALL', gpu: 0 });
  t.match((await serving.state()).gpus, [{ healthy: false, problem: msg }, { healthy: true }]);
  const guests = [0, 1].map(() => Guest.hello(serving.address));
  await guests[0]?.welcome();
  t.equal(await guests[1]?.position(), 1, 'nobody is placed there');
  for (const guest of guests) await guest.leave();
});

t.test('nobody may use a GPU in prohibited mode', async (t) => {
  const env = { SOFTWARE_DEVICE_TRAITS: 'prohibited' };
  t.match(await ended(t, env), { code: 'OB_DEVICE_PROHIBITED', remedy: /nvidia-smi -i GPU -c 0/ });
});
