// The access token of the API's Unix socket, in a file beside it. The socket's mode lets in this server's
// user, as which the slots' processes run, too: they can open the socket, but cannot read this file
// (sandbox.ts). Commands read it by themselves.
import { randomBytes } from 'node:crypto';
import { closeSync, constants, openSync, readFileSync, rmSync, writeSync } from 'node:fs';

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants;

export function socketTokenFile(socket: string): string {
  return `${socket}.token`;
}

export function newSocketToken(): string {
  return randomBytes(32).toString('base64url');
}

/** For the server that listens on the socket from now on. */
export function writeSocketToken(socket: string, accessToken: string) {
  const file = socketTokenFile(socket);
  rmSync(file, { force: true });
  const fd = openSync(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    writeSync(fd, `${accessToken}\n`);
  } finally {
    closeSync(fd);
  }
}

/** Null where there is none: nobody listens, or a server that wants none. */
export function readSocketToken(socket: string): string | null {
  try {
    return readFileSync(socketTokenFile(socket), 'utf8').trim();
  } catch {
    return null;
  }
}

export function removeSocketToken(socket: string) {
  rmSync(socketTokenFile(socket), { force: true });
}
