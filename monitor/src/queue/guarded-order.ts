// The order of the queue by a policy that cannot hold up a server, and that can neither lose nor invent anybody.
import { firstCome } from '../../policies/queue/first-come.js';
import type { QueuePolicy, WaitingState } from '../../policies/queue.js';
import { guardedDecision, type OnFailure } from './guard.js';
import type { Order } from './queue.js';

/** Those who wait, as the policy sees them. */
export interface Ordered {
  readonly state: WaitingState;
}

/**
 * Puts those who wait, who are in order of arrival, in the order of their turns, as the policy says. Throws where its
 * answer is not the same ones in another order.
 */
export function orderBy(policy: QueuePolicy): Order<Ordered> {
  // Which is asked each time that somebody comes, and has nothing to say.
  if (policy === firstCome) return (arrived) => arrived;
  return <One extends Ordered>(arrived: readonly One[]) => {
    const byState = new Map(arrived.map((one) => [one.state, one]));
    const turns: One[] = [];
    for (const state of policy.order([...byState.keys()])) {
      const one = byState.get(state);
      if (!one) throw new Error('its order has somebody twice, or who does not wait');
      byState.delete(state);
      turns.push(one);
    }
    if (byState.size > 0) throw new Error(`its order leaves out ${byState.size} who wait`);
    return turns;
  };
}

/** The same; where the policy fails at that, they have their turns as they came. */
export function orderedBy(policy: QueuePolicy, failed: OnFailure): Order<Ordered> {
  const order = orderBy(policy);
  if (policy === firstCome) return order;
  return <One extends Ordered>(arrived: readonly One[]) =>
    guardedDecision(
      policy.name,
      () => order(arrived),
      () => arrived,
      failed,
    );
}
