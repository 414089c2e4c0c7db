// Where a server records its sessions, one file for each. It does not fill the disk: of the files
// there, only the youngest are kept.
import { accessSync, constants, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import type { SessionTrace } from '../../../api-server/src/native.js';
import { OutboardError } from '../errors.js';

const pattern = /^session-\d+\.trace$/;

export interface TraceFolderOptions {
  /** Files there are at most. */
  keep: number;
  /** Bytes of events in each. */
  size: bigint;
}

/** What the monitor has done for a session so far: moments on performance's clock. */
export interface Moments {
  /** The Hello was complete. */
  arrived: number;
  /** It got its place. */
  placed: number;
}

export class TraceFolder {
  readonly folder: string;
  readonly #options: TraceFolderOptions;

  /** Makes the folder if need be. Throws an OutboardError when nothing can be written there. */
  constructor(folder: string, options: TraceFolderOptions = { keep: 32, size: 16n << 20n }) {
    this.folder = path.resolve(folder);
    this.#options = options;
    try {
      mkdirSync(this.folder, { recursive: true });
      accessSync(this.folder, constants.W_OK | constants.X_OK);
    } catch (error) {
      throw new OutboardError('OB_TRACE_DIR', folder, (error as Error).message);
    }
  }

  /** For a session that is about to begin: `trace` of the message to its slot (ipc.ts). */
  begin(session: number, { arrived, placed }: Moments): SessionTrace {
    this.#makeRoom();
    const [at, until] = [toHrtime(arrived), toHrtime(placed)];
    return {
      file: path.join(this.folder, `session-${session}.trace`),
      size: this.#options.size,
      marks: [
        { name: 'hello', from: at, to: at },
        { name: 'queue', from: at, to: until },
      ],
    };
  }

  /** For one more. A folder that is in disorder must not keep sessions from beginning. */
  #makeRoom() {
    try {
      const files = readdirSync(this.folder)
        .filter((name) => pattern.test(name))
        .map((name) => path.join(this.folder, name))
        .map((file) => ({ file, age: statSync(file).mtimeMs }))
        .sort((one, other) => other.age - one.age);
      for (const { file } of files.slice(this.#options.keep - 1)) rmSync(file, { force: true });
    } catch {
      return;
    }
  }
}

/** A moment of performance's clock on that of process.hrtime, which the executor has, too. */
export function toHrtime(moment: number): bigint {
  return process.hrtime.bigint() - BigInt(Math.round((performance.now() - moment) * 1e6));
}
