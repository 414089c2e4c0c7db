import type { AdmissionPolicy } from '../admission.js';

export const none: AdmissionPolicy = {
  name: 'none',
  summary: 'whoever has memory, a slot and its promise of time may come',
  about: 'The default: nothing is known, or asked, of how much sessions slow each other down.',
  never: () => null,
  against: () => null,
};
