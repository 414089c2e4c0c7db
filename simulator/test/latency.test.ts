// The predictor of latencies: its lines, its trees, and that trees which end nowhere are refused.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { type Anchors, LatencyPredictor, readTrees, type Trees } from '../predictor/latency.js';

const none = { held: [], heldError: 0, seed: 1, folds: 5 };
const error = { cells: 0, base: 0, error: 0 };
const treesOf = (...trees: Trees['trees']): Trees => {
  return { sms: [10, 100], times: [10, 50], trees, ...none, withAnchors: error, without: error };
};

const anchors: Anchors = {
  batch: 4,
  bySm: [
    [10, 80],
    [40, 20],
    [100, 16],
  ],
  byTime: [
    [10, 160],
    [50, 32],
    [100, 16],
  ],
};

t.test('between cells a line in logarithms; of SMs and time whichever is slower', async (t) => {
  const predictor = new LatencyPredictor(treesOf());
  const base = (sm: number, time: number) => Number(predictor.base(anchors, sm, time).toFixed(6));
  t.equal(base(100, 100), 16);
  t.equal(base(40, 100), 20);
  t.equal(base(20, 100), 40, 'half way in logarithms');
  t.equal(base(100, 25), Number((16 * 4).toFixed(6)), 'a quarter of the time, on the line');
  t.equal(base(10, 50), 80);
  t.equal(base(40, 10), 160);
  t.equal(base(5, 100), 80, 'beyond the cells what the nearest has');
  t.equal(predictor.predict(anchors, 40, 100).toFixed(6), '20.000000', 'without trees the base');
  t.throws(() => predictor.predict({ ...anchors, bySm: [] }, 40, 100), /nothing was measured/);
});

t.test('trees correct it, each by its own inputs', async (t) => {
  // Input 1: percent of SMs; input 0: the batch.
  const predictor = new LatencyPredictor(
    treesOf([[1, 50, 2], [Math.log(2)], [0, 4, 4], [Math.log(3)], [9]], [[Math.log(0.5)]]),
  );
  const factor = (sm: number, batch = 4) =>
    (predictor.predict({ ...anchors, batch }, sm, 100) / predictor.base(anchors, sm, 100)).toFixed(
      6,
    );
  t.equal(factor(50), '1.000000', 'at the threshold to the left: 2 and 0.5');
  t.equal(factor(51), '1.500000');
  t.equal(factor(51, 8), (0.5 * Math.exp(9)).toFixed(6));
});

t.test('the base falls with SMs and with time, where what was measured does', async (t) => {
  const predictor = new LatencyPredictor(treesOf());
  const percent = fc.integer({ min: 1, max: 100 });
  const run = fc.property(percent, percent, percent, percent, (sm, time, more, longer) => {
    const slower = predictor.base(anchors, Math.min(sm, more), Math.min(time, longer));
    return slower >= predictor.base(anchors, Math.max(sm, more), Math.max(time, longer)) - 1e-9;
  });
  t.doesNotThrow(() => fc.assert(run, { numRuns: 500 }));
});

t.test('files that hold no trees are refused', async (t) => {
  const file = path.join(t.testdir(), 'trees.json');
  const wrong: unknown[] = [
    {},
    { trees: [[]] },
    { trees: [[[0, 1, 1], [2], [3]]] },
    { trees: [[[0, 1, 5], [2]]] },
  ];
  for (const one of wrong) {
    writeFileSync(file, JSON.stringify(one));
    t.throws(() => readTrees(file), /expected trees as tools\/train-latency.py writes them/);
  }
  writeFileSync(file, JSON.stringify(treesOf([[0, 1, 2], [2], [3]])));
  t.equal(readTrees(file).trees.length, 1);
});
