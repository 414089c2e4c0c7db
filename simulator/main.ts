// npm run simulate -- papers ...
import { papersMain } from './papers/main.js';

const [what, ...args] = process.argv.slice(2);
try {
  process.exitCode = run();
} catch (error) {
  process.stderr.write(`simulate: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
}

function run(): number {
  if (what === 'papers') return papersMain(args);
  throw new Error(
    'expected: npm run simulate -- papers --data DIR [--only PAPER,...] [--out FOLDER]',
  );
}
