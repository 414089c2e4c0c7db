// A first day on a GPU, as far as it shows without one: what it says where it cannot run or not go on, and that it goes on
// where it was cut. test/package/test/gpu-day.test.ts runs more of it, from a bundle.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { build, js, root } from '../../bin/paths.mjs';
import { which } from '../../scripts/setup/command.mjs';
import { isRoot } from '../../test/package/machine.js';
import { notBuilt, softwareDevice } from '../../test/support/paths.js';
import { type Outcome, outcome } from '../../test/support/program.js';
import { Day } from '../gpu-day/day.js';
import { DayError } from '../gpu-day/day-error.js';
import { instanceOf, mustBeFree, mustBeUsable } from '../gpu-day/driver.js';
import { allGroups } from '../gpu-day/groups/all.js';
import { inTwoProcesses } from '../gpu-day/groups/probes.js';
import { page } from '../gpu-day/page.js';
import { Processes } from '../gpu-day/processes.js';
import { type Results, read } from '../gpu-day/results.js';

const skip = notBuilt(
  'api-server/executor.node',
  'bench/gpu-day-probe',
  'guest-lib/libcuda.so.1',
  'software-device/libcuda.so.1',
);
const main = path.join(js, 'bench', 'gpu-day', 'main.js');

interface Place {
  out: string;
  /** The only folder for what is temporary. */
  temporary: string;
}

function start({ out, temporary }: Place, args: string[], env: NodeJS.ProcessEnv = {}) {
  return spawn(process.execPath, [main, '--out', out, ...args], {
    env: { ...process.env, TMPDIR: temporary, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

const day = (place: Place, args: string[], env?: NodeJS.ProcessEnv): Promise<Outcome> =>
  outcome(start(place, args, env));

function placeFor(t: Pick<Test, 'testdir'>): Place {
  const folder = t.testdir({ out: {}, temporary: {} });
  return { out: path.join(folder, 'out'), temporary: path.join(folder, 'temporary') };
}

const resultsOf = ({ out }: Place) => read(path.join(out, 'results.json')) as Results;

/** Until so many steps are done. */
async function until(place: Place, steps: number, child: ChildProcess) {
  const there = () =>
    existsSync(path.join(place.out, 'results.json')) &&
    Object.keys(resultsOf(place).steps).length >= steps;
  while (!there() && child.exitCode === null)
    await new Promise((resolve) => setTimeout(resolve, 20));
}

t.test('a driver that cannot be used: a sentence with its remedy', async (t) => {
  const thrown = (use: () => void): string => {
    try {
      use();
    } catch (error) {
      if (error instanceof DayError) return error.sentence;
    }
    return '';
  };
  const old = thrown(() => mustBeUsable('libcuda.so.1', { version: 12_020, name: 'A GPU' }));
  t.match(old, /^The driver libcuda.so.1 is of CUDA 12.2, which is too old.\nInstall .* 550 /);
  t.equal(
    thrown(() => mustBeUsable('libcuda.so.1', { version: 12_040 })),
    '',
  );
  const none = { version: 13_000, what: 'init', error: 'cuInit: CUDA_ERROR_NO_DEVICE' };
  t.match(
    thrown(() => mustBeUsable('x', none)),
    /cannot be used: cuInit: .*\nSee `nvidia-smi`/,
  );
  const broken = thrown(() =>
    mustBeFree({ name: 'A GPU' }, { error: 'CUDA_ERROR_ECC_UNCORRECTABLE' }),
  );
  t.match(broken, /^A GPU does not run a first kernel: CUDA_ERROR_ECC.*\nSee `nvidia-smi`/);
  t.match(
    thrown(() => mustBeFree({ name: 'A GPU', 'compute mode': 2 }, { error: 'x' })),
    /prohibited/,
  );
});

t.test('no driver, no such group, no results', { skip, timeout: 60_000 }, async (t) => {
  const place = placeFor(t);
  const nothing = await day(place, ['--device', '/nowhere/libcuda.so.1']);
  t.match(nothing, {
    code: 3,
    stdout: '',
    stderr: /is no driver library: .*\nName a libcuda.so.1/,
  });
  const unknown = await day(place, ['--only', 'nothing']);
  t.match(unknown, { code: 2, stderr: /There is no group nothing. The groups: facts, probes,/ });
  for (const count of ['0', '17', 'some']) {
    const many = await day(place, ['--at-once', count]);
    t.match(many, { code: 2, stderr: `--at-once is a number from 1 to 16, not ${count}.` });
  }
  writeFileSync(path.join(place.out, 'results.json'), '{"half": ');
  const half = await day(place, ['--device', 'software', '--only', 'facts']);
  t.match(half, { code: 3, stderr: /is no results of this command.\nBegin anew with --fresh/ });
  t.same(readdirSync(place.temporary), [], 'nothing is left behind');
});

t.test('a GPU in exclusive mode that somebody else has', { skip, timeout: 60_000 }, async (t) => {
  const place = placeFor(t);
  const env = { SOFTWARE_DEVICE_TRAITS: `exclusive-process=${path.join(place.temporary, 'mine')}` };
  const probe = path.join(build, 'bench', 'gpu-day-probe');
  const options = { env: { ...process.env, ...env } };
  // Whichever of the two comes first has the device, so the holder is started again where it came second.
  for (let taken = false; !taken; ) {
    const holder = spawn(probe, ['waiting', softwareDevice, '60'], { ...options, stdio: 'ignore' });
    t.teardown(() => holder.kill('SIGKILL'));
    while (!taken && holder.exitCode === null)
      taken = (await outcome(spawn(probe, ['alive', softwareDevice], options))).code !== 0;
  }
  const ran = await day(place, ['--device', 'software'], env);
  t.match(ran, { code: 3, stderr: /is in exclusive mode and somebody else has it.\nSee who/ });
});

t.test('an instance of a GPU in MIG mode', { skip, timeout: 60_000 }, async (t) => {
  const place = placeFor(t);
  const env = { SOFTWARE_DEVICE_TRAITS: 'mig=1g+2g', SOFTWARE_DEVICE_MEMORY: '16G' };
  const ran = await day(place, ['--device', 'software', '--only', 'facts'], env);
  t.equal(ran.code, 0, ran.stderr);
  const { steps } = resultsOf(place);
  t.match(steps['facts/device']?.figures, {
    name: 'Software Device MIG 1g.2gb',
    UUID: '5000de71-ce00-4c50-955d-0ec0de000100',
    'UUID by the older call': '50f7de71-ce00-4c50-955d-0ec0de000000',
  });
  t.match(steps['facts/served']?.figures, {
    'served, devices': 2,
    'served, instances (MIG)': 2,
    'served, instances': 'Software Device MIG 1g.2gb, Software Device MIG 2g.4gb',
    'not served': 'nothing',
  });
  // The day is about the one that a process sees by itself, natively and served.
  const facts = { name: 'NVIDIA H100 80GB HBM3 MIG 1g.10gb', UUID: '1-2' };
  t.equal(instanceOf(facts), 'MIG-1-2');
  t.equal(instanceOf({ ...facts, name: 'NVIDIA H100 80GB HBM3' }), null);
});

t.test(
  'it goes on where it was cut, and leaves nothing behind',
  { skip, timeout: 180_000 },
  async (t) => {
    const place = placeFor(t);
    const args = ['--device', 'software', '--only', 'facts,probes'];
    const first = start(place, args);
    const ended = outcome(first);
    await until(place, 3, first);
    first.kill('SIGINT');
    t.match(await ended, { code: 130, stderr: /stopped by SIGINT; the same command goes on/ });
    t.same(readdirSync(place.temporary), [], 'its folder is gone');
    const before = resultsOf(place);
    t.same(before.cut, {}, 'a stop is held against no step');
    const again = await day(place, args);
    const after = resultsOf(place);
    t.same(Object.keys(after.steps).length, 16, again.stderr);
    for (const [name, done] of Object.entries(before.steps)) t.same(after.steps[name], done, name);
    t.same(readdirSync(place.temporary), []);
    t.same(readdirSync(place.out).sort(), ['day.log', 'page.md', 'results.json']);
    t.equal(again.stdout.trim(), readFileSync(path.join(place.out, 'page.md'), 'utf8').trim());
    const other = await day(place, args, { SOFTWARE_DEVICE_TRAITS: 'finite-queue' });
    t.match(other, { code: 3, stderr: /not of such a run.\nBegin anew with --fresh/ });
  },
);

t.test(
  'programs at a time have one server, which ends with the day',
  { skip, timeout: 60_000 },
  async (t) => {
    const driver = {
      kind: 'software',
      library: softwareDevice,
      serve: 'software',
      facts: {},
      instance: null,
    } as const;
    const rest = {
      folder: path.dirname(softwareDevice),
      version: 0,
      exclusive: false,
      traits: null,
    };
    const day = new Day({ ...driver, ...rest }, new Processes(), {
      short: true,
      python: '',
      atOnce: 2,
      serveOptions: [],
      log: '/dev/null',
    });
    const [first, second] = await Promise.all([day.server(), day.server()]);
    t.equal(first, second);
    t.equal(await day.server(), first);
    const runs = () => existsSync(`/proc/${first.pid}`);
    t.ok(runs());
    await day.over();
    t.notOk(runs());
    t.notOk(existsSync(day.folder));
  },
);

t.test(
  'what packages compute natively and remoted is compared',
  { skip, timeout: 60_000 },
  async (t) => {
    const place = placeFor(t);
    const python = path.join(place.out, 'python');
    // Stands for one that has PyTorch, whose result is another remoted.
    const script = `#!/bin/sh
case $1 in
*/torch_step.py) ;;
*) echo "not installed: it"; exit 77 ;;
esac
echo '{"name": "a sum", "result": 1.0000001, "seconds": 0.25}'
echo "{\\"name\\": \\"a product\\", \\"result\\": \${OUTBOARD_SERVER:+2}1, \\"seconds\\": 0.5}"
`;
    writeFileSync(python, script, { mode: 0o755 });
    const args = ['--device', 'software', '--only', 'frameworks', '--python', python];
    const { code, stderr } = await day(place, args);
    t.equal(code, 1, stderr);
    const done = resultsOf(place).steps['frameworks/torch_step'];
    t.same(done?.agrees, ['a sum']);
    t.same(done?.differs, [{ name: 'a product', how: 'natively 1, remoted 21' }]);
    t.equal(done?.figures?.['a product, remoted, ms'], 500);
    const other = resultsOf(place).steps['frameworks/jax_jit'];
    t.same(other?.left, [{ name: 'jax_jit', why: 'not installed: it' }]);
  },
);

t.test('a GPU that is lost in the middle', { skip, timeout: 180_000 }, async (t) => {
  const place = placeFor(t);
  // All that asks the driver fails from then on, as on a GPU that is gone.
  const library = path.join(place.out, 'libcuda.so.1');
  copyFileSync(softwareDevice, library);
  const args = ['--device', library, '--only', 'facts,probes'];
  const run = start(place, args);
  const ended = outcome(run);
  await until(place, 3, run);
  // Not in place: processes that have it mapped would die of that.
  writeFileSync(`${library}.new`, 'gone');
  spawnSync('mv', [`${library}.new`, library]);
  const { code, stderr } = await ended;
  t.equal(code, 3);
  t.match(stderr, /no longer does what it is told, since (facts|probes)\/.*\nSee `nvidia-smi`/);
  const kept = resultsOf(place);
  t.ok(Object.keys(kept.steps).length >= 3, 'what was found before is kept');
  t.ok(Object.values(kept.steps).every(({ differs = [] }) => differs.length === 0));
  copyFileSync(softwareDevice, library);
  const again = await day(place, args);
  t.equal(Object.keys(resultsOf(place).steps).length, 16, again.stderr);
});

const noDisk = !isRoot && 'not root: only root may mount a small disk';

t.test('a disk that is full', { skip: skip || noDisk, timeout: 60_000 }, async (t) => {
  const place = placeFor(t);
  // The first step fills it.
  const script =
    'mount -t tmpfs -o size=8k none "$1" && head -c 4096 /dev/zero > "$1/other" && shift && exec "$@"';
  const argv = [main, '--out', place.out, '--device', 'software', '--only', 'facts,probes'];
  const env = { ...process.env, TMPDIR: place.temporary };
  const full = spawn(
    'unshare',
    ['--mount', 'sh', '-c', script, 'sh', place.out, process.execPath, ...argv],
    { env, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const { code, stderr } = await outcome(full);
  t.equal(code, 3);
  t.match(stderr, /There is no room left for the results.*\nMake room, or name another folder/);
  t.same(readdirSync(place.temporary), []);
});

t.test('places of two processes are compared', async (t) => {
  const first = { version: 13000, 'a variable': '0x200', 'a function': '0x1000' };
  const second = { version: 13000, 'a variable': '0x200', 'a function': '0x2000' };
  t.same(inTwoProcesses(first, second), {
    version: 13000,
    'a variable, in two processes': 'at the same place',
    'a function, in two processes': 'elsewhere',
  });
  const failed = { what: 'driver', error: 'CUDA_ERROR_UNKNOWN' };
  t.equal(inTwoProcesses(first, failed), failed);
});

t.test('the page says what is to be told', async (t) => {
  const results: Results = {
    format: 1,
    version: '0.0.0',
    begun: '2020-01-01T00:00:00Z',
    device: { kind: 'nvidia', name: 'A GPU', driver: '13.0', traits: null },
    machine: { cpu: 'a cpu', cores: 1, memoryGiB: 1, kernel: '6', virtual: true, node: 'v20' },
    steps: {
      'probes/queue': { group: 'probes', seconds: 1, figures: { launches: 1024, unmap: 'waits' } },
      'programs/a': {
        ...{ group: 'programs', seconds: 1, agrees: ['one'], outputs: { one: 'a', two: 'b' } },
        differs: [{ name: 'two', how: 'remoted it did not end within 15 s' }],
      },
    },
    cut: {},
  };
  const other = structuredClone(results);
  other.device = { ...other.device, name: 'Software Device', traits: 'nvidia-like' };
  other.steps['probes/queue'] = {
    ...{ group: 'probes', seconds: 1, figures: { launches: 8, unmap: 'does not' } },
  };
  other.steps['programs/a'] = { group: 'programs', seconds: 1, outputs: { one: 'a', two: 'c' } };
  const text = page(results, allGroups(), other);
  t.match(text, /^# A first day on A GPU$/m);
  t.match(
    text,
    /\*\*1 agree, 1 differ or fail, 0 were left out, \d+ steps are still to be run\.\*\*/,
  );
  t.match(text, /^- \*\*two\*\*: remoted it did not end within 15 s$/m);
  t.match(text, /^- unmap: waits; the software device: does not$/m);
  t.match(text, /other output, natively, of these programs: two$/m);
  t.match(text, /^\| launches +\| 1024 +\| 8 +\|$/m);
  t.match(text, /^Not run\.$/m);
});

const unpack = path.join(build, 'bench', 'gpu-day-unpack');
const noUnpack =
  notBuilt('bench/gpu-day-unpack') || (which('zstd') === undefined ? 'no zstd' : false);

t.test('Node of a bundle: it is unpacked whole, or not at all', { skip: noUnpack }, async (t) => {
  const folder = t.testdir({});
  const at = (name: string) => path.join(folder, name);
  const run = (...args: string[]) => {
    const { status, stderr } = spawnSync(unpack, args, { encoding: 'utf8' });
    return { status, stderr };
  };
  // Larger than what is read and written at a time, and packed well and not at all in turns.
  const parts = Array.from({ length: 20 }, (_, i) =>
    i % 2 === 0 ? Buffer.alloc(300_000, i) : randomBytes(100_000 + i),
  );
  writeFileSync(at('plain'), Buffer.concat(parts));
  const zstd = spawnSync('zstd', ['-q', '-12', '--long=27', at('plain'), '-o', at('packed')]);
  t.equal(zstd.status, 0, `${zstd.stderr}`);
  t.same(run(at('packed'), at('out')), { status: 0, stderr: '' });
  t.ok(readFileSync(at('out')).equals(readFileSync(at('plain'))));
  t.equal(statSync(at('out')).mode & 0o777, 0o755);
  rmSync(at('out'));
  // What ends where a full output does, too.
  const { status } = spawnSync('zstd', ['-q', '-o', at('even')], { input: Buffer.alloc(1 << 20) });
  t.equal(status, 0);
  t.same(run(at('even'), at('out')), { status: 0, stderr: '' });
  t.ok(readFileSync(at('out')).equals(Buffer.alloc(1 << 20)));
  rmSync(at('out'));

  const packed = readFileSync(at('packed'));
  writeFileSync(at('short'), packed.subarray(0, -1));
  t.same(run(at('short'), at('out')), { status: 1, stderr: `${at('short')}: it ends too early\n` });
  writeFileSync(at('empty'), '');
  t.same(run(at('empty'), at('out')), { status: 1, stderr: `${at('empty')}: it ends too early\n` });
  const damaged = Buffer.from(packed);
  damaged.writeUInt8(damaged.readUInt8(700_000) ^ 1, 700_000);
  writeFileSync(at('damaged'), damaged);
  t.match(run(at('damaged'), at('out')), { status: 1, stderr: /damaged: .*(?:checksum|corrupt)/ });
  t.match(run(at('none'), at('out')), { status: 1, stderr: /none: No such file/ });
  t.match(run(at('packed'), at('none/out')), { status: 1, stderr: /none\/out\.\d+: No such file/ });
  // As little room as there is where a disk is full; the signal would end it first.
  const small = 'trap "" XFSZ; ulimit -f 100; exec "$@"';
  const full = spawnSync('sh', ['-c', small, 'sh', unpack, at('packed'), at('out')]);
  t.equal(full.status, 1);
  t.match(`${full.stderr}`, /out\.\d+: File too large/);
  t.equal(run(at('packed')).status, 2);
  t.same(readdirSync(folder).sort(), ['damaged', 'empty', 'even', 'packed', 'plain', 'short']);
});

t.test('a bundle that cannot be unpacked says so', { skip: noUnpack }, async (t) => {
  const folder = t.testdir({ 'node.zst': 'damaged' });
  const script = path.join(folder, 'gpu-day');
  copyFileSync(path.join(root, 'bench', 'gpu-day', 'gpu-day.sh'), script);
  copyFileSync(unpack, path.join(folder, 'unpack'));
  const { status, stderr } = spawnSync('sh', [script], { encoding: 'utf8' });
  t.equal(status, 3);
  t.match(stderr, /node\.zst: .*\nThe bundle cannot be unpacked\.\nIt needs 400 MB/);
  t.same(readdirSync(folder).sort(), ['gpu-day', 'node.zst', 'unpack']);
});
