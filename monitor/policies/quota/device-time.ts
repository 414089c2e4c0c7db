// HAS-GPU's request and limit in percent of a window of 40 ms, done on measured device time.
import { sameRank } from './owed.js';
import { windows } from './windows.js';

export const deviceTime = windows({
  name: 'device-time',
  summary: 'requests are kept, what is unused is lent up to limits, in windows of 40 ms',
  rank: sameRank,
});
