import { Readable } from 'node:stream';
import t from 'tap';
import { parseJunit } from '../rows/junit.mjs';
import {
  emptyRow,
  judged,
  lastLine,
  skipReasons,
  slowest,
  table,
  totals,
  unsteadyTable,
} from '../rows/summary.mjs';
import { countTap } from '../rows/tap-count.mjs';

const count = (tap: string) => countTap(Readable.from([tap]), 'the-file.test.ts');

const row = (name: string, passed: number, failed: number, reasons: string[]) => ({
  ...emptyRow(name),
  passed,
  failures: Array.from({ length: failed }, (_, i) => ({ name: `f${i}`, detail: '' })),
  skips: reasons.map((reason) => ({ name: 's', reason })),
  seconds: 1.26,
});

t.test('the last line', async (t) => {
  t.equal(lastLine({ passed: 12, failed: 0, skipped: 0 }), '12 passed, 0 failed');
  t.equal(lastLine({ passed: 1, failed: 2, skipped: 3 }), '1 passed, 2 failed, 3 skipped');
});

t.test('rows are added up and shown', async (t) => {
  const rows = [row('ctest', 100, 0, ['no nvcc']), row('tap', 7, 2, ['no nvcc', 'other'])];
  t.same(totals(rows), { passed: 107, failed: 2, skipped: 3 });
  t.equal(
    table(rows),
    [
      '       passed  failed  skipped   time',
      'ctest     100       0        1  1.3 s',
      'tap         7       2        2  1.3 s',
    ].join('\n'),
  );
  t.same(skipReasons(rows), ['skipped 2: no nvcc', 'skipped 1: other']);
});

t.test('a few unsteady tests are told and pass; more of them fail', async (t) => {
  const unsteady = (count: number) => [
    {
      ...row('tap', 9, 1, []),
      unsteady: Array.from({ length: count }, (_, i) => ({ name: `u${i}`, detail: 'why\nmore' })),
    },
  ];
  t.same(totals(judged(unsteady(3))), { passed: 9, failed: 1, skipped: 0 });
  t.same(totals(judged(unsteady(4))), { passed: 5, failed: 5, skipped: 0 });
  t.equal(unsteadyTable(unsteady(2)), 'tap\tu0\twhy\ntap\tu1\twhy\n');
});

t.test('the slowest are told, longest first', async (t) => {
  const times = [1, 30, 2].map((seconds) => ({ name: `t${seconds}`, seconds }));
  t.same(slowest([{ ...row('tap', 3, 0, []), times }], 2), [
    '   30.0 s  tap: t30',
    '    2.0 s  tap: t2',
  ]);
});

t.test('a tap test is a block with assertions of its own', async (t) => {
  const result = await count(`TAP version 14
# Subtest: outer
    # Subtest: first
        ok 1 - a
        ok 2 - b
        1..2
    ok 1 - first
    # Subtest: second
        ok 1 - c
        1..1
    ok 2 - second
    1..2
ok 1 - outer
# Subtest: both
    ok 1 - own assertion
    # Subtest: inner
        ok 1 - d
        1..1
    ok 2 - inner
    1..2
ok 2 - both
ok 3 - at the top
1..3
`);
  t.match(result, { passed: 5, failures: [], skips: [], results: { ok: true } });
});

t.test('failures are counted once, in the block where they are', async (t) => {
  const result = await count(`TAP version 14
# Subtest: outer
    # Subtest: bad
        ok 1 - fine
        not ok 2 - sum
          ---
          at:
            fileName: x.test.ts
            lineNumber: 12
          found: 3
          wanted: 4
          ...
        not ok 3 - again
        1..3
    not ok 1 - bad
    # Subtest: good
        ok 1 - fine
        1..1
    ok 2 - good
    1..2
not ok 1 - outer
1..1
`);
  t.equal(result.passed, 1);
  t.equal(result.failures.length, 1);
  t.equal(result.failures[0]?.name, 'outer > bad');
  t.match(
    result.failures[0]?.detail,
    /^not ok: sum\nat x\.test\.ts:12\nfound: {2}3\nwanted: 4\nnot ok: again$/,
  );
});

t.test('a block that throws or breaks its plan fails though its assertions are fine', async (t) => {
  const result = await count(`TAP version 14
# Subtest: throws
    ok 1 - fine
    1..1
not ok 1 - throws
  ---
  stack: |
    somewhere
  ...
1..1
`);
  t.match(result, { passed: 0, failures: [{ name: 'throws', detail: /somewhere/ }] });
});

t.test('a block that asserts nothing fails', async (t) => {
  const result = await count(`TAP version 14
# Subtest: empty
    1..0
ok 1 - empty
# Subtest: heading
    # Subtest: empty, too
        1..0
    ok 1 - empty, too
    # Subtest: not yet
        not ok 1 - later # TODO not yet
        1..1
    ok 2 - not yet
    1..2
ok 2 - heading
1..2
`);
  t.match(result, { passed: 0, skips: [{ name: 'heading > not yet > later' }] });
  t.same(
    result.failures.map(({ name }) => name),
    ['empty', 'heading > empty, too'],
  );
  t.match(result.failures[0]?.detail, 'asserts nothing');
});

t.test('skipped and todo tests are neither passed nor failed', async (t) => {
  const result = await count(`TAP version 14
ok 1 - whole block # SKIP no nvcc
# Subtest: outer
    ok 1 - fine
    not ok 2 - later # TODO not yet
    1..2
ok 2 - outer
1..2
`);
  t.match(result, {
    passed: 1,
    failures: [],
    skips: [
      { name: 'whole block', reason: 'no nvcc' },
      { name: 'outer > later', reason: 'not yet' },
    ],
  });
});

t.test("ctest's results", async (t) => {
  const cases = parseJunit(`<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="(empty)" tests="6">
	<testcase name="good" classname="good" time="0.1" status="run">
		<system-out>a &lt;b&gt; &amp;amp; &#65;
</system-out>
	</testcase>
	<testcase name="bad" classname="bad" time="1" status="fail">
		<failure message=""/>
		<system-out></system-out>
	</testcase>
	<testcase name="skip" classname="skip" time="0" status="notrun">
		<skipped message="SKIP_RETURN_CODE=77"/>
		<system-out></system-out>
	</testcase>
	<testcase name="absent" classname="absent" time="0" status="notrun">
		<skipped message="Unable to find executable"/>
		<system-out>Unable to find executable: /x</system-out>
	</testcase>
	<testcase name="off" classname="off" time="0" status="disabled">
		<system-out>Disabled</system-out>
	</testcase>
</testsuite>`);
  t.same(
    cases.map(({ name, result, reason }) => [name, result, reason]),
    [
      ['good', 'passed', ''],
      ['bad', 'failed', ''],
      ['skip', 'skipped', 'SKIP_RETURN_CODE=77'],
      ['absent', 'failed', 'Unable to find executable'],
      ['off', 'skipped', 'disabled'],
    ],
  );
  t.equal(cases[0]?.output, 'a <b> &amp; A\n');
});
