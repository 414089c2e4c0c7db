// Who waits for a slot: in order of arrival, or in another order of turns that a policy makes of that.

/** Makes the order of turns of that of arrival, and changes nothing else. */
export type Order<Base> = <One extends Base>(arrived: readonly One[]) => readonly One[];

/** `Base`: what the order goes by. */
export class Queue<T extends Base, Base = unknown> {
  /** In order of arrival. */
  readonly #arrived: T[] = [];
  /** The same, in the order of their turns; where it is that of arrival, the same array. */
  #turns: readonly T[] = this.#arrived;
  /** Is told its position, counted from 1; perhaps the same one again. */
  readonly #tell: (one: T, position: number) => void;
  readonly #order: Order<Base>;

  /** `order` absent: it is that of arrival. */
  constructor(tell: (one: T, position: number) => void, order: Order<Base> = (arrived) => arrived) {
    this.#tell = tell;
    this.#order = order;
  }

  get length(): number {
    return this.#arrived.length;
  }

  get head(): T | undefined {
    return this.#turns[0];
  }

  /** In order of arrival. */
  get arrived(): readonly T[] {
    return this.#arrived;
  }

  /**
   * Adds one that has just come, and tells it its position. Returns how many have their turns after it, whom the caller
   * has to tell their positions.
   */
  append(one: T): number {
    this.#arrived.push(one);
    this.arrange();
    const index = this.#turns.lastIndexOf(one);
    this.#tell(one, index + 1);
    return this.#turns.length - 1 - index;
  }

  /** Those who would have their turns before one that comes now. */
  before(one: Base): readonly T[] {
    const turns = this.#order<T | Base>([...this.#arrived, one]);
    return turns.slice(0, turns.indexOf(one)) as T[];
  }

  /** Makes the order of turns anew. Returns whether it has changed: the caller has to tell all their positions. */
  arrange(): boolean {
    const before = this.#turns;
    this.#turns = this.#order(this.#arrived);
    return before !== this.#turns && this.#turns.some((one, index) => before[index] !== one);
  }

  /**
   * Puts one back whose turn had come and whose slot was lost, as if it had come before the first for whom `isLater` is
   * true. The caller has to tell all their positions.
   */
  putBack(one: T, isLater: (other: T) => boolean) {
    const index = this.#arrived.findIndex(isLater);
    this.#arrived.splice(index < 0 ? this.#arrived.length : index, 0, one);
    this.arrange();
  }

  /** Takes one out; returns false when it was not there. The caller has to tell the others their positions. */
  remove(one: T): boolean {
    const index = this.#arrived.indexOf(one);
    if (index < 0) return false;
    this.#arrived.splice(index, 1);
    // Who leaves changes nothing for the others.
    if (this.#turns !== this.#arrived) this.#turns = this.#turns.filter((other) => other !== one);
    return true;
  }

  /** Empties the queue, and returns who was in it, head first. */
  takeAll(): T[] {
    const all = [...this.#turns];
    this.#arrived.length = 0;
    this.#turns = this.#arrived;
    return all;
  }

  /** Tells all their positions. Not called after each step: a long queue would do nothing else. */
  tellAll() {
    for (const [index, one] of this.#turns.entries()) this.#tell(one, index + 1);
  }

  /** Head first. */
  [Symbol.iterator](): Iterator<T> {
    return this.#turns[Symbol.iterator]();
  }
}
