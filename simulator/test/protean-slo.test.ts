// The synthetic Table 4 of PROTEAN: one queue whose answer is known, and what must follow from the model.
import t from 'tap';
import { attainment, fitted, molecule, naive, protean } from '../papers/protean-slo.js';

/** Batches a second. */
const rate = 5000 / 128 / 8;

t.test('one after the other is the queue M/D/1, whose answer Erlang knew', async (t) => {
  for (const load of [0.3, 0.5, 0.8]) {
    // Of waits up to twice the service.
    const known = (1 - load) * (Math.exp(2 * load) - load * Math.exp(load));
    const found = attainment(molecule, load / rate, 0.5) / 100;
    t.ok(Math.abs(found - known) < 0.02, `${load}: ${found}, and it is ${known}`);
  }
  t.ok(attainment(molecule, 1.2 / rate, 0.5) < 5, 'more comes than is done');
});

t.test(
  'on slices: nobody is slowed down by those who use little, all by those who use much',
  async (t) => {
    const parts = [0.1, 0.4, 0.6, 0.8];
    const found = parts.map((part) => attainment(protean, 0.15, part));
    t.equal(found[0], 100);
    for (const [index, one] of found.entries())
      if (index > 0) t.ok(one <= (found[index - 1] ?? 0), `${parts[index]}: ${one}`);
    t.ok((found.at(-1) ?? 100) < 90);
    t.ok(attainment(naive, 0.15, 0.4) < (found[1] ?? 0), 'turn by turn is worse than by slowdown');
    t.equal(attainment(protean, 0.15, 0.6), attainment(protean, 0.15, 0.6), 'the same again');
  },
);

t.test('what is fitted gives what was wanted', async (t) => {
  const alone = fitted(60.12, (seconds) => attainment(molecule, seconds, 0.5), 0.02, 0.5);
  t.ok(Math.abs(attainment(molecule, alone, 0.5) - 60.12) < 0.5, `${alone} s`);
});
