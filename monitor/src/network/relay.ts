// Two connections, each the continuation of the other.
import type { Socket } from 'node:net';

/**
 * What a relayed socket may hold back on each way before its writer has to wait: from 64 KiB to 1 MiB
 * the rate is the same within what runs differ by (npm run bench -- agent), so few enough for many.
 */
const relayBuffer = 256 << 10;

/** How both are made, beside where they go. */
export const relayOptions = { allowHalfOpen: true, highWaterMark: relayBuffer };

/**
 * Joins them until both have ended: the end of one way is passed on while the other goes on, a
 * slow reader slows the writer at the far end, and a failure of one ends both.
 */
export function relay(one: Socket, other: Socket) {
  pass(one, other);
  pass(other, one);
}

/** One way of it. */
export function pass(from: Socket, to: Socket) {
  from.pipe(to);
  // A socket that fails, or whose peer vanishes, closes without an end.
  from.on('error', () => to.destroy());
  from.once('close', () => {
    if (!from.readableEnded) to.destroy();
  });
}
