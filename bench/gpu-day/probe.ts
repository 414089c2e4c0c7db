// Runs a probe (probes/main.c), which answers with one JSON object.
import path from 'node:path';
import { build } from '../../bin/paths.mjs';
import { DayError } from './day-error.js';
import { ending, lastLine, type Processes } from './processes.js';

/** By name; `error` where something went wrong, and `what` kind of thing. */
export type Answers = Record<string, number | string>;

export async function probe(
  processes: Processes,
  name: string,
  library: string,
  env: NodeJS.ProcessEnv,
  { more = [], input, seconds = 45 }: { more?: string[]; input?: string; seconds?: number } = {},
): Promise<Answers> {
  const program = path.join(build, 'bench', 'gpu-day-probe');
  const argv = [program, name, library, ...more];
  const options = input === undefined ? { env, seconds } : { env, input, seconds };
  const ran = await processes.run(argv, options).catch((error: Error) => {
    throw new DayError(
      `The probes cannot be run: ${error.message}.`,
      'They need Linux on x86-64 with glibc 2.34 or newer.',
    );
  });
  try {
    return JSON.parse(ran.stdout) as Answers;
  } catch {
    const said = lastLine(ran.stderr);
    return { what: 'process', error: `it ${ending(ran)}${said && `: ${said}`}` };
  }
}
