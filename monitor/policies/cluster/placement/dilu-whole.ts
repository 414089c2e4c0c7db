// Dilu as its authors' simulator decides, without the splitting of large models.
import { asAuthorsDecide } from './authors.js';

export const diluWhole = asAuthorsDecide(
  'dilu-whole',
  null,
  'the same, but large language models are placed as any other inference',
  { counted: (resources) => resources, alpha: 0.6, beta: 0.4, splits: false },
);
