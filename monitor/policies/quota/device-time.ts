// HAS-GPU's request and limit in percent of a window, done on measured device time.
import type { QuotaParameters } from '../quota.js';
import { sameRank } from './owed.js';
import { windows } from './windows.js';

export const deviceTime = (parameters?: Pick<QuotaParameters, 'windowMs'>) =>
  windows(
    {
      name: 'device-time',
      summary: 'requests are kept, what is unused is lent up to limits, in windows of time',
      about:
        'The default. Time is what the GPU was measured to work. Each session gets what it was promised ' +
        'if it wants it; what nobody wants goes to the others, in proportion, up to their limits. ' +
        'Limits are parts of a window of wall time (--quota-window).',
      rank: sameRank,
    },
    parameters,
  );
