import t from 'tap';
import { longSubjects } from '../rows/subjects.mjs';

t.test('subjects beyond 76 columns are named, since the file came', async (t) => {
  const asked: string[] = [];
  const long = `c3 ${'x'.repeat(77)}`;
  const found = await longSubjects(async (argv) => {
    asked.push(argv.at(-1) ?? '');
    return argv.includes('--diff-filter=A') ? 'abc\n' : `a1 short\nb2 ${'x'.repeat(76)}\n${long}\n`;
  });
  t.same(found, [long]);
  t.same(asked, ['scripts/rows/subjects.mjs', 'abc..HEAD']);
});

t.test('a file that is not committed yet has no commits since', async (t) => {
  t.same(await longSubjects(async () => ''), []);
});
