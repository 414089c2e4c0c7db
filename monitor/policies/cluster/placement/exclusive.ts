// Whole devices for each instance, which is what Kubernetes gives: Dilu's baseline Exclusive.
import { asAuthorsDecide } from './authors.js';

export const exclusive = asAuthorsDecide(
  'exclusive',
  'Exclusive',
  'each instance has its devices for itself',
  { counted: (resources) => resources, alpha: 1, beta: 0, splits: false, exclusive: true },
);
