// A network between this machine and itself, and a server of software GPUs to reach over it.
import path from 'node:path';
import { build, root } from '../../bin/paths.mjs';
import { onDevice } from '../../test/support/device.js';
import { startProcess } from './serving.js';

export interface Link {
  /** Milliseconds there and back. */
  roundTrip: number;
  /** Gbit/s each way. */
  rate: number;
}

/** Does something with the address of a link to the server at `address`. */
export async function overLink<T>(
  { roundTrip, rate }: Link,
  address: string,
  use: (through: string) => Promise<T>,
): Promise<T> {
  const link = startProcess([
    path.join(build, 'bench', 'bench-link'),
    address.split(':').at(-1) ?? '',
    String(roundTrip * 1e3),
    String(rate * 1e3),
  ]);
  try {
    return await use(`127.0.0.1:${await link.line}`);
  } finally {
    link.child.stdin?.end();
    await link.exit;
  }
}

/** Does something with the address of an `outboard serve` with software GPUs, or the device under test: one, or so many. */
export async function withSoftwareServer<T>(
  use: (address: string) => Promise<T>,
  env: Record<string, string> = {},
  gpus = 1,
): Promise<T> {
  const server = startProcess(
    [
      process.execPath,
      path.join(root, 'bin', 'outboard.mjs'),
      'serve',
      ...['--listen', '127.0.0.1:0', '--http', 'none', '--log-level', 'warn', '--grace', '0'],
      ...[...onDevice, '--gpus', `${gpus}`, '--servers-per-gpu', '2'],
    ],
    env,
  );
  try {
    const line = await server.line;
    const address = /^listening on (\S+)$/.exec(line)?.[1];
    if (address === undefined) throw new Error(`outboard serve said: ${line}`);
    return await use(address);
  } finally {
    server.child.kill('SIGTERM');
    await server.exit;
  }
}
