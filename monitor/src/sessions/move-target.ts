// Where a session can be moved. A pure function.
import type { GpuState } from '../../policies/state.js';

/** What is asked for: a GPU, or another process on the same one; neither: any other GPU that it fits on. */
export interface MoveWish {
  gpu?: number | undefined;
  within?: boolean | undefined;
}

export interface MovedSession {
  id: number;
  /** The GPU that it is on, by index. */
  gpu: number;
  /** Bytes reserved for it. */
  memory: bigint;
  /** Percent promised. */
  shareRequest: number;
  /** The GPUs its tenant may use, by index; null: all. */
  allowed: readonly number[] | null;
}

/** Returns the GPU, by index, or why there is none: the end of a sentence. */
export function targetOf(
  gpus: readonly GpuState[],
  session: MovedSession,
  { gpu, within = false }: MoveWish,
): number | string {
  const from = gpus[session.gpu];
  if (!from) return `its GPU ${session.gpu} is gone`;
  if (within) {
    if (gpu !== undefined && gpu !== from.index)
      return `it is on GPU ${from.index}, and --within moves it to another process there`;
    return unfit(from, from, session) ?? from.index;
  }
  if (gpu !== undefined) {
    const to = gpus[gpu];
    if (!to) return `there is no GPU ${gpu}`;
    if (to === from)
      return `it is on GPU ${gpu} already; --within moves it to another process there`;
    return unfit(to, from, session) ?? gpu;
  }
  const others = gpus.filter((one) => one !== from);
  const fit = others.filter((one) => unfit(one, from, session) === null);
  // The one with most memory left, the first of several.
  const best = fit.reduce<GpuState | null>(
    (most, one) => (most === null || left(one) > left(most) ? one : most),
    null,
  );
  if (best) return best.index;
  const whys = others.map((one) => unfit(one, from, session));
  return whys.length === 0
    ? 'the server has no other GPU; --within moves it to another process on its own'
    : whys.join('; ');
}

const left = ({ memory, reserved }: GpuState) => memory - reserved;

/** Why the session cannot go there; null: it can. */
function unfit(to: GpuState, from: GpuState, session: MovedSession): string | null {
  const named = `GPU ${to.index}`;
  if (!to.healthy) return `${named} is not used now`;
  if (to.name !== from.name) return `${named} is another model (${to.name})`;
  if (session.allowed && !session.allowed.includes(to.index))
    return `its tenant may not use ${named}`;
  if (!to.free.includes(true)) return `${named} has no free slot`;
  if (left(to) < session.memory)
    return `${named} has ${left(to) >> 20n} MiB left for sessions, and it has ${session.memory >> 20n} MiB reserved`;
  const promised = to.sessions
    .filter(({ id }) => id !== session.id)
    .reduce((sum, { shareRequest }) => sum + shareRequest, 0);
  if (promised + session.shareRequest > 100)
    return `${named} has ${promised} percent promised, and it has a right to ${session.shareRequest}`;
  return null;
}
