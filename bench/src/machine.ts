// The machine that figures were measured on.
import { readFileSync } from 'node:fs';
import os from 'node:os';

export interface Machine {
  cpu: string;
  cores: number;
  memoryGiB: number;
  kernel: string;
  /** As far as the processor tells. */
  virtual: boolean;
  node: string;
}

export function machine(): Machine {
  const flags = /^flags\s*:.*$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[0] ?? '';
  return {
    cpu: os.cpus()[0]?.model ?? 'unknown',
    cores: os.availableParallelism(),
    memoryGiB: Math.round(os.totalmem() / 2 ** 30),
    kernel: os.release(),
    virtual: /\bhypervisor\b/.test(flags),
    node: process.version,
  };
}
