import { type Command, exitCodes } from '../command.js';
import { UsageError } from '../options.js';

export function help(commands: readonly Command[]): Command {
  const command: Command = {
    name: 'help',
    summary: 'explain Outboard, or one command',
    help: 'Usage: outboard help [COMMAND]\n',
    async run([topic, ...more]) {
      if (more.length > 0) throw new UsageError(`help takes one command, not also ${more[0]}`);
      process.stdout.write(topic === undefined ? overview(commands) : find(topic).help);
      return exitCodes.ok;
    },
  };

  function find(topic: string): Command {
    const found = commands.find(({ name }) => name === topic);
    if (found) return found;
    const names = commands.map(({ name }) => name).join(', ');
    throw new UsageError(`there is no command ${topic}. Commands: ${names}`);
  }

  return command;
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
