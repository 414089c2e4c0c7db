// Every kernel that CuPy brings along translates; and how refusals are judged.
import { existsSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { build } from '../../../bin/paths.mjs';
import { glob } from '../../../scripts/setup/glob.mjs';
import { librariesIn } from './packages.js';
import { check, judge } from './verdict.js';

const [cupy] = glob(`${build}/clients/lib/python3*/site-packages/cupy/cuda`);
const skip =
  cupy && existsSync(path.join(build, 'clients', 'outboard-packages.txt'))
    ? false
    : 'CuPy is not installed';

t.test("CuPy's kernels", { skip }, async (t) => {
  const tool = path.join(build, 'software-device', 'software-device-check');
  const verdict = await check(tool, librariesIn(cupy ?? ''));
  t.same(verdict.faults, []);
  t.ok(verdict.kernels > 800, `${verdict.kernels} kernels`);
  t.equal(verdict.translated, verdict.kernels);
});

t.test('a refusal is a fault, or named as left out', async (t) => {
  const kernel = (refusal?: string) => ({
    ...{ name: 'k', microseconds: 10, bytes: 100, translated: refusal === undefined },
    ...(refusal !== undefined && { refusal }),
  });
  const kernels = [
    kernel(),
    kernel('PTX line 7: not supported: `wgmma.fence.sync.aligned;`'),
    kernel('PTX line 8: unknown: `@%p1 cp.async.bulk.tensor.2d.shared::cta.global [%r1], [%r2];`'),
    kernel('PTX line 9: unknown instruction: `cp.async.bulk.shared::cta.global [%r1], [%r2];`'),
  ];
  const modules = [
    { ptxBytes: 1000, indexMicroseconds: 2, kernels },
    { ptxBytes: 0, indexMicroseconds: 0, refusal: 'no PTX that ...', kernels: [] },
    { ptxBytes: 9, indexMicroseconds: 0, refusal: 'it is damaged', kernels: [] },
  ];
  const verdict = judge({ files: [{ file: 'f', modules }] });
  t.match(verdict, { modules: 3, withoutPtx: 1, kernels: 4, translated: 1, ptxBytes: 1009 });
  t.same(
    [...verdict.leftOut],
    [
      ['wgmma', 1],
      ['cp.async.bulk.tensor', 1],
    ],
  );
  t.equal(verdict.faults.length, 2);
});
