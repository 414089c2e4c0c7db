// Writes a timeline as JSON in the form of Chrome's trace events, which many viewers read.
import { inOrder } from './perfetto.js';
import type { Timeline } from './timeline.js';

/** In pieces, in order. */
export function* chromeTrace(timeline: Timeline): Generator<string> {
  const pids = new Map(timeline.processes.map(({ kind, id }) => [kind, id]));
  const first = timeline.processes[0];
  yield '{"displayTimeUnit":"ns","otherData":';
  yield JSON.stringify(timeline.facts);
  yield ',"traceEvents":[\n';
  const lines: string[] = [];
  const put = (event: object) => lines.push(JSON.stringify(event));
  for (const { id, name } of timeline.processes) {
    put({ ph: 'M', name: 'process_name', pid: id, tid: 0, args: { name } });
  }
  for (const { id, process, name } of timeline.tracks) {
    const place = { pid: pids.get(process) ?? first?.id ?? 0, tid: id };
    put({ ph: 'M', name: 'thread_name', ...place, args: { name } });
    put({ ph: 'M', name: 'thread_sort_index', ...place, args: { sort_index: id } });
  }
  let some = false;
  for (const { at, track, slice, type } of inOrder(timeline.tracks)) {
    const place = { pid: pids.get(track.process) ?? 0, tid: track.id, ts: at / 1000 };
    const { name, category: cat, args } = slice;
    const ph = ({ 1: 'B', 2: 'E', 3: 'i' } as const)[type as 1 | 2 | 3];
    if (ph === 'E') put({ ph, ...place });
    else put({ ph, name, cat, ...place, ...(ph === 'i' && { s: 't' }), args });
    if (ph === 'B') {
      for (const id of slice.from) put({ ph: 's', id, name: 'leads to', cat: 'flow', ...place });
      for (const id of slice.to) {
        put({ ph: 'f', bp: 'e', id, name: 'leads to', cat: 'flow', ...place });
      }
    }
    if (lines.length < 4096) continue;
    yield (some ? ',\n' : '') + lines.splice(0).join(',\n');
    some = true;
  }
  if (lines.length > 0) yield (some ? ',\n' : '') + lines.join(',\n');
  yield '\n]}\n';
}
