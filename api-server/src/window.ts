// Where guest and server put the device window: both must hold the same addresses.

export interface Window {
  base: bigint;
  size: bigint;
}

/**
 * The windows to try, best first: the one that is reserved already if the guest can hold it and it has room for the
 * session's memory, otherwise the guest's bases, and then the reserved one all the same: a driver may reserve nothing
 * but addresses of its own choice, and the guest says itself where it cannot hold them. A guest that names none takes any.
 */
export function windowChoices(
  reserved: Window,
  guest: { windowBases: bigint[]; windowSize: bigint; memoryLimit: bigint },
): Window[] {
  const { windowBases, memoryLimit } = guest;
  const wanted = guest.windowSize > 0n ? guest.windowSize : reserved.size;
  const enough = reserved.size >= min(memoryLimit, wanted);
  const stay = enough ? [{ base: reserved.base, size: min(wanted, reserved.size) }] : [];
  if (enough && (windowBases.length === 0 || windowBases.includes(reserved.base))) return stay;
  const bases = windowBases.length > 0 ? windowBases : [reserved.base];
  return [...bases.map((base) => ({ base, size: wanted })), ...stay];
}

function min(a: bigint, b: bigint) {
  return a < b ? a : b;
}
