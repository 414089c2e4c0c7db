// HAS-GPU's request and limit in percent of a window, done on measured device time.
import type { QuotaParameters } from '../quota.js';
import { sameRank } from './owed.js';
import { windows } from './windows.js';

export const deviceTime = (parameters?: Pick<QuotaParameters, 'windowMs'>) =>
  windows(
    {
      name: 'device-time',
      summary: 'requests are kept, what is unused is lent up to limits, in windows of time',
      rank: sameRank,
    },
    parameters,
  );
