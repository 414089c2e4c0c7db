// Two connections, each the continuation of the other.
import type { Socket } from 'node:net';

/**
 * How many bytes wait on each way before the writer has to. With 64 KiB to 1 MiB the rate is the same,
 * within what runs differ by (`npm run bench -- agent`), so it is small enough for many connections.
 */
const relayBuffer = 256 << 10;

/** Options with which both sockets must be made. */
export const relayOptions = { allowHalfOpen: true, highWaterMark: relayBuffer };

/**
 * Joins two sockets until both have ended. When one way has ended, that is passed on and the other way goes
 * on. A slow reader slows down the writer at the far end. If one socket fails, both end.
 */
export function relay(one: Socket, other: Socket) {
  pass(one, other);
  pass(other, one);
}

/** Passes on what comes from one socket to the other. */
export function pass(from: Socket, to: Socket) {
  from.pipe(to);
  // A socket that fails, or whose peer vanishes, closes without an end.
  from.on('error', () => to.destroy());
  from.once('close', () => {
    if (!from.readableEnded) to.destroy();
  });
}
