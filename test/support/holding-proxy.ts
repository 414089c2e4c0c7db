// A network that stops between two commands of a guest, so that something can be done just there: passes bytes between
// guest and server, and after every so many frames nothing of the guest until that is done.
import net from 'node:net';

export interface HoldingProxy {
  /** HOST:PORT, for OUTBOARD_SERVER. */
  address: string;
  /** How many frames a guest has sent, the one with most. */
  most(): number;
  close(): Promise<void>;
}

export interface Holding {
  /** How many frames a connection passes between two times; 0: it is never held. */
  every: number;
  /** How many bytes of the frame that follows pass all the same; 0: it is between two frames. */
  beyond?: () => number;
  held: () => Promise<void>;
}

/** Before each Hello: 8 bytes by which it is known, a version, and the length of what follows. */
const prefaceBytes = 16;
const headerBytes = 8;

/** Finds where frames end in the bytes of a guest. */
class Frames {
  count = 0;
  /** Of the Hello, or of the frame that is passing, still to come. */
  #left = 0;
  #header = Buffer.alloc(0);
  #greeted = false;

  /** How many of the bytes there are until so many more frames have ended. */
  take(bytes: Buffer, most: number): number {
    const until = this.count + most;
    let at = 0;
    while (at < bytes.length) {
      if (this.#left > 0) {
        const part = Math.min(this.#left, bytes.length - at);
        this.#left -= part;
        at += part;
        if (this.#left > 0) break;
        if (!this.#greeted) this.#greeted = true;
        else this.count++;
        if (this.count === until) break;
        continue;
      }
      const needed = this.#greeted ? headerBytes : prefaceBytes;
      const part = bytes.subarray(at, at + needed - this.#header.length);
      this.#header = Buffer.concat([this.#header, part]);
      at += part.length;
      if (this.#header.length < needed) break;
      this.#left = this.#greeted
        ? this.#header.readUInt32LE(4) - headerBytes
        : this.#header.readUInt32LE(12);
      this.#header = Buffer.alloc(0);
      if (this.#left === 0) {
        this.count++;
        if (this.count === until) break;
      }
    }
    return at;
  }
}

export async function startHoldingProxy(server: string, holding: Holding): Promise<HoldingProxy> {
  const [host = '', port = ''] = server.split(':');
  const every = holding.every || Number.POSITIVE_INFINITY;
  const open = new Set<net.Socket>();
  let most = 0;
  const listener = net.createServer({ noDelay: true, allowHalfOpen: true }, (guest) => {
    const there = net.connect({ host, port: Number(port), noDelay: true, allowHalfOpen: true });
    for (const [from, to] of [
      [guest, there],
      [there, guest],
    ] as const) {
      open.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        open.delete(from);
        to.destroy();
      });
    }
    there.pipe(guest);
    void pass(guest, there).catch(() => there.destroy());
  });

  async function write(to: net.Socket, bytes: Buffer) {
    if (bytes.length === 0 || to.write(bytes) || to.destroyed) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        to.off('drain', done).off('close', done);
        resolve();
      };
      to.on('drain', done).on('close', done);
    });
  }

  async function pass(guest: net.Socket, there: net.Socket) {
    const frames = new Frames();
    let next = every;
    for await (const some of guest) {
      let bytes = some as Buffer;
      while (bytes.length > 0) {
        const size = frames.take(bytes, next - frames.count);
        most = Math.max(most, frames.count);
        if (frames.count < next) {
          await write(there, bytes);
          break;
        }
        // Of the next one only what has come.
        const beyond = Math.min(size + (holding.beyond?.() ?? 0), bytes.length);
        await write(there, bytes.subarray(0, beyond));
        await holding.held();
        // What went beyond is part of frames to come.
        const rest = bytes.subarray(size);
        const skipped = Math.max(0, beyond - size);
        frames.take(rest.subarray(0, skipped), Number.POSITIVE_INFINITY);
        bytes = rest.subarray(skipped);
        next = frames.count + every;
      }
    }
    there.end();
  }

  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  return {
    address: `127.0.0.1:${(listener.address() as net.AddressInfo).port}`,
    most: () => most,
    close: () =>
      new Promise((resolve) => {
        listener.close(() => resolve());
        for (const one of open) one.destroy();
      }),
  };
}
