// Reads the first bytes of a connection, preface and Hello, however they are cut into pieces. It never holds
// more than the longest Hello, and throws as soon as a byte is wrong.
import { decodeHello, type Hello, wire } from '../../../api-server/src/control.js';
import { OutboardError } from '../base/errors.js';
import { printable } from '../base/printable.js';

export interface Arrived {
  hello: Hello;
  /** Bytes behind the Hello. */
  leftover: Buffer;
}

export class HelloReader {
  #preface = Buffer.alloc(0);
  #message: Buffer | undefined;
  #filled = 0;

  /** Bytes taken so far. */
  get received(): number {
    return this.#preface.length + this.#filled;
  }

  /** Undefined: more bytes are needed. Throws an OutboardError when these can never become a Hello. */
  push(chunk: Buffer): Arrived | undefined {
    const rest = this.#takePreface(chunk);
    if (!this.#message) return undefined;
    const taken = rest.copy(this.#message, this.#filled);
    this.#filled += taken;
    if (this.#filled < this.#message.length) return undefined;
    const hello = readable(decode(this.#message));
    validate(hello);
    return { hello, leftover: Buffer.from(rest.subarray(taken)) };
  }

  #takePreface(chunk: Buffer): Buffer {
    const missing = wire.prefaceBytes - this.#preface.length;
    if (missing === 0) return chunk;
    this.#preface = Buffer.concat([this.#preface, chunk.subarray(0, missing)]);
    const preface = this.#preface;
    const magic = preface.subarray(0, wire.magic.length);
    if (!magic.equals(wire.magic.subarray(0, magic.length))) {
      throw new OutboardError('OB_NOT_OUTBOARD', shown(chunk.subarray(0, 16)));
    }
    if (preface.length >= 12) {
      const version = preface.readUInt32LE(8);
      if (version !== wire.protocol) throw new OutboardError('OB_VERSION', version, wire.protocol);
    }
    if (preface.length === wire.prefaceBytes) {
      const length = preface.readUInt32LE(12);
      if (length > wire.controlMax) {
        throw new OutboardError('OB_HELLO_TOO_LONG', length, wire.controlMax);
      }
      this.#message = Buffer.alloc(length);
    }
    return chunk.subarray(missing);
  }
}

function decode(message: Buffer): Hello {
  try {
    return decodeHello(message);
  } catch (error) {
    throw new OutboardError('OB_HELLO_MALFORMED', (error as Error).message);
  }
}

/** No guest library makes longer ones. */
const most = { program: 255, host: 255, version: 31, name: 127, gpuModel: 95 } as const;
const traceparentForm = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Makes printable what a guest says about itself: it is shown in logs, labels and pages. */
function readable(hello: Hello): Hello {
  const { program, host, guestVersion, traceparent } = hello;
  return {
    ...hello,
    program: printable(program, most.program),
    host: printable(host, most.host),
    guestVersion: printable(guestVersion, most.version),
    // A malformed one counts as none, as the W3C's specification says.
    traceparent: traceparentForm.test(traceparent) ? traceparent : '',
  };
}

/** Of what a guest names to come back to its session. */
export const resumeSecretBytes = 16;

const mostBases = 64;
// The address space of a process reaches at least to here, on x86-64 and on arm64.
const addressEnd = 1n << 47n;

/** Throws at what no correct guest sends, whatever its user has configured. */
function validate({ windowBases, windowSize, name, gpuModel, sessionClass, query, resume }: Hello) {
  const wrong = (what: string) => new OutboardError('OB_HELLO_VALUE', what);
  if (name.length > most.name || !/^[\x20-\x7e]*$/.test(name)) {
    throw wrong(`the name ${JSON.stringify(printable(name))}`);
  }
  if (gpuModel.length > most.gpuModel || !/^[\x20-\x7e]*$/.test(gpuModel)) {
    throw wrong(`the GPU model ${JSON.stringify(printable(gpuModel))}`);
  }
  if (!['', 'latency-strict', 'best-effort'].includes(sessionClass)) {
    throw wrong(`the class ${JSON.stringify(printable(sessionClass))}`);
  }
  if (resume) {
    const { secret, epoch } = resume;
    if (secret.length !== resumeSecretBytes) throw wrong(`a secret of ${secret.length} bytes`);
    if (epoch === 0) throw wrong('the epoch 0');
  }
  // Who wants no session, or has one, needs no window.
  if (query || resume) return;
  if (windowBases.length > mostBases) throw wrong(`${windowBases.length} bases for a window`);
  if (windowSize % wire.granule !== 0n || windowSize > addressEnd) {
    throw wrong(`a window of ${windowSize} bytes`);
  }
  for (const base of windowBases) {
    if (base === 0n || base % wire.granule !== 0n || base + windowSize > addressEnd) {
      throw wrong(`a window of ${windowSize} bytes at 0x${base.toString(16)}`);
    }
  }
}

/** How a message shows the beginning of unknown bytes: text as it is, all else in hexadecimal. */
function shown(bytes: Buffer): string {
  const text = bytes.toString('latin1');
  return /^[\x20-\x7e\r\n\t]+$/.test(text) ? JSON.stringify(text) : `0x${bytes.toString('hex')}`;
}
