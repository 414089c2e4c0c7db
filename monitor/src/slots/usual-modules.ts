// What programs load: the modules that a program's last session used are loaded for its next one
// before it asks. Known by tenant and name of the function, for each of its GPUs.
import type { ExpectedModule } from '../../../api-server/src/control.js';

/** Programs of a tenant that are remembered: those that ended last. */
const mostPrograms = 1024;
/** Of each, as many as a Welcome holds. */
export const mostModules = 32;

export interface ProgramGpu {
  tenant: string;
  /** Of the function, or of the program where it has none. */
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

  /** A session has ended that used these. One that used none says nothing about the next. */
  learn(program: ProgramGpu, modules: readonly ExpectedModule[]) {
    if (modules.length > 0) this.#keep(program, modules);
  }

  #keep(program: ProgramGpu, modules: readonly ExpectedModule[]) {
    const known = this.#known.get(program.tenant) ?? new Map();
    this.#known.set(program.tenant, known);
    const name = key(program);
    known.delete(name);
    // Copies: these are views of whole messages.
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
