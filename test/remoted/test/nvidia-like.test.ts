// The backbone on a server whose device behaves as NVIDIA's driver does
// (docs/software-device/traits.md): every program does and says what it does natively under the
// same traits, and every sequence of random calls ends as natively.
import t from 'tap';
import { sameOnServer } from '../../support/features.js';
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
  await sameOnServer(t, server.address, env, saysOther, asksForMore);
});
