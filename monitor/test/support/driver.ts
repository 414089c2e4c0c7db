import type { Driver } from '../../src/devices/devices.js';

/** A driver that offers nothing, but for what is named. */
export function aDriver(named: Partial<Driver> = {}): Driver {
  return {
    kind: 'software',
    library: '',
    gpus: 1,
    offered: [],
    left: [],
    env: {},
    nvml: null,
    file: null,
    instead: null,
    traits: null,
    ...named,
  };
}
