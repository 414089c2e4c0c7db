// What is going to happen, earliest first; of what happens at one moment, what was entered first.

interface Entry<T> {
  at: number;
  order: number;
  what: T;
}

export class Agenda<T> {
  /** A binary heap: each entry is before those at 2i + 1 and 2i + 2. */
  readonly #heap: Entry<T>[] = [];
  #entered = 0;

  get length(): number {
    return this.#heap.length;
  }

  /** When the next one happens; undefined: there is none. */
  get first(): number | undefined {
    return this.#heap[0]?.at;
  }

  enter(at: number, what: T) {
    const heap = this.#heap;
    const entry = { at, order: this.#entered++, what };
    let index = heap.length;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const above = heap[parent] as Entry<T>;
      if (before(above, entry)) break;
      heap[index] = above;
      index = parent;
    }
    heap[index] = entry;
  }

  /** Takes the first one off. */
  next(): { at: number; what: T } | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      const left = heap[child];
      if (left === undefined) break;
      const right = heap[child + 1];
      if (right !== undefined && before(right, left)) child++;
      const smaller = heap[child] as Entry<T>;
      if (before(last, smaller)) break;
      heap[index] = smaller;
      index = child;
    }
    heap[index] = last;
    return first;
  }
}

function before<T>(one: Entry<T>, other: Entry<T>): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order);
}
