// npm run build: everything that `npx outboard` and its users need; no CUDA compiler, no tests.
import { setUp } from './setup/all.mjs';
import { runMain } from './setup/step.mjs';

await runMain(async () => {
  await setUp('runtime');
  return 0;
});
