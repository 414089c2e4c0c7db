// npm run test:clients: sets everything up, PyTorch and ONNX Runtime (8 GB) and many CUDA runtimes too, then runs all
// clients that there are natively and remoted (test/clients/main.ts), with the arguments behind it. With --device
// software|nvidia|PATH: natively on that device, and on servers of it.
import { runCompiled } from './setup/all.mjs';
import { ensureClients, ensureFrameworks, ensureTinygrad } from './setup/clients.mjs';
import { takeDevice } from './setup/device.mjs';
import { ALL_RUNTIMES, ensureRuntimes } from './setup/runtimes.mjs';
import { runMain, SetupError, step } from './setup/step.mjs';

await runMain(async () => {
  const args = takeDevice(process.argv.slice(2));
  const missing = [
    await step('CuPy and Numba', ensureClients),
    await step('tinygrad', ensureTinygrad),
    await step('PyTorch and ONNX Runtime', ensureFrameworks),
    await step('CUDA runtimes', (begin) => ensureRuntimes(begin, ALL_RUNTIMES)),
  ].filter((reason) => reason !== undefined);
  if (missing.length > 0) throw new SetupError(missing.join('\n'));
  return runCompiled('test/clients/main.js', args);
});
