// All programs on a device that reorders what CUDA leaves unordered, over a network that is a
// millisecond long: whoever forgets to wait is found out.
import t from 'tap';
import { overLink } from '../../../bench/src/link.js';
import { listPrograms } from '../../../examples/build.mjs';
import { features, nativeOutcome, notRemoted, plainPrograms } from '../../support/features.js';
import { noPrograms, root } from '../../support/paths.js';
import { example, native, remoted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';

const examples = `${root}/examples`;
const link = { roundTrip: 1, rate: 10 };
/** Programs whose output is about the order or the time of things. */
const unsteady = new Set<string>([]);

t.test('far away and out of order', { skip: noPrograms, timeout: 600_000 }, async (t) => {
  const server = await startServer({ env: { SOFTWARE_DEVICE_DISORDER: '11' } });
  try {
    await overLink(link, server.address, async (through) => {
      for (const { name } of features) {
        if (notRemoted.has(name) || unsteady.has(name)) continue;
        const here = await nativeOutcome(name);
        const there = await remoted(testProgram(name), through);
        t.same(there, here, name);
      }
      for (const { name, testArgs: args } of listPrograms(examples)) {
        const here = await native(example(name), { args });
        t.same(await remoted(example(name), through, { args }), here, `example ${name}`);
      }
      for (const { name } of plainPrograms) {
        const here = await native(testProgram(name));
        const there = await remoted(testProgram(name), through);
        t.same({ code: there.code, stdout: there.stdout }, { code: 0, stdout: here.stdout }, name);
      }
    });
  } finally {
    await server.stop();
  }
});
