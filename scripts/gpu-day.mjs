// npm run gpu-day [-- OPTION...]: sets everything up, then runs a first day on the GPU of this machine
// (bench/gpu-day). With --bundle DIR: sets everything up, then makes an archive there that does so on
// another machine. With --no-build: of what is built already.
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { js } from '../bin/paths.mjs';
import { thisRelease } from './package/deb.mjs';
import { gpuDayArchive, mebibytes } from './package/gpu-day.mjs';
import { environment, setUp } from './setup/all.mjs';
import { attached } from './setup/command.mjs';
import { runMain, SetupError } from './setup/step.mjs';

await runMain(async () => {
  const args = process.argv.slice(2);
  const { values } = parseArgs({
    args,
    strict: false,
    options: {
      bundle: { type: 'string' },
      help: { type: 'boolean' },
      'no-build': { type: 'boolean' },
    },
  });
  const main = join(js, 'bench', 'gpu-day', 'main.js');
  // What can be said at once is not kept until all is built.
  if (values['help'] && existsSync(main)) return attached([process.execPath, main, '--help']);
  const built = { nvcc: undefined, examplesFailed: undefined };
  const ready = values['no-build'] ? built : await setUp('tests');
  if (ready.nvcc && 'reason' in ready.nvcc)
    throw new SetupError(`${ready.nvcc.reason}\nA day on a GPU runs programs of nvcc.`);
  if (ready.examplesFailed) throw ready.examplesFailed;
  if (values['bundle'] === undefined) {
    const rest = args.filter((arg) => arg !== '--no-build');
    return attached([process.execPath, '--enable-source-maps', main, ...rest], {
      env: { ...environment(ready), CUDA_VISIBLE_DEVICES: process.env['CUDA_VISIBLE_DEVICES'] },
    });
  }
  const out = resolve(`${values['bundle']}`);
  mkdirSync(out, { recursive: true });
  const archive = await gpuDayArchive(out, await thisRelease());
  const size = mebibytes(statSync(archive).size);
  console.log(`${relative(process.cwd(), archive)}, ${size}. On a machine with a GPU:

    tar -xzf outboard-gpu-day.tar.gz && outboard-gpu-day/gpu-day`);
  return 0;
});
