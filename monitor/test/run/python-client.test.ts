// What Python programs are told on software GPUs: by the packages of the interpreter that will run
// them, which for a script is the one that its first line names.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { outboard, Serving } from '../support/serving.js';

/** A virtual environment with pip, whose scripts are as pip makes them, and with an empty Numba. */
function environment(t: Test, name: string): string {
  const above = mkdtempSync(path.join(tmpdir(), 'outboard-'));
  t.teardown(() => rmSync(above, { recursive: true }));
  const folder = path.join(above, name);
  const made = spawnSync('python3', ['-m', 'venv', folder], { encoding: 'utf8' });
  if (made.status !== 0) throw new Error(made.stdout + made.stderr);
  const show = ['-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'];
  const python = path.join(folder, 'bin', 'python');
  const packages = spawnSync(python, show, { encoding: 'utf8' }).stdout.trim();
  mkdirSync(path.join(packages, 'numba_cuda'));
  writeFileSync(path.join(packages, 'numba_cuda', '__init__.py'), '');
  const says = 'import os, sys; print("PRELOAD", os.environ.get("LD_PRELOAD"), file=sys.stderr)';
  writeFileSync(path.join(packages, 'sitecustomize.py'), `${says}\n`);
  return path.join(folder, 'bin');
}

function script(bin: string, name: string, text: string): string {
  const file = path.join(bin, name);
  writeFileSync(file, text);
  chmodSync(file, 0o755);
  return file;
}

t.test('a script is asked about where it will run', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const address = (of: Serving) => {
    const { host, port } = of.address as { host: string; port: number };
    return `${host}:${port}`;
  };
  let server = address(serving);
  const preload = (program: string, given: NodeJS.ProcessEnv = {}, args = ['--version']) => {
    const words = [outboard, 'run', '--server', server, '--', program, ...args];
    const env = { ...process.env, ...given };
    const { stderr } = spawnSync(process.execPath, words, { env, encoding: 'utf8' });
    return /^PRELOAD (.*)$/m.exec(stderr)?.[1] ?? stderr;
  };
  const keeps = /keep-ptx\/libnvJitLink\.so/;
  const bin = environment(t, 'short');
  const pip = path.join(bin, 'pip');
  t.match(readFileSync(pip, 'utf8'), /^#!.*\/bin\/python/);
  t.match(preload(pip), keeps, 'by its absolute path');
  const pytest = path.join(bin, 'pytest');
  copyFileSync(pip, pytest);
  t.match(preload('pytest', { PATH: `${bin}:${process.env['PATH']}` }), keeps, 'found in PATH');
  t.match(preload(pytest), keeps, 'whatever python3 is in PATH');
  t.match(preload(path.join(bin, 'python'), {}, ['-c', '']), keeps);
  const first = { PATH: `${bin}:${process.env['PATH']}` };
  const env = script(bin, 'by-env', '#!/usr/bin/env python3\n');
  t.match(preload(env, first), keeps);
  t.match(preload(script(bin, 'split', '#!/usr/bin/env -S python3 -s\n'), first), keeps);

  const asked = spawnSync('python3', ['-c', 'import sys; print(sys.executable)']);
  const says = 'import os, sys; print("PRELOAD", os.environ.get("LD_PRELOAD"), file=sys.stderr)';
  const apart = script(bin, 'jupyter', `#!${String(asked.stdout).trim()}\n${says}\n`);
  t.match(preload(apart, first), /libcuda\.so\.1$/, 'whose interpreter has no Numba');

  t.match(
    preload(pip, { OUTBOARD_LIBRARIES: 'remote' }),
    /libcuda\.so\.1$/,
    'whose cuSOLVER calls the cuBLAS of the server, and needs the real one',
  );

  const long = environment(t, 'long'.repeat(40));
  t.match(readFileSync(path.join(long, 'pip'), 'utf8'), /^#!\/bin\/sh\n'''exec' /);
  t.match(preload(path.join(long, 'pip')), keeps, 'where the kernel cannot read the line');
  t.match(
    preload(
      script(
        bin,
        'relocatable',
        `#!/bin/sh\n'''exec' "$(dirname -- "$(realpath -- "$0")")"/'python' "$0" "$@"\n' '''\n`,
      ),
    ),
    keeps,
  );

  const newer = { SOFTWARE_DEVICE_COMPUTE_CAPABILITY: '13.0' };
  server = address(await Serving.start(t, ['--servers-per-gpu', '1'], newer));
  t.match(preload(pip), /libcuda\.so\.1$/, 'whose cuSOLVER needs the real one');
});

t.test('a server that is busy is waited for', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const { host, port } = serving.address as { host: string; port: number };
  const slow = createServer((guest) => {
    const server = connect(port, host);
    for (const socket of [guest, server]) socket.on('error', () => socket.destroy());
    guest.pipe(server);
    setTimeout(() => server.pipe(guest), 1500);
  });
  await once(slow.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => slow.close());
  const python = path.join(environment(t, 'slow'), 'python');
  const at = `127.0.0.1:${(slow.address() as AddressInfo).port}`;
  const run = spawn(process.execPath, [outboard, 'run', '--server', at, '--', python, '-c', ''], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const said = run.stderr.setEncoding('utf8').toArray();
  await once(run, 'exit');
  t.match((await said).join(''), /^PRELOAD .*keep-ptx\/libnvJitLink\.so/m);
});
