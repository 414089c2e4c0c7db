// How many tests run side by side.
import { availableParallelism } from 'node:os';

/** One more than there are processors: a third of the time of a test is waiting. */
export const testsAtOnce = () => availableParallelism() + 1;
