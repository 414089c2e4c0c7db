// The command `outboard`. Exit codes: 0 well, 2 wrong usage, 3 cannot start or reach something;
// `run` ends as the program it ran.

import { type Command, exitCodes } from './command.js';
import { help } from './commands/help.js';
import { run } from './commands/run.js';
import { serve } from './commands/serve.js';
import { version } from './commands/version.js';
import { OutboardError } from './errors.js';
import { UsageError } from './options.js';

const commands: Command[] = [serve, run, version];
commands.push(help(commands));

const aliases: Record<string, string> = { '--help': 'help', '-h': 'help', '--version': 'version' };

process.exitCode = await main(process.argv.slice(2));

async function main([name, ...args]: string[]): Promise<number> {
  const wanted = aliases[name ?? ''] ?? name;
  const command = commands.find((command) => command.name === wanted);
  try {
    if (!command) {
      const what = name === undefined ? 'no command' : `there is no command ${name}`;
      throw new UsageError(`${what}. Commands: ${commands.map(({ name }) => name).join(', ')}`);
    }
    if (asksForHelp(command, args)) return await help(commands).run([command.name]);
    return await command.run(args);
  } catch (error) {
    if (error instanceof UsageError) {
      const topic = command ? ` ${command.name}` : '';
      process.stderr.write(`outboard: ${error.message}\nSee: outboard help${topic}\n`);
      return exitCodes.usage;
    }
    if (error instanceof OutboardError) {
      process.stderr.write(`outboard: ${error.message} (${error.code})\n${error.remedy}\n`);
      return exitCodes.unable;
    }
    throw error;
  }
}

/** `outboard COMMAND --help`; what stands behind `--` or a program's name is the program's. */
function asksForHelp({ name }: Command, args: string[]): boolean {
  return name !== 'help' && (args[0] === '--help' || args[0] === '-h');
}
