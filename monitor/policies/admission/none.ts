import type { AdmissionPolicy } from '../admission.js';

export const none: AdmissionPolicy = {
  name: 'none',
  summary: 'whoever has memory, a slot and its promise of time may come',
  never: () => null,
  against: () => null,
};
