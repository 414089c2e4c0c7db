// Splits of a GPU's time. In each, what sessions receive is compared with what they are owed while
// all of them have work.
import type { Load } from './workload.js';

export interface Scenario {
  name: string;
  what: string;
  seconds: number;
  loads: Load[];
  /** Processes share the device by time slices (docs/software-device/traits.md); else they run side by side. */
  slices?: boolean;
  /** Changes of a session's share while it runs: after so many seconds, by index. */
  changes?: { after: number; load: number; request: number; limit: number }[];
}

const load = (request: number, limit: number, kernelMicroseconds: number, rest = {}): Load => ({
  request,
  limit,
  kernelMicroseconds,
  form: 'plain',
  ...rest,
});

/** Those of two sessions that are measured once more with time slices. */
const sliced = ['three-quarters', 'uneven', 'short', 'long', 'very-long', 'held'];

const whole: Scenario[] = [
  {
    name: 'three-quarters',
    what: 'two, 75:25, kernels of 1 ms',
    seconds: 8,
    loads: [load(75, 100, 1000), load(25, 100, 1000)],
  },
  {
    name: 'halves',
    what: 'two, 50:50, kernels of 1 ms',
    seconds: 8,
    loads: [load(50, 100, 1000), load(50, 100, 1000)],
  },
  {
    name: 'uneven',
    what: 'two, 75:25, kernels of 200 us and 2 ms',
    seconds: 8,
    loads: [load(75, 100, 200), load(25, 100, 2000)],
  },
  {
    name: 'short',
    what: 'two, 60:40, kernels of 10 us',
    seconds: 8,
    loads: [load(60, 100, 10), load(40, 100, 10)],
  },
  {
    name: 'long',
    what: 'two, 70:30, kernels of 1 ms against 100 ms',
    seconds: 15,
    loads: [load(70, 100, 1000), load(30, 100, 100_000)],
  },
  {
    name: 'very-long',
    what: 'two, 50:50, kernels of 1 ms against 500 ms',
    seconds: 55,
    loads: [load(50, 100, 1000), load(50, 100, 500_000)],
  },
  {
    name: 'forms',
    what: 'three, 50:30:20: plain, cooperative, four streams',
    seconds: 8,
    loads: [
      load(50, 100, 500),
      load(30, 100, 500, { form: 'cooperative' }),
      load(20, 100, 500, { form: 'streams' }),
    ],
  },
  {
    name: 'cooperative',
    what: 'two, 60:40, kernels of 1 ms: cooperative, plain',
    seconds: 8,
    loads: [load(60, 100, 1000, { form: 'cooperative' }), load(40, 100, 1000)],
  },
  {
    name: 'graphs',
    what: 'two, 60:40: graphs of ten kernels of 200 us, plain kernels of 1 ms',
    seconds: 8,
    loads: [load(60, 100, 200, { form: 'graph' }), load(40, 100, 1000)],
  },
  {
    name: 'held',
    what: 'two, 50:50, kernels of 1 ms; behind each of one a function of the program holds its stream for 500 us',
    seconds: 8,
    loads: [load(50, 100, 1000), load(50, 100, 1000, { form: 'host' })],
  },
  {
    name: 'held-streams',
    what: 'the same with four such streams, so that one of them always has work',
    seconds: 8,
    loads: [load(50, 100, 1000), load(50, 100, 1000, { form: 'host-streams' })],
  },
  {
    name: 'eight',
    what: 'eight, 30 20 15 10 10 5 5 5, kernels of 500 us',
    seconds: 10,
    loads: [30, 20, 15, 10, 10, 5, 5, 5].map((request) => load(request, 100, 500)),
  },
  {
    name: 'limit',
    what: 'alone with 30:40: more is there, but never more than 40',
    seconds: 6,
    loads: [load(30, 40, 500)],
  },
  {
    name: 'lend',
    what: 'two, 50:50; one works 500 ms and rests 1000 ms: the other has all meanwhile',
    seconds: 12,
    loads: [load(50, 100, 1000), load(50, 100, 1000, { burst: [500, 1000] })],
  },
  {
    name: 'change',
    what: 'two, 50:50, changed to 80:20 after 5 seconds',
    seconds: 12,
    loads: [load(50, 100, 1000), load(50, 100, 1000)],
    changes: [
      { after: 5, load: 1, request: 20, limit: 100 },
      { after: 5, load: 0, request: 80, limit: 100 },
    ],
  },
];

export const scenarios: Scenario[] = [
  ...whole,
  ...whole
    .filter(({ name }) => sliced.includes(name))
    .map((one) => ({
      ...one,
      name: `${one.name}-sliced`,
      what: `${one.what}; time slices`,
      slices: true,
    })),
];
