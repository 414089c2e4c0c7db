// `outboard run --libraries=auto`: both ways are tried, then the one is taken that has cost the function less.
import { spawn } from 'node:child_process';
import path from 'node:path';
import t from 'tap';
import { readStats } from '../../monitor/src/run/stats.js';
import { outboard } from '../../monitor/test/support/serving.js';
import { outcome, testProgram } from '../../test/support/program.js';
import { real, serve, skip, withReal } from './support.js';

const start = (of: string, options: string[]) => {
  const { args, env } = withReal([testProgram('cublas-calls'), of]);
  const words = [outboard, 'run', '--libraries=auto', ...options, '--', ...args];
  return outcome(spawn(process.execPath, words, { env: { ...process.env, ...env } }));
};
const run = (...options: string[]) => start('few', options);

t.test('both ways, then the one that cost less', { skip }, async (t) => {
  const server = await serve(real ?? '');
  t.teardown(() => server.stop());
  const ways: string[] = [];
  for (let i = 0; i < 3; i++) {
    const file = path.join(t.testdir(), 'stats');
    const options = ['--server', server.address, '--name', 'calls', '--stats-file', file];
    const { code, stdout, stderr } = await run(...options);
    t.equal(stdout, 'all as the processor has it\n', stderr + server.log());
    t.equal(code, 0);
    // Its own library brings its code along.
    ways.push(readStats(file).imageBytes > 0 ? 'guest' : 'remote');
    await server.rested();
  }
  t.same(ways, ['guest', 'remote', 'remote']);
});

t.test('a server that refuses what the function needs is not called again', { skip }, async (t) => {
  const server = await serve(real ?? '');
  t.teardown(() => server.stop());
  const said: string[] = [];
  for (const of of ['few', 'handles', 'handles']) {
    const { stdout } = await start(of, ['--server', server.address, '--name', 'calls']);
    said.push(stdout);
    await server.rested();
  }
  // A slot has memory for one handle of the server's; of the program's own there may be any number.
  t.same(said.slice(1), ['a second handle: 3\n', 'a second handle: 0\n'], server.log());
});

t.test('nor where it calls what is not served', { skip }, async (t) => {
  const server = await serve(real ?? '');
  t.teardown(() => server.stop());
  const said: string[] = [];
  for (const of of ['few', 'unserved', 'unserved']) {
    const { stdout, stderr } = await start(of, ['--server', server.address, '--name', 'calls']);
    said.push(stdout);
    const told = /cublasInit is not served: the program gets .*--libraries=guest serves all/;
    t.equal(told.test(stderr), stdout === 'cublasInit: 15\n', stderr);
    await server.rested();
  }
  t.same(said.slice(1), ['cublasInit: 15\n', 'cublasInit: 0\n'], server.log());
});

t.test('a server without cuBLAS has them call their own', { skip }, async (t) => {
  const server = await serve('none');
  t.teardown(() => server.stop());
  for (let i = 0; i < 2; i++) {
    const { code, stdout, stderr } = await run('--server', server.address, '--name', 'calls');
    t.equal(stdout, 'all as the processor has it\n', stderr + server.log());
    t.equal(code, 0);
    await server.rested();
  }
});

t.test('a function has to be named', async (t) => {
  const { code, stderr } = await run('--server', '127.0.0.1:1');
  t.equal(code, 2, stderr);
  t.match(stderr, /--libraries=auto goes by what a function has cost: name it with --name/);
});
