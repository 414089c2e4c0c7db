// First lines of commits: short enough to be read whole in a list, from the commit on that brought this file.
import { captured } from '../setup/command.mjs';

const COLUMNS = 76;

/** Those that are too long. @param {(argv: string[]) => Promise<string>} [git] */
export async function longSubjects(git = run) {
  const added = ['log', '-1', '--diff-filter=A', '--format=%H', '--', 'scripts/rows/subjects.mjs'];
  const since = (await git(added)).trim();
  // Not committed yet.
  if (since === '') return [];
  const log = await git(['log', '--no-merges', '--format=%h %s', `${since}..HEAD`]);
  return log.split('\n').filter((line) => line.slice(line.indexOf(' ') + 1).length > COLUMNS);
}

/** @param {string[]} argv */
async function run(argv) {
  const { status, output } = await captured(['git', ...argv]);
  if (status !== 0) throw new Error(`git ${argv.join(' ')} failed: ${output}`);
  return output;
}
