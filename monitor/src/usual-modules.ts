// What programs load: the modules that a program's last session used are loaded for its next one
// before it asks. Known by tenant and name of the function, for each of its GPUs.
import type { ExpectedModule } from '../../api-server/src/control.js';

/** Programs that are remembered: those that ended last. */
const mostPrograms = 1024;
/** Of each, as many as a Welcome holds. */
export const mostModules = 32;

export interface ProgramGpu {
  tenant: string;
  /** Of the function, or of the program where it has none. */
  name: string;
  /** Which of its GPUs, 0 for the first. */
  lane: number;
}

export class UsualModules {
  readonly #known = new Map<string, readonly ExpectedModule[]>();

  of(program: ProgramGpu): readonly ExpectedModule[] {
    return this.#known.get(key(program)) ?? [];
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
    const name = key(program);
    this.#known.delete(name);
    // Copies: these are views of whole messages.
    const kept = modules.map(({ hash, size }) => ({ hash: Uint8Array.from(hash), size }));
    this.#known.set(name, kept);
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= mostPrograms) break;
      this.#known.delete(oldest);
    }
  }
}

function key({ tenant, name, lane }: ProgramGpu): string {
  return JSON.stringify([tenant, name, lane]);
}
