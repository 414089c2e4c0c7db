// A message of ipc.ts as bytes: JSON, in which each string begins with what it stands for, as a bigint
// or bytes are one, too. Not V8's own format, which makes of a few bytes what takes all memory, or
// ends the process; and as JSON can be written without an end as well, what is in a message is counted
// before any of it is made: the other end may have been taken over.

/** Lists within lists. */
const nestingMost = 16;

export interface MessageMost {
  bytes: number;
  values: number;
}

/** Of any: times of kernels, by name, and 256 peers of a device with 64 numbers each. */
export const longestMessage: MessageMost = { bytes: 4 << 20, values: 1 << 16 };
/** Of all others that a slot has to say: a session's end, with its reason and modules. */
export const usualMessage: MessageMost = { bytes: 64 << 10, values: 1024 };

const arrays = { u: Uint8Array, i: Int32Array, w: BigUint64Array } as const;
type Bytes = Uint8Array | Int32Array | BigUint64Array;

/** Properties that are undefined are absent at the other end. */
export function encodeMessage(message: unknown): Buffer {
  return Buffer.from(JSON.stringify(plain(message)));
}

/** Throws where it is no message. */
export function decodeMessage(bytes: Buffer, most = longestMessage): unknown {
  const text = bytes.toString();
  count(text, most.values);
  return JSON.parse(text, (_, value) => (typeof value === 'string' ? meant(value) : value));
}

function plain(value: unknown): unknown {
  if (typeof value === 'string') return `'${value}`;
  if (typeof value === 'bigint') return `n${value}`;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(plain);
  for (const [kind, type] of Object.entries(arrays))
    if (value instanceof type) return `${kind}${base64(value)}`;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, plain(one)]));
}

function base64({ buffer, byteOffset, byteLength }: Bytes): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64');
}

function meant(text: string): unknown {
  const kind = text.charAt(0);
  const rest = text.slice(1);
  if (kind === "'") return rest;
  if (kind === 'n' && /^-?\d{1,20}$/.test(rest)) return BigInt(rest);
  if (kind !== 'u' && kind !== 'i' && kind !== 'w') throw new Error('a value of no kind');
  // In a buffer of its own, from its beginning: elements are aligned.
  const { buffer } = new Uint8Array(Buffer.from(rest, 'base64'));
  return new arrays[kind](buffer);
}

/** Throws where there is more in it than any message has. */
function count(text: string, most: number) {
  let depth = 0;
  let values = 1;
  let inside = false;
  for (let at = 0; at < text.length; at++) {
    const one = text[at];
    if (inside) {
      if (one === '\\') at++;
      else if (one === '"') inside = false;
    } else if (one === '"') inside = true;
    else if (one === ']' || one === '}') depth--;
    else if (one === ',') values++;
    else if (one === '[' || one === '{') {
      values++;
      if (++depth > nestingMost) throw new Error('lists within lists');
    }
    if (values > most) throw new Error('more values than any message has');
  }
}
