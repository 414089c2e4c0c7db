// What the two ways of calling cuBLAS have cost the sessions of a function (docs/libraries.md): with the program's own
// library, whose kernels travel one by one, and with the server's. `outboard run --libraries=auto` asks which is the better.
import type { ProgramGpu } from './usual-modules.js';

export type Way = 'guest' | 'remote';

/** Of one session, until its end, as the server counts them. */
export interface LibraryCost {
  roundTrips: bigint;
  /** Both ways together. */
  bytes: bigint;
}

/** So many programs of a tenant are remembered: those that ended last. */
const mostPrograms = 256;
/**
 * What a round trip counts for in bytes: half a millisecond of a network of a gigabit a second. How far the guest is
 * is not known; bytes decide only where round trips are about as many.
 */
const bytesOfRoundTrip = 64n << 10n;
/** As often it is advised to call the server's; a program that still has not calls none. */
const mostAdvised = 2;

interface Known {
  /** The last session of each way. */
  readonly costs: Partial<Record<Way, LibraryCost | null>>;
  advised: number;
}

export class LibraryCosts {
  /** By tenant, then by name. */
  readonly #known = new Map<string, Map<string, Known>>();

  /**
   * A session of it has ended; `way`: whether it has called the server's library; null: it was refused what it needs for
   * that, and may have failed for it.
   */
  learn({ tenant, name }: Pick<ProgramGpu, 'tenant' | 'name'>, way: Way, cost: LibraryCost | null) {
    const known = this.#known.get(tenant) ?? new Map<string, Known>();
    this.#known.set(tenant, known);
    const one = known.get(name) ?? { costs: {}, advised: 0 };
    one.costs[way] = cost;
    known.delete(name);
    known.set(name, one);
    for (const oldest of known.keys()) {
      if (known.size <= mostPrograms) break;
      known.delete(oldest);
    }
  }

  /** The way that has cost less; the one that has not been tried while there is one. */
  advise({ tenant, name }: Pick<ProgramGpu, 'tenant' | 'name'>): Way {
    const one = this.#known.get(tenant)?.get(name);
    const { guest, remote } = one?.costs ?? {};
    if (!one || !guest || remote === null) return 'guest';
    if (remote) return sumOf(remote) < sumOf(guest) ? 'remote' : 'guest';
    return one.advised++ < mostAdvised ? 'remote' : 'guest';
  }
}

function sumOf({ roundTrips, bytes }: LibraryCost): bigint {
  return roundTrips * bytesOfRoundTrip + bytes;
}
