// DGSF's rule against imbalance: where one GPU serves several functions and another one none, one
// goes over. A sample of how busy each GPU is every 250 ms, the average of five; a move waits for a
// launch of the function, is followed by 5 seconds of rest, and comes once for each function.
//
// Resolved, as the paper and its code leave it open: of several overloaded GPUs the busiest on
// average (the code takes the last one, by mistake); nothing before there are five samples; of its
// functions the one with the least memory in use, as it stops for the shortest time; and what does
// not fit or cannot be moved stays.
import {
  cheapestFirst,
  type MigrationGpu,
  type MigrationPolicy,
  type MigrationState,
  type Move,
  whyNot,
} from '../migration.js';

const samples = 5;
const periodMs = 250;
const restMs = 20 * periodMs;

export interface ImbalanceMemory {
  /** By GPU, percent, newest last, at most five. */
  busy: ReadonlyMap<number, readonly number[]>;
  /** No move before; on the clock of MigrationState.now. Null: none was made. */
  restsUntil: number | null;
}

export const imbalance: MigrationPolicy<ImbalanceMemory> = {
  name: 'imbalance',
  summary: 'from a GPU with several sessions to one with none (DGSF)',
  about:
    'Of the GPU that was the busiest in five samples, the session that uses the least memory ' +
    'and has launched something lately goes over; 5 seconds of rest follow, and each session ' +
    'is moved once.',
  periodMs,
  begin: () => ({ busy: new Map(), restsUntil: null }),
  step(state, { busy: before, restsUntil }) {
    const busy = new Map(
      state.gpus.map(({ index, busy: now }) => [
        index,
        [...(before.get(index) ?? []), now].slice(-samples),
      ]),
    );
    const rests = restsUntil !== null && state.now < restsUntil;
    const move = rests ? null : nextMove(state, busy);
    return move
      ? { moves: [move], memory: { busy, restsUntil: state.now + restMs } }
      : { moves: [], memory: { busy, restsUntil } };
  },
};

function nextMove(
  { gpus }: MigrationState,
  busy: ReadonlyMap<number, readonly number[]>,
): Move | null {
  const average = ({ index }: MigrationGpu) => {
    const seen = busy.get(index) ?? [];
    return seen.length < samples ? null : seen.reduce((sum, one) => sum + one, 0) / samples;
  };
  const byIndex = [...gpus].sort((one, other) => one.index - other.index);
  const over = byIndex
    .filter((gpu) => gpu.sessions.length > 1 && average(gpu) !== null)
    .sort((one, other) => (average(other) ?? 0) - (average(one) ?? 0))[0];
  const under = byIndex.find(({ sessions, healthy }) => healthy && sessions.length === 0);
  if (!over || !under) return null;
  const session = cheapestFirst(over).find(
    (one) => one.launched && one.moves === 0 && whyNot(one, over, under) === null,
  );
  return session ? { session: session.id, to: under.index } : null;
}
