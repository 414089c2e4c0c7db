// PROTEAN's reorder (4.1): strict before best-effort, each class in order of arrival. In the paper best-effort requests
// may starve. Here one that was overtaken often enough counts as strict, so that its wait has an end.
import { overtakenMost, type QueuePolicy, type WaitingState } from '../queue.js';

export const strictFirst: QueuePolicy = {
  name: 'strict-first',
  summary: `latency-strict sessions before best-effort ones, each of which ${overtakenMost} may overtake (PROTEAN)`,
  about:
    'For people or requests beside batch work, whose tenants have the class best-effort. In ' +
    'the paper best-effort work may wait for ever; here it counts as latency-strict once so ' +
    'many have been served before it.',
  order(waiting) {
    const strict = waiting.filter(isStrict);
    if (strict.length === waiting.length) return waiting;
    return [...strict, ...waiting.filter((one) => !isStrict(one))];
  },
};

function isStrict({ request, overtaken }: WaitingState): boolean {
  return request.class === 'latency-strict' || overtaken >= overtakenMost;
}
