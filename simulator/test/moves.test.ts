// Moves between GPUs, simulated: two like functions on one GPU, and another that becomes free.
import t from 'tap';
import { doneAfter } from '../dgsf/moves.js';
import { shared } from '../server/co-run.js';

const of = (name: string, prepare: number, gpu: number) => ({ name, memory: 1, prepare, gpu });
const slow = of('slow', 1, 10);
const fast = of('fast', 1, 4);
const free = { every: 0.001, looks: 1, cost: () => 0 };

t.test('who moves, when, and what that costs', async (t) => {
  const placed = [
    [slow, 0],
    [slow, 0],
    [fast, 1],
  ] as const;
  const done = (moves: Parameters<typeof doneAfter>[3]) =>
    Number(doneAfter(placed, 2, shared(1.2), moves).toFixed(2));
  t.equal(done(null), 21, 'like ones gain nothing by sharing');
  // At 5 s the other GPU is free, and each has 8 s left.
  t.equal(done(free), 13);
  t.equal(done({ ...free, cost: () => 2 }), 15);
  t.equal(done({ every: 1, looks: 1, cost: () => 0 }), 13, 'a look at 5 s sees it');
  t.equal(done({ every: 1, looks: 3, cost: () => 0 }), 14, 'two looks later each has 7 s left');
  t.equal(done({ every: 100, looks: 1, cost: () => 0 }), 21, 'nobody looks in time');
});

t.test('a function moves once, and nobody moves to a GPU that is taken', async (t) => {
  const all = [
    [slow, 0],
    [slow, 0],
    [slow, 0],
  ] as const;
  // The second GPU is taken by one of them at once; the two others share to the end.
  t.equal(doneAfter(all, 2, shared(1), free).toFixed(1), '16.0');
  t.equal(doneAfter([], 2, shared(1), free), 0);
});
