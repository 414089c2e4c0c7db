// What a tenant finds in memory of every kind after another has filled it: nothing, in a process that is
// new for it. In the same process shared and local memory of kernels are as their last user left
// them, on any GPU; all else is overwritten.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { hashAccessToken, newAccessToken } from '../../../monitor/src/tenants/access-token.js';
import { noPrograms } from '../../support/paths.js';
import { remoted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';

const overwritten = [
  ...['allocation', 'pool', 'managed', 'pinned', 'piece', 'array', 'variable'],
  ...['managed variable', 'download'],
];
const ofKernels = ['shared', 'local'];

for (const newProcess of ['never', 'tenant']) {
  t.test(`--new-process ${newProcess}`, { skip: noPrograms }, async (t) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'outboard-tenants-'));
    t.teardown(() => rmSync(folder, { recursive: true }));
    const file = path.join(folder, 'tenants.yaml');
    const [one, other] = [newAccessToken(), newAccessToken()];
    const entries = [one, other].map(
      (token, index) =>
        `  - name: t${index}\n    tokens: [{ hash: '${hashAccessToken(token)}' }]\n`,
    );
    writeFileSync(file, `version: v1\ntenants:\n${entries.join('')}`);
    const args = ['--device', 'software', '--servers-per-gpu', '1', '--tenants', file];
    // Nothing is overwritten but by us.
    const env = { SOFTWARE_DEVICE_TRAITS: 'residue' };
    const server = await startServer({ args: [...args, '--new-process', newProcess], env });
    t.teardown(() => server.stop());
    const run = async (program: string, what: string, token: string) => {
      const env = { OUTBOARD_TOKEN: token };
      const ran = await remoted(testProgram(program), server.address, { args: [what], env });
      t.equal(ran.code, 0, ran.stderr);
      await server.rested();
      return new Map(
        [...ran.stdout.matchAll(/^(.*): (\d+)$/gm)].map(([, kind, words]) => [kind, Number(words)]),
      );
    };
    for (let round = 0; round < 2; round++) {
      await run('leftovers', 'leave', one);
      const found = await run('leftovers', 'look', other);
      t.equal(found.size, overwritten.length + ofKernels.length);
      const kinds = newProcess === 'tenant' ? [...overwritten, ...ofKernels] : overwritten;
      for (const kind of kinds) t.equal(found.get(kind), 0, kind);
    }
    const begun = server.log().matchAll(/"slotPid":(\d+)[^\n]*"msg":"session begins"/g);
    const processes = new Set([...begun].map(([, pid]) => pid));
    t.equal(processes.size, newProcess === 'never' ? 1 : 4);
    // A heap that was used ends its process, whoever comes next.
    await run('leftover-heap', 'leave', one);
    t.equal((await run('leftover-heap', 'look', other)).get('heap'), 0);
  });
}
