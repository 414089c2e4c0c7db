// Who waits for a slot, first come, first served.

export class Queue<T> {
  readonly #waiting: T[] = [];
  /** Is told its position, counted from 1; perhaps the same one again. */
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

  /** Adds one at the end, and tells it its position. */
  append(one: T) {
    this.#waiting.push(one);
    this.#tell(one, this.#waiting.length);
  }

  /**
   * Puts one back whose turn had come and whose slot was lost, before the first for whom `isLater` is true.
   * The caller has to tell all their positions.
   */
  putBack(one: T, isLater: (other: T) => boolean) {
    const index = this.#waiting.findIndex(isLater);
    this.#waiting.splice(index < 0 ? this.#waiting.length : index, 0, one);
  }

  /** Takes one out; returns false when it was not there. The caller has to tell the others their positions. */
  remove(one: T): boolean {
    const index = this.#waiting.indexOf(one);
    if (index < 0) return false;
    this.#waiting.splice(index, 1);
    return true;
  }

  /** Empties the queue, and returns who was in it, head first. */
  takeAll(): T[] {
    return this.#waiting.splice(0);
  }

  /** Tells all their positions. Not called after each step: a long queue would do nothing else. */
  tellAll() {
    for (const [index, one] of this.#waiting.entries()) this.#tell(one, index + 1);
  }

  /** Head first. */
  [Symbol.iterator](): Iterator<T> {
    return this.#waiting[Symbol.iterator]();
  }
}
