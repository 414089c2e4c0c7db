// A relay between a guest and a TLS server that knows where records begin, and does to one what a network should not.
import { connect, createServer, type Socket } from 'node:net';
import type { Test } from 'tap';

export type Direction = 'to the server' | 'to the guest';

/** What goes on in place of a record of data, counted from 0 in its direction; null: the end. */
export type Change = (direction: Direction, count: number, record: Buffer) => (Buffer | null)[];

const HEADER = 5;
const DATA = 23;

/** The port it listens on, until the test ends. */
export async function recordRelay(t: Test, port: number, change: Change): Promise<number> {
  const sockets = new Set<Socket>();
  const pass = (direction: Direction, from: Socket, to: Socket) => {
    let left = Buffer.alloc(0);
    let count = 0;
    from.on('data', (bytes: Buffer) => {
      left = Buffer.concat([left, bytes]);
      for (;;) {
        const size =
          left.length < HEADER ? Number.POSITIVE_INFINITY : HEADER + left.readUInt16BE(3);
        if (left.length < size) return;
        const record = Buffer.from(left.subarray(0, size));
        left = left.subarray(size);
        const instead = record[0] === DATA ? change(direction, count++, record) : [record];
        for (const one of instead) {
          if (one === null) {
            from.destroy();
            to.end();
            return;
          }
          to.write(one);
        }
      }
    });
    from.on('error', () => to.destroy()).on('close', () => to.end());
  };
  const server = createServer((guest) => {
    const behind = connect(port, '127.0.0.1');
    for (const socket of [guest, behind]) sockets.add(socket);
    pass('to the server', guest, behind);
    pass('to the guest', behind, guest);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  if (typeof address !== 'object' || !address) throw new Error('no port');
  return address.port;
}
