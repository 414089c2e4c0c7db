// What the programs talk to: an `outboard serve` of the null device, or the one under test, and the raw side's peer, each a
// process of its own.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { build, root } from '../../bin/paths.mjs';
import { deviceUnderTest } from '../../test/support/device.js';
import { type Processors, placed } from './placement.js';

export const nullDevice = path.join(build, 'bench', 'null-device');
/** Where figures are about the way there, and not about the device. */
export const measuredDevice = deviceUnderTest(path.join(nullDevice, 'libcuda.so.1'));

export interface Serving {
  /** For OUTBOARD_SERVER. */
  address: string;
  /** The same server by a Unix socket. */
  unixAddress: string;
  peerPort: string;
  stop(): Promise<void>;
}

/** `folder` is for the Unix socket. */
export async function startServing({ server }: Processors, folder: string): Promise<Serving> {
  const unixAddress = `unix:${path.join(folder, 'server')}`;
  const outboard = startProcess(
    placed(server, [
      process.execPath,
      path.join(root, 'bin', 'outboard.mjs'),
      'serve',
      ...['--listen', `127.0.0.1:0,${unixAddress}`, '--http', 'none', '--log-level', 'warn'],
      ...['--device', measuredDevice.serve],
    ]),
  );
  // The peer ends with its standard input, so with this process too.
  const peer = startProcess(placed(server, [path.join(build, 'bench', 'bench-peer')]));
  const stop = async () => {
    outboard.child.kill('SIGTERM');
    peer.child.stdin?.end();
    await Promise.all([outboard.exit, peer.exit]);
  };
  try {
    const [line, peerPort] = await Promise.all([outboard.line, peer.line]);
    const address = /^listening on (\S+)$/.exec(line)?.[1];
    if (address === undefined) throw new Error(`outboard serve said: ${line}`);
    return { address, unixAddress, peerPort, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

export interface Started {
  child: ChildProcess;
  exit: Promise<unknown>;
  /** The first it prints. */
  line: Promise<string>;
}

/** Starts a process that says on one line that it is ready. */
export function startProcess(
  [command, ...args]: [string, ...string[]],
  env: Record<string, string> = {},
): Started {
  const child = spawn(command, args, {
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const end = () => child.kill('SIGTERM');
  process.once('exit', end);
  const exit = once(child, 'exit').then(([code, signal]) => {
    process.removeListener('exit', end);
    return signal ?? code;
  });
  const printed = once(createInterface({ input: child.stdout }), 'line').then(String);
  const failed = exit.then((how) => {
    throw new Error(`${args.join(' ')} ended with ${how} before it was ready`);
  });
  const line = Promise.race([printed, failed]);
  // Ending later is no failure.
  line.catch(() => {});
  failed.catch(() => {});
  return { child, exit, line };
}
