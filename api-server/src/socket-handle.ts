// The one place that reaches below Node's documented interface. What another process gets of a
// connection is its descriptor, and until it has it the monitor must not read: libuv's own handle can be
// told so, and no byte of the guest ends up in JavaScript after the executor has the connection.
import type { Socket } from 'node:net';

export interface SocketHandle {
  readonly fd: number;
  readStart(): number;
  readStop(): number;
}

/** The handle of a connected socket; null once it is closed. */
export function handleOf(socket: Socket): SocketHandle | null {
  return (socket as unknown as { _handle: SocketHandle | null })._handle;
}
