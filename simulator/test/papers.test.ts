// The papers' rows by themselves: readers of their data, what judges a row, and the replay on a small list whose answer is
// known. The data are not in the repository: with them, `npm run simulate -- papers` makes the rows.
import t from 'tap';
import { clusterPolicy } from '../../monitor/policies/cluster/registry.js';
import { Cluster, Decider } from '../cluster/cluster.js';
import { replay } from '../papers/dilu.js';
import { papersPage } from '../papers/page.js';
import { holds, type Row } from '../papers/row.js';
import { type InstanceEvent, parseInstances } from '../traces/instances.js';

const line = (action: string, name: string, type: string, rest: string) =>
  `{'Time': '2024-06-19 15:44:30', 'Action': '${action}', 'Instance': {'service_name': '${name}', 'type': '${type}', ${rest}}}`;
const small = "'gpu_num': 1, 'sm_requests': 0.2, 'sm_limits': 0.42000000000000004, 'memory': [3]";

t.test(
  'event lists of instances: what they hold, and in which line something else is',
  async (t) => {
    const text = `${line('start', 'a', 'inference', small)}\n\n${line('delete', 'a', 'inference', small)}\n`;
    t.same(parseInstances(text, 'list'), [
      { action: 'start', name: 'a', kind: 'inference', request: 200, limit: 420, memory: [3] },
      { action: 'delete', name: 'a', kind: 'inference', request: 200, limit: 420, memory: [3] },
    ]);
    const wrong = [
      'nothing',
      line('stop', 'a', 'inference', small),
      line('start', 'a', 'mining', small),
      line('start', 'a', 'inference', small.replace('0.2', "'much'")),
      line('start', 'a', 'inference', small.replace('[3]', '3')),
    ];
    for (const one of wrong) {
      t.throws(() => parseInstances(`${text}${one}`, 'list'), /^list, line 4: not an event/, one);
    }
  },
);

function event(
  action: 'start' | 'delete',
  name: string,
  request: number,
  given = {},
): InstanceEvent {
  const usual = { kind: 'inference', limit: request, memory: [10] } as const;
  return { action, name, request, ...usual, ...given };
}

t.test('a replay counts GPUs at their peak, and who is refused', async (t) => {
  const list = [
    event('start', 'a', 600),
    event('start', 'b', 400),
    event('start', 'c', 100),
    event('delete', 'a', 600),
    event('delete', 'c', 100),
    event('start', 'd', 600),
    event('delete', 'nobody', 600),
  ];
  t.match(replay(list, 'dilu', {}, 1), { peak: 2, refused: 0, placed: 4 });
  t.match(replay(list, 'exclusive', {}, 1), { peak: 3, refused: 0, placed: 4 });
  t.same(replay([event('start', 'a', 500)], 'dilu', {}, 1).fragments, { sm: 0.5, memory: 0.75 });
  const large = event('start', 'large', 100, { memory: [41] });
  t.match(replay([large], 'dilu', {}, 1), { peak: 0, refused: 1 });
  t.throws(() => replay([large, large], 'dilu', {}, 1), /large starts twice/);
});

t.test('a decider carries effects out, and tells what became of them', async (t) => {
  const device = { node: 0, server: '', gpu: 0, slice: null, memory: 40 };
  const cluster = new Cluster([device]);
  const told: string[] = [];
  const dilu = clusterPolicy('placement', 'dilu');
  const spy = {
    ...dilu,
    decide(input: Parameters<typeof dilu.decide>[0]) {
      for (const one of input.events) {
        told.push(one.kind === 'acknowledged' ? `${one.effect.kind}: ${one.failed}` : one.kind);
      }
      return dilu.decide(input);
    },
  };
  const decider = new Decider(spy, cluster);
  const parts = [{ sm: 100, smLimit: 100, time: 1000, memory: 1 }];
  const wanted = { kind: 'instance wanted', instance: 1, name: 'f', parts } as const;
  t.equal(decider.tell(wanted).length, 1);
  t.equal(cluster.ledger.entry(1)?.how, 'starting');
  t.equal(decider.tell(wanted).length, 0, 'it has its place already');
  decider.tell();
  t.same(told, [
    'instance wanted',
    'place: null',
    'instance wanted',
    'place: instance 1 has its place already',
  ]);
  t.throws(() => decider.tell(wanted, { ...wanted, instance: 2 }), /one after the other/);
  t.throws(() => new Decider(dilu, cluster, { gamma: 0 }), /gamma is 0/);
});

t.test('a row holds within its bound, and is shown where it has none', async (t) => {
  const row: Row = {
    ...{ paper: 'Dilu', where: '1', what: 'w', unit: 'u', why: 'y' },
    ...{ theirs: 10, ours: 12, within: 2 },
  };
  t.equal(holds(row), true);
  t.equal(holds({ ...row, ours: 12.1 }), false);
  t.equal(holds({ ...row, within: null }), null);
  t.equal(holds({ ...row, ours: null }), null);
  t.equal(holds({ ...row, within: null, most: 11 }), false);
  t.equal(holds({ ...row, within: null, most: 12 }), true);
  const page = papersPage([row, { ...row, ours: 13 }, { ...row, ours: null, theirs: null }]);
  t.match(page, '| 1 | w | u | 10 | 12 | +2 | holds (within 2) | y |');
  t.match(page, '| 10 | 13 | +3 | **differs** (within 2) | y |');
  t.match(page, '| - | - | - |  | y |');
});
