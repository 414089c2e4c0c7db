// As device-time, but what is not promised goes to latency-strict sessions first. Best-effort
// sessions have what was promised to them and fill what is left.
import type { QuotaParameters } from '../quota.js';
import { strictFirst } from './owed.js';
import { windows } from './windows.js';

export const priority = (parameters?: Pick<QuotaParameters, 'windowMs'>) =>
  windows(
    {
      name: 'priority',
      summary:
        'requests are kept, then latency-strict sessions come first and best-effort ones fill',
      about:
        'As device-time, for people or requests beside batch work. Give what must not starve a promise: ' +
        'a best-effort session without one has only what latency-strict ones leave.',
      rank: strictFirst,
    },
    parameters,
  );
