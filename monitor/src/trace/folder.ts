// Where a server records its sessions, one file for each. It does not fill the disk: of the files
// there, only the youngest are kept. The processes of slots write there, and one may have been taken over:
// what lies there may be anything, and as much as there is room for.
import { accessSync, constants, lstatSync, mkdirSync, opendirSync, unlinkSync } from 'node:fs';
import path from 'node:path';
import type { SessionTrace } from '../../../api-server/src/native.js';
import { OutboardError } from '../base/errors.js';

const pattern = /^session-\d+\.trace$/;
/** Names that are looked at before a session: it waits for that, and so does everybody else. */
const looksMost = 1024;

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
    const files = namesIn(this.folder)
      .filter((name) => pattern.test(name))
      .map((name) => path.join(this.folder, name))
      .flatMap((file) => found(file) ?? [])
      .sort((one, other) => other.modified - one.modified);
    for (const { file } of files.slice(this.#options.keep - 1)) remove(file);
  }
}

/** Some of them, where there are very many: what is removed of these makes others' turn come. */
function namesIn(folder: string): string[] {
  const names: string[] = [];
  try {
    const listing = opendirSync(folder);
    try {
      while (names.length < looksMost) {
        const entry = listing.readSync();
        if (!entry) break;
        names.push(entry.name);
      }
    } finally {
      listing.closeSync();
    }
  } catch {
    // What was read by then is there.
  }
  return names;
}

/** A link is what it is, wherever it leads. Null: a folder, which no recording is; or it is gone. */
function found(file: string) {
  try {
    const about = lstatSync(file);
    return about.isDirectory() ? null : { file, modified: about.mtimeMs };
  } catch {
    return null;
  }
}

function remove(file: string) {
  try {
    unlinkSync(file);
  } catch {
    // Gone, or not to be removed: that keeps no other one here.
  }
}

/** A moment of performance's clock on that of process.hrtime, which the executor has, too. */
export function toHrtime(moment: number): bigint {
  return process.hrtime.bigint() - BigInt(Math.round((performance.now() - moment) * 1e6));
}
