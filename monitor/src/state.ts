// What admission and placement decide on: plain data, so that they are functions of it and nothing
// else, and a simulator can make it up.

export interface GpuState {
  index: number;
  /** Bytes that sessions may have, all together. */
  memory: bigint;
  /** Of them, promised to sessions that run now. */
  reserved: bigint;
  /** Bytes for a session that does not say how much it wants. */
  usual: bigint;
  /** By slot: whether a warm API server process waits there. */
  free: boolean[];
}

export interface SessionRequest {
  /** Bytes; null: the usual. */
  memory: bigint | null;
  /** Percent of the GPU's time; 0: none asked. */
  shareRequest: number;
  shareLimit: number;
}

export interface Placement {
  gpu: number;
  slot: number;
  /** Bytes to reserve. */
  memory: bigint;
}
