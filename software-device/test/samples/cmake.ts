// Reads as much of CMake's language as the samples' own CMakeLists.txt need: which sources, which
// libraries, what is compiled and copied beside the program. CMake itself is no use here: the files
// fix the architectures, and would compile each sample nine times over, to machine code.

export interface Command {
  name: string;
  args: string[];
}

/** The commands of a file, with quotes taken off and nothing replaced. */
export function parse(text: string): Command[] {
  const commands: Command[] = [];
  const token = /#[^\n]*|"((?:[^"\\]|\\.)*)"|([()])|([^\s()"#]+)/g;
  let current: Command | undefined;
  let word = '';
  let depth = 0;
  for (const [whole, quoted, bracket, bare] of text.matchAll(token)) {
    if (whole.startsWith('#')) continue;
    if (bracket === '(' && !current) {
      current = { name: word.toLowerCase(), args: [] };
      depth = 1;
    } else if (current) {
      if (bracket === '(') depth++;
      if (bracket === ')' && --depth === 0) {
        commands.push(current);
        current = undefined;
      } else {
        current.args.push(quoted ?? bracket ?? bare ?? '');
      }
    } else {
      word = bare ?? '';
    }
  }
  return commands;
}

export class Evaluator {
  readonly variables = new Map<string, string>();

  expand(arg: string): string {
    let text = arg;
    for (let round = 0; round < 8 && text.includes('${'); round++) {
      text = text.replace(/\$\{([^${}]*)\}/g, (_, name: string) => this.variables.get(name) ?? '');
    }
    return text;
  }

  /** Runs the commands in order, taking the branches that `if` takes. */
  run(commands: Command[], visit: (command: Command) => void) {
    // For each open `if`: does this branch run, and has any of it run already?
    const open: { running: boolean; taken: boolean }[] = [];
    const outer = () => open.slice(0, -1).every(({ running }) => running);
    for (const { name, args } of commands) {
      const last = open.at(-1);
      if (name === 'if') {
        const running = open.every((each) => each.running) && this.condition(args);
        open.push({ running, taken: running });
      } else if (name === 'elseif' && last) {
        last.running = !last.taken && outer() && this.condition(args);
        last.taken ||= last.running;
      } else if (name === 'else' && last) {
        last.running = !last.taken && outer();
      } else if (name === 'endif') {
        open.pop();
      } else if (open.every(({ running }) => running)) {
        const expanded = args.flatMap((arg) => this.expand(arg).split(';')).filter(Boolean);
        if (name === 'set') this.variables.set(expanded[0] ?? '', expanded.slice(1).join(';'));
        else visit({ name, args: expanded });
      }
    }
  }

  /** `or` binds least, then `and`, then `not`, then comparisons. */
  private condition(args: string[]): boolean {
    const words = args.map((arg) => this.expand(arg));
    let at = 0;
    const isTrue = (word = '') => /^(1|on|yes|true|y)$/i.test(word);
    const isFalse = (word: string) => /^(|0|off|no|false|n|ignore|.*notfound)$/i.test(word);
    const value = (word = '') => isTrue(word) || !isFalse(this.variables.get(word) ?? '');
    const text = (word = '') => this.variables.get(word) ?? word;
    const simple = (): boolean => {
      const word = words[at++];
      if (word === 'NOT') return !simple();
      if (word === '(') {
        const inner = either();
        at++;
        return inner;
      }
      if (word === 'DEFINED' || word === 'TARGET' || word === 'EXISTS') {
        const what = words[at++] ?? '';
        return word === 'DEFINED' && this.variables.has(what);
      }
      const operator = words[at] ?? '';
      if (
        /^(VERSION_)?(STREQUAL|EQUAL|MATCHES|LESS|GREATER|LESS_EQUAL|GREATER_EQUAL)$/.test(operator)
      ) {
        at++;
        const left = text(word);
        const right = words[at++] ?? '';
        if (operator === 'MATCHES') return new RegExp(right).test(left);
        if (operator === 'STREQUAL') return left === text(right);
        const difference = Number.parseFloat(left) - Number.parseFloat(text(right));
        if (operator.includes('LESS'))
          return operator.endsWith('_EQUAL') ? difference <= 0 : difference < 0;
        if (operator.includes('GREATER'))
          return operator.endsWith('_EQUAL') ? difference >= 0 : difference > 0;
        return difference === 0;
      }
      return value(word);
    };
    const both = (): boolean => {
      let result = simple();
      while (words[at] === 'AND') {
        at++;
        const next = simple();
        result = result && next;
      }
      return result;
    };
    const either = (): boolean => {
      let result = both();
      while (words[at] === 'OR') {
        at++;
        const next = both();
        result = result || next;
      }
      return result;
    };
    return either();
  }
}
