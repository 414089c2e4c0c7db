// Says when files have changed: certificates, tokens and tenants are replaced while we run. The
// folders are watched rather than the files, because files are replaced by renaming (editors,
// Kubernetes' ..data); now and then the files are looked at all the same, because not every file
// system tells (NFS), and watches are a limited resource.
import { type FSWatcher, statSync, watch } from 'node:fs';
import path from 'node:path';
import { descriptorProblem } from './descriptors.js';

/** Several files are rarely replaced in the same instant. */
const settleMs = 50;
const lookMs = 5000;

export class FileWatch {
  readonly #files: readonly string[];
  readonly #changed: () => void;
  readonly #watchers: FSWatcher[] = [];
  readonly #timer: NodeJS.Timeout;
  #settling: NodeJS.Timeout | undefined;
  #known: string;

  constructor(files: readonly string[], changed: () => void, everyMs = lookMs) {
    this.#files = files;
    this.#changed = changed;
    this.#known = signature(files);
    for (const folder of new Set(files.map((file) => path.dirname(file)))) this.#watch(folder);
    // Neither keeps a process alive that has nothing else to do.
    this.#timer = setInterval(() => this.#look(), everyMs).unref();
  }

  close() {
    clearInterval(this.#timer);
    clearTimeout(this.#settling);
    for (const watcher of this.#watchers.splice(0)) watcher.close();
  }

  #watch(folder: string) {
    try {
      const watcher = watch(folder, { persistent: false }, () => {
        this.#settling ??= setTimeout(() => {
          this.#settling = undefined;
          this.#look();
        }, settleMs);
      });
      watcher.on('error', () => watcher.close());
      this.#watchers.push(watcher);
    } catch {
      // Looked at now and then.
    }
  }

  #look() {
    const now = signature(this.#files);
    // What cannot be read for want of a descriptor is a change later.
    if (now === this.#known || descriptorProblem() !== null) return;
    this.#known = now;
    this.#changed();
  }
}

function signature(files: readonly string[]): string {
  return files.map(identity).join();
}

/** Whoever reads it finds out what is wrong with it; from here, in a timer, nothing is thrown. */
function identity(file: string): string {
  try {
    const stat = statSync(file, { bigint: true });
    return `${stat.dev}:${stat.ino}:${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}`;
  } catch (error) {
    return `${(error as NodeJS.ErrnoException).code}`;
  }
}
