// The one place that reaches below Node's documented interface. A connection is passed between
// processes as libuv's own handle, the way node:cluster does it: unlike a net.Socket, which starts
// to read as soon as it is made, the handle that arrives never reads unless asked to. So no byte of
// the guest can end up in JavaScript after the executor has the connection.
import type { SendHandle } from 'node:child_process';
import type { Socket } from 'node:net';

export interface SocketHandle {
  readonly fd: number;
  readStart(): number;
  readStop(): number;
  close(done?: () => void): void;
}

/** The handle of a connected socket; null once it is closed. */
export function handleOf(socket: Socket): SocketHandle | null {
  return (socket as unknown as { _handle: SocketHandle | null })._handle;
}

/** For ChildProcess.send, whose type knows only the documented kinds. */
export function sendable(handle: SocketHandle): SendHandle {
  return handle as unknown as SendHandle;
}

export function isSocketHandle(value: unknown): value is SocketHandle {
  return (
    typeof value === 'object' &&
    value !== null &&
    'fd' in value &&
    typeof value.fd === 'number' &&
    value.fd >= 0 &&
    'readStop' in value
  );
}
