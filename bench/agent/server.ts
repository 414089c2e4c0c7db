// The server's end, a process of its own: takes connections on a port, and from a TLS front, and does
// what guest.ts asks for. Started with the files of its certificate; says its two ports, as JSON.
import { createServer, Socket } from 'node:net';
import { pino } from 'pino';
import { encodeAnswer } from '../../api-server/src/control.js';
import { build } from '../../bin/paths.mjs';
import { HelloReader } from '../../monitor/src/guests/hello.js';
import { TlsFront } from '../../monitor/src/tls/front.js';
import { commands, echoBytes } from './guest.js';

const part = Buffer.alloc(1 << 20, 7);

class Serving {
  readonly #socket: Socket;
  readonly #hello = new HelloReader();
  #greeted = false;
  #asked = Buffer.alloc(0);
  /** Bytes that are still to come. */
  #left = 0;
  #arrived: (bytes: number) => void = () => {};

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk) => this.#read(chunk)).on('error', () => {});
  }

  #read(chunk: Buffer) {
    if (!this.#greeted) {
      this.#greeted = this.#hello.push(chunk) !== undefined;
      // As long as a preface, which is what the guest waits for.
      if (this.#greeted) this.#socket.write(encodeAnswer({ queued: { position: 0 } }));
      return;
    }
    if (this.#left > 0) {
      const taken = Math.min(this.#left, chunk.length);
      this.#left -= taken;
      this.#arrived(taken);
      if (taken < chunk.length) this.#read(chunk.subarray(taken));
      return;
    }
    this.#asked = Buffer.concat([this.#asked, chunk]);
    if (this.#asked.length < 5) return;
    const [command, count] = [this.#asked.readUInt8(), this.#asked.readUInt32LE(1)];
    const rest = this.#asked.subarray(5);
    this.#asked = Buffer.alloc(0);
    this.#do(command, count);
    if (rest.length > 0) this.#read(rest);
  }

  #do(command: number, count: number) {
    const socket = this.#socket;
    switch (command) {
      case commands.upload:
        this.#left = count * part.length;
        this.#arrived = () => {
          if (this.#left === 0) socket.write(part.subarray(0, 1));
        };
        break;
      case commands.download:
        this.#send(count);
        break;
      default: {
        this.#left = count * echoBytes;
        let held = 0;
        this.#arrived = (bytes) => {
          held += bytes;
          if (held < echoBytes) return;
          held -= echoBytes;
          socket.write(part.subarray(0, echoBytes));
        };
      }
    }
  }

  #send(mebibytes: number) {
    let left = mebibytes;
    const more = () => {
      while (left > 0) {
        left--;
        if (!this.#socket.write(part)) {
          this.#socket.once('drain', more);
          return;
        }
      }
    };
    more();
  }
}

const [cert = '', key = ''] = process.argv.slice(2);
const serve = (socket: Socket) => void new Serving(socket);
const plain = createServer({ noDelay: true }, serve);
plain.listen(0, '127.0.0.1', async () => {
  const address = plain.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const front = new TlsFront(
    {
      build,
      listen: { host: '127.0.0.1', port: 0 },
      files: { cert, key, ca: null },
      clients: 'none',
      strangers: { all: 4096, ofAddress: 4096 },
      helloSeconds: 10,
      // What its passing on costs is what is measured.
      relays: true,
    },
    pino({ level: 'warn' }, pino.destination(2)),
    (socket) => socket instanceof Socket && serve(socket),
  );
  const tls = await front.start();
  console.log(JSON.stringify({ plain: port, tls: tls.port }));
});
// With its parent.
process.stdin.on('end', () => process.exit(0)).resume();
