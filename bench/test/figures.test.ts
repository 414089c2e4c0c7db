// The judgement of figures, without measuring anything.
import t from 'tap';
import { type Figure, measurements } from '../src/figures.js';
import { expand, placed, processors } from '../src/placement.js';
import { median, meets, row, table } from '../src/row.js';
import { Samples } from '../src/sample.js';

const here = { cpu: 'x', cores: 1, memoryGiB: 1, kernel: 'x', virtual: false, node: 'v20' };

t.test('medians and bounds', async (t) => {
  t.equal(median([3, 1, 2]), 2);
  t.equal(median([4, 1, 2, 3]), 2.5);
  t.ok(meets({ of: 'value', most: 1 }, 1));
  t.notOk(meets({ of: 'value', most: 1 }, 1.01));
  t.ok(meets({ of: 'ratio', least: 0.6 }, 0.6));
  t.notOk(meets({ of: 'ratio', least: 0.6 }, 0.59));
});

t.test('a row compares pair by pair', async (t) => {
  const samples = new Samples();
  // A machine that got ten times slower half way: the pairs still agree.
  samples.of('x', 'cuda').push(12, 120, 1200);
  samples.of('x', 'raw').push(10, 100, 1000);
  samples.of('x', 'native').push(1);
  const figure: Figure = {
    ...{ name: 'x', what: 'x', unit: 'us', from: 'x', counterpart: 'raw', comparedWith: 'raw' },
    mark: { of: 'ratio', most: 1.3 },
    goal: { of: 'ratio', most: 1.15 },
  };
  const made = row(figure, samples, 'today', here);
  t.match(made, { value: 120, min: 12, max: 1200, repetitions: 3, comparedValue: 100, ratio: 1.2 });
  t.same([made.mark?.met, made.goal?.met, made.native], [true, false, 1]);
  t.match(table([made]), /ratio <= 1.3: met .*ratio <= 1.15: NOT met/);
  samples.of('x', 'raw').pop();
  t.throws(() => row(figure, samples, 'today', here), /3 values, but 2/);
});

t.test('the sides get halves of the processors, or one together', async (t) => {
  t.same(expand('0-2,5'), [0, 1, 2, 5]);
  t.same(expand(''), []);
  t.same(processors('apart', [0, 1, 4, 5]), { guest: '0,1', server: '4,5' });
  t.same(processors('apart', [3]), { guest: '', server: '' });
  t.same(processors('one-core', [0, 1]), { guest: '1', server: '1' });
  t.same(processors('one-core', []), { guest: '', server: '' });
  t.same(placed('1', ['a', 'b']), ['taskset', '-c', '1', 'a', 'b']);
  t.same(placed('', ['a']), ['a']);
});

t.test('figures have names of their own, and marks before goals', async (t) => {
  const figures = measurements.flatMap(({ figures }) => figures);
  t.equal(new Set(figures.map(({ name }) => name)).size, figures.length);
  for (const { name, mark, goal } of figures) {
    if (!mark || !goal) continue;
    t.equal(mark.of, goal.of, name);
    t.ok((goal.most ?? 0) <= (mark.most ?? 0) && (goal.least ?? 1) >= (mark.least ?? 0), name);
  }
});
