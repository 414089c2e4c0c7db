// Where parameters of kernels lie, as the executor reads it from images (api-server/executor/images/layouts.h): for
// every kernel of every program the same as the device tells (test/layouts).
import { readdirSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { build, noPrograms, softwareDevice } from '../../support/paths.js';
import { native, testProgram } from '../../support/program.js';

const compare = path.join(build, 'test', 'layouts', 'compare-layouts');

interface Counts {
  modules: number;
  refused: number;
  kernels: number;
  known: number;
}

async function counts(t: Test, files: string[], traits = ''): Promise<Map<string, Counts>> {
  const run = await native(compare, {
    args: [softwareDevice, ...files],
    env: { SOFTWARE_DEVICE_TRAITS: traits },
  });
  const told = run.stderr.replace(/^software-device: .*\n/gm, '');
  t.equal(run.code, 0, `no kernel differs: ${told}`);
  return new Map(
    run.stdout
      .split('\n')
      .filter(Boolean)
      .map((line) => {
        const [file = '', modules, refused, kernels, known] = line.split(' ');
        return [
          path.basename(file),
          {
            modules: Number(modules),
            refused: Number(refused),
            kernels: Number(kernels),
            known: Number(known),
          },
        ];
      }),
  );
}

const filesIn = (folder: string) =>
  readdirSync(path.join(build, folder), { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => path.join(build, folder, name));

/** They take tensor maps, which are aligned to 64 bytes: where such parameters lie PTX does not tell. */
const aligned = new Set(['tensor-gemm', 'tensor-maps', 'tensor-modes', 'wgmma-gemm']);

t.test('of PTX', { skip: noPrograms }, async (t) => {
  const all = await counts(t, [...filesIn('examples'), ...filesIn('test-programs')]);
  for (const [name, { kernels, known }] of all) {
    if (aligned.has(name)) t.ok(known < kernels, `${name}: the driver has to be asked`);
    else t.equal(known, kernels, `${name}: of all kernels`);
  }
  t.ok(all.size > 100, `${all.size} programs`);
});

t.test('of machine code', { skip: noPrograms }, async (t) => {
  const all = await counts(t, [testProgram('machine-code')], 'device=h100,empty-cubins');
  t.match(all.get('machine-code'), { kernels: 8, known: 8 });
});
