// What `outboard simulate` starts.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { page, plot, reportLines } from './report.js';
import { type Result, runScenario } from './run.js';
import { readScenario } from './scenario.js';

export { ScenarioError } from './scenario.js';

export interface Simulated {
  result: Result;
  /** The table, for a terminal. */
  lines: string[];
  /** Files that were written. */
  files: string[];
}

/**
 * Runs the scenario of a file; `out`: the folder for page, plot and figures, null: nothing is written. `progress` gets a
 * line after each policy. Throws where something is wrong with file, log or folder, and says what.
 */
export function simulateFile(
  file: string,
  out: string | null,
  progress: (line: string) => void,
): Simulated {
  const result = runScenario(readScenario(file), progress);
  const files: string[] = [];
  if (out !== null) {
    mkdirSync(out, { recursive: true });
    const write = (name: string, text: string) => {
      writeFileSync(path.join(out, name), text);
      files.push(path.join(out, name));
    };
    write('index.html', page(result));
    write('waits.svg', plot(result));
    write('result.json', `${JSON.stringify(result, null, 2)}\n`);
  }
  return { result, lines: reportLines(result), files };
}
