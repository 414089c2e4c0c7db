// A GPU that is being emptied: its sessions go where they can, one at a time, so that what one takes
// is seen before the next one is placed. Those that cannot go are left to end where they are.
import { bestTarget, cheapestFirst, type MigrationPolicy, type Move } from '../migration.js';

export const drain: MigrationPolicy<null> = {
  name: 'drain',
  summary: 'sessions leave GPUs that are being emptied, the smallest first',
  about:
    'What `outboard drain --gpu GPU --move` does, whatever --migration says: one session at a ' +
    'time, each as soon as it fits on another GPU. What cannot go ends where it is.',
  periodMs: 250,
  begin: () => null,
  step({ gpus }, memory) {
    const byIndex = [...gpus].sort((one, other) => one.index - other.index);
    for (const from of byIndex) {
      if (!from.leaving) continue;
      for (const session of cheapestFirst(from)) {
        const to = bestTarget(session, from, gpus);
        const move: Move | null = to && { session: session.id, to: to.index };
        if (move) return { moves: [move], memory };
      }
    }
    return { moves: [], memory };
  },
};
