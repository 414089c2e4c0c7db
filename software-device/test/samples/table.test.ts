import t from 'tap';
import { type Row, readTable, table } from './table.js';

t.test('a table is read as it was written', async (t) => {
  const rows: Row[] = [
    { place: 'a/one', verdict: 'pass', why: '', remoted: { verdict: 'pass', why: '' } },
    {
      place: 'a/slow',
      verdict: 'pass',
      why: 'up to 2 minutes',
      remoted: { verdict: 'pass', why: 'up to 2 minutes' },
    },
    {
      place: 'a/three',
      verdict: 'pass',
      why: '',
      remoted: { verdict: 'waived', why: 'no peers; not | here' },
    },
    { place: 'a/two', verdict: 'refused', why: '`call (x), <y>|z`; no remoted: word' },
    {
      place: 'b/four',
      verdict: 'waived',
      why: 'no memory',
      remoted: { verdict: 'fail', why: 'status 1' },
    },
    {
      place: 'b/same',
      verdict: 'waived',
      why: 'not here',
      remoted: { verdict: 'waived', why: 'not here' },
    },
    { place: 'b/zero', verdict: 'not built', why: 'graphics' },
  ];
  // What looks like a second reason where there is no second run stays one.
  const versions = { samples: 'commit abc of 2025-01-01', nvcc: '13.0.88' };
  const text = table(rows, versions);
  t.same(readTable(text, versions), rows);
  t.same(
    readTable(text, { ...versions, nvcc: '13.1.0' }),
    [],
    'of other versions nothing is taken',
  );
});
