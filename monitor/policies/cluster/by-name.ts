// What a policy remembers by function. A function may have any name, and one that every object knows ("constructor")
// must not find what JavaScript has under it.

/** A copy, for changes, with nothing in it but what was remembered: no name has a meaning of its own. */
export function copyByName<T>(memory: Readonly<Record<string, T>>): Record<string, T> {
  return Object.assign(Object.create(null) as Record<string, T>, memory);
}
