// What sessions of a program have learnt of the libraries that the server calls for them (docs/libraries.md): the next one
// is told, and asks for none of it. It is known as usual modules are; what it says only the executor knows.
import type { ProgramGpu } from './usual-modules.js';

/** So many programs of a tenant are remembered: those that ended last. */
const mostPrograms = 256;
const nothing = new Uint8Array();

export class LearntCalls {
  /** By tenant. */
  readonly #known = new Map<string, Map<string, Uint8Array>>();

  of(program: ProgramGpu): Uint8Array {
    return this.#known.get(program.tenant)?.get(key(program)) ?? nothing;
  }

  /** A session has ended that knew this. Where that is nothing, it has called no library. */
  learn(program: ProgramGpu, learnt: Uint8Array) {
    if (learnt.length === 0) return;
    const known = this.#known.get(program.tenant) ?? new Map<string, Uint8Array>();
    this.#known.set(program.tenant, known);
    known.delete(key(program));
    // Copied, because it is a view into a whole message.
    known.set(key(program), Uint8Array.from(learnt));
    for (const oldest of known.keys()) {
      if (known.size <= mostPrograms) break;
      known.delete(oldest);
    }
  }
}

function key({ name, ordinal }: ProgramGpu): string {
  return JSON.stringify([name, ordinal]);
}
