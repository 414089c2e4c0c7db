// The bundle for a machine with a GPU runs where nothing else is: a part of a first day, on the software device as it is most
// like NVIDIA's driver. Who looks for a whole day: bench/results/gpu/.
// Run nightly: packing and a day take minutes.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import type { Results } from '../../../bench/gpu-day/results.js';
import { build, noPrograms, notBuilt, root } from '../../support/paths.js';
import { CleanRoot, noCleanRoot } from '../clean-root.js';
import { mustRun, noTools } from '../machine.js';

const skip =
  noCleanRoot() ||
  noTools ||
  noPrograms ||
  notBuilt(
    'bench/spin',
    'bench/gpu-day-probe',
    'bench/gpu-day-unpack',
    'test/sequences/driver-sequences',
  );
const most = 44 << 20;

t.test('a day in an empty root', { skip, timeout: 600_000 }, async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-bundle-'));
  const clean = new CleanRoot(['/bin/sh', '/bin/tar']);
  t.teardown(() => {
    clean.remove();
    rmSync(folder, { recursive: true });
  });
  const script = path.join(root, 'scripts', 'gpu-day.mjs');
  const env = { ...process.env, OUTBOARD_BUILD: build };
  await mustRun([process.execPath, script, '--no-build', '--bundle', folder], { env });
  const archive = path.join(folder, 'outboard-gpu-day.tar.gz');
  t.same(readdirSync(folder), ['outboard-gpu-day.tar.gz']);
  t.ok(statSync(archive).size <= most, `${statSync(archive).size} bytes`);

  mkdirSync(clean.path('opt'));
  await mustRun(['tar', '-xzf', archive, '-C', clean.path('opt')]);
  clean.addLibrariesOf(process.execPath);
  // The bundle brings what machines without a compiler may lack.
  for (const name of ['libstdc++.so.6', 'libgcc_s.so.1'])
    for (const file of readdirSync(clean.folder, { recursive: true, encoding: 'utf8' }))
      if (path.basename(file) === name && !file.startsWith('opt/')) rmSync(clean.path(file));

  const none = await clean.run(['/opt/outboard-gpu-day/gpu-day']);
  t.match(none, {
    code: 3,
    stdout: '',
    stderr: /^There is no NVIDIA driver here: .*\nRun this where a GPU/m,
  });

  const ran = await clean.run(
    [
      ...['/opt/outboard-gpu-day/gpu-day', '--device', 'software', '--short'],
      ...['--only', 'facts,probes,serving,programs,memory,frameworks'],
    ],
    { SOFTWARE_DEVICE_TRAITS: 'nvidia-like' },
  );
  t.ok(ran.code === 0 || ran.code === 1, `${ran.code}: ${ran.stderr}`);
  const out = clean.path('opt', 'outboard-gpu-day', 'results');
  const results: Results = JSON.parse(readFileSync(path.join(out, 'results.json'), 'utf8'));
  t.equal(ran.stdout.trim(), readFileSync(path.join(out, 'page.md'), 'utf8').trim());
  t.same(results.device, { ...results.device, kind: 'software', traits: 'nvidia-like' });
  t.same(results.cut, {});
  const steps = Object.values(results.steps);
  const agrees = steps.flatMap((done) => done.agrees ?? []);
  for (const name of ['outboard device --probe', 'the first remoted program', 'vector-add'])
    t.ok(
      agrees.includes(name),
      `${name}: ${JSON.stringify(steps.flatMap((one) => one.differs ?? []))}`,
    );
  const figures = Object.assign({}, ...steps.map((done) => done.figures ?? {}));
  t.equal(figures['launches until one blocks'], 1023, 'as the trait has it');
  t.equal(figures['functions at a time'], 1);
  // All memory is taken then, and a driver takes more for such stacks.
  t.equal(figures['remoted: a kernel with 32 KiB of stack'], 'CUDA_ERROR_OUT_OF_MEMORY');
  const left = steps.flatMap((done) => done.left ?? []);
  t.match(left.find(({ name }) => name === 'torch_step')?.why, /python3 is not installed/);
  t.same(readdirSync(clean.path('tmp')), [], 'nothing is left behind');
  t.notMatch(
    JSON.stringify(results),
    /\/opt\/outboard-gpu-day/,
    'results do not say where they were made',
  );
});
