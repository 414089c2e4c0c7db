// A network that cuts connections: passes bytes between guest and server, and ends both sides of a connection
// after so many, in either direction, in the middle of whatever is under way.
import net from 'node:net';

export interface CuttingProxy {
  /** HOST:PORT, for OUTBOARD_SERVER. */
  address: string;
  /** How many connections it has cut. */
  cuts(): number;
  /** Cuts those that there are now. */
  cut(): void;
  /** From now on it takes nobody, or does again. */
  refuse(on: boolean): void;
  /** What guests have sent first, a connection each: their Hello. */
  firsts(): Buffer[];
  close(): Promise<void>;
}

export interface Cutting {
  /** How many bytes a connection passes in both directions together, until it is cut; null: it is not. */
  after?: (connection: number) => number | null;
  /** Whether both sides are reset, so that what is under way is lost; else they see an end. */
  reset?: (connection: number) => boolean;
}

/** Numbers from 0 to below 1 that look random, and are the same for the same seed. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export async function startCuttingProxy(
  server: string,
  cutting: Cutting = {},
): Promise<CuttingProxy> {
  const [host = '', port = ''] = server.split(':');
  const open = new Set<() => void>();
  const firsts: Buffer[] = [];
  let connections = 0;
  let cuts = 0;
  let refuses = false;
  const listener = net.createServer({ noDelay: true }, (guest) => {
    if (refuses) {
      guest.destroy();
      return;
    }
    const number = connections++;
    const there = net.connect({ host, port: Number(port), noDelay: true });
    let left = cutting.after?.(number) ?? Number.POSITIVE_INFINITY;
    const both = [guest, there];
    const cut = () => {
      if (!open.delete(cut)) return;
      cuts++;
      for (const socket of both) {
        if (cutting.reset?.(number)) socket.resetAndDestroy();
        else socket.destroy();
      }
    };
    open.add(cut);
    const pass = (from: net.Socket, to: net.Socket) => {
      from.on('data', (bytes) => {
        if (from === guest && !firsts[number]) firsts[number] = bytes;
        if (!open.has(cut)) return;
        const passed = bytes.subarray(0, left);
        left -= passed.length;
        if (!to.write(passed)) {
          from.pause();
          to.once('drain', () => from.resume());
        }
        // What was passed last is on its way first.
        if (left === 0) setImmediate(cut);
      });
      from.on('end', () => {
        open.delete(cut);
        to.end();
      });
      from.on('error', () => {
        open.delete(cut);
        to.destroy();
      });
    };
    pass(guest, there);
    pass(there, guest);
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  return {
    address: `127.0.0.1:${(listener.address() as net.AddressInfo).port}`,
    cuts: () => cuts,
    cut: () => {
      for (const one of [...open]) one();
    },
    refuse: (on) => {
      refuses = on;
    },
    firsts: () => firsts,
    close: () =>
      new Promise((resolve) => {
        listener.close(() => resolve());
        for (const one of [...open]) one();
      }),
  };
}
