// npm run bench: sets everything up, then runs the benchmarks, bench/run.ts.
import { runCompiled } from './setup/all.mjs';
import { runMain } from './setup/step.mjs';

await runMain(() => runCompiled('bench/run.js', process.argv.slice(2)));
