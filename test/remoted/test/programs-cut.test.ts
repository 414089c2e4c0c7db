// All programs say what they say natively while their connections are cut again and again, at bytes that a seed chooses.
// At night all of them; else a few. cuts.test.ts tells more of how.
import t from 'tap';
import { allPrograms, wantedPrograms } from '../../support/all-programs.js';
import { seeded, startCuttingProxy } from '../../support/cutting-proxy.js';

import { noPrograms } from '../../support/paths.js';
import { native, type Outcome, remoted } from '../../support/program.js';
import { startServer } from '../../support/server.js';

/** How often each of them is run. */
const rounds = Number(process.env['OUTBOARD_TEST_CUTS'] ?? (process.env['NIGHTLY'] ? 2 : 1));
const few = ['kmeans', 'symbols', 'signals', 'callbacks', 'stream-values', 'graph-conditional'];

const said = ({ code, signal, stdout }: Outcome) => ({ code, signal, stdout });

t.test('again and again', { skip: noPrograms }, async (t) => {
  const args = ['--device', 'software', '--gpus', '1', '--servers-per-gpu', '2'];
  const server = await startServer({ args: [...args, '--grace-disconnected', '20'] });
  t.teardown(() => server.stop());
  let cuts = 0;
  for (const { name, path, args } of wantedPrograms(allPrograms, few)) {
    const here = said(await native(path, { args }));
    for (let seed = 1; seed <= rounds; seed++) {
      const random = seeded(seed);
      // The first may be cut within Hello and Welcome, which ends in an error: behind them.
      const after = (connection: number) => 1_000 + Math.floor(random() * 4_000 * 2 ** connection);
      const proxy = await startCuttingProxy(server.address, { after, reset: () => random() < 0.5 });
      const there = await remoted(path, proxy.address, { args });
      t.same(said(there), here, `${name}, seed ${seed}, ${proxy.cuts()} cuts: ${there.stderr}`);
      cuts += proxy.cuts();
      await proxy.close();
    }
  }
  t.ok(cuts > 0, `${cuts} cuts`);
  t.notMatch(server.log(), /"level":(50|60)/, 'the server has met no error');
});
