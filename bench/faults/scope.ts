// What is ended and removed when a piece of work is over, however it ends.

/** A scope, or a test of tap. */
export interface Teardowns {
  teardown(end: () => unknown): void;
}

export class Scope implements Teardowns {
  readonly #ends: (() => unknown)[] = [];

  teardown(end: () => unknown) {
    this.#ends.push(end);
  }

  /** Last first. */
  async close() {
    for (const end of this.#ends.splice(0).reverse()) await end();
  }

  static async with<T>(work: (scope: Scope) => Promise<T>): Promise<T> {
    const scope = new Scope();
    try {
      return await work(scope);
    } finally {
      await scope.close();
    }
  }
}
