// Dilu's baseline that reserves requests and knows no limits.
import { asAuthorsDecide } from './authors.js';

export const inflessR = asAuthorsDecide(
  'infless-r',
  'INFless-r',
  'requests are all that counts; best fit by SMs alone (INFless, as Dilu compares it)',
  {
    counted: (resources) => ({ ...resources, smLimit: resources.sm }),
    alpha: 1,
    beta: 0,
    splits: false,
  },
);
