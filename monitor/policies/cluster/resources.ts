// What there is and what an instance has of it, as whole numbers: sums of them are exact, and do not depend on the
// order in which they were made.

/** What an instance has of one device. */
export interface Resources {
  /** Thousandths of the device's SMs that are promised. */
  sm: number;
  /** Thousandths of its SMs that are never exceeded. */
  smLimit: number;
  /** Thousandths of its time that are promised, on these SMs. */
  time: number;
  /** MiB. */
  memory: number;
}

/** A GPU, or a slice of a partitioned one, which is a device like any other. */
export interface Device {
  /** GPUs of one node reach each other's memory, and share its server. */
  node: number;
  /** The monitor that has it, by its name. */
  server: string;
  /** Of the node. */
  gpu: number;
  /** As NVIDIA names a profile, for example 1g.5gb; null: the whole GPU. */
  slice: string | null;
  /** MiB. */
  memory: number;
}

/** Thousandths: all of a device. */
export const whole = 1000;

/** What may be promised of a device altogether. */
export interface Bounds {
  /** Thousandths: of promised SMs. */
  sm: number;
  /** Thousandths: of limits. */
  smLimit: number;
}

/** Throws a RangeError that names what is wrong: a number that is not whole, below 0, or a limit below its promise. */
export function checkResources({ sm, smLimit, time, memory }: Resources) {
  for (const [name, value] of Object.entries({ sm, smLimit, time, memory })) {
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new RangeError(`${name} is ${value}: expected a whole number that is not negative`);
    }
  }
  if (smLimit < sm) throw new RangeError(`the limit of SMs, ${smLimit}, is below ${sm}`);
}
