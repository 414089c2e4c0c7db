// npm run demo: sets up what it needs and no more, then runs the demonstration, examples/demo.ts.
import { runCompiled } from './setup/all.mjs';
import { runMain } from './setup/step.mjs';

await runMain(() => runCompiled('examples/demo.js', process.argv.slice(2), 'demo'));
