// The last minutes, so that a page that is opened now does not begin empty: one sample per second,
// bounded by their number and by how many slots a server has.
import type { View } from '../base/view.js';
import type { HistoryView } from './schemas.js';

interface GpuSample {
  index: number;
  uuid: string;
  reserved: number;
  used: number;
  requested: number;
  busy: number | null;
}

interface SessionSample {
  used: number;
  received: number | null;
  owed: number | null;
}

interface Sample {
  time: number;
  gpus: GpuSample[];
  sessions: Map<number, SessionSample>;
}

export const historySeconds = 600;

export class History {
  readonly #most: number;
  /** Oldest first, once it is turned by `#next`. */
  readonly #ring: Sample[] = [];
  #next = 0;

  constructor(most = historySeconds) {
    this.#most = most;
  }

  add(view: View) {
    this.#ring[this.#next] = sampleOf(view);
    this.#next = (this.#next + 1) % this.#most;
  }

  /** The newest `count` samples, in columns. */
  last(count: number): HistoryView {
    const { length } = this.#ring;
    const turn = length < this.#most ? 0 : this.#next;
    const ordered = [...this.#ring.slice(turn), ...this.#ring.slice(0, turn)];
    const samples = ordered.slice(Math.max(0, length - count));
    const newest = samples.at(-1);
    return {
      times: samples.map(({ time }) => time),
      gpus: (newest?.gpus ?? []).map((gpu) => gpuColumns(gpu, samples)),
      sessions: [...(newest?.sessions.keys() ?? [])].map((id) => sessionColumns(id, samples)),
    };
  }
}

function sampleOf({ server, gpus, sessions }: View): Sample {
  return {
    time: Date.parse(server.now),
    gpus: gpus.map(({ index, uuid, memory, share }) => ({
      index,
      uuid,
      reserved: memory.reserved,
      used: memory.used,
      requested: share.requested,
      busy: share.busy,
    })),
    sessions: new Map(
      sessions.map(({ id, memory, share }) => [
        id,
        { used: memory.used, received: share.received, owed: share.owed },
      ]),
    ),
  };
}

function gpuColumns({ index, uuid }: GpuSample, samples: Sample[]) {
  const none: GpuSample = { index, uuid, reserved: 0, used: 0, requested: 0, busy: 0 };
  const column = <Name extends keyof GpuSample>(name: Name): GpuSample[Name][] =>
    samples.map(({ gpus }) => (gpus.find((gpu) => gpu.index === index) ?? none)[name]);
  return {
    index,
    uuid,
    reserved: column('reserved'),
    used: column('used'),
    requested: column('requested'),
    busy: column('busy'),
  };
}

/** A session runs from its first sample to the newest one. */
function sessionColumns(id: number, samples: Sample[]) {
  const from = samples.findIndex(({ sessions }) => sessions.has(id));
  const none: SessionSample = { used: 0, received: 0, owed: 0 };
  const column = <Name extends keyof SessionSample>(name: Name): SessionSample[Name][] =>
    samples.slice(from).map(({ sessions }) => (sessions.get(id) ?? none)[name]);
  return { id, from, used: column('used'), received: column('received'), owed: column('owed') };
}
