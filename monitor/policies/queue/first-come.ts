import type { QueuePolicy } from '../queue.js';

export const firstCome: QueuePolicy = {
  name: 'first-come',
  summary: 'in order of arrival',
  order: (waiting) => waiting,
};
