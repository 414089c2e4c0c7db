import { type Command, exitCodes } from '../cli/command.js';
import { print } from '../cli/table.js';
import { UsageError } from '../options/options.js';

export function help(everything: () => Promise<Command[]>): Command {
  return {
    name: 'help',
    summary: 'explain Outboard, or one command',
    help: 'Usage: outboard help [COMMAND]\n\nExplains Outboard, or one command.\n',
    async run([topic, ...more]) {
      if (more.length > 0) throw new UsageError(`help takes one command, not also ${more[0]}`);
      const commands = await everything();
      const found = commands.find(({ name }) => name === topic);
      if (topic !== undefined && !found) {
        const names = commands.map(({ name }) => name).join(', ');
        throw new UsageError(`no command ${topic}; there are ${names}`);
      }
      print([(found?.help ?? overview(commands)).trimEnd()]);
      return exitCodes.ok;
    },
  };
}

/** What the exit codes of all commands mean. */
export const exitMeanings: readonly (readonly [string, string])[] = [
  ['0', 'well'],
  ['2', 'wrong usage'],
  ['3', 'cannot start or reach something, or what was reached refuses'],
  ['4, 5, 6', '`doctor`: refused, no session begins, its kernel does not run or is wrong'],
  ['126, 127', '`run`: the program cannot be executed, there is none'],
  ['128+N', 'ended by signal N; `run` otherwise ends as its program does'],
];

function overview(commands: readonly Command[]): string {
  const width = Math.max(...commands.map(({ name }) => name.length));
  const rows = commands.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`);
  const codes = exitMeanings.map(([code, meaning]) => `  ${code.padEnd(8)}  ${meaning}`);
  return `Outboard runs unmodified CUDA programs on a GPU that is not in their machine.

Usage: outboard COMMAND [OPTIONS]

${rows.join('\n')}

Every option has a name in the environment; the flag comes first, then the environment, then
the configuration file where there is one, then the default. Exit codes:

${codes.join('\n')}

More: outboard help COMMAND, and the man page: outboard man
`;
}
