// How fast sessions get on that use one GPU at the same time.

export interface Runner {
  /** Of the function: two of one name are alike. */
  name: string;
}

export interface CoRun {
  name: string;
  /** Seconds of GPU work that each does in a second, in their order. */
  rates(running: readonly Runner[]): number[];
}

/** Nobody slows anybody down: what each takes was fixed before. */
export const undisturbed: CoRun = {
  name: 'undisturbed',
  rates: (running) => running.map(() => 1),
};

/**
 * Processor sharing: all get equal parts. While one copies or waits for its host another may
 * compute, so that different functions together do `gain` times what one alone does; like ones
 * want the same thing at the same time, and gain nothing.
 */
export function shared(gain: number): CoRun {
  return {
    name: `shared, gain ${gain}`,
    rates(running) {
      const alike = running.every(({ name }) => name === running[0]?.name);
      const rate = Math.min(1, (alike ? 1 : gain) / running.length);
      return running.map(() => rate);
    },
  };
}
