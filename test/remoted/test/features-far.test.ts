// All programs on a device that reorders what CUDA leaves unordered, over a network that is a
// millisecond long: whoever forgets to wait is found out.
import t from 'tap';
import { overLink } from '../../../bench/src/link.js';
import { onlySoftware } from '../../support/device.js';
import { sameOnServer, sample } from '../../support/features.js';
import { noPrograms } from '../../support/paths.js';
import { startServer } from '../../support/server.js';

/** Thousands of operations, each of which would be delayed. */
const tooMany = new Map([['full-streams', 'it fills streams']]);

const link = { roundTrip: 1, rate: 10 };

t.test(
  'far away and out of order',
  { skip: noPrograms || onlySoftware, timeout: 600_000 },
  async (t) => {
    const server = await startServer({ env: { SOFTWARE_DEVICE_DISORDER: '11' } });
    try {
      await overLink(link, server.address, (through) =>
        sameOnServer(t, through, {}, new Map(), tooMany, (all) => sample(all, 0)),
      );
    } finally {
      await server.stop();
    }
  },
);
