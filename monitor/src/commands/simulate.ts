import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { programs } from '../../../bin/paths.mjs';
import { command, exitCodes } from '../cli/command.js';
import { print, printJson } from '../cli/table.js';
import { type Option, UsageError, yesNo } from '../options/options.js';

/** The part of the simulator that is used here. It knows the monitor, and is loaded by nothing but this command. */
interface Simulator {
  simulateFile(
    file: string,
    out: string | null,
    progress: (line: string) => void,
  ): { result: unknown; lines: string[]; files: string[] };
}

export const simulate = command({
  name: 'simulate',
  summary: 'compare placement policies in simulated time',
  usage: 'SCENARIO.yaml',
  about: `Runs the sessions of a scenario in simulated time, once with each placement policy, and shows how long
they wait. A scenario names GPUs, policies, and who comes: made-up sessions, those of a server's log,
or both; docs/policies.md has an example. What comes out is advice: nothing is measured, no server
is asked or changed.`,
  takes: { least: 1, most: 1, what: 'a file, SCENARIO.yaml' },
  options: {
    out: {
      env: 'OUTBOARD_SIMULATE_OUT',
      value: 'DIR',
      help: 'a folder for a page, its plot and the figures as JSON',
      parse: (text) => text,
      fallback: null,
      shown: 'none',
    } satisfies Option<string | null>,
    json: yesNo('OUTBOARD_JSON', 'write JSON, whose form is stable, for programs'),
  },
  async run({ out, json }, [file = '']) {
    const main = path.join(programs, 'simulator', 'scenario', 'main.js');
    const simulator: Simulator = await import(pathToFileURL(main).href);
    const progress = (line: string) => void process.stderr.write(`${line}\n`);
    const { result, lines, files } = simulated(() => simulator.simulateFile(file, out, progress));
    if (json) printJson(result);
    else print([...lines, ...files.map((name) => `Written: ${name}`)]);
    return exitCodes.ok;
  },
});

/** What is wrong with the files that were named is wrong usage. */
function simulated<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof Error) throw new UsageError(error.message);
    throw error;
  }
}
