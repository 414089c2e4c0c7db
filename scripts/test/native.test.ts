// What is built for what, by the presets, and how a step of the set-up tells how far it is.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';

process.env['OUTBOARD_BUILD'] = t.testdirName;
const { isConfigured, stampIn, stampOf } = await import('../setup/native.mjs');
const { build, root } = await import('../../bin/paths.mjs');
const { buildPreset, testPreset } = await import('../setup/presets.mjs');
const { step } = await import('../setup/step.mjs');

t.test('a build folder that is set is where all builds are', async (t) => {
  t.equal(buildPreset('release').folder, build);
  t.equal(buildPreset('demo').folder, build);
  t.equal(buildPreset('tsan').folder, join(build, 'tsan'));
  t.same(buildPreset('release').targets, [], 'all');
  t.same(buildPreset('runtime').targets, ['runtime']);
});

t.test('tests belong to a build by their labels and names', async (t) => {
  const native = { name: 'guest-lib.copy.late', labels: [] };
  const unsanitized = { name: 'linked.guest', labels: ['no-sanitizer'] };
  const slow = { name: 'executor.host.slow', labels: ['no-thread-sanitizer'] };
  const fuzz = { name: 'guest-lib.fuzz.decode', labels: ['fuzz'] };
  const wanted = (name: 'release' | 'asan' | 'tsan' | 'fuzz') =>
    [native, unsanitized, slow, fuzz].map((test) => testPreset(name).wants(test));
  t.same(wanted('release'), [true, true, true, true]);
  t.same(wanted('asan'), [true, false, true, true]);
  t.same(wanted('tsan'), [true, false, false, true]);
  t.same(wanted('fuzz'), [false, false, false, true]);
});

t.test('a sanitizer has its options, with suppressions of this checkout', async (t) => {
  const { TSAN_OPTIONS = '' } = testPreset('tsan').environment;
  t.ok(TSAN_OPTIONS.endsWith(`:suppressions=${join(root, 'test', 'suppressions', 'tsan.txt')}`));
  t.match(testPreset('asan').environment, { ASAN_OPTIONS: /strict_string_checks=1/ });
  t.match(testPreset('fuzz').environment, { ASAN_OPTIONS: /strict_string_checks=1/ });
});

t.test('the demo takes a folder that is configured for all, not the other way', async (t) => {
  const folder = t.testdir({ 'build.ninja': '' });
  t.notOk(isConfigured(folder, 'demo'), 'not configured at all');
  writeFileSync(stampIn(folder), stampOf('demo'));
  t.ok(isConfigured(folder, 'demo'));
  t.notOk(isConfigured(folder, 'release'));
  writeFileSync(stampIn(folder), stampOf('release'));
  t.ok(isConfigured(folder, 'demo'));
  t.ok(isConfigured(folder, 'release'));
  writeFileSync(stampIn(folder), `${stampOf('release')} `);
  t.notOk(isConfigured(folder, 'release'), 'the presets have changed');
});

/** What a step writes that shows three counts, ten seconds apart. */
async function written(isTTY: boolean, work = true) {
  const real = performance.now;
  let now = 0;
  performance.now = () => now;
  t.teardown(() => {
    performance.now = real;
  });
  let text = '';
  const write = (more: string | Uint8Array) => {
    text += String(more);
    return true;
  };
  await step(
    'building',
    async (begin) => {
      if (!work) return;
      for (const count of ['1/3', '2/3', '3/3']) {
        now += 12_000;
        begin().progress(count);
      }
    },
    { isTTY, write },
  );
  performance.now = real;
  return text;
}

t.test('on a terminal the count stands behind the name and is written over', async (t) => {
  t.equal(
    await written(true),
    'building ... \rbuilding ... 1/3\x1b[K\rbuilding ... 2/3\x1b[K\rbuilding ... 3/3\x1b[K' +
      '\rbuilding ... 36.0 s\x1b[K\n',
  );
});

t.test('elsewhere it is a line every so often', async (t) => {
  t.equal(await written(false), 'building ... \n  2/3 after 24.0 s\nbuilding ... 36.0 s\n');
});

t.test('a step without work says nothing', async (t) => {
  t.equal(await written(true, false), '');
});
