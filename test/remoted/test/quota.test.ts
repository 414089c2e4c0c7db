// Programs that are held back to a share of the GPU compute the same, two at a time, under every
// quota policy, with copies and fills counted as well as kernels.
import t from 'tap';
import { listPrograms } from '../../../examples/build.mjs';
import { quotaPolicies } from '../../../monitor/policies/index.js';
import { noPrograms, root } from '../../support/paths.js';
import { example, native, remoted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';

const programs = listPrograms(`${root}/examples`);
const natively = new Map<string, Promise<{ stdout: string }>>();

function expected({ name, testArgs }: (typeof programs)[number]) {
  const known = natively.get(name) ?? native(example(name), { args: testArgs });
  natively.set(name, known);
  return known;
}

for (const policy of quotaPolicies.keys()) {
  t.test(`policy ${policy}`, { skip: noPrograms }, async (t) => {
    const args = ['--device', 'software', '--servers-per-gpu', '2', '--quota', policy];
    const server = await startServer({ args: [...args, '--gate', 'copies,sets'] });
    t.teardown(() => server.stop());
    const both = (program: (typeof programs)[number]) =>
      ['20:30', '30:100'].map((share) =>
        remoted(example(program.name), server.address, {
          args: program.testArgs,
          env: { OUTBOARD_SHARE: share },
        }),
      );
    for (const program of programs) {
      const { stdout } = await expected(program);
      for (const there of await Promise.all(both(program))) {
        t.equal(there.code, 0, `${program.name}: ${there.stderr}`);
        t.equal(there.stdout, stdout, program.name);
      }
    }
    t.notMatch(server.log(), /"level":(50|60)/, 'the server has met no error');
  });
}

// A driver may call all functions of a process one after the other.
for (const policy of ['device-time', 'host-time']) {
  t.test(`functions beside what ${policy} holds`, { skip: noPrograms }, async (t) => {
    const server = await startServer({
      args: ['--device', 'software', '--servers-per-gpu', '2', '--quota', policy],
      env: { SOFTWARE_DEVICE_TRAITS: 'serial-host-functions' },
    });
    t.teardown(() => server.stop());
    const there = await remoted(testProgram('held-beside-functions'), server.address, {
      env: { OUTBOARD_SHARE: '5:5' },
    });
    t.same([there.code, there.stdout], [0, 'counted: 600\n'], there.stderr);
  });
}

t.test('device time of a program that is over in no time', { skip: noPrograms }, async (t) => {
  const server = await startServer({ args: ['--device', 'software', '--http', '127.0.0.1:0'] });
  t.teardown(() => server.stop());
  const { code, stderr } = await remoted(example('vector-add'), server.address, {
    args: ['--size', '1000'],
  });
  t.equal(code, 0, stderr);
  await server.logged(/"msg":"session ends/);
  const [, seconds = '', device = ''] =
    /"seconds":([\d.e-]+),"deviceSeconds":([\d.e-]+)/.exec(server.log()) ?? [];
  t.ok(Number(device) > 0 && Number(device) <= Number(seconds), `${device} s of ${seconds} s`);
  const [, http = ''] = /"http":\["([\d.:]+)"\]/.exec(server.log()) ?? [];
  const metrics = await (await fetch(`http://${http}/metrics`)).text();
  const [, counted = ''] =
    /^outboard_session_device_seconds_total\{.*\} (\S+)$/m.exec(metrics) ?? [];
  t.equal(Number(counted), Number(device));
});
