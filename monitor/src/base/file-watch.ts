// Says when files have changed: certificates, access tokens and tenants are replaced while we run. The
// folders are watched rather than the files, because files are replaced by renaming (editors,
// Kubernetes' ..data). Now and then the files are looked at as well, because some file systems (NFS) do not
// tell of changes, and the system has only so many watches.
import { type FSWatcher, statSync, watch } from 'node:fs';
import path from 'node:path';
import { descriptorProblem } from './descriptors.js';

/** Waits for so long after a change: where several files are replaced, that takes a moment. */
const settleMs = 50;
const lookMs = 5000;

export interface FileWatchOptions {
  /** Called once where a folder cannot be watched, and once when it can be again. */
  say: (text: string) => void;
  everyMs?: number;
}

export class FileWatch {
  readonly #files: readonly string[];
  readonly #changed: () => void;
  readonly #folders: readonly Folder[];
  readonly #timer: NodeJS.Timeout;
  #settling: NodeJS.Timeout | undefined;
  #known: string;

  constructor(
    files: readonly string[],
    changed: () => void,
    { say, everyMs = lookMs }: FileWatchOptions,
  ) {
    this.#files = files;
    this.#changed = changed;
    this.#known = signature(files);
    const paths = [...new Set(files.map((file) => path.dirname(file)))];
    const instead = `its files are looked at every ${everyMs / 1000} seconds`;
    this.#folders = paths.map((one) => new Folder(one, () => this.#settle(), instead, say));
    for (const folder of this.#folders) folder.watch();
    // Watches and timers do not keep a process alive that has nothing else to do.
    this.#timer = setInterval(() => this.#look(), everyMs).unref();
  }

  close() {
    clearInterval(this.#timer);
    clearTimeout(this.#settling);
    for (const folder of this.#folders) folder.close();
  }

  #settle() {
    this.#settling ??= setTimeout(() => {
      this.#settling = undefined;
      this.#look();
    }, settleMs);
  }

  #look() {
    for (const folder of this.#folders) folder.watch();
    const now = signature(this.#files);
    // Without a descriptor nothing can be read now; the change is seen later.
    if (now === this.#known || descriptorProblem() !== null) return;
    this.#known = now;
    this.#changed();
  }
}

class Folder {
  readonly #path: string;
  readonly #changed: () => void;
  readonly #instead: string;
  readonly #say: (text: string) => void;
  #watcher: FSWatcher | undefined;
  #inode: bigint | null = null;
  #told = false;

  constructor(path: string, changed: () => void, instead: string, say: (text: string) => void) {
    this.#path = path;
    this.#changed = changed;
    this.#instead = instead;
    this.#say = say;
  }

  /** Watches the folder if that is not so: there may be watches again, or a new folder in its place. */
  watch() {
    const inode = inodeOf(this.#path);
    if (this.#watcher && inode === this.#inode) return;
    this.close();
    try {
      const watcher = watch(this.#path, { persistent: false }, this.#changed);
      watcher.on('error', () => this.close());
      this.#watcher = watcher;
      this.#inode = inode;
    } catch (error) {
      return this.#tell(error as NodeJS.ErrnoException);
    }
    if (this.#told) this.#say(`${this.#path} is watched again`);
    this.#told = false;
  }

  #tell({ code = '' }: NodeJS.ErrnoException) {
    if (this.#told) return;
    this.#told = true;
    // Watches are counted for the user, not for the process, so other programs may have taken all.
    const scarce = ['EMFILE', 'ENOSPC'].includes(code) && descriptorProblem() === null;
    const limits = scarce ? '; see sysctl fs.inotify' : '';
    this.#say(`${this.#path} cannot be watched (${code}): ${this.#instead}${limits}`);
  }

  close() {
    this.#watcher?.close();
    this.#watcher = undefined;
  }
}

/** A number that another folder of the same name would not have; null: no folder can be looked at. */
function inodeOf(folder: string): bigint | null {
  try {
    return statSync(folder, { bigint: true }).ino;
  } catch {
    return null;
  }
}

function signature(files: readonly string[]): string {
  return files.map(identity).join();
}

/** Differs when the file has changed. Errors are part of it, and left to who reads the file: this runs in a timer. */
function identity(file: string): string {
  try {
    const stat = statSync(file, { bigint: true });
    return `${stat.dev}:${stat.ino}:${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}`;
  } catch (error) {
    return `${(error as NodeJS.ErrnoException).code}`;
  }
}
