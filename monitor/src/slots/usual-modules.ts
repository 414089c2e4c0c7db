// The modules that a program's last session has used. They are loaded for its next session before that
// asks. A program is known by its tenant, its name, and which of its GPUs it is about.
import type { ExpectedModule } from '../../../api-server/src/control.js';

/** So many programs of a tenant are remembered: those that ended last. */
const mostPrograms = 1024;
/** So many modules of each program: as many as a Welcome has room for. */
export const mostModules = 32;

export interface ProgramGpu {
  tenant: string;
  /** The name of the function; of the program where it has none. */
  name: string;
  /** Which of its GPUs, 0 for the first. */
  ordinal: number;
}

export class UsualModules {
  /** By tenant. */
  readonly #known = new Map<string, Map<string, readonly ExpectedModule[]>>();

  of(program: ProgramGpu): readonly ExpectedModule[] {
    return this.#known.get(program.tenant)?.get(key(program)) ?? [];
  }

  /** A session that runs has used it for the first time. */
  add(program: ProgramGpu, module: ExpectedModule) {
    const known = this.of(program);
    const there = known.some(({ hash }) => Buffer.compare(hash, module.hash) === 0);
    if (!there && known.length < mostModules) this.#keep(program, [...known, module]);
  }

  /** A session has ended that used these modules. Where there were none, that says nothing of the next one. */
  learn(program: ProgramGpu, modules: readonly ExpectedModule[]) {
    if (modules.length > 0) this.#keep(program, modules);
  }

  #keep(program: ProgramGpu, modules: readonly ExpectedModule[]) {
    const known = this.#known.get(program.tenant) ?? new Map();
    this.#known.set(program.tenant, known);
    const name = key(program);
    known.delete(name);
    // Copied, because each hash is a view into a whole message, which would be kept with it.
    const kept = modules.map(({ hash, size }) => ({ hash: Uint8Array.from(hash), size }));
    known.set(name, kept);
    for (const oldest of known.keys()) {
      if (known.size <= mostPrograms) break;
      known.delete(oldest);
    }
  }
}

function key({ name, ordinal }: ProgramGpu): string {
  return JSON.stringify([name, ordinal]);
}
