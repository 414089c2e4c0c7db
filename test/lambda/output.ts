// What processes print, which arrives some time after they did what it tells of.
import type { ChildProcess } from 'node:child_process';

export class Output {
  #text = '';
  #over = 0;
  #wake: (() => void)[] = [];

  /** Adds what a process prints on its stdout and stderr, where these are pipes. */
  of(child: ChildProcess) {
    this.#over++;
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#text += text;
        this.#changed();
      });
    child.once('close', () => {
      this.#over--;
      this.#changed();
    });
  }

  get text(): string {
    return this.#text;
  }

  /** Waits until it matches; throws once all processes have ended without. */
  async says(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this.#text);
      if (found) return found;
      if (this.#over === 0) throw new Error(`nobody has said ${pattern}, but:\n${this.#text}`);
      await new Promise<void>((wake) => this.#wake.push(wake));
    }
  }

  #changed() {
    for (const wake of this.#wake.splice(0)) wake();
  }
}
