// The guest's end: a Hello, then what the server's end (server.ts) is asked for.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { encodeHello, wire } from '../../api-server/src/control.js';

/** What the server is asked for: one byte, then what it needs. */
export const commands = { upload: 1, download: 2, echo: 3 } as const;
export const echoBytes = 64;

const part = Buffer.alloc(1 << 20, 7);

export class Guest {
  readonly #socket: Socket;
  #left = 0;
  #done: () => void = () => {};

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk) => {
      this.#left -= chunk.length;
      if (this.#left <= 0) this.#done();
    });
  }

  /** `address`: HOST:PORT or unix:PATH. Resolves when the server has answered the Hello. */
  static async connect(address: string): Promise<Guest> {
    const [host = '', port = ''] = address.split(':');
    const at = address.startsWith('unix:') ? { path: port } : { host, port: Number(port) };
    const socket = connect(at);
    socket.setNoDelay(true);
    await once(socket, 'connect');
    const guest = new Guest(socket);
    // The answer comes at once and whole: its preface says enough.
    const answered = guest.#receive(wire.prefaceBytes);
    socket.write(encodeHello({ program: 'bench' }));
    await answered;
    return guest;
  }

  /** Seconds. */
  async upload(mebibytes: number): Promise<number> {
    const begin = performance.now();
    this.#ask(commands.upload, mebibytes);
    const done = this.#receive(1);
    for (let i = 0; i < mebibytes; i++) {
      if (!this.#socket.write(part)) await once(this.#socket, 'drain');
    }
    await done;
    return (performance.now() - begin) / 1000;
  }

  async download(mebibytes: number): Promise<number> {
    const begin = performance.now();
    const done = this.#receive(mebibytes * part.length);
    this.#ask(commands.download, mebibytes);
    await done;
    return (performance.now() - begin) / 1000;
  }

  async roundTrips(count: number): Promise<number> {
    const bytes = part.subarray(0, echoBytes);
    this.#ask(commands.echo, count);
    const begin = performance.now();
    for (let i = 0; i < count; i++) {
      const back = this.#receive(echoBytes);
      this.#socket.write(bytes);
      await back;
    }
    return (performance.now() - begin) / 1000;
  }

  close() {
    this.#socket.destroy();
  }

  #ask(command: number, count: number) {
    const bytes = Buffer.alloc(5);
    bytes.writeUInt8(command);
    bytes.writeUInt32LE(count, 1);
    this.#socket.write(bytes);
  }

  #receive(count: number): Promise<void> {
    this.#left = count;
    return new Promise((resolve) => {
      this.#done = resolve;
    });
  }
}
