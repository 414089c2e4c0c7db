// Who waits for a slot, first come, first served.

export class Queue<T> {
  readonly #waiting: T[] = [];
  /** Told of everyone whose position is new, counted from 1. */
  readonly #tell: (one: T, position: number) => void;

  constructor(tell: (one: T, position: number) => void) {
    this.#tell = tell;
  }

  get length(): number {
    return this.#waiting.length;
  }

  get head(): T | undefined {
    return this.#waiting[0];
  }

  append(one: T) {
    this.#waiting.push(one);
    this.#tell(one, this.#waiting.length);
  }

  /** For one who was at the head before, and whose slot was lost. */
  putBack(one: T) {
    this.#waiting.unshift(one);
    this.#tellFrom(0);
  }

  /** False when it was not there. */
  remove(one: T): boolean {
    const index = this.#waiting.indexOf(one);
    if (index < 0) return false;
    this.#waiting.splice(index, 1);
    this.#tellFrom(index);
    return true;
  }

  /** Empties the queue. */
  takeAll(): T[] {
    return this.#waiting.splice(0);
  }

  #tellFrom(index: number) {
    for (const [offset, one] of this.#waiting.slice(index).entries()) {
      this.#tell(one, index + offset + 1);
    }
  }
}
