// The software device's trace: every call and every piece of work, as text and as a timeline.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { noPrograms } from '../../support/paths.js';
import { example, native } from '../../support/program.js';

const program = example('driver-api');

t.test('as text, a line per call and per piece of work', { skip: noPrograms }, async (t) => {
  const file = path.join(t.testdir(), 'trace.txt');
  const { code, stderr } = await native(program, { env: { SOFTWARE_DEVICE_TRACE: file } });
  t.equal(code, 0, stderr);
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  for (const line of lines) {
    t.match(
      line,
      /^ *\d+\.\d{3} (thread \d+: cu\w+\(.*\)|device 0 stream \d+: ).* \[\d+\.\d us\]$/,
    );
  }
  const called = (name: RegExp) => lines.some((line) => name.test(line));
  t.ok(called(/cuMemAlloc_v2\(0x[0-9a-f]+, \d+\) -> 0x[0-9a-f]+ = CUDA_SUCCESS/), 'an answer');
  t.ok(called(/cuModuleGetFunction\(.*"\w+"\)/), 'a name');
  t.ok(called(/cuLaunchKernel\(/));
  t.ok(called(/stream \d+: \w+ <<<\d+x1x1, \d+x1x1, 0>>>/), 'a kernel');
  t.ok(called(/stream \d+: memcpy <\d+ bytes>/), 'a copy');
});

t.test('as a timeline, for a file that ends in .json', { skip: noPrograms }, async (t) => {
  const file = path.join(t.testdir(), 'trace.json');
  const { code, stderr } = await native(program, { env: { SOFTWARE_DEVICE_TRACE: file } });
  t.equal(code, 0, stderr);
  // The format lets the end of the list be missing.
  const events: Record<string, unknown>[] = JSON.parse(
    readFileSync(file, 'utf8').replace(/,\s*$/, ']'),
  );
  const spans = events.filter(({ ph }) => ph === 'X');
  for (const { ts, dur, name } of spans) {
    t.type(ts, 'number');
    t.ok((dur as number) >= 0 && name);
  }
  t.ok(spans.some(({ pid, name }) => pid === 0 && name === 'cuLaunchKernel'));
  t.ok(spans.some(({ pid, name }) => pid === 1 && name === 'memcpy'));
});

t.test('a file that cannot be written is said', { skip: noPrograms }, async (t) => {
  const env = { SOFTWARE_DEVICE_TRACE: '/nonexistent/trace' };
  const { code, stderr } = await native(program, { env });
  t.not(code, 0);
  t.match(stderr, /SOFTWARE_DEVICE_TRACE: \/nonexistent\/trace cannot be written: No such file/);
});
