// npm run test:clients: sets everything up, PyTorch and ONNX Runtime (8 GB) and many CUDA runtimes too, then runs all
// clients that there are natively and remoted (test/clients/main.ts), with the arguments behind it. Of what the named
// ones do not need nothing is installed. With --device
// software|nvidia|PATH: natively on that device, and on servers of it.
import { runCompiled } from './setup/all.mjs';
import {
  ensureClients,
  ensureOnnx,
  ensureSolver,
  ensureTinygrad,
  ensureTorch,
} from './setup/clients.mjs';
import { takeDevice } from './setup/device.mjs';
import { ALL_RUNTIMES, ensureRuntimes } from './setup/runtimes.mjs';
import { runMain, SetupError, step } from './setup/step.mjs';

await runMain(async () => {
  const args = takeDevice(process.argv.slice(2));
  const names = args.filter((arg) => !arg.startsWith('-'));
  /** @param {...string} some how names begin */
  const wants = (...some) =>
    names.length === 0 || names.some((name) => some.some((one) => name.startsWith(one)));
  const missing = [
    wants('cupy', 'numba') ? await step('CuPy and Numba', ensureClients) : undefined,
    wants('cupy_solver') ? await step('cuSOLVER', ensureSolver) : undefined,
    wants('tinygrad') ? await step('tinygrad', ensureTinygrad) : undefined,
    wants('torch') ? await step('PyTorch', ensureTorch) : undefined,
    wants('onnx') ? await step('ONNX Runtime', ensureOnnx) : undefined,
    wants('runtimes')
      ? await step('CUDA runtimes', (begin) => ensureRuntimes(begin, ALL_RUNTIMES))
      : undefined,
  ].filter((reason) => reason !== undefined);
  if (missing.length > 0) throw new SetupError(missing.join('\n'));
  return runCompiled('test/clients/main.js', args);
});
