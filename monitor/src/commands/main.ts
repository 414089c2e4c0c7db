// The command `outboard`. Exit codes: 0 well, 2 wrong usage, 3 cannot start or reach something;
// `run` ends as the program it ran.

import { OutboardError } from '../base/errors.js';
import { type Command, exitCodes } from '../cli/command.js';
import { print } from '../cli/table.js';
import { didYouMean } from '../options/nearest.js';
import { UsageError } from '../options/options.js';

// Each is loaded when it is wanted, so that `run` does not wait for what only `serve` needs.
const commands: Record<string, () => Promise<Command>> = {
  serve: async () => (await import('./serve.js')).serve,
  run: async () => (await import('./run.js')).run,
  doctor: async () => (await import('./doctor.js')).doctor,
  tenant: async () => (await import('./tenant.js')).tenant,
  status: async () => (await import('./status.js')).status,
  smi: async () => (await import('./smi.js')).smi,
  top: async () => (await import('./top.js')).top,
  sessions: async () => (await import('./sessions.js')).sessions,
  kernels: async () => (await import('./kernels.js')).kernels,
  move: async () => (await import('./move.js')).move,
  why: async () => (await import('./why.js')).why,
  kill: async () => (await import('./kill.js')).kill,
  quota: async () => (await import('./quota.js')).quota,
  drain: async () => (await import('./drain.js')).drain,
  device: async () => (await import('./device.js')).device,
  policies: async () => (await import('./policies.js')).policies,
  simulate: async () => (await import('./simulate.js')).simulate,
  logs: async () => (await import('./logs.js')).logs,
  completion: async () => (await import('./completion.js')).completion(everything),
  man: async () => (await import('./man.js')).man(everything),
  agent: async () => (await import('./agent.js')).agent,
  trace: async () => (await import('./trace.js')).trace,
  version: async () => (await import('./version.js')).version,
  help: async () => (await import('./help.js')).help(everything),
};

const aliases: Record<string, string> = { '--help': 'help', '-h': 'help', '--version': 'version' };

process.exitCode = await main(process.argv.slice(2));

async function main([word, ...args]: string[]): Promise<number> {
  const name = aliases[word ?? ''] ?? word;
  const known = name !== undefined && Object.hasOwn(commands, name);
  try {
    if (word === undefined) throw new UsageError('no command');
    if (!known) {
      throw new UsageError(`no command ${word}${didYouMean(word, Object.keys(commands))}`);
    }
    const command = await load(name);
    // What stands behind `--` or a program's name belongs to the program.
    if (['--help', '-h'].includes(args[0] ?? '')) {
      print([command.help.trimEnd()]);
      return exitCodes.ok;
    }
    return await command.run(args);
  } catch (error) {
    if (error instanceof UsageError) {
      const more = known
        ? `See: ${error.see ?? `outboard help ${name}`}`
        : `Commands: ${Object.keys(commands).join(', ')}`;
      process.stderr.write(`outboard: ${error.message}\n${more}\n`);
      return exitCodes.usage;
    }
    if (error instanceof OutboardError) {
      process.stderr.write(`outboard: ${error.message} (${error.code})\n${error.remedy}\n`);
      return exitCodes.unable;
    }
    throw error;
  }
}

/** All commands, for help, completion and the man page. */
function everything(): Promise<Command[]> {
  return Promise.all(Object.keys(commands).map(load));
}

function load(name: string): Promise<Command> {
  const found = commands[name];
  if (!found) throw new Error(`no command ${name}`);
  return found();
}
