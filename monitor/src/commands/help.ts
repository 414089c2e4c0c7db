import { type Command, exitCodes } from '../command.js';
import { UsageError } from '../options.js';

export function help(others: readonly Command[]): Command {
  const self: Command = {
    name: 'help',
    summary: 'explain Outboard, or one command',
    help: 'Usage: outboard help [COMMAND]\n\nExplains Outboard, or one command.\n',
    async run([topic, ...more]) {
      if (more.length > 0) throw new UsageError(`help takes one command, not also ${more[0]}`);
      const commands = [...others, self];
      const found = commands.find(({ name }) => name === topic);
      if (topic !== undefined && !found) {
        const names = commands.map(({ name }) => name).join(', ');
        throw new UsageError(`no command ${topic}; there are ${names}`);
      }
      process.stdout.write(found?.help ?? overview(commands));
      return exitCodes.ok;
    },
  };
  return self;
}

function overview(commands: readonly Command[]): string {
  const width = Math.max(...commands.map(({ name }) => name.length));
  const rows = commands.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`);
  return `Outboard runs unmodified CUDA programs on a GPU that is not in their machine.

Usage: outboard COMMAND [OPTIONS]

${rows.join('\n')}

Every option has a name in the environment; the flag comes first, then the environment, then
the default. Exit codes: 0 well, 2 wrong usage, 3 cannot start or reach something.
More: outboard help COMMAND
`;
}
