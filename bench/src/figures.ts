// What is measured: the programs to run, and the rows that come of what they print.

/** What a row must reach: its value or its ratio, at most or at least. */
export interface Bound {
  of: 'value' | 'ratio';
  most?: number;
  least?: number;
}

/** The counterpart of the same run that a row's ratio is against. */
export type Counterpart = 'raw' | 'native' | 'tcp';

export interface Figure {
  name: string;
  what: string;
  unit: 'us' | 'ms' | 'GiB/s' | 'MiB';
  /** The name in the program's output; by the Unix socket, with `.unix` behind it. */
  from: string;
  counterpart: Counterpart;
  /** In words. */
  comparedWith: string;
  mark?: Bound;
  /** What follows the mark. */
  goal?: Bound;
}

/**
 * Where the two sides run. Apart: on different halves of the processors, as on two machines. One
 * core: on the same one, where nothing is hidden by being done beside the other side.
 */
export type Placement = 'apart' | 'one-core';

type Direction = 'upload' | 'download';

export interface Measurement {
  program: 'measure' | 'runtime' | 'memory';
  /** First argument of the program; of one that measures one thing, empty. */
  argument: string;
  placement: Placement;
  /** Also by the server's Unix socket; then the counterpart is the same by TCP. */
  unix?: true;
  /** How often the program is run, the sides in turn. */
  runs: number;
  /** Within one run, the sides in turn again. */
  repetitions: number;
  /** Calls or copies in one repetition. */
  count: number;
  figures: Figure[];
}

const pingPong = 'raw TCP ping-pong, request and reply of the same size';
const native = 'the same program on the same driver library, without Outboard';

function launches(): Measurement {
  const figures: Figure[] = [
    {
      name: 'launch.returned',
      what: 'cuLaunchKernel, three parameters: until it returns, in a row of 20,000',
      unit: 'us',
      from: 'launch-returned',
      counterpart: 'native',
      comparedWith: native,
      mark: { of: 'value', most: 1 },
      goal: { of: 'value', most: 0.3 },
    },
    {
      name: 'launch.done',
      what: 'the same, with one cuCtxSynchronize behind them all',
      unit: 'us',
      from: 'launch-done',
      counterpart: 'raw',
      comparedWith: 'raw TCP stream of as many bytes, until the peer has them',
    },
  ];
  const common = { placement: 'apart', runs: 3, repetitions: 5, count: 20_000 } as const;
  return { program: 'measure', argument: 'launch', ...common, figures };
}

function runtimeLaunches(): Measurement {
  const figures: Figure[] = [
    {
      name: 'launch.runtime',
      what: 'kernel<<<>>>, three parameters: until it returns, in a row of 20,000',
      unit: 'us',
      from: 'runtime-launch',
      counterpart: 'native',
      comparedWith: native,
    },
  ];
  const common = { placement: 'apart', runs: 3, repetitions: 5, count: 20_000 } as const;
  return { program: 'runtime', argument: 'launch', ...common, figures };
}

function roundTrip(argument: string, what: string, placement: Placement): Measurement {
  const figure: Figure = {
    name: placement === 'apart' ? argument : `${argument}.${placement}`,
    what: placement === 'apart' ? what : `${what}; both sides on one core`,
    unit: 'us',
    from: argument,
    counterpart: 'raw',
    comparedWith: pingPong,
    mark: { of: 'ratio', most: 1.3 },
    goal: { of: 'ratio', most: 1.15 },
  };
  const common = { placement, runs: 3, repetitions: 7, count: 2000 };
  return { program: 'measure', argument, ...common, figures: [figure] };
}

function roundTrips(placement: Placement): Measurement[] {
  return [
    roundTrip(
      'call',
      'cuOccupancyAvailableDynamicSMemPerBlock, which gives the device nothing to do',
      placement,
    ),
    roundTrip('synchronise', 'cuLaunchKernel and cuCtxSynchronize', placement),
    roundTrip('read', 'cuLaunchKernel and cuMemcpyDtoH of 4 bytes', placement),
  ];
}

function small(): Measurement[] {
  const read = roundTrip('small-read', 'cuMemcpyDtoH of 4 KiB', 'apart');
  const upload: Figure = {
    name: 'small-upload',
    what: 'cuMemcpyHtoD of 4 KiB, in a row of 20,000 with a wait behind them all',
    unit: 'us',
    from: 'small-upload',
    counterpart: 'raw',
    comparedWith: 'raw TCP stream of the same bytes in the same pieces',
    mark: { of: 'value', most: 1 },
  };
  const threads: Figure = {
    name: 'threads',
    what: 'cuLaunchKernel by 8 threads into 8 streams, each launch, with a wait behind them all',
    unit: 'us',
    from: 'threads',
    counterpart: 'raw',
    comparedWith: 'as many launches by one thread',
    mark: { of: 'ratio', most: 1 },
  };
  const common = { placement: 'apart', runs: 3, repetitions: 5, count: 20_000 } as const;
  return [
    read,
    { program: 'measure', argument: 'small-upload', ...common, figures: [upload] },
    { program: 'measure', argument: 'threads', ...common, count: 200_000, figures: [threads] },
  ];
}

function copy(direction: Direction, mebibytes: number, count: number): Measurement {
  const to = direction === 'upload' ? 'cuMemcpyHtoD' : 'cuMemcpyDtoH';
  const figure: Figure = {
    name: `${direction}.${mebibytes}M`,
    what: `${to} of ${mebibytes} MiB, pageable memory, random contents, until all is there`,
    unit: 'GiB/s',
    from: `${direction}-${mebibytes}`,
    counterpart: 'raw',
    comparedWith: 'raw TCP stream of the same bytes, received in place',
    mark: { of: 'ratio', least: 0.6 },
    goal: { of: 'ratio', least: 0.9 },
  };
  const common = { placement: 'apart', runs: 3, repetitions: 3, count } as const;
  return { program: 'measure', argument: figure.from, ...common, figures: [figure] };
}

function pinnedCopy(direction: Direction): Measurement {
  const to = direction === 'upload' ? 'cuMemcpyHtoDAsync' : 'cuMemcpyDtoHAsync';
  const figure: Figure = {
    name: `${direction}.64M.pinned`,
    what: `${to} of 64 MiB, pinned memory, random contents, two copies and a wait behind them`,
    unit: 'GiB/s',
    from: `${direction}-64-pinned`,
    counterpart: 'raw',
    comparedWith: 'raw TCP stream of the same bytes, received in place',
    mark: { of: 'ratio', least: 0.9 },
  };
  const common = { placement: 'apart', runs: 3, repetitions: 3, count: 2 } as const;
  return { program: 'measure', argument: figure.from, ...common, figures: [figure] };
}

/**
 * Without marks: they tell whether the socket of a server on the same machine is worth its name, and
 * the memory that both sides share for large copies.
 */
function byUnixSocket(measurement: Measurement): Measurement {
  const figures = measurement.figures.map(
    ({ mark: _mark, goal: _goal, ...figure }): Figure => ({
      ...figure,
      name: `${figure.name}.unix`,
      what: `${figure.what}; by the server's Unix socket`,
      from: `${figure.from}.unix`,
      counterpart: 'tcp',
      comparedWith: 'the same by TCP, over loopback',
    }),
  );
  return { ...measurement, unix: true, figures };
}

function memory(): Measurement {
  const figure = (name: string, what: string, most?: number): Figure => ({
    ...{ name, what, unit: 'MiB', from: name.replaceAll('.', '-'), counterpart: 'native' },
    comparedWith: 'the null device in the same process, whose device memory is in there too',
    ...(most === undefined ? {} : { mark: { of: 'value', most } }),
  });
  const figures = [
    figure('memory.idle', 'resident memory that the library adds to an attached program', 4),
    figure('memory.idle.pss', 'the same, pages that processes share divided by their number'),
    figure('memory.idle.dirty', 'the same, pages that are written and its own'),
    figure('memory.busy', 'at most during 80,000 launches and copies of 64 MiB of every kind', 32),
    figure('memory.busy.dirty', 'behind them, pages that are written and its own'),
  ];
  const common = { placement: 'apart', runs: 5, repetitions: 1, count: 1 } as const;
  return { program: 'memory', argument: '', ...common, figures };
}

function attaches(): Measurement[] {
  const once = { placement: 'apart', runs: 11, repetitions: 1, count: 1 } as const;
  const attach: Figure = {
    name: 'attach',
    what: 'driver API: from before cuInit until the first result of a kernel is read',
    unit: 'ms',
    from: 'attach',
    counterpart: 'raw',
    comparedWith: 'raw TCP connection and as many round trips of the same mean size',
    mark: { of: 'value', most: 20 },
    goal: { of: 'value', most: 5 },
  };
  const runtime: Figure = {
    name: 'attach.runtime',
    what: 'runtime API: from before the first call until the first result of a kernel is read',
    unit: 'ms',
    from: 'runtime-attach',
    counterpart: 'native',
    comparedWith: native,
    mark: { of: 'value', most: 20 },
    goal: { of: 'value', most: 5 },
  };
  const whole: Figure = {
    name: 'process',
    what: 'the same program, from its start to its end as its parent sees it',
    unit: 'ms',
    from: 'runtime-attach-process',
    counterpart: 'native',
    comparedWith: native,
  };
  return [
    { program: 'measure', argument: 'attach', ...once, figures: [attach] },
    { program: 'runtime', argument: 'attach', ...once, figures: [runtime, whole] },
  ];
}

export const measurements: Measurement[] = [
  launches(),
  runtimeLaunches(),
  ...roundTrips('apart'),
  ...small(),
  copy('upload', 1, 64),
  copy('upload', 16, 8),
  copy('upload', 64, 2),
  pinnedCopy('upload'),
  copy('upload', 256, 1),
  copy('download', 1, 64),
  copy('download', 16, 8),
  copy('download', 64, 2),
  pinnedCopy('download'),
  copy('download', 256, 1),
  ...[
    ...roundTrips('apart'),
    copy('upload', 1, 64),
    copy('upload', 64, 2),
    pinnedCopy('upload'),
    copy('download', 1, 64),
    copy('download', 64, 2),
    pinnedCopy('download'),
  ].map(byUnixSocket),
  ...attaches(),
  memory(),
  ...roundTrips('one-core'),
];

/** Enough to see that everything works; its figures mean little. */
export function quick(measurement: Measurement): Measurement {
  const count = Math.max(1, Math.floor(measurement.count / 20));
  return { ...measurement, runs: 1, repetitions: 1, count };
}
