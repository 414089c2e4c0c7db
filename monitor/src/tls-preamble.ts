// How the TLS front tells the monitor who has connected: the first bytes on each connection it
// makes, before the guest's own.
//   8 bytes   "OBFRONT1"
//   32 bytes  a secret that this front and this monitor share, made anew for each front
//   u32       length of the JSON that follows, little endian
// Whoever knows the secret is believed, so nobody else can say whose certificate was verified.
import { timingSafeEqual } from 'node:crypto';
import type { CertificateIdentity } from './tenants.js';

export interface FrontPeer {
  /** Where the guest, or its agent, connected from. */
  peer: string;
  /** Verified; null: none was sent. */
  certificate: CertificateIdentity | null;
}

const magic = Buffer.from('OBFRONT1', 'latin1');
export const secretBytes = 32;
const headBytes = magic.length + secretBytes + 4;
/** More than any certificate's names come to. */
const jsonMax = 256 << 10;

export function encodePreamble(secret: Buffer, from: FrontPeer): Buffer {
  const json = Buffer.from(JSON.stringify(from));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(json.length);
  return Buffer.concat([magic, secret, length, json]);
}

export class PreambleReader {
  readonly #secret: Buffer;
  #bytes = Buffer.alloc(0);

  constructor(secret: Buffer) {
    this.#secret = secret;
  }

  /** Undefined: more is needed. Throws when this is not from the front. */
  push(chunk: Buffer): { from: FrontPeer; rest: Buffer } | undefined {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    const bytes = this.#bytes;
    if (bytes.length < headBytes) return undefined;
    const secret = bytes.subarray(magic.length, magic.length + secretBytes);
    const ours = timingSafeEqual(secret, this.#secret);
    if (!ours || !bytes.subarray(0, magic.length).equals(magic)) {
      throw new Error('not the TLS front');
    }
    const length = bytes.readUInt32LE(magic.length + secretBytes);
    if (length > jsonMax) throw new Error(`a preamble of ${length} bytes`);
    const end = headBytes + length;
    if (bytes.length < end) return undefined;
    const from = JSON.parse(bytes.toString('utf8', headBytes, end)) as FrontPeer;
    return { from, rest: bytes.subarray(end) };
  }
}
