// The demonstration as a whole, on a small picture that is made here; and its parts.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { PNG } from 'pngjs';
import t from 'tap';
import { build, js } from '../../bin/paths.mjs';
import { lapsIn, runProgram } from '../demo/program.js';
import { difference } from '../demo/report.js';
import { encodePpm } from '../picture/ppm.js';

const skip = existsSync(path.join(build, 'examples', 'kmeans')) ? false : 'no nvcc';

function demo(args: string[], env: NodeJS.ProcessEnv = {}) {
  const file = path.join(js, 'examples', 'demo.js');
  const { status, stdout, stderr } = spawnSync(process.execPath, [file, ...args], {
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
  return { status, stdout, stderr };
}

t.test('the whole of it', { skip }, async (t) => {
  const folder = t.testdir();
  const [width, height] = [40, 30];
  const pixels = Uint8Array.from({ length: width * height * 3 }, (_, i) => (i * 37 + i ** 2) & 255);
  const picture = path.join(folder, 'picture.ppm');
  writeFileSync(picture, encodePpm({ width, height, pixels }));
  const args = ['--device', 'software', '--picture', picture, '--k', '4', '--out', folder];
  const { status, stdout, stderr } = demo(args);
  t.equal(status, 0, stderr);
  t.match(stdout, /40 x 30 = 1,200 pixels/);
  t.match(stdout, /\nthe same: \d+ bytes of output, 3,613 bytes of picture\n/);
  for (const figure of ['attach', 'whole program', 'its device part', 'calls made', 'calls sent']) {
    t.match(stdout, new RegExp(`\\n  ${figure} +\\d`), figure);
  }
  const roundTrips = Number(/round trips +([\d,]+)/.exec(stdout)?.[1]?.replaceAll(',', ''));
  const iterations = Number(/(\d+) iterations, converged/.exec(stdout)?.[1]);
  t.ok(iterations > 0 && roundTrips > 1 && roundTrips <= iterations + 10, 'one for each iteration');
  const sent = Number(/bytes to the server +([\d,]+)/.exec(stdout)?.[1]?.replaceAll(',', ''));
  t.ok(sent > width * height * 3, 'the pixels went over');
  const { width: both } = PNG.sync.read(readFileSync(path.join(folder, 'kmeans.png')));
  t.ok(both > 2 * width, 'two pictures side by side');
});

t.test('what cannot work is told in a sentence', async (t) => {
  const folder = t.testdir();
  const { status, stderr } = demo(['--device', '/nonexistent/libcuda.so.1', '--out', folder]);
  t.equal(status, 1);
  t.match(stderr, /^\ndemo: .*does not exist/);
});

t.test('a server that was started is stopped, whatever happens', { skip }, async (t) => {
  const folder = t.testdir();
  const picture = path.join(folder, 'picture.ppm');
  writeFileSync(picture, encodePpm({ width: 2, height: 2, pixels: new Uint8Array(12) }));
  // Everything but the guest library.
  for (const part of ['api-server', 'software-device', 'examples']) {
    symlinkSync(path.join(build, part), path.join(folder, part));
  }
  const args = ['--device', 'software', '--picture', picture, '--k', '1', '--out', folder];
  const { status, stdout, stderr } = demo(args, { OUTBOARD_BUILD: folder });
  t.equal(status, 1);
  t.match(stdout, /remotely: the same program/);
  t.match(stderr, /demo: .*guest-lib.*does not exist/);
});

t.test('a difference is found', async (t) => {
  const bytes = (...values: number[]) => Buffer.from(values);
  t.equal(difference('x', bytes(1, 2), bytes(1, 2)), null);
  t.equal(difference('x', bytes(1, 2), bytes(1, 3)), 'x: byte 1 is 2 natively, 3 remotely');
  t.equal(difference('x', bytes(1), bytes(1, 2)), 'x: 1 bytes natively, 2 remotely');
});

t.test('a program that fails is not a result', async (t) => {
  const fails = runProgram('sh', ['-c', 'echo out; echo err >&2; exit 3'], process.env);
  await t.rejects(fails, { message: /ended with 3:\nout\nerr/ });
  await t.rejects(runProgram('sh', ['-c', 'kill -9 $$'], process.env), { message: /by SIGKILL/ });
  await t.rejects(runProgram('no-such-program', [], process.env), { code: 'ENOENT' });
  t.same(lapsIn('time: a b      1.500 ms\nother\ntime: c   2.0 ms\n'), { 'a b': 1.5, c: 2 });
});
