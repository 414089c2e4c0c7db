// What is measured of the software device, and what must be reached.
import type { Bound } from '../src/figures.js';

export interface Figure {
  name: string;
  what: string;
  /** What `ratio` is taken to; none where the figure stands alone. */
  comparedWith?: string;
  mark?: Bound;
}

const c = 'the same work in C, -O3, AVX2, one core';

export const figures: Figure[] = [
  ratio('vector-add', 'c[i] = a[i] + b[i], 16 Mi floats', 0.3),
  ratio('sgemm', '1024 x 1024, 8 x 8 results per thread', 0.35),
  ratio('reduction', 'sum of 16 Mi floats through shared memory', 0.6),
  ratio('histogram', '256 bins of 4 Mi bytes, atomics in shared memory'),
  ratio('transpose', '4096 x 4096 floats through tiles in shared memory'),
  ratio('stencil', 'five points, 4096 x 4096 floats'),
  ratio('black-scholes', '4 Mi options'),
  ratio('divergent', 'steps of the Collatz sequence of 1 Mi numbers'),
  {
    name: 'half-gemm',
    what: '1024 x 1024 halves by wmma',
    comparedWith: 'sgemm on the device',
    mark: { of: 'ratio', least: 3 },
  },
  value('launch.empty.returned', 'an empty kernel, until the call returns', 3),
  { name: 'launch.empty.done', what: 'the same, until a thousand are done' },
  { name: 'launch.one-block.returned', what: '256 threads that store a word each' },
  value('launch.one-block.done', 'the same, until a thousand are done', 5),
  value('synchronise', 'a stream, right behind an empty launch', 5),
  { name: 'synchronise.idle', what: 'a stream that has nothing to do' },
  value('block', 'one of 65,536 blocks of 32 threads that store a word each', 400),
  value('translation', 'kernels of CUB, at their first use', 3),
  { name: 'translation.kernel', what: 'the same, for each kernel' },
  { name: 'translation.memory', what: 'what stays of it' },
  {
    name: 'index',
    what: 'loading a module of 100 MB of PTX',
    mark: { of: 'value', least: 500 },
  },
  {
    name: 'two-workers',
    what: 'the divergent kernel, wall time',
    comparedWith: 'one worker',
    mark: { of: 'ratio', least: 1.8 },
  },
];

function ratio(name: string, what: string, least?: number): Figure {
  const figure: Figure = { name, what, comparedWith: c };
  return least === undefined ? figure : { ...figure, mark: { of: 'ratio', least } };
}

function value(name: string, what: string, most: number): Figure {
  return { name, what, mark: { of: 'value', most } };
}
