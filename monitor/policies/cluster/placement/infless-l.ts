// Dilu's baseline that reserves limits: what INFless does, as the authors of Dilu have written it.
import { asAuthorsDecide } from './authors.js';

export const inflessL = asAuthorsDecide(
  'infless-l',
  'INFless-l',
  'limits are reserved as if they were requests; best fit by SMs alone (INFless, as Dilu compares it)',
  {
    counted: (resources) => ({ ...resources, sm: resources.smLimit }),
    alpha: 1,
    beta: 0,
    splits: false,
  },
);
