// The backbone on a server whose device behaves as NVIDIA's driver does
// (docs/software-device/traits.md): programs do and say what they do natively under the same
// traits. For each change every fifth of them, at night all. Sequences: sequences.test.ts.
import t from 'tap';
import { sameOnServer, sample } from '../../support/features.js';
import { asksForMore, saysOther } from '../../support/known-differences.js';
import { noPrograms } from '../../support/paths.js';
import { startServer } from '../../support/server.js';

/**
 * Sessions get half of the device, and `recursion` wants stacks of 256 KiB for all threads that 132 multiprocessors can
 * hold, which are 66 GiB. They are counted, not touched.
 */
const env = { SOFTWARE_DEVICE_TRAITS: 'nvidia-like', SOFTWARE_DEVICE_MEMORY: '160G' };

t.test('as on NVIDIA’s driver', { skip: noPrograms, timeout: 600_000 }, async (t) => {
  const server = await startServer({ env });
  t.teardown(() => server.stop());
  await sameOnServer(t, server.address, env, saysOther, asksForMore, (all) => sample(all, 2));
});
