// A wait costs no processor time, neither the program's nor the server's, on a device whose driver
// spins (the trait `spinning`).
import { readFileSync } from 'node:fs';
import t from 'tap';
import { noPrograms } from '../../support/paths.js';
import { native, remoted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';

const program = testProgram('long-waits');
const env = { SOFTWARE_DEVICE_TRAITS: 'spinning' };

/** The shares of each wait, in percent. */
const shares = (said: string) =>
  [...said.matchAll(/([\d.]+) %/g)].map(([, share]) => Number(share));

/** Processor time of a process so far, in hundredths of a second. */
function used(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return Number(fields[11]) + Number(fields[12]);
}

t.test('natively it spins', { skip: noPrograms }, async (t) => {
  const { code, stderr } = await native(program, { env });
  t.equal(code, 0, stderr);
  for (const share of shares(stderr)) t.ok(share > 2, stderr);
});

t.test('remoted nobody does', { skip: noPrograms }, async (t) => {
  const server = await startServer({ env });
  t.teardown(() => server.stop());
  await remoted(program, server.address); // loads what is loaded once
  const before = server.slots().reduce((sum, pid) => sum + used(pid), 0);
  const { code, stdout, stderr } = await remoted(program, server.address);
  const after = server.slots().reduce((sum, pid) => sum + used(pid), 0);
  t.equal(code, 0, stderr);
  t.equal(stdout.split('\n').length, 6);
  for (const share of shares(stderr)) t.ok(share < 1, stderr);
  // All of the session, which begins and ends; the waits are 5 seconds.
  t.ok(after - before < 25, `the server used ${after - before} hundredths of a second`);
  t.comment(`the server used ${after - before} hundredths of a second`);
});
