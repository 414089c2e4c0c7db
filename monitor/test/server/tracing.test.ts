// Spans reach a collector, in the trace that the guest named.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { Guest } from '../support/guest.js';
import { Serving } from '../support/serving.js';

interface Span {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: { key: string; value: Record<string, unknown> }[];
}

t.test('a session is a trace of its own, or part of the guest’s', async (t) => {
  const spans: Span[] = [];
  const collector = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = JSON.parse(Buffer.concat(chunks).toString());
    for (const resource of body.resourceSpans) {
      for (const scope of resource.scopeSpans) spans.push(...scope.spans);
    }
    response.setHeader('content-type', 'application/json').end('{}');
  });
  collector.listen(0, '127.0.0.1');
  await once(collector, 'listening');
  t.teardown(() => collector.close());
  const { port } = collector.address() as AddressInfo;
  const serving = await Serving.start(t, ['--servers-per-gpu', '1'], {
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
  });
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  const traceparent = `00-${traceId}-b7ad6b7169203331-01`;
  const guest = Guest.hello(serving.address, { traceparent, name: 'traced' });
  await guest.welcome();
  const waiting = Guest.hello(serving.address, { name: 'alone' });
  await waiting.position();
  await guest.leave();
  await waiting.welcome();
  await waiting.leave();
  await serving.logged({ session: 2, msg: /session ends/ });
  t.equal(await serving.stop(), 0, 'the rest is sent at the end');

  const named = (name: string, trace: (id: string) => boolean) => {
    const found = spans.filter((span) => span.name === name && trace(span.traceId));
    t.equal(found.length, 1, `one ${name}`);
    return found[0] as Span;
  };
  const mine = (id: string) => id === traceId;
  const attach = named('outboard.attach', mine);
  t.equal(attach.parentSpanId, 'b7ad6b7169203331');
  t.equal(named('outboard.session', mine).parentSpanId, 'b7ad6b7169203331');
  for (const name of ['outboard.queue', 'outboard.handover']) {
    t.equal(named(name, mine).parentSpanId, attach.spanId);
  }
  t.match(
    attach.attributes.find(({ key }) => key === 'outboard.name'),
    { value: { stringValue: 'traced' } },
  );
  const other = (id: string) => id !== traceId;
  t.notOk(named('outboard.attach', other).parentSpanId, 'the guest named none');
  const { startTimeUnixNano: from, endTimeUnixNano: to } = named('outboard.queue', other);
  t.ok(BigInt(to) > BigInt(from), 'it waited');
});
