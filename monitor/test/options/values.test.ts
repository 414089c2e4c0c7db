// What people write, on the command line and in the environment.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { root } from '../../../bin/paths.mjs';
import { type Option, readOptions, splitAtProgram } from '../../src/options/options.js';
import {
  formatAddress,
  formatBytes,
  formatExactBytes,
  parseAddress,
  parseBytes,
  parseCount,
  parseGuestLog,
  parseName,
  parseServers,
  parseShare,
} from '../../src/options/values.js';

t.test('addresses', async (t) => {
  for (const text of ['127.0.0.1:4460', 'gpu1.example:1', '[::1]:65535', '[fe80::1.2.3.4]:80']) {
    t.equal(formatAddress(parseAddress(text)), text);
  }
  t.same(parseAddress('[::1]:0', 0), { host: '::1', port: 0 });
  for (const text of [
    '',
    ':1',
    'host',
    'host:',
    'host:x',
    'host:-1',
    'host:1.5',
    'a b:1',
    '[x]:1',
  ]) {
    t.throws(() => parseAddress(text), { message: /^expected HOST:PORT/ }, text);
  }
  t.throws(() => parseAddress('::1:4460'), { message: /stands in brackets/ });
  t.throws(() => parseAddress('host:0'), { message: 'a port is a number from 1 to 65535' });
  t.throws(() => parseAddress('host:65536'), { message: /from 1 to 65535/ });
  t.equal(parseServers('a:1, b:2'), 'a:1,b:2');
  t.equal(parseServers('tls://gpu1,tls://[::1]:1'), 'tls://gpu1:4462,tls://[::1]:1');
  t.throws(() => parseServers('tls://'), { message: /^expected HOST:PORT/ });
  t.equal(parseServers('gpu1, [::1],unix'), 'gpu1:4460,[::1]:4460,unix:4460');
  t.same(parseAddress('gpu1', 0, 4462), { host: 'gpu1', port: 4462 });
  for (const text of ['', 'gpu1:', '[]', '[::1', '[::1]x', 'a b']) {
    t.throws(() => parseAddress(text, 1, 4460), { message: /^expected .* it is 4460$/ }, text);
  }
  t.throws(() => parseServers('a:1,'), { message: /^expected HOST:PORT/ });
  t.equal(parseServers('unix:/run/a:b, unix:1'), 'unix:/run/a:b,unix:1');
  t.throws(() => parseServers(`unix:/${'x'.repeat(107)}`), { message: /at most 107/ });
  t.equal(parseName('resize images'), 'resize images');
  for (const text of ['', 'a\nb', 'é', 'x'.repeat(128)]) {
    t.throws(() => parseName(text), { message: /^expected 1 to 127/ }, text);
  }
  t.throws(() => parseServers(Array(9).fill('a:1').join(',')), { message: /at most 8/ });
});

t.test('bytes', async (t) => {
  // The same table as guest-lib/test/config.test.c.
  const table = readFileSync(path.join(root, 'guest-lib', 'test', 'sizes.txt'), 'utf8');
  const lines = table.split('\n').filter((line) => line.includes('\t') && !line.startsWith('#'));
  t.ok(lines.length > 50);
  for (const [text = '', bytes = ''] of lines.map((line) => line.split('\t'))) {
    if (bytes === '-') t.throws(() => parseBytes(text), { message: /^expected a size/ }, text);
    else t.equal(parseBytes(text), BigInt(bytes), text);
  }
  t.throws(() => parseBytes(''), { message: /^expected a size/ });
  t.equal(formatBytes(1023n), '1023 bytes');
  t.equal(formatExactBytes(3n << 29n), '1.5 GiB');
  t.equal(formatExactBytes((1n << 30n) + 1n), '1 GiB (1073741825 bytes)');
  t.equal(formatExactBytes(0n), '0 bytes');
  t.equal(formatBytes(3n << 29n), '1.5 GiB');
  t.equal(formatBytes(1n << 60n), '1048576 TiB');
});

t.test('counts, shares, levels', async (t) => {
  t.equal(parseCount(1, 8)('8'), 8);
  for (const text of ['0', '9', '', '1.0', '0x1', ' 1', '1e0']) {
    t.throws(() => parseCount(1, 8)(text), { message: 'expected a number from 1 to 8' }, text);
  }
  for (const text of ['1', '100', '20:50', '30:30']) t.equal(parseShare(text), text);
  for (const text of ['', '0', '101', '50:20', '20:', ':20', '20:101', '1:2:3', '20%']) {
    t.throws(() => parseShare(text), { message: /^expected percent/ }, text);
  }
  for (const text of ['off', 'debug', 'trace:/tmp/a:b']) t.equal(parseGuestLog(text), text);
  t.throws(() => parseGuestLog('loud'), { message: /^expected one of off, error/ });
});

const table = {
  size: { env: 'T_SIZE', value: 'N', help: '', parse: Number, fallback: 1 } as Option<number>,
  name: { env: 'T_NAME', value: 'S', help: '', parse: String, fallback: 'x' } as Option<string>,
};

t.test('flag, then environment, then default', async (t) => {
  const env = { T_SIZE: '2', T_NAME: '' };
  t.same(readOptions(table, [], {}), { size: 1, name: 'x' });
  t.same(readOptions(table, [], env), { size: 2, name: 'x' }, 'empty is not set');
  t.same(readOptions(table, ['--size', '3', '--name=y'], env), { size: 3, name: 'y' });
  t.throws(() => readOptions(table, ['--sise', '3'], {}), {
    message: "Unknown option '--sise'; did you mean --size?",
  });
  t.throws(() => readOptions(table, ['--nothing-near', '3'], {}), {
    message: "Unknown option '--nothing-near'",
  });
  t.throws(() => readOptions(table, ['--size'], {}), { message: /argument missing/ });
  t.throws(() => readOptions(table, ['more'], {}), { message: /Unexpected argument 'more'/ });
});

t.test('where the program begins', async (t) => {
  const split = (...args: string[]) => splitAtProgram(table, args);
  t.same(split('prog', '--size', '1'), [[], ['prog', '--size', '1']]);
  t.same(split('--size', '1', 'prog', '-x'), [
    ['--size', '1'],
    ['prog', '-x'],
  ]);
  t.same(split('--size=1', '--', 'prog', '--'), [['--size=1'], ['prog', '--']]);
  t.same(split('--', '--size'), [[], ['--size']]);
  t.same(split('--size', '1'), [['--size', '1'], []]);
  t.same(split('prog', '--', '-x'), [[], ['prog', '--', '-x']]);
});
