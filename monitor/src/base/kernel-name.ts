// What people call a kernel, from its name in a module, which guests choose: no more is read of it, and
// no deeper, than a screen can show. General demanglers can be made to write gigabytes.

/** Characters of a name that are shown, and templates within templates. */
const most = 120;
const deepest = 6;

/**
 * The qualified name with its template arguments, without parameters, of a name mangled as the Itanium
 * C++ ABI has it. `<>` stands for arguments that are too involved (substitutions, expressions), and what
 * is too involved altogether stays as it is.
 */
export function kernelName(mangled: string): string {
  return short(named(mangled) ?? mangled);
}

/** A text with all names of kernels in it as people call them. */
export function withKernelNames(text: string): string {
  return text.replace(/\b_Z\w+/g, kernelName);
}

/** For lists: where two have the same name, the module's own is shown, too. */
export function kernelNames(mangled: readonly string[]): string[] {
  const names = mangled.map(kernelName);
  const count = new Map<string, number>();
  for (const name of names) count.set(name, (count.get(name) ?? 0) + 1);
  return names.map((name, index) => {
    const whole = mangled[index] ?? '';
    return name === whole || count.get(name) === 1 ? name : `${name} (${short(whole)})`;
  });
}

function short(name: string): string {
  return name.length <= most ? name : `${name.slice(0, most - 1)}…`;
}

function named(mangled: string): string | null {
  if (!mangled.startsWith('_Z')) return null;
  const reader = new Reader(mangled.slice(2, 2 + 8 * most));
  const name = reader.name(0);
  // What follows are the parameters, which every function has.
  return name !== null && (reader.cut || reader.left > 0) ? name : null;
}

const builtin: Record<string, string> = {
  ...{ v: 'void', b: 'bool', c: 'char', a: 'signed char', h: 'unsigned char', w: 'wchar_t' },
  ...{
    s: 'short',
    t: 'unsigned short',
    i: 'int',
    j: 'unsigned int',
    l: 'long',
    m: 'unsigned long',
  },
  ...{ x: 'long long', y: 'unsigned long long', f: 'float', d: 'double' },
};

class Reader {
  readonly #text: string;
  #at = 0;
  /** Template arguments were not understood: nothing behind them can be read. */
  cut = false;

  constructor(text: string) {
    this.#text = text;
  }

  get left(): number {
    return this.#text.length - this.#at;
  }

  /** The whole of a pattern that comes next. */
  #take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found) this.#at += found[0].length;
    return found;
  }

  /** Of one part, or of several in N...E. */
  name(depth: number): string | null {
    if (!this.#take(/N[rVK]*/y)) {
      const prefix = this.#take(/St/y) ? 'std::' : '';
      const one = this.#part(depth);
      return one === null ? null : prefix + one;
    }
    const parts: string[] = this.#take(/St/y) ? ['std'] : [];
    while (!this.cut && !this.#take(/E/y)) {
      const part = this.#part(depth);
      if (part === null) return null;
      parts.push(part);
    }
    return parts.length === 0 ? null : parts.join('::');
  }

  /** An identifier, with template arguments where it has some. */
  #part(depth: number): string | null {
    const length = Number(this.#take(/L?(\d{1,4})/y)?.[1] ?? 0);
    if (length === 0 || length > this.left) return null;
    const text = this.#text.slice(this.#at, this.#at + length);
    this.#at += length;
    const name = text.startsWith('_GLOBAL__N_') ? '(anonymous)' : text;
    return this.#take(/I/y) ? `${name}<${this.#arguments(depth) ?? ''}>` : name;
  }

  /** Null where they are too involved. */
  #arguments(depth: number): string | null {
    const all: string[] = [];
    let packs = 0;
    for (;;) {
      if (this.#take(/J/y)) {
        packs++;
      } else if (this.#take(/E/y)) {
        if (packs === 0) return all.join(', ');
        packs--;
      } else {
        const one = depth < deepest ? this.#argument(depth + 1) : null;
        if (one === null || this.cut) {
          this.cut = true;
          return null;
        }
        all.push(one);
      }
    }
  }

  #argument(depth: number): string | null {
    const literal = this.#take(/L([bcahstijlmxy])(n?)(\d{1,20})E/y);
    if (literal) {
      const [, type, minus, digits] = literal;
      if (type === 'b') return digits === '0' ? 'false' : 'true';
      return `${minus ? '-' : ''}${digits}`;
    }
    const around = this.#take(/[PRK]{0,8}/y)?.[0] ?? '';
    const type = this.#take(/[a-z]/y)?.[0];
    const inner = type === undefined ? this.name(depth) : (builtin[type] ?? null);
    if (inner === null) return null;
    // From the inside out.
    return [...around].reverse().reduce((text, sign) => {
      if (sign === 'K') return `${text} const`;
      return text + (sign === 'P' ? '*' : '&');
    }, inner);
  }
}
