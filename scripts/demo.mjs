// npm run demo: sets everything up, then runs the demonstration, examples/demo.ts.
import { runCompiled } from './setup/all.mjs';
import { runMain } from './setup/step.mjs';

await runMain(() => runCompiled('examples/demo.js', process.argv.slice(2)));
