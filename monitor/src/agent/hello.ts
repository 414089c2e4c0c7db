// The guest's first bytes as the local agent reads them: enough to put an access token into the Hello of
// a guest that has none, and to see which server the guest wants. The server judges all else, so the
// agent passes it on unchanged.
import { decodeHello, type Hello, preface, wire } from '../../../api-server/src/control.js';
import { OutboardError } from '../base/errors.js';
import { printable } from '../base/printable.js';

export interface First {
  /** What to send to the server. */
  bytes: Buffer;
  /** The Hello; null: this agent does not understand it. */
  hello: Hello | null;
}

export class AgentHello {
  readonly #accessToken: string;
  #bytes: Buffer = Buffer.alloc(0);

  /** `accessToken` empty: there is none to give. */
  constructor(accessToken: string) {
    this.#accessToken = accessToken;
  }

  /** Undefined: more bytes are needed. Throws the refusal of what is no guest. */
  push(chunk: Buffer): First | undefined {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    const bytes = this.#bytes;
    const start = bytes.subarray(0, wire.magic.length);
    if (!start.equals(wire.magic.subarray(0, start.length))) {
      const shown = JSON.stringify(printable(bytes.toString('latin1', 0, 16)));
      throw new OutboardError('OB_NOT_OUTBOARD', shown);
    }
    if (bytes.length < wire.prefaceBytes) return undefined;
    const length = bytes.readUInt32LE(12);
    // The Hello of an unknown version may have any form.
    if (bytes.readUInt32LE(8) !== wire.protocol) return { bytes, hello: null };
    if (length > wire.controlMax) {
      throw new OutboardError('OB_HELLO_TOO_LONG', length, wire.controlMax);
    }
    const end = wire.prefaceBytes + length;
    if (bytes.length < end) return undefined;
    const message = bytes.subarray(wire.prefaceBytes, end);
    const hello = understand(message);
    if (this.#accessToken === '' || hello?.token !== '') return { bytes, hello };
    const field = accessTokenField(this.#accessToken);
    const whole = length + field.length;
    if (whole > wire.controlMax)
      throw new OutboardError('OB_HELLO_TOO_LONG', whole, wire.controlMax);
    const parts = [preface(wire.protocol, whole), message, field, bytes.subarray(end)];
    return { bytes: Buffer.concat(parts), hello };
  }
}

function understand(message: Buffer): Hello | null {
  try {
    return decodeHello(message);
  } catch {
    return null;
  }
}

/**
 * The field `token` of a Hello, encoded. To append it is the same as to set it, in protobuf. If the whole
 * message were encoded anew, fields of a guest that is newer than this agent would be lost.
 */
function accessTokenField(accessToken: string): Buffer {
  const bytes = Buffer.from(accessToken);
  const field = 9;
  const lengthDelimited = 2;
  return Buffer.concat([
    Buffer.from([(field << 3) | lengthDelimited]),
    varint(bytes.length),
    bytes,
  ]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80);
  return Buffer.from([...bytes, rest]);
}
