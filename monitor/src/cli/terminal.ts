// A terminal that a program has for itself: it uses the alternate screen, hides the cursor, and gets each key
// at once. However the program ends, the terminal is restored.
const enterScreen = '\x1b[?1049h\x1b[?25l';
const leaveScreen = '\x1b[?25h\x1b[?1049l';

const signals = ['SIGTERM', 'SIGHUP', 'SIGINT', 'SIGQUIT'] as const;

export interface TerminalEvents {
  onKey(key: string): void;
  onResize(): void;
  /** A signal asks the program to end. */
  onEnd(signal: NodeJS.Signals): void;
}

export class Terminal {
  readonly #events: TerminalEvents;
  #entered = false;

  constructor(events: TerminalEvents) {
    this.#events = events;
  }

  static get present(): boolean {
    return process.stdin.isTTY === true && process.stdout.isTTY === true;
  }

  get size(): { columns: number; rows: number } {
    const { columns = 80, rows = 24 } = process.stdout;
    return { columns, rows };
  }

  open() {
    process.on('exit', this.#leave);
    for (const signal of signals) process.on(signal, this.#events.onEnd);
    process.on('SIGCONT', this.#enter);
    process.stdout.on('resize', this.#events.onResize);
    // A terminal that is gone takes nothing any more; SIGHUP tells of it.
    process.stdout.on('error', () => {});
    process.stdin.setEncoding('utf8').on('data', this.#keys).resume();
    this.#enter();
  }

  close() {
    process.off('exit', this.#leave);
    for (const signal of signals) process.off(signal, this.#events.onEnd);
    process.off('SIGCONT', this.#enter);
    process.stdout.off('resize', this.#events.onResize);
    process.stdin.off('data', this.#keys).pause();
    this.#leave();
  }

  /** The whole screen; lines that do not fit are left out. */
  draw(lines: readonly string[]) {
    if (!this.#entered) return;
    const { rows, columns } = this.size;
    const shown = lines.slice(0, rows).map((line) => `${cut(line, columns)}\x1b[K`);
    process.stdout.write(`\x1b[H${shown.join('\r\n')}\x1b[J`);
  }

  readonly #enter = () => {
    if (this.#entered) return;
    this.#entered = true;
    process.stdin.setRawMode(true);
    process.stdout.write(enterScreen);
    this.#events.onResize();
  };

  readonly #leave = () => {
    if (!this.#entered) return;
    this.#entered = false;
    process.stdout.write(leaveScreen);
    process.stdin.setRawMode(false);
  };

  readonly #keys = (data: Buffer | string) => {
    for (const key of keysOf(String(data))) {
      if (key === '\x03') this.#events.onEnd('SIGINT');
      else if (key === '\x1a') this.#stop();
      else this.#events.onKey(key);
    }
  };

  /** Ctrl-Z: the shell gets its terminal back until it lets us go on. */
  #stop() {
    this.#leave();
    process.kill(process.pid, 'SIGSTOP');
  }
}

/** Keys that terminals send as several characters stay together. */
function keysOf(text: string): string[] {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what keys are
  return text.match(/\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])|[\s\S]/gu) ?? [];
}

/** So many characters at most, not counting what only changes colours. */
function cut(line: string, columns: number): string {
  let left = columns;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with one
  const parts = line.match(/\x1b\[[0-9;]*m|[\s\S]/gu) ?? [];
  return parts.filter((part) => part.startsWith('\x1b') || left-- > 0).join('');
}
