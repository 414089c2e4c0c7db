// The folder in which a server records its sessions, one file for each. Only the youngest files are kept, so
// that they do not fill the disk. Processes of slots write there, one of which may have been taken over, so the
// folder may contain anything, and very much of it.
import { accessSync, constants, lstatSync, opendirSync, unlinkSync } from 'node:fs';
import path from 'node:path';
import type { SessionTrace } from '../../../api-server/src/native.js';
import { OutboardError } from '../base/errors.js';
import { ensureFolder } from '../base/folders.js';

const pattern = /^session-\d+\.trace$/;
/** At most so many names are looked at before a session begins, because everybody waits for that. */
const looksMost = 1024;

export interface TraceFolderOptions {
  /** At most so many files are kept. */
  keep: number;
  /** Bytes of events that each file keeps. */
  size: bigint;
}

/** What the monitor has done for a session so far: moments on performance's clock. */
export interface Moments {
  /** The Hello was complete. */
  arrived: number;
  /** The session was placed. */
  placed: number;
}

export class TraceFolder {
  readonly folder: string;
  readonly #options: TraceFolderOptions;

  /** Makes the folder if need be and `make` says so. Throws an OutboardError when nothing can be written there. */
  constructor(
    folder: string,
    options: TraceFolderOptions = { keep: 32, size: 16n << 20n },
    make = true,
  ) {
    this.folder = path.resolve(folder);
    this.#options = options;
    try {
      if (ensureFolder(this.folder, make)) {
        accessSync(this.folder, constants.W_OK | constants.X_OK);
      }
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

  /** Removes old files for a new one. Whatever is in the folder, sessions must be able to begin. */
  #makeRoom() {
    const files = namesIn(this.folder)
      .filter((name) => pattern.test(name))
      .map((name) => path.join(this.folder, name))
      .flatMap((file) => found(file) ?? [])
      .sort((one, other) => other.modified - one.modified);
    for (const { file } of files.slice(this.#options.keep - 1)) remove(file);
  }
}

/** The names in the folder; where there are very many, some, and others when these have been removed. */
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

/** The entry itself; links are not followed. Null: it is a folder, so no recording, or it is gone. */
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
    // It is gone already, or cannot be removed; the others are removed all the same.
  }
}

/** A moment of performance's clock on that of process.hrtime, which the executor has, too. */
export function toHrtime(moment: number): bigint {
  return process.hrtime.bigint() - BigInt(Math.round((performance.now() - moment) * 1e6));
}
