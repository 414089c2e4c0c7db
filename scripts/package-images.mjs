// npm run package:images [-- NAME ...]: builds what runs, then build/package/NAME_VERSION_ARCH.oci.tar of each image, or
// of those named, by buildah. With --no-build: of what is built already.
import { mkdirSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../bin/paths.mjs';
import { thisRelease } from './package/deb.mjs';
import { images, packImage } from './package/image.mjs';
import { setUp } from './setup/all.mjs';
import { runMain, SetupError } from './setup/step.mjs';

await runMain(async () => {
  const { values, positionals } = parseArgs({
    options: { 'no-build': { type: 'boolean' }, out: { type: 'string' } },
    allowPositionals: true,
  });
  const names = images.map(({ name }) => name);
  const unknown = positionals.find((name) => !names.includes(name));
  if (unknown) throw new SetupError(`There is no image ${unknown}; there are ${names.join(', ')}.`);
  if (!values['no-build']) await setUp('runtime');
  const out = resolve(values.out ?? join(build, 'package'));
  mkdirSync(out, { recursive: true });
  const release = await thisRelease();
  for (const image of images) {
    if (positionals.length > 0 && !positionals.includes(image.name)) continue;
    console.log(relative(process.cwd(), await packImage(image, out, release)));
  }
  return 0;
});
