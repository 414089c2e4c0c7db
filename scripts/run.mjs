// npm run test:corpus, test:samples: sets everything up, then runs the compiled script that
// package.json names (below build/js), with the arguments behind it.
import { runCompiled } from './setup/all.mjs';
import { runMain } from './setup/step.mjs';

const [script = '', ...args] = process.argv.slice(2);
await runMain(() => runCompiled(script, args));
