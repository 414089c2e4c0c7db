import type { QueuePolicy } from '../queue.js';

export const firstCome: QueuePolicy = {
  name: 'first-come',
  summary: 'in order of arrival',
  about: 'The default: for sessions of one kind, or where nobody waits for long.',
  order: (waiting) => waiting,
};
