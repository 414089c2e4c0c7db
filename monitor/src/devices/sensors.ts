// What the GPU machine's own NVML says of each device, asked when somebody wants to know, by the
// device's first API server process: this one never opens a driver.
import type { NvmlFacts } from '../../../api-server/src/native.js';

/** How long an answer is good for, and how long one waits for another. */
const freshMs = 500;
const patienceMs = 300;

interface Reading {
  facts: NvmlFacts | null;
  at: number;
  asking: Promise<NvmlFacts | null> | undefined;
}

/** A process on the GPU machine that asks the NVML library there about the device with a UUID. */
export interface NvmlSource {
  nvml(library: string, uuid: string): Promise<NvmlFacts | null>;
}

export class Sensors {
  readonly #library: string | null;
  readonly #readings = new Map<string, Reading>();

  /** `library` null: there is no NVML. */
  constructor(library: string | null) {
    this.#library = library;
  }

  /** Null: nothing is known. Where NVML takes its time, what it said before. */
  async of(uuid: string, slot: NvmlSource | undefined): Promise<NvmlFacts | null> {
    if (this.#library === null || !slot) return null;
    const none = { facts: null, at: Number.NEGATIVE_INFINITY, asking: undefined };
    const reading = this.#readings.get(uuid) ?? none;
    this.#readings.set(uuid, reading);
    if (performance.now() - reading.at < freshMs) return reading.facts;
    reading.asking ??= this.#ask(reading, this.#library, uuid, slot);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<NvmlFacts | null>((resolve) => {
      timer = setTimeout(() => resolve(reading.facts), patienceMs);
    });
    return Promise.race([reading.asking, late]).finally(() => clearTimeout(timer));
  }

  async #ask(reading: Reading, library: string, uuid: string, slot: NvmlSource) {
    reading.facts = await slot.nvml(library, uuid);
    reading.at = performance.now();
    reading.asking = undefined;
    return reading.facts;
  }
}
