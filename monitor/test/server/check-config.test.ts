// `serve --check-config` refuses what `serve` refuses, in the same words.
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { authority, serverFiles } from '../support/certificates.js';
import { outboard, Serving } from '../support/serving.js';

/** A short path: Unix sockets have room for no other. */
function folderFor(t: Test): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-check-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  return folder;
}

/** What ends `serve` with these, or `serve --check-config`. */
async function refusal(t: Test, args: string[]) {
  const usual = ['serve', '--device', 'software', '--listen', '127.0.0.1:0', '--http', 'none'];
  const serving = Serving.launch(t, [...usual, ...args]);
  const status = await serving.exit;
  const { code, msg } = serving.lines.find(({ level }) => level === 60) ?? {};
  return { status, code, msg, warmed: serving.slotPids().length };
}

t.test('what cannot start is refused by both alike', async (t) => {
  const folder = folderFor(t);
  const at = (name: string) => path.join(folder, name);
  writeFileSync(at('file'), '');
  writeFileSync(at('no.yaml'), 'version: v2\n');
  const add = (...args: string[]) =>
    execFileSync(process.execPath, [outboard, 'tenant', 'add', ...args]);
  add('acme', '--tenants', at('tenants.yaml'));
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  t.teardown(() => taken.close());
  const { port } = taken.address() as { port: number };
  const { cert, key } = serverFiles(authority(folder, 'one'), null);
  const other = serverFiles(authority(folder, 'two'), null);
  const tls = ['--tls-listen', '127.0.0.1:0', '--tls-cert', `${cert}`, '--tls-key'];
  const wrong: [code: string, args: string[]][] = [
    ['OB_TENANTS_NEEDED', ['--listen', '0.0.0.0:0']],
    ['OB_TENANTS_NEEDED', [...tls, `${key}`, '--tls-listen', '0.0.0.0:0']],
    ['OB_TENANTS_FILE', ['--tenants', at('no.yaml')]],
    ['OB_TENANTS_MISSING', ['--tenants', at('none.yaml')]],
    ['OB_OPERATORS_NEEDED', ['--tenants', at('tenants.yaml'), '--http', '127.0.0.1:0']],
    ['OB_TLS_FILES', [...tls, `${other.key}`]],
    ['OB_TLS_FILES', [...tls, `${key}`, '--tls-clients', 'ask']],
    ['OB_TRACE_DIR', ['--trace-dir', at('file/x')]],
    ['OB_MODULE_CACHE', ['--module-cache', at('file/x')]],
    ['OB_UPLOAD_CACHE', ['--upload-cache', at('file')]],
    ['OB_READY_FILE', ['--ready-file', at('none/ready')]],
    ['OB_READY_FILE', ['--ready-file', at('file/ready')]],
    ['OB_READY_FILE', ['--ready-file', folder]],
    ['OB_LISTEN', ['--listen', `127.0.0.1:${port}`]],
    ['OB_LISTEN', [...tls, `${key}`, '--tls-listen', `127.0.0.1:${port}`]],
    ['OB_LISTEN_FOLDER', ['--listen', `unix:${at('none/x.sock')}`]],
    ['OB_LISTEN_FOLDER', ['--listen', `unix:${at('file/x.sock')}`]],
    ['OB_LISTEN_FOLDER', ['--listen', `unix:${at('y.sock')}`, '--http', `unix:${at('none/x')}`]],
    ['OB_API_LISTEN', ['--http', `127.0.0.1:${port}`]],
    ['OB_API_LISTEN', ['--listen', `unix:${at('x.sock')}`, '--http', `unix:${at('x.sock')}`]],
  ];
  for (const [code, args] of wrong) {
    const begun = refusal(t, args);
    // Where each tries to listen on one socket twice, they would be in each other's way.
    if (args.join().includes('x.sock')) await begun;
    const checks = await refusal(t, [...args, '--check-config']);
    const serves = await begun;
    t.match(serves, { status: 3, code, warmed: 0 }, args.join(' '));
    t.same(checks, serves, `${args.join(' ')}: checked`);
  }
});

t.test('a name in the configuration file that there is not', async (t) => {
  const file = path.join(folderFor(t), 'serve.yaml');
  writeFileSync(file, 'version: v1\nlisten: 127.0.0.1:0\nsession-memry: 1G\n');
  const { status, stderr } = spawnSync(
    process.execPath,
    [outboard, 'serve', '--config', file, '--check-config'],
    { encoding: 'utf8' },
  );
  t.equal(status, 3);
  t.match(stderr, /serve\.yaml:3: there is no session-memry; did you mean session-memory\? \(OB_C/);
});

t.test('a folder that the system will not make ends the start', async (t) => {
  // Only who tries learns that nothing can be made there.
  t.match(await refusal(t, ['--trace-dir', '/proc/x/y']), { status: 3, code: 'OB_TRACE_DIR' });
  const args = ['--module-cache', '/proc/x'];
  t.match(await refusal(t, args), { status: 3, code: 'OB_MODULE_CACHE', warmed: 0 });
});

t.test('nothing is made by a check', async (t) => {
  const folder = folderFor(t);
  const at = (name: string) => path.join(folder, name);
  const folders = ['--trace-dir', at('a/b'), '--module-cache', at('c'), '--upload-cache', at('d')];
  const usual = ['serve', '--device', 'software', '--http', `unix:${at('api.sock')}`];
  const args = [...usual, '--listen', `unix:${at('guests.sock')}`, ...folders, '--check-config'];
  t.equal(await Serving.launch(t, args).exit, 0);
  for (const name of ['a', 'c', 'd', 'api.sock', 'guests.sock']) t.notOk(existsSync(at(name)));
});

t.test('a certificate that programs will refuse is said by both', async (t) => {
  const ours = authority(folderFor(t), 'ours');
  const listens = ['--listen', '127.0.0.1:0', '--http', 'none', '--tls-listen', '127.0.0.1:0'];
  const showing = ({ cert, key }: { cert: string; key: string }) => {
    return [...listens, '--tls-cert', cert, '--tls-key', key];
  };
  const check = (args: string[]) => {
    const all = [outboard, 'serve', '--check-config', '--device', 'software', ...args];
    return execFileSync(process.execPath, all, { encoding: 'utf8' });
  };
  const old = showing(ours.issue('server', [], -1));
  const serving = await Serving.start(t, ['--servers-per-gpu', '1', ...old]);
  await serving.logged({
    level: 40,
    msg: /will refuse .*\.pem has expired: it was valid until \w+ /,
  });
  await serving.logged({ level: 40, msg: /will refuse .*\.pem has no name of the server \(sub/ });
  t.match(check(old), /(^mind: programs will refuse .*\n){2}the configuration is right\n$/m);
  t.notMatch(check(showing(ours.issue('server', ['DNS:localhost']))), /mind/);
});

t.test('an address where all goes in clear is said by both', async (t) => {
  const file = path.join(t.testdir(), 'tenants.yaml');
  const add = ['tenant', 'add', 'acme', '--tenants', file];
  execFileSync(process.execPath, [outboard, ...add]);
  const args = ['--tenants', file, '--listen', '0.0.0.0:0', '--http', 'none'];
  const serving = await Serving.start(t, ['--servers-per-gpu', '1', ...args]);
  await serving.logged({ level: 40, msg: /^0\.0\.0\.0:\d+ is without TLS: .*--tls-listen/ });
  const check = ['serve', '--check-config', '--device', 'software', ...args];
  const said = execFileSync(process.execPath, [outboard, ...check], { encoding: 'utf8' });
  t.match(said, /^mind: 0\.0\.0\.0:0 is without TLS: .*\nthe configuration is right\n$/m);
  const quiet = await Serving.start(t, ['--servers-per-gpu', '1']);
  t.notMatch(quiet.log, /without TLS/);
});
