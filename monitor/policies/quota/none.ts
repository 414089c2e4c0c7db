// Nothing is held back; device time is still measured.
import type { QuotaPolicy } from '../quota.js';

export const none: QuotaPolicy<null> = {
  name: 'none',
  summary: 'no limits: whoever launches more gets more',
  about:
    'For one session at a time on each GPU, or to find out what limits cost. What sessions ' +
    'use is still measured.',
  unit: 'none',
  periodMs: 1000,
  start: () => null,
  step: ({ sessions }) => ({ limits: new Map(sessions.map(({ id }) => [id, null])), memory: null }),
};
