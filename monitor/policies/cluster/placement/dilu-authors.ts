// Dilu as its authors' simulator decides, which is not Algorithm 1 as printed: see authors.ts.
import { asAuthorsDecide } from './authors.js';

export const diluAuthors = asAuthorsDecide(
  'dilu-authors',
  null,
  "as Dilu's simulator decides: training first fit by node, large models split, the rest best fit",
  { counted: (resources) => resources, alpha: 0.6, beta: 0.4, splits: true },
);
