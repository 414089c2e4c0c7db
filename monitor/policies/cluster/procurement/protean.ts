// PROTEAN's machines: of the spot market as long as there are some, on demand where there are none.
import type { ClusterPolicy } from '../policy.js';
import type { Effect, Market } from '../state.js';

type Names = 'machines';

export interface ProteanProcurementMemory {
  /** Machines that are there, by market. */
  there: Readonly<Record<Market, number>>;
  /** Machines that were asked for, and neither granted nor refused yet. */
  asked: Readonly<Record<Market, number>>;
  /** Requests to the spot market that were refused since the last period began. */
  refused: number;
}

export const protean: ClusterPolicy<ProteanProcurementMemory, Names> = {
  name: 'protean',
  kind: 'procurement',
  summary: 'machines of the spot market first, on demand where that has none, and back when it has',
  source: { paper: 'PROTEAN', section: '4.5' },
  parameters: {
    machines: {
      ...{ default: 1, least: 0, most: 100_000 },
      summary: 'how many there should be',
      source: { paper: 'PROTEAN', section: '5, eight' },
    },
  },
  start: () => {
    return { there: { spot: 0, 'on-demand': 0 }, asked: { spot: 0, 'on-demand': 0 }, refused: 0 };
  },
  decide: ({ events, memory, parameters: { machines } }) => {
    const there = { ...memory.there };
    const asked = { ...memory.asked };
    let { refused } = memory;
    const effects: Effect[] = [];
    for (const event of events) {
      if (event.kind === 'machine') {
        const { market, what } = event;
        if (what === 'gone') there[market] = Math.max(0, there[market] - 1);
        else asked[market] = Math.max(0, asked[market] - 1);
        if (what === 'granted') there[market]++;
        if (what === 'refused' && market === 'spot') refused++;
      } else if (event.kind === 'eviction') {
        const reason = { text: 'the machine is taken away' };
        effects.push({ kind: 'drain', node: event.node, within: event.notice, reason });
      } else if (event.kind === 'rate') {
        // A new period: the spot market may have some again.
        refused = 0;
      }
    }
    if (events.length === 0) return { effects, memory };
    const onWay = asked.spot + asked['on-demand'];
    const lacking = machines - there.spot - there['on-demand'] - onWay;
    const procure = (market: Market, count: number, text: string) => {
      if (count <= 0) return;
      asked[market] += count;
      effects.push({ kind: 'procure', market, count, reason: { text } });
    };
    if (lacking > 0) {
      // Who was refused in this period does not ask the spot market again in it.
      const demanded = Math.min(lacking, refused);
      refused -= demanded;
      procure('on-demand', demanded, 'the spot market has none');
      procure('spot', lacking - demanded, 'machines are missing');
    } else if (events.some(({ kind }) => kind === 'rate')) {
      procure('spot', there['on-demand'] - asked.spot, 'instead of machines on demand');
    }
    const over = there.spot + there['on-demand'] - machines;
    const spare = Math.min(over, there['on-demand']);
    if (spare > 0) {
      there['on-demand'] -= spare;
      const reason = { text: 'there are enough of the spot market' };
      effects.push({ kind: 'give up', market: 'on-demand', count: spare, reason });
    }
    if (over - spare > 0) {
      there.spot -= over - spare;
      const reason = { text: 'there are more than there should be' };
      effects.push({ kind: 'give up', market: 'spot', count: over - spare, reason });
    }
    return { effects, memory: { there, asked, refused } };
  },
};
