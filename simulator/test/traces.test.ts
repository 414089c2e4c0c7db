// Readers of traces: what they take, and that they say where something is wrong.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { numberIn, parseTable, readTable } from '../traces/table.js';
import { parseTar, readTar } from '../traces/tar.js';

t.test('tables', async (t) => {
  const rows = parseTable('\uFEFFa,b\r\n1,x\n\n2,\n', 'file', ['b', 'a']);
  t.same(rows, [
    { a: '1', b: 'x' },
    { a: '2', b: '' },
  ]);
  t.throws(() => parseTable('a,b\n1,2', 'file', ['c', 'a', 'd']), /^file: no column c, d$/);
  t.throws(
    () => parseTable('a,b\n1,2\n\n3', 'file', []),
    /^file, line 4: 1 cells, and there are 2/,
  );
  t.throws(() => numberIn(rows[0] ?? {}, 'b', 'file'), /^file: b is "x", expected a number/);
  t.throws(() => numberIn(rows[1] ?? {}, 'b', 'file'), /^file: b is "", expected a number/);
  t.equal(numberIn(rows[0] ?? {}, 'a', 'file'), 1);
});

/** One file as ustar has it. */
function entry(name: string, content: string, kind = '0'): Buffer {
  const head = Buffer.alloc(512);
  head.write(name, 0);
  head.write(content.length.toString(8).padStart(11, '0'), 124);
  head.write(kind, 156);
  head.write('ustar', 257);
  head.fill(' ', 148, 156);
  head.write(
    `${head
      .reduce((sum, byte) => sum + byte, 0)
      .toString(8)
      .padStart(6, '0')}\0`,
    148,
  );
  const body = Buffer.alloc(Math.ceil(content.length / 512) * 512);
  body.write(content);
  return Buffer.concat([head, body]);
}

t.test('archives', async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'outboard-traces-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const bytes = Buffer.concat([
    entry('./one/', '', '5'),
    entry('./one/a.csv', 'x\n1\n'),
    entry('b', 'y'.repeat(600)),
    Buffer.alloc(1024),
  ]);
  const file = path.join(folder, 'all.tar.gz');
  writeFileSync(file, gzipSync(bytes));
  const files = readTar(file);
  t.same([...files.keys()], ['one/a.csv', 'b']);
  t.equal(String(files.get('one/a.csv')), 'x\n1\n');
  t.equal(files.get('b')?.length, 600);
  t.throws(() => parseTar(bytes.subarray(0, 1026), 'f'), /f: not a whole tar archive at byte 512/);
  const changed = Buffer.from(bytes);
  changed[3] = 65;
  t.throws(() => parseTar(changed, 'f'), /at byte 0/);
  const table = path.join(folder, 'table.csv.gz');
  writeFileSync(table, gzipSync('a\n7\n'));
  t.same(readTable(table, ['a']), [{ a: '7' }]);
});
